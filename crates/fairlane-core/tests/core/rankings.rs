//! Boards against a recount of their history.

use std::collections::{BTreeMap, BTreeSet};

use fairlane_core::hashing::HashSeed;
use fairlane_core::kernel::Machine as _;
use fairlane_core::ranking::*;
use fairlane_core::{BoardName, EventId, MemberId, Micros};

const NOW: Micros = Micros(1_700_000_000_000_000);

/// One thing that happened.
#[derive(Debug, Clone)]
enum Happened {
    Event(NewEvent),
    Cancelled(Cancellation),
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn board() -> BoardName {
    BoardName::new("popular").expect("a valid board")
}

/// Events and cancellations of the last six days.
fn history(random: &mut Random, events: u64) -> Vec<Happened> {
    let mut history = Vec::new();
    for number in 0..events {
        let id = EventId::new(format!("e{number}")).expect("a valid id");
        let member = MemberId::new(format!("m{}", random.below(40))).expect("a valid member");
        let at_ms = NOW.as_millis() - random.below(6 * 24 * 3_600_000);
        let delta = random.below(9) as i64 - 3;
        history.push(Happened::Event(NewEvent { id: id.clone(), member, delta, at_ms }));
        if random.below(4) == 0 {
            history.push(Happened::Cancelled(Cancellation { id, at_ms }));
        }
    }
    history
}

fn machine() -> Machine {
    let mut machine = Machine::new(HashSeed::FIXED, NOW);
    let settings = BoardSettings { rule: BoardRule::Sum, ..BoardSettings::default() };
    machine.call(SetBoard { board: board(), settings }, NOW);
    machine
}

fn apply(machine: &mut Machine, happened: &Happened) -> Outcome {
    let reply = match happened.clone() {
        Happened::Event(event) => {
            machine.call(RecordEvents { board: board(), events: vec![event], ranks: false }, NOW)
        }
        Happened::Cancelled(event) => machine.call(CancelEvents { board: board(), events: vec![event] }, NOW),
    };
    match reply {
        EventsRecorded::Recorded { outcomes, .. } => outcomes[0],
        other => panic!("{other:?}"),
    }
}

fn standing(machine: &mut Machine) -> Vec<(String, i64, u64)> {
    let (standing, start) = (Standing::All, PageStart::Behind(0));
    let command = ListRanks { board: board(), standing, start, members_max: 500 };
    let page = machine.call(command, NOW).0.expect("the board exists");
    page.entries.into_iter().map(|entry| (entry.member.to_string(), entry.score, entry.reached_s)).collect()
}

/// What a board must be, from its history alone: sums without cancelled events, equal sums by the
/// member's latest event, then by name.
fn recount(history: &[Happened]) -> Vec<(String, i64, u64)> {
    let cancelled: BTreeSet<_> = history
        .iter()
        .filter_map(|happened| match happened {
            Happened::Cancelled(event) => Some(event.id.clone()),
            Happened::Event(_) => None,
        })
        .collect();
    let mut members = BTreeMap::<String, (i64, u64)>::new();
    for happened in history {
        if let Happened::Event(event) = happened {
            let (sum, reached_s) = members.entry(event.member.to_string()).or_default();
            *sum += if cancelled.contains(&event.id) { 0 } else { event.delta };
            *reached_s = (*reached_s).max(event.at_ms / 1000);
        }
    }
    let mut members: Vec<_> =
        members.into_iter().map(|(member, (sum, reached_s))| (member, sum, reached_s)).collect();
    members.sort_by(|one, other| {
        other.1.cmp(&one.1).then(one.2.cmp(&other.2)).then_with(|| other.0.cmp(&one.0))
    });
    members
}

#[test]
fn history_replayed_in_any_order_with_repeats_equals_a_recount() {
    let mut random = Random(7);
    let history = history(&mut random, 5000);
    let expected = recount(&history);
    for replay in 0..10 {
        let mut replayed = history.clone();
        for _ in 0..history.len() / 3 {
            replayed.push(history[random.below(history.len() as u64) as usize].clone());
        }
        random.shuffle(&mut replayed);
        let mut machine = machine();
        for happened in &replayed {
            assert!(apply(&mut machine, happened).is_taken(), "{happened:?}");
        }
        machine.check().unwrap_or_else(|fault| panic!("replay {replay}: {fault}"));
        assert_eq!(standing(&mut machine), expected, "replay {replay}");
    }
}

#[test]
fn events_beyond_the_horizon_are_refused_and_counted() {
    let mut machine = machine();
    let old = |number: u64| NewEvent {
        id: EventId::new(format!("old{number}")).expect("a valid id"),
        member: MemberId::new("m").expect("a valid member"),
        delta: 1,
        at_ms: NOW.as_millis() - 7 * 24 * 3_600_000 - 1 - number,
    };
    for number in 0..20 {
        assert_eq!(apply(&mut machine, &Happened::Event(old(number))), Outcome::TooOld);
    }
    let view = machine.call(InspectBoard { board: board() }, NOW).0.expect("the board exists");
    assert_eq!((view.board.totals.too_old, view.board.members), (20, 0));
}
