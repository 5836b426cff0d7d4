//! Shrinks a divergence: removes pieces as long as the remaining steps still diverge.
//!
//! Steps are explicit, fences included, and fences follow the clock; so removing a step changes
//! little for the others. The number of replays is bounded.

use fairlane_core::queue::Command;

use super::replay::Backend;
use super::{Action, Difference, Step};

/// The shortest list found, and its difference.
pub(super) async fn shrink(
    backend: &Backend,
    replays_max: usize,
    steps: Vec<Step>,
    difference: Difference,
) -> (Vec<Step>, Difference) {
    let mut search = Search { backend, replays_max, replays: 0, best: steps, difference };
    // A difference that does not recur cannot be shrunk; the steps are then reported unchanged.
    if search.may_go_on() && search.attempt(search.best.clone()).await {
        loop {
            let before = search.size();
            search.remove_steps().await;
            search.remove_parts().await;
            if search.size() == before || !search.may_go_on() {
                break;
            }
        }
    }
    (search.best, search.difference)
}

struct Search<'a> {
    backend: &'a Backend,
    replays_max: usize,
    replays: usize,
    best: Vec<Step>,
    difference: Difference,
}

impl Search<'_> {
    /// Runs these steps, and keeps them as the best so far if they diverge.
    async fn attempt(&mut self, mut steps: Vec<Step>) -> bool {
        self.replays += 1;
        let Some(difference) = self.backend.start().await.run(&steps).await else { return false };
        steps.truncate(difference.steps);
        (self.best, self.difference) = (steps, difference);
        true
    }

    /// The number of steps and their parts.
    fn size(&self) -> usize {
        self.best.iter().map(|step| parts(&step.action)).sum()
    }

    fn may_go_on(&self) -> bool {
        self.replays < self.replays_max
    }

    /// Removes halves, then quarters, and so on down to single steps.
    async fn remove_steps(&mut self) {
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

    /// Removes jobs of one enqueue, settlements of one settle, leases of one extend, jobs selected
    /// by name.
    async fn remove_parts(&mut self) {
        let mut at = 0;
        while at < self.best.len() {
            let mut part = 0;
            while self.may_go_on() {
                let mut smaller = self.best.clone();
                if !remove_part(&mut smaller[at].action, part) {
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

fn parts(action: &Action) -> usize {
    match action {
        Action::Command(Command::Enqueue(command)) => 1 + command.jobs.len(),
        Action::Command(Command::Settle(command)) => 1 + command.settlements.len(),
        Action::Command(Command::Extend(command)) => 1 + command.leases.len(),
        Action::Command(Command::ReportProgress(command)) => 1 + command.reports.len(),
        Action::Command(Command::Lease(command)) => 1 + command.types.len(),
        Action::Command(Command::CancelJob(command)) => 1 + command.jobs.len(),
        Action::Command(Command::RequeueDead(command)) => 1 + command.jobs.len(),
        Action::Command(Command::Discard(command)) => 1 + command.jobs.len(),
        _ => 1,
    }
}

/// Removes one part of an action that has several; false if there is no such part.
fn remove_part(action: &mut Action, part: usize) -> bool {
    fn remove<T>(parts: &mut Vec<T>, part: usize) -> bool {
        let several = parts.len() > 1 && part < parts.len();
        if several {
            parts.remove(part);
        }
        several
    }
    match action {
        Action::Command(Command::Enqueue(command)) => remove(&mut command.jobs, part),
        Action::Command(Command::Settle(command)) => remove(&mut command.settlements, part),
        Action::Command(Command::Extend(command)) => remove(&mut command.leases, part),
        Action::Command(Command::ReportProgress(command)) => remove(&mut command.reports, part),
        Action::Command(Command::Lease(command)) => remove(&mut command.types, part),
        Action::Command(Command::CancelJob(command)) => remove(&mut command.jobs, part),
        Action::Command(Command::RequeueDead(command)) => remove(&mut command.jobs, part),
        Action::Command(Command::Discard(command)) => remove(&mut command.jobs, part),
        _ => false,
    }
}
