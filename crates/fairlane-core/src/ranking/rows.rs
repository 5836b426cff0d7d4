//! The rows of boards in a store, with their sets of scores and the events that they remember.

use std::collections::BTreeMap;

use crate::hashing::HashSeed;
use crate::kernel::row::{Damage, Restoring, RowSource, rows, stored_words};
use crate::kernel::{RestoreMode, Restored, Stored};
use crate::names::{BoardName, EventId, MemberId, RebuildId};
use crate::numbers::Micros;

use super::Machine;
use super::journal::Touched;
use super::score::{Score, ScoreSet};
use super::settings::{BoardOrder, BoardRule, BoardSettings, BoardWindows};
use super::state::{Board, BoardTotals, Event, Generation, Mark, Season, Staged};
use super::window::Slot;

stored_words! {
    /// The period that a set of scores covers.
    enum SetKind {
        All = "all",
        Hour = "hour",
        Day = "day",
        Week = "week",
        Season = "season",
    }
}

stored_words! {
    /// The state of a remembered event.
    enum EventWord {
        Counted = "counted",
        Cancelled = "cancelled",
        Pending = "pending",
    }
}

rows! {
    /// Rows of boards to be removed and to be written.
    pub struct Changes;

    /// The time of the last command.
    struct RankingStateRow in ranking_state, key 1 {
        id: u64,
        time: Micros,
    }

    /// A board; `live` and `staged` are the numbers of its generations.
    struct BoardRow in ranking_boards, key 1, of (board: Board, name: &BoardName) {
        name: String => name.to_string(),
        rule: BoardRule = board.settings.rule,
        direction: BoardOrder = board.settings.order,
        decimals: u32 = board.settings.decimals,
        hours: bool = board.settings.windows.hour,
        days: bool = board.settings.windows.day,
        weeks: bool = board.settings.windows.week,
        horizon_ms: u64 = board.settings.horizon_ms,
        events_max: u64 = board.settings.events_max,
        season: u64 = board.season,
        since_ms: u64 = board.since_ms,
        totals: [u64; 6] => board.totals.to_array(),
        live: u64 => board.live.number,
        staged: Option<u64> => board.staged.as_ref().map(|staged| staged.generation.number),
        rebuild: Option<String> => board.staged.as_ref().map(|staged| staged.id.to_string()),
        rebuild_rows: u64 => board.staged.as_ref().map_or(0, |staged| staged.rows),
        rebuilt: Option<String> => board.rebuilt.as_ref().map(ToString::to_string),
    }

    /// A set of scores. A season belongs to no generation; `start` is its number.
    struct SetRow in ranking_sets, key 1 {
        number: u64,
        board: String,
        generation: u64,
        kind: SetKind,
        start: u64,
        closed_at: Micros,
        announced: bool,
    }

    /// The score of a member.
    struct ScoreRow in ranking_scores, key 1 {
        row: u64,
        set_number: u64,
        member: String,
        value: i64,
        tie: u32,
        version: u64,
    }

    /// A remembered event.
    struct EventRow in ranking_events, key 1 {
        row: u64,
        generation: u64,
        arrived_s: u64,
        id: String,
        state: EventWord,
        member: Option<String>,
        delta: i64,
        at_ms: u64,
        season: u64,
    }
}

impl Stored for Machine {
    type Changes = Changes;

    fn record(&mut self) {
        self.journal.touched.get_or_insert_default();
    }

    fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        let Some(touched) = self.journal.touched.as_mut().map(std::mem::take) else { return changes };
        let Touched { boards, sets, scores, events } = touched;
        let is_unchanged = boards.is_empty() && sets.is_empty() && scores.is_empty() && events.is_empty();
        // Commands about boards that never existed leave nothing to store.
        if is_unchanged || !self.is_used {
            return changes;
        }
        changes.ranking_state.rows.push(RankingStateRow { id: 0, time: self.now });
        for name in boards {
            let row = self.boards.get(&name).map(|board| BoardRow::of(board, &name));
            changes.ranking_boards.put(row, || name.to_string());
        }
        sets.into_iter().for_each(|(number, row)| changes.ranking_sets.put(row, || number));
        scores.into_iter().for_each(|(number, row)| changes.ranking_scores.put(row, || number));
        events.into_iter().for_each(|(number, row)| changes.ranking_events.put(row, || number));
        changes
    }

    fn restore<S: RowSource>(
        source: &mut S,
        hash_seed: HashSeed,
        mode: RestoreMode,
    ) -> Result<Option<Restored<Self>>, S::Error> {
        let mut machine = Machine::empty(hash_seed);
        let mut rows = Restoring::new(source, mode, "a part of a board");
        rows.read_intact(|row: RankingStateRow| machine.now = row.time)?;
        let has_no_state = rows.is_new;
        let mut read = Read { next: 1, ..Read::default() };
        rows.read(|row: BoardRow| {
            read.boards.push(row);
            Ok(())
        })?;
        rows.read(|row: SetRow| {
            read.add_set(row, hash_seed);
            Ok(())
        })?;
        rows.read(|row: ScoreRow| read.add_score(row))?;
        rows.read(|row: EventRow| read.add_event(row))?;
        // Scores and events without a set do not show that the store had boards.
        rows.is_new = has_no_state && read.boards.is_empty() && read.sets.is_empty();
        for row in std::mem::take(&mut read.boards) {
            rows.accept(machine.restore_board(row, &mut read))?;
        }
        machine.journal.next = read.next;
        machine.is_used = !rows.is_new;
        machine.journal.touched = Some(Touched::default());
        let events = read.events.into_values().flatten().map(|(_, event)| event.row).collect();
        machine.journal.discard_rows(read.orphans, events);
        for (_, set) in read.sets.into_values() {
            machine.journal.discard_set(set);
        }
        if mode == RestoreMode::Mend {
            machine.touch_all();
        }
        Ok(rows.finish(machine))
    }
}

impl ScoreRow {
    pub(super) fn of(set_number: u64, member: &MemberId, score: Score) -> Self {
        let Score { value, tie, version, row } = score;
        Self { row, set_number, member: member.to_string(), value, tie, version }
    }
}

impl SetRow {
    pub(super) fn new(number: u64, board: &BoardName, generation: u64, kind: SetKind, start: u64) -> Self {
        let (closed_at, announced) = (Micros::default(), false);
        Self { number, board: board.to_string(), generation, kind, start, closed_at, announced }
    }

    pub(super) fn of_season(board: &BoardName, number: u64, season: &Season) -> Self {
        let row = Self::new(season.set.number, board, 0, SetKind::Season, number);
        Self { closed_at: season.closed_at, announced: season.announced, ..row }
    }
}

impl EventRow {
    pub(super) fn of(generation: u64, id: &EventId, event: &Event) -> Self {
        let (state, member, delta, at_ms, season) = match &event.mark {
            Mark::Counted { member, delta, at_ms, season } => {
                (EventWord::Counted, Some(member.to_string()), *delta, *at_ms, *season)
            }
            Mark::Cancelled => (EventWord::Cancelled, None, 0, 0, 0),
            Mark::Pending => (EventWord::Pending, None, 0, 0, 0),
        };
        let (row, arrived_s, id) = (event.row, event.arrived_s, id.to_string());
        Self { row, generation, arrived_s, id, state, member, delta, at_ms, season }
    }

    fn read(self) -> Result<(EventId, Event), Damage> {
        let mark = match (self.state, &self.member) {
            (EventWord::Counted, Some(member)) => Mark::Counted {
                member: MemberId::new(member).map_err(Damage::in_table("ranking_events"))?,
                delta: self.delta,
                at_ms: self.at_ms,
                season: self.season,
            },
            (EventWord::Counted, None) => return Err(Damage::new("ranking_events: an event has no member")),
            (EventWord::Cancelled, _) => Mark::Cancelled,
            (EventWord::Pending, _) => Mark::Pending,
        };
        let id = EventId::new(&self.id).map_err(Damage::in_table("ranking_events"))?;
        Ok((id, Event { row: self.row, arrived_s: self.arrived_s, mark }))
    }
}

/// Sets by their number, until every row is read.
type Sets = BTreeMap<u64, (SetRow, ScoreSet)>;
/// Events by their generation, in the order of their rows.
type Events = BTreeMap<u64, Vec<(EventId, Event)>>;

/// Rows that were read and are not assembled into boards yet.
#[derive(Default)]
struct Read {
    boards: Vec<BoardRow>,
    sets: Sets,
    events: Events,
    /// Rows of scores that belong to no set.
    orphans: Vec<u64>,
    next: u64,
}

impl Read {
    fn add_set(&mut self, row: SetRow, hash_seed: HashSeed) {
        self.next = self.next.max(row.number + 1).max(row.generation + 1);
        self.sets.insert(row.number, (row.clone(), ScoreSet::new(row.number, hash_seed)));
    }

