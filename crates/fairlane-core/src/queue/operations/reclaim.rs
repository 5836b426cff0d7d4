//! `reclaim`: leases that ran out are taken back. A lost lease costs no attempt but has its own cap.
//!
//! When nothing has reclaimed for a while, everybody was probably cut off: then nothing is taken
//! for a grace period, so that workers can extend first and an outage kills no jobs.

use std::sync::Arc;

use crate::limits::{RECLAIM_GRACE_MS, RECLAIM_JOBS_MAX, RECLAIM_STALE_MS};
use crate::numbers::{Micros, within};
use crate::queue::Machine;
use crate::queue::lane::{GroupKey, TypeKey};

use super::Invalid;

/// Takes back leases that ran out, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaim {
    /// At most this many.
    pub jobs_max: usize,
}

/// The reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclaimed {
    /// Jobs that are due again.
    pub recovered: usize,
    /// Jobs that had lost too many leases and are dead.
    pub dead: usize,
    /// Nothing is taken back before this time.
    pub grace_until: Option<Micros>,
}

impl Reclaim {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("the jobs of one reclaim", self.jobs_max as u64, 1, RECLAIM_JOBS_MAX as u64)?;
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn reclaim(&mut self, command: Reclaim, now: Micros) -> Reclaimed {
        self.requests.retain(|_, request| request.until > now);
        self.lower_far_deadlines(now);
        let stale = self.reclaimed_at.is_none_or(|at| at.plus_ms(RECLAIM_STALE_MS) < now);
        if stale {
            self.reclaim_grace_until = now.plus_ms(RECLAIM_GRACE_MS);
        }
        self.reclaimed_at = Some(now);
        self.reclaim_grace_until = self.reclaim_grace_until.min(now.plus_ms(RECLAIM_GRACE_MS));
        if now < self.reclaim_grace_until {
            return Reclaimed { recovered: 0, dead: 0, grace_until: Some(self.reclaim_grace_until) };
        }
        let mut touched: Vec<(GroupKey, TypeKey)> = Vec::new();
        let mut reclaimed = Reclaimed { recovered: 0, dead: 0, grace_until: None };
        for _ in 0..command.jobs_max {
            let Some(first) = self.in_flight.first_entry() else { break };
            if first.key().0 > now {
                break;
            }
            let key = first.remove();
            let most = self.settings.max_loss_count;
            let job = &mut self.jobs[key];
            let (group, type_key) = (job.group, job.type_key);
            let run = job.run.as_mut().expect("a leased job has a run");
            run.losses += 1;
            run.attempts -= 1;
            let dead = run.losses > most;
            self.free_seats(group, type_key, 1);
            if !touched.contains(&(group, type_key)) {
                touched.push((group, type_key));
            }
            if dead {
                self.finish(key, false, Arc::from(&b"lost too many leases"[..]), now);
                reclaimed.dead += 1;
            } else {
                self.wait_again(key, now);
                self.push_token(type_key);
                reclaimed.recovered += 1;
            }
        }
        self.wake_for_freed_seats(&touched);
        reclaimed
    }
}
