//! `join_room`: gives a user a place in a room.

use fairlane_core::limits::{ROOM_ACTIVE_TTL_MS, ROOM_CLASSES_MAX, ROOM_MAX_ACTIVE, ROOM_TICKETS};
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    user_gets_a_place_with_a_token,
    user_who_joins_again_keeps_the_same_token_and_place,
    requests_of_one_user_at_once_give_one_token,
    free_places_are_given_at_once_up_to_the_default_limit,
    waiters_stand_in_the_order_of_joining_whatever_the_clock_says,
    user_may_wait_in_several_rooms,
    token_of_another_user_is_refused,
    unknown_class_is_refused,
    arguments_out_of_range_are_invalid,
];

async fn user_gets_a_place_with_a_token(rooms: Subject) {
    let RoomJoined::Joined { token, status } = rooms.try_join(joining("one")).await else { panic!() };
    assert_eq!((token, status.active), (place_token("one"), 1));
    assert_eq!(status.place, rooms.active_for("one", ROOM_ACTIVE_TTL_MS * 1000));
}

/// Erratum W7.
async fn user_who_joins_again_keeps_the_same_token_and_place(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    rooms.join("three").await;
    let again = JoinRoom { token: place_token("another"), ..joining("two") };
    let RoomJoined::Joined { token, status } = rooms.try_join(again).await else { panic!() };
    assert_eq!((token, position(&status.place)), (place_token("two"), Some(1)));
    assert_eq!(rooms.show_place("another").await, PlaceView::Unknown);
    assert_eq!((rooms.room().await.waiting, rooms.room().await.totals.joined), (vec![2], 3));
}

/// Erratum W7.
async fn requests_of_one_user_at_once_give_one_token(rooms: Subject) {
    let mut tasks = Vec::new();
    for number in 0..20 {
        let (rooms, token) = (rooms.clone(), place_token(&format!("t{number}")));
        tasks.push(tokio::spawn(async move { rooms.try_join(JoinRoom { token, ..joining("one") }).await }));
    }
    let mut tokens = std::collections::BTreeSet::new();
    for task in tasks {
        let RoomJoined::Joined { token, .. } = task.await.expect("the task ends") else { panic!() };
        tokens.insert(token);
    }
    assert_eq!((tokens.len(), rooms.room().await.active), (1, 1));
}

async fn free_places_are_given_at_once_up_to_the_default_limit(rooms: Subject) {
    for number in 0..ROOM_MAX_ACTIVE {
        assert!(is_active(&rooms.join(&format!("u{number}")).await));
    }
    assert_eq!(position(&rooms.join("late").await), Some(1));
    assert_eq!(rooms.room().await.active, u64::from(ROOM_MAX_ACTIVE));
}

/// Erratum W6.
async fn waiters_stand_in_the_order_of_joining_whatever_the_clock_says(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.join("b").await;
    rooms.join("a").await;
    rooms.advance_ms(1);
    rooms.join("d").await;
    rooms.join("c").await;
    let order = rooms.places(PlaceListing::Waiting { class: 0 }).await;
    assert_eq!(order, [("b".into(), 1), ("a".into(), 2), ("d".into(), 3), ("c".into(), 4)]);
}

async fn user_may_wait_in_several_rooms(rooms: Subject) {
    rooms.set_max_active(0).await;
    assert_eq!(position(&rooms.join("one").await), Some(1));
    let other = JoinRoom { room: room_name("a:b"), ..joining("one") };
    let RoomJoined::Joined { status, .. } = rooms.try_join(other).await else { panic!() };
    assert!(is_active(&status.place));
}

async fn token_of_another_user_is_refused(rooms: Subject) {
    rooms.join("one").await;
    let stolen = JoinRoom { token: place_token("one"), ..joining("two") };
    assert_eq!(rooms.try_join(stolen).await, RoomJoined::Refused(RoomRefusal::TokenInUse));
    assert_eq!(rooms.room().await.totals.joined, 1);
}

async fn unknown_class_is_refused(rooms: Subject) {
    let join = JoinRoom { class: 1, ..joining("one") };
    assert_eq!(rooms.try_join(join).await, RoomJoined::Refused(RoomRefusal::UnknownClass));
}

async fn arguments_out_of_range_are_invalid(rooms: Subject) {
    for command in [
        JoinRoom { class: ROOM_CLASSES_MAX as u32, ..joining("one") },
        JoinRoom { ticket: Some(ROOM_TICKETS), ..joining("one") },
    ] {
        let refused = rooms.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
