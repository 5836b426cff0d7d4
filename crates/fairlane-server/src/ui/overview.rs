//! The first page: the last hour of the queue, and everything that is paused or blocked.

use axum::extract::State;
use axum::response::Response;
use fairlane::{QueueState, rate_text};
use fairlane_core::limits::WORKER_SILENCE_MS;
use fairlane_core::queue::TypeView;
use fairlane_engine::Clock;
use maud::{Markup, html};

use super::chart::{self, Line};
use super::format::{bytes, count, counted, encoded, per_second, span, time};
use super::history::Sample;
use super::largest::{Largest, Ranking};
use super::page::{Section, View};
use crate::access::Caller;
use crate::app::Shared;
use crate::problem::Problem;

/// The widths of the charts in samples, and the label of their left edge.
const WIDTHS: [(usize, &str); 4] =
    [(30, "5 min ago"), (90, "15 min ago"), (180, "30 min ago"), (360, "1 hour ago")];
/// Number of groups on the page.
const GROUPS_SHOWN: usize = 8;

pub(super) async fn show(view: View, State(app): State<Shared>) -> Result<Response, Problem> {
    if view.caller.groups.is_some() {
        return Ok(own_groups(&view, &view.caller));
    }
    let state = app.fairlane.state().await?;
    let ranking = Largest::ranking(&app).await?;
    let samples = app.dashboard.history.samples();
    Ok(view.page(
        Section::Overview,
        "Overview",
        html! {
            h1 { "Overview" }
            div id="now" data-live { (tiles(&view, &state, samples.last())) }
            div id="still" data-live { (standing_still(&view, &state, &ranking)) }
            div.grid.two id="hour" data-live { (charts(&samples)) }
            section.card id="largest" data-live { (largest(&view, &ranking)) }
        },
    ))
}

/// The first page of a key that is bound to groups.
fn own_groups(view: &View, caller: &Caller) -> Response {
    let groups = caller.groups.iter().flat_map(|groups| groups.iter());
    view.page(
        Section::Overview,
        "Overview",
        html! {
            h1 { "Overview" }
            section.card {
                h2 { "Your customers" }
                p { "Your key is bound to these customers. Choose one to see its jobs and limits." }
                ul.plain { @for group in groups { li { (view.customer(group)) } } }
            }
        },
    )
}

fn tile(label: &str, value: &str, note: Markup) -> Markup {
    html! { div.tile { span.label { (label) } strong { (value) } span.note { (note) } } }
}

fn tiles(view: &View, state: &QueueState, latest: Option<&Sample>) -> Markup {
    let queue = &state.queue;
    let pending = queue.backlog.saturating_sub(queue.waiting);
    let limit = queue.settings.rate.map(|rate| format!("limit {}", rate_text(rate)));
    let waits = latest.and_then(|sample| sample.waits_ms);
    html! {
        div.tiles {
            (tile("Pending", &count(pending), html! { (counted(queue.active_groups, "customer")) " with jobs" }))
            (tile("Waiting", &count(queue.waiting), html! { "for a time or a retry" }))
            (tile("In flight", &count(queue.in_flight), html! { a href=(view.to("workers")) { "by worker" } }))
            (tile("Dead", &count(queue.failed), html! { a href=(view.to("dead")) { "look at them" } }))
            (tile("Answers per second", &count(state.answers_last_second()), html! { (limit.unwrap_or_else(|| "no limit for the queue".into())) }))
            (tile("Wait", &waits.map_or_else(|| "–".to_owned(), |(median, _)| span(median)),
                html! { @if let Some((_, most)) = waits { "median; 99 % within " (span(most)) } @else { "no job started in the last seconds" } }))
            (tile("Stored", &bytes(queue.stored_bytes), html! { "of " (bytes(queue.settings.stored_bytes_max)) }))
        }
    }
}

fn is_unattended(view: &TypeView) -> bool {
    let silence_us = view.asked_at.map(|at| Clock::System.now().since(at));
    silence_us.is_none_or(|us| us > WORKER_SILENCE_MS * 1000)
}

fn has_jobs(view: &TypeView) -> bool {
    view.ready > 0 || view.active_lanes.iter().sum::<u64>() > 0
}

