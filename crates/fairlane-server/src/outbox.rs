//! The outbox of a database, as the dashboard and the API show it.
//!
//! The server knows no database: the program that starts it passes a source. Any number of pages
//! and requests share one reading every two seconds.
//!
//! Invariant: a database that does not reply delays a response by a second at most. The reading goes
//! on in the background, and ends with an error after a few seconds.

use std::sync::Arc;
use std::time::Duration;

use fairlane::views::OutboxView;
use fairlane_core::Micros;
use fairlane_engine::{BoxFuture, Clock};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::access::{Caller, Permission};

/// How long a reading is reused.
const USED_FOR: Duration = Duration::from_secs(2);
/// How long a reading may take.
const READ_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a response waits for a reading.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads the outbox of a database.
pub trait OutboxSource: Send + Sync + 'static {
    /// Reads it once; an error says in words what happened and what to do. A reading may be dropped
    /// before its end.
    fn read(&self) -> BoxFuture<'_, Result<OutboxView, String>>;
}

/// The outbox, or why it cannot be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    /// The server has no database.
    NotConfigured,
    /// The database was not read yet.
    Pending,
    /// The latest state.
    Read(Arc<OutboxView>),
    /// The latest reading failed.
    Failed {
        /// What happened, and what to do.
        error: Arc<str>,
        /// When the database was read last.
        read_at: Option<Micros>,
    },
}

/// The outbox as a caller may see it. Statements of transactions are those of any application of the
/// database server, so only callers that may operate see them.
pub(crate) fn visible_to(caller: &Caller, outbox: &OutboxView) -> OutboxView {
    let mut outbox = outbox.clone();
    if !caller.role.may(Permission::Operate) {
        outbox.holders.iter_mut().for_each(|holder| holder.query.clear());
    }
    outbox
}

/// The readings of the outbox.
pub(crate) struct OutboxReader {
    source: Option<Arc<dyn OutboxSource>>,
    state: watch::Sender<State>,
}

/// The result of a reading.
type Outcome = Result<Arc<OutboxView>, Arc<str>>;

#[derive(Clone, Default)]
struct State {
    /// Whether the database is being read.
    is_reading: bool,
    /// The latest reading and when it ended.
    latest: Option<(Instant, Outcome)>,
    /// When the database was read last.
    read_at: Option<Micros>,
}

impl OutboxReader {
    pub fn new(source: Option<Arc<dyn OutboxSource>>) -> Self {
        Self { source, state: watch::Sender::new(State::default()) }
    }

    /// A reading that is at most two seconds old; an older one if the database is slow.
    pub async fn reading(&self) -> Reading {
        let Some(source) = &self.source else { return Reading::NotConfigured };
        let mut state = self.state.subscribe();
        let begins = self.state.send_if_modified(State::begin);
        if begins {
            tokio::spawn(read(source.clone(), self.state.clone()));
        }
        // If the reading takes longer, the one before is shown.
        let _ = timeout(PATIENCE, state.wait_for(|state| !state.is_reading)).await;
        self.state.borrow().reading()
    }
}

impl State {
    /// Whether a reading is due; if so, it begins.
    fn begin(&mut self) -> bool {
        let is_used = self.latest.as_ref().is_some_and(|(at, _)| at.elapsed() < USED_FOR);
        let begins = !self.is_reading && !is_used;
        self.is_reading |= begins;
        begins
    }

    fn end(&mut self, result: Result<OutboxView, String>) {
        self.is_reading = false;
        if result.is_ok() {
            self.read_at = Some(Clock::System.now());
        }
        self.latest = Some((Instant::now(), result.map(Arc::new).map_err(Arc::from)));
    }

    fn reading(&self) -> Reading {
        match &self.latest {
            None => Reading::Pending,
            Some((_, Ok(view))) => Reading::Read(view.clone()),
            Some((_, Err(error))) => Reading::Failed { error: error.clone(), read_at: self.read_at },
        }
    }
}

async fn read(source: Arc<dyn OutboxSource>, state: watch::Sender<State>) {
    // In its own task, so that a panic ends this reading but not the later ones.
    let reading = tokio::spawn(async move { timeout(READ_TIMEOUT, source.read()).await });
    let result = match reading.await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(format!(
            "the database does not reply within {} s; check its address, its load and whether it runs",
            READ_TIMEOUT.as_secs()
        )),
        Err(_) => Err("the reading of the database failed; the log of the server says why".to_owned()),
    };
    state.send_modify(|state| state.end(result));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fairlane::views::{MirrorCounts, OutboxStatus};

    use super::*;

    /// A source that counts its readings, each of which takes some time.
    struct Slow {
        takes: Duration,
        readings: Arc<AtomicUsize>,
    }

    impl OutboxSource for Slow {
        fn read(&self) -> BoxFuture<'_, Result<OutboxView, String>> {
            self.readings.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                tokio::time::sleep(self.takes).await;
                Ok(view())
            })
        }
    }

    fn view() -> OutboxView {
        let status =
            OutboxStatus { rows: 1, ready: 1, lag_seconds: 0.5, horizon_age_seconds: 0.0, open_jobs: 0 };
        let mirror = MirrorCounts { queued: 0, running: 0, succeeded: 0, failed: 0 };
        let explanation = "1 job ready".to_owned();
        OutboxView { explanation, status, relays: 0, mirror, holders: Vec::new(), failed: Vec::new() }
    }

    fn reader(takes: Duration) -> (Arc<OutboxReader>, Arc<AtomicUsize>) {
        let readings = Arc::new(AtomicUsize::new(0));
        let source = Slow { takes, readings: readings.clone() };
        (Arc::new(OutboxReader::new(Some(Arc::new(source)))), readings)
    }

    #[tokio::test(start_paused = true)]
    async fn many_readers_share_a_reading_for_two_seconds() {
        let (reader, readings) = reader(Duration::from_millis(300));
        let at_once: Vec<_> = (0..50)
            .map(|_| {
                let reader = reader.clone();
                tokio::spawn(async move { reader.reading().await })
            })
            .collect();
        for one in at_once {
            assert!(matches!(one.await.unwrap(), Reading::Read(_)));
        }
        assert_eq!(readings.load(Ordering::Relaxed), 1);
        tokio::time::advance(USED_FOR / 2).await;
        reader.reading().await;
        assert_eq!(readings.load(Ordering::Relaxed), 1, "the reading is used");
        tokio::time::advance(USED_FOR).await;
        reader.reading().await;
        assert_eq!(readings.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_hangs_delays_a_response_by_a_second_and_is_an_error_later() {
        let (reader, readings) = reader(Duration::MAX);
        let start = Instant::now();
        assert_eq!(reader.reading().await, Reading::Pending);
        assert_eq!(start.elapsed(), PATIENCE);
        let failed = loop {
            match reader.reading().await {
                Reading::Pending => {}
                failed => break failed,
            }
        };
        assert!(start.elapsed() <= READ_TIMEOUT + PATIENCE);
        let Reading::Failed { error, read_at: None } = &failed else { panic!("{failed:?}") };
        assert!(error.contains("does not reply within 4 s"), "{error}");
        tokio::time::advance(USED_FOR).await;
        assert_eq!(reader.reading().await, failed, "the last error is shown while it is tried again");
        assert_eq!(readings.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_server_without_a_database_has_nothing_to_read() {
        assert_eq!(OutboxReader::new(None).reading().await, Reading::NotConfigured);
    }
}
