//! One bulk action: its progress, its errors, and the controls for it.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use fairlane::views::JobView as JobJson;
use fairlane::{BulkMode, BulkView, JobLine, JobRef, JobState, ListJobs, Listing};
use fairlane_core::limits::LIST_JOBS_MAX;
use fairlane_core::{BulkId, GroupId};
use maud::{Markup, html};
use serde::Deserialize;

use super::bulks::{ended, state};
use super::chart;
use super::customer::unknown_act;
use super::form::Form;
use super::format::{count, counted, encoded, maybe_time, payload, percent, time};
use super::page::{Section, View, see_other};
use crate::access::Permission;
use crate::app::Shared;
use crate::extract::Path;
use crate::problem::{Problem, ProblemKind};

/// Most ended jobs that are read to group their errors.
const SCANNED_MAX: usize = 2000;
/// Most errors on the page; the most frequent ones are shown.
const ERRORS_MAX: usize = 20;
/// Most characters of a summary on the page.
const SHOWN_MAX: usize = 20_000;

#[derive(Deserialize)]
pub(super) struct BulkPath {
    group: GroupId,
    bulk: BulkId,
}

pub(super) async fn show(
    view: View,
    State(app): State<Shared>,
    Path(BulkPath { group, bulk }): Path<BulkPath>,
) -> Result<Response, Problem> {
    let found = app.fairlane.bulk(&group, &bulk).opened_before()?.view().await?;
    let failed = if found.failed > 0 { failed_jobs(&app, &found).await? } else { Vec::new() };
    let title = format!("Bulk action {bulk}");
    Ok(view.page(
        Section::Bulks,
        &title,
        html! {
            h1 { "Bulk action " (bulk) }
            section.card id="progress" data-live { (progress(&found)) }
            section.card { (controls(&view, &found, !failed.is_empty())) }
            div.grid.two {
                section.card id="timeline" data-live { (timeline(&view, &found)) }
                section.card id="errors" data-live { (errors(&view, &found, &failed)) }
            }
            @if !found.summary.is_empty() {
                section.card { h2 { "Summary" } (payload(&found.summary, SHOWN_MAX)) }
            }
        },
    ))
}

fn progress(found: &BulkView) -> Markup {
    let share = ended(found) as f64 / found.total.max(1) as f64;
    html! {
        p.why { (state(found)) " " (count(ended(found))) " of " (counted(found.total, "job")) " have ended, " (percent(share)) "." }
        (chart::progress("Ended jobs", ended(found), found.total))
        div.tiles {
            @for (label, value) in [("Succeeded", found.succeeded), ("Failed", found.failed), ("Cancelled", found.cancelled), ("On hold", found.on_hold)] {
                div.tile { span.label { (label) } strong { (count(value)) } }
            }
        }
        @if !found.sealed { p.muted { "Its producer may still add jobs: it is not sealed yet." } }
    }
}

fn controls(view: &View, found: &BulkView, has_failed: bool) -> Markup {
    let path = format!("bulks/{}/{}", encoded(&found.bulk.group), encoded(&found.bulk.id));
    let results = view.to(format!("{path}/results"));
    let is_held = found.mode == BulkMode::Hold;
    html! {
        div.inline {
            @if view.may(Permission::Produce) {
                form.inline method="post" action=(view.to(&path)) {
                    @if !found.state.is_final() {
                        @if is_held { button type="submit" name="act" value="resume" { "Resume" } }
                        @else { button type="submit" name="act" value="hold" { "Hold" } }
                        button.danger type="submit" name="act" value="cancel" data-confirm="Cancel this bulk action? Jobs that have not started will not run." { "Cancel" }
                    }
                    @if has_failed { button.quiet type="submit" name="act" value="retry" { "Retry failures" } }
                }
            }
            a.button.quiet href=(results) download={ (&found.bulk.id) ".ndjson" } { "Export results" }
            a.button.quiet href={ (results) "?filter=failed" } download={ (&found.bulk.id) "-failed.ndjson" } { "Export failures" }
        }
        @if has_failed && view.may(Permission::Produce) {
            p.muted { "Failures that are retried leave the bulk action, which has counted them already." }
        }
    }
}

