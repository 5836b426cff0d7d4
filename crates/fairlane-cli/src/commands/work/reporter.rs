//! Reports what happens while a worker runs: as text on standard error, with the result on standard
//! output, or as one JSON object per line on standard output.
//!
//! Invariant: the worker never waits for a reader. A separate thread writes, and events that it
//! cannot keep up with are dropped. Repeated events are rate-limited to one every 10 s, with a
//! count of those suppressed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fairlane_core::TypeId;
use fairlane_core::queue::{JobRef, Verdict};
use fairlane_worker::{CancelReason, Event, Outcome, Problem, StopReport};
use tokio::sync::{Notify, oneshot};

use super::event::{AttemptCounts, WorkEvent};
use crate::failure::Failure;
use crate::output;

/// Events that may wait to be written.
const PENDING_EVENTS_MAX: usize = 1000;
/// How long events of the same kind are suppressed after one was reported.
const REPEAT_PAUSE: Duration = Duration::from_secs(10);
/// Kinds of repeated events that are distinguished.
const KINDS_MAX: usize = 1000;

/// How long the last events may take to be read.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of retries before a job is dead, by type.
pub type RetryLimits = HashMap<TypeId, u32>;

/// Reports events of a worker.
pub struct Reporter {
    state: Arc<ReporterState>,
    /// Completes when everything is written.
    written: oneshot::Receiver<()>,
}

impl Reporter {
    /// Starts the writing thread.
    pub fn start(json: bool) -> Self {
        let (sender, events) = sync_channel::<WorkEvent>(PENDING_EVENTS_MAX);
        let (writing, written) = oneshot::channel();
        std::thread::spawn(move || {
            for event in events {
                write(&event, json);
            }
            drop(writing);
        });
        let state = ReporterState { sender: Mutex::new(Some(sender)), ..ReporterState::default() };
        Self { state: Arc::new(state), written }
    }

    /// Reports an event, unless too many are waiting to be written.
    pub fn report(&self, event: WorkEvent) {
        self.state.report(event);
    }

    /// The event handler for the worker.
    pub fn hook(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let state = self.state.clone();
        move |event| state.on_worker_event(event)
    }

    /// Reports that the engine rejected something, unless that was reported a moment ago.
    pub fn report_refusal(&self, doing: &'static str, error: String) {
        self.state.report_refusal(doing, error);
    }

    /// Completes when an engine that was unavailable responds again.
    pub async fn engine_back(&self) {
        self.state.engine_back.notified().await;
    }

    /// Sets the retry limits, which decide whether a failed job is reported as dead.
    pub fn set_retry_limits(&self, limits: RetryLimits) {
        *lock(&self.state.retry_limits) = limits;
    }

    /// Reports the attempts since the last call, if there were any or any are running.
    pub fn report_progress(&self) {
        if let Some(progress) = self.state.progress() {
            self.report(progress);
        }
    }

    /// The number of attempts that have started plus the number of those that have ended.
    pub fn transitions(&self) -> u64 {
        self.state.transitions.load(Ordering::SeqCst)
    }

    /// The number of attempts that are running.
    pub fn running(&self) -> u64 {
        self.state.running()
    }

    /// The last event of a worker, with the counts of all its attempts.
    pub fn stopped(&self, report: StopReport, drained: bool, failure: Option<&Failure>) -> WorkEvent {
        let StopReport { finished, handed_back, left } = report;
        let error = failure.map(|failure| failure.message().to_owned());
        let attempts = *lock(&self.state.attempts);
        WorkEvent::Stopped { drained, finished, handed_back, left, attempts, error }
    }

    /// Waits until everything is written, but not for a reader that does not read.
    pub async fn finish(self) {
        lock(&self.state.sender).take();
        let _ = tokio::time::timeout(FINAL_WRITE_TIMEOUT, self.written).await;
    }
}

fn write(event: &WorkEvent, json: bool) {
    // A write error means that the reader has closed the pipe and needs no more events.
    if json {
        let _ = output::print_json_line(event);
    } else if event.is_result() {
        let _ = output::print(&event.to_string());
    } else if !event.is_json_only() {
        output::print_message(&event.to_string());
    }
}

fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().expect("nothing panics while it holds the lock")
}

#[derive(Default)]
struct ReporterState {
    /// None after the reporter has finished.
    sender: Mutex<Option<SyncSender<WorkEvent>>>,
    transitions: AtomicU64,
    running: AtomicI64,
    attempts: Mutex<AttemptCounts>,
    /// The counts when progress was last reported.
    attempts_reported: Mutex<AttemptCounts>,
    /// Repeated events, by subject and kind.
    repeated: Mutex<HashMap<(String, String), Throttle>>,
    /// The number of the running attempt of each job.
    running_attempts: Mutex<HashMap<JobRef, u32>>,
    retry_limits: Mutex<RetryLimits>,
    engine_back: Notify,
}

/// When a kind of event was last reported, and how many were suppressed since then.
struct Throttle {
    reported_at: Instant,
    suppressed: u64,
}

impl ReporterState {
    fn report(&self, event: WorkEvent) {
        if let Some(sender) = &*lock(&self.sender) {
            let _ = sender.try_send(event);
        }
    }

    fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst).max(0).unsigned_abs()
    }

    fn on_worker_event(&self, event: &Event) {
        match event {
            Event::Started { job, attempt, .. } => {
                lock(&self.running_attempts).insert(job.clone(), *attempt);
                self.count_transition(1);
            }
            Event::Settled { job, type_id, outcome, verdict, .. } => {
                self.count_transition(-1);
                self.on_settled(job, type_id, outcome, *verdict);
            }
            // Another worker settles a job whose lease was lost.
            Event::Cancelling { job, reason: CancelReason::Lost } => {
                lock(&self.running_attempts).remove(job);
                self.count_transition(-1);
            }
            Event::Unsettled { job, type_id, outcome, error } => {
                lock(&self.running_attempts).remove(job);
                self.count_transition(-1);
                self.report(WorkEvent::ResultDropped {
                    r#type: type_id.to_string(),
                    job: full_name(job),
                    outcome: outcome.as_str(),
                    error: error.clone(),
                });
            }
            Event::Ignoring { job, type_id } => {
                self.report(WorkEvent::Ignoring { r#type: type_id.to_string(), job: full_name(job) });
            }
            Event::EngineDown { doing, error } => {
                self.report(WorkEvent::EngineDown { doing, error: error.clone() });
            }
            Event::EngineBack { after } => {
                self.report(WorkEvent::EngineBack { after_ms: after.as_millis() as u64 });
                self.engine_back.notify_one();
            }
            Event::EngineRefuses { doing, error } => self.report_refusal(doing, error.clone()),
            Event::Unattended { types } => {
                let types = types.iter().map(|(type_id, _)| type_id.to_string()).collect();
                self.report(WorkEvent::Unattended { types });
            }
            Event::BulkStuck { bulk, advice } => {
                let (group, bulk) = (bulk.group.to_string(), bulk.id.to_string());
                self.report(WorkEvent::BulkStuck { group, bulk, advice: advice.clone() });
            }
            Event::Stopping => self.report(WorkEvent::Stopping { running: self.running() }),
            _ => {}
        }
    }

    fn count_transition(&self, running_change: i64) {
        self.running.fetch_add(running_change, Ordering::SeqCst);
        self.transitions.fetch_add(1, Ordering::SeqCst);
    }

    fn on_settled(&self, job: &JobRef, type_id: &TypeId, outcome: &Outcome, verdict: Verdict) {
        let attempt = lock(&self.running_attempts).remove(job);
        // Without a known limit the job counts as alive.
        let out_of_retries = || attempt > lock(&self.retry_limits).get(type_id).copied().or(attempt);
        let dead = verdict == Verdict::Applied
            && match outcome {
                Outcome::Failed(_) => true,
                Outcome::Retry { .. } => out_of_retries(),
                _ => false,
            };
        self.count(outcome, dead);
        match outcome {
            Outcome::Retry { problem, .. } | Outcome::Failed(problem) => {
                self.report_problem(type_id.to_string(), outcome.as_str(), problem, full_name(job), dead);
            }
            Outcome::Throttled { retry_after } => {
                self.report_throttled(type_id.to_string(), full_name(job), *retry_after);
            }
            _ => {}
        }
    }

    fn count(&self, outcome: &Outcome, dead: bool) {
        let mut attempts = lock(&self.attempts);
        let count = match outcome {
            Outcome::Done { .. } => &mut attempts.done,
            Outcome::Retry { .. } => &mut attempts.retry,
            Outcome::Throttled { .. } => &mut attempts.throttled,
            Outcome::Failed(_) => &mut attempts.failed,
            Outcome::Cancelled(_) => &mut attempts.cancelled,
            Outcome::Released => &mut attempts.released,
        };
        *count += 1;
        attempts.dead += u64::from(dead);
    }

    fn progress(&self) -> Option<WorkEvent> {
        let attempts = *lock(&self.attempts);
        let before = std::mem::replace(&mut *lock(&self.attempts_reported), attempts);
        let (attempts, running) = (attempts.since(before), self.running());
        (running > 0 || attempts != AttemptCounts::default())
            .then_some(WorkEvent::Progress { running, attempts })
    }

    /// The number of suppressed events of this kind if one is due to be reported, else none.
    fn throttled(&self, subject: &str, kind: String) -> Option<u64> {
        let mut repeated = lock(&self.repeated);
        let key = (subject.to_owned(), kind);
        let now = Instant::now();
        let is_full = repeated.len() == KINDS_MAX;
        let suppressed = match repeated.get_mut(&key) {
            Some(throttle) if now.duration_since(throttle.reported_at) < REPEAT_PAUSE => {
                throttle.suppressed += 1;
                return None;
            }
            Some(throttle) => throttle.suppressed,
            None if is_full => return None,
            None => 0,
        };
        repeated.insert(key, Throttle { reported_at: now, suppressed: 0 });
        Some(suppressed)
    }

    fn report_problem(
        &self,
        r#type: String,
        outcome: &'static str,
        problem: &Problem,
        job: String,
        dead: bool,
    ) {
        // Retries of other jobs must not suppress the report of a dead job.
        let kind = if dead { format!("dead {}", problem.code) } else { problem.code.clone() };
        let Some(more) = self.throttled(&r#type, kind) else { return };
        let (code, message) = (problem.code.clone(), problem.message.clone());
        self.report(WorkEvent::Problem { r#type, outcome, code, reason: message, job, dead, more });
    }

    fn report_throttled(&self, r#type: String, job: String, retry_after: Option<Duration>) {
        let Some(more) = self.throttled(&r#type, "throttled by its downstream".into()) else { return };
        let retry_after_ms = retry_after.map(|after| after.as_millis() as u64);
        self.report(WorkEvent::Throttled { r#type, job, retry_after_ms, count: more + 1 });
    }

    fn report_refusal(&self, doing: &'static str, error: String) {
        if let Some(more) = self.throttled("the engine", doing.into()) {
            self.report(WorkEvent::EngineRefuses { doing, error, more });
        }
    }
}

fn full_name(job: &JobRef) -> String {
    format!("{}/{}", job.group, job.id)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use fairlane_core::{GroupId, JobId};

    use super::*;

    fn reporter_state() -> (ReporterState, Receiver<WorkEvent>) {
        let (sender, events) = sync_channel(10);
        (ReporterState { sender: Mutex::new(Some(sender)), ..ReporterState::default() }, events)
    }

    fn texts(state: ReporterState, events: Receiver<WorkEvent>) -> Vec<String> {
        drop(state);
        events.iter().map(|event| event.to_string()).collect()
    }

    fn attempt(state: &ReporterState, number: u32, attempt: u32, outcome: Outcome) {
        let id = JobId::new(number.to_string()).unwrap();
        let job = JobRef { group: GroupId::new("a").unwrap(), id };
        let type_id = TypeId::new("mail").unwrap();
        state.on_worker_event(&Event::Started { job: job.clone(), type_id: type_id.clone(), attempt });
        let (verdict, took) = (Verdict::Applied, Duration::ZERO);
        state.on_worker_event(&Event::Settled { job, type_id, outcome, verdict, took });
    }

    #[test]
    fn repeated_problems_are_reported_once_and_counted() {
        let (state, events) = reporter_state();
        for code in ["http_500", "http_500", "connect", "http_500"] {
            attempt(&state, 1, 1, Outcome::retry(code, "words"));
        }
        let key = ("mail".to_owned(), "http_500".to_owned());
        assert_eq!(lock(&state.repeated)[&key].suppressed, 2);
        assert_eq!(
            texts(state, events),
            ["mail: retry of a/1: http_500: words", "mail: retry of a/1: connect: words"]
        );
    }

    #[test]
    fn throttling_is_reported_once_per_pause_with_a_count() {
        let (state, events) = reporter_state();
        let after = Some(Duration::from_secs(30));
        for number in 1..=3 {
            attempt(&state, number, 1, Outcome::throttled(after));
        }
        lock(&state.repeated).values_mut().for_each(|throttle| throttle.reported_at -= REPEAT_PAUSE);
        attempt(&state, 4, 1, Outcome::throttled(None));
        assert_eq!(
            texts(state, events),
            ["mail: throttled once, last a/1, for 30s", "mail: throttled 3 times, last a/4"]
        );
    }

    #[test]
    fn a_dead_job_is_reported_even_after_retries_with_the_same_code() {
        let (state, events) = reporter_state();
        *lock(&state.retry_limits) = HashMap::from([(TypeId::new("mail").unwrap(), 2)]);
        attempt(&state, 1, 2, Outcome::retry("connect", "words"));
        attempt(&state, 2, 3, Outcome::retry("connect", "words"));
        attempt(&state, 3, 1, Outcome::failed("http_404", "words"));
        assert_eq!(lock(&state.attempts).dead, 2);
        assert!(lock(&state.running_attempts).is_empty());
        assert_eq!(
            texts(state, events),
            [
                "mail: retry of a/1: connect: words",
                "mail: a/2 is dead (retries used up): connect: words",
                "mail: a/3 is dead (failed): http_404: words"
            ]
        );
    }

    #[test]
    fn each_dropped_result_is_reported() {
        let (state, events) = reporter_state();
        for number in ["1", "2"] {
            let job = JobRef { group: GroupId::new("a").unwrap(), id: JobId::new(number).unwrap() };
            let (type_id, outcome) = (TypeId::new("mail").unwrap(), Outcome::done(&1));
            state.on_worker_event(&Event::Started { job: job.clone(), type_id: type_id.clone(), attempt: 1 });
            state.on_worker_event(&Event::Unsettled { job, type_id, outcome, error: "words".into() });
        }
        assert_eq!(state.running(), 0);
        let json = serde_json::to_string(&events.try_recv().unwrap()).unwrap();
        let fields = r#""type":"mail","job":"a/1","outcome":"done","error":"words""#;
        assert_eq!(json, format!(r#"{{"event":"result_dropped",{fields}}}"#));
        let text =
            "mail: the result of a/2 (done) was dropped, the job runs again when its lease expires: words";
        assert_eq!(texts(state, events), [text]);
    }

    #[test]
    fn progress_counts_attempts_since_the_last_report_and_is_omitted_without_any() {
        let (state, _events) = reporter_state();
        assert!(state.progress().is_none());
        attempt(&state, 1, 1, Outcome::done(&1));
        attempt(&state, 2, 1, Outcome::throttled(None));
        let first = state.progress().unwrap().to_string();
        assert_eq!(first, "1 done, 0 retried, 1 throttled, 0 failed, 0 dead; 0 jobs running");
        attempt(&state, 3, 1, Outcome::done(&1));
        assert!(state.progress().unwrap().to_string().starts_with("1 done, 0 retried, 0 throttled"));
        assert!(state.progress().is_none());
    }
}
