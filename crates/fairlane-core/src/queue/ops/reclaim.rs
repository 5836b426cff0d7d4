//! `reclaim`: ends expired leases. A lost lease costs no attempt but counts towards its own limit.
//!
//! If `reclaim` has not run for a while, workers were probably disconnected, too. Then no lease
//! ends for a grace period, so that workers can extend first and an outage kills no jobs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{RECLAIM_GRACE_MS, RECLAIM_JOBS_MAX, RECLAIM_REQUESTS_FORGOTTEN, RECLAIM_STALE_MS};
use crate::numbers::{Fence, Micros};
use crate::queue::Machine;
use crate::queue::job::{End, JobKey, Run};

use super::settle::Ended;

/// Ends expired leases, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaim {
    /// No further batch is started once this many leases have ended.
    pub jobs_max: usize,
}

/// The reply to [`Reclaim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaimed {
    /// Jobs that are due again: at once, or in `classic` after a backoff.
    pub recovered: usize,
    /// Jobs that lost too many leases and are dead.
    pub dead: usize,
    /// Jobs that were cancelled.
    pub cancelled: usize,
    /// Microseconds until the end of the grace period, in which no lease ends.
    pub grace_us: Option<u64>,
}

impl Operation for Reclaim {
    type Machine = Machine;
    type Reply = Reclaimed;

    const STEM: &'static str = "reclaim";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the jobs of one reclaim", self.jobs_max, RECLAIM_JOBS_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Reclaimed {
        machine.reclaim(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn reclaim(&mut self, command: Reclaim, now: Micros) -> Reclaimed {
        self.forget_requests(RECLAIM_REQUESTS_FORGOTTEN, now);
        self.lower_far_deadlines(now);
        let stale = self.reclaimed_at.is_none_or(|at| at.plus_ms(RECLAIM_STALE_MS) < now);
        if stale {
            self.reclaim_grace_until = now.plus_ms(RECLAIM_GRACE_MS);
        }
        self.reclaimed_at = Some(now);
        self.reclaim_grace_until = self.reclaim_grace_until.min(now.plus_ms(RECLAIM_GRACE_MS));
        if now < self.reclaim_grace_until {
            let grace_us = Some(self.reclaim_grace_until.since(now));
            return Reclaimed { recovered: 0, dead: 0, cancelled: 0, grace_us };
        }
        let mut ended = Ended::default();
        let mut reclaimed = Reclaimed { recovered: 0, dead: 0, cancelled: 0, grace_us: None };
        while reclaimed.recovered + reclaimed.dead + reclaimed.cancelled < command.jobs_max {
            let Some(&(deadline, batch)) = self.deadlines.first() else { break };
            if deadline > now {
                break;
            }
            self.deadlines.pop_first();
            self.mark_batch(batch);
            let jobs = self.batches.get(&batch).expect("a deadline has a batch").jobs.clone();
            for (key, fence) in jobs {
                self.take_back(key, fence, batch, &mut ended, &mut reclaimed);
            }
        }
        self.record_ended(ended, now);
        reclaimed
    }

    /// Ends the lease of one job, if the deadline of this batch is still the current one.
    fn take_back(
        &mut self,
        key: JobKey,
        fence: Fence,
        batch: Fence,
        ended: &mut Ended,
        reclaimed: &mut Reclaimed,
    ) {
        let most = self.settings.max_loss_count;
        let Some(job) = self.jobs.get(key) else { return };
        let Some(held) = job.held_under(fence).filter(|held| held.batch == batch).cloned() else { return };
        let (group, type_key) = (job.group, job.type_key);
        let unwanted = self.is_unwanted(key);
        let run = self.jobs[key].run.get_or_insert_with(Run::none);
        run.worker = Some(held.worker.clone());
        run.losses += 1;
        let dead = run.losses > most;
        self.end_lease(&held);
        self.free_seats(group, type_key, 1);
        ended.touch(group, type_key);
        if dead {
            self.fail(key, Arc::from(&b"lost too many leases"[..]), ended);
            reclaimed.dead += 1;
        } else if unwanted {
            self.end_job(key, End::Cancelled, ended);
            reclaimed.cancelled += 1;
        } else {
            let delay_ms = self.congestion_delay_ms(key, false);
            self.wait_again(key, delay_ms, false, ended);
            self.push_token(type_key);
            reclaimed.recovered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LEASE_MS_MAX;
    use crate::names::WorkerId;
    use crate::numbers::RequestNumber;
    use crate::queue::{Command, Lease, Settings};

    const NOW: Micros = Micros(1_700_000_000_000_000);

    fn lease(machine: &mut Machine, worker: String, now: Micros) {
        let lease = Lease {
            worker: WorkerId::new(worker).unwrap(),
            request: RequestNumber(1),
            types: vec![],
            jobs_max: 1,
            lease_ms: 1000,
        };
        machine.apply(Command::Lease(lease), now);
        assert_eq!(machine.check(), Ok(()));
    }

    #[test]
    fn worker_names_are_forgotten_when_their_request_runs_out() {
        let mut machine = Machine::new(Settings::default(), crate::HashSeed::FIXED, NOW);
        for number in 0..1000 {
            lease(&mut machine, format!("old-{number}"), NOW);
        }
        let later = NOW.plus_ms(LEASE_MS_MAX);
        for number in 0..10 {
            lease(&mut machine, format!("new-{number}"), later);
        }
        assert_eq!(machine.requests.len(), 1000 - 10 * 2 + 10, "each forgets two and adds one");
        machine.apply(Command::Reclaim(Reclaim { jobs_max: 1 }), later);
        assert_eq!(machine.requests.len(), 490, "a reclaim forgets 500");
        machine.apply(Command::Reclaim(Reclaim { jobs_max: 1 }), later);
        assert_eq!(machine.requests.len(), 10);
        lease(&mut machine, "new-1".into(), later.plus_ms(1));
        assert_eq!(machine.requests.len(), 10, "a worker has one request");
    }
}
