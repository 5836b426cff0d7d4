//! Jobs: found by id, or listed by customer, type and state.

use axum::extract::State;
use axum::response::Response;
use fairlane::{JobLine, ListJobs, Listed, Listing};
use fairlane_core::{GroupId, JobId, TypeId};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::filled;
use super::format::{count, encoded, job_state, time};
use super::page::{Section, View, named, see_other};
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::{Problem, ProblemKind};

/// Jobs that a page scans, so that it lists at most as many.
const PAGE: usize = 100;

/// The states of the filter.
const STATES: [(&str, &str); 7] = [
    ("", "any"),
    ("in_flight", "in flight"),
    ("pending", "in lanes"),
    ("ready", "ready (classic)"),
    ("waiting", "waiting"),
    ("dead", "dead"),
    ("finished", "finished"),
];

#[derive(Deserialize)]
pub(super) struct Filter {
    group: Option<String>,
    id: Option<String>,
    r#type: Option<String>,
    state: Option<String>,
    cursor: Option<u64>,
}

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let (group, id): (Option<GroupId>, Option<JobId>) = (named(filter.group)?, named(filter.id)?);
    let (type_id, state): (Option<TypeId>, _) =
        (named(filter.r#type)?, filled(filter.state).unwrap_or_default());
    match &group {
        Some(group) => view.caller.check_group(group)?,
        // A key bound to groups names one; an id is not enough to find a job.
        None if view.caller.groups.is_some() || id.is_some() => {
            return Ok(page(
                &view,
                &group,
                id.as_ref(),
                &type_id,
                &state,
                html! {
                    p.empty { "Enter the customer of the job: ids are unique within a customer." }
                },
            ));
        }
        None => {}
    }
    if let (Some(group), Some(id)) = (&group, &id) {
        let path = format!("jobs/{}/{}", encoded(group), encoded(id));
        return Ok(see_other(&view.to(path)));
    }
    let listed = read(&app, &state, group.clone(), type_id.clone(), filter.cursor.unwrap_or(0)).await?;
    let Some(listed) = listed else {
        return Ok(page(
            &view,
            &group,
            None,
            &type_id,
            &state,
            html! {
                p.empty { "Enter a customer: jobs in lanes are listed for one customer." }
            },
        ));
    };
    let link = |cursor: u64| {
        let fields = [
            ("group", group.as_ref().map(ToString::to_string)),
            ("type", type_id.as_ref().map(ToString::to_string)),
            ("state", Some(state.clone())),
        ];
        let query: String = fields
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}&", encoded(value?))))
            .collect();
        view.to(format!("jobs?{query}cursor={cursor}"))
    };
    let body = html! {
        @if listed.jobs.is_empty() {
            p.empty { "No jobs here." @if listed.next.is_some() { " There are more to look through." } }
        } @else { (table(&view, &listed.jobs)) }
        @if state.is_empty() && group.is_none() { p.muted { "Jobs in lanes are listed with a customer." } }
        nav.pager aria-label="More jobs" {
            @if filter.cursor.unwrap_or(0) > 0 { a.button href=(link(0)) { "First page" } }
            @if let Some(next) = listed.next { a.button href=(link(next)) rel="next" { "Next" } }
        }
    };
    Ok(page(&view, &group, None, &type_id, &state, body))
}

/// A page of jobs; `None` if the state needs a group and there is none.
async fn read(
    app: &Shared,
    state: &str,
    group: Option<GroupId>,
    type_id: Option<TypeId>,
    cursor: u64,
) -> Result<Option<Listed>, Problem> {
    let listing = match (state, &group) {
        ("", _) => {
            let jobs = app.fairlane.jobs_of_any_state(group, type_id, PAGE).await?;
            return Ok(Some(Listed { jobs, next: None }));
        }
        ("pending", Some(group)) => Listing::Pending(group.clone()),
        ("pending", None) => return Ok(None),
        ("in_flight", _) => Listing::InFlight,
        ("ready", _) => Listing::Ready,
        ("waiting", _) => Listing::Waiting,
        ("dead", _) => Listing::Dead,
        ("finished", _) => Listing::Finished,
        (other, _) => {
            return Err(ProblemKind::Invalid.because(format!("there is no state {other:?} to list")));
        }
    };
    Ok(Some(app.fairlane.jobs(ListJobs { listing, group, type_id, cursor, limit: PAGE }).await?))
}

fn page(
    view: &View,
    group: &Option<GroupId>,
    id: Option<&JobId>,
    type_id: &Option<TypeId>,
    state: &str,
    body: Markup,
) -> Response {
    view.page(Section::Jobs, "Jobs", html! {
        h1 { "Jobs" }
        form.filter role="search" method="get" action=(view.to("jobs")) {
            label for="group" { "Customer" }
            input id="group" name="group" value=[group.as_ref().map(ToString::to_string)] maxlength="128" data-focus;
            label for="id" { "Id" }
            input id="id" name="id" value=[id.map(ToString::to_string)] maxlength="128";
            label for="type" { "Type" }
            input id="type" name="type" value=[type_id.as_ref().map(ToString::to_string)] maxlength="128";
            label for="state" { "State" }
            select id="state" name="state" {
                @for (value, name) in STATES { option value=(value) selected[value == state] { (name) } }
            }
            button type="submit" { "Search" }
        }
        section.card id="jobs" data-live { (body) }
    })
}

/// A table of jobs.
pub(super) fn table(view: &View, jobs: &[JobLine]) -> Markup {
    html! {
        div.table tabindex="0" role="region" aria-label="Jobs" {
            table {
                thead { tr {
                    th scope="col" { "Job" } th scope="col" { "Customer" } th scope="col" { "Type" } th scope="col" { "State" }
                    th.number scope="col" { "Attempts" } th scope="col" { "Enqueued" } th scope="col" { "Last error" }
                } }
                tbody { @for job in jobs { tr {
                    th scope="row" { (view.job(&job.job)) }
                    td { (view.customer(&job.job.group)) }
                    td { (view.job_type(&job.type_id)) }
                    td { (job_state(job.state)) }
                    td.number { (count(job.attempts.into())) }
                    td { (time(job.created_at)) }
                    td { (last_error(job)) }
                } } }
            }
        }
    }
}

/// The error of a job that failed, in a line.
pub(super) fn last_error(job: &JobLine) -> Markup {
    let shown = fairlane::views::JobView::from(job.clone());
    html! { @if let Some(error) = &shown.error {
        code { (error.code) } " " (error.reason.chars().take(120).collect::<String>())
    } }
}
