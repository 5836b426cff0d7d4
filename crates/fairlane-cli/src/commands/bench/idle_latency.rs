//! `idle-latency`: the time from enqueue to the start of the handler on an idle queue.
//!
//! The floor is the minimum of a queue with waiting workers: one hand-off to a waiting task, and
//! one round trip to fetch the job.

use std::time::{Duration, Instant};

use fairlane_core::queue::{Enqueue, InspectQueue};
use fairlane_worker::{Context, Pool, Worker};
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use super::ground::Ground;
use super::result::BenchResult;
use super::rounds::ratio;
use super::workload::Workload;
use crate::failure::Failure;
use crate::own_engine::connect;
use crate::percentiles::percentile;

/// The time in which the worker settles the last job and waits again.
const PAUSE: Duration = Duration::from_millis(3);
/// The first samples, which are not counted because they load scripts and open connections.
const WARM_UP: usize = 5;

/// Floor and queue take turns, one job at a time.
pub async fn measure(ground: &Ground, samples: usize) -> Result<BenchResult, Failure> {
    let mut queue = Queue::start(ground)?;
    let mut floor = Floor::start(ground).await?;
    let (mut ours_ns, mut floor_ns) = (Vec::new(), Vec::new());
    for sample in 0..WARM_UP + samples {
        let floor_time = floor.hand_off_and_round_trip(ground).await?;
        tokio::time::sleep(PAUSE).await;
        let our_time = queue.enqueue_to_start(ground).await?;
        tokio::time::sleep(PAUSE).await;
        if sample >= WARM_UP {
            floor_ns.push(floor_time.as_nanos() as u64);
            ours_ns.push(our_time.as_nanos() as u64);
        }
    }
    queue.pool.stop().await;
    let microseconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1000.0);
    let latency_p50_us = microseconds(percentile(&mut ours_ns, 500));
    let floor_latency_p50_us = microseconds(percentile(&mut floor_ns, 500));
    Ok(BenchResult {
        groups: 1,
        jobs: samples,
        latency_p50_us,
        latency_p99_us: microseconds(percentile(&mut ours_ns, 990)),
        floor_latency_p50_us,
        floor_latency_p99_us: microseconds(percentile(&mut floor_ns, 990)),
        floor_ratio: ratio(floor_latency_p50_us, latency_p50_us),
        ..BenchResult::default()
    })
}

/// The queue with a waiting worker.
struct Queue {
    workload: Workload,
    starts: mpsc::UnboundedReceiver<Instant>,
    pool: Pool,
}

impl Queue {
    fn start(ground: &Ground) -> Result<Self, Failure> {
        let workload = Workload::new(1);
        let (started, starts) = mpsc::unbounded_channel();
        let worker = Worker::new(ground.own.engine.clone()).name("idle").without_loops();
        let worker = worker.processor(workload.type_id.to_string(), move |_: Context| {
            // Fails only after the benchmark has failed.
            let _ = started.send(Instant::now());
            async {}
        });
        let pool = worker.start().map_err(|error| Failure::broken(error.to_string()))?;
        Ok(Self { workload, starts, pool })
    }

    async fn enqueue_to_start(&mut self, ground: &Ground) -> Result<Duration, Failure> {
        let jobs = self.workload.batch(0, 1);
        let sent = Instant::now();
        ground.own.engine.call(Enqueue { jobs }).await?;
        let start = self.starts.recv().await;
        let start = start.ok_or_else(|| Failure::broken("the worker ended before the last job"))?;
        Ok(start.saturating_duration_since(sent))
    }
}

/// A task that waits for hand-offs and reports when they arrive.
struct Floor {
    redis: Option<(MultiplexedConnection, redis::Script, String)>,
    hand_off: mpsc::UnboundedSender<()>,
    received: mpsc::UnboundedReceiver<Result<Instant, Failure>>,
}

impl Floor {
    async fn start(ground: &Ground) -> Result<Self, Failure> {
        let (hand_off, hand_offs) = mpsc::unbounded_channel();
        let (receive, received) = mpsc::unbounded_channel();
        let Some(prefix) = ground.own.prefix() else {
            tokio::spawn(take_from_channel(hand_offs, receive));
            return Ok(Self { redis: None, hand_off, received });
        };
        let key = format!("{prefix}floor:hand-off");
        tokio::spawn(take_from_list(connect(&ground.url).await?, key.clone(), receive));
        let redis = (connect(&ground.url).await?, redis::Script::new("return 1"), key);
        Ok(Self { redis: Some(redis), hand_off, received })
    }

    async fn hand_off_and_round_trip(&mut self, ground: &Ground) -> Result<Duration, Failure> {
        let sent = Instant::now();
        match &mut self.redis {
            Some((connection, _, key)) => {
                let () = redis::cmd("RPUSH").arg(&*key).arg(1).query_async(connection).await?;
            }
            None => self.hand_off.send(()).map_err(|_| ended_task())?,
        }
        let received = self.received.recv().await;
        let received = received.ok_or_else(ended_task)??;
        let hand_off = received.saturating_duration_since(sent);
        let requested = Instant::now();
        match &mut self.redis {
            Some((connection, script, _)) => {
                let _: u64 = script.prepare_invoke().invoke_async(connection).await?;
            }
            None => drop(ground.own.engine.call(InspectQueue).await?),
        }
        Ok(hand_off + requested.elapsed())
    }
}

fn ended_task() -> Failure {
    Failure::broken("the task that receives hand-offs has ended")
}

async fn take_from_channel(
    mut hand_offs: mpsc::UnboundedReceiver<()>,
    receive: mpsc::UnboundedSender<Result<Instant, Failure>>,
) {
    while hand_offs.recv().await.is_some() {
        if receive.send(Ok(Instant::now())).is_err() {
            return;
        }
    }
}

/// Ends with the benchmark, when its channel or its runtime is closed.
async fn take_from_list(
    mut connection: MultiplexedConnection,
    key: String,
    receive: mpsc::UnboundedSender<Result<Instant, Failure>>,
) {
    loop {
        let popped = redis::cmd("BLPOP").arg(&key).arg(1).query_async(&mut connection).await;
        let message = match popped {
            Ok(None::<(String, String)>) if receive.is_closed() => return,
            Ok(None) => continue,
            Ok(Some(_)) => Ok(Instant::now()),
            Err(error) => Err(Failure::from(error)),
        };
        let failed = message.is_err();
        if receive.send(message).is_err() || failed {
            return;
        }
    }
}
