//! Compares the open jobs of the mirror with the queue, and repairs what differs.
//!
//! The queue may have lost jobs: a Redis without persistence was restarted or flushed. It may also
//! have ended jobs that no worker ended: cancelled ones, and those that lost too many leases. One
//! process at a time compares a page; its transaction locks no rows while it queries the queue.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use fairlane::{Fairlane, GroupId, JobId, JobRef, JobView};
use fairlane_core::queue::{InspectJob, JobReceipt, NewJob};
use fairlane_engine::{Backoff, EngineError};
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::task::JoinSet;

use crate::encoding::error_to_json;
use crate::error::Error;
use crate::mirror::rows::{StateRow, Status, write_states};
use crate::names;
use crate::relay::{FAILED_GROUPS_MAX, TARGET, parse};
use crate::sql::{Database, LOCKS, PoolTransaction, sql};

/// The lock of reconcilers among the advisory locks of the outbox.
const RECONCILE_LOCK: i32 = -2;
/// Number of jobs that are compared in one transaction.
const PAGE_ROWS: i64 = 200;
/// Number of jobs that are read from the queue concurrently.
const INSPECTIONS_AT_ONCE: usize = 16;
/// The pause per job after a page without differences, so that a pass over many jobs does not load
/// the queue.
const PAUSE_PER_JOB: Duration = Duration::from_micros(500);
/// Number of ended jobs that one statement removes.
const REMOVED_ROWS: i64 = 1000;
/// The longest time for which one pass removes jobs. The next pass continues.
const REMOVE_TIME_MAX: Duration = Duration::from_secs(60);
/// The pauses before the lock is requested again: another process has it for one page.
const LOCK_BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
/// The longest wait for the lock.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);

/// How the mirror and the queue are compared.
#[derive(Debug, Clone)]
pub struct ReconcileSettings {
    /// Only jobs whose state has not changed for this long are compared.
    pub stale_after: Duration,
    /// How long ended jobs stay in the mirror. Jobs that wait or run stay until they end.
    pub retention: Duration,
}

impl Default for ReconcileSettings {
    fn default() -> Self {
        Self { stale_after: Duration::from_secs(30), retention: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// The result of a reconciliation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReconcileReport {
    /// Open jobs that were compared.
    pub checked: u64,
    /// Jobs that the queue had lost, and that were enqueued again.
    pub refilled: u64,
    /// Jobs that the queue has no room for at the moment, or fails to take.
    pub refused: u64,
    /// Jobs whose end was copied from the queue.
    pub ended: u64,
    /// Jobs that wait in the queue, but were running according to the mirror.
    pub requeued: u64,
    /// Jobs that the queue has lost and that cannot be enqueued again, mostly because they did not
    /// come through the outbox. They are marked as failed.
    pub lost: u64,
    /// Ended jobs that were removed after their retention.
    pub removed: u64,
    /// Whether another process compares at the moment; then the rest was not compared.
    pub busy: bool,
}

impl ReconcileReport {
    /// Whether nothing had to be repaired.
    pub fn is_empty(&self) -> bool {
        self.refilled + self.refused + self.ended + self.requeued + self.lost == 0
    }
}

impl fmt::Display for ReconcileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.busy && self.checked == 0 {
            return f.write_str("another process reconciles at the moment");
        }
        let Self { checked, refilled, refused, ended, requeued, lost, removed, .. } = self;
        write!(
            f,
            "{checked} open jobs checked: {refilled} enqueued again, {refused} without room in the queue, \
             {ended} ended, {requeued} waiting again, {lost} lost; {removed} ended jobs removed"
        )
    }
}

/// Takes the lock, and bounds how long it is kept after this process has vanished, while it queries the
/// queue. Disables JIT compilation, which would take a second: a page is short whatever its estimated
/// cost.
const LOCK: &str = "\
SELECT pg_try_advisory_xact_lock($1, $2) AS locked, set_config('jit', 'off', true),
    set_config('idle_in_transaction_session_timeout', '5min', true)";

const PAGE: &str = "\
SELECT m.number, m.group_id, m.id, m.type, m.status, m.fence, m.attempts, (m.job - 'group')::text AS job,
    m.job IS NULL AND NOT EXISTS (
        SELECT FROM fairlane_outbox o
        WHERE o.shard = (hashtext(m.group_id) & 15)::smallint AND o.job->>'group' = m.group_id
            AND coalesce(o.job->>'id', o.xid || '-' || o.id) = m.id
    ) AS is_lost
FROM fairlane_mirror m
WHERE m.ended_at IS NULL AND m.number > $1 AND m.touched_at < now() - $2 * interval '1 microsecond'
ORDER BY m.number LIMIT $3";

/// Processes that remove rows at the same time remove different ones.
const REMOVE: &str = "\
WITH removed AS (
    DELETE FROM fairlane_mirror WHERE (group_id, id) IN (
        SELECT group_id, id FROM fairlane_mirror
        WHERE ended_at < now() - $1 * interval '1 microsecond' AND ended_at >= $3::timestamptz
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING ended_at
)
SELECT count(*) AS removed, max(ended_at)::text AS newest FROM removed";

