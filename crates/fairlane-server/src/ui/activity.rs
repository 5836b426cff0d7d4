//! Changes of settings, bulk actions and jobs, with the key that made them: the last ones through
//! this server, in constant memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::response::Response;
use fairlane::rate_text;
use fairlane_core::queue::{self, GroupPatch, TypePatch};
use fairlane_core::{Command, GroupId, Micros, Rate, lock, room};
use fairlane_engine::Clock;
use maud::html;

use super::format::{counted, time};
use super::page::{Section, View};
use crate::app::Shared;

/// Changes that are kept.
const CHANGES_MAX: usize = 1000;
/// Changes that the page shows.
const SHOWN_MAX: usize = 100;

/// The last changes, oldest first.
#[derive(Default)]
pub(crate) struct Activity(Mutex<VecDeque<(Micros, Arc<str>, Change)>>);

/// One change.
#[derive(Clone)]
pub(crate) struct Change {
    /// The customer that it concerns, if it concerns one.
    group: Option<String>,
    text: String,
}

impl Activity {
    /// Adds a change that the engine has made.
    pub fn push(&self, key: Option<Arc<str>>, change: Change) {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push_back((Clock::System.now(), key.unwrap_or_else(|| "server".into()), change));
        if changes.len() > CHANGES_MAX {
            changes.pop_front();
        }
    }

    /// The newest changes, newest first, of a customer or of all.
    pub(super) fn newest(&self, group: Option<&str>, limit: usize) -> Vec<(Micros, Arc<str>, Change)> {
        let changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let concerns = |change: &Change| group.is_none_or(|group| change.group.as_deref() == Some(group));
        changes.iter().rev().filter(|(_, _, change)| concerns(change)).take(limit).cloned().collect()
    }
}

impl Change {
    /// A change in words.
    pub(super) fn new(group: Option<&GroupId>, text: String) -> Self {
        Self { group: group.map(ToString::to_string), text }
    }

    /// The change that a command makes; `None` if it is the everyday work of producers and workers.
    pub fn of(command: &Command) -> Option<Self> {
        use queue::Command as Queue;
        let about = |group: &dyn ToString, text: String| Self { group: Some(group.to_string()), text };
        let of_queue = |text: String| Self { group: None, text };
        let jobs = |jobs: &[queue::JobRef], what: &str| {
            let first = jobs.first()?;
            let is_one_group = jobs.iter().all(|job| job.group == first.group);
            let text = match jobs {
                [job] => format!("{what} job {}", job.id),
                _ => format!("{what} {}", counted(jobs.len() as u64, "job")),
            };
            Some(Self { group: is_one_group.then(|| first.group.to_string()), text })
        };
        Some(match command {
            Command::Queue(Queue::SetGroup(command)) => {
                let reset = command.reset_congestion.then(|| "congestion reset".to_owned());
                about(
                    &command.group,
                    group_text(&command.patch).into_iter().chain(reset).collect::<Vec<_>>().join(", "),
                )
            }
            Command::Queue(Queue::SetType(command)) => {
                of_queue(format!("type {}: {}", command.type_id, type_text(&command.patch).join(", ")))
            }
            Command::Queue(Queue::RemoveType(command)) => {
                of_queue(format!("removed type {}", command.type_id))
            }
            Command::Queue(Queue::SetQueue(_)) => of_queue("changed the settings of the queue".to_owned()),
            Command::Queue(Queue::CancelJob(command)) => jobs(&command.jobs, "cancelled")?,
            Command::Queue(Queue::RequeueDead(command)) => jobs(&command.jobs, "requeued")?,
            Command::Queue(Queue::Discard(command)) => jobs(&command.jobs, "discarded")?,
            Command::Queue(Queue::HoldBulk(command)) => {
                about(&command.bulk.group, format!("held bulk action {}", command.bulk.id))
            }
            Command::Queue(Queue::ResumeBulk(command)) => {
                about(&command.bulk.group, format!("resumed bulk action {}", command.bulk.id))
            }
            Command::Queue(Queue::CancelBulk(command)) => {
                about(&command.bulk.group, format!("cancelled bulk action {}", command.bulk.id))
            }
            Command::Lock(lock::Command::BreakLock(command)) => {
                of_queue(format!("broke lock {}", command.name))
            }
            Command::Room(room::Command::PauseRoom(command)) => {
                let what = if command.reason.is_some() { "paused" } else { "resumed" };
                of_queue(format!("{what} waiting room {}", command.room))
            }
            Command::Room(room::Command::SetRoom(command)) => {
                of_queue(format!("changed the limits of waiting room {}", command.room))
            }
            Command::Room(room::Command::SetPhase(command)) => {
                of_queue(format!("changed the phase of waiting room {}", command.room))
            }
            _ => return None,
        })
    }
}

