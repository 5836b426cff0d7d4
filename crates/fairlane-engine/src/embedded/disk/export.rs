//! All rows of a directory, one by one, as far as they can be read.
//!
//! Tables are read with the columns they have, so that everything is there. Where a table is damaged, its
//! readable parts are looked for on both sides of the damage; what is lost is said. The owner may be at work.

use std::path::Path;

use fairlane_core::Changes;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};

use super::{DiskError, look_at};

/// Longest jump over numbers that cannot be read.
const JUMP_MAX: i64 = 1 << 32;

/// One row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Which table.
    pub table: String,
    /// Columns and what stands in them, in the table's order.
    pub fields: Vec<(String, Field)>,
}

/// What stands in a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// SQL NULL.
    Null,
    /// A number.
    Integer(i64),
    /// A text value.
    Text(String),
    /// A value of bytes.
    Bytes(Vec<u8>),
}

/// What an export has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows given out, by table.
    pub rows: Vec<(String, u64)>,
    /// Tables of which some rows could not be read, and why.
    pub unread: Vec<(String, String)>,
}

/// Gives every row that can be read to `take`, which ends the export by an error of its own.
pub fn export<E: From<DiskError>>(
    folder: &Path,
    take: &mut dyn FnMut(Record) -> Result<(), E>,
) -> Result<Exported, E> {
    let connection = look_at(folder)?;
    let failed = |error| DiskError::of(error, &folder.join(super::FILE));
    let tables = tables(&connection).map_err(failed)?;
    // One transaction, so that all tables are of one moment.
    let reading = connection.unchecked_transaction().map_err(failed)?;
    let mut exported = Exported::default();
    for (table, keys) in tables {
        let mut reader = Reader { connection: &reading, table: &table, rows: 0, taken: Ok(()), take };
        let declared = Changes::tables().find(|declared| declared.name == table);
        let unread = match declared.filter(|declared| declared.is_numbered()) {
            Some(declared) => reader.read_numbered(declared.key()[0].name),
            None => reader.read_both_ways(&keys),
        };
        let Reader { rows, taken, .. } = reader;
        taken?;
        exported.unread.extend(unread.err().map(|error| (table.clone(), error.to_string())));
        exported.rows.push((table, rows));
    }
    Ok(exported)
}

/// The tables with their keys.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT name, (SELECT group_concat(column.name) FROM pragma_table_info(schema.name) AS column
            WHERE column.pk > 0)
        FROM sqlite_schema AS schema WHERE type = 'table' AND name <> 'probe' AND name NOT LIKE 'sqlite%'";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

struct Reader<'a, E> {
    connection: &'a Connection,
    table: &'a str,
    rows: u64,
    /// The error of the receiver of the rows; it ends the export.
    taken: Result<(), E>,
    take: &'a mut dyn FnMut(Record) -> Result<(), E>,
}

impl<E> Reader<'_, E> {
    /// In the order of numbers, with jumps over what cannot be read.
    fn read_numbered(&mut self, number: &str) -> rusqlite::Result<()> {
        let sql = format!("SELECT * FROM {} WHERE {number} >= ?1 ORDER BY {number}", self.table);
        let mut next = 0;
        let mut first_error = None;
        while let Err(error) = self.read_from(&sql, &mut next) {
            first_error.get_or_insert(error);
            match self.find_readable(&sql, next) {
                Some(found) => next = found,
                None => break,
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn read_from(&mut self, sql: &str, next: &mut i64) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([*next])?;
        while let Some(row) = rows.next()? {
            let record = record(self.table, row)?;
            *next = row.get::<_, i64>(0)? + 1;
            if !self.give(record) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The first number behind `from` where reading works again, to within a row.
    fn find_readable(&self, sql: &str, from: i64) -> Option<i64> {
        let readable = |at: i64| {
            let mut statement = self.connection.prepare(sql).ok()?;
            let mut rows = statement.query([at]).ok()?;
            Some(rows.next().ok()?.is_some_and(|row| record(self.table, row).is_ok()))
        };
        let (mut bad, mut jump) = (from, 1);
        let mut good = loop {
            match readable(from + jump) {
                Some(true) => break from + jump,
                Some(false) => return None,
                None if jump >= JUMP_MAX => return None,
                None => (bad, jump) = (from + jump, jump * 2),
            }
        };
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            if readable(middle) == Some(true) { good = middle } else { bad = middle }
        }
        Some(good)
    }

    /// From the beginning, and if that ends early, from the end too.
    fn read_both_ways(&mut self, keys: &str) -> rusqlite::Result<()> {
        let before = self.rows;
        let Err(error) = self.read_all(&format!("SELECT * FROM {} ORDER BY {keys}", self.table), u64::MAX)
        else {
            return Ok(());
        };
        let forward = self.rows - before;
        let all = format!("SELECT count(*) FROM {}", self.table);
        let left =
            self.connection.query_row(&all, [], |row| row.get::<_, u64>(0)).unwrap_or(u64::MAX) - forward;
        let descending = keys.replace(',', " DESC,");
        // It may fail as well; the first error is the one to tell.
        let _ = self.read_all(&format!("SELECT * FROM {} ORDER BY {descending} DESC", self.table), left);
        Err(error)
    }

    fn read_all(&mut self, sql: &str, most: u64) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut read = 0;
        while read < most
            && let Some(row) = rows.next()?
        {
            let record = record(self.table, row)?;
            read += 1;
            if !self.give(record) {
                break;
            }
        }
        Ok(())
    }

    fn give(&mut self, record: Record) -> bool {
        if self.taken.is_ok() {
            self.rows += 1;
            self.taken = (self.take)(record);
        }
        self.taken.is_ok()
    }
}

fn record(table: &str, row: &Row<'_>) -> rusqlite::Result<Record> {
    let statement = row.as_ref();
    let mut fields = Vec::new();
    for (index, name) in statement.column_names().enumerate() {
        let field = match row.get_ref(index)? {
            ValueRef::Null => Field::Null,
            ValueRef::Integer(number) => Field::Integer(number),
            ValueRef::Real(number) => Field::Integer(number as i64),
            ValueRef::Text(text) => Field::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Field::Bytes(bytes.to_vec()),
        };
        fields.push((name.to_owned(), field));
    }
    Ok(Record { table: table.to_owned(), fields })
}

impl From<Field> for Value {
    fn from(field: Field) -> Self {
        match field {
            Field::Null => Self::Null,
            Field::Integer(number) => Self::Integer(number),
            Field::Text(text) => Self::Text(text),
            Field::Bytes(bytes) => Self::Blob(bytes),
        }
    }
}
