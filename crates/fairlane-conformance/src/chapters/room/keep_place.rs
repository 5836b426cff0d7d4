//! `keep_place`: a waiter's poll, which keeps its place.

use fairlane_core::limits::{ROOM_ACTIVE_TTL_MS, ROOM_POLL_MS_MIN, ROOM_RETENTION_MS};
use fairlane_core::room::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    waiter_that_polls_keeps_its_place_for_any_time,
    waiter_that_comes_back_within_the_retention_has_its_place,
    silent_waiter_loses_its_place_and_the_others_move_up,
    limit_of_silence_follows_the_poll_that_was_asked_for,
    poll_shows_an_active_place_and_does_not_extend_it,
    poll_of_an_unknown_token_changes_nothing,
];

/// Erratum W3.
async fn waiter_that_polls_keeps_its_place_for_any_time(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.join("one").await;
    for _ in 0..10 {
        rooms.advance_ms(ROOM_RETENTION_MS);
        assert_eq!(position(&rooms.keep_place("one").await), Some(1));
    }
    rooms.set_max_active(1).await;
    let whole = rooms.active_for("one", ROOM_ACTIVE_TTL_MS * 1000);
    assert_eq!(rooms.keep_place("one").await, whole, "however long the wait was");
}

async fn waiter_that_comes_back_within_the_retention_has_its_place(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.join("one").await;
    rooms.join("two").await;
    rooms.advance_ms(ROOM_RETENTION_MS + ROOM_POLL_MS_MIN - 1);
    assert_eq!(position(&rooms.join("one").await), Some(1), "a lost tab");
    assert_eq!(position(&rooms.keep_place("two").await), Some(2));
}

/// Erratum W2.
async fn silent_waiter_loses_its_place_and_the_others_move_up(rooms: Subject) {
    rooms.set_max_active(0).await;
    for user in ["one", "two", "three"] {
        rooms.join(user).await;
    }
    rooms.advance_ms(ROOM_RETENTION_MS);
    rooms.keep_place("two").await;
    rooms.keep_place("three").await;
    rooms.advance_ms(ROOM_POLL_MS_MIN);
    assert_eq!(position(&rooms.keep_place("three").await), Some(2));
    rooms.set_max_active(1).await;
    assert!(is_active(&rooms.show_place("two").await), "a ghost holds no place");
    assert_eq!((rooms.room().await.totals.silent, rooms.room().await.active), (1, 1));
    assert_eq!(rooms.keep_place("one").await, PlaceView::Unknown);
}

async fn limit_of_silence_follows_the_poll_that_was_asked_for(rooms: Subject) {
    let settings =
        RoomSettings { max_active: 0, polls_per_second: 10, retention_ms: 1000, ..RoomSettings::default() };
    rooms.set_room(settings).await;
    for number in 0..90 {
        rooms.join(&format!("u{number}")).await;
    }
    assert_eq!(next_poll_ms(&rooms.keep_place("u50").await), 10_000);
    rooms.advance_ms(10_999);
    rooms.admit_waiters().await;
    assert!(position(&rooms.show_place("u50").await).is_some(), "the others were asked to poll earlier");
    rooms.advance_ms(1);
    rooms.admit_waiters().await;
    assert_eq!(rooms.show_place("u50").await, PlaceView::Unknown);
}

async fn poll_shows_an_active_place_and_does_not_extend_it(rooms: Subject) {
    rooms.join("one").await;
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS - 1);
    assert_eq!(rooms.keep_place("one").await, rooms.active_for("one", 1000));
    rooms.advance_ms(1);
    assert_eq!(rooms.keep_place("one").await, PlaceView::Unknown);
}

async fn poll_of_an_unknown_token_changes_nothing(rooms: Subject) {
    assert_eq!(rooms.keep_place("one").await, PlaceView::Unknown);
    assert_eq!(rooms.find_room().await, None);
    rooms.join("one").await;
    assert_eq!(rooms.keep_place("two").await, PlaceView::Unknown);
    assert_eq!(rooms.room().await.active, 1);
}
