//! `record_events`: counts events, each once.

use fairlane_core::limits::{BOARD_AHEAD_MS, BOARD_HORIZON_MS, BOARD_SCORE_MAX};
use fairlane_core::ranking::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    each_event_adds_one,
    repeated_event_counts_once_whatever_it_says,
    first_to_reach_a_score_is_in_front,
    order_of_arrival_decides_nothing,
    sums_may_be_negative,
    event_beyond_the_horizon_is_refused_and_counted,
    event_ahead_of_the_clock_is_refused,
    event_counts_in_the_windows_of_its_own_time,
    sealed_window_does_not_change,
    score_without_room_for_its_time_is_exact,
    score_beyond_the_largest_is_refused,
    reply_has_the_ranks_on_request,
    unknown_board_and_wrong_rule_are_refused,
    arguments_out_of_range_are_invalid,
];

async fn each_event_adds_one(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    for (id, member) in [("e1", "one"), ("e2", "two"), ("e3", "two")] {
        assert_eq!(boards.count(id, member).await, Outcome::Applied);
    }
    assert_eq!(boards.top().await, scores([("two", 2), ("one", 1)]));
    let two = NewEvent { delta: 2, ..boards.event("e4", "one") };
    assert_eq!(boards.record(vec![two]).await, [Outcome::OutOfRange], "a board that counts takes ones");
}

/// Erratum R1.
async fn repeated_event_counts_once_whatever_it_says(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    boards.advance_ms(3_600_000);
    assert_eq!(boards.count("e1", "one").await, Outcome::Repeated);
    assert_eq!(boards.count("e1", "two").await, Outcome::Repeated);
    assert_eq!(boards.top().await, scores([("one", 1)]));
    assert_eq!(
        boards.board_totals().await,
        BoardTotals { recorded: 1, repeated: 2, ..BoardTotals::default() }
    );
}

/// Erratum R3.
async fn first_to_reach_a_score_is_in_front(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "a").await;
    boards.advance_ms(1000);
    boards.count("e2", "z").await;
    boards.advance_ms(1000);
    boards.count("e3", "z").await;
    boards.advance_ms(1000);
    boards.count("e4", "a").await;
    let page = boards.ranks(Standing::All, PageStart::Behind(0), 10).await;
    let listed: Vec<_> =
        page.entries.iter().map(|entry| (entry.member.to_string(), entry.position, entry.rank)).collect();
    assert_eq!(listed, [("z".into(), 1, 1), ("a".into(), 2, 1)]);
    assert_eq!(page.entries[0].reached_s, START.as_millis() / 1000 + 2);
}

async fn order_of_arrival_decides_nothing(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let now_ms = boards.now_ms();
    let at = |id: &str, member: &str, back_s: u64| NewEvent {
        at_ms: now_ms - back_s * 1000,
        ..boards.event(id, member)
    };
    boards.record(vec![at("e1", "late", 10), at("e2", "early", 60), at("e3", "late", 90)]).await;
    boards.record(vec![at("e4", "early", 20)]).await;
    assert_eq!(boards.top().await, scores([("early", 2), ("late", 2)]));
}

async fn sums_may_be_negative(boards: Subject) {
    boards.board_by(BoardRule::Sum).await;
    let with = |id: &str, member: &str, delta: i64| NewEvent { delta, ..boards.event(id, member) };
    boards
        .record(vec![
            with("e1", "one", -5),
            with("e2", "two", 7),
            with("e3", "two", -9),
            with("e4", "nil", 0),
        ])
        .await;
    assert_eq!(boards.top().await, scores([("nil", 0), ("two", -2), ("one", -5)]));
}

async fn event_beyond_the_horizon_is_refused_and_counted(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let event = boards.event("e1", "one");
    boards.advance_ms(BOARD_HORIZON_MS);
    let older = NewEvent { id: event_id("e2"), at_ms: event.at_ms - 1, ..event.clone() };
    assert_eq!(boards.record(vec![event, older]).await, [Outcome::Applied, Outcome::TooOld]);
    assert_eq!(
        boards.board_totals().await,
        BoardTotals { recorded: 1, too_old: 1, ..BoardTotals::default() }
    );
}

async fn event_ahead_of_the_clock_is_refused(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let ahead = |id: &str, ms: u64| NewEvent { at_ms: boards.now_ms() + ms, ..boards.event(id, "one") };
    let events = vec![ahead("e1", BOARD_AHEAD_MS), ahead("e2", BOARD_AHEAD_MS + 1)];
    assert_eq!(boards.record(events).await, [Outcome::Applied, Outcome::Ahead]);
}

