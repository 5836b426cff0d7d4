//! Workers, derived from the jobs they have leased. Jobs that may be stuck come first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use fairlane::{JobLine, ListJobs, Listing, Micros};
use fairlane_engine::Clock;
use maud::{Markup, html};

use super::format::{badge, count, span, time};
use super::page::{Section, View};
use crate::app::Shared;
use crate::problem::Problem;

/// Most leases that are read: those that end first.
const SCANNED_MAX: usize = 500;
/// Most leases on the page.
const SHOWN_MAX: usize = 100;
/// A job that was enqueued this long ago, and is still running, may be stuck.
const STUCK_MS: u64 = 10 * 60 * 1000;

pub(super) async fn list(view: View, State(app): State<Shared>) -> Result<Response, Problem> {
    let page =
        ListJobs { listing: Listing::InFlight, group: None, type_id: None, cursor: 0, limit: SCANNED_MAX };
    let mut leases = app.fairlane.jobs(page).await?.jobs;
    let total = app.fairlane.queue_view().await?.in_flight;
    let mut workers: BTreeMap<String, u64> = BTreeMap::new();
    for lease in &leases {
        *workers
            .entry(lease.worker.as_ref().map_or_else(|| "unnamed".to_owned(), ToString::to_string))
            .or_default() += 1;
    }
    let now = Clock::System.now();
    leases.sort_by_key(|lease| {
        (Reverse((is_stuck(lease, now), lease.losses, lease.attempts)), lease.created_at)
    });
    leases.truncate(SHOWN_MAX);
    Ok(view.page(Section::Workers, "Workers", html! {
        h1 { "Workers" }
        p.lead { "Workers are known by the jobs they hold. " (count(total)) " are in flight; those that may be stuck come first." }
        section.card id="workers" data-live {
            h2 { "Jobs by worker" }
            @if workers.is_empty() { p.empty { "No job is in flight. Start a worker: " code { "fairlane work" } } }
            @else { dl.facts { @for (name, jobs) in workers.iter().take(SHOWN_MAX) { dt { (name) } dd { (count(*jobs)) } } } }
        }
        section.card id="leases" data-live { h2 { "Leases" } (table(&view, &leases, now)) }
    }))
}

fn is_stuck(lease: &JobLine, now: Micros) -> bool {
    lease.losses > 0 || now.since(lease.created_at) > STUCK_MS * 1000
}

fn table(view: &View, leases: &[JobLine], now: Micros) -> Markup {
    html! {
        @if leases.is_empty() { p.empty { "There are no leases." } }
        @else {
            div.table tabindex="0" role="region" aria-label="Leases" {
                table {
                    thead { tr {
                        th scope="col" { "Job" } th scope="col" { "Customer" } th scope="col" { "Type" } th scope="col" { "Worker" }
                        th.number scope="col" { "Age" } th.number scope="col" { "Attempt" } th.number scope="col" { "Lost" } th scope="col" { "Lease ends" }
                    } }
                    tbody { @for lease in leases { tr {
                        th scope="row" { (view.job(&lease.job)) @if is_stuck(lease, now) { " " (badge("look", "warn")) } }
                        td { (view.customer(&lease.job.group)) }
                        td { (view.job_type(&lease.type_id)) }
                        td { (lease.worker.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)) }
                        td.number { (span(now.since(lease.created_at) / 1000)) }
                        td.number { (count(lease.attempts.into())) }
                        td.number { (count(lease.losses.into())) }
                        td { @if let Some(until) = lease.until { (time(until)) } }
                    } } }
                }
            }
        }
    }
}
