//! Runs jobs: leases them, passes them to processors, renews their leases and settles them. It also
//! runs the background loops of a queue.
//!
//! - `processor.rs`: the code that handles a job. `outcome.rs`: how an attempt ends. `context.rs`:
//!   what a processor knows about its attempt.
//! - `middleware.rs`: code around processors. `events.rs`: events for hooks.
//! - `names.rs`: the metrics. `settings.rs`: the settings with their defaults. `retry.rs`: the
//!   delay before a failed job is retried.
//! - `pool.rs`: a worker; `pool/` has its parts: `fetcher`, `attempt`, `heartbeat`, `settler`.
//! - `loops.rs`: the background loops, one file each: `dispatcher`, `reclaimer`, `watcher`,
//!   `aggregator`, `janitor`, `room_keeper`.
//! - `aggregation.rs`: the summary of a bulk action. `plan.rs`: what happens when it ends.
//!
//! Everything here may run in any number of processes concurrently: the engine decides what must
//! happen exactly once.

mod aggregation;
mod context;
mod events;
mod loops;
mod middleware;
pub mod names;
mod outcome;
mod plan;
mod pool;
mod processor;
mod retry;
mod settings;

pub use aggregation::{Durations, EndedJob, ErrorSample, ErrorSummary, Summary};
pub use context::{CancelReason, Context, HeartbeatLost};
pub use events::{Event, Hook, StopReport};
pub use fairlane_core::queue::CALLBACK_TYPE;
pub use middleware::{Middleware, Next};
pub use outcome::{IntoOutcome, Outcome, Problem};
pub use plan::{BulkPlan, CallbackPlan, callback_id};
pub use pool::{Pool, Worker, WorkerError};
pub use processor::{BoxFuture, Processor, blocking, typed};
pub use retry::RetryPolicy;
pub use settings::{LoopSettings, TypeOptions, WorkerSettings};
