//! Passes committed rows on to the queue.
//!
//! - `relay/batch.rs`: reads rows of a shard in the order of commits, and moves them to the mirror.
//! - `relay/send.rs`: enqueues them. `relay/listener.rs`: receives notifications of commits.
//!
//! Invariant: a row leaves the outbox only after the queue has accepted its job. A relay that dies
//! in between repeats the enqueue, which changes nothing, since jobs have ids. Any number of relays
//! may run: a shard belongs to one of them for one transaction.

mod batch;
mod listener;
mod send;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane::Fairlane;
use fairlane_engine::{Backoff, doubled};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::error::Error;
use crate::outbox::{Outbox, check_tables};
use crate::reconcile::{ReconcileSettings, Reconciler};
use crate::sql::{Database, WarmConnections};
use crate::{names, status};
pub(crate) use batch::parse;
pub(crate) use listener::APPLICATION;
use listener::Listener;
pub(crate) use send::FAILED_GROUPS_MAX;

/// The channel of notifications of commits.
pub(crate) const CHANNEL: &str = "fairlane_outbox";
/// The statement that notifies relays. A transaction with nothing else does not wait for the disk.
pub(crate) const NOTIFY: &str = "NOTIFY fairlane_outbox";

/// The shortest pause of a relay without work.
const POLL_MIN: Duration = Duration::from_millis(50);
/// The longest pause of a relay without work.
const POLL_MAX: Duration = Duration::from_secs(1);
/// The first pause while rows wait for an open transaction; most transactions are short.
const HELD_POLL_MIN: Duration = Duration::from_millis(2);
/// The shard number with which a pass begins; it claims shards above it.
const FIRST: i16 = -1;
/// Number of shards that one relay works on concurrently.
const SHARDS_AT_ONCE: usize = 4;
/// Number of shards that fail before a pass ends.
const FAILED_SHARDS_MAX: usize = 4;
/// How often the gauges are updated.
const GAUGES_INTERVAL: Duration = Duration::from_secs(5);
/// A batch of at most this many rows lets workers begin its jobs before it moves the rows.
const FEW_ROWS: usize = 10;
/// The longest time for which it does.
const FEW_ROWS_PAUSE: Duration = Duration::from_millis(1);
/// Most groups that are remembered as full; the rows of further ones are tried in every pass.
const FULL_GROUPS_MAX: usize = 1000;
/// The longest wait for a full group or queue, even if the queue suggests a longer delay.
const FULL_WAIT_MAX: Duration = Duration::from_secs(10);

/// The order in which a relay passes rows on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The jobs of a group in the order of their commits. Jobs wait while an older transaction that
    /// has written is open, in any database of the server.
    #[default]
    Group,
    /// No order, and no waiting for open transactions.
    None,
}

/// The settings of a relay.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// The order of jobs.
    pub order: Order,
    /// The address at which to listen for commits, if the outbox is reached through a PgBouncer,
    /// which passes on no messages. Without it the relay listens at the address of the outbox.
    pub listen_url: Option<String>,
    /// How often the queue and the mirror are compared; `None` for never.
    pub reconcile_interval: Option<Duration>,
    /// The settings of this comparison.
    pub reconcile: ReconcileSettings,
}

impl Default for RelaySettings {
    fn default() -> Self {
        Self {
            order: Order::Group,
            listen_url: None,
            reconcile_interval: Some(Duration::from_secs(30)),
            reconcile: ReconcileSettings::default(),
        }
    }
}

/// The result of one pass over the outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Rows whose jobs are in the queue.
    pub passed: u64,
    /// Rows that can never be enqueued; the mirror marks them as failed.
    pub failed: u64,
    /// Rows of groups that are full or that the queue fails to take; they stay in the outbox.
    pub kept: u64,
    /// Whether rows wait for an open transaction, or for another relay.
    pub held: bool,
}

/// Passes committed rows on to a queue.
///
/// ```no_run
/// # async fn relay() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlane::Fairlane;
/// use fairlane_postgres::{Outbox, Relay, RelaySettings};
///
/// let outbox = Outbox::connect("postgres://app@localhost/shop").await?;
/// let fairlane = Fairlane::open("redis://localhost:6379").await?;
/// let relay = Relay::new(&outbox, &fairlane, RelaySettings::default());
/// relay.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Relay {
    shared: Arc<Shared>,
    settings: RelaySettings,
}

