//! How every statement of this crate is sent.
//!
//! Statements have no names, and each runs between BEGIN and COMMIT or is a simple query. So they
//! work behind a PgBouncer in transaction mode, which gives each transaction another connection.
//!
//! A statement with arguments takes two round trips, because the client first requests its types.
//! Statements on the path of a job are therefore simple queries, with their arguments as JSON in
//! the text.

use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres};

use crate::error::Error;

/// The first number of all advisory locks of the outbox; the second is a shard, or negative.
pub(crate) const LOCKS: i32 = 0x6661_6972;

/// Number of shards; groups are spread over them by hash. The schema has the same number.
pub(crate) const SHARDS: i16 = 16;

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

/// Connections on which the same few statements run. The most recently used one is reused first,
/// because its server process has plans and pages cached. They are detached from the pool, which
/// would use its connections in turns and make an extra round trip after each use to check that
/// they are alive.
pub(crate) struct WarmConnections {
    pool: PgPool,
    idle: Mutex<Vec<PgConnection>>,
}

impl WarmConnections {
    /// No connections yet; they are taken from this pool.
    pub fn new(pool: PgPool) -> Arc<Self> {
        Arc::new(Self { pool, idle: Mutex::default() })
    }

    /// Runs one statement in a transaction of its own: a single round trip.
    pub async fn run(self: &Arc<Self>, statement: String) -> Result<Vec<PgRow>, Error> {
        let mut transaction = BareTransaction::new(self).await?;
        let rows = transaction.run(statement).await?;
        transaction.give_back();
        Ok(rows)
    }

    /// The pool that the connections come from.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PgConnection>> {
        self.idle.lock().expect("no panic happens while the connections are locked")
    }

    async fn take(&self) -> Result<PgConnection, Error> {
        let idle = self.idle().pop();
        Ok(match idle {
            Some(connection) => connection,
            None => self.pool.acquire().await?.detach(),
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

    /// Runs these statements, the last of which is COMMIT or ROLLBACK.
    pub async fn end(mut self, statements: &str) -> Result<(), Error> {
        self.run(statements.to_owned()).await?;
        self.give_back();
        Ok(())
    }

    async fn new(warm: &Arc<WarmConnections>) -> Result<Self, Error> {
        Ok(Self { warm: warm.clone(), connection: warm.take().await? })
    }

    async fn run(&mut self, statements: String) -> Result<Vec<PgRow>, Error> {
        let ran = sqlx::raw_sql(AssertSqlSafe(statements)).fetch_all(&mut self.connection).await;
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
