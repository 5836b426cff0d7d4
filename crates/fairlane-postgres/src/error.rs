//! Errors, with what to do about them.

use sqlx::error::DatabaseError;

/// An error of the outbox; its message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// PostgreSQL refused a statement or does not reply.
    #[error("{}", database_text(.0))]
    Database(#[from] sqlx::Error),
    /// The job is invalid, or the queue refused a command or does not reply.
    #[error(transparent)]
    Queue(#[from] fairlane::Error),
    /// A newer version of Fairlane has upgraded the tables.
    #[error(
        "the outbox has step {applied} of its tables, and this version knows {known}; use a newer version"
    )]
    NewerSchema {
        /// Number of migration steps that the database has.
        applied: usize,
        /// Number of migration steps that this version knows.
        known: usize,
    },
    /// A migration found the tables in use until it gave up.
    #[error("the tables are in use by other transactions: {holders}; end them and migrate again")]
    TablesInUse {
        /// The oldest of these transactions: process, user, application, state and statement.
        holders: String,
    },
}

impl From<fairlane::EngineError> for Error {
    fn from(error: fairlane::EngineError) -> Self {
        Self::Queue(error.into())
    }
}

fn database_text(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(database) => match cure(&**database) {
            Some(cure) => format!("PostgreSQL: {}; {cure}", database.message()),
            None => format!("PostgreSQL: {}", database.message()),
        },
        sqlx::Error::PoolTimedOut => {
            "PostgreSQL does not reply, or all connections are in use; check its address and max_connections"
                .to_owned()
        }
        sqlx::Error::Io(error) => {
            format!("PostgreSQL does not reply: {error}; check its address and whether it runs")
        }
        sqlx::Error::Configuration(error) => format!(
            "the address of the database cannot be used: {error}; it looks like postgres://user@host/database"
        ),
        other => format!("PostgreSQL: {other}"),
    }
}

/// The remedy for an error, by its SQLSTATE.
fn cure(error: &dyn DatabaseError) -> Option<&'static str> {
    match error.code()?.as_ref() {
        // An undefined table, function or column: a migration is missing.
        "42P01" | "42883" | "42703" => Some("run `fairlane outbox migrate` for this database"),
        "42501" => Some("grant this role access to the tables fairlane_outbox and fairlane_mirror"),
        "28000" | "28P01" => Some("check the user and password in its address"),
        "3D000" => Some("create the database, or correct its name in the address"),
        "53300" => Some("raise max_connections of the server, or use fewer connections"),
        "26000" | "42P05" => {
            Some("name a direct address for producers, or upgrade PgBouncer to 1.21 or newer")
        }
        "23514" => Some("a job needs a group and a type, both strings; a group or id has at most 128 bytes"),
        "57014" => {
            Some("run `fairlane outbox migrate` if it was not run with this version, or look for locks")
        }
        "22P05" => Some("JSON in PostgreSQL has no \\u0000; send the payload as payload_base64"),
        _ => None,
    }
}
