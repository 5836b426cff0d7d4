//! Metrics and events of the embedded engine, and a comparison of the document with the code.

mod ledger;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::lock::{AcquireLock, BreakLock, HeldLock, LockMode, LockName, ReleaseLock, RenewLocks};
use fairlane_core::queue::{
    Enqueue, Extend, GroupPatch, InspectCongestion, InspectGroup, JobRef, Lease, Leased, LeasedJob, NewJob,
    Outcome, Promote, Reclaim, SetGroup, Settings, Settle, Settlement,
};
use fairlane_core::ranking::{BoardSettings, InspectBoard, SetBoard};
use fairlane_core::room::{InspectRoom, RoomSettings, SetRoom};
use fairlane_core::{BoardName, Fence, GroupId, JobId, Rate, RequestNumber, TypeId, WorkerId};
use fairlane_core::{HolderName, LockToken, ProcessId, RoomName};
use fairlane_engine::observe::{self, names};
use fairlane_engine::{Clock, EmbeddedEngine, Engine, Space};
use ledger::{Journal, Ledger};

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
const PAYLOAD: &str = "secret-of-the-customer";
const SECOND_US: u64 = 1_000_000;

/// An engine with a recorder, a subscriber and a clock that a test moves.
struct Watched {
    engine: Arc<dyn Engine>,
    ledger: Ledger,
    journal: Journal,
    clock: Arc<AtomicU64>,
    requests: AtomicU64,
    _subscriber: tracing::subscriber::DefaultGuard,
}

impl Watched {
    fn new(settings: Settings) -> Self {
        let (ledger, journal) = (Ledger::default(), Journal::default());
        let clock = Arc::new(AtomicU64::new(1_700_000_000 * SECOND_US));
        let engine = metrics::with_local_recorder(&ledger, || {
            EmbeddedEngine::new(settings, Clock::Given(clock.clone())).expect("a thread can be had")
        });
        let subscriber = tracing::subscriber::set_default(journal.clone());
        let requests = AtomicU64::new(1);
        Self { engine: Arc::new(engine), ledger, journal, clock, requests, _subscriber: subscriber }
    }

    fn pass(&self, seconds: u64) {
        self.clock.fetch_add(seconds * SECOND_US, Ordering::SeqCst);
    }

    async fn enqueue(&self, numbers: impl IntoIterator<Item = u64>) {
        let jobs = numbers.into_iter().map(job).collect();
        self.engine.call(Enqueue { jobs }).await.expect("an enqueue is answered");
    }

    async fn lease(&self, jobs_max: usize) -> Vec<LeasedJob> {
        let request = RequestNumber(self.requests.fetch_add(1, Ordering::SeqCst));
        let worker = WorkerId::new("worker").expect("a plain word is a name");
        let command = Lease { worker, request, types: vec![type_id()], jobs_max, lease_ms: 10_000 };
        match self.engine.call(command).await.expect("a lease is answered") {
            Leased::Jobs { jobs, .. } => jobs,
            Leased::Superseded { newest } => panic!("superseded by {newest:?}"),
        }
    }

    async fn settle(&self, job: &LeasedJob, fence: Fence, outcome: Outcome) {
        let settlements = vec![Settlement { job: job.job.clone(), fence, outcome }];
        self.engine.call(Settle { settlements }).await.expect("a settle is answered");
    }

    fn assert_counts(&self, counts: &[(&str, f64)]) {
        for (key, count) in counts {
            assert_eq!(self.ledger.value(key), *count, "{key}");
        }
    }
}

fn group() -> GroupId {
    GroupId::new("customer").expect("a plain word is a name")
}

fn type_id() -> TypeId {
    TypeId::new("mail").expect("a plain word is a name")
}

fn job(number: u64) -> NewJob {
    NewJob::new(
        JobRef { group: group(), id: JobId::new(format!("job-{number}")).expect("it is short") },
        type_id(),
        Arc::from(PAYLOAD.as_bytes()),
    )
}

fn note() -> Arc<[u8]> {
    Arc::from(PAYLOAD.as_bytes())
}

