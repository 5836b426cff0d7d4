//! The outbox of a database: jobs that wait, the transactions that hold them back, and the jobs that
//! failed last.

use axum::extract::State;
use axum::response::Response;
use fairlane::views::{HorizonHolder, OUTBOX_COUNTED_MAX, OutboxFailureView, OutboxView};
use fairlane_core::Micros;
use maud::{Markup, html};

use super::format::{badge, count, counted, encoded, span, time};
use super::page::{Section, View, sentence};
use crate::access::Permission;
use crate::app::Shared;
use crate::outbox::{Reading, visible_to};
use crate::problem::Problem;

/// Error codes of jobs that were never in the queue, and therefore have no page.
const NEVER_QUEUED: [&str; 2] = ["invalid_job", "conflict"];

pub(super) async fn show(view: View, State(app): State<Shared>) -> Result<Response, Problem> {
    let reading = app.outbox.reading().await;
    Ok(view.page(Section::Outbox, "Outbox", html! {
        h1 { "Outbox" }
        p.lead { "Jobs that transactions of your application have committed, on their way into the queue, and what became of them." }
        div id="outbox" data-live {
            @match &reading {
                Reading::NotConfigured => (not_configured()),
                Reading::Pending => section.card { p.empty { "Reading the database… The page changes by itself; without scripts, reload it in a moment." } },
                Reading::Failed { error, read_at } => (failed(error, *read_at)),
                Reading::Read(outbox) => (body(&view, &visible_to(&view.caller, outbox))),
            }
        }
    }))
}

fn not_configured() -> Markup {
    html! {
        section.card {
            h2 { "No database is configured" }
            p { "This server does not know the PostgreSQL database of your application, so it cannot show its outbox. Start it with the address of the database:" }
            pre tabindex="0" { code { "fairlane serve --database postgres://user@host/database" } }
            p.muted {
                code { "FAIRLANE_DATABASE" } " and " code { "database" } " in " code { "[server]" } " of fairlane.toml do the same. "
                "The server only reads. If your application adds its jobs without an outbox, nothing is missing here."
            }
        }
    }
}

fn failed(error: &str, read_at: Option<Micros>) -> Markup {
    html! {
        section.card.attention {
            h2 { "The database cannot be read" }
            p.error role="alert" { (sentence(error)) }
            p.muted {
                @match read_at {
                    Some(at) => { "It was read last at " (time(at)) ". " },
                    None => { "It was not read since this server started. " },
                }
                "The server tries again every few seconds, and this page changes by itself. Jobs that are in the queue already go on."
            }
        }
    }
}

fn body(view: &View, outbox: &OutboxView) -> Markup {
    let status = &outbox.status;
    let is_held = status.rows > 0 && status.ready == 0;
    let lacks_relay = outbox.relays == 0;
    html! {
        section.card.attention[is_held || lacks_relay] {
            p.why { (outbox.explanation) }
            p { (relay(outbox)) }
        }
        div.tiles {
            (tile("Waiting in the outbox", &at_most(status.rows), "committed, not yet in the queue"))
            (tile("Ready", &at_most(status.ready), "of these, held back by no transaction"))
            (tile("Lag", &seconds(status.lag_seconds), "age of the oldest that waits"))
            (tile("Horizon", &seconds(status.horizon_age_seconds), "age of the oldest transaction that has written"))
        }
        section.card {
            h2 { "Transactions that hold jobs back" }
            (holders(view, &outbox.holders))
        }
        section.card {
            h2 { "Jobs by status" }
            (mirror(outbox))
        }
        section.card {
            h2 { "Failed last" }
            (failures(view, &outbox.failed))
        }
    }
}

fn relay(outbox: &OutboxView) -> Markup {
    html! {
        @if outbox.relays == 0 {
            (badge("no relay seen", "warn"))
            " No relay listens for commits. Start one: " code { "fairlane outbox relay" } ". "
            span.muted { "A relay behind a PgBouncer is seen only if it has a direct address to listen at (" code { "--listen" } ")." }
        } @else {
            (badge("relay seen", "good")) " " (counted(outbox.relays, "relay"))
            @if outbox.relays == 1 { " listens" } @else { " listen" }
            " for commits."
        }
    }
}

