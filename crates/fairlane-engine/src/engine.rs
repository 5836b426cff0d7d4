//! The seam: what an engine does, and what can go wrong with it.
//!
//! An engine carries out commands one at a time, whoever sends them, and wakes those who wait for work.
//! Invariant: a command may be repeated after any error. Left out on purpose: retrying, which
//! needs a policy; a refusal to take work, which is a reply.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use fairlane_core::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX, MAKE_DUE_JOBS_MAX};
use fairlane_core::queue::*;
use fairlane_core::{GroupId, TypeId};
use tokio::sync::mpsc;

use crate::audit::WalkPage;

/// A future an engine gives away.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where the state of a queue lives.
pub trait Engine: Send + Sync + 'static {
    /// Where the state lives, for people.
    fn name(&self) -> &'static str;

    /// What an operator should know about where the state lives, a sentence each; none if nothing weakens what is
    /// promised.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// How full the place is where the state lives; nothing where it has no bound that could be asked for.
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether changes are taken now, new jobs included; an error says why not. Unlike a look, this fails on a
    /// full disk, on a replica and while a store waits for its replicas. Unless an engine knows a cheaper way, it
    /// is found out by a command that changes something.
    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async { self.execute(Command::Promote(Promote { jobs_max: 1 })).await.map(drop) })
    }

    /// Completes when nothing more can be done until the engine is opened again, and says why: its disk is
    /// damaged, or its thread has ended. A process that serves it should end then and be restarted. An
    /// engine whose state lives in another process is never lost: it is waited for.
    fn lost(&self) -> BoxFuture<'_, EngineError> {
        Box::pin(std::future::pending())
    }

    /// Says beside the state where this process can be talked to, for those who find the state taken. Where many
    /// processes share it, nobody needs to know.
    fn announce(&self, _address: String) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Carries out one command; safe to repeat after an error.
    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>>;

    /// Waits until something of these types may be servable, at most this long; true if woken by a push.
    fn wait<'a>(&'a self, types: &'a [TypeId], at_most: Duration)
    -> BoxFuture<'a, Result<bool, EngineError>>;

    /// Walks through all that is stored and names what does not look right, for [`audit_all`](#method.audit_all).
    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// How much room the state takes where it lives, and how much it can have there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in use: by the whole of a Redis server, or by the files of a data directory.
    pub used_bytes: u64,
    /// Bytes that can be: `maxmemory`, or what is used and what the disk has left.
    pub limit_bytes: u64,
}

/// Something broke. A refusal to take or give work is no error: it is a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The command is malformed and was not sent; repeating it will not help.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No answer came; the command may or may not have been carried out, and may be repeated.
    #[error("{engine} cannot be reached: {reason}; the command is safe to repeat")]
    Unavailable {
        /// Which engine.
        engine: &'static str,
        /// What its client says.
        reason: String,
    },
    /// The store cannot do it as things are; the reason says what to do.
    #[error("{reason}")]
    Refused {
        /// What is wrong and what to do about it.
        reason: String,
    },
    /// The engine and this program do not fit together, or the engine has stopped.
    #[error("{reason}")]
    Broken {
        /// What was found.
        reason: String,
    },
}

impl EngineError {
    /// Whether the same command may well succeed if sent again after a pause.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    pub(crate) fn broken(reason: impl Into<String>) -> Self {
        Self::Broken { reason: reason.into() }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into() }
    }
}

