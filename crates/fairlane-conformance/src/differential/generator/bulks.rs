//! Bulk actions with right, stale and wrong fences, and jobs selected by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairlane_core::queue::*;
use fairlane_core::{Fence, JobId};

use super::{BULKS, GROUPS, Generator, WORKERS};
use crate::subject::{START, bulk_ref, worker_id};

impl Generator {
    pub(super) fn bulk_ref(&mut self) -> BulkRef {
        bulk_ref(self.dice.pick(&GROUPS), self.dice.pick(&BULKS))
    }

    pub(super) fn bulk(&mut self) -> Command {
        let bulk = self.bulk_ref();
        match self.dice.below(40) {
            0..15 => self.open(bulk),
            15..21 => {
                let expected = self.dice.one_in(3).then(|| self.dice.below(4));
                Command::SealBulk(SealBulk { bulk, expected })
            }
            21..25 => Command::HoldBulk(HoldBulk { bulk }),
            25..29 => Command::ResumeBulk(ResumeBulk { bulk }),
            29..31 => Command::CancelBulk(CancelBulk { bulk }),
            31..35 => Command::LeaseBulks(LeaseBulks {
                worker: worker_id(self.dice.pick(&WORKERS)),
                bulks_max: 1 + self.dice.below(3) as usize,
                lease_ms: self.dice.pick(&[100, 500, 3000, 30_000]),
            }),
            _ => self.settle_bulk(),
        }
    }

    fn open(&mut self, bulk: BulkRef) -> Command {
        let payloads: [&[u8]; 4] = [b"", b"", b"a:b\nc", b"\x00\xff"];
        Command::OpenBulk(OpenBulk {
            bulk,
            deadline_ms: self.dice.one_in(4).then(|| self.dice.pick(&[1, 300, 2000, 10_000])),
            failures_max: self.dice.one_in(3).then(|| self.dice.below(3)),
            payload: Arc::from(self.dice.pick(&payloads)),
        })
    }

    /// Opens each group's first bulk action, without a deadline or failure limit.
    pub(super) fn open_for_flood(&mut self) -> Command {
        let group = GROUPS[self.drawn as usize - 2];
        let bulk = bulk_ref(group, BULKS[0]);
        Command::OpenBulk(OpenBulk { bulk, deadline_ms: None, failures_max: None, payload: [].into() })
    }

    /// Holds, cancels or leaves alone each group's first bulk action.
    pub(super) fn stop_flood(&mut self) -> Command {
        let bulk = bulk_ref(GROUPS[self.drawn as usize - 3 - GROUPS.len()], BULKS[0]);
        match self.dice.below(9) {
            0..4 => Command::HoldBulk(HoldBulk { bulk }),
            4..8 => Command::CancelBulk(CancelBulk { bulk }),
            _ => Command::ResumeBulk(ResumeBulk { bulk }),
        }
    }

    /// Mostly a leased bulk action, newest or older; sometimes a wrong fence, or one that was never
    /// leased.
    fn settle_bulk(&mut self) -> Command {
        let kind = self.dice.below(12);
        let summaries: [&[u8]; 3] = [b"", b"a:b\nc", b"\xfe\x00"];
        let summary = Arc::from(self.dice.pick(&summaries));
        let (bulk, fence) = if kind == 0 || self.leased_bulks.is_empty() {
            (self.bulk_ref(), Fence(self.dice.pick(&[0, 1, START.0])))
        } else {
            // The newest is the likeliest: an aggregator settles what it has just leased.
            let newest = self.leased_bulks.len() - 1;
            let at = if kind < 8 { newest } else { self.dice.below(newest as u64 + 1) as usize };
            self.leased_bulks[at].clone()
        };
        let fence = if kind == 1 { Fence(fence.0 + 1) } else { fence };
        let outcome = self.dice.pick(&[
            Aggregation::Done,
            Aggregation::Done,
            Aggregation::Failed,
            Aggregation::Released { delay_ms: 0 },
            Aggregation::Released { delay_ms: 1500 },
        ]);
        let callback = self.dice.one_in(2).then(|| self.callback());
        Command::SettleBulk(SettleBulk { bulk, fence, summary, outcome, callback })
    }

    /// Mostly a new job; sometimes with the id of a job that may exist.
    fn callback(&mut self) -> Callback {
        let NewJob { job, payload, trace, .. } = self.fresh_job();
        let id = if self.dice.one_in(4) {
            job.id
        } else {
            JobId::new(format!("c{}", self.dice.below(3))).expect("a valid id")
        };
        Callback { id, payload, trace }
    }

    pub(super) fn select_jobs(&mut self) -> Command {
        let kind = self.dice.below(8);
        let mut selected = BTreeSet::new();
        for _ in 0..self.dice.below(5) {
            let known = if kind < 4 { &self.held_jobs() } else { &self.failed };
            let one =
                if known.is_empty() || self.dice.one_in(2) { self.job_ref() } else { self.dice.pick(known) };
            selected.insert(one);
        }
        let jobs = selected.into_iter().collect();
        match kind {
            0..4 => Command::CancelJob(CancelJob { jobs }),
            4..6 => Command::RequeueDead(RequeueDead { jobs }),
            _ => Command::Discard(Discard { jobs }),
        }
    }

    fn held_jobs(&self) -> Vec<JobRef> {
        self.held.iter().map(|(job, _)| job.clone()).collect()
    }

    pub(super) fn make_due(&mut self) -> Command {
        let cursor = if self.dice.one_in(3) { self.due_cursor } else { self.dice.below(3) };
        Command::MakeDue(MakeDue {
            group: self.dice.one_in(2).then(|| self.group_id()),
            cursor,
            jobs_max: 1 + self.dice.below(8) as usize,
        })
    }
}
