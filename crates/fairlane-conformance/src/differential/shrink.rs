//! Fewer steps that still diverge: pieces are left out as long as what is left does.
//!
//! Steps are explicit, fences included, and fences follow the clock; so most of what is left out changes
//! nothing for the rest. The number of replays is bounded: a short list is easier to read, but proves no more.

use fairlane_core::queue::Command;

use super::replay::Arena;
use super::{Deed, Difference, Step};

const REPLAYS_MAX: usize = 1_000;

/// The shortest list found, and its difference.
pub(super) async fn shrink(
    arena: &Arena,
    steps: Vec<Step>,
    difference: Difference,
) -> (Vec<Step>, Difference) {
    let mut search = Search { arena, replays: 0, best: steps, difference };
    // A difference that does not come again cannot be shrunk; the steps are told as they were.
    if search.attempt(search.best.clone()).await {
        loop {
            let before = search.size();
            search.leave_out_steps().await;
            search.leave_out_parts().await;
            if search.size() == before || !search.may_go_on() {
                break;
            }
        }
    }
    (search.best, search.difference)
}

struct Search<'a> {
    arena: &'a Arena,
    replays: usize,
    best: Vec<Step>,
    difference: Difference,
}

impl Search<'_> {
    /// Plays these steps; if they diverge they are the best so far.
    async fn attempt(&mut self, mut steps: Vec<Step>) -> bool {
        self.replays += 1;
        let Some(difference) = self.arena.start().await.play(&steps).await else { return false };
        steps.truncate(difference.steps);
        (self.best, self.difference) = (steps, difference);
        true
    }

    /// Steps and their parts.
    fn size(&self) -> usize {
        self.best.iter().map(|step| parts(&step.deed)).sum()
    }

    fn may_go_on(&self) -> bool {
        self.replays < REPLAYS_MAX
    }

    /// Halves, then quarters, and so on down to single steps.
    async fn leave_out_steps(&mut self) {
        let mut piece = self.best.len() / 2;
        while piece > 0 {
            let mut from = 0;
            while from < self.best.len() && self.may_go_on() {
                let mut fewer = self.best.clone();
                fewer.drain(from..(from + piece).min(fewer.len()));
                if !self.attempt(fewer).await {
                    from += piece;
                }
            }
            piece /= 2;
        }
    }

    /// Jobs of one enqueue, settlements of one settle, leases of one extend, jobs that were picked.
    async fn leave_out_parts(&mut self) {
        let mut at = 0;
        while at < self.best.len() {
            let mut part = 0;
            while self.may_go_on() {
                let mut smaller = self.best.clone();
                if !leave_out(&mut smaller[at].deed, part) {
                    break;
                }
                if !self.attempt(smaller).await {
                    part += 1;
                }
                if at >= self.best.len() {
                    return;
                }
            }
            at += 1;
        }
    }
}

fn parts(deed: &Deed) -> usize {
    match deed {
        Deed::Command(Command::Enqueue(command)) => 1 + command.jobs.len(),
        Deed::Command(Command::Settle(command)) => 1 + command.settlements.len(),
        Deed::Command(Command::Extend(command)) => 1 + command.leases.len(),
        Deed::Command(Command::Lease(command)) => 1 + command.types.len(),
        Deed::Command(Command::CancelJob(command)) => 1 + command.jobs.len(),
        Deed::Command(Command::RequeueDead(command)) => 1 + command.jobs.len(),
        Deed::Command(Command::Discard(command)) => 1 + command.jobs.len(),
        _ => 1,
    }
}

/// Takes one part out of a deed that has several; false if there is no such part.
fn leave_out(deed: &mut Deed, part: usize) -> bool {
    fn remove<T>(parts: &mut Vec<T>, part: usize) -> bool {
        let several = parts.len() > 1 && part < parts.len();
        if several {
            parts.remove(part);
        }
        several
    }
    match deed {
        Deed::Command(Command::Enqueue(command)) => remove(&mut command.jobs, part),
        Deed::Command(Command::Settle(command)) => remove(&mut command.settlements, part),
        Deed::Command(Command::Extend(command)) => remove(&mut command.leases, part),
        Deed::Command(Command::Lease(command)) => remove(&mut command.types, part),
        Deed::Command(Command::CancelJob(command)) => remove(&mut command.jobs, part),
        Deed::Command(Command::RequeueDead(command)) => remove(&mut command.jobs, part),
        Deed::Command(Command::Discard(command)) => remove(&mut command.jobs, part),
        _ => false,
    }
}
