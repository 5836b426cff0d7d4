//! The owner thread: the only one that touches the machine.
//!
//! A turn takes all requests that are queued, applies them, keeps what they changed, and only then answers.

use std::slice;
use std::sync::mpsc::{self, RecvTimeoutError};

use fairlane_core::queue::{Command, Inspect, Machine, Outcome, Reply};
use fairlane_core::{Micros, TypeId};
use tokio::sync::{oneshot, watch};

use super::OwnClock;
use super::keeper::{Keeper, Unkept};
use crate::engine::EngineError;
use crate::waiters::{Place, Waiters, Woken};

/// Most requests of one turn; the first of them waits no longer than the others take.
const TURN_REQUESTS_MAX: usize = 1024;
/// And most jobs: a turn ends with the request that reaches it, after about a millisecond.
const TURN_JOBS_MAX: usize = 1000;
/// Payloads and notes of one turn; what is written at once must fit into what a full disk has kept back.
const TURN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What a caller can ask of the owner.
pub(super) enum Request {
    /// Carry out a command that is valid.
    Execute { command: Command, reply: oneshot::Sender<Result<Reply, EngineError>> },
    /// Say when something of these types may be servable.
    Wait { place: Place, types: Vec<TypeId>, woken: oneshot::Sender<Woken> },
    /// Wait no longer; a token may have come too late.
    Leave { place: Place, late: Option<TypeId> },
    /// Say whether changes are taken.
    CheckWrites { reply: oneshot::Sender<Result<(), EngineError>> },
    /// Look at the machine.
    Look(Look),
    /// Say where the owner can be talked to.
    Announce { address: String, reply: oneshot::Sender<Result<(), EngineError>> },
}

/// What someone wants to see of the machine.
pub(super) type Look = Box<dyn FnOnce(&Machine, Micros) + Send>;

/// A command that was carried out, or refused.
struct Answer {
    reply: oneshot::Sender<Result<Reply, EngineError>>,
    outcome: Result<Reply, EngineError>,
    /// The command, if it may have to be carried out again.
    command: Option<Command>,
    /// Whether it changes nothing.
    looks: bool,
}

/// The owner's belongings.
pub(super) struct Owner {
    pub machine: Machine,
    pub keeper: Keeper,
    pub clock: OwnClock,
    /// Tells why nothing more can be done; dropped when the thread ends, also by a panic.
    pub lost: watch::Sender<Option<EngineError>>,
}

impl Owner {
    /// Serves until every sender is gone.
    pub fn run(mut self, queued: &mpsc::Receiver<Request>) {
        let mut waiters = Waiters::default();
        while let Some(first) = self.next_request(queued) {
            let mut answers = Vec::new();
            let (mut jobs, mut bytes) = (0, 0);
            let more = queued.try_iter().take(TURN_REQUESTS_MAX - 1);
            for request in std::iter::once(first).chain(more) {
                match request {
                    Request::Execute { command, reply } => {
                        jobs += jobs_of(&command);
                        bytes += weight(&command);
                        answers.extend(self.answer(command, reply));
                    }
                    Request::Wait { place, types, woken } => waiters.add(place, types, woken),
                    Request::Leave { place, late } => waiters.leave(place, late),
                    Request::Look(look) => look(&self.machine, self.clock.now()),
                    Request::CheckWrites { reply } => {
                        // Who asked may have gone.
                        let _ = reply.send(self.keeper.check_writes());
                    }
                    Request::Announce { address, reply } => {
                        // Who announces and does not wait for the answer does not care.
                        let _ = reply.send(self.keeper.announce(&address));
                    }
                }
                if jobs >= TURN_JOBS_MAX || bytes >= TURN_BYTES_MAX {
                    break;
                }
            }
            self.end_turn(answers);
            self.wake(&mut waiters);
        }
        self.keeper.close(&mut self.machine);
    }

    /// Gives tokens to those who wait for their types; nothing here depends on how many wait.
    fn wake(&mut self, waiters: &mut Waiters) {
        if waiters.is_empty() {
            return;
        }
        let wanted = self.machine.types_with_tokens().filter(|type_id| waiters.wait_for(type_id));
        for type_id in wanted.cloned().collect::<Vec<_>>() {
            while waiters.wait_for(&type_id) && self.machine.take_token(slice::from_ref(&type_id)).is_some() {
                waiters.give(&type_id);
            }
        }
    }

