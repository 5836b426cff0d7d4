//! `leave_room`: gives up a place, waiting or active.

use fairlane_core::room::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    place_that_is_left_goes_to_the_next_waiter_in_the_same_step,
    waiter_that_leaves_is_not_admitted,
    unknown_token_is_reported,
    user_who_left_joins_behind_the_others,
];

/// Erratum W4.
async fn place_that_is_left_goes_to_the_next_waiter_in_the_same_step(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    assert_eq!(rooms.leave_room("one").await, PlaceLeft { was_there: true, active: 1 });
    assert!(is_active(&rooms.show_place("two").await));
    let view = rooms.room().await;
    assert_eq!((view.active, view.waiting, view.totals.left), (1, vec![0], 1));
    assert_eq!(rooms.places(PlaceListing::Active).await, [("two".into(), 0)]);
}

async fn waiter_that_leaves_is_not_admitted(rooms: Subject) {
    rooms.set_max_active(1).await;
    for user in ["one", "two", "three"] {
        rooms.join(user).await;
    }
    assert_eq!(rooms.leave_room("two").await, PlaceLeft { was_there: true, active: 1 });
    rooms.leave_room("one").await;
    assert!(is_active(&rooms.show_place("three").await));
}

async fn unknown_token_is_reported(rooms: Subject) {
    assert_eq!(rooms.leave_room("one").await, PlaceLeft { was_there: false, active: 0 });
    rooms.join("one").await;
    assert_eq!(rooms.leave_room("two").await, PlaceLeft { was_there: false, active: 1 });
    rooms.leave_room("one").await;
    assert_eq!(rooms.leave_room("one").await, PlaceLeft { was_there: false, active: 0 });
}

async fn user_who_left_joins_behind_the_others(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.join("one").await;
    rooms.join("two").await;
    rooms.leave_room("one").await;
    assert_eq!(position(&rooms.join("one").await), Some(2));
}