/// Compares the mirror with a queue.
pub(crate) struct Reconciler {
    database: Database,
    fairlane: Fairlane,
    settings: ReconcileSettings,
}

/// The result of comparing a page.
enum Page {
    /// Its jobs were compared, up to this number.
    Compared { last: i64 },
    /// There are no more jobs.
    End,
    /// Another process has the lock.
    Busy,
}

/// An open job of the mirror.
struct Open {
    job: JobRef,
    job_type: String,
    is_running: bool,
    fence: i64,
    attempts: i32,
    body: Option<String>,
    is_lost: bool,
}

impl Reconciler {
    pub fn new(database: Database, fairlane: Fairlane, settings: ReconcileSettings) -> Self {
        Self { database, fairlane, settings }
    }

    /// Compares all open jobs once, in the order in which they were passed on, and removes ended ones,
    /// also if the queue does not reply.
    pub async fn run(&mut self) -> Result<ReconcileReport, Error> {
        let mut report = ReconcileReport::default();
        let compared = self.compare_all(&mut report).await;
        let removed = self.remove_ended(&mut report).await;
        for (action, count) in [
            ("refilled", report.refilled),
            ("ended", report.ended),
            ("requeued", report.requeued),
            ("lost", report.lost),
            ("removed", report.removed),
        ] {
            metrics::counter!(names::RECONCILED, "action" => action).increment(count);
        }
        compared.and(removed).map(|()| report)
    }

    /// Compares page by page. Another process may have the lock between two pages; it has it for one
    /// page, so it is waited for. Only one that has it at the start makes this pass unnecessary.
    async fn compare_all(&self, report: &mut ReconcileReport) -> Result<(), Error> {
        let (mut after, mut backoff, mut busy_since) = (0, LOCK_BACKOFF, None);
        loop {
            match self.page(after, report).await? {
                Page::Compared { last } => (after, backoff, busy_since) = (last, LOCK_BACKOFF, None),
                Page::End => return Ok(()),
                Page::Busy => {
                    let since = *busy_since.get_or_insert_with(Instant::now);
                    if after == 0 || since.elapsed() > LOCK_WAIT_MAX {
                        report.busy = true;
                        return Ok(());
                    }
                    backoff.sleep().await;
                }
            }
        }
    }

    /// Compares the jobs after this number.
    async fn page(&self, after: i64, report: &mut ReconcileReport) -> Result<Page, Error> {
        let mut transaction = self.database.begin().await?;
        let lock = sql(LOCK).bind(LOCKS).bind(RECONCILE_LOCK).fetch_one(transaction.connection());
        if !self.database.in_time(lock).await?.get::<bool, _>("locked") {
            transaction.rollback().await?;
            return Ok(Page::Busy);
        }
        let stale_after = self.settings.stale_after.as_micros() as f64;
        let page = sql(PAGE).bind(after).bind(stale_after).bind(PAGE_ROWS);
        let rows = self.database.in_time(page.fetch_all(transaction.connection())).await?;
        let Some(last) = rows.last().map(|row| row.get("number")) else {
            transaction.rollback().await?;
            return Ok(Page::End);
        };
        let open: Vec<Open> = rows.iter().filter_map(open).collect();
        report.checked += rows.len() as u64;
        let compared = self.inspect(open).await?;
        let repaired = self.repair(&mut transaction, compared, report).await?;
        transaction.commit().await?;
        if repaired == 0 {
            tokio::time::sleep(PAUSE_PER_JOB * rows.len() as u32).await;
        }
        Ok(Page::Compared { last })
    }

    /// Reads jobs from the queue. One that the queue cannot read is left out.
    async fn inspect(&self, open: Vec<Open>) -> Result<Vec<(Open, Option<JobView>)>, Error> {
        let mut views: Vec<Option<Result<Option<JobView>, EngineError>>> =
            open.iter().map(|_| None).collect();
        let (mut next, mut running) = (0, JoinSet::new());
        loop {
            while running.len() < INSPECTIONS_AT_ONCE && next < open.len() {
                let (engine, at, job) = (self.fairlane.engine().clone(), next, open[next].job.clone());
                running.spawn(async move { (at, engine.call(InspectJob { job }).await) });
                next += 1;
            }
            match running.join_next().await {
                None => break,
                Some(Ok((_, Err(error)))) if error.is_retryable() => return Err(error.into()),
                Some(Ok((at, view))) => views[at] = Some(view),
                Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            }
        }
        let mut compared = Vec::with_capacity(open.len());
        for (open, view) in open.into_iter().zip(views) {
            match view {
                Some(Ok(view)) => compared.push((open, view)),
                Some(Err(error)) => {
                    let JobRef { group, id } = &open.job;
                    tracing::warn!(target: TARGET, %group, job = %id, %error, "the queue cannot read a job");
                }
                None => {}
            }
        }
        Ok(compared)
    }

