//! The tables, and how older ones become today's.
//!
//! Times are microseconds since 1970. A table holds what a machine cannot work out for itself; the
//! view `job_list` is for people. A table or column that is declared (`rows!` in the core) and
//! missing in a file is added. Any other change, and one that older programs must not open, appends
//! a step to [`STEPS`]; none is ever changed.

use std::path::Path;

use fairlane_core::Changes;
use fairlane_core::kernel::row::{ColumnInfo, ColumnType, TableInfo};
use rusqlite::Connection;

use super::DiskError;

/// "Fair", in the file's header.
const APPLICATION_ID: u32 = 0x4661_6972;

/// What brings a file from one version to the next; version 0 is an empty file.
const STEPS: [&str; 8] =
    [FIRST, BULK_PAYLOAD, TYPE_RETRIES, BULK_AGGREGATED, JOB_TRACE, BULK_WORKER, LANE_CLEARING, GROUP_IDLE];

const FIRST: &str = "
CREATE TABLE whole (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE types (
    name TEXT PRIMARY KEY,
    rate TEXT,
    concurrency INTEGER,
    paused INTEGER NOT NULL,
    bucket_level INTEGER NOT NULL,
    bucket_at INTEGER NOT NULL,
    virtual_time INTEGER NOT NULL,
    order_high TEXT NOT NULL,
    order_normal TEXT NOT NULL,
    order_low TEXT NOT NULL,
    cut_at INTEGER,
    cut_fence INTEGER,
    cut_plateau_milli INTEGER,
    cut_plateau_ms INTEGER,
    closed_until INTEGER NOT NULL,
    goodput_at INTEGER NOT NULL,
    goodput TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    timer_worker TEXT,
    timer_at INTEGER,
    asked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE groups (
    name TEXT PRIMARY KEY,
    weight INTEGER NOT NULL,
    rate TEXT,
    concurrency INTEGER,
    paused INTEGER NOT NULL,
    bucket_level INTEGER NOT NULL,
    bucket_at INTEGER NOT NULL,
    base_priority INTEGER NOT NULL,
    window_second INTEGER NOT NULL,
    window_jobs INTEGER NOT NULL,
    total INTEGER NOT NULL,
    done INTEGER NOT NULL,
    throttles INTEGER NOT NULL,
    throttles_since INTEGER NOT NULL,
    noted INTEGER NOT NULL,
    backoff_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshots (
    group_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    taken_at INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    speed INTEGER NOT NULL,
    backoff_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE lanes (
    group_id TEXT NOT NULL,
    type_id TEXT NOT NULL,
    level TEXT NOT NULL,
    standing TEXT NOT NULL,
    until INTEGER,
    tag INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    remainder INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (group_id, type_id, level)
) STRICT, WITHOUT ROWID;

-- What of a job never changes.
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    group_id TEXT NOT NULL,
    id TEXT NOT NULL,
    type_id TEXT NOT NULL,
    level TEXT NOT NULL,
    cost INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    bulk INTEGER,
    payload BLOB NOT NULL
) STRICT;

-- What does. A job without a row here stands in its lane as it came.
CREATE TABLE progress (
    number INTEGER PRIMARY KEY,
    place TEXT NOT NULL,
    position INTEGER,
    due_at INTEGER,
    fence INTEGER,
    batch INTEGER,
    worker TEXT,
    bulk INTEGER,
    cancelled INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER,
    throttles INTEGER,
    losses INTEGER,
    settled_fence INTEGER,
    settled_at INTEGER,
    last_worker TEXT,
    note BLOB
) STRICT;

CREATE TABLE batches (
    batch INTEGER PRIMARY KEY,
    deadline INTEGER,
    jobs TEXT NOT NULL
) STRICT;

-- Jobs without a bulk action that were completed or cancelled together, by their numbers.
CREATE TABLE completed (
    chunk INTEGER PRIMARY KEY,
    completed_at INTEGER NOT NULL,
    jobs TEXT NOT NULL
) STRICT;

CREATE TABLE bulks (
    number INTEGER PRIMARY KEY,
    group_id TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    course TEXT NOT NULL,
    sealed INTEGER NOT NULL,
    total INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    deadline INTEGER,
    failures_max INTEGER,
    cause TEXT,
    fence INTEGER NOT NULL,
    take_at INTEGER,
    summary BLOB NOT NULL
) STRICT;

-- Jobs of a bulk action that ended together, an id a line.
CREATE TABLE bulk_ended (
    bulk INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    jobs TEXT NOT NULL,
    PRIMARY KEY (bulk, chunk)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    request INTEGER NOT NULL,
    until INTEGER NOT NULL,
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE probe (bytes BLOB) STRICT;

CREATE VIEW job_list AS
SELECT number, group_id, id, type_id, level, cost,
    CASE WHEN progress.cancelled THEN 'cancelled' ELSE COALESCE(place, 'lane') END AS place,
    datetime(created_at / 1000000, 'unixepoch') AS created,
    datetime(due_at / 1000000, 'unixepoch') AS due,
    datetime(settled_at / 1000000, 'unixepoch') AS settled,
    COALESCE(attempts, 0) AS attempts,
    COALESCE(throttles, 0) AS throttles,
    COALESCE(losses, 0) AS losses,
    COALESCE(worker, last_worker) AS worker,
    CAST(note AS TEXT) AS note,
    CAST(payload AS TEXT) AS payload
FROM jobs LEFT JOIN progress USING (number);
";

const BULK_PAYLOAD: &str = "
ALTER TABLE bulks ADD COLUMN payload BLOB NOT NULL DEFAULT x'';
";

const TYPE_RETRIES: &str = "
ALTER TABLE types ADD COLUMN max_retry_count INTEGER;
";

/// Bulk actions that ended by then were not handed out, and are not now.
const BULK_AGGREGATED: &str = "
ALTER TABLE bulks ADD COLUMN aggregated INTEGER NOT NULL DEFAULT 0;
UPDATE bulks SET aggregated = 1 WHERE state IN ('COMPLETED', 'FAILED', 'CANCELLED');
";

/// The packed form of a job's trace.
const JOB_TRACE: &str = "
ALTER TABLE jobs ADD COLUMN trace BLOB;
";

/// Who has a bulk action in hand to aggregate it.
const BULK_WORKER: &str = "
ALTER TABLE bulks ADD COLUMN worker TEXT;
";

/// No table changes: a lane may stand as `clearing`, which programs of before cannot read.
const LANE_CLEARING: &str = "";

/// When a group is looked at because it may have nothing left.
const GROUP_IDLE: &str = "
ALTER TABLE groups ADD COLUMN idle_at INTEGER;
";

/// Makes the tables of a new file, or brings older ones up to date.
pub(super) fn bring_up(connection: &Connection, file: &Path) -> Result<(), DiskError> {
    let failed = |error| DiskError::of(error, file);
    let ask = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, u32>(0)).map_err(failed);
    let (version, application) = (ask("PRAGMA user_version")?, ask("PRAGMA application_id")?);
    let tables = ask("SELECT count(*) FROM sqlite_schema")?;
    if application != APPLICATION_ID && (tables > 0 || application != 0) {
        return Err(DiskError::Foreign { file: file.to_owned() });
    }
    let known = STEPS.len() as u32;
    if version > known {
        return Err(DiskError::Newer { file: file.to_owned(), found: version, known });
    }
    for (step, from) in STEPS.iter().zip(0..).skip(version as usize) {
        // All of a step or nothing, with the version it leads to.
        let next = from + 1;
        let whole = format!(
            "BEGIN IMMEDIATE; {step} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {next}; COMMIT"
        );
        connection.execute_batch(&whole).map_err(failed)?;
    }
    if version == known
        && let Some(table) = lost_table(connection).map_err(failed)?
    {
        return Err(DiskError::Damaged {
            file: file.to_owned(),
            found: format!("the table {table} is missing"),
        });
    }
    add_missing(connection).map_err(failed)
}

/// A declared table that a step creates and an up-to-date file does not have: its rows are lost.
fn lost_table(connection: &Connection) -> rusqlite::Result<Option<&'static str>> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let mut count = connection.prepare(sql)?;
    for table in Changes::tables() {
        let created = format!("CREATE TABLE {} (", table.name);
        let is_of_a_step = STEPS.iter().any(|step| step.contains(&created));
        if is_of_a_step && count.query_row([table.name], |row| row.get::<_, u32>(0))? == 0 {
            return Ok(Some(table.name));
        }
    }
    Ok(None)
}

/// Adds the tables and columns that are declared and missing.
fn add_missing(connection: &Connection) -> rusqlite::Result<()> {
    let mut missing = String::new();
    for table in Changes::tables() {
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let present: Vec<String> =
            columns.query_map([table.name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        if present.is_empty() {
            missing += &created(table);
            continue;
        }
        for column in table.columns.iter().filter(|column| !present.iter().any(|name| name == column.name)) {
            missing += &format!("ALTER TABLE {} ADD COLUMN {}; ", table.name, defined(column));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    connection.execute_batch(&format!("BEGIN IMMEDIATE; {missing} COMMIT"))
}

fn created(table: &TableInfo) -> String {
    let columns: Vec<String> = table.columns.iter().map(defined).collect();
    let key: Vec<&str> = table.key().iter().map(|column| column.name).collect();
    // A number is the row's own id; any other key would be an index beside the rows.
    let rows = if table.is_numbered() { "STRICT" } else { "STRICT, WITHOUT ROWID" };
    let (columns, key) = (columns.join(", "), key.join(", "));
    format!("CREATE TABLE {} ({columns}, PRIMARY KEY ({key})) {rows}; ", table.name)
}

fn defined(column: &ColumnInfo) -> String {
    let (word, empty) = sql_type(column.column_type);
    match column.nullable {
        true => format!("{} {word}", column.name),
        false => format!("{} {word} NOT NULL DEFAULT {empty}", column.name),
    }
}

/// The type's name, and the value that rows from before a column have in it.
fn sql_type(column_type: ColumnType) -> (&'static str, &'static str) {
    match column_type {
        ColumnType::Integer => ("INTEGER", "0"),
        ColumnType::Text => ("TEXT", "''"),
        ColumnType::Blob => ("BLOB", "x''"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// By table and column: the type, whether a value is needed, and the place in the key.
    type Schema = BTreeMap<String, BTreeMap<String, (String, bool, usize)>>;

    /// A file as the program of this version made it.
    fn made_by(version: usize) -> Connection {
        let file = Connection::open_in_memory().unwrap();
        let steps = STEPS[..version].concat();
        let header = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}");
        file.execute_batch(&format!("{steps} {header}")).unwrap();
        file
    }

    fn brought_up(file: Connection) -> Connection {
        bring_up(&file, Path::new("file")).unwrap();
        file
    }

    fn schema(file: &Connection) -> Schema {
        let sql = "SELECT tables.name, columns.name, columns.type, columns.\"notnull\", columns.pk
            FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
            WHERE tables.type = 'table' AND tables.name <> 'probe'";
        let mut schema = Schema::new();
        let mut columns = file.prepare(sql).unwrap();
        let mut rows = columns.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let key: usize = row.get(4).unwrap();
            // A column of the key must have a value either way.
            let needed = row.get::<_, bool>(3).unwrap() || key > 0;
            let table = schema.entry(row.get(0).unwrap()).or_default();
            table.insert(row.get(1).unwrap(), (row.get(2).unwrap(), needed, key));
        }
        schema
    }

    fn declared() -> Schema {
        let column = |table: &TableInfo, (index, column): (usize, &ColumnInfo)| {
            let key = if index < table.key_columns { index + 1 } else { 0 };
            let stored = (sql_type(column.column_type).0.to_owned(), !column.nullable, key);
            (column.name.to_owned(), stored)
        };
        let columns =
            |table: &TableInfo| table.columns.iter().enumerate().map(|at| column(table, at)).collect();
        Changes::tables().map(|table| (table.name.to_owned(), columns(table))).collect()
    }

    #[test]
    fn a_new_file_has_exactly_the_declared_tables_and_columns() {
        let file = brought_up(Connection::open_in_memory().unwrap());
        assert_eq!(schema(&file), declared());
    }

    #[test]
    fn a_file_of_any_older_version_gets_the_schema_of_a_new_one() {
        for version in 1..=STEPS.len() {
            assert_eq!(schema(&brought_up(made_by(version))), declared(), "version {version}");
        }
    }

    #[test]
    fn declared_columns_that_are_missing_are_added_and_rows_keep_their_values() {
        let file = brought_up(Connection::open_in_memory().unwrap());
        file.execute_batch(
            "INSERT INTO groups SELECT 'g', 7, NULL, 3, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1;
             ALTER TABLE groups DROP COLUMN weight;
             ALTER TABLE groups DROP COLUMN idle_at;
             ALTER TABLE bulks DROP COLUMN payload",
        )
        .unwrap();
        let file = brought_up(file);
        assert_eq!(schema(&file), declared());
        let sql = "SELECT concurrency, weight, idle_at FROM groups WHERE name = 'g'";
        let group: (u64, u64, Option<u64>) =
            file.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        assert_eq!(group, (3, 0, None));
    }

    #[test]
    fn a_declared_table_is_created_as_declared() {
        let file = Connection::open_in_memory().unwrap();
        let tables: String = Changes::tables().map(created).collect();
        file.execute_batch(&tables).unwrap();
        assert_eq!(schema(&file), declared());
    }

    #[test]
    fn a_file_that_has_lost_a_table_is_damaged() {
        let file = brought_up(Connection::open_in_memory().unwrap());
        file.execute_batch("DROP TABLE progress").unwrap();
        let refused = bring_up(&file, Path::new("file")).unwrap_err();
        assert!(matches!(refused, DiskError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("the table progress is missing"), "{refused}");
    }
}
