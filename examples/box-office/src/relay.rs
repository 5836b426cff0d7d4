//! Passes the outbox on to the queue and to the boards.
//!
//! Each lane is done in the order of commits. An instance drains a lane under a lock, so that instances
//! do not repeat each other's work; without the lock the work is repeated, which changes nothing. A
//! payment never waits for any of this.

use std::sync::Arc;
use std::time::Duration;

use fairlane::{Error, JobReceipt, LockError};
use tokio::time::{sleep, timeout};

use crate::boards::Boards;
use crate::jobs;
use crate::shop::Shop;
use crate::store::{Lane, OutboxRow};

/// Rows that are done at once.
const ROWS_MAX: usize = 100;
/// How often a lane is looked at without a commit in this process.
const POLL: Duration = Duration::from_millis(500);
/// The delay after an error.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long the engine may take.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(5);

type RelayError = Box<dyn std::error::Error + Send + Sync>;

/// Drains a lane whenever something was committed, for ever.
pub async fn run(shop: Arc<Shop>, boards: Boards, lane: Lane) {
    let mut committed = shop.committed.subscribe();
    let mut is_failing = false;
    loop {
        committed.mark_unchanged();
        match drain(&shop, &boards, lane).await {
            Ok(()) => {
                if std::mem::take(&mut is_failing) {
                    tracing::info!("the relay of {} works again", lane.as_str());
                }
                let _ = timeout(POLL, committed.changed()).await;
            }
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!("the relay of {} waits: {error}", lane.as_str());
                }
                sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Does all rows of a lane, unless another instance does them at this moment.
async fn drain(shop: &Shop, boards: &Boards, lane: Lane) -> Result<(), RelayError> {
    if shop.store.outbox(lane, 1).await?.is_empty() {
        return Ok(());
    }
    let lock = shop.fairlane.lock(format!("box-office:relay:{}", lane.as_str()));
    let guard = match timeout(ENGINE_TIMEOUT, lock.try_lock()).await {
        Ok(Err(Error::Lock(LockError::Busy { .. }))) => return Ok(()),
        Ok(Ok(guard)) => Some(guard),
        Ok(Err(_)) | Err(_) => None,
    };
    loop {
        let rows = shop.store.outbox(lane, ROWS_MAX).await?;
        let Some(last) = rows.last() else { break };
        match lane {
            Lane::Jobs => timeout(ENGINE_TIMEOUT, enqueue(shop, &rows)).await??,
            Lane::Boards => {
                let effects: Vec<_> = rows.iter().map(|row| row.effect.clone()).collect();
                timeout(ENGINE_TIMEOUT, boards.apply(&effects)).await??;
            }
        }
        shop.store.delete_outbox(lane, last.id).await?;
    }
    drop(guard);
    Ok(())
}

async fn enqueue(shop: &Shop, rows: &[OutboxRow]) -> Result<(), RelayError> {
    let jobs = rows.iter().filter_map(|row| jobs::to_job(&row.effect));
    for receipt in shop.fairlane.enqueue_all(jobs).await? {
        if let JobReceipt::Differs { .. } = receipt.receipt {
            // The queue has a job of this name from another database.
            tracing::error!("job {} is in the queue with other contents", receipt.job.id);
            continue;
        }
        receipt.accepted()?;
    }
    Ok(())
}