    /// Repairs jobs that differ, and returns how many differed.
    async fn repair(
        &self,
        transaction: &mut PoolTransaction,
        compared: Vec<(Open, Option<JobView>)>,
        report: &mut ReconcileReport,
    ) -> Result<u64, Error> {
        let (mut states, mut missing) = (Vec::new(), Vec::new());
        for (open, view) in compared {
            match (view.as_ref().and_then(StateRow::of_view), view) {
                (Some(state), _) if state.status != Status::Queued => {
                    report.ended += 1;
                    states.push(StateRow { fence: state.fence.max(open.fence), ..state });
                }
                (Some(state), _) if open.is_running => {
                    report.requeued += 1;
                    // The queue knows the fence that was settled last, which is older than a lease that
                    // was lost.
                    states.push(StateRow { fence: state.fence.max(open.fence), ..state });
                }
                (_, Some(_)) => {}
                (_, None) => match open.refill().await {
                    Some(Ok(job)) => missing.push((job, open)),
                    Some(Err(message)) => {
                        report.lost += 1;
                        states.push(open.failed("invalid_job", &message));
                    }
                    None if open.is_lost => {
                        report.lost += 1;
                        states.push(open.failed("lost", "the queue no longer has this job"));
                    }
                    None => {}
                },
            }
        }
        let jobs: Vec<NewJob> = missing.iter().map(|(job, _)| job.clone()).collect();
        let differing = (states.len() + jobs.len()) as u64;
        if !jobs.is_empty() {
            let receipts = self.enqueue(jobs).await?;
            for ((_, open), receipt) in missing.into_iter().zip(receipts) {
                if matches!(receipt, None | Some(JobReceipt::Refused { .. })) {
                    report.refused += 1;
                } else {
                    report.refilled += 1;
                    states.push(open.queued());
                }
            }
        }
        if !states.is_empty() {
            self.database.in_time(write_states(transaction.connection(), &states)).await?;
        }
        Ok(differing)
    }

    /// Enqueues jobs; there is no receipt for those of a group that the queue fails to take.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Option<JobReceipt>>, Error> {
        let engine = self.fairlane.engine();
        if let Ok(enqueued) = engine.enqueue_all(jobs.clone()).await {
            return Ok(enqueued.receipts.into_iter().map(Some).collect());
        }
        let mut receipts: Vec<Option<JobReceipt>> = jobs.iter().map(|_| None).collect();
        let mut groups: HashMap<GroupId, Vec<usize>> = HashMap::new();
        for (at, job) in jobs.iter().enumerate() {
            groups.entry(job.job.group.clone()).or_default().push(at);
        }
        let mut failures = 0;
        for (group, places) in groups {
            match engine.enqueue_all(places.iter().map(|at| jobs[*at].clone())).await {
                Ok(enqueued) => {
                    failures = 0;
                    places
                        .into_iter()
                        .zip(enqueued.receipts)
                        .for_each(|(at, receipt)| receipts[at] = Some(receipt));
                }
                Err(error) if failures >= FAILED_GROUPS_MAX => return Err(error.into()),
                Err(error) => {
                    failures += 1;
                    tracing::warn!(target: TARGET, %group, %error, "the queue fails to take jobs of a group again");
                }
            }
        }
        Ok(receipts)
    }

    /// Removes jobs whose retention is over, oldest first. Each statement begins where the last one ended:
    /// the index still has the rows that it removed.
    async fn remove_ended(&self, report: &mut ReconcileReport) -> Result<(), Error> {
        let retention = self.settings.retention.as_micros() as f64;
        let (began, mut newest) = (Instant::now(), "-infinity".to_owned());
        while began.elapsed() < REMOVE_TIME_MAX {
            let mut transaction = self.database.begin().await?;
            let removal = sql(REMOVE).bind(retention).bind(REMOVED_ROWS).bind(&newest);
            let row = self.database.in_time(removal.fetch_one(transaction.connection())).await?;
            transaction.commit().await?;
            let removed: i64 = row.get("removed");
            report.removed += removed as u64;
            if removed < REMOVED_ROWS {
                break;
            }
            newest = row.get("newest");
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// The open job of a row; `None` if the queue would not accept its names, so that it was never
/// there.
fn open(row: &PgRow) -> Option<Open> {
    let (group, id): (String, String) = (row.get("group_id"), row.get("id"));
    Some(Open {
        job: JobRef { group: GroupId::new(&group).ok()?, id: JobId::new(&id).ok()? },
        job_type: row.get("type"),
        is_running: row.get::<String, _>("status") == "RUNNING",
        fence: row.get("fence"),
        attempts: row.get("attempts"),
        body: row.get("job"),
        is_lost: row.get("is_lost"),
    })
}

impl Open {
    /// The job to enqueue again; `None` if the mirror does not have its definition.
    async fn refill(&self) -> Option<Result<NewJob, String>> {
        let body = self.body.as_ref()?;
        Some(parse(&self.job.group.to_string(), body, || self.job.id.to_string()).await)
    }

    fn queued(self) -> StateRow {
        let Self { job, job_type, fence, attempts, .. } = self;
        StateRow { job, job_type, fence, attempts, status: Status::Queued, result: None, error: None }
    }

    fn failed(self, code: &str, message: &str) -> StateRow {
        let error = Some(error_to_json(code, message).to_string());
        StateRow { status: Status::Failed, error, ..self.queued() }
    }
}
