//! The activity log: what a command changes, in words, and how it is recorded.
//!
//! A change is recorded after it was made, in the same request. If recording fails, the change
//! stays in effect, the log has no entry for it, and a warning is written to the program's log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fairlane_core::activity::{ActivitySubject, RecordActivity, SubjectKind};
use fairlane_core::limits::{ACTIVITY_NAME_BYTES_MAX, ACTIVITY_TEXT_BYTES_MAX, NAME_BYTES_MAX};
use fairlane_core::queue::{self, Cancellation, Disposal, GroupPatch, JobRef, Requeued, TypePatch};
use fairlane_core::{ActivityId, Command, Rate, Reply, lock, ranking, room};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use uuid::Uuid;

use crate::rate::rate_text;

/// The actor that is recorded for a user of this machine, who needs no key.
pub const LOCAL_ACTOR: &str = "local";

/// A change that an operator can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What is changed; `None` for the queue itself.
    pub subject: Option<ActivitySubject>,
    /// The change, in words; followed by the number of jobs if that is not 0.
    pub text: String,
    /// The number of changed jobs; 0 if the change is not about jobs, or if its text names the job.
    pub jobs: u64,
}

impl Change {
    /// The change that a command makes; `None` if it is the everyday work of producers and workers.
    pub fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Queue(command) => Self::of_queue(command),
            Command::Lock(lock::Command::BreakLock(command)) => {
                Some(Self::new(SubjectKind::Lock, &command.name, "broken"))
            }
            Command::Room(command) => Self::of_room(command),
            Command::Ranking(ranking::Command::SetBoard(command)) => {
                Some(Self::new(SubjectKind::Board, &command.board, "made"))
            }
            Command::Ranking(ranking::Command::RemoveBoard(command)) => {
                Some(Self::new(SubjectKind::Board, &command.board, "removed"))
            }
            _ => None,
        }
    }

    fn of_queue(command: &queue::Command) -> Option<Self> {
        use queue::Command::*;
        Some(match command {
            SetGroup(command) => {
                let reset = command.reset_congestion.then(|| "congestion reset".to_owned());
                let parts: Vec<String> = group_parts(&command.patch).into_iter().chain(reset).collect();
                Self::new(SubjectKind::Group, &command.group, parts.join(", "))
            }
            SetType(command) => {
                Self::new(SubjectKind::Type, &command.type_id, type_parts(&command.patch).join(", "))
            }
            RemoveType(command) => Self::new(SubjectKind::Type, &command.type_id, "removed"),
            SetQueue(_) => Self { subject: None, text: "settings of the queue changed".to_owned(), jobs: 0 },
            CancelJob(command) => Self::of_jobs(&command.jobs, "cancelled")?,
            RequeueDead(command) => Self::of_jobs(&command.jobs, "requeued")?,
            Discard(command) => Self::of_jobs(&command.jobs, "discarded")?,
            HoldBulk(command) => Self::of_bulk(&command.bulk, "held"),
            ResumeBulk(command) => Self::of_bulk(&command.bulk, "resumed"),
            CancelBulk(command) => Self::of_bulk(&command.bulk, "cancelled"),
            _ => return None,
        })
    }

    fn of_room(command: &room::Command) -> Option<Self> {
        Some(match command {
            room::Command::PauseRoom(command) => {
                let text = if command.reason.is_some() { "paused" } else { "resumed" };
                Self::new(SubjectKind::Room, &command.room, text)
            }
            room::Command::SetRoom(command) => Self::new(SubjectKind::Room, &command.room, "limits changed"),
            room::Command::SetPhase(command) => Self::new(SubjectKind::Room, &command.room, "phase changed"),
            _ => return None,
        })
    }

    /// The change as it was made; `None` if the reply says that nothing was changed.
    pub fn made(self, reply: &Reply) -> Option<Self> {
        let is_made = match reply {
            Reply::Queue(reply) => return self.made_by_queue(reply),
            Reply::Lock(lock::Reply::BreakLock(broken)) => broken.holders > 0,
            Reply::Room(room::Reply::PauseRoom(paused)) => matches!(paused, room::RoomPaused::Set { .. }),
            Reply::Room(room::Reply::SetRoom(set)) => matches!(set, room::RoomSet::Set { .. }),
            Reply::Room(room::Reply::SetPhase(set)) => matches!(set, room::PhaseSet::Set { .. }),
            Reply::Ranking(ranking::Reply::SetBoard(set)) => {
                matches!(set, ranking::BoardSet::Set { is_new: true })
            }
            Reply::Ranking(ranking::Reply::RemoveBoard(removed)) => removed.was_there,
            _ => true,
        };
        is_made.then_some(self)
    }

    fn made_by_queue(self, reply: &queue::Reply) -> Option<Self> {
        use queue::Reply;
        let is_made = match reply {
            Reply::CancelJob(reply) => {
                let is_cancelled =
                    |one: &&Cancellation| matches!(one, Cancellation::Cancelled | Cancellation::Requested);
                return self.of_made_jobs(reply.cancellations.iter().filter(is_cancelled).count());
            }
            Reply::RequeueDead(reply) => {
                return self
                    .of_made_jobs(reply.jobs.iter().filter(|one| **one == Requeued::Requeued).count());
            }
            Reply::Discard(reply) => {
                return self
                    .of_made_jobs(reply.jobs.iter().filter(|one| **one == Disposal::Discarded).count());
            }
            Reply::HoldBulk(held) => held.0.is_some(),
            Reply::ResumeBulk(resumed) => resumed.0.is_some(),
            Reply::CancelBulk(cancelled) => cancelled.0.is_some(),
            Reply::SetType(set) => matches!(set, queue::TypeSet::Set(_)),
            Reply::RemoveType(removed) => *removed == queue::TypeRemoved::Removed,
            Reply::SetQueue(set) => *set == queue::QueueSet::Set,
            _ => true,
        };
        is_made.then_some(self)
    }

    /// The change with the number of jobs that it affected; `None` if it affected none.
    fn of_made_jobs(self, made: usize) -> Option<Self> {
        let jobs = if self.jobs == 0 { 0 } else { made as u64 };
        (made > 0).then_some(Self { jobs, ..self })
    }

    fn new(kind: SubjectKind, name: &dyn ToString, text: impl Into<String>) -> Self {
        let subject = ActivitySubject { kind, name: one_line(&name.to_string(), ACTIVITY_NAME_BYTES_MAX) };
        Self { subject: Some(subject), text: one_line(&text.into(), ACTIVITY_TEXT_BYTES_MAX), jobs: 0 }
    }

    fn of_bulk(bulk: &queue::BulkRef, text: &str) -> Self {
        Self::new(SubjectKind::Group, &bulk.group, format!("{text} bulk action {}", bulk.id))
    }

    /// A change to jobs. Its subject is their group, or the queue if the jobs are of several
    /// groups.
    fn of_jobs(jobs: &[JobRef], text: &str) -> Option<Self> {
        let first = jobs.first()?;
        let change = match jobs {
            [job] => Self::new(SubjectKind::Group, &job.group, format!("{text} job {}", job.id)),
            _ => Self { jobs: jobs.len() as u64, ..Self::new(SubjectKind::Group, &first.group, text) },
        };
        let is_one_group = jobs.iter().all(|job| job.group == first.group);
        Some(Self { subject: change.subject.filter(|_| is_one_group), ..change })
    }
}