/// Erratum R2.
async fn event_counts_in_the_windows_of_its_own_time(boards: Subject) {
    let windows = BoardWindows { hour: true, day: true, week: true };
    boards.set_board(BoardSettings { windows, ..BoardSettings::default() }).await;
    let event = boards.event("e1", "one");
    boards.advance_ms(3_600_000);
    boards.record(vec![event.clone(), boards.event("e2", "two")]).await;
    assert_eq!(boards.top_of_hour().await, scores([("two", 1)]));
    let before = Standing::Window { kind: WindowKind::Hour, at_ms: Some(event.at_ms) };
    assert_eq!(boards.standing(before).await, scores([("one", 1)]));
    for kind in [WindowKind::Day, WindowKind::Week] {
        let members = boards.standing(Standing::Window { kind, at_ms: None }).await.len();
        // The test begins at 22:13 UTC, so that the day has not ended.
        assert_eq!(members, 2, "{kind:?}");
    }
}

async fn sealed_window_does_not_change(boards: Subject) {
    let windows = BoardWindows { hour: true, ..BoardWindows::default() };
    boards.set_board(BoardSettings { windows, ..BoardSettings::default() }).await;
    boards.count("e1", "one").await;
    let late = boards.event("e2", "one");
    boards.advance_ms(2 * 3_600_000);
    assert_eq!(boards.record(vec![late.clone()]).await, [Outcome::Late]);
    assert_eq!(boards.cancel_at("e1", late.at_ms).await, Outcome::Late);
    let hour = Standing::Window { kind: WindowKind::Hour, at_ms: Some(late.at_ms) };
    assert_eq!(boards.standing(hour).await, scores([("one", 1)]));
    assert_eq!(boards.top().await, scores([("one", 1)]));
    assert_eq!(boards.board_totals().await.late, 2);
}

async fn score_without_room_for_its_time_is_exact(boards: Subject) {
    boards.board_by(BoardRule::Sum).await;
    let with = |id: &str, member: &str, delta: i64| NewEvent { delta, ..boards.event(id, member) };
    boards
        .record(vec![with("e1", "a", (1 << 21) - 1), with("e2", "b", 1 << 21), with("e3", "c", 1 << 49)])
        .await;
    boards.record(vec![with("e4", "c", 1), with("e5", "b", 1)]).await;
    assert_eq!(
        boards.top().await,
        scores([("c", (1 << 49) + 1), ("b", (1 << 21) + 1), ("a", (1 << 21) - 1)])
    );
}

async fn score_beyond_the_largest_is_refused(boards: Subject) {
    boards.board_by(BoardRule::Sum).await;
    let largest = BOARD_SCORE_MAX as i64;
    let with = |id: &str, delta: i64| NewEvent { delta, ..boards.event(id, "one") };
    assert_eq!(
        boards.record(vec![with("e1", largest), with("e2", 1)]).await,
        [Outcome::Applied, Outcome::OutOfRange]
    );
    assert_eq!(boards.record(vec![with("e2", -1)]).await, [Outcome::Applied], "a refused event is not known");
    assert_eq!(boards.top().await, scores([("one", largest - 1)]));
}

async fn reply_has_the_ranks_on_request(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    let events = vec![boards.event("e2", "two"), boards.event("e3", "two")];
    let command = RecordEvents { board: board_name("popular"), events, ranks: true };
    let EventsRecorded::Recorded { ranks, .. } = boards.engine.call(command).await.expect("an answer") else {
        panic!("not recorded")
    };
    let two: Vec<_> = ranks.iter().map(|entry| (entry.score, entry.position)).collect();
    assert_eq!(two, [(2, 1), (2, 1)]);
}

async fn unknown_board_and_wrong_rule_are_refused(boards: Subject) {
    let command = || RecordEvents {
        board: board_name("popular"),
        events: vec![boards.event("e1", "one")],
        ranks: false,
    };
    assert_eq!(boards.engine.call(command()).await.expect("an answer"), EventsRecorded::UnknownBoard);
    boards.board_by(BoardRule::Maximum).await;
    assert_eq!(boards.engine.call(command()).await.expect("an answer"), EventsRecorded::WrongRule);
}

async fn arguments_out_of_range_are_invalid(boards: Subject) {
    let event = boards.event("e1", "one");
    for events in [
        vec![NewEvent { at_ms: 999_999_999_999, ..event.clone() }],
        vec![NewEvent { delta: BOARD_SCORE_MAX as i64 + 1, ..event.clone() }],
        vec![event; 101],
    ] {
        let command = RecordEvents { board: board_name("popular"), events, ranks: false };
        let refused = boards.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
