//! A new job, and the receipt of its enqueue.
//!
//! Invariant: an invalid job is reported with its id when it is enqueued, before anything is sent.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairlane_core::limits::{DELAY_MS_MAX, PAYLOAD_BYTES_MAX};
use fairlane_core::queue::{JobReceipt, JobRef, NewJob};
use fairlane_core::{BulkId, Cost, GroupId, JobId, Level, Trace, TypeId};
use serde::Serialize;
use uuid::Uuid;

use crate::error::Error;

/// A job to be enqueued.
///
/// ```
/// use std::time::Duration;
/// use fairlane::{Job, Level};
///
/// let job = Job::new("customer-7", "mail", &serde_json::json!({"to": "ada@example.com"}))
///     .id("welcome-42")
///     .level(Level::High)
///     .cost(3)
///     .delay(Duration::from_secs(60));
/// # let _ = job;
/// ```
#[derive(Debug, Clone)]
pub struct Job {
    group: String,
    type_id: String,
    id: Option<String>,
    /// The id that the job gets if the caller sets none. It is drawn when the job is made, so a
    /// clone that is enqueued again is the same job.
    unnamed: Uuid,
    level: Level,
    cost: u32,
    start: Start,
    trace: Option<String>,
    payload: Result<Arc<[u8]>, String>,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Now,
    After(Duration),
    At(SystemTime),
}

impl Job {
    /// A job of this group and type, with a payload that is serialised as JSON.
    pub fn new(group: impl Into<String>, job_type: impl Into<String>, payload: &impl Serialize) -> Self {
        let payload = serde_json::to_vec(payload);
        Self::with_payload(group.into(), job_type.into(), payload.map(Into::into).map_err(|e| e.to_string()))
    }

    /// A job with a payload that is sent byte for byte.
    pub fn bytes(
        group: impl Into<String>,
        job_type: impl Into<String>,
        payload: impl Into<Arc<[u8]>>,
    ) -> Self {
        Self::with_payload(group.into(), job_type.into(), Ok(payload.into()))
    }

    fn with_payload(group: String, type_id: String, payload: Result<Arc<[u8]>, String>) -> Self {
        Self {
            group,
            type_id,
            id: None,
            unnamed: Uuid::now_v7(),
            level: Level::Normal,
            cost: 1,
            start: Start::Now,
            trace: None,
            payload,
        }
    }

    /// Sets its id within the group. A second job with the same id is not added, so an id from your
    /// own data (an order number) makes enqueueing idempotent. A different job with the same id is
    /// reported ([`JobReceipt::Differs`]). A job without an id gets a random UUID (version 7),
    /// which its clones share.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Sets its priority level among jobs of its type.
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Sets how much it counts in its group's share, 1 to 10,000; 1 by default.
    pub fn cost(self, cost: u32) -> Self {
        Self { cost, ..self }
    }

    /// Delays the job: it does not run before this time has passed.
    pub fn delay(self, delay: Duration) -> Self {
        Self { start: Start::After(delay), ..self }
    }

    /// Schedules the job: it does not run before this time, by this machine's clock. A time in the
    /// past means now.
    pub fn run_at(self, at: SystemTime) -> Self {
        Self { start: Start::At(at), ..self }
    }

    /// Sets the W3C `traceparent` that its processor gets in every attempt.
    pub fn trace(self, traceparent: impl Into<String>) -> Self {
        Self { trace: Some(traceparent.into()), ..self }
    }

    /// The id it was given, if any.
    pub fn given_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The id it is enqueued under outside a bulk action: the one it was given, else the UUID drawn
    /// for it. A caller that got no reply can repeat the call with this id without adding the job
    /// twice.
    pub fn id_alone(&self) -> String {
        self.id.clone().unwrap_or_else(|| self.unnamed.to_string())
    }

    /// The job as the engine's operation takes it. `unnamed` makes the id of a job without one;
    /// `position` is its position in a source, for error messages.
    pub(crate) fn into_new(
        self,
        bulk: Option<BulkId>,
        unnamed: impl FnOnce() -> String,
        position: Option<u64>,
    ) -> Result<NewJob, Error> {
        let id = self.id.unwrap_or_else(unnamed);
        let named = match position {
            Some(position) => format!("{id:?} (number {position})"),
            None => format!("{id:?}"),
        };
        let invalid = |reason: String| Error::Job { job: named.clone(), reason };
        let payload =
            self.payload.map_err(|reason| invalid(format!("its payload cannot be serialised: {reason}")))?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(invalid(format!(
                "its payload has {} bytes, the limit is {PAYLOAD_BYTES_MAX}; store it elsewhere and send a reference",
                payload.len()
            )));
        }
        let delay_ms = self.start.delay_ms();
        if delay_ms > DELAY_MS_MAX {
            return Err(invalid("its delay is longer than ten years, the longest delay".to_owned()));
        }
        let trace = self.trace.as_deref().map(Trace::new).transpose();
        Ok(NewJob {
            job: JobRef {
                group: GroupId::new(&self.group).map_err(|error| invalid(error.to_string()))?,
                id: JobId::new(&id).map_err(|error| invalid(error.to_string()))?,
            },
            type_id: TypeId::new(&self.type_id).map_err(|error| invalid(error.to_string()))?,
            level: self.level,
            cost: Cost::new(self.cost).map_err(|error| invalid(error.to_string()))?,
            payload,
            delay_ms,
            bulk,
            trace: trace.map_err(|error| invalid(error.to_string()))?,
        })
    }

    /// The job as the engine's operation takes it, in this bulk action or in none: for callers of
    /// [`Fairlane::engine`](crate::Fairlane::engine). A job without an id has the UUID drawn for
    /// it.
    pub fn into_command(self, bulk: Option<BulkId>) -> Result<NewJob, Error> {
        let unnamed = self.unnamed;
        self.into_new(bulk, || unnamed.to_string(), None)
    }

    /// The job as the engine's operation takes it, outside a bulk action.
    pub(crate) fn into_alone(self) -> Result<NewJob, Error> {
        self.into_command(None)
    }
}

