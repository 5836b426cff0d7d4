//! An engine layer that charges every command to the quota of the request's key, before it is
//! submitted, logs destructive commands, and records changes for the dashboard.

use std::sync::Arc;

use fairlane_core::queue::{self, Leased};
use fairlane_core::{Command, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use tokio_util::sync::CancellationToken;

use super::trail::{self, Trail};
use crate::quota::{charge, charge_and_wait, end_parsing};
use crate::ui::{Activity, Change};

/// What a command costs beside its jobs, in jobs: the way to the engine and back.
const COMMAND_JOBS: u64 = 10;

/// The engine with every command charged to the key that submits it.
pub(crate) fn charge_commands(
    engine: Arc<dyn Engine>,
    activity: Arc<Activity>,
    stopping: CancellationToken,
) -> Arc<dyn Engine> {
    let charge = move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
        Box::pin(submit(engine, command, activity.clone(), stopping.clone()))
    };
    layer(engine, Hooks::default().submit(charge))
}

/// What an engine returns for a command.
type Submitted = Result<Reply, EngineError>;

async fn submit(
    engine: Arc<dyn Engine>,
    command: Command,
    activity: Arc<Activity>,
    stopping: CancellationToken,
) -> Submitted {
    end_parsing();
    // A worker that waits for jobs leases again and again, and pays only for the jobs it gets.
    if !matches!(command, Command::Queue(queue::Command::Lease(_))) {
        charge_and_wait(COMMAND_JOBS + command.weight().jobs as u64, &stopping).await;
    }
    let trail = Trail::begin(&command);
    let change = Change::of(&command);
    let reply = engine.submit(command).await?;
    if let Some(change) = change {
        activity.push(trail::key(), change);
    }
    if let Some(trail) = trail {
        trail.end(&reply);
    }
    if let Reply::Queue(queue::Reply::Lease(Leased::Jobs { jobs, .. })) = &reply {
        // What they cost beyond the request delays the next ones, not jobs that are leased.
        charge(jobs.len() as u64);
    }
    Ok(reply)
}