fn standing_still(view: &View, state: &QueueState, ranking: &Ranking) -> Markup {
    let mut items: Vec<Markup> = Vec::new();
    let type_link =
        |name: &str, cure: &str| html! { a href=(view.to(format!("types/{}", encoded(name)))) { (cure) } };
    for (name, one) in &state.types {
        let name = name.to_string();
        let name = name.as_str();
        if one.settings.paused {
            items.push(
                html! { b { (name) } " is paused: none of its jobs start. " (type_link(name, "Resume it")) },
            );
        } else if let Some(until) = one.closed_until {
            items.push(html! { b { (name) } " is throttled: its downstream asked to wait until " (time(until)) ". " (type_link(name, "Look at its limit")) });
        } else if has_jobs(one) && is_unattended(one) && state.queue.backlog > 0 {
            items.push(html! { b { (name) } " has jobs, but no worker asks for them. Start a worker for this type. " (type_link(name, "Look at it")) });
        }
    }
    if state.queue.parked_lanes > 0 {
        items.push(html! { (counted(state.queue.parked_lanes, "lane")) " wait because the rate of their customer is used up. " a href=(view.to("customers")) { "Look at the customers" } });
    }
    for group in ranking.paused.iter().take(GROUPS_SHOWN) {
        items.push(html! { "Customer " b { (group) } " is paused. " a href=(view.to(format!("customers/{}", encoded(group)))) { "Resume it" } });
    }
    let own = |warning: &&String| !warning.starts_with("jobs of type ");
    items.extend(state.warnings.iter().filter(own).map(|warning| html! { (warning) "." }));
    html! {
        section.card.attention[!items.is_empty()] {
            h2 { "What stands still" }
            @if items.is_empty() {
                p.empty { "Nothing. Every type has a worker, and nothing is paused or throttled." }
            } @else {
                ul.plain { @for item in &items { li { (item) } } }
            }
        }
    }
}

fn charts(samples: &[Sample]) -> Markup {
    let values = |of: fn(&Sample) -> f64| samples.iter().map(of).collect::<Vec<_>>();
    let throughput = [
        Line { name: "in", colour: 1, values: values(|one| one.enqueued_per_second) },
        Line { name: "out", colour: 2, values: values(|one| one.settled_per_second) },
    ];
    let jobs = [
        Line { name: "backlog", colour: 1, values: values(|one| one.backlog as f64) },
        Line { name: "waiting", colour: 3, values: values(|one| one.waiting as f64) },
    ];
    let running = [
        Line { name: "in flight", colour: 2, values: values(|one| one.in_flight as f64) },
        Line { name: "dead", colour: 4, values: values(|one| one.dead as f64) },
    ];
    let wait = |of: fn((u64, u64)) -> u64| {
        samples.iter().map(|one| one.waits_ms.map_or(0, of) as f64).collect::<Vec<_>>()
    };
    let waits = [
        Line { name: "99 %", colour: 3, values: wait(|waits| waits.1) },
        Line { name: "median", colour: 1, values: wait(|waits| waits.0) },
    ];
    let whole = |value: f64| count(value.round() as u64);
    // A server that started recently has less than an hour of samples.
    let width = WIDTHS.into_iter().find(|(most, _)| samples.len() <= *most).unwrap_or(WIDTHS[3]);
    html! {
        div.card { (chart::lines("Jobs per second through this server", &throughput, width, per_second)) }
        div.card { (chart::lines("Jobs", &jobs, width, whole)) }
        div.card { (chart::lines("Wait of jobs that started", &waits, width, |ms| span(ms as u64))) }
        div.card { (chart::lines("Running and dead", &running, width, whole)) }
    }
}

fn largest(view: &View, ranking: &Ranking) -> Markup {
    html! {
        div.head { h2 { "Largest backlogs" } a href=(view.to("customers")) { "All customers" } }
        @if ranking.groups.is_empty() {
            p.empty {
                "No customer has unfinished jobs. Enqueue one: "
                code { "fairlane enqueue acme mail '{}'" }
            }
        } @else {
            (super::customers::table(view, ranking, ranking.groups.iter().take(GROUPS_SHOWN)))
        }
    }
}