/// The changes of one request. Equal changes to jobs of one subject are one entry of the log, which
/// counts the jobs of all of them.
#[derive(Debug)]
pub struct RequestLog {
    actor: String,
    id: Uuid,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// The entries about several jobs, by subject and text: the number of the entry, and its jobs
    /// so far.
    about_jobs: HashMap<(Option<ActivitySubject>, String), (u64, u64)>,
}

impl RequestLog {
    /// The changes of a request by `actor`.
    pub fn new(actor: &str) -> Self {
        Self { actor: one_line(actor, NAME_BYTES_MAX), id: Uuid::now_v7(), entries: Mutex::default() }
    }

    /// The command that records a change that was made.
    pub fn entry(&self, change: Change) -> RecordActivity {
        let Change { subject, text, jobs } = change;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let next = entries.next;
        let (number, jobs) = if jobs == 0 {
            (next, 0)
        } else {
            let known = entries.about_jobs.entry((subject.clone(), text.clone())).or_insert((next, 0));
            known.1 += jobs;
            *known
        };
        entries.next = next.max(number + 1);
        let id = ActivityId::new(format!("{}-{number}", self.id)).expect("an id is a valid name");
        RecordActivity { id, actor: self.actor.clone(), subject, text, jobs }
    }
}

/// Adds a change to the activity log of an engine.
pub async fn record_change(engine: &Arc<dyn Engine>, record: RecordActivity) {
    if let Err(error) = engine.call(record).await {
        tracing::warn!(target: "fairlane", %error, "a change was not recorded in the activity log");
    }
}

/// An engine that records the changes that it makes for `actor`.
pub(crate) fn recorded(engine: Arc<dyn Engine>, actor: &str) -> Arc<dyn Engine> {
    let log = Arc::new(RequestLog::new(actor));
    let submit = move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
        let log = log.clone();
        Box::pin(async move {
            let change = Change::of(&command);
            let reply = engine.submit(command).await?;
            if let Some(change) = change.and_then(|change| change.made(&reply)) {
                record_change(&engine, log.entry(change)).await;
            }
            Ok(reply)
        })
    };
    layer(engine, Hooks::default().submit(submit))
}

type Submitted = Result<Reply, EngineError>;

