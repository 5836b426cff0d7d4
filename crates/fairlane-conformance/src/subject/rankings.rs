//! Methods for boards. Unless a case says otherwise, it uses the board `popular`.

use fairlane_core::ranking::*;
use fairlane_core::{BoardName, EventId, MemberId, RebuildId};

use super::Subject;

impl Subject {
    /// Makes the board `popular`.
    pub async fn set_board(&self, settings: BoardSettings) -> BoardSet {
        let command = SetBoard { board: board_name("popular"), settings };
        self.engine.call(command).await.expect("set_board is answered")
    }

    /// Makes the board `popular` by this rule.
    pub async fn board_by(&self, rule: BoardRule) {
        self.set_board(BoardSettings { rule, ..BoardSettings::default() }).await;
    }

    /// The time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now().as_millis()
    }

    /// An event at the current time with a delta of 1.
    pub fn event(&self, id: &str, member: &str) -> NewEvent {
        NewEvent { id: event_id(id), member: member_id(member), delta: 1, at_ms: self.now_ms() }
    }

    /// Records events.
    pub async fn record(&self, events: Vec<NewEvent>) -> Vec<Outcome> {
        let command = RecordEvents { board: board_name("popular"), events, ranks: false };
        outcomes(self.engine.call(command).await.expect("record_events is answered"))
    }

    /// Records one event at the current time with a delta of 1.
    pub async fn count(&self, id: &str, member: &str) -> Outcome {
        self.record(vec![self.event(id, member)]).await[0]
    }

    /// Cancels one event of this time.
    pub async fn cancel_at(&self, id: &str, at_ms: u64) -> Outcome {
        let events = vec![Cancellation { id: event_id(id), at_ms }];
        let command = CancelEvents { board: board_name("popular"), events };
        outcomes(self.engine.call(command).await.expect("cancel_events is answered"))[0]
    }

    /// Cancels one event of the current time.
    pub async fn uncount(&self, id: &str) -> Outcome {
        self.cancel_at(id, self.now_ms()).await
    }

    /// Sets one value, reached now.
    pub async fn set_score(&self, member: &str, version: u64, value: i64) -> Outcome {
        let scores = vec![NewScore { member: member_id(member), value, version, at_ms: self.now_ms() }];
        let command = SetScores { board: board_name("popular"), scores, ranks: false };
        outcomes(self.engine.call(command).await.expect("set_scores is answered"))[0]
    }

    /// A page of the board.
    pub async fn ranks(&self, standing: Standing, start: PageStart, members_max: usize) -> RankPage {
        let command = ListRanks { board: board_name("popular"), standing, start, members_max };
        self.engine.call(command).await.expect("list_ranks is answered").0.expect("the board exists")
    }

    /// The members of a standing with their scores, the best first.
    pub async fn standing(&self, standing: Standing) -> Vec<(String, i64)> {
        let page = self.ranks(standing, PageStart::Behind(0), 100).await;
        page.entries.into_iter().map(|entry| (entry.member.to_string(), entry.score)).collect()
    }

    /// The members of the current season with their scores, the best first.
    pub async fn top(&self) -> Vec<(String, i64)> {
        self.standing(Standing::All).await
    }

    /// The current hour's members with their scores.
    pub async fn top_of_hour(&self) -> Vec<(String, i64)> {
        self.standing(Standing::Window { kind: WindowKind::Hour, at_ms: None }).await
    }

    /// The board `popular`, if it exists.
    pub async fn find_board(&self) -> Option<BoardDetail> {
        let command = InspectBoard { board: board_name("popular") };
        self.engine.call(command).await.expect("inspect_board is answered").0
    }

    /// The counts of the board.
    pub async fn board_totals(&self) -> BoardTotals {
        self.find_board().await.expect("the board exists").board.totals
    }

    /// Closes a season.
    pub async fn close_season(&self, season: u64, announced: bool) -> SeasonClosed {
        let command = CloseSeason { board: board_name("popular"), season, members_max: 10, announced };
        self.engine.call(command).await.expect("close_season is answered")
    }

    /// One step of the rebuild `r`.
    pub async fn rebuild(&self, step: RebuildStep) -> BoardRebuilt {
        let rebuild = RebuildId::new("r").expect("a valid id");
        let command = RebuildBoard { board: board_name("popular"), rebuild, step };
        self.engine.call(command).await.expect("rebuild_board is answered")
    }

    /// Removes windows and events that are due.
    pub async fn sweep_boards(&self) -> BoardsSwept {
        self.engine.call(SweepBoards { boards_max: 20 }).await.expect("sweep_boards is answered")
    }
}

/// The outcomes of a reply.
pub fn outcomes(reply: EventsRecorded) -> Vec<Outcome> {
    match reply {
        EventsRecorded::Recorded { outcomes, .. } => outcomes,
        other => panic!("not recorded: {other:?}"),
    }
}

/// Members with their scores.
pub fn scores<const N: usize>(scores: [(&str, i64); N]) -> Vec<(String, i64)> {
    scores.map(|(member, score)| (member.to_owned(), score)).to_vec()
}

/// The name of a board.
pub fn board_name(name: &str) -> BoardName {
    BoardName::new(name).expect("a valid board")
}

/// A member.
pub fn member_id(member: &str) -> MemberId {
    MemberId::new(member).expect("a valid member")
}

/// The id of an event.
pub fn event_id(id: &str) -> EventId {
    EventId::new(id).expect("a valid event id")
}