struct Shared {
    database: Database,
    /// The connections that batches use.
    warm: Arc<WarmConnections>,
    fairlane: Fairlane,
    order: Order,
    full: Mutex<FullGroups>,
    /// Completes with the next message about a commit, or at once if one arrived since the last wait.
    wakeup: Arc<Notify>,
}

/// The groups that are full, and whether the queue is, each with the time of the next try.
#[derive(Default)]
struct FullGroups {
    queue_until: Option<Instant>,
    groups: HashMap<String, Instant>,
}

impl FullGroups {
    fn is_queue_full(&mut self) -> bool {
        self.queue_until = self.queue_until.filter(|until| *until > Instant::now());
        self.queue_until.is_some()
    }

    fn groups(&mut self) -> Vec<String> {
        let now = Instant::now();
        self.groups.retain(|_, until| *until > now);
        self.groups.keys().cloned().collect()
    }

    fn add(&mut self, full: send::Full) {
        let until = Instant::now() + full.retry_after.min(FULL_WAIT_MAX);
        match full.group {
            None => self.queue_until = Some(until),
            Some(group) if self.groups.len() < FULL_GROUPS_MAX => drop(self.groups.insert(group, until)),
            Some(_) => {}
        }
    }
}

impl Relay {
    /// A relay from this outbox to this queue.
    pub fn new(outbox: &Outbox, fairlane: &Fairlane, settings: RelaySettings) -> Self {
        let (database, fairlane, order) = (outbox.database().clone(), fairlane.clone(), settings.order);
        let (warm, full) = (WarmConnections::new(database.clone()), Mutex::default());
        let wakeup = Arc::default();
        Self { shared: Arc::new(Shared { database, warm, fairlane, order, full, wakeup }), settings }
    }

