//! Commands on boards, with few boards, members and ids, so that they collide often.

use fairlane_core::limits::{BOARD_SCORE_MAX, LIST_BOARDS_MAX, LIST_RANKS_MAX};
use fairlane_core::ranking::*;
use fairlane_core::{BoardName, EventId, MemberId, RebuildId};

use super::OtherGenerator;
use crate::dice::Dice;
use crate::subject::{START, board_name, event_id, member_id};

const BOARDS: [&str; 6] = ["popular", "a:b", "sold-out", "콘서트", "best", "latest"];
const HOUR_US: u64 = 3_600_000_000;

/// Draws commands on boards.
pub(super) struct RankingGenerator {
    dice: Dice,
    /// The time of the commands, in milliseconds, as the sum of the pauses.
    now_ms: u64,
    /// Ids that were used, and how many rows a rebuild has taken.
    ids: u64,
    rows: u64,
}

impl OtherGenerator for RankingGenerator {
    fn pause_us(&mut self) -> u64 {
        let pause_us = match self.dice.below(100) {
            0..60 => self.dice.below(2_000_000),
            60..95 => self.dice.below(200_000_000),
            95..99 => self.dice.below(HOUR_US),
            _ => self.dice.below(40 * 24 * HOUR_US),
        };
        self.now_ms += pause_us / 1000;
        pause_us
    }

    fn command(&mut self) -> fairlane_core::Command {
        let board = self.board();
        let command = match self.dice.below(100) {
            0..40 => {
                let events = (0..1 + self.dice.below(4)).map(|_| self.event(&board)).collect();
                Command::RecordEvents(RecordEvents { board, events, ranks: self.dice.one_in(2) })
            }
            40..50 => {
                let events = (0..1 + self.dice.below(3)).map(|_| self.cancellation()).collect();
                Command::CancelEvents(CancelEvents { board, events })
            }
            50..60 => {
                let scores = (0..1 + self.dice.below(3)).map(|_| self.score()).collect();
                Command::SetScores(SetScores { board, scores, ranks: self.dice.one_in(2) })
            }
            60..68 => Command::ListRanks(self.list(board)),
            68..72 => {
                let members = (0..self.dice.below(4)).map(|_| self.member()).collect();
                Command::ShowRanks(ShowRanks { board, standing: self.standing(), members })
            }
            72..77 => Command::SetBoard(SetBoard { settings: self.settings(&board), board }),
            77 if self.dice.one_in(4) => Command::RemoveBoard(RemoveBoard { board }),
            78 => Command::CloseSeason(CloseSeason {
                board,
                season: 1 + self.dice.below(3),
                members_max: self.dice.pick(&[0, 3]),
                announced: self.dice.one_in(2),
            }),
            79..88 => Command::RebuildBoard(self.rebuild(board)),
            88..91 => Command::InspectBoard(InspectBoard { board }),
            91..93 => {
                let after = self.dice.one_in(2).then_some(board);
                Command::ListBoards(ListBoards {
                    after,
                    boards_max: self.dice.pick(&[1, 2, LIST_BOARDS_MAX]),
                })
            }
            _ => Command::SweepBoards(SweepBoards { boards_max: self.dice.pick(&[1, 2, 20]) }),
        };
        command.into()
    }

    fn observe(&mut self, reply: &fairlane_core::Reply) {
        if let Some(Reply::RebuildBoard(reply)) = reply.ranking() {
            match reply {
                BoardRebuilt::Ongoing { rows }
                | BoardRebuilt::Refused { rows, .. }
                | BoardRebuilt::OutOfStep { rows } => self.rows = *rows,
                _ => self.rows = 0,
            }
        }
    }
}

impl RankingGenerator {
    pub fn new(dice: Dice) -> Self {
        Self { dice, now_ms: START.as_millis(), ids: 0, rows: 0 }
    }

    fn board(&mut self) -> BoardName {
        board_name(self.dice.pick(&BOARDS))
    }

    fn member(&mut self) -> MemberId {
        member_id(self.dice.pick(&["m1", "m2", "m3", "a:b%", "가수", "m4", "m5"]))
    }

    /// An event id: mostly a new one, or one of the last few.
    fn id(&mut self) -> EventId {
        let back = self.dice.below(12);
        if back < 5 {
            self.ids += 1;
        }
        event_id(&format!("e{}", self.ids.saturating_sub(back.saturating_sub(5))))
    }

