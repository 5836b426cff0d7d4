//! Says what happens while a worker works: to people on standard error, with its end on standard output; to
//! programs as a JSON object a line.
//!
//! Invariant: the worker never waits for a reader. A thread of its own writes, and what it cannot keep up with is
//! dropped. Of what repeats, one in a while is told, with how many there were.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fairlane_core::TypeId;
use fairlane_core::queue::{JobRef, Verdict};
use fairlane_worker::{CancelReason, Event, Outcome, Problem, StopReport};
use tokio::sync::{Notify, oneshot};

use super::said::{Ends, Said};
use crate::failure::Failure;
use crate::output;

/// Lines that wait to be written.
const LINES_MAX: usize = 1000;
/// What is of the same kind is told again after this long.
const REPEAT_PAUSE: Duration = Duration::from_secs(10);
/// Kinds that are told apart.
const KINDS_MAX: usize = 1000;

/// How long the last lines may take to be read.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Retries before a job of a type is dead, by type.
pub type RetryLimits = HashMap<TypeId, u32>;

/// Says what happens.
pub struct Telling {
    hearing: Arc<Hearing>,
    /// Ends when all is written.
    written: oneshot::Receiver<()>,
}

impl Telling {
    /// Begins to write.
    pub fn start(json: bool) -> Self {
        let (lines, waiting) = sync_channel::<Said>(LINES_MAX);
        let (writing, written) = oneshot::channel();
        std::thread::spawn(move || {
            for said in waiting {
                write(&said, json);
            }
            drop(writing);
        });
        let hearing = Hearing { lines: Mutex::new(Some(lines)), ..Hearing::default() };
        Self { hearing: Arc::new(hearing), written }
    }

    /// Says it, unless too much waits to be written.
    pub fn say(&self, said: Said) {
        self.hearing.say(said);
    }

    /// To be given to the worker.
    pub fn hook(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let hearing = self.hearing.clone();
        move |event| hearing.hear(event)
    }

    /// Says what the engine refuses, unless it was said a moment ago.
    pub fn refused(&self, doing: &'static str, error: String) {
        self.hearing.tell_refusal(doing, error);
    }

    /// Ends when an engine that was away answers again.
    pub async fn engine_back(&self) {
        self.hearing.engine_back.notified().await;
    }

    /// From how many attempts on jobs are dead.
    pub fn know_limits(&self, limits: RetryLimits) {
        *held(&self.hearing.retry_limits) = limits;
    }

    /// Says what has happened since it was last called, if anything has or anything runs.
    pub fn tell_progress(&self) {
        if let Some(progress) = self.hearing.progress() {
            self.say(progress);
        }
    }

    /// Attempts that have begun or ended, counted together.
    pub fn events(&self) -> u64 {
        self.hearing.events.load(Ordering::SeqCst)
    }

    /// Attempts that have begun and not ended.
    pub fn running(&self) -> u64 {
        self.hearing.running()
    }

    /// What it came to.
    pub fn stopped(&self, report: StopReport, drained: bool, failure: Option<&Failure>) -> Said {
        let StopReport { finished, handed_back, left } = report;
        let error = failure.map(|failure| failure.message().to_owned());
        Said::Stopped { drained, finished, handed_back, left, attempts: *held(&self.hearing.ends), error }
    }

    /// Waits until all is written, but not for a reader that does not read.
    pub async fn end(self) {
        held(&self.hearing.lines).take();
        let _ = tokio::time::timeout(LAST_LINES, self.written).await;
    }
}

fn write(said: &Said, json: bool) {
    // Whoever does not read it any more has had enough of it.
    if json {
        let _ = output::print_json_line(said);
    } else if said.is_result() {
        let _ = output::print(&said.to_string());
    } else if !said.is_for_programs() {
        output::say(&said.to_string());
    }
}

fn held<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().expect("nothing panics while it notes what happens")
}

#[derive(Default)]
struct Hearing {
    lines: Mutex<Option<SyncSender<Said>>>,
    events: AtomicU64,
    running: AtomicI64,
    ends: Mutex<Ends>,
    /// As they were when progress was last told.
    ends_told: Mutex<Ends>,
    repeated: Mutex<HashMap<(String, String), Told>>,
    /// Which attempt of a job runs.
    attempts: Mutex<HashMap<JobRef, u32>>,
    retry_limits: Mutex<RetryLimits>,
    engine_back: Notify,
}

/// When something was last told, and how often it has happened since.
struct Told {
    at: Instant,
    more: u64,
}

impl Hearing {
    fn say(&self, said: Said) {
        if let Some(lines) = &*held(&self.lines) {
            let _ = lines.try_send(said);
        }
    }

    fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst).max(0).unsigned_abs()
    }

    fn hear(&self, event: &Event) {
        match event {
            Event::Started { job, attempt, .. } => {
                held(&self.attempts).insert(job.clone(), *attempt);
                self.moved(1);
            }
            Event::Settled { job, type_id, outcome, verdict, .. } => {
                self.moved(-1);
                self.settled(job, type_id, outcome, *verdict);
            }
            // Another worker settles what was lost.
            Event::Cancelling { job, reason: CancelReason::Lost } => {
                held(&self.attempts).remove(job);
                self.moved(-1);
            }
            Event::Unsettled { job, type_id, outcome, error } => {
                held(&self.attempts).remove(job);
                self.moved(-1);
                self.say(Said::ResultDropped {
                    r#type: type_id.to_string(),
                    job: named(job),
                    outcome: outcome.as_str(),
                    error: error.clone(),
                });
            }
            Event::Ignoring { job, type_id } => {
                self.say(Said::Ignoring { r#type: type_id.to_string(), job: named(job) });
            }
            Event::EngineDown { doing, error } => self.say(Said::EngineDown { doing, error: error.clone() }),
            Event::EngineBack { after } => {
                self.say(Said::EngineBack { after_ms: after.as_millis() as u64 });
                self.engine_back.notify_one();
            }
            Event::EngineRefuses { doing, error } => self.tell_refusal(doing, error.clone()),
            Event::Unattended { types } => {
                let types = types.iter().map(|(type_id, _)| type_id.to_string()).collect();
                self.say(Said::Unattended { types });
            }
            Event::BulkStuck { bulk, advice } => {
                let (group, bulk) = (bulk.group.to_string(), bulk.id.to_string());
                self.say(Said::BulkStuck { group, bulk, advice: advice.clone() });
            }
            Event::Stopping => self.say(Said::Stopping { running: self.running() }),
            _ => {}
        }
    }

    fn moved(&self, by: i64) {
        self.running.fetch_add(by, Ordering::SeqCst);
        self.events.fetch_add(1, Ordering::SeqCst);
    }

    fn settled(&self, job: &JobRef, type_id: &TypeId, outcome: &Outcome, verdict: Verdict) {
        let attempt = held(&self.attempts).remove(job);
        // A limit that is not known is none that was passed.
        let out_of_retries = || attempt > held(&self.retry_limits).get(type_id).copied().or(attempt);
        let dead = verdict == Verdict::Applied
            && match outcome {
                Outcome::Failed(_) => true,
                Outcome::Retry { .. } => out_of_retries(),
                _ => false,
            };
        self.count(outcome, dead);
        match outcome {
            Outcome::Retry { problem, .. } | Outcome::Failed(problem) => {
                self.tell_problem(type_id.to_string(), outcome.as_str(), problem, named(job), dead);
            }
            Outcome::Throttled { retry_after } => {
                self.tell_throttled(type_id.to_string(), named(job), *retry_after);
            }
            _ => {}
        }
    }

    fn count(&self, outcome: &Outcome, dead: bool) {
        let mut ends = held(&self.ends);
        let count = match outcome {
            Outcome::Done { .. } => &mut ends.done,
            Outcome::Retry { .. } => &mut ends.retry,
            Outcome::Throttled { .. } => &mut ends.throttled,
            Outcome::Failed(_) => &mut ends.failed,
            Outcome::Cancelled(_) => &mut ends.cancelled,
            Outcome::Released => &mut ends.released,
        };
        *count += 1;
        ends.dead += u64::from(dead);
    }

    fn progress(&self) -> Option<Said> {
        let ends = *held(&self.ends);
        let before = std::mem::replace(&mut *held(&self.ends_told), ends);
        let (attempts, running) = (ends.since(before), self.running());
        (running > 0 || attempts != Ends::default()).then_some(Said::Progress { running, attempts })
    }

    /// How many of this kind were not told since one was; none if this one is not to be told either.
    fn untold(&self, what: &str, kind: String) -> Option<u64> {
        let mut repeated = held(&self.repeated);
        let key = (what.to_owned(), kind);
        let now = Instant::now();
        let is_full = repeated.len() == KINDS_MAX;
        let more = match repeated.get_mut(&key) {
            Some(told) if now.duration_since(told.at) < REPEAT_PAUSE => {
                told.more += 1;
                return None;
            }
            Some(told) => told.more,
            None if is_full => return None,
            None => 0,
        };
        repeated.insert(key, Told { at: now, more: 0 });
        Some(more)
    }

    fn tell_problem(
        &self,
        r#type: String,
        outcome: &'static str,
        problem: &Problem,
        job: String,
        dead: bool,
    ) {
        // A job that is dead must not be hidden behind others that are tried again.
        let kind = if dead { format!("dead {}", problem.code) } else { problem.code.clone() };
        let Some(more) = self.untold(&r#type, kind) else { return };
        let (code, message) = (problem.code.clone(), problem.message.clone());
        self.say(Said::Problem { r#type, outcome, code, message, job, dead, more });
    }

    fn tell_throttled(&self, r#type: String, job: String, retry_after: Option<Duration>) {
        let Some(more) = self.untold(&r#type, "throttled by its downstream".into()) else { return };
        let retry_after_ms = retry_after.map(|after| after.as_millis() as u64);
        self.say(Said::Throttled { r#type, job, retry_after_ms, count: more + 1 });
    }

    fn tell_refusal(&self, doing: &'static str, error: String) {
        if let Some(more) = self.untold("the engine", doing.into()) {
            self.say(Said::EngineRefuses { doing, error, more });
        }
    }
}

fn named(job: &JobRef) -> String {
    format!("{}/{}", job.group, job.id)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use fairlane_core::{GroupId, JobId};

    use super::*;

    fn hearing() -> (Hearing, Receiver<Said>) {
        let (lines, told) = sync_channel(10);
        (Hearing { lines: Mutex::new(Some(lines)), ..Hearing::default() }, told)
    }

    fn said(hearing: Hearing, told: Receiver<Said>) -> Vec<String> {
        drop(hearing);
        told.iter().map(|said| said.to_string()).collect()
    }

    fn attempt(hearing: &Hearing, number: u32, attempt: u32, outcome: Outcome) {
        let id = JobId::new(number.to_string()).unwrap();
        let job = JobRef { group: GroupId::new("a").unwrap(), id };
        let type_id = TypeId::new("mail").unwrap();
        hearing.hear(&Event::Started { job: job.clone(), type_id: type_id.clone(), attempt });
        let (verdict, took) = (Verdict::Applied, Duration::ZERO);
        hearing.hear(&Event::Settled { job, type_id, outcome, verdict, took });
    }

    #[test]
    fn of_problems_that_repeat_the_first_is_told_and_the_others_counted() {
        let (hearing, told) = hearing();
        for code in ["http_500", "http_500", "connect", "http_500"] {
            attempt(&hearing, 1, 1, Outcome::retry(code, "words"));
        }
        assert_eq!(held(&hearing.repeated)[&("mail".to_owned(), "http_500".to_owned())].more, 2);
        assert_eq!(
            said(hearing, told),
            ["mail: retry of a/1: http_500: words", "mail: retry of a/1: connect: words"]
        );
    }

    #[test]
    fn a_throttled_type_is_told_once_in_a_while_with_how_often() {
        let (hearing, told) = hearing();
        let after = Some(Duration::from_secs(30));
        for number in 1..=3 {
            attempt(&hearing, number, 1, Outcome::throttled(after));
        }
        held(&hearing.repeated).values_mut().for_each(|told| told.at -= REPEAT_PAUSE);
        attempt(&hearing, 4, 1, Outcome::throttled(None));
        assert_eq!(
            said(hearing, told),
            ["mail: throttled once, last a/1, until 30s later", "mail: throttled 3 times, last a/4"]
        );
    }

    #[test]
    fn a_job_out_of_retries_is_told_as_dead_also_behind_others_that_are_not() {
        let (hearing, told) = hearing();
        *held(&hearing.retry_limits) = HashMap::from([(TypeId::new("mail").unwrap(), 2)]);
        attempt(&hearing, 1, 2, Outcome::retry("connect", "words"));
        attempt(&hearing, 2, 3, Outcome::retry("connect", "words"));
        attempt(&hearing, 3, 1, Outcome::failed("http_404", "words"));
        assert_eq!(held(&hearing.ends).dead, 2);
        assert!(held(&hearing.attempts).is_empty());
        assert_eq!(
            said(hearing, told),
            [
                "mail: retry of a/1: connect: words",
                "mail: a/2 is dead (retry): connect: words",
                "mail: a/3 is dead (failed): http_404: words"
            ]
        );
    }

    #[test]
    fn each_dropped_result_is_reported() {
        let (hearing, told) = hearing();
        for number in ["1", "2"] {
            let job = JobRef { group: GroupId::new("a").unwrap(), id: JobId::new(number).unwrap() };
            let (type_id, outcome) = (TypeId::new("mail").unwrap(), Outcome::done(&1));
            hearing.hear(&Event::Started { job: job.clone(), type_id: type_id.clone(), attempt: 1 });
            hearing.hear(&Event::Unsettled { job, type_id, outcome, error: "words".into() });
        }
        assert_eq!(hearing.running(), 0);
        let json = serde_json::to_string(&told.try_recv().unwrap()).unwrap();
        let fields = r#""type":"mail","job":"a/1","outcome":"done","error":"words""#;
        assert_eq!(json, format!(r#"{{"event":"result_dropped",{fields}}}"#));
        let text =
            "mail: the result of a/2 (done) was dropped, the job runs again when its lease runs out: words";
        assert_eq!(said(hearing, told), [text]);
    }

    #[test]
    fn progress_is_what_came_since_it_was_last_told_and_nothing_if_nothing_did() {
        let (hearing, _told) = hearing();
        assert!(hearing.progress().is_none());
        attempt(&hearing, 1, 1, Outcome::done(&1));
        attempt(&hearing, 2, 1, Outcome::throttled(None));
        let first = hearing.progress().unwrap().to_string();
        assert_eq!(first, "1 done, 0 retried, 1 throttled, 0 failed, 0 dead; 0 jobs running");
        attempt(&hearing, 3, 1, Outcome::done(&1));
        assert!(hearing.progress().unwrap().to_string().starts_with("1 done, 0 retried, 0 throttled"));
        assert!(hearing.progress().is_none());
    }
}
