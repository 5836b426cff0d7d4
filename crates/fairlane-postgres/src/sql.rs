//! How every statement of this crate is sent.
//!
//! Statements have no names, and each runs between BEGIN and COMMIT or is a simple query. So they
//! work behind a PgBouncer in transaction mode, which gives each transaction another connection.
//!
//! A statement with arguments takes two round trips, because its types are asked for first. What a
//! job waits for is a simple query, with its arguments as JSON in the text of the statement.

use std::fmt::Write;

use serde_json::Value;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgPool, Postgres};

use crate::error::Error;

/// The first number of all advisory locks of the outbox; the second is a shard, or negative.
pub(crate) const LOCKS: i32 = 0x6661_6972;

/// Number of shards; groups are spread over them by hash. The schema has the same number.
pub(crate) const SHARDS: i16 = 16;

/// A statement without a name.
pub(crate) fn sql(text: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(text).persistent(false)
}

/// JSON in the text of a statement. It is written in hexadecimal, so that no value and no setting of
/// the server can end the literal.
pub(crate) fn json_literal(value: &Value) -> String {
    let mut literal = "convert_from(decode('".to_owned();
    for byte in value.to_string().bytes() {
        let _ = write!(literal, "{byte:02x}");
    }
    literal + "', 'hex'), 'UTF8')::jsonb"
}

/// Runs one statement in a transaction of its own: a single round trip.
pub(crate) async fn simple(pool: &PgPool, statement: String) -> Result<Vec<PgRow>, Error> {
    Ok(sqlx::raw_sql(AssertSqlSafe(statement)).fetch_all(pool).await?)
}

/// A transaction whose first statement goes out with its BEGIN, and whose last one with its COMMIT.
/// When it is dropped before its end, its connection is closed, which rolls it back.
pub(crate) struct BareTransaction {
    connection: Option<PoolConnection<Postgres>>,
}

impl BareTransaction {
    /// Begins a transaction with this statement; returns its rows.
    pub async fn begin(pool: &PgPool, statement: &str) -> Result<(Self, Vec<PgRow>), Error> {
        let mut transaction = Self { connection: Some(pool.acquire().await?) };
        let rows = transaction.run(format!("BEGIN; {statement}")).await?;
        Ok((transaction, rows))
    }

    /// Runs these statements, the last of which is COMMIT or ROLLBACK.
    pub async fn end(mut self, statements: &str) -> Result<(), Error> {
        self.run(statements.to_owned()).await?;
        // Back to the pool.
        self.connection = None;
        Ok(())
    }

    async fn run(&mut self, statements: String) -> Result<Vec<PgRow>, Error> {
        let connection = self.connection.as_mut().expect("it is taken by `end`, which is the last");
        Ok(sqlx::raw_sql(AssertSqlSafe(statements)).fetch_all(&mut **connection).await?)
    }
}

impl Drop for BareTransaction {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
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
