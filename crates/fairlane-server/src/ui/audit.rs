//! The audit of the store, started from a page.

use axum::extract::State;
use axum::response::Response;
use fairlane::views::AuditView;
use maud::{Markup, html};
use serde::Deserialize;

use super::form::Form;
use super::format::{badge, count};
use super::page::{Section, View};
use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};

/// Most findings on the page.
const LISTED_MAX: usize = 100;

pub(super) async fn show(view: View) -> Response {
    page(&view, html! {})
}

#[derive(Deserialize)]
pub(super) struct Controls {
    #[serde(default)]
    act: String,
}

pub(super) async fn run(
    view: View,
    State(app): State<Shared>,
    Form(Controls { act }): Form<Controls>,
) -> Result<Response, Problem> {
    let _running = app.auditing.try_lock().map_err(|_| {
        ProblemKind::Conflict.because("an audit is running; wait until it has ended, and then start another")
    })?;
    let report = tokio::select! {
        report = app.fairlane.audit(act == "repair", |_| {}) => report?,
        () = app.stopping.cancelled() => {
            return Err(ProblemKind::Unavailable.because("the server is stopping; audit again when it is back"));
        }
    };
    let found = AuditView::new(&report, app.engine().info().warnings, LISTED_MAX);
    Ok(page(&view, result(&found)))
}

fn page(view: &View, result: Markup) -> Response {
    view.page(Section::Audit, "Audit", html! {
        h1 { "Audit" }
        p.lead { "Finds jobs, lanes and counts that are inconsistent. It scans the store, which may take a while, and may run while producers and workers do." }
        section.card {
            form.inline method="post" action=(view.to("audit")) {
                button type="submit" name="act" value="check" { "Audit now" }
                button.danger type="submit" name="act" value="repair" data-confirm="Repair everything that the audit finds?" { "Audit and repair" }
            }
        }
        (result)
    })
}

fn result(found: &AuditView) -> Markup {
    html! {
        section.card {
            h2 { "Result" }
            p { @if found.clean { (badge("clean", "good")) } @else { (badge("findings", "bad")) }
                " " (count(found.groups)) " customers checked, " (count(found.found)) " findings, " (count(found.repaired)) " repaired." }
            @if !found.findings.is_empty() {
                ul.plain { @for finding in &found.findings { li { code { (finding.code) } " " (finding.sentence) } } }
            }
        }
    }
}
