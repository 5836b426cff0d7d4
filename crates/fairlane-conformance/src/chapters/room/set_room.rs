//! `set_room`: sets the limits of a room.

use fairlane_core::Rate;
use fairlane_core::limits::{ROOM_ACTIVE_LIMIT, ROOM_CLASSES_MAX, ROOM_IDLE_MS, ROOM_TTL_MS_MAX, WEIGHT_MAX};
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    raised_limit_admits_at_once,
    lowered_limit_drains,
    time_of_a_place_is_that_of_its_admission,
    classes_share_admissions_by_weight,
    class_with_waiters_cannot_be_removed,
    rate_can_be_set_and_cleared,
    empty_room_with_default_limits_is_forgotten,
    arguments_out_of_range_are_invalid,
];

async fn raised_limit_admits_at_once(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    let settings = RoomSettings { max_active: 2, ..RoomSettings::default() };
    assert_eq!(rooms.set_room(settings).await, RoomSet::Set { active: 2 });
    assert!(is_active(&rooms.show_place("two").await));
}

async fn lowered_limit_drains(rooms: Subject) {
    rooms.set_max_active(3).await;
    for user in ["one", "two", "three", "four"] {
        rooms.join(user).await;
    }
    rooms.set_max_active(1).await;
    assert_eq!(rooms.room().await.active, 3, "no place is taken away");
    assert_eq!(rooms.leave_room("one").await.active, 2);
    assert_eq!(rooms.leave_room("two").await.active, 1);
    assert_eq!(position(&rooms.show_place("four").await), Some(1));
    rooms.leave_room("three").await;
    assert!(is_active(&rooms.show_place("four").await));
}

async fn time_of_a_place_is_that_of_its_admission(rooms: Subject) {
    rooms.join("one").await;
    rooms.set_room(RoomSettings { active_ttl_ms: 5000, ..RoomSettings::default() }).await;
    assert_eq!(rooms.join("two").await, rooms.active_for("two", 5_000_000));
    rooms.advance_ms(5000);
    assert!(is_active(&rooms.show_place("one").await));
    assert_eq!(rooms.show_place("two").await, PlaceView::Unknown);
}

async fn classes_share_admissions_by_weight(rooms: Subject) {
    let settings = RoomSettings { max_active: 0, weights: vec![4, 1], ..RoomSettings::default() };
    rooms.set_room(settings.clone()).await;
    for number in 0..20 {
        rooms.try_join(JoinRoom { class: 1, ..joining(&format!("low{number}")) }).await;
        rooms.join(&format!("high{number}")).await;
    }
    rooms.set_room(RoomSettings { max_active: 20, ..settings }).await;
    assert_eq!(rooms.room().await.waiting, [4, 16]);
    assert!(is_active(&rooms.show_place("low3").await), "first in, first out within a class");
    assert!(!is_active(&rooms.show_place("low4").await));
}

async fn class_with_waiters_cannot_be_removed(rooms: Subject) {
    let two = RoomSettings { max_active: 1, weights: vec![1, 1], ..RoomSettings::default() };
    rooms.set_room(two.clone()).await;
    rooms.try_join(JoinRoom { class: 1, ..joining("one") }).await;
    rooms.try_join(JoinRoom { class: 1, ..joining("two") }).await;
    let one = RoomSettings { weights: vec![1], ..two };
    assert_eq!(rooms.set_room(one.clone()).await, RoomSet::ClassInUse);
    assert_eq!(rooms.room().await.settings.weights, [1, 1]);
    rooms.leave_room("two").await;
    assert_eq!(rooms.set_room(one).await, RoomSet::Set { active: 1 });
}

async fn rate_can_be_set_and_cleared(rooms: Subject) {
    let rate = Some(Rate::new(1, 60_000, Some(1)).expect("a valid rate"));
    let settings = RoomSettings { rate, ..RoomSettings::default() };
    rooms.set_room(settings.clone()).await;
    rooms.join("one").await;
    assert_eq!(position(&rooms.join("two").await), Some(1));
    assert_eq!(rooms.room().await.settings, settings);
    rooms.set_room(RoomSettings::default()).await;
    assert!(is_active(&rooms.show_place("two").await));
}

async fn empty_room_with_default_limits_is_forgotten(rooms: Subject) {
    rooms.join("one").await;
    rooms.leave_room("one").await;
    assert_eq!(rooms.room().await.totals.joined, 1);
    rooms.advance_ms(ROOM_IDLE_MS - 1);
    assert_eq!(rooms.sweep_rooms().await, RoomsSwept { rooms: 0, next_in_us: Some(1000) });
    rooms.advance_ms(1);
    assert_eq!(rooms.sweep_rooms().await, RoomsSwept { rooms: 1, next_in_us: None });
    assert_eq!(rooms.find_room().await, None);
    rooms.set_max_active(2).await;
    rooms.advance_ms(ROOM_IDLE_MS);
    rooms.sweep_rooms().await;
    assert_eq!(rooms.room().await.settings.max_active, 2, "settings are kept");
}

async fn arguments_out_of_range_are_invalid(rooms: Subject) {
    let default = RoomSettings::default;
    for settings in [
        RoomSettings { max_active: ROOM_ACTIVE_LIMIT + 1, ..default() },
        RoomSettings { active_ttl_ms: 999, ..default() },
        RoomSettings { retention_ms: ROOM_TTL_MS_MAX + 1, ..default() },
        RoomSettings { polls_per_second: 0, ..default() },
        RoomSettings { weights: vec![], ..default() },
        RoomSettings { weights: vec![1; ROOM_CLASSES_MAX + 1], ..default() },
        RoomSettings { weights: vec![WEIGHT_MAX + 1], ..default() },
    ] {
        let refused = rooms.engine.call(SetRoom { room: room_name("default"), settings }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
