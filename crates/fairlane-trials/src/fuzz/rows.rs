//! The target for rows: a machine's rows with a few values changed, rows lost and rows repeated.
//!
//! An input is a list of changes, [`CHANGE_BYTES`] bytes each. The rows they apply to are those of a
//! machine after a fixed number of random commands.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use fairlane_conformance::differential::samples;
use fairlane_conformance::subject::START;
use fairlane_core::HashSeed;
use fairlane_core::kernel::row::{ChangeSet, Changed, Damage, Row, RowSink, RowSource, Unwritable, Value};
use fairlane_core::kernel::{RestoreMode, Stored as _};
use fairlane_core::queue::{Command, Machine, Reply, Settings};

/// Random commands that make the rows.
const STEPS: usize = 400;
/// Commands that a restored machine then applies.
const COMMANDS_AFTER: usize = 40;
/// The bytes of one change: table, row, column and action.
const CHANGE_BYTES: usize = 4;
/// Numbers that a value is replaced by.
const NUMBERS: [i64; 10] = [0, 1, -1, 2, 3, 7, 255, 1 << 20, 1 << 32, (1 << 53) - 1];
/// Numbers that no queue contains, because it counts below 2^53.
const LARGE_NUMBERS: [i64; 4] = [1 << 53, i64::MAX / 1000, i64::MAX, i64::MIN];
/// Texts that a value is replaced by.
const TEXTS: [&str; 8] = ["", "0", "-1", "9007199254740991", "a:b", "leased", "run", "\u{7f}"];
/// Texts of numbers that no queue contains.
const LARGE_TEXTS: [&str; 3] = ["9007199254740992", "9223372036854775807", "18446744073709551615"];

type Values = Vec<Value<'static>>;

/// Rows by table, in the order of their keys.
#[derive(Default, Clone)]
struct Rows(BTreeMap<&'static str, Vec<Values>>);

static COMMANDS: LazyLock<Vec<(Command, Reply)>> = LazyLock::new(|| samples(13, COMMANDS_AFTER));

static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
    machine.record();
    for (command, _) in samples(11, STEPS) {
        machine.apply(command, START);
    }
    let mut rows = Rows::default();
    machine.take_changes().write_to(&mut rows).expect("every value can be written");
    rows
});

/// Inputs with one change, and the empty input.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..=255).map(|byte: u8| vec![byte, byte.wrapping_mul(7), byte / 3, byte]).chain([Vec::new()]).collect()
}

/// Checks that damaged rows are an error, or make a machine that applies commands and still passes
/// its own check afterwards if it passed before.
pub fn run(changes: &[u8]) {
    let mut rows = ROWS.clone();
    for change in changes.chunks_exact(CHANGE_BYTES) {
        rows.change([change[0], change[1], change[2], change[3]]);
    }
    for mode in [RestoreMode::Strict, RestoreMode::Mend] {
        let Ok(Some(restored)) = Machine::restore(&mut rows, HashSeed::FIXED, mode) else { continue };
        let mut machine = restored.machine;
        if machine.check().is_err() {
            continue;
        }
        for (command, _) in COMMANDS.iter() {
            machine.apply(command.clone(), START);
        }
        if let Err(fault) = machine.check() {
            panic!("{fault}, {mode:?}");
        }
    }
}

impl Rows {
    fn change(&mut self, [table, row, column, what]: [u8; CHANGE_BYTES]) {
        let tables = self.0.len();
        let Some(rows) = self.0.values_mut().nth(usize::from(table) % tables) else { return };
        if rows.is_empty() {
            return;
        }
        let (row, other) = (usize::from(row) % rows.len(), usize::from(what) % rows.len());
        let column = usize::from(column) % rows[row].len();
        match what {
            0..16 => drop(rows.remove(row)),
            16..24 => rows.insert(row, rows[row].clone()),
            24..96 => rows[row][column] = rows[other][column].clone(),
            96..112 => rows[row][column] = Value::Null,
            112..140 => rows[row][column] = Value::Text(Cow::Borrowed(one_of(&TEXTS, what))),
            140..144 => rows[row][column] = Value::Text(Cow::Borrowed(one_of(&LARGE_TEXTS, what))),
            144..160 => rows[row][column] = Value::Blob(Cow::Owned(vec![what; usize::from(what) % 20])),
            160..250 => rows[row][column] = Value::Integer(one_of(&NUMBERS, what)),
            _ => rows[row][column] = Value::Integer(one_of(&LARGE_NUMBERS, what)),
        }
    }
}

fn one_of<T: Copy>(values: &[T], what: u8) -> T {
    values[usize::from(what) % values.len()]
}

impl RowSink for Rows {
    type Error = Unwritable;

    fn write<R: Row>(&mut self, changed: &Changed<R>) -> Result<(), Unwritable> {
        let rows = self.0.entry(R::TABLE.name).or_default();
        for row in &changed.rows {
            let mut values = Values::new();
            row.bind(|value| {
                values.push(value?.into_owned());
                Ok(())
            })?;
            rows.push(values);
        }
        rows.sort_by(|one, other| one[..R::TABLE.key_columns].cmp(&other[..R::TABLE.key_columns]));
        Ok(())
    }
}

impl RowSource for Rows {
    type Error = Damage;

    fn read<R: Row>(
        &mut self,
        mut take: impl FnMut(Result<R, Damage>) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        for row in self.0.get(R::TABLE.name).into_iter().flatten() {
            let mut values = row.iter().cloned();
            take(R::read(|| values.next().ok_or_else(|| Damage::new("a column is missing"))))?;
        }
        Ok(())
    }
}
