//! `inspect_room`: the state of one room.

use fairlane_core::limits::{ROOM_ACTIVE_TTL_MS, ROOM_WINDOW_MS};
use fairlane_core::room::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![room_shows_its_limits_and_counts, unknown_room_is_not_shown];

async fn room_shows_its_limits_and_counts(rooms: Subject) {
    let settings = RoomSettings { max_active: 2, weights: vec![2, 1], ..RoomSettings::default() };
    rooms.set_room(settings.clone()).await;
    for user in ["one", "two", "three", "four"] {
        rooms.join(user).await;
    }
    rooms.try_join(JoinRoom { class: 1, ..joining("five") }).await;
    rooms.leave_room("four").await;
    let mut expected = RoomView {
        room: room_name("default"),
        settings,
        phase: RoomPhase::Open,
        paused: None,
        active: 2,
        waiting: vec![1, 1],
        admitted_lately: 2,
        measured_ms: ROOM_WINDOW_MS,
        rate_milli: None,
        closed_us: 0,
        totals: RoomTotals { joined: 5, admitted: 2, left: 1, ..RoomTotals::default() },
        draw: None,
    };
    assert_eq!(rooms.room().await, expected);
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS);
    (expected.active, expected.admitted_lately) = (0, 0);
    assert_eq!(rooms.room().await, expected, "as of now, although no command has changed it");
}

async fn unknown_room_is_not_shown(rooms: Subject) {
    assert_eq!(rooms.find_room().await, None);
}
