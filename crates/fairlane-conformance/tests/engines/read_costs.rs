//! What reads cost a Redis: a page and an explanation take as many commands among many jobs as
//! among few.

use std::sync::Arc;

use fairlane_conformance::subject::*;
use fairlane_core::limits::{LEASE_JOBS_MAX, LIST_STRIDE};
use fairlane_core::queue::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, Engine};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

const FEW: usize = 1000;
const MANY: usize = 100_000;
const PAGE: usize = 100;
/// A binary search takes this many more commands among a hundred times as many jobs: two in each
/// step.
const PROBES: u64 = 7 * 2;

/// A queue with this many jobs in each state.
struct FilledQueue {
    server: RedisServer,
    queue: Subject,
    jobs: usize,
}

impl FilledQueue {
    async fn with(jobs: usize) -> Self {
        let server = RedisServer::start(ServerOptions::default());
        let options = RedisOptions { clock: Clock::System, ..RedisOptions::default() };
        let engine = RedisEngine::connect(&server.url(), options).await.expect("Redis is there");
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let filled = Self { server, queue: Subject::new(engine, Arc::default()), jobs };
        filled.queue.open("g", "b").await;
        filled.add_and_end("dead", None, failed()).await;
        filled.add_and_end("done", None, succeeded()).await;
        filled.add_and_end("of bulk", Some("b"), succeeded()).await;
        filled.add("leased", None, 0).await;
        filled.lease_all().await;
        filled.add("waiting", None, 3_600_000).await;
        filled.add("pending", None, 0).await;
        filled
    }

    async fn add(&self, what: &str, bulk: Option<&str>, delay_ms: u64) {
        let bulk = bulk.map(bulk_id);
        let new = |number| NewJob { bulk: bulk.clone(), delay_ms, ..job("g", &format!("{what} {number}")) };
        self.queue.add((0..self.jobs).map(new)).await;
    }

    async fn lease_all(&self) -> Vec<LeasedJob> {
        let mut leased = Vec::new();
        while leased.len() < self.jobs {
            leased.extend(self.queue.lease(LEASE_JOBS_MAX).await);
        }
        leased
    }

    async fn add_and_end(&self, what: &str, bulk: Option<&str>, outcome: Outcome) {
        self.add(what, bulk, 0).await;
        for batch in self.lease_all().await.chunks(LEASE_JOBS_MAX) {
            let settlement = |leased: &LeasedJob| Settlement {
                job: leased.job.clone(),
                fence: leased.fence,
                outcome: outcome.clone(),
            };
            self.queue.settle_all(batch.iter().map(settlement).collect()).await;
        }
    }

    /// Commands that scripts have called so far.
    fn commands(&self) -> u64 {
        const OF_CLIENTS: [&str; 9] = [
            "info",
            "fcall",
            "eval",
            "evalsha",
            "hello",
            "ping",
            "select",
            "client|setinfo",
            "client|setname",
        ];
        let stats = self.server.command(&["INFO", "commandstats"]);
        let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let inner = lines.filter(|(name, _)| !OF_CLIENTS.contains(name));
        let calls = inner.map(|(_, stats)| {
            let calls = stats.strip_prefix("calls=").and_then(|calls| calls.split(',').next());
            calls.and_then(|calls| calls.parse::<u64>().ok()).expect("a number of calls")
        });
        calls.sum()
    }

    /// Commands that one page from the middle takes, which must be full.
    async fn page(&self, listing: Listing) -> u64 {
        let cursor = match listing {
            Listing::InFlight | Listing::Finished | Listing::OfBulk(_) => {
                (self.jobs / LEASE_JOBS_MAX / 2) as u64 * LIST_STRIDE
            }
            _ => self.jobs as u64 / 2,
        };
        let command = ListJobs { listing, group: None, type_id: None, cursor, limit: PAGE };
        self.queue.engine.call(command.clone()).await.expect("list_jobs is answered");
        let before = self.commands();
        let listed = self.queue.engine.call(command).await.expect("list_jobs is answered");
        assert_eq!(listed.jobs.len(), PAGE);
        self.commands() - before
    }

    /// Commands that explaining the job in the middle takes.
    async fn explanation(&self) -> u64 {
        let middle = self.jobs / 2;
        let command = Explain { job: job_ref("g", &format!("pending {middle}")) };
        self.queue.engine.call(command.clone()).await.expect("explain is answered");
        let before = self.commands();
        let explained = self.queue.engine.call(command).await.expect("explain is answered");
        let explanation = explained.0.expect("the job is there");
        assert_eq!(explanation.position, Some(middle as u64));
        self.commands() - before
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_takes_as_many_commands_among_many_jobs_as_among_few() {
    let (few, many) = (FilledQueue::with(FEW).await, FilledQueue::with(MANY).await);
    let listings = [
        Listing::Pending(group_id("g")),
        Listing::Waiting,
        Listing::InFlight,
        Listing::Dead,
        Listing::Finished,
        Listing::OfBulk(bulk_ref("g", "b")),
    ];
    for listing in listings {
        let (among_few, among_many) = (few.page(listing.clone()).await, many.page(listing.clone()).await);
        println!("{listing:?}: {among_few} commands among {FEW} jobs, {among_many} among {MANY}");
        assert_eq!(among_many, among_few, "{listing:?}");
    }
    let (among_few, among_many) = (few.explanation().await, many.explanation().await);
    println!("explain: {among_few} commands among {FEW} jobs, {among_many} among {MANY}");
    assert!(among_many <= among_few + PROBES, "{among_many} after {among_few}");
}