#[tokio::test]
async fn a_job_is_counted_at_every_step_of_its_way() {
    let watched = Watched::new(Settings::default());
    watched.enqueue([1, 2, 3, 1]).await;
    watched.pass(2);
    let jobs = watched.lease(2).await;
    watched.settle(&jobs[0], jobs[0].fence, Outcome::Succeeded { result: note() }).await;
    let throttled = Outcome::Throttled { delay_ms: 10_000, retry_after_ms: 0 };
    watched.settle(&jobs[1], jobs[1].fence, throttled).await;
    watched.pass(10);
    watched.engine.call(Promote { jobs_max: 10 }).await.unwrap();
    watched.assert_counts(&[
        ("bulk_action_enqueue_total{engine=embedded}", 3.0),
        ("fairlane_enqueue_exists_total{engine=embedded}", 1.0),
        ("bulk_action_dequeue_total{engine=embedded,priority=normal}", 2.0),
        ("fairlane_job_wait_seconds{engine=embedded,priority=normal}", 4.0),
        ("fairlane_job_wait_seconds{engine=embedded,priority=normal} count", 2.0),
        ("fairlane_settled_total{engine=embedded,outcome=succeeded,verdict=applied}", 1.0),
        ("fairlane_settled_total{engine=embedded,outcome=throttled,verdict=applied}", 1.0),
        ("bulk_action_congestion_backoff_seconds{engine=embedded}", 10.0),
        ("fairlane_promoted_total{engine=embedded}", 1.0),
        ("fairlane_operations_total{engine=embedded,operation=settle,result=ok}", 2.0),
        ("fairlane_operation_duration_seconds{engine=embedded,operation=settle} count", 2.0),
    ]);
    assert!(watched.journal.has("DEBUG enqueued", &["created=3", "exists=1", "refused=0"]));
    assert!(watched.journal.has("DEBUG leased", &["jobs=2"]));
    assert!(!watched.journal.lines().iter().any(|line| line.starts_with("WARN")));
}

#[tokio::test]
async fn refused_jobs_are_counted_by_reason_and_warned_about() {
    let watched =
        Watched::new(Settings { group_backlog_max: 2, queue_backlog_max: 10, ..Settings::default() });
    watched.enqueue(1..=5).await;
    watched.assert_counts(&[
        ("bulk_action_enqueue_total{engine=embedded}", 2.0),
        ("fairlane_enqueue_refused_total{engine=embedded,reason=group_full}", 3.0),
        ("fairlane_enqueue_refused_total{engine=embedded,reason=queue_full}", 0.0),
    ]);
    assert!(watched.journal.has("WARN jobs refused", &["group_full=3", "queue_full=0"]));
}

#[tokio::test]
async fn jobs_refused_for_their_bytes_are_counted_by_reason() {
    let watched = Watched::new(Settings { group_stored_bytes_max: 1, ..Settings::default() });
    watched.enqueue(1..=3).await;
    watched
        .assert_counts(&[("fairlane_enqueue_refused_total{engine=embedded,reason=group_bytes_full}", 2.0)]);
    assert!(watched.journal.has("WARN jobs refused", &["group_bytes_full=2", "queue_bytes_full=0"]));
}

#[tokio::test]
async fn jobs_refused_again_and_again_are_warned_about_once_a_second() {
    let watched = Watched::new(Settings { group_backlog_max: 1, ..Settings::default() });
    for job in 1..=500 {
        watched.enqueue([job]).await;
    }
    let is_warning = |line: &&String| line.starts_with("WARN jobs refused");
    let warnings = watched.journal.lines().iter().filter(is_warning).count();
    // It takes far less than a hundred seconds.
    assert!((1..100).contains(&warnings), "{warnings}");
}