fn tile(label: &str, value: &str, note: &str) -> Markup {
    html! { div.tile { span.label { (label) } strong { (value) } span.note { (note) } } }
}

/// A count as text, marked if counting stopped at its limit.
fn at_most(number: u64) -> String {
    format!("{}{}", count(number), if number >= OUTBOX_COUNTED_MAX { "+" } else { "" })
}

fn seconds(seconds: f64) -> String {
    if seconds <= 0.0 { "–".to_owned() } else { span((seconds * 1000.0) as u64) }
}

fn mirror(outbox: &OutboxView) -> Markup {
    let mirror = &outbox.mirror;
    let (open, ended) = (mirror.queued + mirror.running, mirror.succeeded + mirror.failed);
    html! {
        @if open + ended == 0 {
            p.empty { "No job has come through the outbox yet, or the retention of all has ended." }
        } @else {
            div.tiles {
                @for (status, class, jobs) in [
                    ("QUEUED", "calm", mirror.queued), ("RUNNING", "busy", mirror.running),
                    ("SUCCEEDED", "good", mirror.succeeded), ("FAILED", "bad", mirror.failed),
                ] { div.tile { span { (badge(status, class)) } strong { (count(jobs)) } } }
            }
            @if open >= OUTBOX_COUNTED_MAX { p.muted { "There are more: QUEUED and RUNNING are counted among the 10,000 oldest jobs that have not ended." } }
            @if ended >= OUTBOX_COUNTED_MAX { p.muted { "SUCCEEDED and FAILED are counted among the 10,000 jobs that ended last." } }
        }
    }
}

fn holders(view: &View, holders: &[HorizonHolder]) -> Markup {
    html! {
        @if holders.is_empty() {
            p.empty { "No transaction that has written is open. Jobs go into the queue as soon as they are committed." }
        } @else {
            p.muted { "Jobs committed after the first write of a transaction wait for its end, so that no job overtakes another." }
            ul.plain { @for one in holders { li { (holder(view, one)) } } }
        }
    }
}

fn holder(view: &View, holder: &HorizonHolder) -> Markup {
    let application =
        if holder.application.is_empty() { "an unnamed application" } else { holder.application.as_str() };
    html! {
        div.head {
            span { b { (name(holder)) } " of " b { (application) } " " (badge(&holder.state, "warn")) }
            span { "open for " b { (seconds(holder.age_seconds)) } @if let Some(since) = holder.since { ", since " (time(since.0)) } }
        }
        dl.facts {
            dt { "User and database" } dd { (holder.user) " in " (holder.database) }
            @if view.may(Permission::Operate) && !holder.query.is_empty() { dt { "Last statement" } dd { code { (holder.query) } } }
            @if let Some(ending) = holder.ending() { dt { "To end it" } dd { code { (ending) } } }
        }
    }
}

fn name(holder: &HorizonHolder) -> String {
    match (&holder.prepared, holder.pid) {
        (Some(name), _) => format!("prepared {name}"),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "unknown".to_owned(),
    }
}

fn failures(view: &View, failed: &[OutboxFailureView]) -> Markup {
    html! {
        @if failed.is_empty() {
            p.empty { "No job that came through the outbox has failed." }
        } @else {
            ul.plain { @for job in failed { li {
                div.head {
                    span { b { (link(view, job)) } " of " (view.customer(&job.group)) ", type " (view.job_type(&job.job_type)) ", " (counted(job.attempts.into(), "attempt")) }
                    span.muted { (time(job.ended_at.0)) }
                }
                p { @if !job.code.is_empty() { code { (job.code) } " " } (job.message) }
                @if let Some(payload) = &job.payload { details { summary { "Payload" } pre tabindex="0" { code { (payload) } } } }
            } } }
        }
    }
}

/// The job, with a link to its page unless it never was in the queue.
fn link(view: &View, job: &OutboxFailureView) -> Markup {
    let path = format!("jobs/{}/{}", encoded(&job.group), encoded(&job.id));
    html! {
        @if NEVER_QUEUED.contains(&job.code.as_str()) { (job.id) } @else { a href=(view.to(path)) { (job.id) } }
    }
}