    /// Passes rows on until `stop` completes. A database or queue that does not reply is waited
    /// for; only missing tables are an error.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let (reconciling, observing) = (self.reconcile_forever(), self.observe_forever());
        tokio::select! {
            relayed = self.relay_forever() => relayed,
            () = reconciling => Ok(()),
            () = observing => Ok(()),
            () = stop => Ok(()),
        }
    }

    /// Passes on all rows that can be passed on now.
    pub async fn drain(&self) -> Result<Relayed, Error> {
        let mut all = Relayed::default();
        loop {
            let Relayed { passed, failed, kept, held } = self.pass().await?;
            (all.passed, all.failed) = (all.passed + passed, all.failed + failed);
            (all.kept, all.held) = (kept, held);
            if passed + failed == 0 {
                return Ok(all);
            }
        }
    }

    async fn relay_forever(&self) -> Result<(), Error> {
        let Shared { database, wakeup, .. } = &*self.shared;
        let _listener = Listener::start(database, self.settings.listen_url.as_deref(), wakeup.clone());
        let (mut backoff, mut idle) = (Backoff::default(), 0_u32);
        loop {
            let (first, longest) = match self.pass().await {
                Ok(Relayed { passed: 0, failed: 0, held, .. }) => {
                    backoff.reset();
                    (if held { HELD_POLL_MIN } else { POLL_MIN }, POLL_MAX)
                }
                Ok(_) => {
                    (backoff, idle) = (Backoff::default(), 0);
                    continue;
                }
                Err(error) => {
                    self.report_failure(&error).await?;
                    backoff.sleep().await;
                    continue;
                }
            };
            let pause = doubled(first, idle, longest);
            idle = idle.saturating_add(1);
            if tokio::time::timeout(pause, wakeup.notified()).await.is_ok() {
                idle = 0;
            }
        }
    }

    /// Counts and logs a failure; returns it as an error if a retry would not help.
    async fn report_failure(&self, error: &Error) -> Result<(), Error> {
        let cause = if matches!(error, Error::Database(_)) { "database" } else { "queue" };
        metrics::counter!(names::FAILURES, "cause" => cause).increment(1);
        tracing::warn!(target: TARGET, %error, "the relay could not pass jobs on; it tries again");
        match error {
            Error::Database(sqlx::Error::Database(_)) => match check_tables(&self.shared.database).await {
                Err(missing) if is_undefined(&missing) => Err(missing),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// One pass: a batch of every shard that has rows, and further batches of shards whose batch
    /// was full.
    pub(crate) async fn pass(&self) -> Result<Relayed, Error> {
        let mut all = Relayed::default();
        if self.shared.full().is_queue_full() {
            return Ok(all);
        }
        let (mut after, mut running) = (Some(FIRST), JoinSet::new());
        // A shard that fails does not keep others from being passed on, until several have failed.
        let (mut error, mut failures) = (None, 0);
        loop {
            let full_groups = self.shared.full().groups();
            while running.len() < SHARDS_AT_ONCE
                && failures < FAILED_SHARDS_MAX
                && let Some(last) = after
            {
                match batch::claim(&self.shared.warm, last, self.shared.order, &full_groups).await {
                    Ok(claim) => {
                        all.held |= claim.has_rows;
                        after = claim.next_after;
                        if let Some(shard) = claim.shard {
                            running.spawn(pass_shard(self.shared.clone(), shard));
                        }
                    }
                    Err(failed) => (error, failures) = (Some(failed), FAILED_SHARDS_MAX),
                }
            }
            match running.join_next().await {
                None => break,
                Some(Ok(Ok((relayed, has_more)))) => {
                    all.add(relayed);
                    if has_more && !self.shared.full().is_queue_full() {
                        after.get_or_insert(FIRST);
                    }
                }
                Some(Ok(Err(failed))) => (error, failures) = (Some(failed), failures + 1),
                Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            }
        }
        error.map_or(Ok(all), Err)
    }

    async fn reconcile_forever(&self) {
        let Some(interval) = self.settings.reconcile_interval else { return std::future::pending().await };
        let (database, fairlane) = (self.shared.database.clone(), self.shared.fairlane.clone());
        let mut reconciler = Reconciler::new(database, fairlane, self.settings.reconcile.clone());
        loop {
            tokio::time::sleep(interval.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
            match reconciler.run().await {
                Ok(report) if report.is_empty() => {}
                Ok(report) => {
                    tracing::warn!(target: TARGET, %report, "the reconciler repaired jobs");
                }
                Err(error) => tracing::warn!(target: TARGET, %error, "the reconciler tries again later"),
            }
        }
    }

    async fn observe_forever(&self) {
        loop {
            if let Ok(status) = status::read(&self.shared.database).await {
                metrics::gauge!(names::ROWS).set(status.rows as f64);
                metrics::gauge!(names::LAG).set(status.lag_seconds);
                metrics::gauge!(names::HORIZON).set(status.horizon_age_seconds);
            }
            tokio::time::sleep(GAUGES_INTERVAL).await;
        }
    }
}

/// The target of every log event.
pub(crate) const TARGET: &str = fairlane_engine::observe::TARGET;

fn is_undefined(error: &Error) -> bool {
    let Error::Database(sqlx::Error::Database(database)) = error else { return false };
    database.code().is_some_and(|code| code == "42P01" || code == "42883")
}

impl Shared {
    fn full(&self) -> std::sync::MutexGuard<'_, FullGroups> {
        self.full.lock().expect("nothing panics while it holds the full groups")
    }
}

impl Relayed {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.kept += other.kept;
    }
}

/// Passes one batch of a shard on; also returns whether the shard may have more rows.
async fn pass_shard(shared: Arc<Shared>, shard: batch::Shard) -> Result<(Relayed, bool), Error> {
    let (rows, is_full) = (shard.rows().await, shard.is_full());
    let sent = send::send(&shared.fairlane, &rows).await?;
    if rows.len() <= FEW_ROWS && sent.ends.iter().any(|end| matches!(end, send::RowEnd::Passed)) {
        // A worker that was waiting marks such a job as RUNNING now, and would wait for the move, which
        // writes the same row. Further commits end the pause. It may use up their wake-up, because
        // another pass follows one that has passed rows on.
        let _ = tokio::time::timeout(FEW_ROWS_PAUSE, shared.wakeup.notified()).await;
    }
    let (relayed, conflicts) = shard.commit(&rows, &sent.ends).await?;
    if !conflicts.is_empty() {
        send::withdraw(&shared.fairlane, conflicts).await;
    }
    for (result, count) in [("passed", relayed.passed), ("failed", relayed.failed)] {
        metrics::counter!(names::RELAYED, "result" => result).increment(count);
    }
    sent.full.into_iter().for_each(|full| shared.full().add(full));
    Ok((relayed, is_full && relayed.passed + relayed.failed > 0))
}
