//! `sweep_rooms`: brings rooms up to date that no other command reaches.

use fairlane_core::Rate;
use fairlane_core::limits::{ROOM_ACTIVE_TTL_MS, ROOM_POLL_MS_MIN, ROOM_RETENTION_MS, SWEEP_ROOMS_MAX};
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    ended_places_are_refilled,
    silent_waiters_are_dropped,
    rate_admits_when_it_is_due,
    reply_says_when_the_next_room_is_due,
    arguments_out_of_range_are_invalid,
];

async fn ended_places_are_refilled(rooms: Subject) {
    let settings =
        RoomSettings { max_active: 1, retention_ms: ROOM_ACTIVE_TTL_MS, ..RoomSettings::default() };
    rooms.set_room(settings).await;
    rooms.join("one").await;
    rooms.join("two").await;
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS);
    assert_eq!(rooms.sweep_rooms().await.rooms, 1);
    assert!(is_active(&rooms.show_place("two").await));
    assert_eq!(rooms.room().await.totals.expired, 1);
}

async fn silent_waiters_are_dropped(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.join("one").await;
    rooms.advance_ms(ROOM_RETENTION_MS + ROOM_POLL_MS_MIN);
    assert_eq!(rooms.sweep_rooms().await, RoomsSwept { rooms: 1, next_in_us: None });
    assert_eq!((rooms.room().await.waiting, rooms.room().await.totals.silent), (vec![0], 1));
}

async fn rate_admits_when_it_is_due(rooms: Subject) {
    let rate = Some(Rate::new(60, 60_000, Some(1)).expect("a valid rate"));
    rooms.set_room(RoomSettings { rate, ..RoomSettings::default() }).await;
    rooms.join("one").await;
    rooms.join("two").await;
    assert_eq!(rooms.sweep_rooms().await, RoomsSwept { rooms: 0, next_in_us: Some(1_000_000) });
    rooms.advance_ms(1000);
    assert_eq!(rooms.sweep_rooms().await.rooms, 1);
    assert!(is_active(&rooms.show_place("two").await));
}

async fn reply_says_when_the_next_room_is_due(rooms: Subject) {
    assert_eq!(rooms.sweep_rooms().await, RoomsSwept { rooms: 0, next_in_us: None });
    rooms.join("one").await;
    let ttl_us = ROOM_ACTIVE_TTL_MS * 1000;
    assert_eq!(rooms.sweep_rooms().await, RoomsSwept { rooms: 0, next_in_us: Some(ttl_us) });
    for name in ["a", "b"] {
        rooms.try_join(JoinRoom { room: room_name(name), ..joining("one") }).await;
    }
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS);
    let first = rooms.engine.call(SweepRooms { rooms_max: 2 }).await.expect("sweep_rooms is answered");
    assert_eq!(first, RoomsSwept { rooms: 2, next_in_us: Some(0) });
    assert_eq!(rooms.sweep_rooms().await.rooms, 1);
}

async fn arguments_out_of_range_are_invalid(rooms: Subject) {
    for rooms_max in [0, SWEEP_ROOMS_MAX + 1] {
        let refused = rooms.engine.call(SweepRooms { rooms_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
