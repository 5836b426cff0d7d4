//! The bytes of the operations on boards.

use fairlane_core::kernel::Registered;
use fairlane_core::ranking::{self, *};
use fairlane_core::{BoardName, EventId, MemberId, Micros, RebuildId, Reply};

use super::super::{WireError, encode};

fn board() -> BoardName {
    BoardName::new("b").unwrap()
}

fn event() -> NewEvent {
    let (id, member) = (EventId::new("e:1").unwrap(), MemberId::new("m").unwrap());
    NewEvent { id, member, delta: -2, at_ms: 300 }
}

fn bytes(command: impl Registered) -> Vec<u8> {
    encode(&command.into_command())
}

/// The position of an operation is its number on the wire: new ones are appended.
#[test]
fn operations_on_boards_keep_their_numbers() {
    let stems = [
        "record_events",
        "cancel_events",
        "set_scores",
        "list_ranks",
        "show_ranks",
        "set_board",
        "remove_board",
        "close_season",
        "rebuild_board",
        "inspect_board",
        "list_boards",
        "sweep_boards",
    ];
    assert_eq!(ranking::Command::STEMS, stems);
}

/// Any change to these bytes is a new version of the format: raise the number in `CONTENT_TYPE`.
#[test]
fn bytes_of_operations_on_boards_stay_what_they_are() {
    let (id, member) = (EventId::new("e").unwrap(), MemberId::new("m").unwrap());
    let record = RecordEvents { board: board(), events: vec![event()], ranks: true };
    assert_eq!(bytes(record), b"\x03\x00\x01b\x01\x05e%3A1\x01m\x03\xac\x02\x01");
    let cancel = CancelEvents { board: board(), events: vec![Cancellation { id, at_ms: 300 }] };
    assert_eq!(bytes(cancel), b"\x03\x01\x01b\x01\x01e\xac\x02");
    let score = NewScore { member: member.clone(), value: 5, version: 7, at_ms: 300 };
    let set = SetScores { board: board(), scores: vec![score.clone()], ranks: false };
    assert_eq!(bytes(set), b"\x03\x02\x01b\x01\x01m\x0a\x07\xac\x02\x00");
    let window = Standing::Window { kind: WindowKind::Week, at_ms: Some(300) };
    let start = PageStart::Around { member: member.clone(), before: 4 };
    let list = ListRanks { board: board(), standing: window, start, members_max: 9 };
    assert_eq!(bytes(list), b"\x03\x03\x01b\x01\x02\x01\xac\x02\x01\x01m\x04\x09");
    let show = ShowRanks { board: board(), standing: Standing::Season { number: 3 }, members: vec![member] };
    assert_eq!(bytes(show), b"\x03\x04\x01b\x02\x03\x01\x01m");
    let settings = BoardSettings {
        rule: BoardRule::Latest,
        order: BoardOrder::Ascending,
        decimals: 3,
        windows: BoardWindows { hour: true, day: false, week: true },
        horizon_ms: 300,
        events_max: 5,
    };
    assert_eq!(
        bytes(SetBoard { board: board(), settings }),
        b"\x03\x05\x01b\x03\x01\x03\x01\x00\x01\xac\x02\x05"
    );
    assert_eq!(bytes(RemoveBoard { board: board() }), b"\x03\x06\x01b");
    let close = CloseSeason { board: board(), season: 2, members_max: 9, announced: true };
    assert_eq!(bytes(close), b"\x03\x07\x01b\x02\x09\x01");
    let rebuild = |step| RebuildBoard { board: board(), rebuild: RebuildId::new("r").unwrap(), step };
    for (step, rest) in [
        (RebuildStep::Begin, &b"\x00"[..]),
        (RebuildStep::Events { from: 8, events: vec![event()] }, b"\x01\x08\x01\x05e%3A1\x01m\x03\xac\x02"),
        (RebuildStep::Scores { from: 8, scores: vec![score] }, b"\x02\x08\x01\x01m\x0a\x07\xac\x02"),
        (RebuildStep::Finish { rows: 9 }, b"\x03\x09"),
        (RebuildStep::Abort, b"\x04"),
    ] {
        assert_eq!(bytes(rebuild(step)), [&b"\x03\x08\x01b\x01r"[..], rest].concat());
    }
    assert_eq!(bytes(InspectBoard { board: board() }), b"\x03\x09\x01b");
    assert_eq!(bytes(ListBoards { after: Some(board()), boards_max: 2 }), b"\x03\x0a\x01\x01b\x02");
    assert_eq!(bytes(SweepBoards { boards_max: 2 }), b"\x03\x0b\x02");
}

/// Replies about boards are bytes that clients of other versions read.
#[test]
fn bytes_of_replies_about_boards_stay_what_they_are() {
    let reply = |reply: ranking::Reply| encode(&Ok::<Reply, WireError>(reply.into()));
    let member = MemberId::new("m").unwrap();
    let entry = RankEntry { member, score: 5, reached_s: 300, position: 2, rank: 1 };
    let outcomes = Outcome::ALL.to_vec();
    let recorded = EventsRecorded::Recorded { outcomes, ranks: vec![entry.clone()] };
    assert_eq!(
        reply(ranking::Reply::RecordEvents(recorded)),
        b"\x00\x03\x00\x00\x09\x00\x01\x02\x03\x04\x05\x06\x07\x08\x01\x01m\x0a\xac\x02\x02\x01"
    );
    let page = RankPage { entries: vec![entry], members: 300, decimals: 3 };
    assert_eq!(
        reply(ranking::Reply::ListRanks(RanksListed(Some(page)))),
        b"\x00\x03\x03\x01\x01\x01m\x0a\xac\x02\x02\x01\xac\x02\x03"
    );
    let closed_at = Micros(300);
    let closed =
        SeasonClosed::Closed { closed_at, members: 0, entries: vec![], decimals: 0, announced: true };
    assert_eq!(reply(ranking::Reply::CloseSeason(closed)), b"\x00\x03\x07\x00\xac\x02\x00\x00\x00\x01");
    let refused = BoardRebuilt::Refused { rows: 2, outcome: Outcome::Ahead };
    assert_eq!(reply(ranking::Reply::RebuildBoard(refused)), b"\x00\x03\x08\x03\x02\x05");
    let swept = BoardsSwept { boards: 1, removed: 2, next_in_us: Some(3) };
    assert_eq!(reply(ranking::Reply::SweepBoards(swept)), b"\x00\x03\x0b\x01\x02\x01\x03");
}