    /// The time of an event, mostly recent, so that two windows of each length are used.
    fn at_ms(&mut self) -> u64 {
        let back_ms = match self.dice.below(20) {
            0..12 => self.dice.below(60_000),
            12..16 => self.dice.below(3 * 3_600_000),
            16..18 => self.dice.below(3 * 24 * 3_600_000),
            18 => self.dice.below(30 * 24 * 3_600_000),
            _ => return self.now_ms + self.dice.below(700_000),
        };
        self.now_ms - back_ms
    }

    fn delta(&mut self, board: &BoardName) -> i64 {
        match self.dice.below(20) {
            _ if board.escaped() == "popular" => self.dice.pick(&[1, 1, 1, 1, 1, 1, 2]),
            0 => 1 << 21,
            1 => -(1 << 21),
            2 => BOARD_SCORE_MAX as i64,
            3..8 => -(self.dice.below(5) as i64),
            _ => self.dice.below(5) as i64,
        }
    }

    fn event(&mut self, board: &BoardName) -> NewEvent {
        let (id, member) = (self.id(), self.member());
        NewEvent { id, member, delta: self.delta(board), at_ms: self.at_ms() }
    }

    fn cancellation(&mut self) -> Cancellation {
        Cancellation { id: self.id(), at_ms: self.at_ms() }
    }

    fn score(&mut self) -> NewScore {
        let value = match self.dice.below(10) {
            0 => (1 << 21) + self.dice.below(3) as i64,
            1 => -(self.dice.below(40_000) as i64),
            _ => self.dice.below(40_000) as i64,
        };
        NewScore { member: self.member(), value, version: self.dice.below(30), at_ms: self.at_ms() }
    }

    fn standing(&mut self) -> Standing {
        let kind = self.dice.pick(WindowKind::ALL);
        match self.dice.below(6) {
            0..2 => Standing::All,
            2..4 => Standing::Window { kind, at_ms: None },
            4 => Standing::Window { kind, at_ms: Some(self.at_ms()) },
            _ => Standing::Season { number: 1 + self.dice.below(3) },
        }
    }

    fn list(&mut self, board: BoardName) -> ListRanks {
        let start = match self.dice.one_in(2) {
            true => PageStart::Behind(self.dice.below(4)),
            false => PageStart::Around { member: self.member(), before: self.dice.below(3) },
        };
        ListRanks {
            board,
            standing: self.standing(),
            start,
            members_max: self.dice.pick(&[1, 3, LIST_RANKS_MAX]),
        }
    }

    /// Settings of a board, mostly the same for the same board.
    fn settings(&mut self, board: &BoardName) -> BoardSettings {
        let (hour, day, week) = (true, true, self.dice.one_in(8));
        let (rule, order, decimals) = match board.escaped() {
            "popular" => (BoardRule::Count, BoardOrder::Descending, 0),
            "a%3Ab" => (BoardRule::Sum, BoardOrder::Descending, 0),
            "sold-out" => (BoardRule::Latest, BoardOrder::Ascending, 3),
            "best" => (BoardRule::Maximum, BoardOrder::Descending, 0),
            "latest" => (BoardRule::Maximum, BoardOrder::Ascending, 1),
            _ => (BoardRule::Sum, BoardOrder::Ascending, 0),
        };
        let windows = match rule {
            BoardRule::Latest => BoardWindows::default(),
            _ => BoardWindows { hour, day, week },
        };
        let events_max = self.dice.pick(&[20, 200, 1_000_000]);
        BoardSettings { rule, order, decimals, windows, horizon_ms: 2 * 24 * 3_600_000, events_max }
    }

    fn rebuild(&mut self, board: BoardName) -> RebuildBoard {
        let from = if self.dice.one_in(6) { self.dice.below(5) } else { self.rows };
        let step = match self.dice.below(12) {
            0..2 => RebuildStep::Begin,
            2..7 => {
                let events = (0..self.dice.below(5)).map(|_| self.event(&board)).collect();
                RebuildStep::Events { from, events }
            }
            7..9 => {
                RebuildStep::Scores { from, scores: (0..self.dice.below(5)).map(|_| self.score()).collect() }
            }
            9..11 => RebuildStep::Finish { rows: from },
            _ => RebuildStep::Abort,
        };
        let id = self.dice.pick(&["r1", "r1", "r1", "r:2"]);
        RebuildBoard { board, rebuild: RebuildId::new(id).expect("a valid id"), step }
    }
}