/// The text with spaces for control characters, truncated to `most` bytes; `?` for an empty text.
fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for character in text.chars().map(|one| if one.is_control() { ' ' } else { one }) {
        if line.len() + character.len_utf8() > most {
            break;
        }
        line.push(character);
    }
    if line.is_empty() { "?".to_owned() } else { line }
}

fn limit(name: &str, value: Option<String>) -> String {
    value.map_or_else(|| format!("no {name}"), |value| format!("{name} {value}"))
}

fn rate(rate: Option<Rate>) -> String {
    limit("rate", rate.map(rate_text))
}

fn concurrency(most: Option<u32>) -> String {
    limit("concurrency", most.map(|most| most.to_string()))
}

fn paused(is_paused: bool) -> String {
    if is_paused { "paused" } else { "resumed" }.to_owned()
}

fn group_parts(patch: &GroupPatch) -> Vec<String> {
    let parts = [
        patch.weight.map(|weight| format!("weight {}", weight.get())),
        patch.base_priority.map(|priority| format!("base priority {priority}")),
        patch.rate.map(rate),
        patch.concurrency.map(concurrency),
        patch.paused.map(paused),
    ];
    parts.into_iter().flatten().collect()
}

fn type_parts(patch: &TypePatch) -> Vec<String> {
    let parts = [
        patch.rate.map(rate),
        patch.concurrency.map(concurrency),
        patch.max_retry_count.map(|most| limit("number of retries", most.map(|most| most.to_string()))),
        patch.paused.map(paused),
    ];
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use fairlane_core::kernel::Registered;
    use fairlane_core::{GroupId, JobId, Weight};

    use super::*;
    use crate::Fairlane;

    fn jobs(groups: &[&str]) -> Command {
        let job = |(number, group): (usize, &&str)| JobRef {
            group: GroupId::new(group).unwrap(),
            id: JobId::new(format!("j{number}")).unwrap(),
        };
        queue::CancelJob { jobs: groups.iter().enumerate().map(job).collect() }.into_command()
    }

    fn about(change: &Change) -> (Option<&str>, &str, u64) {
        (change.subject.as_ref().map(|subject| subject.name.as_str()), change.text.as_str(), change.jobs)
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
        let command = queue::SetGroup { group, patch, reset_congestion: false }.into_command();
        assert_eq!(about(&Change::of(&command).unwrap()), (Some("acme"), "weight 3, no rate, paused", 0));
        assert_eq!(Change::of(&queue::InspectQueue.into_command()), None);
    }

    #[test]
    fn a_change_of_jobs_names_the_only_job_or_counts_them() {
        assert_eq!(about(&Change::of(&jobs(&["a"])).unwrap()), (Some("a"), "cancelled job j0", 0));
        assert_eq!(about(&Change::of(&jobs(&["a", "a"])).unwrap()), (Some("a"), "cancelled", 2));
        assert_eq!(about(&Change::of(&jobs(&["a", "b"])).unwrap()), (None, "cancelled", 2));
        assert_eq!(Change::of(&jobs(&[])), None);
    }

    #[test]
    fn jobs_that_were_not_changed_are_not_counted() {
        let made = |cancellations: Vec<Cancellation>| {
            let groups = vec!["a"; cancellations.len()];
            let reply = queue::Reply::CancelJob(queue::JobsCancelled { cancellations });
            Change::of(&jobs(&groups)).unwrap().made(&reply.into()).map(|change| change.jobs)
        };
        assert_eq!(
            made(vec![Cancellation::Cancelled, Cancellation::Ended, Cancellation::Requested]),
            Some(2)
        );
        assert_eq!((made(vec![Cancellation::Unknown]), made(vec![Cancellation::Cancelled])), (None, Some(0)));
    }

    #[test]
    fn equal_changes_of_a_request_are_one_entry() {
        let log = RequestLog::new("ada\n");
        let entries: Vec<RecordActivity> = [&["a", "a"][..], &["b", "b"], &["a", "a", "a"]]
            .into_iter()
            .map(|groups| log.entry(Change::of(&jobs(groups)).unwrap()))
            .collect();
        assert_eq!(entries[0].id, entries[2].id);
        assert_ne!(entries[0].id, entries[1].id);
        assert_eq!((entries[2].jobs, entries[2].actor.as_str()), (5, "ada "));
    }

    #[tokio::test]
    async fn a_recording_queue_logs_its_changes() {
        let fairlane = Fairlane::open("memory:").await.unwrap().recording(LOCAL_ACTOR);
        fairlane.group("acme").pause().apply().await.unwrap();
        fairlane.group("acme").view().await.unwrap();
        let listed = fairlane.activity(None, None, 10).await.unwrap();
        let entries: Vec<(&str, &str)> =
            listed.entries.iter().map(|entry| (entry.actor.as_str(), entry.text.as_str())).collect();
        assert_eq!(entries, [("local", "paused")]);
    }
}
