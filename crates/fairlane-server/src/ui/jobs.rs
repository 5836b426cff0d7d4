//! Jobs: found by id or by a text in the payload, or listed by customer, type and state.

use axum::extract::State;
use axum::response::Response;
use fairlane::{JobLine, ListJobs, Listed, Listing};
use fairlane_core::{GroupId, JobId, TypeId};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::filled;
use super::format::{count, encoded, job_state, time};
use super::job_search::{From, Search};
use super::page::{Section, View, named, see_other};
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::{Problem, ProblemKind};

/// Number of jobs that a page scans; it lists at most as many.
const PAGE: usize = 100;

/// The states of the filter.
const STATES: [(&str, &str); 7] = [
    ("", "any"),
    ("in_flight", "in flight"),
    ("pending", "pending"),
    ("ready", "ready (classic)"),
    ("waiting", "waiting"),
    ("dead", "dead"),
    ("finished", "finished"),
];

/// The longest text to search for, in characters.
const TEXT_MAX: usize = 128;

#[derive(Deserialize)]
pub(super) struct Filter {
    group: Option<String>,
    id: Option<String>,
    r#type: Option<String>,
    state: Option<String>,
    /// A part of the payload.
    text: Option<String>,
    /// The number of the place in which a search continues.
    place: Option<usize>,
    cursor: Option<u64>,
}

/// A filter with validated names.
struct Checked {
    group: Option<GroupId>,
    id: Option<JobId>,
    type_id: Option<TypeId>,
    state: String,
    text: Option<String>,
}

impl Checked {
    /// The address of a page of this filter.
    fn link(&self, view: &View, rest: &str) -> String {
        let fields = [
            ("group", self.group.as_ref().map(ToString::to_string)),
            ("type", self.type_id.as_ref().map(ToString::to_string)),
            ("state", Some(self.state.clone())),
            ("text", self.text.clone()),
        ];
        let query: String = fields
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}&", encoded(value?))))
            .collect();
        view.to(format!("jobs?{query}{rest}"))
    }
}

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let cursor = filter.cursor.unwrap_or(0);
    let from = From { place: filter.place.unwrap_or(0), cursor };
    let checked = Checked {
        group: named(filter.group)?,
        id: named(filter.id)?,
        type_id: named(filter.r#type)?,
        state: filled(filter.state).unwrap_or_default(),
        text: filled(filter.text),
    };
    if checked.text.as_ref().is_some_and(|text| text.chars().count() > TEXT_MAX) {
        return Err(ProblemKind::Invalid
            .because(format!("the text to search for has more than {TEXT_MAX} characters")));
    }
    match &checked.group {
        Some(group) => view.caller.check_group(group)?,
        // A key bound to groups names one; an id is not enough to find a job.
        None if view.caller.groups.is_some() || checked.id.is_some() => {
            let cure = "Enter the customer of the job: ids are unique within a customer.";
            return Ok(page(&view, &checked, html! { p.empty { (cure) } }));
        }
        None => {}
    }
    if let (Some(group), Some(id)) = (&checked.group, &checked.id) {
        let path = format!("jobs/{}/{}", encoded(group), encoded(id));
        return Ok(see_other(&view.to(path)));
    }
    let Some(places) = places(&checked.state, checked.group.as_ref())? else {
        let cure = "Enter a customer: pending jobs are listed for one customer.";
        return Ok(page(&view, &checked, html! { p.empty { (cure) } }));
    };
    let body = match &checked.text {
        Some(text) => {
            let (group, type_id) = (checked.group.clone(), checked.type_id.clone());
            let found = Search { text, places, group, type_id, from }.run(&app).await?;
            let more = found
                .next
                .map(|next| checked.link(&view, &format!("place={}&cursor={}", next.place, next.cursor)));
            html! {
                (found.show(&view, text, more))
                @if checked.state.is_empty() && checked.group.is_none() { p.muted { "Pending jobs are searched with a customer." } }
            }
        }
        None => listing(&view, &checked, &read(&app, places, &checked, cursor).await?, cursor),
    };
    Ok(page(&view, &checked, body))
}

fn listing(view: &View, checked: &Checked, listed: &Listed, cursor: u64) -> Markup {
    html! {
        @if listed.jobs.is_empty() {
            p.empty { "No jobs here." @if listed.next.is_some() { " There are more to look through." } }
        } @else { (table(view, &listed.jobs)) }
        @if checked.state.is_empty() && checked.group.is_none() { p.muted { "Pending jobs are listed with a customer." } }
        nav.pager aria-label="More jobs" {
            @if cursor > 0 { a.button href=(checked.link(view, "cursor=0")) { "First page" } }
            @if let Some(next) = listed.next { a.button href=(checked.link(view, &format!("cursor={next}"))) rel="next" { "Next" } }
        }
    }
}

/// The places that jobs of a state are in; `None` if the state needs a customer and there is none.
fn places(state: &str, group: Option<&GroupId>) -> Result<Option<Vec<Listing>>, Problem> {
    let lanes = group.cloned().map(Listing::Pending);
    Ok(Some(match state {
        "" => [Listing::InFlight, Listing::Ready]
            .into_iter()
            .chain(lanes)
            .chain([Listing::Waiting, Listing::Dead, Listing::Finished])
            .collect(),
        "pending" => return Ok(lanes.map(|lanes| vec![lanes])),
        "in_flight" => vec![Listing::InFlight],
        "ready" => vec![Listing::Ready],
        "waiting" => vec![Listing::Waiting],
        "dead" => vec![Listing::Dead],
        "finished" => vec![Listing::Finished],
        other => {
            return Err(ProblemKind::Invalid.because(format!("there is no state {other:?} to list")));
        }
    }))
}

/// A page of jobs of one place, or the first jobs of all places.
async fn read(app: &Shared, places: Vec<Listing>, checked: &Checked, cursor: u64) -> Result<Listed, Problem> {
    let (group, type_id) = (checked.group.clone(), checked.type_id.clone());
    match <[Listing; 1]>::try_from(places) {
        Ok([listing]) => {
            Ok(app.fairlane.jobs(ListJobs { listing, group, type_id, cursor, limit: PAGE }).await?)
        }
        Err(_) => {
            Ok(Listed { jobs: app.fairlane.jobs_of_any_state(group, type_id, PAGE).await?, next: None })
        }
    }
}

fn page(view: &View, checked: &Checked, body: Markup) -> Response {
    let Checked { group, id, type_id, state, text } = checked;
    view.page(Section::Jobs, "Jobs", html! {
        h1 { "Jobs" }
        form.filter role="search" method="get" action=(view.to("jobs")) {
            span.field { label for="group" { "Customer" } input id="group" name="group" value=[group.as_ref().map(ToString::to_string)] maxlength="128" data-focus; }
            span.field { label for="id" { "Id" } input id="id" name="id" value=[id.as_ref().map(ToString::to_string)] maxlength="128"; }
            span.field { label for="type" { "Type" } input id="type" name="type" value=[type_id.as_ref().map(ToString::to_string)] maxlength="128"; }
            span.field {
                label for="state" { "State" }
                select id="state" name="state" {
                    @for (value, name) in STATES { option value=(value) selected[value == state] { (name) } }
                }
            }
            span.field { label for="text" { "Payload contains" } input id="text" name="text" value=[text.as_deref()] maxlength=(TEXT_MAX); }
            button type="submit" { "Search" }
        }
        // A search reads many jobs, so it is not repeated every second.
        section.card id="jobs" data-live[text.is_none()] { (body) }
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
