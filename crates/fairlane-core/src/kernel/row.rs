//! Rows: how the state of a machine passes to a store and back.
//!
//! A capability declares each kind of row once, with `rows!` (`kernel/row/rows_macro.rs`). A store
//! moves rows table by table without interpreting them: it is a [`RowSink`] for rows that have
//! changed and a [`RowSource`] for all of them. `kernel/row/columns.rs` has the types that a column
//! can have, and `kernel/row/restoring.rs` leaves damaged rows out.
//!
//! Invariant: a row that was written reads as an equal row. Left out on purpose: SQL and files,
//! which belong to the store.

mod columns;
mod restoring;
mod rows_macro;

pub(crate) use columns::stored_words;
pub(crate) use restoring::Restoring;
pub(crate) use rows_macro::rows;

use std::borrow::Cow;
use std::fmt::{self, Debug};

/// The content of one column of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// A number.
    Integer(i64),
    /// A text value.
    Text(Cow<'a, str>),
    /// A value of bytes.
    Blob(Cow<'a, [u8]>),
}

impl Value<'_> {
    /// The value without borrowed content.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(number),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Blob(bytes) => Value::Blob(Cow::Owned(bytes.into_owned())),
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("no value"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Blob(bytes) => write!(f, "a value of {} bytes", bytes.len()),
        }
    }
}

/// The type that a store gives a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A number that fits an `i64`.
    Integer,
    /// Text in UTF-8.
    Text,
    /// Columns of bytes.
    Blob,
}

/// A column as it is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name in the store.
    pub name: &'static str,
    /// Its type in the store.
    pub column_type: ColumnType,
    /// Whether a row may have no value in it.
    pub nullable: bool,
}

/// A table as it is declared.
#[derive(Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name in the store.
    pub name: &'static str,
    /// Its columns; those of the key come first.
    pub columns: &'static [ColumnInfo],
    /// How many columns the key has.
    pub key_columns: usize,
    /// Whether a row is never written again, so that a second one with its key is an error.
    pub written_once: bool,
}

impl TableInfo {
    /// The columns of the key, most significant first.
    pub fn key(&self) -> &'static [ColumnInfo] {
        &self.columns[..self.key_columns]
    }

    /// Whether the key is one number.
    pub fn is_numbered(&self) -> bool {
        matches!(self.key(), [ColumnInfo { column_type: ColumnType::Integer, .. }])
    }
}

/// Rows that contradict each other, or a row with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(String);

impl Damage {
    /// Damage with this description, by which an operator can find it.
    pub fn new(found: impl Into<String>) -> Self {
        Self(found.into())
    }

    /// Damage in a table, from the error that a value in it causes.
    pub(crate) fn in_table<E: fmt::Display>(table: &'static str) -> impl Fn(E) -> Self + Copy {
        move |error| Self(format!("{table}: {error}"))
    }

    /// The same damage, with the column it was found in.
    pub(crate) fn in_column(self, table: &str, column: &str) -> Self {
        Self(format!("{table}.{column}: {}", self.0))
    }
}

/// A number that is larger than a store can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is more than {max}", max = i64::MAX)]
pub struct Unwritable(pub u64);

/// A type that a column can have.
pub trait Column: Sized {
    /// Its type in the store.
    const TYPE: ColumnType;
    /// Whether the store may have no value for it.
    const NULLABLE: bool = false;

    /// The value to write, borrowed where that is possible.
    fn to_value(&self) -> Result<Value<'_>, Unwritable>;

    /// Reads a value that [`to_value`](Self::to_value) has written.
    fn from_value(value: Value<'_>) -> Result<Self, Damage>;
}

/// A row of one table.
pub trait Row: Sized + Debug {
    /// The type of the first column, with which the key begins.
    type Key: Column + Debug;
    /// The table of rows of this kind.
    const TABLE: &'static TableInfo;

    /// Passes the value of each column to `put`, in the order of the columns.
    fn bind<E>(&self, put: impl FnMut(Result<Value<'_>, Unwritable>) -> Result<(), E>) -> Result<(), E>;

    /// Makes a row of the values that `next` gives, in the order of the columns.
    fn read<'a>(next: impl FnMut() -> Result<Value<'a>, Damage>) -> Result<Self, Damage>;
}

/// Rows of one table to be removed and to be written, in this order.
#[derive(Debug)]
pub struct Changed<R: Row> {
    /// All rows whose key begins with one of these are to be removed.
    pub gone: Vec<R::Key>,
    /// Ranges of rows to be removed. With a first column, these are the rows whose key begins with
    /// it and whose next column is below the number; without one, the rows whose first column is
    /// below the number.
    pub gone_below: Vec<(Option<R::Key>, u64)>,
    /// Rows that are new or changed.
    pub rows: Vec<R>,
}

impl<R: Row> Default for Changed<R> {
    fn default() -> Self {
        Self { gone: Vec::new(), gone_below: Vec::new(), rows: Vec::new() }
    }
}

impl<R: Row> Changed<R> {
    /// How many changes there are.
    pub fn count(&self) -> usize {
        self.gone.len() + self.gone_below.len() + self.rows.len()
    }

    /// Writes a changed row, or removes the row with this key if `row` is `None`.
    pub(crate) fn put(&mut self, row: Option<R>, key: impl FnOnce() -> R::Key) {
        match row {
            Some(row) => self.rows.push(row),
            None => self.gone.push(key()),
        }
    }
}

/// The changes of a capability's tables, as `rows!` declares them.
pub trait ChangeSet {
    /// All tables.
    const TABLES: &'static [&'static TableInfo];

    /// Writes the changes of each table to a store.
    fn write_to<S: RowSink>(&self, store: &mut S) -> Result<(), S::Error>;

    /// The number of rows to remove and to write.
    fn count(&self) -> usize;
}

/// A store that takes changes, table by table.
pub trait RowSink {
    /// Why a change was not taken.
    type Error;

    /// Removes and writes rows of one table.
    fn write<R: Row>(&mut self, changed: &Changed<R>) -> Result<(), Self::Error>;
}

/// A store that gives rows, table by table.
pub trait RowSource {
    /// Why rows cannot be read.
    type Error: From<Damage>;

    /// Passes all rows of one table to `take`, in the order of their keys. A row that cannot be
    /// decoded is passed as an error; `take` decides whether reading goes on.
    fn read<R: Row>(
        &mut self,
        take: impl FnMut(Result<R, Damage>) -> Result<(), Damage>,
    ) -> Result<(), Self::Error>;
}
