//! `take_completed`: bulk actions whose jobs have all ended, leased for aggregation like jobs: those that are
//! complete, and those that failed or were cancelled before, whose state tells.
//!
//! Whoever asks again is given what they have in hand again, under the same fence, for a new time: a lost reply
//! costs nothing, and a long aggregation is renewed. One whose aggregator is silent for too long is taken again,
//! under a younger fence.

use serde::{Deserialize, Serialize};

use crate::limits::{CLAMPS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, TAKE_BULKS_MAX};
use crate::names::WorkerId;
use crate::numbers::{Fence, Micros, within};
use crate::queue::{BulkView, Machine};

use super::Invalid;

/// Takes bulk actions to be aggregated: what the worker has in hand, then the longest waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeCompleted {
    /// Who asks. Two that share a name are given the same bulk actions and both aggregate them, so a name is for one
    /// loop of one process; a worker's id has a random part.
    pub worker: WorkerId,
    /// At most this many, those in hand among them.
    pub bulks_max: usize,
    /// For how long, from now.
    pub lease_ms: u64,
}

/// A bulk action in an aggregator's hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBulk {
    /// As it stands.
    pub view: BulkView,
    /// To be shown when it is finished.
    pub fence: Fence,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedTaken {
    /// What may be aggregated now.
    pub bulks: Vec<TakenBulk>,
    /// When the next one can be taken.
    pub wake_in_us: Option<u64>,
}

impl TakeCompleted {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("the bulk actions of one take_completed", self.bulks_max as u64, 1, TAKE_BULKS_MAX as u64)?;
        within("the length of a lease in ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn take_completed(&mut self, command: TakeCompleted, now: Micros) -> CompletedTaken {
        self.lower_far_takes(now);
        let mut numbers = self.still_in_hand(&command.worker, now);
        numbers.truncate(command.bulks_max);
        let due = self.aggregating.range(..=(now, u64::MAX)).take(command.bulks_max - numbers.len());
        let due: Vec<u64> = due.map(|(_, number)| *number).collect();
        for &number in &due {
            self.let_go(number);
            let fence = self.next_fence(now);
            self.taken.insert((command.worker.clone(), number));
            let bulk = self.bulk_mut(number).expect("what is aggregating is there");
            (bulk.fence, bulk.worker) = (fence, Some(command.worker.clone()));
        }
        numbers.extend(due);
        let until = now.plus_ms(command.lease_ms);
        let mut bulks = Vec::with_capacity(numbers.len());
        for number in numbers {
            let bulk = self.bulk_mut(number).expect("what is in hand is there");
            let (fence, before) = (bulk.fence, bulk.take_at.replace(until));
            if let Some(before) = before {
                self.aggregating.remove(&(before, number));
            }
            self.aggregating.insert((until, number));
            bulks.push(TakenBulk { view: self.bulk_view(number), fence });
        }
        CompletedTaken { bulks, wake_in_us: self.aggregating.first().map(|(at, _)| at.since(now)) }
    }

    /// Gives every bulk action that is being aggregated back at once, for an owner that opens its state after a stop:
    /// the aggregators of its own process are gone. One that lives elsewhere and goes on is safe by its fence: it
    /// finishes first, or is told that it came too late.
    pub fn release_aggregations(&mut self) {
        let taken: Vec<u64> = self.taken.iter().map(|(_, number)| *number).collect();
        for number in taken {
            self.hand_out(number);
        }
    }

    /// What a worker has in hand. What has outlived its lease it has lost, though nobody has taken it yet.
    fn still_in_hand(&mut self, worker: &WorkerId, now: Micros) -> Vec<u64> {
        let range = (worker.clone(), 0)..=(worker.clone(), u64::MAX);
        let known = self.taken.range(range).take(TAKE_BULKS_MAX).map(|(_, number)| *number);
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

    /// After the clock stepped back: no aggregation's lease lies further ahead than it could have been given.
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
