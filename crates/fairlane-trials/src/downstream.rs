//! A downstream that allows less than is configured: a real HTTP server with a latency that
//! responds 429 beyond its true limit, called by a worker whose type is configured with ten times
//! as much.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::queue::*;
use fairlane_core::{GroupId, JobId, Rate, TypeId};
use fairlane_engine::Engine;
use fairlane_targets::{HttpSettings, HttpTarget};
use fairlane_testkit::receiver::{Receiver, response};
use fairlane_worker::{Worker, WorkerSettings};

/// The true limit and the configured one.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Calls per second that the downstream accepts.
    pub allowed: u64,
    /// Calls per second that the type is configured with.
    pub configured: u64,
    /// The duration of a call.
    pub latency: Duration,
    /// The duration of the measurement.
    pub length: Duration,
}

/// The result of the trial.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// Calls that were accepted.
    pub taken: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// The duration of the measurement, in seconds.
    pub seconds: f64,
}

impl Report {
    /// The fraction of the allowed calls that was achieved.
    pub fn achieved(&self, plan: &Plan) -> f64 {
        self.taken as f64 / (plan.allowed as f64 * self.seconds)
    }

    /// The fraction of all calls that was refused.
    pub fn refused_part(&self) -> f64 {
        self.refused as f64 / (self.taken + self.refused).max(1) as f64
    }
}

/// A bucket that fills at the true limit and is a fifth of a second deep.
struct Limit {
    plan: Plan,
    level: f64,
    at: Instant,
    taken: u64,
    refused: u64,
}

impl Limit {
    /// The status line of the response to a call.
    fn call(&mut self) -> &'static str {
        let rate = self.plan.allowed as f64;
        self.level = (self.level + self.at.elapsed().as_secs_f64() * rate).min((rate / 5.0).max(1.0));
        self.at = Instant::now();
        if self.level < 1.0 {
            self.refused += 1;
            return "429 Too Many Requests";
        }
        self.level -= 1.0;
        self.taken += 1;
        "200 OK"
    }
}

/// Calls the downstream on behalf of ten customers for the given time.
pub async fn run(plan: &Plan, engine: Arc<dyn Engine>) -> Report {
    let limit = Limit { plan: *plan, level: 1.0, at: Instant::now(), taken: 0, refused: 0 };
    let limit = Arc::new(Mutex::new(limit));
    let (latency, counted) = (plan.latency, limit.clone());
    let server = Receiver::handling(move |_| {
        let status = counted.lock().expect("no holder of the lock panics").call();
        async move {
            tokio::time::sleep(latency).await;
            response(status, &[], "")
        }
    });
    let type_id = TypeId::new("call").expect("a plain word");
    let rate = Rate::per_second(plan.configured).expect("a rate that can be set");
    let patch = TypePatch { rate: Some(Some(rate)), ..TypePatch::default() };
    engine.call(SetType { type_id: type_id.clone(), patch }).await.expect("the engine replies");
    let jobs = plan.allowed * (plan.length.as_secs() + 1) * 2;
    let job = |number: u64| {
        NewJob::new(
            JobRef {
                group: GroupId::new(format!("customer-{}", number % 10)).expect("a word and a number"),
                id: JobId::new(format!("job-{number}")).expect("a word and a number"),
            },
            type_id.clone(),
            Arc::from(&b"{}"[..]),
        )
    };
    engine.enqueue_all((0..jobs).map(job)).await.expect("the jobs are accepted");
    let target = HttpTarget::new(HttpSettings::new(server.url("/")));
    let settings = WorkerSettings { worker_count: 100, ..WorkerSettings::default() };
    let worker = Worker::new(engine).settings(settings);
    let started = Instant::now();
    let pool = worker.processor("call", target.expect("its address is one")).start().expect("good settings");
    tokio::time::sleep(plan.length).await;
    let (taken, refused) = {
        let limit = limit.lock().expect("no holder of the lock panics");
        (limit.taken, limit.refused)
    };
    let seconds = started.elapsed().as_secs_f64();
    pool.stop().await;
    Report { taken, refused, seconds }
}
