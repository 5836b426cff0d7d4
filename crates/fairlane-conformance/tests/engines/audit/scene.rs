//! A queue with jobs in every state, methods that damage it, and a check that it drains.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fairlane_conformance::subject::*;
use fairlane_core::queue::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{AuditReport, Clock};
use fairlane_testkit::redis::RedisServer;

/// One damage to the stored state.
pub struct Damage {
    /// What is damaged.
    pub name: &'static str,
    /// Inflicts the damage.
    pub inflict: fn(&Scene),
    /// Findings that an audit must include: `fault kind name`.
    pub found: &'static [&'static str],
    /// Jobs, as `group/id`, that cannot run any more.
    pub lost: &'static [&'static str],
}

/// A queue with jobs in every state.
pub struct Scene<'a> {
    pub queue: Subject,
    server: &'a RedisServer,
    prefix: String,
    leased: Vec<LeasedJob>,
    /// Jobs that must complete, and how often each has.
    done: BTreeMap<String, u64>,
}

impl<'a> Scene<'a> {
    pub async fn set(server: &'a RedisServer, name: &str) -> Self {
        let us = Arc::new(AtomicU64::new(START.0));
        let prefix = format!("{name}/");
        let options = RedisOptions {
            clock: Clock::Given(us.clone()),
            prefix: prefix.clone(),
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(&server.url(), options).await.expect("Redis is there");
        let queue = Subject::new(Arc::new(engine), us);
        queue.end_reclaim_grace().await;
        let mut scene = Self { queue, server, prefix, leased: vec![], done: BTreeMap::new() };
        scene.populate().await;
        scene
    }

    /// Adds one job for each way to end, groups that wait for a rate or a seat, and jobs in flight.
    async fn populate(&mut self) {
        let queue = self.queue.clone();
        queue.add([job("g", "done"), job("g", "dead")]).await;
        let ended = queue.lease(2).await;
        queue.settle(&ended[0], succeeded()).await;
        queue.settle(&ended[1], failed()).await;
        queue.open_with_jobs("h", "b", 0).await;
        self.add((1..=3).map(|number| in_bulk("b", job("h", &format!("b-{number}"))))).await;
        let first = queue.lease_one().await;
        assert_eq!(first.job, job_ref("h", "b-1"));
        self.settle(&first).await;
        queue.open("h", "held").await;
        queue.hold("h", "held").await;
        self.add([in_bulk("held", job("h", "held-1"))]).await;
        queue.open("h", "dropped").await;
        queue.cancel_bulk("h", "dropped").await;
        self.add(jobs("slow", 3)).await;
        self.add(jobs("seated", 3)).await;
        queue.set_group("slow", group_rate(per_second(1, 1))).await;
        queue.set_group("seated", group_seats(1)).await;
        self.add(jobs("g", 6)).await;
        self.add(jobs("h", 2)).await;
        self.add([delayed(5000, "g", "later")]).await;
        queue.add([job("g", "cancelled")]).await;
        queue.cancel("g", &["cancelled"]).await;
        while self.queue.bulk("h", "held").await.on_hold == 0 || self.leased.len() < 8 {
            self.leased.extend(queue.lease(1).await);
        }
        queue.lease_of(&["unasked"], 1).await;
    }

    async fn add(&mut self, new: impl IntoIterator<Item = NewJob>) {
        for new in new {
            self.done.insert(format!("{}/{}", new.job.group, new.job.id), 0);
            self.queue.add([new]).await;
        }
    }

    async fn settle(&mut self, leased: &LeasedJob) {
        if self.queue.settle(leased, succeeded()).await == Verdict::Applied {
            let name = format!("{}/{}", leased.job.group, leased.job.id);
            *self.done.entry(name).or_default() += 1;
        }
    }

    /// The batch of job g/1, which is in flight.
    pub fn batch(&self) -> String {
        let found = self.leased.iter().find(|leased| leased.job == job_ref("g", "1"));
        format!("{:016}", found.expect("g/1 is in flight").fence.0)
    }

    /// Sends a command directly to Redis; its first argument is a key.
    pub fn raw(&self, arguments: &[&str]) -> String {
        let mut arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let key = if arguments[0] == "EVAL" { 3 } else { 1 };
        arguments[key].insert_str(0, &self.prefix);
        self.server.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Changes a group's counts of jobs in flight and of its backlog.
    pub fn add_to_counts(&self, group: &str, in_flight: i64, backlog: i64) {
        let key = format!("group:{group}:meta");
        let counts = self.raw(&["HGET", &key, "counts"]);
        let mut counts: Vec<i64> = counts.split(':').map(|count| count.parse().expect("a count")).collect();
        counts[0] += in_flight;
        counts[1] += backlog;
        let counts = counts.iter().map(i64::to_string).collect::<Vec<_>>().join(":");
        self.raw(&["HSET", &key, "counts", &counts]);
    }

    /// Changes the stored number of lanes of the order of type `t` and level normal.
    pub fn set_active(&self, active: u64) {
        let order = self.raw(&["HGET", "type:t", "1"]);
        let (rest, _) = order.rsplit_once(':').expect("an order has parts");
        self.raw(&["HSET", "type:t", "1", &format!("{rest}:{active}")]);
    }

    /// Changes the stored number of waiting jobs of a group.
    pub fn set_waiting(&self, group: &str, waiting: i64) {
        let key = format!("group:{group}:meta");
        let run = self.raw(&["HGET", &key, "run"]);
        let (_, rest) = run.split_once(':').expect("a record has parts");
        self.raw(&["HSET", &key, "run", &format!("{waiting}:{rest}")]);
    }

    pub fn set_lane(&self, group: &str, lane: &str) {
        self.raw(&["HSET", &format!("group:{group}:meta"), "lane:1:t", lane]);
    }

    /// Takes a group's lane out of the order of type `t` and level normal.
    pub fn leave_order(&self, group: &str) {
        let script = "for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
            if string.sub(member, 18) == ARGV[1] then redis.call('ZREM', KEYS[1], member) end
        end
        return ''";
        self.raw(&["EVAL", script, "1", "fair-queue:normal:t", group]);
    }

    pub async fn report(&self, repair: bool) -> AuditReport {
        self.queue.engine.audit_all(repair, |_| {}).await.expect("audit is answered")
    }

    /// Findings as `fault kind name`, sorted, each once.
    pub async fn audit(&self, repair: bool) -> Vec<String> {
        let report = self.report(repair).await;
        assert_eq!(report.too_large, []);
        let lines = report.findings.iter().map(|finding| match &finding.suspect {
            Suspect::Lease(batch) if batch.0 > 1_000_000 => format!("{} lease", finding.word()),
            suspect => format!("{} {} {suspect}", finding.word(), suspect.kind()),
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines.dedup();
        lines
    }

    pub async fn repair(&self) {
        let report = self.report(true).await;
        assert!(!report.findings.is_empty() && report.remaining() == 0, "{report:?}");
    }

    /// Completes everything; each job that is not lost completes exactly once.
    pub async fn drain(mut self, lost: &[&str]) -> Self {
        let queue = self.queue.clone();
        for leased in std::mem::take(&mut self.leased) {
            self.settle(&leased).await;
        }
        queue.resume("h", "held").await;
        for _ in 0..40 {
            queue.sweep(100).await;
            for leased in queue.lease(100).await {
                self.settle(&leased).await;
            }
            queue.advance_reclaiming_ms(10_000).await;
            queue.reclaim(100).await;
        }
        let totals = queue.queue_view().await;
        assert_eq!((totals.backlog, totals.in_flight, totals.active_groups), (0, 0, 0), "{}", self.prefix);
        for (name, times) in &self.done {
            let expected = u64::from(!lost.contains(&name.as_str()));
            assert_eq!(*times, expected, "{}: {name}", self.prefix);
        }
        queue.seal("h", "b").await;
        assert_eq!(queue.bulk_state("h", "b").await, BulkState::Aggregating, "{}", self.prefix);
        self
    }
}