fn timeline(view: &View, found: &BulkView) -> Markup {
    html! {
        h2 { "Timeline" }
        dl.facts {
            dt { "Customer" } dd { (view.customer(&found.bulk.group)) }
            dt { "Opened" } dd { (time(found.created_at)) }
            dt { "First job started" } dd { (maybe_time(found.started_at)) }
            dt { "Ended" } dd { (maybe_time(found.finished_at)) }
            dt { "Deadline" } dd { (maybe_time(found.deadline)) }
            @if let Some(most) = found.failures_max { dt { "Fails above" } dd { (counted(most, "failed job")) } }
            @if let Some(cause) = found.cause { dt { "Cause" } dd { (cause.as_str()) } }
        }
    }
}

fn errors(view: &View, found: &BulkView, failed: &[JobLine]) -> Markup {
    let mut by_code: BTreeMap<String, (u64, &JobLine, String)> = BTreeMap::new();
    for job in failed {
        if let Some(error) = JobJson::from(job.clone()).error {
            by_code.entry(error.code).or_insert((0, job, error.reason)).0 += 1;
        }
    }
    let mut errors: Vec<_> = by_code.into_iter().collect();
    errors.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    html! {
        h2 { "Errors" }
        @if errors.is_empty() { p.empty { "No job has failed." } }
        @else {
            ul.plain { @for (code, (number, job, reason)) in errors.iter().take(ERRORS_MAX) {
                li {
                    code { (code) } " " b { (counted(*number, "job")) } ", such as " (view.job(&job.job))
                    br; span.muted { (reason.chars().take(200).collect::<String>()) }
                }
            } }
            @if ended(found) > SCANNED_MAX as u64 {
                p.muted { "Counted among the first " (count(SCANNED_MAX as u64)) " jobs that ended; export the failures to see all." }
            }
        }
    }
}

/// The failed jobs among the first that have ended.
async fn failed_jobs(app: &Shared, found: &BulkView) -> Result<Vec<JobLine>, Problem> {
    let (mut failed, mut cursor, mut scanned) = (Vec::new(), 0, 0);
    while scanned < SCANNED_MAX {
        let listing = Listing::OfBulk(found.bulk.clone());
        let page = ListJobs { listing, group: None, type_id: None, cursor, limit: LIST_JOBS_MAX };
        let listed = app.fairlane.jobs(page).await?;
        scanned += LIST_JOBS_MAX;
        failed.extend(listed.jobs.into_iter().filter(|job| job.state == JobState::Failed));
        match listed.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    Ok(failed)
}

#[derive(Deserialize)]
pub(super) struct Controls {
    #[serde(default)]
    act: String,
}

pub(super) async fn change(
    view: View,
    State(app): State<Shared>,
    Path(BulkPath { group, bulk }): Path<BulkPath>,
    Form(Controls { act }): Form<Controls>,
) -> Result<Response, Problem> {
    let handle = app.fairlane.bulk(&group, &bulk).opened_before()?;
    let done = match act.as_str() {
        "hold" => unfinished(&handle.hold().await?).map(|()| "held".to_owned())?,
        "resume" => unfinished(&handle.resume().await?).map(|()| "resumed".to_owned())?,
        "cancel" => handle.cancel().await.map(|_| "cancelled".to_owned())?,
        "retry" => {
            let failed = failed_jobs(&app, &handle.view().await?).await?;
            let mut requeued = 0;
            for jobs in failed.chunks(LIST_JOBS_MAX) {
                let jobs: Vec<JobRef> = jobs.iter().map(|job| job.job.clone()).collect();
                requeued += app.fairlane.dead().requeue_jobs(jobs).await?.requeued;
            }
            format!("requeued&count={requeued}")
        }
        other => return Err(unknown_act(other)),
    };
    let path = format!("bulks/{}/{}?done={done}", encoded(&group), encoded(&bulk));
    Ok(see_other(&view.to(path)))
}

fn unfinished(found: &BulkView) -> Result<(), Problem> {
    if !found.state.is_final() {
        return Ok(());
    }
    Err(ProblemKind::Conflict.because(format!(
        "bulk action {} has ended: it is {}",
        found.bulk.id,
        found.state.name()
    )))
}
