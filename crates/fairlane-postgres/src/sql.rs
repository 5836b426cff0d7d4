//! How every statement of this crate is sent.
//!
//! Statements have no names, and each runs between BEGIN and COMMIT or is a simple query. So they
//! work behind a PgBouncer in transaction mode, which gives each transaction another connection.

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

/// The first number of all advisory locks of the outbox; the second is a shard, or negative.
pub(crate) const LOCKS: i32 = 0x6661_6972;

/// Number of shards; groups are spread over them by hash. The schema has the same number.
pub(crate) const SHARDS: i16 = 16;

/// A statement without a name.
pub(crate) fn sql(text: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(text).persistent(false)
}
