//! A job to be enqueued, and what became of it.
//!
//! Invariant: whatever is wrong with a job is said when it is enqueued, with its id, before anything is sent.

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
    /// Its id if none is said; fixed here, so that a clone which is enqueued again is the same job.
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
    /// A job of this customer and type, with a payload that is written as JSON.
    pub fn new(group: impl Into<String>, job_type: impl Into<String>, payload: &impl Serialize) -> Self {
        let payload = serde_json::to_vec(payload);
        Self::with_payload(group.into(), job_type.into(), payload.map(Into::into).map_err(|e| e.to_string()))
    }

    /// A job whose payload is passed on byte for byte.
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

    /// Its id within the group. A second job with the same id is not added, so an id that your data has anyway
    /// (an order number) makes it safe to enqueue again; one that is another job is told ([`JobReceipt::Differs`]). Without one it has a UUID (version 7), its clones too.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// How urgent it is among jobs of its type.
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// What it counts for in its group's share, 1 to 10,000; 1 unless said.
    pub fn cost(self, cost: u32) -> Self {
        Self { cost, ..self }
    }

    /// Must not run before this much time has passed.
    pub fn delay(self, delay: Duration) -> Self {
        Self { start: Start::After(delay), ..self }
    }

    /// Must not run before then, by this machine's clock; a time that has passed is now.
    pub fn run_at(self, at: SystemTime) -> Self {
        Self { start: Start::At(at), ..self }
    }

    /// The W3C `traceparent` it belongs to, handed to its processor in every attempt.
    pub fn trace(self, traceparent: impl Into<String>) -> Self {
        Self { trace: Some(traceparent.into()), ..self }
    }

    /// The id it was given, if any.
    pub fn given_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The id it is enqueued under when it stands alone: the one it was given, else the UUID drawn for it. Whoever got
    /// no answer repeats with this one, and nothing is added twice.
    pub fn id_alone(&self) -> String {
        self.id.clone().unwrap_or_else(|| self.unnamed.to_string())
    }

    /// As the engine takes it. `unnamed` is the id of a job that was given none, and `place` says where it stands.
    pub(crate) fn into_new(
        self,
        bulk: Option<BulkId>,
        unnamed: impl FnOnce() -> String,
        place: Option<u64>,
    ) -> Result<NewJob, Error> {
        let id = self.id.unwrap_or_else(unnamed);
        let named = match place {
            Some(place) => format!("{id:?} (number {place})"),
            None => format!("{id:?}"),
        };
        let invalid = |reason: String| Error::Job { job: named.clone(), reason };
        let payload = self.payload.map_err(|reason| invalid(format!("its payload is no JSON: {reason}")))?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(invalid(format!(
                "its payload has {} bytes, and at most {PAYLOAD_BYTES_MAX} are taken; store it elsewhere and send \
                 where that is",
                payload.len()
            )));
        }
        let delay_ms = self.start.delay_ms();
        if delay_ms > DELAY_MS_MAX {
            return Err(invalid("it is to run in more than ten years, the longest delay".to_owned()));
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

    /// As the engine takes it, in this bulk action or in none: for whoever sends commands to
    /// [`Fairlane::engine`](crate::Fairlane::engine). Without an id it has the UUID drawn for it.
    pub fn into_command(self, bulk: Option<BulkId>) -> Result<NewJob, Error> {
        let unnamed = self.unnamed;
        self.into_new(bulk, || unnamed.to_string(), None)
    }

    /// As the engine takes a job that stands alone.
    pub(crate) fn into_alone(self) -> Result<NewJob, Error> {
        self.into_command(None)
    }
}

impl Start {
    /// In whole milliseconds, rounded up, so that nothing runs too early.
    fn delay_ms(self) -> u64 {
        let delay = match self {
            Self::Now => return 0,
            Self::After(delay) => delay,
            Self::At(at) => at.duration_since(SystemTime::now()).unwrap_or_default(),
        };
        u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// What became of a job that was to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a job may have been refused; ask with `accepted`"]
pub struct Receipt {
    /// Whose and which, with the id it was given.
    pub job: JobRef,
    /// Created, there already, another one there already, or refused with the time to try again.
    pub receipt: JobReceipt,
    /// The backlog of its group right after: unfinished jobs that nobody has leased.
    pub backlog: u64,
}

impl Receipt {
    /// Whether it is new.
    pub fn is_created(&self) -> bool {
        self.receipt == JobReceipt::Created
    }

    /// The job if it is in the queue, be it new or there before; a refusal becomes [`Error::Refused`], and another job
    /// of its id [`Error::Differs`].
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
    fn what_is_wrong_with_a_job_is_said_with_its_id() {
        let job = || Job::new("customer-7", "mail", &"hello").id("welcome");
        for (wrong, words) in [
            (job().cost(0), "a cost must be between 1 and 10000"),
            (job().delay(Duration::from_secs(400_000_000)), "more than ten years"),
            (job().delay(Duration::MAX), "more than ten years"),
            (Job::bytes("customer-7", "mail", vec![0; PAYLOAD_BYTES_MAX + 1]).id("welcome"), "send where"),
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
        assert!(message.contains("its payload is no JSON"), "{message}");
    }

    #[test]
    fn delays_are_rounded_up_and_a_time_that_has_passed_is_now() {
        let delay_ms = |job: Job| job.into_alone().unwrap().delay_ms;
        let job = || Job::new("customer-7", "mail", &());
        assert_eq!(delay_ms(job()), 0);
        assert_eq!(delay_ms(job().delay(Duration::from_micros(1500))), 2);
        assert_eq!(delay_ms(job().run_at(SystemTime::UNIX_EPOCH)), 0);
        let in_an_hour = delay_ms(job().run_at(SystemTime::now() + Duration::from_secs(3600)));
        assert!((1..=3_600_000).contains(&in_an_hour));
    }

    #[test]
    fn jobs_without_an_id_have_ids_of_their_own_that_stay() {
        let job = Job::new("customer-7", "mail", &());
        let other = Job::new("customer-7", "mail", &());
        let id = |job: &Job| job.clone().into_alone().unwrap().job.id;
        assert_ne!(id(&job), id(&other));
        assert_eq!(id(&job), id(&job));
    }
}
