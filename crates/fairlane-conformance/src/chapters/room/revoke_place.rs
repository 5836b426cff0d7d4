//! `revoke_place`: takes a user's place away.

use fairlane_core::room::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] =
    cases![revoked_place_goes_to_the_next, waiter_can_be_removed, user_without_a_place_is_reported];

async fn revoke(rooms: &Subject, user: &str) -> PlaceLeft {
    let command = RevokePlace { room: room_name("default"), user: user_id(user) };
    rooms.engine.call(command).await.expect("revoke_place is answered")
}

async fn revoked_place_goes_to_the_next(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    assert_eq!(revoke(&rooms, "one").await, PlaceLeft { was_there: true, active: 1 });
    assert_eq!(rooms.show_place("one").await, PlaceView::Unknown);
    assert!(is_active(&rooms.show_place("two").await));
    assert_eq!(rooms.room().await.totals.revoked, 1);
}

async fn waiter_can_be_removed(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.join("one").await;
    rooms.join("two").await;
    assert!(revoke(&rooms, "one").await.was_there);
    assert_eq!(position(&rooms.show_place("two").await), Some(1));
}

async fn user_without_a_place_is_reported(rooms: Subject) {
    assert_eq!(revoke(&rooms, "one").await, PlaceLeft { was_there: false, active: 0 });
    rooms.join("one").await;
    assert_eq!(revoke(&rooms, "two").await, PlaceLeft { was_there: false, active: 1 });
}
