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

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A statement without a name.
pub(crate) fn sql(text: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(text).persistent(false)
}

/// JSON in the text of a statement. It is written in hexadecimal, so that no value and no setting of
/// the server can end the literal.
pub(crate) fn json_literal(value: &Value) -> String {
    let text = value.to_string();
    let digits = text.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    let mut literal = String::with_capacity(2 * text.len() + 64);
    literal.push_str("convert_from(decode('");
    literal.extend(digits.map(|digit| char::from(HEX_DIGITS[usize::from(digit)])));
    literal + "', 'hex'), 'UTF8')::jsonb"
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
    fn a_literal_has_no_character_of_its_value() {
        let literal = json_literal(&serde_json::json!(["'; DROP TABLE orders; --", "\\", "$$"]));
        let inner = literal.strip_prefix("convert_from(decode('").unwrap();
        let inner = inner.strip_suffix("', 'hex'), 'UTF8')::jsonb").unwrap();
        assert!(inner.bytes().all(|byte| byte.is_ascii_hexdigit()), "{literal}");
    }
}