#[tokio::test]
async fn lost_leases_and_dead_jobs_are_counted_and_warned_about() {
    let watched = Watched::new(Settings { max_loss_count: 0, ..Settings::default() });
    watched.enqueue(1..=3).await;
    let jobs = watched.lease(3).await;
    let leases = vec![(jobs[0].job.clone(), Fence(1)), (jobs[1].job.clone(), jobs[1].fence)];
    watched.engine.call(Extend { leases, lease_ms: 10_000 }).await.unwrap();
    watched.settle(&jobs[0], Fence(1), Outcome::Succeeded { result: note() }).await;
    watched.settle(&jobs[0], jobs[0].fence, Outcome::Failed { reason: note() }).await;
    // No lease ends during the grace period after the first reclaim.
    for _ in 0..4 {
        watched.engine.call(Reclaim { jobs_max: 10 }).await.unwrap();
        watched.pass(10);
    }
    watched.assert_counts(&[
        ("fairlane_leases_extended_total{engine=embedded}", 1.0),
        ("fairlane_leases_lost_total{engine=embedded,operation=extend}", 1.0),
        ("fairlane_leases_lost_total{engine=embedded,operation=settle}", 1.0),
        ("fairlane_settled_total{engine=embedded,outcome=succeeded,verdict=stale}", 1.0),
        ("fairlane_dead_total{engine=embedded,cause=failed}", 1.0),
        ("fairlane_dead_total{engine=embedded,cause=lost}", 2.0),
        ("fairlane_reclaimed_total{engine=embedded,outcome=dead}", 2.0),
    ]);
    assert!(watched.journal.has("WARN leases lost", &["operation=\"extend\"", "lost=1"]));
    assert!(watched.journal.has("WARN leases lost", &["operation=\"settle\"", "lost=1"]));
    assert!(watched.journal.has("WARN jobs dead", &["cause=\"failed\"", "dead=1"]));
    assert!(watched.journal.has("WARN jobs dead", &["cause=\"lost\"", "dead=2"]));
}

#[tokio::test]
async fn waits_are_counted_by_how_they_ended_and_errors_by_kind() {
    let watched = Watched::new(Settings::default());
    assert!(!watched.engine.wait(&[type_id()], Duration::from_millis(1)).await.unwrap());
    watched.enqueue([1]).await;
    assert!(watched.engine.wait(&[type_id()], Duration::from_secs(60)).await.unwrap());
    watched.engine.call(Promote { jobs_max: 0 }).await.unwrap_err();
    watched.assert_counts(&[
        ("fairlane_waits_total{engine=embedded,ended=timeout}", 1.0),
        ("fairlane_waits_total{engine=embedded,ended=woken}", 1.0),
        ("fairlane_errors_total{engine=embedded,kind=invalid}", 1.0),
        ("fairlane_operations_total{engine=embedded,operation=promote,result=error}", 1.0),
    ]);
    assert!(watched.journal.has("DEBUG command invalid", &["operation=\"promote\""]));
}

#[tokio::test]
async fn the_gauges_of_the_whole_and_of_types_are_what_inspect_says() {
    let settings = Settings { queue_backlog_max: 500, stored_bytes_max: 4096, ..Settings::default() };
    let watched = Watched::new(settings);
    watched.enqueue(1..=5).await;
    let leased = watched.lease(2).await;
    let throttled = Outcome::Throttled { delay_ms: 5000, retry_after_ms: 5000 };
    watched.settle(&leased[0], leased[0].fence, throttled).await;
    let _recorder = metrics::set_default_local_recorder(&watched.ledger);
    let queue = watched.engine.observe_queue().await.unwrap();
    assert_eq!((queue.backlog, queue.in_flight), (4, 1));
    assert!(queue.stored_bytes > 0);
    watched.assert_counts(&[
        ("bulk_action_queue_groups{priority=normal}", 1.0),
        ("bulk_action_queue_groups{priority=high}", 0.0),
        ("fairlane_backlog_jobs", 4.0),
        ("fairlane_backlog_limit_jobs", 500.0),
        ("fairlane_stored_bytes", queue.stored_bytes as f64),
        ("fairlane_stored_limit_bytes", 4096.0),
        ("fairlane_waiting_jobs", 1.0),
        ("fairlane_in_flight_jobs", 1.0),
        ("fairlane_type_in_flight_jobs{type=mail}", 1.0),
        ("fairlane_type_closed{type=mail}", 1.0),
    ]);
    let rate = watched.ledger.value("fairlane_type_rate_per_second{type=mail}");
    assert!(rate > 0.0 && rate < 10.0, "a refusal has cut the rate to {rate}");
}