    fn add_score(&mut self, row: ScoreRow) -> Result<(), Damage> {
        self.next = self.next.max(row.row + 1);
        // The rows of a removed set are removed in steps.
        let Some((_, set)) = self.sets.get_mut(&row.set_number) else {
            self.orphans.push(row.row);
            return Ok(());
        };
        let member = MemberId::new(&row.member).map_err(Damage::in_table("ranking_scores"))?;
        if set.get(&member).is_some() {
            return Err(Damage::new(format!("ranking_scores: {member} stands twice in {}", row.set_number)));
        }
        set.put(&member, Score { value: row.value, tie: row.tie, version: row.version, row: row.row });
        Ok(())
    }

    fn add_event(&mut self, row: EventRow) -> Result<(), Damage> {
        self.next = self.next.max(row.row + 1).max(row.generation + 1);
        let generation = row.generation;
        self.events.entry(generation).or_default().push(row.read()?);
        Ok(())
    }

    /// Assembles a generation from its sets and events.
    fn generation(
        &mut self,
        number: u64,
        horizon_ms: u64,
        hash_seed: HashSeed,
    ) -> Result<Generation, Damage> {
        self.next = self.next.max(number + 1);
        let sets =
            self.sets.extract_if(.., |_, (row, _)| row.generation == number && row.kind != SetKind::Season);
        let (mut all, mut windows) = (None, BTreeMap::new());
        for (_, (row, set)) in sets {
            let slot = match row.kind {
                SetKind::Hour => Slot::Hour(row.start),
                SetKind::Day => Slot::Day(row.start),
                SetKind::Week => Slot::Week(row.start),
                SetKind::All | SetKind::Season => {
                    all = Some(set);
                    continue;
                }
            };
            windows.insert(slot, set);
        }
        let all =
            all.ok_or_else(|| Damage::new(format!("ranking_sets: generation {number} has no scores")))?;
        let mut generation = Generation::restored(number, all, hash_seed);
        generation.due = windows.keys().map(|slot| (slot.removed_at(horizon_ms), *slot)).collect();
        generation.windows = windows;
        for (id, event) in self.events.remove(&number).unwrap_or_default() {
            generation.restore_event(horizon_ms, &id, event);
        }
        Ok(generation)
    }
}

impl Machine {
    fn restore_board(&mut self, row: BoardRow, read: &mut Read) -> Result<(), Damage> {
        let name = BoardName::new(&row.name).map_err(Damage::in_table("ranking_boards"))?;
        let windows = BoardWindows { hour: row.hours, day: row.days, week: row.weeks };
        let settings = BoardSettings {
            rule: row.rule,
            order: row.direction,
            decimals: row.decimals,
            windows,
            horizon_ms: row.horizon_ms,
            events_max: row.events_max,
        };
        settings.validate().map_err(|error| Damage::new(format!("ranking_boards: {name}: {error}")))?;
        let rebuild_id = |id: &String| RebuildId::new(id).map_err(Damage::in_table("ranking_boards"));
        let live = read.generation(row.live, row.horizon_ms, self.hash_seed)?;
        let mut board = Board::with(settings, live);
        if let (Some(number), Some(id)) = (row.staged, &row.rebuild) {
            let generation = read.generation(number, row.horizon_ms, self.hash_seed)?;
            board.staged = Some(Staged { id: rebuild_id(id)?, rows: row.rebuild_rows, generation });
        }
        let is_season = |set: &SetRow| set.kind == SetKind::Season && set.board == row.name;
        for (_, (set, scores)) in read.sets.extract_if(.., |_, (set, _)| is_season(set)) {
            let season = Season { set: scores, closed_at: set.closed_at, announced: set.announced };
            board.seasons.insert(set.start, season);
        }
        board.rebuilt = row.rebuilt.as_ref().map(rebuild_id).transpose()?;
        board.totals = BoardTotals::from_array(row.totals);
        row.apply(&mut board);
        board.deadline = board.next_due();
        self.deadlines.extend(board.deadline.map(|deadline| (deadline, name.clone())));
        self.boards.insert(name, board);
        Ok(())
    }

    /// Marks every row as changed.
    fn touch_all(&mut self) {
        for (name, board) in &self.boards {
            self.journal.touch_board(name);
            for (number, season) in &board.seasons {
                self.journal.touch_season(name, *number, season);
                self.journal.touch_scores(&season.set);
            }
            let staged = board.staged.as_ref().map(|staged| &staged.generation);
            for generation in std::iter::once(&board.live).chain(staged) {
                self.journal.touch_generation(name, generation);
            }
        }
    }
}
