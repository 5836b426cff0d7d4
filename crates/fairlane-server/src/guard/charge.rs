//! An engine layer that charges every command to the quota of the request's key, before it is
//! submitted, logs destructive commands, and records changes by operators in the activity log.

use std::sync::Arc;

use fairlane::{Change, record_change};
use fairlane_core::queue::{self, Leased};
use fairlane_core::{Command, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use tokio_util::sync::CancellationToken;

use super::trail::{self, Trail};
use crate::quota::{charge, charge_and_wait, end_parsing};

/// The fixed cost of a command, in jobs: the round trip to the engine.
const COMMAND_JOBS: u64 = 10;

/// The engine with every command charged to the key that submits it.
pub(crate) fn charge_commands(engine: Arc<dyn Engine>, stopping: CancellationToken) -> Arc<dyn Engine> {
    let charge = move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
        Box::pin(submit(engine, command, stopping.clone()))
    };
    layer(engine, Hooks::default().submit(charge))
}

/// The result of submitting a command to an engine.
type Submitted = Result<Reply, EngineError>;

async fn submit(engine: Arc<dyn Engine>, command: Command, stopping: CancellationToken) -> Submitted {
    end_parsing();
    // A worker that waits for jobs leases repeatedly, and is charged only for the jobs it gets.
    if !matches!(command, Command::Queue(queue::Command::Lease(_))) {
        charge_and_wait(COMMAND_JOBS + command.weight().jobs as u64, &stopping).await;
    }
    let trail = Trail::begin(&command);
    let change = Change::of(&command);
    let reply = engine.submit(command).await?;
    if let Some(record) = change.and_then(|change| change.made(&reply)).and_then(trail::entry) {
        record_change(&engine, record).await;
    }
    if let Some(trail) = trail {
        trail.end(&reply);
    }
    if let Reply::Queue(queue::Reply::Lease(Leased::Jobs { jobs, .. })) = &reply {
        // The cost of leased jobs delays the next requests, not the delivery of these jobs.
        charge(jobs.len() as u64);
    }
    Ok(reply)
}