#[tokio::test]
async fn a_group_shows_its_backlog_and_congestion_until_it_is_forgotten() {
    let watched = Watched::new(Settings::default());
    let rate = Rate::new(1, 1000, None).expect("one a second is a rate");
    let patch = GroupPatch { rate: Some(Some(rate)), ..GroupPatch::default() };
    watched.engine.call(SetGroup { group: group(), patch, reset_congestion: false }).await.unwrap();
    assert!(watched.journal.has("INFO group set", &["group=customer", "paused=false"]));
    watched.enqueue(1..=50).await;
    while !watched.lease(50).await.is_empty() {}
    let Some(view) = watched.engine.call(InspectGroup { group: group() }).await.unwrap() else {
        panic!("the group is there")
    };
    let pending = view.backlog as f64;
    assert!(pending > 40.0, "{view:?}");
    let looked = watched.engine.call(InspectCongestion { group: group() }).await.unwrap();
    let Some(congestion) = looked else { panic!("the group is there") };
    metrics::with_local_recorder(&watched.ledger, || observe::group_gauges(&group(), &view, &congestion));
    watched.assert_counts(&[
        ("bulk_action_group_pending_jobs{group_id=customer}", pending),
        ("bulk_action_congestion_non_ready_jobs{group_id=customer}", pending),
        ("fairlane_group_backoff_seconds{group_id=customer}", pending + 1.0),
        ("bulk_action_congestion_avg_throttle_per_job{group_id=customer}", 0.0),
        ("fairlane_group_in_flight_jobs{group_id=customer}", 50.0 - pending),
        ("bulk_action_congestion_level{group_id=customer,level=CRITICAL}", 1.0),
        ("bulk_action_congestion_level{group_id=customer,level=NONE}", 0.0),
    ]);
    metrics::with_local_recorder(&watched.ledger, || observe::forget_group(&group()));
    watched.assert_counts(&[
        ("bulk_action_group_pending_jobs{group_id=customer}", 0.0),
        ("bulk_action_congestion_level{group_id=customer,level=CRITICAL}", 0.0),
    ]);
}

#[tokio::test]
async fn no_event_has_a_payload_and_jobs_are_named_at_trace_only() {
    let watched = Watched::new(Settings::default());
    watched.enqueue([1, 2]).await;
    let jobs = watched.lease(2).await;
    watched.settle(&jobs[0], jobs[0].fence, Outcome::Succeeded { result: note() }).await;
    watched.settle(&jobs[1], jobs[1].fence, Outcome::Failed { reason: note() }).await;
    let lines = watched.journal.lines();
    assert!(watched.journal.has("TRACE job leased", &["job=job-1", "group=customer"]));
    assert!(
        watched
            .journal
            .has("TRACE job asked about", &["job=job-2", "operation=\"settle\"", "outcome=\"failed\""])
    );
    for line in &lines {
        assert!(!line.contains(PAYLOAD), "{line}");
        assert!(line.starts_with("TRACE") || !line.contains("job-"), "{line}");
    }
}

#[tokio::test]
async fn without_a_recorder_an_engine_counts_nowhere_and_works() {
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap());
    let ledger = Ledger::default();
    let _recorder = metrics::set_default_local_recorder(&ledger);
    engine.call(Enqueue { jobs: vec![job(1)] }).await.unwrap();
    assert!(ledger.registered.lock().unwrap().is_empty(), "handles are taken when an engine is opened");
}

#[tokio::test]
async fn whatever_is_registered_is_in_the_list_with_its_kind_and_labels() {
    let watched = Watched::new(Settings::default());
    watched.enqueue([1]).await;
    let _recorder = metrics::set_default_local_recorder(&watched.ledger);
    watched.engine.observe_queue().await.unwrap();
    observe::space_gauges(Space { used_bytes: 1, limit_bytes: 2 });
    observe::forget_group(&group());
    observe::lock_waited("embedded", Duration::ZERO);
    observe::lock_held("embedded", Duration::ZERO, false);
    let room = RoomName::new("concert").unwrap();
    let _ =
        watched.engine.call(SetRoom { room: room.clone(), settings: RoomSettings::default() }).await.unwrap();
    let inspected = watched.engine.call(InspectRoom { room }).await.unwrap();
    observe::room_gauges(&inspected.0.unwrap());
    let board = BoardName::new("popular").unwrap();
    let set = SetBoard { board: board.clone(), settings: BoardSettings::default() };
    let _ = watched.engine.call(set).await.unwrap();
    let inspected = watched.engine.call(InspectBoard { board }).await.unwrap();
    observe::board_gauges(&inspected.0.unwrap().board);
    let registered = watched.ledger.registered.lock().unwrap();
    for (name, kind, labels) in registered.iter() {
        let metric = names::METRICS.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the list"));
        assert_eq!(
            (metric.kind.as_str(), metric.labels),
            (*kind, &labels.iter().map(String::as_str).collect::<Vec<_>>()[..]),
            "{name}"
        );
    }
    let seen: BTreeSet<&str> = registered.iter().map(|(name, ..)| name.as_str()).collect();
    let unseen = names::METRICS.iter().map(|metric| metric.name).filter(|name| !seen.contains(name));
    assert_eq!(unseen.collect::<Vec<_>>(), [names::SCRIPT_DURATION, names::SCRIPTS_RESENT], "of Redis only");
}