impl Start {
    /// The delay in whole milliseconds, rounded up, so that nothing runs too early.
    fn delay_ms(self) -> u64 {
        let delay = match self {
            Self::Now => return 0,
            Self::After(delay) => delay,
            Self::At(at) => at.duration_since(SystemTime::now()).unwrap_or_default(),
        };
        u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// The result of enqueueing one job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a job may have been refused; check with `accepted`"]
pub struct Receipt {
    /// The job's group and id, also if the id was drawn.
    pub job: JobRef,
    /// Created, already there, different from a job already there, or refused with the delay before
    /// a retry.
    pub receipt: JobReceipt,
    /// The backlog of its group right after the enqueue: unfinished jobs that are not leased.
    pub backlog: u64,
}

impl Receipt {
    /// Whether the job was created.
    pub fn is_created(&self) -> bool {
        self.receipt == JobReceipt::Created
    }

    /// The job's group and id if it is in the queue, new or not. A refusal becomes
    /// [`Error::Refused`], and a different job with the same id [`Error::Differs`].
    pub fn accepted(self) -> Result<JobRef, Error> {
        match self.receipt {
            JobReceipt::Created | JobReceipt::Exists { .. } => Ok(self.job),
            JobReceipt::Differs { difference, bulk: owner } => {
                Err(Error::Differs { job: self.job, difference, owner })
            }
            JobReceipt::Refused { refusal, retry_after_ms } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                Err(Error::Refused { job: self.job, refusal, retry_after })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_job_is_reported_with_its_id() {
        let job = || Job::new("customer-7", "mail", &"hello").id("welcome");
        for (wrong, words) in [
            (job().cost(0), "a cost must be between 1 and 10000"),
            (job().delay(Duration::from_secs(400_000_000)), "longer than ten years"),
            (job().delay(Duration::MAX), "longer than ten years"),
            (
                Job::bytes("customer-7", "mail", vec![0; PAYLOAD_BYTES_MAX + 1]).id("welcome"),
                "send a reference",
            ),
            (Job::new("", "mail", &()).id("welcome"), "a group id must not be empty"),
            (Job::new("customer-7", "a\nb", &()).id("welcome"), "a job type must not contain control"),
            (job().trace("00-1-1-01"), "a trace is a W3C traceparent, such as 00-"),
        ] {
            let message = wrong.into_alone().unwrap_err().to_string();
            assert!(message.starts_with("job \"welcome\" cannot"), "{message}");
            assert!(message.contains(words), "{message}");
        }
        let unwritable = std::collections::BTreeMap::from([(vec![1], 1)]);
        let message = Job::new("customer-7", "mail", &unwritable).into_alone().unwrap_err().to_string();
        assert!(message.contains("its payload cannot be serialised"), "{message}");
    }

    #[test]
    fn delays_are_rounded_up_and_a_time_in_the_past_means_now() {
        let delay_ms = |job: Job| job.into_alone().unwrap().delay_ms;
        let job = || Job::new("customer-7", "mail", &());
        assert_eq!(delay_ms(job()), 0);
        assert_eq!(delay_ms(job().delay(Duration::from_micros(1500))), 2);
        assert_eq!(delay_ms(job().run_at(SystemTime::UNIX_EPOCH)), 0);
        let in_an_hour = delay_ms(job().run_at(SystemTime::now() + Duration::from_secs(3600)));
        assert!((1..=3_600_000).contains(&in_an_hour));
    }

    #[test]
    fn each_job_without_an_id_has_a_stable_id_of_its_own() {
        let job = Job::new("customer-7", "mail", &());
        let other = Job::new("customer-7", "mail", &());
        let id = |job: &Job| job.clone().into_alone().unwrap().job.id;
        assert_ne!(id(&job), id(&other));
        assert_eq!(id(&job), id(&job));
    }
}
