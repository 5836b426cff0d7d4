//! Rows of an export into a new directory.
//!
//! They are put into the tables as they are, in one transaction: an import that ends early leaves none of them. If they fit together the queue is exactly what it was; if rows
//! are missing it is mended: what contradicts itself is worked out anew, so that a queue comes of whatever
//! could be saved.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::export::{Field, Record};
use super::{Disk, DiskError, Sync, read};

/// A directory that rows are put into.
#[derive(Debug)]
pub struct Import {
    disk: Disk,
    /// Columns that hold bytes, as `table.column`.
    bytes: BTreeSet<String>,
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
        let bytes = byte_columns(&disk.connection).map_err(|error| DiskError::of(error, &disk.file()))?;
        let import = Self { disk, bytes, rows: 0 };
        import.run("BEGIN IMMEDIATE")?;
        Ok(import)
    }

    /// Puts one row in; a table or column that does not exist is an error.
    pub fn add(&mut self, record: Record) -> Result<(), DiskError> {
        insert(&self.disk.connection, record, &self.bytes)
            .map_err(|error| DiskError::of(error, &self.disk.file()))?;
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
        let (mut machine, mended) = read::mend(&self.disk.connection, &file)?;
        if let Err(fault) = machine.check() {
            return Err(DiskError::Damaged { file, found: fault });
        }
        let changes = machine.take_changes();
        let written = self.disk.transact(|connection| {
            clear(connection)?;
            super::write::write(connection, &changes)
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

fn byte_columns(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let sql = "SELECT schema.name || '.' || column.name
        FROM sqlite_schema AS schema, pragma_table_info(schema.name) AS column WHERE column.type = 'BLOB'";
    let mut columns = connection.prepare(sql)?;
    let names = columns.query_map([], |row| row.get(0))?;
    names.collect()
}

fn insert(connection: &Connection, record: Record, bytes: &BTreeSet<String>) -> rusqlite::Result<()> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', ""));
    let columns: Vec<String> = record.fields.iter().map(|(name, _)| quoted(name)).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let table = quoted(&record.table);
    let sql = format!("INSERT OR REPLACE INTO {table} ({}) VALUES ({marks})", columns.join(", "));
    let values = record.fields.into_iter().map(|(name, field)| match field {
        Field::Text(text) if bytes.contains(&format!("{}.{name}", record.table)) => {
            Value::Blob(text.into_bytes())
        }
        field => Value::from(field),
    });
    connection.prepare_cached(&sql)?.execute(params_from_iter(values)).map(drop)
}

fn clear(connection: &Connection) -> rusqlite::Result<()> {
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    drop(tables);
    names.iter().try_for_each(|name| connection.execute_batch(&format!("DELETE FROM {name}")))
}
