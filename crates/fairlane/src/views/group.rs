//! Groups: their settings, counts and lanes.

use fairlane_core::GroupId;
use fairlane_core::queue::{self, GroupLine, GroupSettings, LaneStanding};
use serde::Serialize;

#[cfg(feature = "openapi")]
use super::schema;
use super::{CongestionView, Time};
use crate::rate::rate_text;

/// A group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Group))]
pub struct GroupView {
    /// The name of the group.
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub group: String,
    /// The settings of the group.
    pub settings: GroupSettingsView,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    pub waiting: u64,
    /// Jobs enqueued since the group was last idle.
    pub total: u64,
    /// Of these, jobs that have ended.
    pub done: u64,
    /// Bytes stored for the group, including finished jobs.
    pub stored_bytes: u64,
    /// The lanes with jobs, by level and type.
    pub lanes: Vec<LaneView>,
    /// The congestion of the group.
    pub congestion: CongestionView,
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = GroupLine))]
pub struct GroupLineView {
    /// The name of the group.
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub group: String,
    /// The settings of the group.
    pub settings: GroupSettingsView,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    pub waiting: u64,
    /// Jobs enqueued since the group was last idle.
    pub total: u64,
    /// Of these, jobs that have ended.
    pub done: u64,
    /// The latest backoff or predicted wait.
    pub backoff_ms: u64,
}

/// The settings of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = GroupSettings))]
pub struct GroupSettingsView {
    /// The share relative to other groups.
    pub weight: u64,
    /// Added to the group's score under the discipline `classic`, in milliseconds of age.
    pub base_priority: i64,
    /// The rate over all types; null without a limit.
    #[cfg_attr(feature = "openapi", schema(example = "100/s"))]
    pub rate: Option<String>,
    /// The maximum number of jobs in flight; null without a limit.
    pub concurrency: Option<u32>,
    /// Whether the group is paused: none of its jobs are leased.
    pub paused: bool,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Lane))]
pub struct LaneView {
    /// The level of the lane.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::levels))]
    pub level: &'static str,
    /// The type of the lane.
    pub r#type: String,
    /// Jobs that were never leased, or promoted for the first time.
    pub backlog: u64,
    /// Jobs that were returned; they are served first.
    pub returned: u64,
    /// Whether the lane can be served: it is `active`, or the rate (`rate_parked`) or seats
    /// (`seat_parked`) of its group are used up, or its group is `paused`, or held and cancelled
    /// jobs are being removed from its head (`clearing`).
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::standings))]
    pub standing: &'static str,
    /// When the group's rate allows the next job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

impl GroupView {
    /// The view of a group and its congestion.
    pub fn new(group: &GroupId, view: queue::GroupView, congestion: &queue::CongestionView) -> Self {
        Self {
            group: group.to_string(),
            settings: view.settings.into(),
            backlog: view.backlog,
            in_flight: view.in_flight,
            waiting: view.waiting,
            total: view.total,
            done: view.done,
            stored_bytes: view.stored_bytes,
            lanes: view.lanes.into_iter().map(LaneView::from).collect(),
            congestion: CongestionView::new(group, congestion),
        }
    }
}

impl From<GroupLine> for GroupLineView {
    fn from(line: GroupLine) -> Self {
        let GroupLine { group, backlog, in_flight, waiting, total, done, backoff_ms, settings } = line;
        let (group, settings) = (group.to_string(), settings.into());
        Self { group, settings, backlog, in_flight, waiting, total, done, backoff_ms }
    }
}

impl From<GroupSettings> for GroupSettingsView {
    fn from(settings: GroupSettings) -> Self {
        Self {
            weight: settings.weight.get(),
            base_priority: settings.base_priority,
            rate: settings.rate.map(rate_text),
            concurrency: settings.concurrency,
            paused: settings.paused,
        }
    }
}

impl From<queue::LaneView> for LaneView {
    fn from(view: queue::LaneView) -> Self {
        let (standing, until) = match view.standing {
            LaneStanding::Idle => ("idle", None),
            LaneStanding::Active => ("active", None),
            LaneStanding::RateParked(until) => ("rate_parked", Some(Time(until))),
            LaneStanding::SeatParked => ("seat_parked", None),
            LaneStanding::Paused => ("paused", None),
            LaneStanding::Clearing(_) => ("clearing", None),
        };
        Self {
            level: view.level.as_str(),
            r#type: view.type_id.to_string(),
            backlog: view.backlog,
            returned: view.returned,
            standing,
            until,
        }
    }
}
