//! The audit trail: every command that cancels, removes or requeues jobs is logged with the key
//! that submitted it, the groups it changed and the number of jobs. Commands that change settings
//! are logged with the path of their request instead. Changes by operators are also recorded in the
//! activity log of the engine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use fairlane::{Change, RequestLog};
use fairlane_core::activity::RecordActivity;
use fairlane_core::queue::{self, BulkRef, Cancellation, Disposal, JobRef, Requeued};
use fairlane_core::{Command, GroupId, Reply};
use fairlane_engine::observe::TARGET;

/// Most groups that one log line names.
const GROUPS_MAX: usize = 10;

/// The actor of changes that belong to no request.
const SERVER_ACTOR: &str = "server";

/// The sender of a request, and the changes that it has made.
pub(super) struct Sender {
    /// The id of the key.
    key: Arc<str>,
    /// The name that the activity log shows; `None` if the sender is no operator.
    actor: Option<Arc<str>>,
    log: OnceLock<RequestLog>,
}

impl Sender {
    pub fn new(key: Arc<str>, actor: Option<Arc<str>>) -> Self {
        Self { key, actor, log: OnceLock::new() }
    }

    fn entry(&self, change: Change) -> Option<RecordActivity> {
        let actor = self.actor.as_deref()?;
        Some(self.log.get_or_init(|| RequestLog::new(actor)).entry(change))
    }
}

tokio::task_local! {
    static SENDER: Sender;
}

/// Runs a request with its sender as a task-local value.
pub(super) async fn scope<F: Future>(sender: Sender, request: F) -> F::Output {
    SENDER.scope(sender, request).await
}

/// The id of the key of the running request.
fn key() -> Option<Arc<str>> {
    SENDER.try_with(|sender| sender.key.clone()).ok()
}

/// The name under which the running request's changes are recorded in the activity log.
pub(crate) fn actor() -> Arc<str> {
    let actor = SENDER.try_with(|sender| sender.actor.clone()).ok().flatten();
    actor.unwrap_or_else(|| SERVER_ACTOR.into())
}

/// The entry of the activity log for a change by the running request; `None` if its sender is no
/// operator.
pub(super) fn entry(change: Change) -> Option<RecordActivity> {
    let of_server = change.clone();
    let entry = SENDER.try_with(|sender| sender.entry(change));
    entry.unwrap_or_else(|_| Some(RequestLog::new(SERVER_ACTOR).entry(of_server)))
}

/// A destructive command that was submitted and has no reply yet.
pub(super) struct Trail {
    key: Option<Arc<str>>,
    subject: Subject,
}

enum Subject {
    /// The group of each job of the command.
    Jobs(Vec<GroupId>),
    Bulk(BulkRef),
}

impl Trail {
    /// The trail of a command, if it is destructive.
    pub fn begin(command: &Command) -> Option<Self> {
        let groups = |jobs: &[JobRef]| Subject::Jobs(jobs.iter().map(|job| job.group.clone()).collect());
        let subject = match command {
            Command::Queue(queue::Command::CancelJob(command)) => groups(&command.jobs),
            Command::Queue(queue::Command::RequeueDead(command)) => groups(&command.jobs),
            Command::Queue(queue::Command::Discard(command)) => groups(&command.jobs),
            Command::Queue(queue::Command::CancelBulk(command)) => Subject::Bulk(command.bulk.clone()),
            _ => return None,
        };
        Some(Self { key: key(), subject })
    }

    /// Logs what the command has changed.
    pub fn end(&self, reply: &Reply) {
        let key = self.key.as_deref();
        match (&self.subject, reply) {
            (Subject::Bulk(bulk), Reply::Queue(queue::Reply::CancelBulk(cancelled)))
                if cancelled.0.is_some() =>
            {
                tracing::info!(
                    target: TARGET, key, group = %bulk.group, bulk = %bulk.id, "bulk action cancelled"
                );
            }
            (Subject::Jobs(groups), Reply::Queue(queue::Reply::CancelJob(cancelled))) => {
                let is_cancelled =
                    |one: &Cancellation| matches!(one, Cancellation::Cancelled | Cancellation::Requested);
                if let Some((jobs, groups)) =
                    changed(groups, cancelled.cancellations.iter().map(is_cancelled))
                {
                    tracing::info!(target: TARGET, key, groups, jobs, "jobs cancelled");
                }
            }
            (Subject::Jobs(groups), Reply::Queue(queue::Reply::RequeueDead(requeued))) => {
                let is_requeued = requeued.jobs.iter().map(|one| *one == Requeued::Requeued);
                if let Some((jobs, groups)) = changed(groups, is_requeued) {
                    tracing::info!(target: TARGET, key, groups, jobs, "dead jobs requeued");
                }
            }
            (Subject::Jobs(groups), Reply::Queue(queue::Reply::Discard(discarded))) => {
                let is_discarded = discarded.jobs.iter().map(|one| *one == Disposal::Discarded);
                if let Some((jobs, groups)) = changed(groups, is_discarded) {
                    tracing::info!(target: TARGET, key, groups, jobs, "dead jobs discarded");
                }
            }
            _ => {}
        }
    }
}

/// The number of jobs that were changed, and a text with the number per group; `None` if no job
/// was.
fn changed(groups: &[GroupId], are_changed: impl Iterator<Item = bool>) -> Option<(u64, String)> {
    let mut counts: BTreeMap<&GroupId, u64> = BTreeMap::new();
    for (group, _) in groups.iter().zip(are_changed).filter(|(_, is_changed)| *is_changed) {
        *counts.entry(group).or_default() += 1;
    }
    let mut text = String::new();
    for (at, (group, count)) in counts.iter().take(GROUPS_MAX).enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{group} ({count})", if at > 0 { ", " } else { "" });
    }
    if counts.len() > GROUPS_MAX {
        let _ = write!(text, " and {} more", counts.len() - GROUPS_MAX);
    }
    (!counts.is_empty()).then(|| (counts.values().sum(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_names_at_most_ten_groups() {
        let groups: Vec<GroupId> =
            (0..24).map(|number| GroupId::new(format!("g{:02}", number / 2)).unwrap()).collect();
        let (jobs, text) = changed(&groups, (0..24).map(|number| number != 1)).unwrap();
        assert_eq!(jobs, 23);
        assert!(text.starts_with("g00 (1), g01 (2), ") && text.ends_with("g09 (2) and 2 more"), "{text}");
        assert_eq!(changed(&groups, (0..24).map(|_| false)), None);
    }
}