#[test]
fn every_metric_is_described() {
    let ledger = Ledger::default();
    metrics::with_local_recorder(&ledger, observe::describe);
    let described = ledger.described.lock().unwrap();
    let expected: Vec<_> = names::METRICS
        .iter()
        .map(|metric| (metric.name.to_owned(), metric.kind.as_str(), metric.help.to_owned()))
        .collect();
    assert_eq!(*described, expected);
}

/// The cells of the rows below a heading of the document.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) =
        DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("the document has the heading");
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn the_document_lists_exactly_the_metrics_of_the_code() {
    let documented: Vec<String> = rows("Metrics").iter().map(|row| row[..4].join(" | ")).collect();
    let of_code = names::METRICS.iter().map(|metric| {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "none".into() } else { labels.join(" ") };
        format!("`{}` | {} | {labels} | {}", metric.name, metric.kind.as_str(), metric.help)
    });
    assert_eq!(documented, of_code.collect::<Vec<_>>());
}

/// The messages of all events in a source: the last text of each call that names the target.
fn messages(source: &'static str) -> impl Iterator<Item = &'static str> {
    let calls = source.split("target: TARGET, ").skip(1).filter(|call| !call.starts_with("Level::"));
    calls.filter_map(|call| call.split("\")").next()?.rsplit('"').next())
}

#[test]
fn the_document_lists_exactly_the_events_of_the_code() {
    let sources = [
        include_str!("../../src/observe.rs"),
        include_str!("../../src/observe/meters.rs"),
        include_str!("../../src/observe/queue.rs"),
    ];
    let told: BTreeSet<&str> = sources.into_iter().flat_map(messages).collect();
    let documented: BTreeSet<&str> = rows("Events").iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(documented, told);
}

#[tokio::test]
async fn locks_are_counted_by_the_replies_about_them() {
    let watched = Watched::new(Settings::default());
    let name = || LockName::new("nightly").expect("a plain word is a name");
    let token = |token: &str| LockToken::new(token).expect("a plain word is a name");
    let acquire = |owner: &str, wait: bool| AcquireLock {
        name: name(),
        token: token(owner),
        process: ProcessId::new("process").expect("a plain word is a name"),
        holder: HolderName::new("holder").expect("a plain word is a name"),
        mode: LockMode::Exclusive,
        ttl_ms: 1000,
        wait,
        fair: false,
        lock_delay_ms: 0,
        max_hold_ms: None,
    };
    let renew = |owner: &str| RenewLocks {
        locks: vec![HeldLock { name: name(), token: token(owner), ttl_ms: 1000 }],
    };
    let release = |owner: &str| ReleaseLock { name: name(), token: token(owner) };
    for (owner, wait) in [("a", false), ("b", false), ("c", true)] {
        watched.engine.call(acquire(owner, wait)).await.unwrap();
    }
    for owner in ["a", "b"] {
        watched.engine.call(renew(owner)).await.unwrap();
    }
    for owner in ["c", "a", "b"] {
        watched.engine.call(release(owner)).await.unwrap();
    }
    watched.engine.call(acquire("a", false)).await.unwrap();
    watched.engine.call(BreakLock { name: name(), fence: None }).await.unwrap();
    watched.assert_counts(&[
        ("fairlane_lock_requests_total{engine=embedded,result=held}", 2.0),
        ("fairlane_lock_requests_total{engine=embedded,result=busy}", 1.0),
        ("fairlane_lock_requests_total{engine=embedded,result=waiting}", 1.0),
        ("fairlane_lock_renewals_total{engine=embedded,result=renewed}", 1.0),
        ("fairlane_lock_renewals_total{engine=embedded,result=lost}", 1.0),
        ("fairlane_lock_releases_total{engine=embedded,result=released}", 1.0),
        ("fairlane_lock_releases_total{engine=embedded,result=withdrawn}", 1.0),
        ("fairlane_lock_releases_total{engine=embedded,result=not_held}", 1.0),
        ("fairlane_locks_broken_total{engine=embedded}", 1.0),
    ]);
}
