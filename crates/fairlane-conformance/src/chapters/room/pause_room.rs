//! `pause_room`: stops and resumes admission.

use fairlane_core::limits::ROOM_REASON_BYTES_MAX;
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    paused_room_admits_none_and_shows_the_reason,
    resumed_room_admits_at_once,
    arguments_out_of_range_are_invalid,
];

async fn paused_room_admits_none_and_shows_the_reason(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    assert_eq!(rooms.pause_room(Some("점검 중")).await, RoomPaused::Set { active: 1 });
    assert!(is_active(&rooms.show_place("one").await), "active places stay");
    rooms.leave_room("one").await;
    let PlaceView::Waiting { position, paused, .. } = rooms.join("two").await else { panic!() };
    assert_eq!((position, paused.as_deref()), (Some(1), Some("점검 중")));
    assert_eq!(rooms.room().await.paused.as_deref(), Some("점검 중"));
    rooms.pause_room(Some("")).await;
    assert_eq!(rooms.room().await.paused.as_deref(), Some(""), "without a reason");
    assert_eq!(rooms.admit_waiters().await.admitted, 0);
}

async fn resumed_room_admits_at_once(rooms: Subject) {
    rooms.pause_room(Some("maintenance")).await;
    rooms.join("one").await;
    assert_eq!(rooms.pause_room(None).await, RoomPaused::Set { active: 1 });
    assert!(is_active(&rooms.show_place("one").await));
    assert_eq!(rooms.room().await.paused, None);
}

async fn arguments_out_of_range_are_invalid(rooms: Subject) {
    let reason = Some("x".repeat(ROOM_REASON_BYTES_MAX + 1));
    let refused = rooms.engine.call(PauseRoom { room: room_name("default"), reason }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
