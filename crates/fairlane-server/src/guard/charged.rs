//! The engine as requests use it: what they have it do is paid for by their keys, before it is done, and logged if it is
//! destructive.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::TypeId;
use fairlane_core::queue::{Command, Leased, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, Space, WalkPage, jobs_of};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::purse::spend_on_command;
use super::trail::Trail;

/// What a command is worth beside its jobs: the way to the engine and back.
const COMMAND_JOBS: u64 = 10;

/// An engine whose commands are paid for.
pub(crate) struct Charged {
    engine: Arc<dyn Engine>,
    stopping: CancellationToken,
}

impl Charged {
    pub fn new(engine: Arc<dyn Engine>, stopping: CancellationToken) -> Self {
        Self { engine, stopping }
    }
}

impl Engine for Charged {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn warnings(&self) -> Vec<String> {
        self.engine.warnings()
    }

    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        self.engine.space()
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.check_writes()
    }

    fn lost(&self) -> BoxFuture<'_, EngineError> {
        self.engine.lost()
    }

    fn announce(&self, address: String) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.announce(address)
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let jobs = COMMAND_JOBS + jobs_of(&command) as u64;
        let (trail, owed) = (Trail::begin(&command), spend_on_command(jobs));
        if trail.is_none() && owed.is_none() {
            return self.engine.execute(command);
        }
        Box::pin(async move {
            if let Some(owed) = &owed {
                owed.paid(&self.stopping).await;
            }
            let is_lease = matches!(command, Command::Lease(_));
            let reply = self.engine.execute(command).await;
            if let (Some(trail), Ok(reply)) = (trail, &reply) {
                trail.end(reply);
            }
            if let Some(owed) = owed.filter(|_| is_lease) {
                // Whoever waits for jobs asks again and again, and pays for those it gets.
                let found = match &reply {
                    Ok(Reply::Leased(Leased::Jobs { jobs, .. })) => jobs.len() as u64,
                    _ => 0,
                };
                owed.give_back(jobs.saturating_sub(found));
            }
            reply
        })
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.engine.wait(types, at_most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.walk(pages)
    }
}