    /// The next request; none when there will be no more.
    fn next_request(&mut self, queued: &mpsc::Receiver<Request>) -> Option<Request> {
        loop {
            let Some(patience) = self.keeper.patience() else { return queued.recv().ok() };
            match queued.recv_timeout(patience) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Timeout) => self.keeper.rest(&mut self.machine),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Carries out a command; not one that only looks for somebody who has gone.
    fn answer(
        &mut self,
        command: Command,
        reply: oneshot::Sender<Result<Reply, EngineError>>,
    ) -> Option<Answer> {
        let looks = matches!(command, Command::Inspect(_) | Command::ListJobs(_) | Command::Explain(_));
        if looks && reply.is_closed() {
            return None;
        }
        if !looks && let Some(error) = self.keeper.refusal(&command) {
            return Some(Answer { reply, outcome: Err(error), command: None, looks });
        }
        let again = (looks || self.keeper.may_ask_again()).then(|| command.clone());
        let outcome = Ok(self.machine.apply(command, self.clock.now()));
        Some(Answer { reply, outcome, command: again, looks })
    }

    fn end_turn(&mut self, answers: Vec<Answer>) {
        let kept = if answers.is_empty() { Ok(()) } else { self.keeper.keep(&mut self.machine) };
        for Answer { reply, mut outcome, command, looks } in answers {
            outcome = match (&kept, command) {
                (Ok(()), _) => outcome,
                (Err(_), Some(command)) if looks => Ok(self.machine.apply(command, self.clock.now())),
                (Err(Unkept::Value(_)), Some(command)) => self.carry_out_alone(command),
                (Err(unkept), _) => outcome.and(Err(unkept.error().clone())),
            };
            // A caller that has gone repeats its command if it cares.
            let _ = reply.send(outcome);
        }
        if let Some(error) = self.keeper.lost() {
            // The receiver may be gone.
            let _ = self.lost.send(Some(error.clone()));
        }
    }

    /// Carries out a command whose turn was undone because of a value that cannot be stored: that of this
    /// command, which is then refused, or that of another.
    fn carry_out_alone(&mut self, command: Command) -> Result<Reply, EngineError> {
        if let Some(error) = self.keeper.refusal(&command) {
            return Err(error);
        }
        let reply = self.machine.apply(command, self.clock.now());
        self.keeper.keep(&mut self.machine).map_err(|unkept| unkept.error().clone())?;
        Ok(reply)
    }
}

/// Jobs that a command is about at most, as far as it says; what it takes grows with them.
pub fn jobs_of(command: &Command) -> usize {
    match command {
        Command::Enqueue(enqueue) => enqueue.jobs.len(),
        Command::Settle(settle) => settle.settlements.len(),
        Command::Extend(extend) => extend.leases.len(),
        Command::CancelJob(cancel) => cancel.jobs.len(),
        Command::RequeueDead(requeue) => requeue.jobs.len(),
        Command::Discard(discard) => discard.jobs.len(),
        Command::Lease(lease) => lease.jobs_max,
        Command::ListJobs(list) => list.limit,
        Command::MakeDue(make_due) => make_due.jobs_max,
        Command::Inspect(
            Inspect::Groups { limit, .. } | Inspect::Bulks { limit, .. } | Inspect::History { limit, .. },
        ) => *limit,
        _ => 1,
    }
}

/// Bytes that a command brings along.
fn weight(command: &Command) -> usize {
    match command {
        Command::Enqueue(enqueue) => enqueue.jobs.iter().map(|job| job.payload.len()).sum(),
        Command::Settle(settle) => settle.settlements.iter().map(|end| note(&end.outcome)).sum(),
        Command::OpenBulk(open) => open.payload.len(),
        Command::FinishBulk(finish) => finish.summary.len(),
        _ => 0,
    }
}

fn note(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Succeeded { result: note } | Outcome::Failed { reason: note } => note.len(),
        Outcome::Cancelled { reason } | Outcome::Retry { reason, .. } => reason.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::HashSeed;
    use fairlane_core::queue::Settings;

    use super::*;
    use crate::Clock;

    #[test]
    fn a_look_for_somebody_who_has_gone_is_not_carried_out_and_a_change_is() {
        let clock = OwnClock::new(Clock::System, Micros(0));
        let machine = Machine::new(Settings::default(), HashSeed::FIXED, clock.now());
        let mut owner = Owner { machine, keeper: Keeper::Memory, clock, lost: watch::Sender::default() };
        let mut answer = |command: Command, has_gone: bool| {
            let (reply, replied) = oneshot::channel();
            let kept = (!has_gone).then_some(replied);
            let answered = owner.answer(command, reply).is_some();
            drop(kept);
            answered
        };
        assert!(answer(Command::Inspect(Inspect::Whole), false));
        assert!(!answer(Command::Inspect(Inspect::Whole), true));
        assert!(answer(Command::Promote(fairlane_core::queue::Promote { jobs_max: 1 }), true));
    }
}
