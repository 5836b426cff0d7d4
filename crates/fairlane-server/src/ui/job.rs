//! One job: its state, its attempts, its payload, and why it is not running.

use axum::extract::State;
use axum::response::Response;
use fairlane::views::{ExplanationView, JobView as JobJson};
use fairlane::{JobLine, JobState, JobView, Requeued};
use fairlane_core::{GroupId, JobId};
use maud::{Markup, html};
use serde::Deserialize;

use super::customer::unknown_act;
use super::form::Form;
use super::format::{count, encoded, job_state, maybe_time, payload, span, time};
use super::page::{Section, View, see_other, sentence};
use crate::access::Permission;
use crate::app::Shared;
use crate::extract::Path;
use crate::problem::{Problem, ProblemKind};

/// Most characters of a payload or a result on the page.
const SHOWN_MAX: usize = 20_000;

#[derive(Deserialize)]
pub(super) struct JobPath {
    group: GroupId,
    job: JobId,
}

pub(super) async fn show(
    view: View,
    State(app): State<Shared>,
    Path(JobPath { group, job }): Path<JobPath>,
) -> Result<Response, Problem> {
    let handle = app.fairlane.job(&group, &job);
    let Some(found) = handle.view().await? else {
        return Err(ProblemKind::NotFound
            .because(format!("customer {group} has no job {job}, or its retention has ended")));
    };
    let explanation = handle.explain().await?.map(|explanation| ExplanationView::from(&explanation));
    let title = format!("Job {job}");
    Ok(view.page(Section::Jobs, &title, html! {
        h1 { "Job " (job) }
        section.card id="why" data-live {
            p.why { (job_state(found.state)) " " @if let Some(why) = &explanation { (sentence(&why.sentence)) } }
            @if let Some(why) = &explanation { (facts(why)) }
            (controls(&view, &group, &job, found.state))
        }
        div.grid.two {
            section.card id="job" data-live { (details(&view, &found)) }
            section.card { h2 { "Payload" } (payload(&found.payload, SHOWN_MAX)) }
        }
        @if !found.note.is_empty() { section.card id="result" data-live { (outcome(&found)) } }
    }))
}

fn facts(why: &ExplanationView) -> Markup {
    html! {
        @if let Some(ms) = why.starts_in_ms { p { "Predicted to start in about " b { (span(ms)) } "." } }
        @if let Some(ahead) = why.ahead.filter(|ahead| *ahead > 0) { p { (count(ahead)) " of its customer's jobs are before it." } }
        @if !why.facts.is_empty() {
            dl.facts { @for fact in &why.facts { dt { (fact.about) } dd { (fact.text) } } }
        }
    }
}

fn controls(view: &View, group: &GroupId, job: &JobId, state: JobState) -> Markup {
    let action = view.to(format!("jobs/{}/{}", encoded(group), encoded(job)));
    let (act, label) = match state {
        JobState::Failed => ("requeue", "Requeue"),
        JobState::Completed | JobState::Cancelled => return html! {},
        _ => ("cancel", "Cancel"),
    };
    html! {
        @if view.may(Permission::Produce) {
            form.inline method="post" action=(action) data-confirm=[(act == "cancel").then_some("Cancel this job? It will not run.")] {
                input type="hidden" name="act" value=(act);
                button.danger[act == "cancel"] type="submit" { (label) }
            }
        }
    }
}

fn details(view: &View, job: &JobView) -> Markup {
    html! {
        h2 { "Details" }
        dl.facts {
            dt { "Customer" } dd { (view.customer(&job.job.group)) }
            dt { "Type" } dd { (view.job_type(&job.type_id)) }
            dt { "Level" } dd { (job.level.as_str()) }
            dt { "Attempts" } dd { (count(job.attempts.into())) }
            dt { "Refused by the downstream" } dd { (count(job.throttles.into())) " times" }
            dt { "Lost leases" } dd { (count(job.losses.into())) }
            dt { "Enqueued" } dd { (time(job.created_at)) }
            dt { @if job.state == JobState::Processing { "Lease ends" } @else { "Due" } } dd { (maybe_time(job.until)) }
            dt { "Settled" } dd { (maybe_time(job.settled_at)) }
            @if let Some(worker) = &job.worker { dt { "Worker" } dd { (worker) } }
            @if let Some(fence) = job.fence { dt { "Fence" } dd { code { (fence.0) } } }
            @if let Some(bulk) = &job.bulk {
                dt { "Bulk action" }
                dd { a href=(view.to(format!("bulks/{}/{}", encoded(&job.job.group), encoded(bulk)))) { (bulk) } }
            }
        }
    }
}

fn outcome(job: &JobView) -> Markup {
    let shown = JobJson::from(JobLine::from(job.clone()));
    html! {
        @match &shown.error {
            Some(error) => { h2 { "Last error" } p { code { (error.code) } } pre tabindex="0" { (error.reason) } },
            None => { h2 { "Result" } (payload(&job.note, SHOWN_MAX)) },
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Controls {
    act: String,
}

pub(super) async fn change(
    view: View,
    State(app): State<Shared>,
    Path(JobPath { group, job }): Path<JobPath>,
    Form(Controls { act }): Form<Controls>,
) -> Result<Response, Problem> {
    let handle = app.fairlane.job(&group, &job);
    let done = match act.as_str() {
        "cancel" => {
            handle.cancel().await?;
            "cancelled"
        }
        "requeue" => match handle.requeue().await? {
            Requeued::Requeued => "requeued&count=1",
            _ => {
                return Err(ProblemKind::Conflict.because(
                    "the job is not dead any more, or its customer has reached its limit of unfinished jobs",
                ));
            }
        },
        other => return Err(unknown_act(other)),
    };
    let path = format!("jobs/{}/{}?done={done}", encoded(&group), encoded(&job));
    Ok(see_other(&view.to(path)))
}
