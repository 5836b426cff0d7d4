//! `lease_bulks`: leases bulk actions for aggregation, as `lease` does for jobs. All their jobs
//! have ended: they are complete, or they failed or were cancelled before, which their state shows.
//!
//! A worker that asks again gets the bulk actions that it has leased, under the same fence and with
//! a new deadline. A lost reply therefore does no harm, and a long aggregation is renewed by
//! asking. After its lease has expired, a bulk action is leased again under a larger fence.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{CLAMPS_MAX, LEASE_BULKS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use crate::names::WorkerId;
use crate::numbers::{Fence, Micros, within};
use crate::queue::{BulkView, Machine};

/// Leases bulk actions for aggregation: first those that the worker has leased already, then the
/// longest waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseBulks {
    /// The worker that requests bulk actions. Two callers with the same name get the same bulk
    /// actions and both aggregate them, so a name must belong to one loop of one process. The id
    /// that a worker generates has a random part for this reason.
    pub worker: WorkerId,
    /// The most bulk actions to lease, including those that the worker has leased already.
    pub bulks_max: usize,
    /// The length of the leases in milliseconds, from now.
    pub lease_ms: u64,
}

/// A bulk action that is leased for aggregation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedBulk {
    /// The current state of the bulk action.
    pub view: BulkView,
    /// The fence of the lease, required by `settle_bulk`.
    pub fence: Fence,
}

/// The reply to [`LeaseBulks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedBulks {
    /// The leased bulk actions.
    pub bulks: Vec<LeasedBulk>,
    /// The time until the next bulk action can be leased, in microseconds.
    pub wake_in_us: Option<u64>,
}

impl Operation for LeaseBulks {
    type Machine = Machine;
    type Reply = LeasedBulks;

    const STEM: &'static str = "lease_bulks";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the bulk actions of one lease_bulks", self.bulks_max, LEASE_BULKS_MAX)?;
        within("the length of a lease in ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LeasedBulks {
        machine.lease_bulks(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn lease_bulks(&mut self, command: LeaseBulks, now: Micros) -> LeasedBulks {
        self.lower_far_takes(now);
        let mut numbers = self.still_in_hand(&command.worker, now);
        numbers.truncate(command.bulks_max);
        let due = self.aggregating.range(..=(now, u64::MAX)).take(command.bulks_max - numbers.len());
        let due: Vec<u64> = due.map(|(_, number)| *number).collect();
        for &number in &due {
            self.let_go(number);
            let fence = self.next_fence(now);
            self.taken.insert((command.worker.clone(), number));
            let bulk = self.bulk_mut(number).expect("a listed bulk action exists");
            (bulk.fence, bulk.worker) = (fence, Some(command.worker.clone()));
        }
        numbers.extend(due);
        let until = now.plus_ms(command.lease_ms);
        let mut bulks = Vec::with_capacity(numbers.len());
        for number in numbers {
            let bulk = self.bulk_mut(number).expect("a leased bulk action exists");
            let (fence, before) = (bulk.fence, bulk.take_at.replace(until));
            if let Some(before) = before {
                self.aggregating.remove(&(before, number));
            }
            self.aggregating.insert((until, number));
            bulks.push(LeasedBulk { view: self.bulk_view(number), fence });
        }
        LeasedBulks { bulks, wake_in_us: self.aggregating.first().map(|(at, _)| at.since(now)) }
    }

    /// Releases every leased bulk action. An owner calls it when it opens its state after a stop,
    /// because the aggregators of its own process are gone. An aggregator in another process that
    /// continues is safe by its fence: it settles first, or its settlement is stale.
    pub fn release_aggregations(&mut self) {
        let taken: Vec<u64> = self.taken.iter().map(|(_, number)| *number).collect();
        for number in taken {
            self.hand_out(number);
        }
    }

    /// The bulk actions that a worker has leased. An expired lease is lost, even if no other worker
    /// has leased the bulk action yet.
    fn still_in_hand(&mut self, worker: &WorkerId, now: Micros) -> Vec<u64> {
        let range = (worker.clone(), 0)..=(worker.clone(), u64::MAX);
        let known = self.taken.range(range).take(LEASE_BULKS_MAX).map(|(_, number)| *number);
        let mut known: Vec<u64> = known.collect();
        known.retain(|&number| {
            let held = self.bulks.get(&number).and_then(|bulk| bulk.take_at).is_some_and(|until| until > now);
            if !held {
                self.let_go(number);
            }
            held
        });
        known
    }

    /// After the clock stepped back: lowers the deadlines of aggregations to the latest that
    /// could be set now.
    fn lower_far_takes(&mut self, now: Micros) {
        let lease_end = now.plus_ms(LEASE_MS_MAX);
        for _ in 0..CLAMPS_MAX {
            let Some(&(at, number)) = self.aggregating.last() else { break };
            if at <= lease_end {
                break;
            }
            self.aggregating.pop_last();
            self.aggregating.insert((lease_end, number));
            if let Some(bulk) = self.bulk_mut(number) {
                bulk.take_at = Some(lease_end);
            }
        }
    }
}
