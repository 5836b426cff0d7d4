//! Rows between the tables and a machine, by the declared tables and columns.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use fairlane_core::kernel::row::{
    Changed, Column, Damage, Row, RowSink, RowSource, TableInfo, Unwritable, Value,
};
use fairlane_core::kernel::{RestoreMode, Restored};
use fairlane_core::queue::rows::LARGEST_TABLE;
use fairlane_core::{Changes, Machines};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use super::DiskError;
use crate::embedded::random_hash_seed;

/// Jobs between two reports of progress.
const PROGRESS_JOBS: u64 = 100_000;

/// The statement that writes a row, by table.
static INSERTS: LazyLock<BTreeMap<&str, String>> =
    LazyLock::new(|| Changes::tables().map(|table| (table.name, insert(table))).collect());

/// How far the loading of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loading {
    /// Jobs read so far.
    pub jobs: u64,
    /// Jobs in the directory.
    pub of: u64,
}

/// Writes everything within the transaction that is open.
pub(super) fn write(connection: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    changes.write_to(&mut Writer { connection })
}

struct Writer<'a> {
    connection: &'a Connection,
}

impl RowSink for Writer<'_> {
    type Error = rusqlite::Error;

    fn write<R: Row>(&mut self, changed: &Changed<R>) -> rusqlite::Result<()> {
        let table = R::TABLE;
        if !changed.gone.is_empty() {
            let sql = format!("DELETE FROM {} WHERE {} = ?1", table.name, table.columns[0].name);
            let mut delete = self.connection.prepare_cached(&sql)?;
            for key in &changed.gone {
                bind(&mut delete, table, 0, key.to_value())?;
                delete.raw_execute()?;
            }
        }
        for (key, below) in &changed.gone_below {
            self.delete_below(table, key.as_ref(), *below)?;
        }
        if changed.rows.is_empty() {
            return Ok(());
        }
        let mut insert = self.connection.prepare_cached(&INSERTS[table.name])?;
        for row in &changed.rows {
            let mut column = 0;
            row.bind(|value| {
                column += 1;
                bind(&mut insert, table, column - 1, value)
            })?;
            insert.raw_execute()?;
        }
        Ok(())
    }
}

impl Writer<'_> {
    fn delete_below(&self, table: &TableInfo, key: Option<&impl Column>, below: u64) -> rusqlite::Result<()> {
        let of_key = key.map_or(String::new(), |_| format!("{} = ?1 AND ", table.columns[0].name));
        let number = usize::from(key.is_some());
        let sql = format!(
            "DELETE FROM {} WHERE {of_key}{} < ?{}",
            table.name,
            table.columns[number].name,
            number + 1
        );
        let mut delete = self.connection.prepare_cached(&sql)?;
        if let Some(key) = key {
            bind(&mut delete, table, 0, key.to_value())?;
        }
        bind(&mut delete, table, number, below.to_value())?;
        delete.raw_execute().map(drop)
    }
}

/// Binds the value of a column to the parameter of the same number.
fn bind(
    statement: &mut Statement<'_>,
    table: &TableInfo,
    column: usize,
    value: Result<Value<'_>, Unwritable>,
) -> rusqlite::Result<()> {
    let value = value.map_err(|unwritable| {
        let reason = format!("{}.{}: {unwritable}", table.name, table.columns[column].name);
        rusqlite::Error::ToSqlConversionFailure(reason.into())
    })?;
    statement.raw_bind_parameter(column + 1, Bound(value))
}

struct Bound<'a>(Value<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn insert(table: &TableInfo) -> String {
    let verb = if table.written_once { "INSERT" } else { "INSERT OR REPLACE" };
    let marks = vec!["?"; table.columns.len()].join(", ");
    format!("{verb} INTO {} ({}) VALUES ({marks})", table.name, column_names(table))
}

fn column_names(table: &TableInfo) -> String {
    table.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}

/// Why a table cannot be read.
enum Unread {
    /// SQLite could not read it.
    Sqlite(rusqlite::Error),
    /// SQLite could, and its rows make no queue.
    Damage(Damage),
}

impl Unread {
    fn of(self, file: &Path) -> DiskError {
        match self {
            Self::Sqlite(error) => DiskError::of(error, file),
            Self::Damage(damage) => DiskError::damaged(&damage, file),
        }
    }
}

impl From<rusqlite::Error> for Unread {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Damage> for Unread {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

/// The machines made of all rows, or `None` if none have been written.
pub(super) fn load(
    connection: &Connection,
    file: &Path,
    progress: &mut dyn FnMut(Loading),
) -> Result<Option<Machines>, DiskError> {
    // One transaction, so that all tables are of one moment.
    let read = connection.unchecked_transaction().map_err(Unread::Sqlite);
    let restored = read.and_then(|transaction| {
        let mut reader = Reader { connection: &transaction, progress };
        Machines::restore(&mut reader, random_hash_seed(), RestoreMode::Strict)
    });
    restored.map(|restored| restored.map(|restored| restored.machine)).map_err(|unread| unread.of(file))
}

/// The machines made of rows of which some are missing, all still to be written; and what was
/// mended.
pub(super) fn mend(connection: &Connection, file: &Path) -> Result<Restored<Machines>, DiskError> {
    let mut reader = Reader { connection, progress: &mut |_| {} };
    let restored = Machines::restore(&mut reader, random_hash_seed(), RestoreMode::Mend);
    let restored = restored.map_err(|unread| unread.of(file))?;
    restored.ok_or_else(|| DiskError::damaged(&Damage::new("no rows came in"), file))
}

struct Reader<'a> {
    connection: &'a Connection,
    progress: &'a mut dyn FnMut(Loading),
}

impl RowSource for Reader<'_> {
    type Error = Unread;

    /// Rows are handed on one by one, so that a million jobs are in memory once.
    fn read<R: Row>(
        &mut self,
        mut take: impl FnMut(Result<R, Damage>) -> Result<(), Damage>,
    ) -> Result<(), Unread> {
        let table = R::TABLE;
        let is_largest = table.name == LARGEST_TABLE.name;
        let all = format!("SELECT count(*) FROM {}", table.name);
        let of = if is_largest { self.connection.query_row(&all, [], |row| row.get(0))? } else { 0 };
        let mut select = self.connection.prepare(&select(table))?;
        let mut rows = select.query([])?;
        let mut jobs = 0;
        while let Some(row) = rows.next()? {
            let mut column = 0;
            take(R::read(|| {
                column += 1;
                value(row, column - 1)
            }))?;
            jobs += 1;
            if is_largest && jobs % PROGRESS_JOBS == 0 {
                (self.progress)(Loading { jobs, of });
            }
        }
        Ok(())
    }
}

fn select(table: &TableInfo) -> String {
    let key = table.key().iter().map(|column| column.name).collect::<Vec<_>>().join(", ");
    format!("SELECT {} FROM {} ORDER BY {key}", column_names(table), table.name)
}

fn value<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Result<Value<'a>, Damage> {
    match row.get_ref(column).map_err(|error| Damage::new(error.to_string()))? {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Integer(number)),
        ValueRef::Real(number) => Err(Damage::new(format!("{number} is not a whole number"))),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Value::Text(Cow::Borrowed(text))),
            Err(error) => Err(Damage::new(error.to_string())),
        },
        ValueRef::Blob(bytes) => Ok(Value::Blob(Cow::Borrowed(bytes))),
    }
}
