//! Bulk actions of a customer.

use axum::extract::State;
use axum::response::Response;
use fairlane::{BulkState, BulkView};
use fairlane_core::GroupId;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart;
use super::format::{badge, count, encoded, time};
use super::page::{Section, View, named};
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::Problem;

/// Number of bulk actions on a page.
const PAGE: usize = 50;

#[derive(Deserialize)]
pub(super) struct Filter {
    group: Option<String>,
    /// Whether to list ended ones too.
    all: Option<String>,
    after: Option<u64>,
}

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let group: Option<GroupId> = named(filter.group)?;
    let all = filter.all.is_some();
    let body = match &group {
        None => html! { p.empty { "Enter a customer: bulk actions are listed for one customer." } },
        Some(group) => {
            view.caller.check_group(group)?;
            let handle = app.fairlane.group(group);
            let after = filter.after.unwrap_or(0);
            let (bulks, next) = match all {
                true => handle.bulks(after, PAGE).await?,
                false => handle.unfinished_bulks(after, PAGE).await?,
            };
            let next = next.map(|next| {
                let all = if all { "&all=1" } else { "" };
                view.to(format!("bulks?group={}{all}&after={next}", encoded(group)))
            });
            table(&view, &bulks, next)
        }
    };
    Ok(view.page(Section::Bulks, "Bulk actions", html! {
        h1 { "Bulk actions" }
        form.filter role="search" method="get" action=(view.to("bulks")) {
            label for="group" { "Customer" }
            input id="group" name="group" value=[group.as_ref().map(ToString::to_string)] required maxlength="128" data-focus;
            label { input type="checkbox" name="all" value="1" checked[all]; " ended ones too" }
            button type="submit" { "Show" }
        }
        section.card id="bulks" data-live { (body) }
    }))
}

/// The state of a bulk action as a badge.
pub(super) fn state(view: &BulkView) -> Markup {
    let class = match view.state {
        BulkState::Completed => "good",
        BulkState::Failed => "bad",
        _ => "busy",
    };
    html! {
        (badge(view.state.name(), class))
        @if view.mode.as_str() != "run" && !view.state.is_final() { " " (badge(view.mode.as_str(), "warn")) }
    }
}

fn table(view: &View, bulks: &[BulkView], next: Option<String>) -> Markup {
    html! {
        @if bulks.is_empty() {
            p.empty { "None here. Open one with " code { "fairlane bulk load acme newsletter mails.ndjson --type mail" } "." }
        } @else {
            div.table tabindex="0" role="region" aria-label="Bulk actions" {
                table {
                    thead { tr {
                        th scope="col" { "Bulk action" } th scope="col" { "State" } th scope="col" { "Progress" }
                        th.number scope="col" { "Jobs" } th.number scope="col" { "Failed" } th scope="col" { "Opened" }
                    } }
                    tbody { @for one in bulks {
                        @let path = format!("bulks/{}/{}", encoded(&one.bulk.group), encoded(&one.bulk.id));
                        tr {
                            th scope="row" { a href=(view.to(path)) { (&one.bulk.id) } }
                            td { (state(one)) }
                            td { (chart::progress("Ended jobs", ended(one), one.total)) }
                            td.number { (count(one.total)) }
                            td.number { (count(one.failed)) }
                            td { (time(one.created_at)) }
                        }
                    } }
                }
            }
        }
        @if let Some(next) = next { nav.pager aria-label="More bulk actions" { a.button href=(next) rel="next" { "Next" } } }
    }
}

/// Jobs of a bulk action that have ended.
pub(super) fn ended(view: &BulkView) -> u64 {
    view.succeeded + view.failed + view.cancelled
}
