//! What `classic` does by the clock: jobs leave their lanes to be decided on at one interval, and come back from
//! their backoff at another. Both intervals count from the start of the run.
//!
//! The ticks go on while something may come of them. A run whose last jobs belong to a group that is paused for
//! ever would otherwise never end.

use fairlane_core::queue::{Admit, Command, Destination, Promote, Reply};

use super::{Event, Simulation};

/// Which ticks are planned.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    admit: bool,
    promote: bool,
    /// Whether the ticks of this moment moved a job.
    moved: bool,
}

impl Simulation<'_> {
    pub(super) fn start_ticking(&mut self) {
        if self.part.is_classic() {
            self.plan_ticks(0, 0);
        }
    }

    pub(super) fn admit(&mut self) {
        self.ticks.admit = false;
        let jobs_max = self.part.classic.fetch_batch_size;
        let Reply::Admitted(admitted) = self.apply(Command::Admit(Admit { jobs_max })) else {
            unreachable!("an admit is answered in kind")
        };
        let refused =
            admitted.admissions.iter().filter(|it| matches!(it.destination, Destination::Waiting(_)));
        self.measure.set_aside += refused.count() as u64;
        self.ticks.moved |= !admitted.admissions.is_empty();
    }

    pub(super) fn promote(&mut self) {
        self.ticks.promote = false;
        let jobs_max = self.part.classic.dispatch_batch_size;
        let Reply::Promoted(promoted) = self.apply(Command::Promote(Promote { jobs_max })) else {
            unreachable!("a promote is answered in kind")
        };
        self.ticks.moved |= promoted.moved > 0;
    }

    /// Plans the next ticks, unless nothing can come of them.
    pub(super) fn keep_ticking(&mut self) {
        if !self.part.is_classic() {
            return;
        }
        let moved = std::mem::take(&mut self.ticks.moved);
        let ticks = usize::from(self.ticks.admit) + usize::from(self.ticks.promote);
        let something_else = self.events.len() > ticks;
        if !moved && !something_else && self.waiting() == 0 {
            return;
        }
        let classic = &self.part.classic;
        self.plan_ticks(
            self.next_tick_us(classic.fetch_interval_us),
            self.next_tick_us(classic.dispatch_interval_us),
        );
    }

    fn plan_ticks(&mut self, admit_us: u64, promote_us: u64) {
        if !std::mem::replace(&mut self.ticks.promote, true) {
            self.plan(promote_us, Event::Promote);
        }
        if !std::mem::replace(&mut self.ticks.admit, true) {
            self.plan(admit_us, Event::Admit);
        }
    }

    fn next_tick_us(&self, interval_us: u64) -> u64 {
        (self.now_us / interval_us + 1) * interval_us
    }
}
