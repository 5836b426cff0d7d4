//! `settle_bulk`: ends an aggregation and thereby its bulk action, unless that has ended
//! before; or releases it.
//!
//! The callback of the bulk action is added in the same step, so it exists if and only if the bulk
//! action is aggregated. No limit applies to it: its group could otherwise keep its own bulk action
//! from ending. The limits on bulk actions of a group bound the number of callbacks.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::operation::bytes_at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{LEASE_MS_MAX, NOTE_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::names::{GroupId, JobId, TypeId};
use crate::numbers::{Cost, Fence, Level, Micros, within};
use crate::queue::{BulkCause, BulkRef, BulkState, JobRef, Machine, NewJob, Verdict};
use crate::trace::Trace;

/// The type of the jobs that deliver callbacks. It does not count towards the limit on types.
pub const CALLBACK_TYPE: &str = "fairlane-callback";

/// Ends or releases an aggregation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleBulk {
    /// The bulk action, by group and id.
    pub bulk: BulkRef,
    /// The fence of the lease.
    pub fence: Fence,
    /// The result of the aggregation. It is kept with the bulk action, unless the
    /// aggregation is released.
    #[serde(with = "crate::encoding::bytes")]
    pub summary: Arc<[u8]>,
    /// How the aggregation ended.
    pub outcome: Aggregation,
    /// The callback to add, unless the aggregation is released.
    pub callback: Option<Callback>,
}

/// The job that delivers the callback of a bulk action: of the same group and of the type
/// [`CALLBACK_TYPE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// The id of the job. A job that exists with this id is left as it is.
    pub id: JobId,
    /// Opaque bytes for the processor of callbacks.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// The trace it belongs to.
    pub trace: Option<Trace>,
}

impl Callback {
    /// The callback as a job of this group.
    pub fn into_job(self, group: GroupId) -> NewJob {
        NewJob {
            job: JobRef { group, id: self.id },
            type_id: TypeId::new(CALLBACK_TYPE).expect("a plain word is a name"),
            level: Level::High,
            cost: Cost::default(),
            payload: self.payload,
            delay_ms: 0,
            bulk: None,
            trace: self.trace,
        }
    }
}

/// How an aggregation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aggregation {
    /// The aggregation is done.
    Done,
    /// The aggregation failed, and with it the bulk action; one that had ended before
    /// keeps its state.
    Failed,
    /// The aggregation is released: any worker can lease it after a delay, behind those that became
    /// available before.
    Released {
        /// The delay in milliseconds, at most the longest lease.
        delay_ms: u64,
    },
}

/// The reply: applied (now or by an earlier call), stale, or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkSettled(pub Verdict);

impl Operation for SettleBulk {
    type Machine = Machine;
    type Reply = BulkSettled;

    const STEM: &'static str = "settle_bulk";

    fn validate(&self) -> Result<(), Invalid> {
        bytes_at_most("a summary", self.summary.len(), NOTE_BYTES_MAX)?;
        bytes_at_most("the payload of a callback", self.callback_bytes(), PAYLOAD_BYTES_MAX)?;
        if let Aggregation::Released { delay_ms } = self.outcome {
            within("the delay of an aggregation in ms", delay_ms, 0, LEASE_MS_MAX)?;
        }
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Work, &self.bulk.group)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight { jobs: 1, bytes: self.summary.len() + self.callback_bytes() }
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BulkSettled {
        machine.settle_bulk(self, context.now)
    }
}

impl SettleBulk {
    fn callback_bytes(&self) -> usize {
        self.callback.as_ref().map_or(0, |callback| callback.payload.len())
    }
}

impl Machine {
    pub(in crate::queue) fn settle_bulk(&mut self, command: SettleBulk, now: Micros) -> BulkSettled {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkSettled(Verdict::Gone) };
        let bulk = &self.bulks[&number];
        if bulk.fence != command.fence || command.fence.0 == 0 {
            return BulkSettled(Verdict::Stale);
        }
        if bulk.aggregated {
            return BulkSettled(Verdict::Applied);
        }
        if let Aggregation::Released { delay_ms } = command.outcome {
            // One that is not leased was released before, and keeps its position.
            if bulk.worker.is_some() {
                self.hand_out_at(number, now.plus_ms(delay_ms));
            }
            return BulkSettled(Verdict::Applied);
        }
        let bulk = self.bulk_mut(number).expect("it was just found");
        (bulk.summary, bulk.aggregated) = (command.summary, true);
        let (group, state, bytes) = (bulk.group, bulk.state, bulk.summary.len() as u64);
        self.add_bytes(group, bytes);
        if let Some(callback) = command.callback {
            let new = callback.into_job(command.bulk.group);
            if self.find_job(&new.job).is_none() {
                self.add_job(new, now);
            }
        }
        if state.is_final() {
            self.take_no_more(number);
            return BulkSettled(Verdict::Applied);
        }
        let failed = command.outcome == Aggregation::Failed;
        if failed && let Some(bulk) = self.bulk_mut(number) {
            bulk.cause = Some(BulkCause::Aggregation);
        }
        self.finish(number, if failed { BulkState::Failed } else { BulkState::Completed });
        BulkSettled(Verdict::Applied)
    }
}
