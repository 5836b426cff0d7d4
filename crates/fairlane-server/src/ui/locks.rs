//! Locks that have holders or waiters.

use axum::extract::State;
use axum::response::Response;
use fairlane::LockName;
use fairlane::views::LockView;
use maud::{Markup, html};
use serde::Deserialize;

use super::form::Form;
use super::format::{count, span};
use super::page::{After, Section, View, see_other};
use crate::access::Permission;
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::{Problem, ProblemKind};

/// Number of locks on a page.
const PAGE: usize = 50;

fn lock_name(text: &str) -> Result<LockName, Problem> {
    LockName::new(text).map_err(Problem::from)
}

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(After { after }): Query<After>,
) -> Result<Response, Problem> {
    let after = after.as_deref().map(lock_name).transpose()?;
    let listed = app.fairlane.locks(None, after, PAGE).await?;
    let locks: Vec<LockView> = listed.locks.into_iter().map(LockView::from).collect();
    Ok(view.page(Section::Locks, "Locks", html! {
        h1 { "Locks" }
        section.card id="locks" data-live {
            @if locks.is_empty() { p.empty { "No lock is held or waited for." } } @else { (table(&view, &locks)) }
            (view.next_page("More locks", "locks?after=", listed.next))
        }
    }))
}

fn table(view: &View, locks: &[LockView]) -> Markup {
    html! {
        div.table tabindex="0" role="region" aria-label="Locks" {
            table {
                thead { tr {
                    th scope="col" { "Lock" } th scope="col" { "Kind" } th scope="col" { "Held by" } th.number scope="col" { "Waiters" }
                    @if view.may(Permission::Operate) { th scope="col" { "Control" } }
                } }
                tbody { @for lock in locks { tr {
                    th scope="row" { (lock.lock) }
                    td { (lock.kind) @if let Some(permits) = lock.permits { " of " (permits) } }
                    td { @if lock.held_by.is_empty() { span.muted { "free" } } @else { ul.plain { @for holder in &lock.held_by { li {
                        b { (holder.holder) } " " (holder.mode) " for " (span(holder.held_ms)) ", " (span(holder.remaining_ms)) " left, fence " code { (holder.fence) }
                    } } } } }
                    td.number { (count(lock.waiters)) }
                    @if view.may(Permission::Operate) { td {
                        @if !lock.held_by.is_empty() {
                            form method="post" action=(view.to("locks")) data-confirm={ "Break " (lock.lock) "? Its holders lose it while they may still be working." } {
                                input type="hidden" name="lock" value=(lock.lock);
                                button.danger type="submit" aria-label={ "Break " (lock.lock) } { "Break" }
                            }
                        }
                    } }
                } } }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Controls {
    #[serde(default)]
    lock: String,
}

pub(super) async fn break_lock(
    view: View,
    State(app): State<Shared>,
    Form(Controls { lock }): Form<Controls>,
) -> Result<Response, Problem> {
    let name = lock_name(&lock)?;
    if app.fairlane.lock(&name).break_holders(None).await? == 0 {
        return Err(ProblemKind::Conflict.because(format!("nothing holds the lock {name} any more")));
    }
    Ok(see_other(&view.to("locks?done=broken")))
}
