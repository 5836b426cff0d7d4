//! Rows of an export into a new directory.
//!
//! They are put into the tables as they are, in one transaction: an import that ends early leaves none of them. If they fit together the queue is exactly what it was; if rows
//! are missing it is mended: what contradicts itself is worked out anew, so that a queue comes of whatever
//! could be saved.

use std::path::Path;

use fairlane_core::Changes;
use fairlane_core::kernel::Restored;
use fairlane_core::kernel::row::ColumnType;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::export::{Field, Record};
use super::{Disk, DiskError, Sync, rows};

/// A directory that rows are put into.
#[derive(Debug)]
pub struct Import {
    disk: Disk,
    rows: u64,
}

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Rows put in.
    pub rows: u64,
    /// What had to be mended, a line each.
    pub mended: Vec<String>,
}

impl Import {
    /// Into a directory that holds no queue.
    pub fn begin(folder: &Path) -> Result<Self, DiskError> {
        if folder.join(super::FILE).exists() {
            return Err(DiskError::Occupied { folder: folder.to_owned() });
        }
        let disk = Disk::open(folder, Sync::Soon, 0)?;
        let import = Self { disk, rows: 0 };
        import.run("BEGIN IMMEDIATE")?;
        Ok(import)
    }

    /// Puts one row in; a table or column that does not exist is an error.
    pub fn add(&mut self, record: Record) -> Result<(), DiskError> {
        insert(&self.disk.connection, record).map_err(|error| DiskError::of(error, &self.disk.file()))?;
        self.rows += 1;
        Ok(())
    }

    /// Mends what is in the directory, and closes it.
    pub fn finish(mut self) -> Result<Imported, DiskError> {
        self.run("COMMIT")?;
        let file = self.disk.file();
        if let Ok(Some(machine)) = self.disk.load(&mut |_| {})
            && machine.check().is_ok()
        {
            return Ok(Imported { rows: self.rows, mended: Vec::new() });
        }
        let Restored { mut machine, mended } = rows::mend(&self.disk.connection, &file)?;
        if let Err(fault) = machine.check() {
            return Err(DiskError::Damaged { file, found: fault });
        }
        let changes = machine.take_changes();
        let written = self.disk.transact(|connection| {
            clear(connection)?;
            rows::write(connection, &changes)
        });
        written.map_err(|error| DiskError::of(error, &file))?;
        self.disk.vacuum()?;
        Ok(Imported { rows: self.rows, mended })
    }

    fn run(&self, sql: &str) -> Result<(), DiskError> {
        let ran = self.disk.connection.execute_batch(sql);
        ran.map_err(|error| DiskError::of(error, &self.disk.file()))
    }
}

/// Whether a declared column holds bytes.
fn holds_bytes(table: &str, column: &str) -> bool {
    let table = Changes::tables().find(|declared| declared.name == table);
    let column = table.and_then(|table| table.columns.iter().find(|declared| declared.name == column));
    column.is_some_and(|column| column.column_type == ColumnType::Blob)
}

fn insert(connection: &Connection, record: Record) -> rusqlite::Result<()> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', ""));
    let columns: Vec<String> = record.fields.iter().map(|(name, _)| quoted(name)).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let table = quoted(&record.table);
    let sql = format!("INSERT OR REPLACE INTO {table} ({}) VALUES ({marks})", columns.join(", "));
    let values = record.fields.into_iter().map(|(name, field)| match field {
        Field::Text(text) if holds_bytes(&record.table, &name) => Value::Blob(text.into_bytes()),
        field => Value::from(field),
    });
    connection.prepare_cached(&sql)?.execute(params_from_iter(values)).map(drop)
}

fn clear(connection: &Connection) -> rusqlite::Result<()> {
    Changes::tables().try_for_each(|table| connection.execute_batch(&format!("DELETE FROM {}", table.name)))
}
