//! How every statement of this crate is sent.
//!
//! Statements have no names, and each runs between BEGIN and COMMIT or is a simple query. So they
//! work behind a PgBouncer in transaction mode, which gives each transaction another connection.
//!
//! A statement with arguments takes two round trips, because the client first requests its types.
//! Statements on the path of a job are therefore simple queries, with their arguments as JSON in
//! the text.
//!
//! Invariant: no statement waits for ever. A connection that does not reply in time is closed and
//! never used again. If the host of the server vanishes, no packet tells so, and TCP waits for hours.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres};

use crate::error::Error;

/// The first number of all advisory locks of the outbox; the second is a shard, or negative.
pub(crate) const LOCKS: i32 = 0x6661_6972;

/// Number of shards; groups are spread over them by hash. The schema has the same number.
pub(crate) const SHARDS: i16 = 16;

/// How long a statement may take, unless the application sets another limit.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A statement without a name.
pub(crate) fn sql(text: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(text).persistent(false)
}

/// A string in the text of a statement. In this form a backslash always escapes, whatever the
/// settings of the server are, and the connections use UTF-8.
pub(crate) fn text_literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + text.len() / 8 + 16);
    literal.push_str("E'");
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            literal.push(character);
        }
        literal.push(character);
    }
    literal.push('\'');
    literal
}

/// JSON in the text of a statement.
pub(crate) fn json_literal(value: &Value) -> String {
    text_literal(&value.to_string()) + "::jsonb"
}

/// An array of strings in the text of a statement.
pub(crate) fn texts_literal<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted = |text: &T| format!("\"{}\"", text.as_ref().replace('\\', r"\\").replace('"', "\\\""));
    let elements: Vec<String> = texts.iter().map(quoted).collect();
    text_literal(&format!("{{{}}}", elements.join(","))) + "::text[]"
}

/// Waits for the reply to a statement, or fails when the limit is over. The caller then drops the
/// connection, because the reply may still arrive.
pub(crate) async fn in_time<T, E: From<sqlx::Error>>(
    limit: Duration,
    reply: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(limit, reply).await {
        Ok(replied) => replied,
        Err(_) => {
            let reason = format!("no reply within {} ms", limit.as_millis());
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, reason)).into())
        }
    }
}

/// The database of an outbox. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Database {
    pub pool: PgPool,
    /// How long a statement may take.
    pub reply_timeout: Duration,
}

impl Database {
    /// Begins a transaction on a connection of the pool.
    pub async fn begin(&self) -> Result<PoolTransaction, Error> {
        let connection = Some(self.pool.acquire().await?);
        let mut transaction = PoolTransaction { database: self.clone(), connection };
        self.in_time(sqlx::raw_sql("BEGIN").execute(transaction.connection())).await?;
        Ok(transaction)
    }

    /// Waits for the reply to a statement, at most for the limit. If none comes, the idle connections
    /// of the pool are closed: they lead to the same server, and each would wait in turn.
    pub async fn in_time<T, E: From<sqlx::Error>>(
        &self,
        reply: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let began = Instant::now();
        let replied = in_time(self.reply_timeout, reply).await;
        if replied.is_err() && began.elapsed() >= self.reply_timeout {
            while let Some(idle) = self.pool.try_acquire() {
                drop(idle.detach());
            }
        }
        replied
    }
}

/// A transaction on a connection of a pool. If it is dropped before its end, its connection is closed,
/// which rolls it back. A pool would wait for the connection without a limit before it uses it again.
pub(crate) struct PoolTransaction {
    database: Database,
    connection: Option<PoolConnection<Postgres>>,
}

impl PoolTransaction {
    /// The connection, for a statement that [`Database::in_time`] bounds.
    pub fn connection(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("only the end of a transaction takes its connection")
    }

    /// Commits, and gives the connection back to the pool.
    pub async fn commit(self) -> Result<(), Error> {
        self.end("COMMIT").await
    }

