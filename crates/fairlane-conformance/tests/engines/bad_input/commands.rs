//! Commands that no engine accepts, and commands with numbers that no caller should send.

use fairlane_conformance::subject::*;
use fairlane_core::congestion::Congestion;
use fairlane_core::limits::*;
use fairlane_core::queue::*;
use fairlane_core::{Fence, TypeId};

/// One command that is refused.
pub struct Bad {
    /// What is wrong.
    pub what: &'static str,
    /// The command to submit.
    pub command: Command,
    /// Texts that the error must contain.
    pub says: &'static [&'static str],
}

/// One command with absurd numbers that is still valid.
pub struct Odd {
    /// What is odd.
    pub what: &'static str,
    /// The command to submit.
    pub command: Command,
    /// The expected reply.
    pub reply: Reply,
}

fn bad(what: &'static str, command: Command, says: &'static [&'static str]) -> Bad {
    Bad { what, command, says }
}

/// Every way a command can be wrong.
pub fn table() -> Vec<Bad> {
    let mut table = batches();
    table.extend(sizes());
    table.extend(bounds());
    table.extend(pages());
    table.extend(settings());
    table.extend(twice());
    table
}

fn many(count: usize) -> Vec<JobRef> {
    (0..count).map(|number| job_ref("g", &number.to_string())).collect()
}

fn settlement(job: JobRef, outcome: Outcome) -> Settlement {
    Settlement { job, fence: Fence(1), outcome }
}

fn settle_one(outcome: Outcome) -> Command {
    Command::Settle(Settle { settlements: vec![settlement(job_ref("g", "1"), outcome)] })
}

fn lease(jobs_max: usize, lease_ms: u64) -> Lease {
    Lease { jobs_max, lease_ms, ..request("w", 1, 1) }
}

/// More in one call than one call takes.
fn batches() -> Vec<Bad> {
    let new = (0..=ENQUEUE_JOBS_MAX).map(|number| job("g", &format!("new {number}"))).collect();
    let leases = many(EXTEND_JOBS_MAX + 1).into_iter().map(|job| (job, Fence(1))).collect();
    let ended = many(SETTLE_JOBS_MAX + 1).into_iter().map(|job| settlement(job, succeeded())).collect();
    let types: Vec<TypeId> = (0..=TYPES_MAX).map(|number| type_id(&number.to_string())).collect();
    vec![
        bad("201 jobs", Command::Enqueue(Enqueue { jobs: new }), &["enqueue", "at most 200", "201", "split"]),
        bad(
            "501 extensions",
            Command::Extend(Extend { leases, lease_ms: LEASE_MS }),
            &["extend", "at most 500", "501", "split"],
        ),
        bad(
            "501 settlements",
            Command::Settle(Settle { settlements: ended }),
            &["settle", "at most 500", "501", "split"],
        ),
        bad(
            "501 jobs to cancel",
            Command::CancelJob(CancelJob { jobs: many(PICK_JOBS_MAX + 1) }),
            &["cancel_job", "at most 500", "501", "split"],
        ),
        bad(
            "501 jobs to requeue",
            Command::RequeueDead(RequeueDead { jobs: many(PICK_JOBS_MAX + 1) }),
            &["requeue_dead", "at most 500", "501", "split"],
        ),
        bad(
            "501 jobs to discard",
            Command::Discard(Discard { jobs: many(PICK_JOBS_MAX + 1) }),
            &["discard", "at most 500", "501", "split"],
        ),
        bad(
            "65 types",
            Command::Lease(Lease { types, ..request("w", 1, 1) }),
            &["types of one lease", "64", "65"],
        ),
    ]
}

/// Payloads, notes and summaries that are too large.
fn sizes() -> Vec<Bad> {
    let large = |id: &str, bytes: usize| NewJob { payload: vec![0xFF; bytes].into(), ..job("g", id) };
    let enqueue = |jobs| Command::Enqueue(Enqueue { jobs });
    let note: std::sync::Arc<[u8]> = vec![0; NOTE_BYTES_MAX + 1].into();
    let third = ENQUEUE_BYTES_MAX / 3 + 1;
    let says: &[&str] = &["a result or reason", "at most 65536 bytes", "65537"];
    vec![
        bad(
            "one large payload",
            enqueue(vec![job("g", "good"), large("large", PAYLOAD_BYTES_MAX + 1)]),
            &["a payload", "at most 524288 bytes", "524289"],
        ),
        bad(
            "payloads that are large together",
            enqueue(vec![large("x", third), large("y", third), large("z", third)]),
            &["payloads of one enqueue", "at most 1048576 bytes"],
        ),
        bad("a large result", settle_one(Outcome::Succeeded { result: note.clone() }), says),
        bad("a large reason", settle_one(Outcome::Failed { reason: note.clone() }), says),
        bad(
            "a large reason of a cancellation",
            settle_one(Outcome::Cancelled { reason: note.clone() }),
            says,
        ),
        bad("a large last reason", settle_one(Outcome::Retry { delay_ms: 0, reason: note.clone() }), says),
        bad(
            "a large summary",
            Command::SettleBulk(SettleBulk {
                bulk: bulk_ref("g", "b"),
                fence: Fence(1),
                summary: note,
                outcome: Aggregation::Done,
                callback: None,
            }),
            &["a summary", "at most 65536 bytes", "65537"],
        ),
        bad(
            "a large payload of a bulk action",
            Command::OpenBulk(OpenBulk {
                bulk: bulk_ref("g", "new"),
                deadline_ms: None,
                failures_max: None,
                payload: vec![0; BULK_PAYLOAD_BYTES_MAX + 1].into(),
            }),
            &["the payload of a bulk action", "at most 16384 bytes", "16385"],
        ),
    ]
}

/// Numbers below or beyond what is taken.
fn bounds() -> Vec<Bad> {
    let delay: &[&str] = &["a delay in ms", "between 0 and"];
    let length: &[&str] = &["the length of a lease in ms", "between 100 and 900000"];
    let open = |deadline_ms, failures_max| {
        let bulk = bulk_ref("g", "new");
        Command::OpenBulk(OpenBulk { bulk, deadline_ms, failures_max, payload: bytes("") })
    };
    let take =
        |bulks_max, lease_ms| Command::LeaseBulks(LeaseBulks { worker: worker_id("a"), bulks_max, lease_ms });
    let set = |patch| Command::SetGroup(SetGroup { group: group_id("g"), patch, reset_congestion: true });
    vec![
        bad(
            "a delay of ages",
            Command::Enqueue(Enqueue { jobs: vec![job("g", "good"), delayed(u64::MAX, "g", "late")] }),
            delay,
        ),
        bad("a retry in ages", settle_one(retry(DELAY_MS_MAX + 1)), delay),
        bad("a throttle of ages", settle_one(throttled(u64::MAX, 0)), delay),
        bad("a Retry-After of ages", settle_one(throttled(0, u64::MAX)), &["Retry-After in ms"]),
        bad("a lease of no time", Command::Lease(lease(1, 0)), length),
        bad("a lease for ever", Command::Lease(lease(1, u64::MAX)), length),
        bad("an extension for ever", Command::Extend(Extend { leases: vec![], lease_ms: u64::MAX }), length),
        bad("an aggregation for ever", take(1, u64::MAX), length),
        bad("a lease of no jobs", Command::Lease(lease(0, LEASE_MS)), &["between 1 and 500, not 0"]),
        bad("a lease of too many", Command::Lease(lease(501, LEASE_MS)), &["between 1 and 500, not 501"]),
        bad("nothing to take", take(0, LEASE_MS), &["lease_bulks", "between 1 and 100, not 0"]),
        bad("too many to take", take(101, LEASE_MS), &["lease_bulks", "between 1 and 100, not 101"]),
        bad("a deadline at once", open(Some(0), None), &["a deadline in ms", "not 0"]),
        bad("a deadline in ages", open(Some(u64::MAX), None), &["a deadline in ms"]),
        bad("a threshold of ages", open(None, Some(u64::MAX)), &["failures_max", "between 0 and 4294967295"]),
        bad("no seats", set(group_seats(0)), &["a concurrency", "not 0"]),
        bad("seats without end", set(group_seats(u32::MAX)), &["a concurrency", "1000000"]),
        bad("an absurd base priority", set(base_priority(i64::MIN)), &["base priority without its sign"]),
        bad(
            "no seats of a type",
            Command::SetType(SetType { type_id: type_id("t"), patch: type_seats(0) }),
            &["a concurrency", "not 0"],
        ),
    ]
}

/// How much one call reads or moves.
fn pages() -> Vec<Bad> {
    let mut table = Vec::new();
    for jobs_max in [0, 501, usize::MAX] {
        let due = |cursor, jobs_max| Command::MakeDue(MakeDue { group: None, cursor, jobs_max });
        table.extend([
            bad("promote", Command::Promote(Promote { jobs_max }), &["promote", "between 1 and 500"]),
            bad("reclaim", Command::Reclaim(Reclaim { jobs_max }), &["reclaim", "between 1 and 500"]),
            bad("admit", Command::Admit(Admit { jobs_max }), &["admit", "between 1 and 500"]),
            bad("sweep", Command::Sweep(Sweep { jobs_max }), &["sweep", "between 1 and 200"]),
            bad("make_due", due(0, jobs_max), &["make_due", "between 1 and 500"]),
            bad("make_due far on", due(u64::MAX, 1), &["the cursor of make_due"]),
        ]);
    }
    let group = group_id("g");
    let listing = |cursor, limit| {
        let listing = Listing::Waiting;
        Command::ListJobs(ListJobs { listing, group: None, type_id: None, cursor, limit })
    };
    for limit in [0, 501, usize::MAX] {
        let bulks = ListBulks { group: group.clone(), after: 0, limit, unfinished: limit == 0 };
        let groups = ListGroups { after: None, limit, all: true };
        table.push(bad("bulk actions", Command::ListBulks(bulks), &["a page", "between 1 and 500"]));
        table.push(bad("groups", Command::ListGroups(groups), &["a page", "between 1 and 500"]));
        let largest = ListLargestGroups { after: None, limit };
        table.push(bad("largest", Command::ListLargestGroups(largest), &["a page", "between 1 and 500"]));
        table.push(bad("jobs", listing(0, limit), &["a page", "between 1 and 500"]));
    }
    table.push(bad("jobs far on", listing(u64::MAX, 1), &["the cursor of list_jobs"]));
    for limit in [0, usize::MAX] {
        let snapshots = ListSnapshots { group: group.clone(), limit };
        table.push(bad("snapshots", Command::ListSnapshots(snapshots), &["history", "between 1 and 86400"]));
    }
    table
}

fn settings() -> Vec<Bad> {
    let with = |settings| Command::SetQueue(SetQueue { settings });
    let plain = Settings::default();
    let congestion = |congestion: Congestion| {
        Command::SetQueue(SetQueue { settings: Settings { congestion, ..Settings::default() } })
    };
    vec![
        bad("alpha", with(Settings { alpha: i64::MIN, ..plain.clone() }), &["alpha without its sign"]),
        bad("no global rate", with(Settings { global_rps: 0, ..plain.clone() }), &["global_rps", "not 0"]),
        bad(
            "no ready list",
            with(Settings { ready_queue_max_size: 0, ..plain.clone() }),
            &["ready_queue_max_size", "not 0"],
        ),
        bad(
            "retries without end",
            with(Settings { max_retry_count: u32::MAX, ..plain.clone() }),
            &["max_retry_count", "between 0 and 10000"],
        ),
        bad(
            "retries of a type without end",
            Command::SetType(SetType { type_id: type_id("t"), patch: type_retries(Some(u32::MAX)) }),
            &["max_retry_count", "between 0 and 10000"],
        ),
        bad(
            "throttles without end",
            with(Settings { max_throttle_count: u32::MAX, ..plain.clone() }),
            &["max_throttle_count", "between 0 and 10000"],
        ),
        bad(
            "losses without end",
            with(Settings { max_loss_count: u32::MAX, ..plain.clone() }),
            &["max_loss_count", "between 0 and 10000"],
        ),
        bad(
            "no room for a group",
            with(Settings { group_backlog_max: 0, ..plain.clone() }),
            &["group_backlog_max", "not 0"],
        ),
        bad(
            "room without end",
            with(Settings { queue_backlog_max: u64::MAX, ..plain.clone() }),
            &["queue_backlog_max"],
        ),
        bad(
            "kept for ever",
            with(Settings { completed_retention_ms: u64::MAX, ..plain.clone() }),
            &["completed_retention_ms"],
        ),
        bad(
            "dead for ever",
            with(Settings { failed_retention_ms: u64::MAX, ..plain.clone() }),
            &["failed_retention_ms"],
        ),
        bad(
            "bulk actions for ever",
            with(Settings { bulk_retention_ms: u64::MAX, ..plain }),
            &["bulk_retention_ms"],
        ),
        bad("a base of none", congestion(backoffs(0, 10)), &["congestion.base_backoff_ms", "not 0"]),
        bad(
            "a maximum below the base",
            congestion(backoffs(1000, 10)),
            &["congestion.max_backoff_ms", "between 1000 and", "not 10"],
        ),
        bad(
            "statistics of a moment",
            congestion(Congestion { stats_retention_ms: 10, ..Congestion::default() }),
            &["congestion.stats_retention_ms", "between 1000 and"],
        ),
    ]
}

/// The same job twice in one call.
fn twice() -> Vec<Bad> {
    let jobs = vec![job_ref("g", "1"), job_ref("g", "2"), job_ref("g", "1")];
    let leases = jobs.iter().map(|job| (job.clone(), Fence(1))).collect();
    let settlements = jobs.iter().map(|job| settlement(job.clone(), succeeded())).collect();
    let says: &[&str] = &["stands twice in one call", "name it once"];
    vec![
        bad("extended twice", Command::Extend(Extend { leases, lease_ms: LEASE_MS }), says),
        bad("settled twice", Command::Settle(Settle { settlements }), says),
        bad("cancelled twice", Command::CancelJob(CancelJob { jobs: jobs.clone() }), says),
        bad("requeued twice", Command::RequeueDead(RequeueDead { jobs: jobs.clone() }), says),
        bad("discarded twice", Command::Discard(Discard { jobs }), says),
    ]
}

/// The largest number that a command may carry.
const LARGEST: u64 = INTEGER_MAX - 1;

/// Numbers at the end of their range, and names that do not exist.
pub fn absurd() -> Vec<Odd> {
    let odd = |what, command, reply| Odd { what, command, reply };
    let unknown = job_ref("unknown", "unknown");
    let settle_bulk = |id: &str, fence| {
        let bulk = bulk_ref("g", id);
        let outcome = Aggregation::Failed;
        let (fence, summary) = (Fence(fence), bytes("x"));
        Command::SettleBulk(SettleBulk { bulk, fence, summary, outcome, callback: None })
    };
    let seal = |expected| Command::SealBulk(SealBulk { bulk: bulk_ref("g", "b"), expected: Some(expected) });
    let settle = |fence| {
        let job = job_ref("g", "1");
        Command::Settle(Settle {
            settlements: vec![Settlement { job, fence: Fence(fence), outcome: failed() }],
        })
    };
    let page = ListBulks { group: group_id("g"), after: LARGEST, limit: 5, unfinished: false };
    let stale = || Reply::Settle(Settled { verdicts: vec![Verdict::Stale] });
    let late = || Reply::SettleBulk(BulkSettled(Verdict::Stale));
    let extend = Extend { leases: vec![(unknown.clone(), Fence(LARGEST))], lease_ms: LEASE_MS };
    vec![
        odd("the largest fence", settle(LARGEST), stale()),
        odd("no fence at all", settle(0), stale()),
        odd("a summary under the largest fence", settle_bulk("complete", LARGEST), late()),
        odd("a summary under no fence", settle_bulk("complete", 0), late()),
        odd("an unknown bulk action", settle_bulk("none", 0), Reply::SettleBulk(BulkSettled(Verdict::Gone))),
        odd("the largest number expected", seal(LARGEST), Reply::SealBulk(BulkSealed::Mismatch { total: 3 })),
        odd(
            "a page beyond all pages",
            Command::ListBulks(page),
            Reply::ListBulks(BulkPage { bulks: vec![], next: None }),
        ),
        odd(
            "an extension of nothing",
            Command::Extend(extend),
            Reply::Extend(Extended { extensions: vec![Extension::Lost] }),
        ),
        odd(
            "a cancellation of nothing",
            Command::CancelJob(CancelJob { jobs: vec![unknown.clone()] }),
            Reply::CancelJob(JobsCancelled { cancellations: vec![Cancellation::Unknown] }),
        ),
        odd(
            "nothing to do",
            Command::Settle(Settle { settlements: vec![] }),
            Reply::Settle(Settled { verdicts: vec![] }),
        ),
        odd(
            "no jobs",
            Command::Enqueue(Enqueue { jobs: vec![] }),
            Reply::Enqueue(Enqueued { receipts: vec![], backlogs: vec![] }),
        ),
    ]
}
