//! `show_place`: the state of a place. It does not count as a poll.

use fairlane_core::limits::{ROOM_ACTIVE_TTL_MS, ROOM_RETENTION_MS, ROOM_WINDOW_MS};
use fairlane_core::room::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    active_place_passes,
    waiting_place_shows_its_position,
    unknown_token_and_unknown_room_are_unknown,
    place_whose_time_is_over_is_unknown_before_any_command_removes_it,
    position_counts_the_waiters_of_all_classes,
    time_until_admission_follows_the_measured_rate,
    waiters_far_behind_poll_less_often,
    looking_is_no_sign_of_life,
    look_and_poll_show_the_same,
];

async fn active_place_passes(rooms: Subject) {
    rooms.join("one").await;
    rooms.advance_ms(1000);
    let remaining_us = (ROOM_ACTIVE_TTL_MS - 1000) * 1000;
    assert_eq!(rooms.show_place("one").await, rooms.active_for("one", remaining_us));
}

async fn waiting_place_shows_its_position(rooms: Subject) {
    rooms.set_max_active(1).await;
    for user in ["one", "two", "three"] {
        rooms.join(user).await;
    }
    assert_eq!(position(&rooms.show_place("two").await), Some(1));
    assert_eq!(position(&rooms.show_place("three").await), Some(2));
    rooms.leave_room("two").await;
    assert_eq!(position(&rooms.show_place("three").await), Some(1));
}

async fn unknown_token_and_unknown_room_are_unknown(rooms: Subject) {
    assert_eq!(rooms.show_place("one").await, PlaceView::Unknown);
    rooms.join("one").await;
    assert_eq!(rooms.show_place("two").await, PlaceView::Unknown);
    rooms.leave_room("one").await;
    assert_eq!(rooms.show_place("one").await, PlaceView::Unknown);
}

async fn place_whose_time_is_over_is_unknown_before_any_command_removes_it(rooms: Subject) {
    rooms.join("one").await;
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS);
    assert_eq!(rooms.show_place("one").await, PlaceView::Unknown);
    assert_eq!(rooms.room().await.active, 0);
}

async fn position_counts_the_waiters_of_all_classes(rooms: Subject) {
    let settings = RoomSettings { max_active: 0, weights: vec![3, 1], ..RoomSettings::default() };
    rooms.set_room(settings.clone()).await;
    for number in 0..6 {
        rooms.join(&format!("high{number}")).await;
        rooms.try_join(JoinRoom { class: 1, ..joining(&format!("low{number}")) }).await;
    }
    assert_eq!(position(&rooms.show_place("high0").await), Some(1));
    assert_eq!(position(&rooms.show_place("low0").await), Some(2));
    assert_eq!(position(&rooms.show_place("high3").await), Some(5), "behind three and one");
    assert_eq!(position(&rooms.show_place("low1").await), Some(6));
    assert_eq!(position(&rooms.show_place("low5").await), Some(12));
    rooms.set_room(RoomSettings { max_active: 5, ..settings }).await;
    assert!(is_active(&rooms.show_place("high3").await) && is_active(&rooms.show_place("low0").await));
    assert_eq!(position(&rooms.show_place("low1").await), Some(1));
}

async fn time_until_admission_follows_the_measured_rate(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.leave_room("one").await;
    rooms.advance_ms(2 * ROOM_WINDOW_MS);
    for number in 0..20 {
        rooms.join(&format!("u{number}")).await;
    }
    // One admission with a spread of two, of which at least one counts: from one to three.
    let PlaceView::Waiting { eta: Some(eta), .. } = rooms.show_place("u10").await else { panic!() };
    assert_eq!((eta.least_ms, eta.most_ms), (10 * ROOM_WINDOW_MS / 3, 10 * ROOM_WINDOW_MS));
    for number in 0..9 {
        rooms.leave_room(&format!("u{number}")).await;
    }
    // Ten admissions with a spread of six, for the second in line.
    let PlaceView::Waiting { eta: Some(eta), .. } = rooms.show_place("u11").await else { panic!() };
    assert_eq!((eta.least_ms, eta.most_ms), (2 * ROOM_WINDOW_MS / 16, 2 * ROOM_WINDOW_MS / 4));
    rooms.pause_room(Some("maintenance")).await;
    assert!(matches!(rooms.show_place("u11").await, PlaceView::Waiting { eta: None, .. }));
    rooms.advance_ms(2 * ROOM_WINDOW_MS);
    rooms.pause_room(None).await;
    assert!(matches!(rooms.show_place("u11").await, PlaceView::Waiting { eta: None, .. }), "none lately");
}

async fn waiters_far_behind_poll_less_often(rooms: Subject) {
    let settings = RoomSettings { max_active: 0, polls_per_second: 10, ..RoomSettings::default() };
    rooms.set_room(settings).await;
    for number in 0..90 {
        rooms.join(&format!("u{number}")).await;
    }
    assert_eq!(next_poll_ms(&rooms.show_place("u0").await), 1000);
    // Nine polls in a second for ninety waiters.
    assert_eq!(next_poll_ms(&rooms.show_place("u1").await), 10_000);
    assert_eq!(next_poll_ms(&rooms.show_place("u89").await), 10_000);
}

async fn looking_is_no_sign_of_life(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.join("one").await;
    rooms.advance_ms(ROOM_RETENTION_MS);
    assert_eq!(position(&rooms.show_place("one").await), Some(1));
    rooms.advance_ms(1000);
    rooms.admit_waiters().await;
    assert_eq!(rooms.show_place("one").await, PlaceView::Unknown);
}

/// `show_place` has a shorter code path for the most common places.
async fn look_and_poll_show_the_same(rooms: Subject) {
    let check = async |tokens: &[&str]| {
        for token in tokens {
            let (room, token) = (room_name("default"), place_token(token));
            let show = ShowPlace { room: room.clone(), token: token.clone() };
            let shown = rooms.engine.call(show).await.expect("show_place is answered");
            let kept = rooms.engine.call(KeepPlace { room, token: token.clone() }).await;
            assert_eq!(shown, kept.expect("keep_place is answered"), "{token}");
        }
    };
    let settings = RoomSettings { max_active: 2, polls_per_second: 10, ..RoomSettings::default() };
    rooms.set_room(settings.clone()).await;
    for number in 0..40 {
        rooms.join(&format!("u{number}")).await;
    }
    check(&["u1", "u2", "u3", "u39", "unknown"]).await;
    rooms.advance_ms(ROOM_WINDOW_MS / 2);
    rooms.leave_room("u0").await;
    check(&["u2", "u3", "u39"]).await;
    rooms.pause_room(Some("Back: at noon")).await;
    check(&["u2", "u3", "u39"]).await;
    rooms.pause_room(None).await;
    rooms.set_phase(NextPhase::Closed).await;
    check(&["u2", "u3", "u39"]).await;
    rooms.set_phase(NextPhase::Open { digest: String::new() }).await;
    rooms.set_room(RoomSettings { weights: vec![3, 1], ..settings }).await;
    rooms.try_join(JoinRoom { class: 1, ..joining("low") }).await;
    check(&["u2", "u3", "u39", "low"]).await;
}
