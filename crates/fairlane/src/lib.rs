//! Bulk work for many customers at once: fairly, at the speed the outside world allows, losing nothing.
//!
//! [`Fairlane`] is the way in.
//!
//! - `fairlane.rs`: a queue. `job.rs`: a job to be enqueued, and its receipt. `one_job.rs`: a job that is there.
//! - `bulk.rs`: bulk actions; `bulk/` streams jobs in and results out. `ndjson.rs`: jobs as lines of JSON.
//! - `callbacks.rs`: a worker that delivers the callbacks of bulk actions (feature `targets`).
//! - `group.rs`, `job_type.rs`: shares and limits. `dead.rs`: jobs that failed for good.
//! - `patience.rs`: going on when the queue is full or does not answer. `error.rs`: what can go wrong.
//! - `warnings.rs`: what somebody should know of a queue. `depth.rs`: how deep JSON may be nested.
//! - `rate.rs`, `duration.rs`, `time.rs`: how people write these.
//!
//! Left out on purpose: decisions, which are the engine's. Whatever is not here is a command to
//! [`Fairlane::engine`].

mod bulk;
#[cfg(feature = "targets")]
mod callbacks;
mod dead;
mod depth;
mod duration;
mod error;
mod fairlane;
mod group;
mod job;
mod job_type;
mod ndjson;
mod one_job;
mod patience;
mod rate;
mod time;
mod warnings;

pub use bulk::{Bulk, Filter, Ingest, Ingested, NewBulk};
pub use dead::{Dead, DiscardCounts, RequeueCounts};
pub use depth::is_too_deep;
pub use duration::{InvalidDuration, duration_text, parse_duration};
pub use error::Error;
pub use fairlane::Fairlane;
pub use group::{Group, IntoRate};
pub use job::{Job, Receipt};
pub use job_type::JobType;
pub use ndjson::{FirstLine, NdjsonReader};
pub use one_job::OneJob;
pub use patience::{Obstacle, Patience};
pub use rate::{InvalidRate, parse_rate, rate_text};
pub use time::{InvalidTime, parse_time, time_text};
pub use warnings::warnings_of;

pub use fairlane_core::queue::{
    BulkCause, BulkRef, BulkState, BulkView, Cancellation, CongestionView, Course, Difference, Discipline,
    Explanation, GroupLine, GroupSettings, GroupView, JobLine, JobReceipt, JobRef, JobState, JobView,
    LevelOrder, Refusal, Settings, TypeSettings, TypeView, WholeView,
};
pub use fairlane_core::{
    BulkId, Cost, GroupId, InvalidName, InvalidTrace, JobId, Level, Micros, OutOfRange, Rate, Trace, TypeId,
    Weight,
};
pub use fairlane_engine::{Engine, EngineError};
#[cfg(feature = "targets")]
pub use fairlane_targets::{
    AddressRule, BadSecret, BadTarget, CallbackSettings, CommandSettings, CommandTarget, HttpSettings,
    HttpTarget, Secret,
};
pub use fairlane_worker::{
    BulkPlan, CallbackPlan, CancelReason, Context, Durations, EndedJob, ErrorSample, ErrorSummary, Event,
    HeartbeatLost, IntoOutcome, LoopSettings, Middleware, Next, Outcome, Pool, Problem, Processor,
    RetryPolicy, StopReport, Summary, TypeOptions, Worker, WorkerError, WorkerSettings, blocking, typed,
};

/// The guide's examples, so that they compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Guide;
