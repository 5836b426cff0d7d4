//! The process that is killed: opens bulk actions and works on all jobs until then.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::*;
use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use fairlane_engine::Engine;
use fairlane_targets::{AddressRule, CallbackSettings, Callbacks, Secret};
use fairlane_worker::{
    BulkPlan, CALLBACK_TYPE, CallbackPlan, Context, Outcome, RetryPolicy, Worker, WorkerSettings,
};

/// Jobs of each bulk action.
pub const JOBS: u64 = 40;
/// The group of the bulk actions.
pub const GROUP: &str = "customer";
const TYPE: &str = "work";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Opens the bulk actions from `from` up to `to`, and works until it is killed.
pub async fn run_victim(address: &str, callback: &str, from: u64, to: u64) {
    let engine = fairlane_engine::open(address, Settings::default()).await.expect("it opens after a kill");
    let pool = worker(&engine).start().expect("the settings are valid");
    print_line("ready");
    make_bulks(&engine, callback, from, to, |number| print_line(&format!("sealed {number}"))).await;
    std::future::pending::<()>().await;
    drop(pool);
}

fn print_line(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).expect("the parent reads the output");
}

pub fn bulk_ref(number: u64) -> BulkRef {
    BulkRef { group: group(), id: bulk_id(number) }
}

fn group() -> GroupId {
    GroupId::new(GROUP).expect("a plain word")
}

fn bulk_id(number: u64) -> BulkId {
    BulkId::new(format!("bulk-{number}")).expect("a word and a number")
}

/// Makes bulk actions, and completes those that exist in part; calls `sealed` with the number of
/// sealed ones.
pub async fn make_bulks(engine: &Arc<dyn Engine>, callback: &str, from: u64, to: u64, sealed: impl Fn(u64)) {
    let plan = BulkPlan { callback: Some(CallbackPlan { url: callback.to_owned() }), ..BulkPlan::default() };
    for number in from..to {
        let bulk = bulk_ref(number);
        let open =
            OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload: plan.to_bytes() };
        engine.call(open).await.expect("the engine replies");
        let jobs = (0..JOBS).map(|index| NewJob {
            bulk: Some(bulk_id(number)),
            ..NewJob::new(
                JobRef {
                    group: group(),
                    id: JobId::new(format!("bulk-{number}-{index}")).expect("words and numbers"),
                },
                TypeId::new(TYPE).expect("a plain word"),
                Arc::from(&b"null"[..]),
            )
        });
        for receipt in engine.enqueue_all(jobs).await.expect("the engine replies").receipts {
            // A victim may have sealed it and died before it printed so; then it has all its jobs
            // and takes no more.
            let sealed_before = matches!(receipt, JobReceipt::Refused { refusal: Refusal::BulkSealed, .. });
            let known = matches!(receipt, JobReceipt::Created | JobReceipt::Exists { .. });
            assert!(known || sealed_before, "{receipt:?}");
        }
        let seal = engine.call(SealBulk { bulk, expected: Some(JOBS) }).await.expect("the engine replies");
        assert!(matches!(seal, BulkSealed::Sealed(_)), "{seal:?}");
        sealed(number + 1);
    }
}

/// Whether a job fails for good, whichever worker runs it.
pub fn fails(id: &str) -> bool {
    kind(id) == 0
}

fn kind(id: &str) -> u32 {
    id.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 10
}

/// A worker with short leases, so that the jobs of a killed worker come back soon.
pub fn worker(engine: &Arc<dyn Engine>) -> Worker {
    let mut settings = WorkerSettings {
        lease: Duration::from_millis(300),
        retry: RetryPolicy { base: Duration::from_millis(5), cap: Duration::from_millis(50) },
        ..WorkerSettings::default()
    };
    settings.loops.reclaim_interval = Duration::from_millis(100);
    settings.loops.aggregate_interval = Duration::from_millis(100);
    settings.loops.aggregation_lease = Duration::from_millis(500);
    settings.loops.sweep_interval = Duration::from_millis(100);
    let secret: Secret = SECRET.parse().expect("a valid secret");
    let mut callbacks = CallbackSettings::new(vec![secret]);
    callbacks.addresses = AddressRule { allow_private: true, ..AddressRule::default() };
    callbacks.retry = settings.retry;
    let options = callbacks.type_options();
    let deliver = Callbacks::new(engine.clone(), callbacks).expect("the settings are valid");
    Worker::new(engine.clone()).settings(settings).processor(TYPE, work).processor_with(
        CALLBACK_TYPE,
        options,
        deliver,
    )
}

async fn work(job: Context) -> Outcome {
    match kind(&job.id().to_string()) {
        0 => Outcome::failed("never", "this one never succeeds"),
        1 if job.attempt() <= 2 => Outcome::retry("later", "this one succeeds the third time"),
        2 => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Outcome::done(&"slowly")
        }
        kind => {
            tokio::time::sleep(Duration::from_millis(u64::from(kind))).await;
            Outcome::done(&kind)
        }
    }
}
