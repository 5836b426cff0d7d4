//! Views: the state of a queue as JSON.
//!
//! Responses of the HTTP API and `--json` of the command line have these shapes, so a script that
//! reads one of them reads the other. A view is made with `From` or `new` from the engine's reply,
//! which is the type of the same name in the crate's root. Fields that do not apply are omitted.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), fairlane::Error> {
//! use fairlane::{Fairlane, Job, views};
//!
//! let fairlane = Fairlane::open("memory:").await?;
//! fairlane.enqueue(Job::new("customer-7", "mail", &()).id("welcome-42")).await?.accepted()?;
//! let job = fairlane.job("customer-7", "welcome-42").view().await?.expect("it was enqueued");
//! let json = serde_json::to_value(views::JobView::from(job)).expect("a view can be serialised");
//! assert_eq!((&json["id"], &json["state"]), (&"welcome-42".into(), &"pending".into()));
//! # Ok(())
//! # }
//! ```
//!
//! - `views/job.rs`: jobs, also dead ones, and the results of enqueueing, cancelling and requeueing.
//! - `views/explanation.rs`: why a job is not running. `views/bulk.rs`: bulk actions.
//! - `views/group.rs`, `views/job_type.rs`, `views/queue.rs`: settings and counts.
//! - `views/congestion.rs`: congestion of groups. `views/audit.rs`: audits. `views/lock.rs`: locks.
//!   `views/activity.rs`: the activity log.
//! - `views/ranking.rs`: boards and their members. `views/room.rs`: waiting rooms and places.
//!   `views/outbox.rs`: the outbox of a database.
//!
//! Invariant: a thing has one name in all views. Left out on purpose: formatting for people.

mod activity;
mod audit;
mod bulk;
mod congestion;
mod explanation;
mod group;
mod job;
mod job_type;
mod lock;
mod outbox;
mod queue;
mod ranking;
mod room;

use std::fmt;

use fairlane_core::Micros;
use serde::{Serialize, Serializer};

use crate::time::time_text;

pub use activity::ActivityView;
pub use audit::{AuditItemView, AuditView, FindingView};
pub use bulk::{BulkCallbackView, BulkView};
pub use congestion::{CongestionView, SnapshotView};
pub use explanation::{ExplanationView, FactView};
pub use group::{GroupLineView, GroupSettingsView, GroupView, LaneView};
pub use job::{CancellationView, EnqueuedView, ErrorView, JobView, ProgressView, RequeuedView};
pub use job_type::{TypeSettingsView, TypeView};
pub use lock::{BlockedView, HolderView, LockView};
pub use outbox::{
    HorizonHolder, MirrorCounts, OUTBOX_COUNTED_MAX, OutboxFailureView, OutboxStatus, OutboxView,
};
pub use queue::{LaneCounts, QueueView};
pub use ranking::{
    BoardAuditView, BoardDetailView, BoardDifferenceView, BoardOutcomeView, BoardSeasonView, BoardTotalsView,
    BoardView, BoardWindowView, ClosedSeasonView, MemberRankView, RankEntryView, RankPageView, ScoreView,
};
pub use room::{DrawView, EtaView, PlaceView, RoomLimitsView, RoomTotalsView, RoomView};

/// A point in time in RFC 3339 and UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime, example = "2026-01-31T08:30:00.000Z"))]
pub struct Time(pub Micros);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&time_text(self.0.as_millis()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Schemas of enumerated strings, for the OpenAPI description of the HTTP API.
#[cfg(feature = "openapi")]
pub mod schema {
    use fairlane_core::Level;
    use fairlane_core::congestion::CongestionLevel;
    use fairlane_core::queue::{BulkCause, BulkMode, BulkState, Discipline, JobState};
    use fairlane_core::ranking::Outcome as BoardOutcome;
    use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

    /// The schema of a string that is one of these words.
    pub fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
    }

    /// The schema of a job's state.
    pub fn job_states() -> Object {
        one_of(JobState::ALL.map(JobState::as_str))
    }

    /// The schema of a level.
    pub fn levels() -> Object {
        one_of(Level::ALL.map(Level::as_str))
    }

    /// The schema of a discipline.
    pub fn disciplines() -> Object {
        one_of([Discipline::Share, Discipline::Classic].map(Discipline::as_str))
    }

    pub(super) fn bulk_states() -> Object {
        one_of(BulkState::ALL.map(BulkState::name))
    }

    pub(super) fn bulk_modes() -> Object {
        one_of(BulkMode::ALL.map(BulkMode::as_str))
    }

    pub(super) fn bulk_causes() -> Object {
        one_of(BulkCause::ALL.map(BulkCause::as_str))
    }

    pub(super) fn standings() -> Object {
        one_of(["idle", "active", "rate_parked", "seat_parked", "paused", "clearing"])
    }

    /// The schema of a board's rule.
    pub fn board_rules() -> Object {
        one_of(["count", "sum", "maximum", "latest"])
    }

    /// The schema of a board's order.
    pub fn board_orders() -> Object {
        one_of(["descending", "ascending"])
    }

    /// The schema of the length of a window.
    pub fn window_kinds() -> Object {
        one_of(["hour", "day", "week"])
    }

    /// The schema of what became of an event, a cancellation or a value.
    pub fn board_outcomes() -> Object {
        one_of(BoardOutcome::ALL.iter().map(|outcome| outcome.as_str()))
    }

    pub(super) fn room_phases() -> Object {
        one_of(["open", "closed", "prequeue", "frozen"])
    }

    pub(super) fn place_states() -> Object {
        one_of(["waiting", "active", "unknown"])
    }

    pub(super) fn lock_kinds() -> Object {
        one_of(["exclusive", "read-write", "semaphore"])
    }

    /// The schema of the mode of a lock.
    pub fn lock_modes() -> Object {
        one_of(["exclusive", "read", "write", "permit"])
    }

    /// The schema of a congestion level.
    pub fn congestion_levels() -> Object {
        use CongestionLevel::{Critical, High, Low, Moderate, None};
        one_of([None, Low, Moderate, High, Critical].map(CongestionLevel::as_str))
    }
}
