//! `report_room`: adapts the admission rate to responses of the back end behind a room.

use fairlane_core::limits::{REPORT_RESPONSES_MAX, RETRY_AFTER_MS_MAX};
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    refusal_limits_admission_to_what_was_answered,
    refusals_of_one_flight_cut_once,
    time_to_retry_stops_admission_until_then,
    rate_grows_back,
    report_on_an_unknown_room_changes_nothing,
    arguments_out_of_range_are_invalid,
];

fn report(answered: u64, refused: bool, retry_after_ms: u64) -> ReportRoom {
    ReportRoom { room: room_name("default"), answered, refused, retry_after_ms }
}

async fn send(rooms: &Subject, command: ReportRoom) -> RoomReported {
    rooms.engine.call(command).await.expect("report_room is answered")
}

async fn refusal_limits_admission_to_what_was_answered(rooms: Subject) {
    rooms.join("one").await;
    assert_eq!(send(&rooms, report(20, false, 0)).await, RoomReported { rate_milli: None, active: 1 });
    let reported = send(&rooms, report(0, true, 0)).await;
    let rate_milli = reported.rate_milli.expect("it is limited now");
    assert!((18_900..=19_100).contains(&rate_milli), "95 % of 20 in a second: {rate_milli}");
    for number in 0..10 {
        rooms.join(&format!("u{number}")).await;
    }
    assert_eq!(rooms.room().await.active, 1 + 2, "a burst of two");
    rooms.advance_ms(100);
    assert_eq!(rooms.admit_waiters().await.admitted, 1);
}

async fn refusals_of_one_flight_cut_once(rooms: Subject) {
    rooms.join("one").await;
    send(&rooms, report(20, false, 0)).await;
    let first = send(&rooms, report(0, true, 0)).await.rate_milli;
    assert_eq!(send(&rooms, report(0, true, 0)).await.rate_milli, first);
    rooms.advance_ms(1001);
    send(&rooms, report(18, false, 0)).await;
    assert!(send(&rooms, report(0, true, 0)).await.rate_milli < first);
}

async fn time_to_retry_stops_admission_until_then(rooms: Subject) {
    rooms.join("one").await;
    send(&rooms, report(50, true, 3000)).await;
    assert_eq!(position(&rooms.join("two").await), Some(1));
    assert_eq!(rooms.room().await.closed_us, 3_000_000);
    rooms.advance_ms(2999);
    assert_eq!(rooms.sweep_rooms().await, RoomsSwept { rooms: 0, next_in_us: Some(1000) });
    rooms.advance_ms(1);
    assert_eq!(rooms.sweep_rooms().await.rooms, 1);
    assert!(is_active(&rooms.show_place("two").await));
}

async fn rate_grows_back(rooms: Subject) {
    rooms.join("one").await;
    send(&rooms, report(20, true, 0)).await;
    let cut = rooms.room().await.rate_milli.expect("it is limited");
    rooms.advance_ms(10_000);
    assert!(rooms.room().await.rate_milli > Some(cut));
}

async fn report_on_an_unknown_room_changes_nothing(rooms: Subject) {
    let nothing = RoomReported { rate_milli: None, active: 0 };
    assert_eq!(send(&rooms, report(1, true, 1000)).await, nothing);
    assert_eq!(rooms.find_room().await, None);
}

async fn arguments_out_of_range_are_invalid(rooms: Subject) {
    for command in [report(REPORT_RESPONSES_MAX + 1, false, 0), report(0, true, RETRY_AFTER_MS_MAX + 1)] {
        let refused = rooms.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
