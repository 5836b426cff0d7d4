//! The activity log: changes by operators.

use axum::extract::State;
use fairlane::views::ActivityView;
use fairlane::{ActivitySubject, SubjectKind};
use fairlane_core::{GroupId, Micros};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change::{self, PAGE};
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Query};
use crate::problem::Problem;

pub(super) fn routes() -> Routes {
    Routes::default().add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(list))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Where the page begins: the `next` of the last page.
    #[param(pattern = "^[0-8][0-9]{0,15}$")]
    cursor: Option<String>,
    /// Only changes of this group.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    group: Option<GroupId>,
    /// The maximum number of changes on the page; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of changes.
#[derive(Serialize, ToSchema)]
#[schema(as = Activities)]
struct ActivityPage {
    /// The changes, the newest first.
    activity: Vec<ActivityView>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists changes by operators
///
/// The last 1,000 changes of settings, groups, types, bulk actions, jobs, locks, rooms and boards,
/// with who made them, through any server or the command line; the newest first, page by page.
#[utoipa::path(
    get,
    path = "/api/activity",
    tag = "queue",
    params(Page),
    responses((status = 200, description = "A page", body = ActivityPage)),
)]
async fn list(State(app): State<Shared>, Query(page): Query<Page>) -> Result<Json<ActivityPage>, Problem> {
    let name = page.group.map(|group| group.to_string());
    let subject = name.map(|name| ActivitySubject { kind: SubjectKind::Group, name });
    let before = micros(page.cursor.as_deref())?;
    let listed = app.fairlane.activity(before, subject, page.limit.unwrap_or(PAGE)).await?;
    let activity = listed.entries.into_iter().map(ActivityView::from).collect();
    Ok(Json(ActivityPage { activity, next: listed.next.map(|next| next.0.to_string()) }))
}

/// The time in a cursor.
pub(crate) fn micros(cursor: Option<&str>) -> Result<Option<Micros>, Problem> {
    let time = |text| change::number(text).map(Micros).ok_or_else(|| change::invalid_cursor(text));
    cursor.map(time).transpose()
}
