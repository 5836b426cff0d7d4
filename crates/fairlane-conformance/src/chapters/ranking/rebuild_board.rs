//! `rebuild_board`: recounts a board from a source, and then replaces its scores in one step.

use fairlane_core::limits::BOARD_HORIZON_MS;
use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    readers_see_the_old_board_until_the_switch,
    commands_change_both_boards_and_count_once,
    old_rows_count_and_stay_refused_as_events,
    repeated_rows_are_taken_once,
    missing_rows_are_refused,
    sealed_windows_are_counted_again,
    another_rebuild_drops_the_first,
    dropped_rebuild_leaves_nothing,
];

fn rows(from: u64, events: Vec<NewEvent>) -> RebuildStep {
    RebuildStep::Events { from, events }
}

async fn readers_see_the_old_board_until_the_switch(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("wrong", "one").await;
    assert_eq!(boards.rebuild(RebuildStep::Begin).await, BoardRebuilt::Ongoing { rows: 0 });
    let source = vec![boards.event("e1", "two"), boards.event("e2", "two")];
    assert_eq!(boards.rebuild(rows(0, source)).await, BoardRebuilt::Ongoing { rows: 2 });
    assert_eq!(boards.top().await, scores([("one", 1)]));
    assert_eq!(boards.rebuild(RebuildStep::Finish { rows: 2 }).await, BoardRebuilt::Finished { members: 1 });
    assert_eq!(boards.top().await, scores([("two", 2)]));
    let again = boards.rebuild(RebuildStep::Finish { rows: 2 }).await;
    assert_eq!(again, BoardRebuilt::Finished { members: 1 }, "a lost reply is repeated");
}

async fn commands_change_both_boards_and_count_once(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.rebuild(RebuildStep::Begin).await;
    boards.count("e1", "one").await;
    boards.uncount("e3").await;
    let source = vec![boards.event("e1", "one"), boards.event("e2", "one"), boards.event("e3", "one")];
    boards.rebuild(rows(0, source)).await;
    assert_eq!(boards.count("e2", "one").await, Outcome::Applied);
    boards.rebuild(RebuildStep::Finish { rows: 3 }).await;
    assert_eq!(boards.top().await, scores([("one", 2)]));
    assert_eq!(boards.count("e2", "one").await, Outcome::Repeated);
}

async fn old_rows_count_and_stay_refused_as_events(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let old = NewEvent { at_ms: boards.now_ms() - BOARD_HORIZON_MS - 1, ..boards.event("e1", "one") };
    boards.rebuild(RebuildStep::Begin).await;
    assert_eq!(boards.rebuild(rows(0, vec![old.clone()])).await, BoardRebuilt::Ongoing { rows: 1 });
    boards.rebuild(RebuildStep::Finish { rows: 1 }).await;
    assert_eq!(boards.top().await, scores([("one", 1)]));
    assert_eq!(boards.record(vec![old]).await, [Outcome::TooOld]);
}

async fn repeated_rows_are_taken_once(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.rebuild(RebuildStep::Begin).await;
    let source = vec![boards.event("e1", "one"), boards.event("e2", "one")];
    boards.rebuild(rows(0, source.clone())).await;
    assert_eq!(boards.rebuild(rows(0, source)).await, BoardRebuilt::Ongoing { rows: 2 });
    assert_eq!(boards.rebuild(RebuildStep::Begin).await, BoardRebuilt::Ongoing { rows: 2 });
    boards.rebuild(RebuildStep::Finish { rows: 2 }).await;
    assert_eq!(boards.top().await, scores([("one", 2)]));
}

async fn missing_rows_are_refused(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.rebuild(RebuildStep::Begin).await;
    let step = rows(1, vec![boards.event("e1", "one")]);
    assert_eq!(boards.rebuild(step).await, BoardRebuilt::OutOfStep { rows: 0 });
    assert_eq!(boards.rebuild(RebuildStep::Finish { rows: 1 }).await, BoardRebuilt::OutOfStep { rows: 0 });
    let two = NewEvent { delta: 2, ..boards.event("e2", "one") };
    let refused = boards.rebuild(rows(0, vec![boards.event("e1", "one"), two])).await;
    assert_eq!(refused, BoardRebuilt::Refused { rows: 1, outcome: Outcome::OutOfRange });
    assert_eq!(
        boards.rebuild(RebuildStep::Scores { from: 1, scores: vec![] }).await,
        BoardRebuilt::Ongoing { rows: 1 }
    );
}

async fn sealed_windows_are_counted_again(boards: Subject) {
    let windows = BoardWindows { hour: true, ..BoardWindows::default() };
    boards.set_board(BoardSettings { windows, ..BoardSettings::default() }).await;
    let event = boards.event("e1", "one");
    boards.advance_ms(3 * 3_600_000);
    boards.rebuild(RebuildStep::Begin).await;
    boards.rebuild(rows(0, vec![event.clone()])).await;
    boards.rebuild(RebuildStep::Finish { rows: 1 }).await;
    let hour = Standing::Window { kind: WindowKind::Hour, at_ms: Some(event.at_ms) };
    assert_eq!(boards.standing(hour).await, scores([("one", 1)]));
}

async fn another_rebuild_drops_the_first(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.rebuild(RebuildStep::Begin).await;
    let other = fairlane_core::RebuildId::new("other").expect("a valid id");
    let begin = RebuildBoard { board: board_name("popular"), rebuild: other, step: RebuildStep::Begin };
    boards.engine.call(begin).await.expect("an answer");
    assert_eq!(boards.rebuild(RebuildStep::Finish { rows: 0 }).await, BoardRebuilt::UnknownRebuild);
}

async fn dropped_rebuild_leaves_nothing(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    boards.rebuild(RebuildStep::Begin).await;
    boards.rebuild(rows(0, vec![boards.event("e2", "two")])).await;
    assert_eq!(boards.rebuild(RebuildStep::Abort).await, BoardRebuilt::Aborted);
    assert_eq!(boards.rebuild(RebuildStep::Abort).await, BoardRebuilt::UnknownRebuild);
    assert_eq!(boards.find_board().await.expect("it exists").board.rebuild, None);
    assert_eq!(boards.top().await, scores([("one", 1)]));
}
