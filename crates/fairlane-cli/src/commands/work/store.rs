//! The store a worker works at: waited for, and told what the file says of the whole and of types, again after it was
//! away.
//!
//! Invariant: what is written is the same each time, so writing it once more changes nothing in a store that has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane::rate_text;
use fairlane_core::queue::{Inspect, Inspected, SetType, SetWhole, TypePatch, TypeSet, WholeSet};
use fairlane_core::{Rate, TypeId};
use fairlane_engine::embedded::disk::owner_of;
use fairlane_engine::{Engine, EngineError, directory_of};
use fairlane_worker::CALLBACK_TYPE;

use super::said::Said;
use super::telling::{RetryLimits, Telling};
use crate::config::Config;
use crate::failure::Failure;
use crate::place::Place;

/// Between two tries to reach a store; each takes some time itself.
const TRY_PAUSE: Duration = Duration::from_millis(500);
/// A store that stays away is spoken of again this often.
const REMIND: Duration = Duration::from_secs(30);
/// How often a busy worker says how far it has come.
const PROGRESS_PAUSE: Duration = Duration::from_secs(30);
/// What is being done, for messages.
const CONNECTING: &str = "connecting";
const SETTING: &str = "setting what the file says";

/// Why a discipline cannot be set.
pub const DISCIPLINE_IN_USE: &str = "the discipline can only be changed while the queue is empty, and it has \
     unfinished jobs; let it drain first, or leave the discipline as it is";

/// What a queue is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To work at it, wherever it is.
    Work,
    /// To serve it: it must not be behind a server already.
    Serve,
}

/// Waits until the store answers, for as long as patience lasts, and sets what the file says.
pub async fn reach(
    place: &Place,
    purpose: Purpose,
    patience: Option<Duration>,
    config: &Config,
    telling: &Telling,
) -> Result<Arc<dyn Engine>, Failure> {
    let began = Instant::now();
    let mut told = None::<Instant>;
    loop {
        let error = match opened(place, purpose, config, telling).await {
            Ok(engine) => {
                if told.is_some() {
                    telling.say(Said::EngineBack { after_ms: began.elapsed().as_millis() as u64 });
                }
                return Ok(engine);
            }
            Err(error) => error,
        };
        let is_over = patience.is_some_and(|patience| began.elapsed() + TRY_PAUSE > patience);
        if is_over || !is_away(place, patience, &error) {
            return Err(place.failed(error));
        }
        if told.is_none_or(|told| told.elapsed() >= REMIND) {
            told = Some(Instant::now());
            let error = format!("{}: {error}", place.address());
            telling.say(Said::EngineDown { doing: CONNECTING, error });
        }
        tokio::time::sleep(TRY_PAUSE).await;
    }
}

/// Whether waiting may help: the store does not answer, or whoever has its directory may be about to serve it. Without
/// a patience that ends, such an owner is taken to have it for itself, as a worker has.
fn is_away(place: &Place, patience: Option<Duration>, error: &fairlane::Error) -> bool {
    let fairlane::Error::Engine(error) = error else { return false };
    let owner = || directory_of(&place.engine).and_then(|folder| owner_of(&folder));
    error.is_retryable() || patience.is_some() && owner().is_some_and(|owner| owner.address.is_none())
}

async fn opened(
    place: &Place,
    purpose: Purpose,
    config: &Config,
    telling: &Telling,
) -> Result<Arc<dyn Engine>, fairlane::Error> {
    let engine = place.open_or_make().await?.engine().clone();
    // Before anything is set: the queue has the settings of whoever serves it.
    if purpose == Purpose::Serve && engine.name() == "http" {
        let reason = format!(
            "{} is served by another process already; stop that one first, or name another directory with --engine",
            place.address()
        );
        return Err(EngineError::Refused { reason }.into());
    }
    set_all(&engine, config, telling).await?;
    telling.know_limits(retry_limits(&engine, config).await?);
    Ok(engine)
}

