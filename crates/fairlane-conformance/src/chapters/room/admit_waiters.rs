//! `admit_waiters`: brings one room up to date.

use fairlane_core::Rate;
use fairlane_core::limits::{ROOM_ACTIVE_TTL_MS, ROOM_STEP_PLACES_MAX};
use fairlane_core::room::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    free_places_are_filled_longest_waiting_first,
    full_room_admits_none,
    empty_room_admits_none,
    place_whose_time_is_over_goes_to_the_next,
    nothing_ends_before_its_time,
    schedulers_at_once_never_exceed_the_limit,
    admission_keeps_to_its_rate,
    step_is_bounded,
];

async fn free_places_are_filled_longest_waiting_first(rooms: Subject) {
    rooms.set_max_active(0).await;
    for user in ["one", "two", "three", "four"] {
        rooms.join(user).await;
    }
    rooms.set_max_active(3).await;
    assert_eq!(rooms.places(PlaceListing::Active).await.len(), 3);
    assert_eq!(position(&rooms.show_place("four").await), Some(1));
    let expected = WaitersAdmitted { admitted: 0, expired: 0, silent: 0, active: 3, waiting: 1 };
    assert_eq!(rooms.admit_waiters().await, expected);
}

async fn full_room_admits_none(rooms: Subject) {
    rooms.set_max_active(2).await;
    for user in ["one", "two", "three"] {
        rooms.join(user).await;
    }
    let reply = rooms.admit_waiters().await;
    assert_eq!((reply.admitted, reply.active, reply.waiting), (0, 2, 1));
}

async fn empty_room_admits_none(rooms: Subject) {
    assert_eq!(rooms.admit_waiters().await, WaitersAdmitted::default());
    rooms.join("one").await;
    rooms.leave_room("one").await;
    assert_eq!(rooms.admit_waiters().await, WaitersAdmitted::default());
}

/// Erratum W5.
async fn place_whose_time_is_over_goes_to_the_next(rooms: Subject) {
    rooms.set_max_active(2).await;
    rooms.join("one").await;
    rooms.advance_ms(1000);
    rooms.join("two").await;
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS - 2000);
    rooms.join("three").await;
    rooms.advance_ms(1000);
    let reply = rooms.admit_waiters().await;
    assert_eq!((reply.admitted, reply.expired, reply.active, reply.waiting), (1, 1, 2, 0));
    assert_eq!(rooms.show_place("one").await, PlaceView::Unknown);
    assert!(is_active(&rooms.show_place("three").await));
}

async fn nothing_ends_before_its_time(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    rooms.advance_ms(1000);
    let reply = rooms.admit_waiters().await;
    assert_eq!((reply.expired, reply.silent, reply.active, reply.waiting), (0, 0, 1, 1));
}

/// Erratum W1. Erratum W8.
async fn schedulers_at_once_never_exceed_the_limit(rooms: Subject) {
    rooms.set_max_active(0).await;
    for number in 0..200 {
        rooms.join(&format!("u{number}")).await;
    }
    rooms.set_room(RoomSettings { max_active: 50, ..RoomSettings::default() }).await;
    let mut tasks = Vec::new();
    for number in 0..64 {
        let rooms = rooms.clone();
        tasks.push(tokio::spawn(async move {
            let left = rooms.leave_room(&format!("u{number}")).await.active;
            left.max(rooms.admit_waiters().await.active)
        }));
    }
    for task in tasks {
        assert!(task.await.expect("the task ends") <= 50);
    }
    assert_eq!((rooms.room().await.active, rooms.room().await.waiting), (50, vec![86]));
}

async fn admission_keeps_to_its_rate(rooms: Subject) {
    let rate = Some(Rate::new(60, 60_000, Some(2)).expect("a valid rate"));
    rooms.set_room(RoomSettings { rate, ..RoomSettings::default() }).await;
    for number in 0..10 {
        rooms.join(&format!("u{number}")).await;
    }
    assert_eq!(rooms.room().await.active, 2, "the burst");
    rooms.advance_ms(999);
    assert_eq!(rooms.admit_waiters().await.admitted, 0);
    rooms.advance_ms(1);
    assert_eq!(rooms.admit_waiters().await.admitted, 1);
    rooms.advance_ms(60_000);
    assert_eq!(rooms.admit_waiters().await.admitted, 2, "no more than the burst is saved");
}

async fn step_is_bounded(rooms: Subject) {
    rooms.set_max_active(0).await;
    let users = 5 * ROOM_STEP_PLACES_MAX;
    for number in 0..users {
        rooms.join(&format!("u{number}")).await;
    }
    rooms.set_max_active(users as u32).await;
    let mut steps = 1;
    while rooms.room().await.waiting != [0] {
        assert!(rooms.sweep_rooms().await.rooms == 1, "it is due while there is more to admit");
        steps += 1;
        assert!(steps < 10);
    }
    assert!(steps > 1);
    assert_eq!(rooms.room().await.active, users as u64);
}
