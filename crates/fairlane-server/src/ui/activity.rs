//! The activity log of the engine: changes, each with its actor.

use axum::extract::State;
use axum::response::Response;
use fairlane::{ActivityEntry, ActivitySubject, SubjectKind};
use fairlane_core::limits::ACTIVITY_MAX;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{count, counted, time};
use super::page::{Section, View};
use crate::api::micros;
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::Problem;

/// Number of changes on a page.
const PAGE: usize = 100;

#[derive(Deserialize)]
pub(super) struct Filter {
    /// The time before which the page begins.
    before: Option<String>,
}

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let listed = app.fairlane.activity(micros(filter.before.as_deref())?, None, PAGE).await?;
    let body = html! {
        h1 { "Activity" }
        p.lead {
            "The last " (count(ACTIVITY_MAX as u64)) " changes by operators, through any server or the command line. "
            "The log of each server has all that were made through it."
        }
        section.card id="changes" data-live { (table(&view, &listed.entries, true)) }
        @if let Some(next) = listed.next {
            nav.pager aria-label="Older changes" {
                a.button href=(view.to(format!("activity?before={}", next.0))) rel="next" { "Older" }
            }
        }
    };
    Ok(view.page(Section::Activity, "Activity", body))
}

/// The newest changes of a customer.
pub(super) async fn of_customer(
    app: &Shared,
    group: &str,
    limit: usize,
) -> Result<Vec<ActivityEntry>, Problem> {
    let subject = ActivitySubject { kind: SubjectKind::Group, name: group.to_owned() };
    Ok(app.fairlane.activity(None, Some(subject), limit).await?.entries)
}

/// A table of changes, with or without their subjects.
pub(super) fn table(view: &View, entries: &[ActivityEntry], with_subject: bool) -> Markup {
    html! {
        @if entries.is_empty() {
            p.empty { "No changes yet." }
        } @else {
            div.table tabindex="0" role="region" aria-label="Changes" {
                table {
                    thead { tr { th scope="col" { "When" } th scope="col" { "Who" }
                        @if with_subject { th scope="col" { "What" } }
                        th scope="col" { "Change" } } }
                    tbody {
                        @for entry in entries {
                            tr {
                                td { (time(entry.at)) }
                                td { code { (entry.actor) } }
                                @if with_subject { td { (subject(view, entry.subject.as_ref())) } }
                                td { (entry.text) @if entry.jobs > 0 { " " (counted(entry.jobs, "job")) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn subject(view: &View, subject: Option<&ActivitySubject>) -> Markup {
    match subject {
        None => html! { span.muted { "the queue" } },
        Some(ActivitySubject { kind: SubjectKind::Group, name }) => view.customer(name),
        Some(ActivitySubject { kind, name }) => html! { (kind.word()) " " (name) },
    }
}