/// Never ends: says how far the worker has come, and sets all again in a store that may have come back empty.
pub async fn keep(engine: &Arc<dyn Engine>, config: &Config, telling: &Telling) {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS_PAUSE, PROGRESS_PAUSE);
    loop {
        tokio::select! {
            _ = ticks.tick() => telling.tell_progress(),
            () = telling.engine_back() => set_all_again(engine, config, telling).await,
        }
        // Somebody else may have changed them; if this fails, those that are known are used.
        if let Ok(limits) = retry_limits(engine, config).await {
            telling.know_limits(limits);
        }
    }
}

async fn set_all_again(engine: &Arc<dyn Engine>, config: &Config, telling: &Telling) {
    while let Err(error) = set_all(engine, config, telling).await {
        if !error.is_retryable() {
            return telling.refused(SETTING, error.to_string());
        }
        tokio::time::sleep(TRY_PAUSE).await;
    }
}

/// Writes to the store what holds for the whole, and for a type wherever it is worked on.
async fn set_all(engine: &Arc<dyn Engine>, config: &Config, telling: &Telling) -> Result<(), EngineError> {
    set_whole(engine, config).await?;
    for one in &config.types {
        set_type(engine, &one.type_id, one.rate, one.max_retry_count, telling).await?;
    }
    if let Some(callbacks) = &config.callbacks {
        let type_id = TypeId::new(CALLBACK_TYPE).expect("a plain word is a name");
        set_type(engine, &type_id, None, Some(callbacks.max_retry_count), telling).await?;
    }
    Ok(())
}

/// What the file does not speak of stays as the queue has it.
async fn set_whole(engine: &Arc<dyn Engine>, config: &Config) -> Result<(), EngineError> {
    let Inspected::Whole(whole) = engine.inspect(Inspect::Whole).await? else { return Ok(()) };
    let Some(settings) = config.whole_over(&whole.settings) else { return Ok(()) };
    match engine.set_whole(SetWhole { settings }).await? {
        WholeSet::Set => Ok(()),
        WholeSet::DisciplineInUse => Err(EngineError::Refused { reason: DISCIPLINE_IN_USE.to_owned() }),
    }
}

async fn set_type(
    engine: &Arc<dyn Engine>,
    type_id: &TypeId,
    rate: Option<Option<Rate>>,
    max_retry_count: Option<u32>,
    telling: &Telling,
) -> Result<(), EngineError> {
    // A change, even to what holds already, opens a type that a Retry-After has closed: a start is no reason to.
    if rate.is_none() && max_retry_count.is_none() || is_set(engine, type_id, rate, max_retry_count).await? {
        return Ok(());
    }
    let patch = TypePatch { rate, max_retry_count: max_retry_count.map(Some), ..TypePatch::default() };
    match engine.set_type(SetType { type_id: type_id.clone(), patch }).await {
        Ok(TypeSet::Set(_)) => Ok(()),
        // The key of a worker may not: it works with what an admin has set.
        Err(EngineError::Refused { reason }) if engine.name() == "http" => {
            telling.say(Said::EngineWarning { warning: unset(type_id, rate, max_retry_count, &reason) });
            Ok(())
        }
        Err(error) => Err(error),
        Ok(TypeSet::TooManyTypes) => {
            let reason =
                format!("the queue has as many types as it can have, and {type_id} is not one of them");
            Err(EngineError::Refused { reason })
        }
    }
}

/// Whether a type is as the file says already.
async fn is_set(
    engine: &Arc<dyn Engine>,
    type_id: &TypeId,
    rate: Option<Option<Rate>>,
    max_retry_count: Option<u32>,
) -> Result<bool, EngineError> {
    let Inspected::Type(Some(view)) = engine.inspect(Inspect::Type(type_id.clone())).await? else {
        return Ok(false);
    };
    let is_other_count = max_retry_count.is_some() && view.settings.max_retry_count != max_retry_count;
    Ok(rate.is_none_or(|rate| view.settings.rate == rate) && !is_other_count)
}

