//! Jobs in our own queue: what has to happen when time has passed or a process has died.

use std::sync::Arc;
use std::time::Duration;

use fairlane::{Context, Fairlane, Job, Outcome, Pool, RetryPolicy, TypeOptions, typed};
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::shop::{Shop, ShopError};
use crate::store::{Attempt, Effect};

/// The group of the shop's jobs.
const GROUP: &str = "box-office";
const EXPIRE: &str = "expire-hold";
const RECOVER: &str = "recover-payment";
const REFUND: &str = "refund-payment";
/// A provider that is down for a day is asked that long.
const RETRIES_MAX: u32 = 10_000;
/// How many jobs run at once in an instance.
const CONCURRENCY: usize = 16;

#[derive(Serialize, Deserialize)]
struct Payload {
    reservation: String,
    attempt: u32,
}

/// Ends a hold when its time is over.
pub fn expiry(reservation: &str, held_until: u64) -> Effect {
    job(EXPIRE, reservation, 0, held_until)
}

/// Looks after a payment that its request did not end.
pub fn recovery(attempt: &Attempt, at: u64) -> Effect {
    job(RECOVER, &attempt.reservation, attempt.number, at)
}

/// Returns the money of a cancelled reservation.
pub fn refund(reservation: &str, attempt: u32, at: u64) -> Effect {
    job(REFUND, reservation, attempt, at)
}

fn job(job_type: &str, reservation: &str, attempt: u32, run_at: u64) -> Effect {
    let id = format!("{job_type}:{reservation}:{attempt}");
    Effect::Job { job_type: job_type.to_owned(), id, reservation: reservation.to_owned(), attempt, run_at }
}

/// The job of an effect; `None` if it is for the boards.
pub fn to_job(effect: &Effect) -> Option<Job> {
    let Effect::Job { job_type, id, reservation, attempt, run_at } = effect else { return None };
    let payload = Payload { reservation: reservation.clone(), attempt: *attempt };
    let run_at: SystemTime = UNIX_EPOCH + Duration::from_millis(*run_at);
    Some(Job::new(GROUP, job_type, &payload).id(id).run_at(run_at))
}

/// Sets the limits of the types, and starts a worker for them.
pub async fn start(shop: &Arc<Shop>, fairlane: &Fairlane) -> Result<Pool, fairlane::WorkerError> {
    for job_type in [EXPIRE, RECOVER, REFUND] {
        if let Err(error) = fairlane.job_type(job_type).max_retry_count(RETRIES_MAX).apply().await {
            tracing::warn!("the limits of {job_type} were not set: {error}");
        }
    }
    let retry = RetryPolicy { base: Duration::from_millis(200), cap: Duration::from_secs(10) };
    let options = TypeOptions { retry: Some(retry), ..TypeOptions::default() };
    let mut worker = fairlane.worker().configure(|settings| settings.worker_count = CONCURRENCY);
    for job_type in [EXPIRE, RECOVER, REFUND] {
        let shop = shop.clone();
        let work = typed(move |payload: Payload, _: Context| {
            let shop = shop.clone();
            async move { outcome(run(&shop, job_type, payload).await) }
        });
        worker = worker.processor_with(job_type, options.clone(), work);
    }
    worker.start()
}

/// Runs the job of an effect at once, when the queue may have lost it.
pub async fn run_effect(shop: &Shop, effect: &Effect) -> Result<(), ShopError> {
    match effect {
        Effect::Job { job_type, reservation, attempt, .. } => {
            run(shop, job_type, Payload { reservation: reservation.clone(), attempt: *attempt }).await
        }
        Effect::Confirmed { .. } | Effect::Cancelled { .. } | Effect::SoldOut { .. } => Ok(()),
    }
}

async fn run(shop: &Shop, job_type: &str, payload: Payload) -> Result<(), ShopError> {
    let Payload { reservation, attempt } = payload;
    match job_type {
        EXPIRE => shop.expire(reservation).await,
        RECOVER => shop.recover(reservation, attempt).await,
        _ => shop.refund(reservation, attempt).await,
    }
}

fn outcome(done: Result<(), ShopError>) -> Outcome {
    match done {
        Ok(()) => Outcome::done(&()),
        Err(error) => Outcome::retry("not_done", error.to_string()),
    }
}