    /// Rolls back, and gives the connection back to the pool.
    pub async fn rollback(self) -> Result<(), Error> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), Error> {
        let database = self.database.clone();
        database.in_time(sqlx::raw_sql(statement).execute(self.connection())).await?;
        drop(self.connection.take());
        Ok(())
    }
}

impl Drop for PoolTransaction {
    fn drop(&mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

/// Connections on which the same few statements run. The most recently used one is reused first,
/// because its server process has plans and pages cached. They are detached from the pool, which
/// would use its connections in turns and make an extra round trip after each use to check that
/// they are alive.
pub(crate) struct WarmConnections {
    database: Database,
    idle: Mutex<Vec<PgConnection>>,
}

impl WarmConnections {
    /// No connections yet; they are taken from the pool of this database.
    pub fn new(database: Database) -> Arc<Self> {
        Arc::new(Self { database, idle: Mutex::default() })
    }

    /// Runs one statement in a transaction of its own: a single round trip.
    pub async fn run(self: &Arc<Self>, statement: String) -> Result<Vec<PgRow>, Error> {
        let mut transaction = BareTransaction::new(self).await?;
        let rows = transaction.run(statement).await?;
        transaction.give_back();
        Ok(rows)
    }

    /// The database that the connections lead to.
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PgConnection>> {
        self.idle.lock().expect("no panic happens while the connections are locked")
    }

    async fn take(&self) -> Result<PgConnection, Error> {
        let idle = self.idle().pop();
        Ok(match idle {
            Some(connection) => connection,
            None => self.database.pool.acquire().await?.detach(),
        })
    }
}

/// A transaction that sends its first statement together with BEGIN, and its last one together with
/// COMMIT. If it is dropped before its end, its connection is closed, which rolls it back.
pub(crate) struct BareTransaction {
    warm: Arc<WarmConnections>,
    connection: PgConnection,
}

impl BareTransaction {
    /// Begins a transaction with this statement; returns its rows.
    pub async fn begin(warm: &Arc<WarmConnections>, statement: &str) -> Result<(Self, Vec<PgRow>), Error> {
        let mut transaction = Self::new(warm).await?;
        let rows = transaction.run(format!("BEGIN; {statement}")).await?;
        Ok((transaction, rows))
    }

    /// Runs these statements, the last of which is COMMIT or ROLLBACK; returns their rows.
    pub async fn end(mut self, statements: &str) -> Result<Vec<PgRow>, Error> {
        let rows = self.run(statements.to_owned()).await?;
        self.give_back();
        Ok(rows)
    }

    async fn new(warm: &Arc<WarmConnections>) -> Result<Self, Error> {
        Ok(Self { warm: warm.clone(), connection: warm.take().await? })
    }

    async fn run(&mut self, statements: String) -> Result<Vec<PgRow>, Error> {
        let reply = sqlx::raw_sql(AssertSqlSafe(statements)).fetch_all(&mut self.connection);
        let ran = self.warm.database.in_time(reply).await;
        if ran.is_err() {
            // If the server has closed this connection, it may have closed the others too.
            self.warm.idle().clear();
        }
        Ok(ran?)
    }

    fn give_back(self) {
        self.warm.idle().push(self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_do_not_end_a_literal() {
        assert_eq!(text_literal(r"'; DROP TABLE orders; --\'"), r"E'''; DROP TABLE orders; --\\'''");
        assert_eq!(json_literal(&serde_json::json!(["a\"b", "é"])), r#"E'["a\\"b","é"]'::jsonb"#);
        assert_eq!(texts_literal(&["a", "b'"]), r#"E'{"a","b''"}'::text[]"#);
        assert_eq!(texts_literal(&[r#"\""#]), r#"E'{"\\\\\\""}'::text[]"#);
        assert_eq!(texts_literal::<&str>(&[]), "E'{}'::text[]");
    }
}
