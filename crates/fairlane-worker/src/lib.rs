//! Runs jobs: leases them, hands them to processors, keeps their leases alive and settles them; and the loops
//! that keep a queue going.
//!
//! - `processor.rs`: what is done with a job. `outcome.rs`: how that ends. `context.rs`: what it is told.
//! - `middleware.rs`: code around processors. `events.rs`: what a hook hears.
//! - `names.rs`: every metric. `settings.rs`: every setting with its default. `retry.rs`: how long a failed job waits.
//! - `pool.rs`: a worker; `pool/` has its parts: `fetcher`, `attempt`, `heartbeat`, `settler`.
//! - `loops.rs`: what runs beside it, one file each: `dispatcher`, `reclaimer`, `watcher`, `aggregator`, `janitor`.
//! - `aggregation.rs`: the summary of a bulk action. `plan.rs`: what its opener asked for.
//!
//! Everything here may run in any number of processes at once: what must happen once is decided in the engine.

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
pub use middleware::{Middleware, Next};
pub use outcome::{IntoOutcome, Outcome, Problem};
pub use plan::{BulkPlan, CALLBACK_TYPE, CallbackPlan, callback_id};
pub use pool::{Pool, Worker, WorkerError};
pub use processor::{BoxFuture, Processor, blocking, typed};
pub use retry::RetryPolicy;
pub use settings::{LoopSettings, TypeOptions, WorkerSettings};