fn limit(name: &str, value: Option<String>) -> String {
    value.map_or_else(|| format!("no {name}"), |value| format!("{name} {value}"))
}

fn rate(rate: Option<Rate>) -> String {
    limit("rate", rate.map(rate_text))
}

fn paused(is_paused: bool) -> String {
    if is_paused { "paused" } else { "resumed" }.to_owned()
}

fn group_text(patch: &GroupPatch) -> Vec<String> {
    let parts = [
        patch.weight.map(|weight| format!("weight {}", weight.get())),
        patch.base_priority.map(|priority| format!("base priority {priority}")),
        patch.rate.map(rate),
        patch.concurrency.map(|most| limit("concurrency", most.map(|most| most.to_string()))),
        patch.paused.map(paused),
    ];
    parts.into_iter().flatten().collect()
}

fn type_text(patch: &TypePatch) -> Vec<String> {
    let parts = [
        patch.rate.map(rate),
        patch.concurrency.map(|most| limit("concurrency", most.map(|most| most.to_string()))),
        patch.max_retry_count.map(|most| limit("number of retries", most.map(|most| most.to_string()))),
        patch.paused.map(paused),
    ];
    parts.into_iter().flatten().collect()
}

/// A table of changes.
pub(super) fn table(view: &View, app: &Shared, group: Option<&str>, limit: usize) -> maud::Markup {
    let changes = app.dashboard.activity.newest(group, limit);
    html! {
        @if changes.is_empty() {
            p.empty { "No changes through this server since it started." }
        } @else {
            div.table tabindex="0" role="region" aria-label="Changes" {
                table {
                    thead { tr { th scope="col" { "When" } th scope="col" { "Key" }
                        @if group.is_none() { th scope="col" { "Customer" } }
                        th scope="col" { "Change" } } }
                    tbody {
                        @for (at, key, change) in &changes {
                            tr {
                                td { (time(*at)) }
                                td { code { (key) } }
                                @if group.is_none() {
                                    td { @if let Some(group) = &change.group { (view.customer(group)) } @else { span.muted { "–" } } }
                                }
                                td { (change.text) }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) async fn list(view: View, State(app): State<Shared>) -> Response {
    view.page(Section::Activity, "Activity", html! {
        h1 { "Activity" }
        p.lead {
            "The last " (SHOWN_MAX) " changes that were made through this server, by this page, the API or the command line. "
            "They are kept in memory; the log of the server has all of them."
        }
        section.card id="changes" data-live { (table(&view, &app, None, SHOWN_MAX)) }
    })
}

#[cfg(test)]
mod tests {
    use fairlane_core::Weight;

    use super::*;

    #[test]
    fn changes_are_bounded_and_newest_first() {
        let activity = Activity::default();
        for number in 0..CHANGES_MAX + 10 {
            let group = Some(format!("g{}", number % 2));
            activity.push(None, Change { group, text: number.to_string() });
        }
        let newest = activity.newest(Some("g1"), 2);
        assert_eq!(
            newest.iter().map(|(_, _, change)| change.text.as_str()).collect::<Vec<_>>(),
            ["1009", "1007"]
        );
        assert_eq!(activity.newest(None, usize::MAX).len(), CHANGES_MAX);
    }

    #[test]
    fn a_change_says_what_was_set() {
        let patch = GroupPatch {
            weight: Some(Weight::new(3).unwrap()),
            rate: Some(None),
            paused: Some(true),
            ..GroupPatch::default()
        };
        let group = GroupId::new("acme").unwrap();
        let command = queue::Command::SetGroup(queue::SetGroup { group, patch, reset_congestion: false });
        let change = Change::of(&Command::Queue(command)).unwrap();
        assert_eq!(
            (change.group.as_deref(), change.text.as_str()),
            (Some("acme"), "weight 3, no rate, paused")
        );
        assert!(Change::of(&Command::Queue(queue::Command::InspectQueue(queue::InspectQueue))).is_none());
    }
}