macro_rules! typed_commands {
    ($($(#[$doc:meta])* $method:ident($command:ident) -> $reply:ident;)*) => {
        impl dyn Engine {
            $(
                $(#[$doc])*
                pub async fn $method(&self, command: $command) -> Result<$reply, EngineError> {
                    match self.execute(Command::$command(command)).await? {
                        Reply::$reply(reply) => Ok(reply),
                        other => Err(unexpected(stringify!($method), &other)),
                    }
                }
            )*
        }

        /// The stems of all operations.
        pub(crate) const STEMS: &[&str] = &[$(stringify!($method)),*];

        /// The stem of a command's operation.
        pub(crate) fn stem(command: &Command) -> &'static str {
            match command {
                $(Command::$command(_) => stringify!($method),)*
            }
        }
    };
}

typed_commands! {
    /// Adds up to 200 jobs; [`enqueue_all`](#method.enqueue_all) takes any number.
    enqueue(Enqueue) -> Enqueued;
    /// Takes jobs for a worker; a [`Leaser`](crate::Leaser) keeps its request numbers.
    lease(Lease) -> Leased;
    /// Keeps leases alive.
    extend(Extend) -> Extended;
    /// Ends attempts.
    settle(Settle) -> Settled;
    /// Returns due jobs to their lanes.
    promote(Promote) -> Promoted;
    /// Takes back leases that ran out.
    reclaim(Reclaim) -> Reclaimed;
    /// Changes a group.
    set_group(SetGroup) -> GroupSet;
    /// Changes a type.
    set_type(SetType) -> TypeSet;
    /// Changes the whole.
    set_whole(SetWhole) -> WholeSet;
    /// Moves jobs from their lanes to ready or waiting (`classic`).
    admit(Admit) -> Admitted;
    /// Opens a bulk action.
    open_bulk(OpenBulk) -> BulkOpened;
    /// Says that no more jobs come.
    seal_bulk(SealBulk) -> BulkSealed;
    /// Sets a bulk action's jobs aside.
    hold_bulk(HoldBulk) -> BulkHeld;
    /// Lets them run again.
    resume_bulk(ResumeBulk) -> BulkResumed;
    /// Ends a bulk action; its jobs are dropped.
    cancel_bulk(CancelBulk) -> BulkCancelled;
    /// Takes complete bulk actions for aggregation.
    take_completed(TakeCompleted) -> CompletedTaken;
    /// Ends an aggregation.
    finish_bulk(FinishBulk) -> BulkFinished;
    /// Cancels jobs.
    cancel_job(CancelJob) -> JobsCancelled;
    /// Lets dead jobs run again.
    requeue_dead(RequeueDead) -> DeadRequeued;
    /// Removes dead jobs.
    discard(Discard) -> Discarded;
    /// Makes waiting jobs due now, a page at a time; [`make_all_due`](#method.make_all_due) goes through all.
    make_due(MakeDue) -> MadeDue;
    /// Tidies up, a bounded number of jobs at a time.
    sweep(Sweep) -> Swept;
    /// Looks and changes nothing.
    inspect(Inspect) -> Inspected;
    /// Lists jobs page by page.
    list_jobs(ListJobs) -> Listed;
    /// Says why a job is not running.
    explain(Explain) -> Explained;
    /// Looks again at suspects, and repairs them; [`audit_all`](#method.audit_all) finds them.
    audit(Audit) -> Audited;
    /// Removes a type without jobs.
    remove_type(RemoveType) -> TypeRemoved;
}

fn unexpected(method: &str, reply: &Reply) -> EngineError {
    EngineError::broken(format!("{method} was answered with {reply:?}"))
}

impl dyn Engine {
    /// Makes every waiting job of a group (or of all) due now and says how many.
    pub async fn make_all_due(&self, group: Option<GroupId>) -> Result<usize, EngineError> {
        let (mut moved, mut cursor) = (0, 0);
        loop {
            let command = MakeDue { group: group.clone(), cursor, jobs_max: MAKE_DUE_JOBS_MAX };
            let made = self.make_due(command).await?;
            moved += made.moved;
            match made.next {
                Some(next) => cursor = next,
                None => return Ok(moved),
            }
        }
    }

    /// Adds any number of jobs, split into steps of at most 200 jobs and 1 MiB, and gives the receipts of all
    /// in their order. Steps before an error have taken effect; repeating all of them is safe.
    pub async fn enqueue_all(&self, jobs: impl IntoIterator<Item = NewJob>) -> Result<Enqueued, EngineError> {
        let mut all = Enqueued { receipts: Vec::new(), backlogs: Vec::new() };
        let mut take = |enqueued: Enqueued| {
            all.receipts.extend(enqueued.receipts);
            all.backlogs.extend(enqueued.backlogs);
        };
        let (mut step, mut step_bytes) = (Vec::new(), 0);
        for job in jobs {
            let bytes = job.payload.len();
            let full = step.len() == ENQUEUE_JOBS_MAX || step_bytes + bytes > ENQUEUE_BYTES_MAX;
            if full && !step.is_empty() {
                let jobs = std::mem::take(&mut step);
                take(self.enqueue(Enqueue { jobs }).await?);
                step_bytes = 0;
            }
            step_bytes += bytes;
            step.push(job);
        }
        if !step.is_empty() {
            take(self.enqueue(Enqueue { jobs: step }).await?);
        }
        Ok(all)
    }
}