/// What of the file does not hold, and how it would.
fn unset(type_id: &TypeId, rate: Option<Option<Rate>>, max_retry_count: Option<u32>, reason: &str) -> String {
    let mut options = String::new();
    if let Some(rate) = rate {
        options += &format!(" --rate '{}'", rate.map_or("none".to_owned(), rate_text));
    }
    if let Some(count) = max_retry_count {
        options += &format!(" --max-retry-count {count}");
    }
    format!(
        "{type_id} is not set as the file says and works as the queue has it: {reason}; or have it set there: fairlane \
         type set {type_id}{options}"
    )
}

async fn retry_limits(engine: &Arc<dyn Engine>, config: &Config) -> Result<RetryLimits, EngineError> {
    let mut limits = RetryLimits::new();
    let Inspected::Whole(whole) = engine.inspect(Inspect::Whole).await? else { return Ok(limits) };
    for type_id in config.type_ids() {
        let of_type = match engine.inspect(Inspect::Type(type_id.clone())).await? {
            Inspected::Type(view) => view.and_then(|view| view.settings.max_retry_count),
            _ => None,
        };
        limits.insert(type_id, of_type.unwrap_or(whole.settings.max_retry_count));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use fairlane_core::queue::{
        Enqueue, JobRef, Lease, Leased, NewJob, Outcome, Settings, Settle, Settlement,
    };
    use fairlane_core::{Cost, GroupId, JobId, Level, RequestNumber, WorkerId};
    use fairlane_engine::{Clock, EmbeddedEngine};

    use super::*;

    async fn closes(engine: &Arc<dyn Engine>, type_id: &TypeId) -> bool {
        match engine.inspect(Inspect::Type(type_id.clone())).await.unwrap() {
            Inspected::Type(Some(view)) => view.closed_until.is_some(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_start_does_not_open_a_type_that_a_retry_after_has_closed() {
        let embedded = EmbeddedEngine::new(Settings::default(), Clock::default()).unwrap();
        let engine: Arc<dyn Engine> = Arc::new(embedded);
        let (type_id, rate) = (TypeId::new("mail").unwrap(), Rate::new(100, 1000, None).unwrap());
        let telling = Telling::start(false);
        let set =
            async |rate| set_type(&engine, &type_id, Some(Some(rate)), Some(3), &telling).await.unwrap();
        set(rate).await;
        let job = JobRef { group: GroupId::new("g").unwrap(), id: JobId::new("1").unwrap() };
        let new = NewJob {
            job: job.clone(),
            type_id: type_id.clone(),
            level: Level::Normal,
            cost: Cost::default(),
            payload: Arc::from(&b"{}"[..]),
            delay_ms: 0,
            bulk: None,
            trace: None,
        };
        engine.enqueue(Enqueue { jobs: vec![new] }).await.unwrap();
        let (worker, types) = (WorkerId::new("w").unwrap(), vec![type_id.clone()]);
        let lease = Lease { worker, request: RequestNumber(1), types, jobs_max: 1, lease_ms: 30_000 };
        let Leased::Jobs { jobs, .. } = engine.lease(lease).await.unwrap() else { panic!("superseded") };
        let outcome = Outcome::Throttled { delay_ms: 1000, retry_after_ms: 60_000 };
        let settlements = vec![Settlement { job, fence: jobs[0].fence, outcome }];
        engine.settle(Settle { settlements }).await.unwrap();
        assert!(closes(&engine, &type_id).await);
        set(rate).await;
        assert!(closes(&engine, &type_id).await, "the file says what holds already");
        set(Rate::new(50, 1000, None).unwrap()).await;
        assert!(!closes(&engine, &type_id).await, "an operator has changed the file");
        telling.end().await;
    }
}
