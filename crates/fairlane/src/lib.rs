//! A job queue for multi-tenant applications: it shares workers fairly between customers, stays within
//! every rate limit, and loses no accepted job. Locks, waiting rooms and rankings use the same engine.
//!
//! ```
//! use fairlane::{Context, Fairlane, Job, Outcome};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let fairlane = Fairlane::open("memory:").await?; // or "./data", "redis://host:port"
//!     let job = Job::new("customer-7", "mail", &"ada@example.com").id("welcome-42");
//!     fairlane.enqueue(job).await?.accepted()?;
//!
//!     let processor = |to: String, _: Context| async move { Outcome::done(&format!("sent to {to}")) };
//!     let pool = fairlane.worker().process("mail", processor).start()?;
//!     let result: String = fairlane.job("customer-7", "welcome-42").result().await?;
//!     assert_eq!(result, "sent to ada@example.com");
//!     pool.stop().await;
//!     Ok(())
//! }
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Fairlane`] | a queue: the entry point |
//! | [`Job`], [`Receipt`] | a job to enqueue, and whether it was accepted |
//! | [`JobHandle`], [`JobView`], [`JobViewExt`] | one job: its state, its result, why it is not running |
//! | [`NewBulk`], [`Bulk`], [`Ingest`] | a bulk action: opened, watched, and filled with any number of jobs |
//! | [`Worker`], [`Pool`], [`Context`], [`Outcome`] | processes jobs: configured, running, one attempt, how it ends |
//! | [`IntoOutcome`] | the values that a processor may return, such as `Ok(value)` |
//! | [`Leases`], [`Leaser`], [`LeasedJob`] | leases without a pool: taken, extended, settled, released |
//! | [`Group`], [`JobType`] | shares and limits of a customer and of a downstream |
//! | [`Lock`], [`LockGuard`], [`LockHold`] | a lock by name: acquired, held, lost; [`fencing`] checks it |
//! | [`Ranking`] | a board of members in the order of their scores |
//! | [`Room`], [`PassKeys`], [`PassVerifier`] | a waiting room, and signed passes of its users |
//! | [`Dead`], [`DeadFilter`] | jobs that failed for good: listed, requeued, discarded |
//! | [`QueueState`], [`views`] | what operators see, and its JSON |
//! | [`Error`] | what went wrong, and what to do about it |
//!
//! The engine makes all decisions. Operations without a method here can be sent to
//! [`Fairlane::engine`].
//!
//! # Source
//!
//! - `fairlane.rs`: a queue. `job.rs`: a new job and its receipt. `job_handle.rs`: an existing job.
//! - `bulk.rs`: bulk actions; `bulk/` streams jobs in and results out. `ndjson.rs`: jobs as lines
//!   of JSON.
//! - `leases.rs`: leases without a pool; `leases/` has those of a server's clients.
//! - `callbacks.rs`: a worker that delivers the callbacks of bulk actions (feature `targets`).
//! - `group.rs`, `job_type.rs`: shares and limits. `dead.rs`: jobs that failed for good.
//!   `activity.rs`: the log of changes by operators.
//! - `lock.rs`: locks; `lock/` acquires, renews and releases them. `room.rs`: waiting rooms; `room/` has
//!   draws and passes. `ranking.rs`: boards.
//! - `state.rs`: the state of a queue and warnings about it. `views.rs`: the JSON of responses and
//!   of `--json`.
//! - `sender.rs`: sends jobs in order; `retry_budget.rs`: retries when the queue is full or does not
//!   reply. `error.rs`: errors.
//! - `depth.rs`: the nesting depth of JSON.
//! - `rate.rs`, `duration.rs`, `time.rs`: rates, durations and times as text.

mod activity;
mod bulk;
#[cfg(feature = "targets")]
mod callbacks;
mod dead;
mod depth;
mod duration;
mod enqueue_batcher;
mod error;
mod fairlane;
mod group;
mod job;
mod job_handle;
mod job_type;
mod leases;
mod lock;
mod ndjson;
mod ranking;
mod rate;
mod retry_budget;
mod room;
mod sender;
mod state;
mod time;
pub mod views;

pub use activity::{Change, LOCAL_ACTOR, RequestLog, record_change};
pub use bulk::{Bulk, Filter, Ingest, Ingested, NewBulk};
pub use dead::{Dead, DeadCursor, DeadFilter, DiscardCounts, InvalidCursor, RequeueCounts};
pub use depth::is_too_deep;
pub use duration::{InvalidDuration, duration_text, parse_duration};
pub use error::Error;
pub use fairlane::Fairlane;
pub use group::{Group, IntoRate};
pub use job::{Job, Receipt};
pub use job_handle::{JobHandle, JobViewExt};
pub use job_type::JobType;
pub use leases::{HeldLease, LeaseAttempt, LeaseAttempts, LeaseRequest, Leaser, Leases, ReleaseOnDrop};
pub use lock::{
    DetachedLock, Lock, LockError, LockGuard, LockHold, LockLost, LockOptions, LossReason, fencing,
};
pub use ndjson::{FirstLine, NdjsonReader};
pub use ranking::{
    ClosedSeason, EventTime, LineError, MemberRank, Ranking, RankingAudit, RankingDifference, RankingError,
    RankingLine, RankingLines, Rebuild,
};
pub use rate::{InvalidRate, parse_rate, rate_text};
pub use retry_budget::{Backpressure, RetryBudget};
pub use room::{
    DrawError, DrawnList, JoinedPlace, Pass, PassClaims, PassError, PassKeyView, PassKeys, PassOptions,
    PassVerifier, Room, RoomError, Seed, TicketLine, VerifiedDraw, verify_draw,
};
pub use sender::{JobSender, Sent};
pub use state::QueueState;
pub use time::{InvalidTime, parse_time, time_text};

pub use fairlane_core::activity::{ActivityEntry, ActivityListed, ActivitySubject, SubjectKind};
pub use fairlane_core::lock::{
    Blocked, HolderView, LockKind, LockMode, LockName, LockRefusal, LockReleased, LockView, LocksListed,
};
pub use fairlane_core::queue::{
    BulkCause, BulkMode, BulkRef, BulkState, BulkView, Cancellation, CongestionView, Difference, Discipline,
    Explanation, Extension, GroupLine, GroupPatch, GroupSettings, GroupView, JobLine, JobReceipt, JobRef,
    JobState, JobView, LargestCursor, LargestGroups, LeasedJob, LevelOrder, ListJobs, Listed, Listing,
    MadeDue, Progress, QueueView, Refusal, Requeued, Settings, Settlement, Snapshot, TypePatch, TypeSettings,
    TypeView, Verdict,
};
pub use fairlane_core::ranking::{
    BoardDetail, BoardOrder, BoardRule, BoardSettings, BoardTotals, BoardView, BoardWindows, BoardsListed,
    Cancellation as EventCancellation, NewEvent, NewScore, Outcome as BoardOutcome, RankEntry, RankPage,
    Standing, WindowKind,
};
pub use fairlane_core::room::{
    Draw, Eta, PlaceEntry, PlaceListing, PlaceStatus, PlaceView, PlacesListed, RoomPhase, RoomRefusal,
    RoomReported, RoomSettings, RoomTotals, RoomView, RoomsListed, WaitersAdmitted,
};
pub use fairlane_core::{
    BoardName, BulkId, Cost, EventId, Fence, GroupId, InvalidName, InvalidTrace, JobId, Level, MemberId,
    Micros, OutOfRange, PlaceToken, Rate, RebuildId, RoomName, Trace, TypeId, UserId, Weight, WorkerId,
};
pub use fairlane_engine::{AuditProgress, AuditReport, Engine, EngineError, EngineInfo};
#[cfg(feature = "targets")]
pub use fairlane_targets::{
    AddressRule, BadSecret, BadTarget, CallbackSettings, ComfyUi, ComfyUiSettings, CommandSettings,
    CommandTarget, HttpSettings, HttpTarget, InputFile, OutputMode, Prompt, Secret, WebhookJob, Webhooks,
};
pub use fairlane_worker::{
    BulkPlan, CallbackPlan, CancelReason, Context, Durations, EndedJob, ErrorSample, ErrorSummary, Event,
    HeartbeatLost, IntoOutcome, LoopSettings, Middleware, Next, Outcome, Pool, Problem, Processor,
    RetryPolicy, StopReport, Summary, TypeOptions, Worker, WorkerError, WorkerSettings, blocking, typed,
};

/// The examples of the guide, so that they are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Guide;

/// The example of the page on bulk actions.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/bulk-actions.md")]
struct BulkActions;

/// The examples of the page on rankings.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rankings.md")]
struct Rankings;

/// The examples of the page on waiting rooms.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/waiting-rooms.md")]
struct WaitingRooms;

/// The examples of the page on locks.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/locks.md")]
struct LocksGuide;
