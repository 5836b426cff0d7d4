//! The timers of `classic`: jobs leave their lanes to be admitted or refused at one interval, and
//! return from their backoff at another. Both intervals count from the start of the run.
//!
//! The timers run as long as a tick can have an effect. Otherwise a run whose last jobs belong to a
//! group that is paused for ever would never end.

use fairlane_core::queue::{Admit, Destination, Promote};

use super::{Event, Simulation};

/// The ticks that are planned.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    admit: bool,
    promote: bool,
    /// Whether the ticks at this time moved a job.
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
        let admitted = self.call(Admit { jobs_max });
        let refused =
            admitted.admissions.iter().filter(|it| matches!(it.destination, Destination::Waiting(_)));
        self.measure.set_aside += refused.count() as u64;
        self.ticks.moved |= !admitted.admissions.is_empty();
    }

    pub(super) fn promote(&mut self) {
        self.ticks.promote = false;
        let jobs_max = self.part.classic.dispatch_batch_size;
        let promoted = self.call(Promote { jobs_max });
        self.ticks.moved |= promoted.moved > 0;
    }

    /// Plans the next ticks, unless they can have no effect.
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
