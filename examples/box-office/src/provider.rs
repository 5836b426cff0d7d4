//! The payment provider. It stands for another company: it has a database of its own, and can be slow,
//! fail, or charge although its answer is lost.
//!
//! Every call is idempotent by its key. Invariants: a key is charged at most once; a key that was
//! closed or voided is never charged; points are neither made nor lost.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::store::{self, StoreError};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS account (
    id TEXT PRIMARY KEY,
    points INTEGER NOT NULL CHECK (points >= 0)
) STRICT;
CREATE TABLE IF NOT EXISTS charge (
    key TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    amount INTEGER NOT NULL,
    is_charged INTEGER NOT NULL
) STRICT;
";

/// Points of a new account.
pub const OPENING_POINTS: u64 = 1000;

/// How the provider behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// The longest delay of an answer; each call draws its own.
    pub delay: Duration,
    /// The share of calls that fail, 0 to 1. Half of them are carried out before they fail.
    pub failures: f64,
}

/// The provider did not answer; the call may have been carried out.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The connection broke.
    #[error("the payment provider does not answer; the call may be repeated")]
    NoAnswer,
    /// Its database failed.
    #[error("the payment provider failed: {0}")]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for ProviderError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// What became of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// The points were taken, now or before.
    Charged,
    /// The account has too few points.
    TooFewPoints,
    /// The key is closed: nothing is taken under it.
    Closed,
}

/// What the provider has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takings {
    /// Points of charges that were not voided.
    pub charged: u64,
    /// Points that accounts have less than at their opening.
    pub missing: u64,
}

/// A client of the provider.
#[derive(Clone)]
pub struct Provider {
    connection: Arc<Mutex<Connection>>,
    faults: Faults,
}

impl Provider {
    /// Opens or makes the database of the provider.
    pub fn open(path: &Path, faults: Faults) -> Result<Self, StoreError> {
        let connection = store::connect(path, false)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), faults })
    }

    /// Takes points from an account, once per key.
    pub async fn charge(&self, key: String, account: String, amount: u64) -> Result<Charge, ProviderError> {
        self.call(move |bank| {
            if let Some(is_charged) = known(bank, &key)? {
                return Ok(if is_charged { Charge::Charged } else { Charge::Closed });
            }
            bank.execute("INSERT OR IGNORE INTO account VALUES (?1, ?2)", params![account, OPENING_POINTS])?;
            let take = "UPDATE account SET points = points - ?2 WHERE id = ?1 AND points >= ?2";
            if bank.execute(take, params![account, amount])? == 0 {
                return Ok(Charge::TooFewPoints);
            }
            bank.execute("INSERT INTO charge VALUES (?1, ?2, ?3, TRUE)", params![key, account, amount])?;
            Ok(Charge::Charged)
        })
        .await
    }

    /// Asks whether a key was charged. If it was not, the key is closed, so that a charge that is
    /// still under way takes nothing.
    pub async fn close(&self, key: String) -> Result<Charge, ProviderError> {
        self.call(move |bank| {
            bank.execute("INSERT OR IGNORE INTO charge VALUES (?1, '', 0, FALSE)", [&key])?;
            Ok(if known(bank, &key)? == Some(true) { Charge::Charged } else { Charge::Closed })
        })
        .await
    }

    /// Returns the points of a key. The key stays closed.
    pub async fn void(&self, key: String) -> Result<(), ProviderError> {
        self.call(move |bank| {
            let give = "UPDATE account SET points = points + charge.amount FROM charge
                WHERE charge.account = account.id AND key = ?1 AND is_charged";
            bank.execute(give, [&key])?;
            bank.execute("UPDATE charge SET is_charged = FALSE WHERE key = ?1", [&key])?;
            bank.execute("INSERT OR IGNORE INTO charge VALUES (?1, '', 0, FALSE)", [&key])?;
            Ok(())
        })
        .await
    }

    /// What the provider has taken, for an audit; never fails on purpose.
    pub async fn takings(&self) -> Result<Takings, ProviderError> {
        self.transaction(|bank| {
            let charged = "SELECT coalesce(sum(amount), 0) FROM charge WHERE is_charged";
            let missing = "SELECT coalesce(sum(?1 - points), 0) FROM account";
            Ok(Takings {
                charged: bank.query_row(charged, [], |row| row.get(0))?,
                missing: bank.query_row(missing, [OPENING_POINTS], |row| row.get(0))?,
            })
        })
        .await
    }

    /// A call over a network that may be slow and may lose the request or the answer.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let fails = fastrand::f64() < self.faults.failures;
        let is_lost_before = fails && fastrand::bool();
        let (there, back) = (self.faults.delay.mul_f64(fastrand::f64() / 2.0), fastrand::f64() / 2.0);
        tokio::time::sleep(there).await;
        if is_lost_before {
            return Err(ProviderError::NoAnswer);
        }
        let answer = self.transaction(work).await?;
        tokio::time::sleep(self.faults.delay.mul_f64(back)).await;
        if fails { Err(ProviderError::NoAnswer) } else { Ok(answer) }
    }

    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let connection = self.connection.clone();
        let run = move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let bank = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&bank)?;
            bank.commit()?;
            Ok(done)
        };
        tokio::task::spawn_blocking(run).await.unwrap_or(Err(ProviderError::NoAnswer))
    }
}

/// Whether a key was charged; none if it is new.
fn known(bank: &Connection, key: &str) -> Result<Option<bool>, ProviderError> {
    let found = bank.query_row("SELECT is_charged FROM charge WHERE key = ?1", [key], |row| row.get(0));
    Ok(found.optional()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> (tempfile::TempDir, Provider) {
        let folder = tempfile::tempdir().unwrap();
        let provider = Provider::open(&folder.path().join("bank.db"), Faults::default()).unwrap();
        (folder, provider)
    }

    #[tokio::test]
    async fn a_key_is_charged_once_and_never_after_it_was_closed() {
        let (_folder, provider) = provider();
        let charge = |key: &str| provider.charge(key.to_owned(), "ada".to_owned(), 100);
        assert_eq!(charge("1").await.unwrap(), Charge::Charged);
        assert_eq!(charge("1").await.unwrap(), Charge::Charged);
        assert_eq!(provider.close("1".to_owned()).await.unwrap(), Charge::Charged);
        assert_eq!(provider.close("2".to_owned()).await.unwrap(), Charge::Closed);
        assert_eq!(charge("2").await.unwrap(), Charge::Closed);
        let takings = provider.takings().await.unwrap();
        assert_eq!(takings, Takings { charged: 100, missing: 100 });
        for _ in 0..2 {
            provider.void("1".to_owned()).await.unwrap();
        }
        assert_eq!(charge("1").await.unwrap(), Charge::Closed);
        assert_eq!(provider.takings().await.unwrap(), Takings { charged: 0, missing: 0 });
    }

    #[tokio::test]
    async fn an_account_is_never_overdrawn() {
        let (_folder, provider) = provider();
        let charge = |key: &str| provider.charge(key.to_owned(), "ada".to_owned(), 600);
        assert_eq!(charge("1").await.unwrap(), Charge::Charged);
        assert_eq!(charge("2").await.unwrap(), Charge::TooFewPoints);
        assert_eq!(provider.takings().await.unwrap(), Takings { charged: 600, missing: 600 });
    }
}
