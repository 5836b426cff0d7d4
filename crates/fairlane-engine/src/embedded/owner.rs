//! The owner thread: the only thread that accesses the machines.
//!
//! A turn receives all queued requests, applies them, persists their changes and only then replies.

use std::sync::mpsc::{self, RecvTimeoutError};

use fairlane_core::{Command, Machines, Micros, ProcessId, Reply, TypeId};
use tokio::sync::{oneshot, watch};

use super::OwnClock;
use super::persistence::{NotPersisted, Persistence};
use crate::engine::EngineError;
use crate::signals::{Signals, Subscribers};
use crate::waiters::{Submission, Then, WaiterId, Waiters};

/// Most requests of one turn, which bounds the wait of the first one.
const TURN_REQUESTS_MAX: usize = 1024;
/// Jobs after which a turn ends, which takes about a millisecond.
const TURN_JOBS_MAX: usize = 1000;
/// Bytes of payloads and notes after which a turn ends: one write must fit into the
/// reserved disk space.
const TURN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A request to the owner.
pub(super) enum Request {
    /// Apply a validated command.
    Submit(Submission),
    /// Send a wake-up, or apply a command, when jobs of these types may be available.
    Wait { waiter: WaiterId, types: Vec<TypeId>, then: Then },
    /// Remove a waiter; `late` is a token that it received too late.
    Leave { waiter: WaiterId, late: Option<TypeId> },
    /// Send the signals to a process.
    Subscribe { process: ProcessId, reply: oneshot::Sender<Signals> },
    /// Report whether changes are accepted.
    CheckWrites { reply: oneshot::Sender<Result<(), EngineError>> },
    /// Read the machines.
    Read(ReadMachines),
    /// Record where the owner can be reached.
    Announce { address: String, reply: oneshot::Sender<Result<(), EngineError>> },
}

/// A function that reads the machines.
pub(super) type ReadMachines = Box<dyn FnOnce(&Machines, Micros) + Send>;

/// The reply to a command that was applied or refused, sent once its changes are persisted.
struct PendingReply {
    reply: oneshot::Sender<Result<Reply, EngineError>>,
    outcome: Result<Reply, EngineError>,
    /// The command, if it may have to be applied again.
    command: Option<Command>,
    /// Whether the command is read-only.
    reads: bool,
}

/// The commands of a turn, in the order in which they were applied, and their weight.
#[derive(Default)]
struct Turn {
    replies: Vec<PendingReply>,
    jobs: usize,
    bytes: usize,
}

impl Turn {
    fn is_full(&self) -> bool {
        self.jobs >= TURN_JOBS_MAX || self.bytes >= TURN_BYTES_MAX
    }
}

/// The state of the owner thread.
pub(super) struct Owner {
    pub machines: Machines,
    pub persistence: Box<dyn Persistence>,
    pub clock: OwnClock,
    /// Publishes why the owner cannot continue; dropped when the thread ends, also by a panic.
    pub lost: watch::Sender<Option<EngineError>>,
}

impl Owner {
    /// Serves requests until every sender is dropped.
    pub fn run(mut self, queued: &mpsc::Receiver<Request>) {
        let (mut waiters, mut subscribers) = (Waiters::default(), Subscribers::default());
        while let Some(first) = self.next_request(queued) {
            let mut turn = Turn::default();
            let more = queued.try_iter().take(TURN_REQUESTS_MAX - 1);
            for request in std::iter::once(first).chain(more) {
                match request {
                    Request::Submit(submission) => self.apply_in(&mut turn, submission),
                    Request::Wait { waiter, types, then } => waiters.add(waiter, types, then),
                    Request::Leave { waiter, late } => waiters.leave(waiter, late),
                    Request::Subscribe { process, reply } => {
                        // The caller may have been dropped.
                        let _ = reply.send(subscribers.add(process));
                    }
                    Request::Read(read) => read(&self.machines, self.clock.now()),
                    Request::CheckWrites { reply } => {
                        // The caller may have been dropped.
                        let _ = reply.send(self.persistence.check_writes());
                    }
                    Request::Announce { address, reply } => {
                        // The caller may have been dropped.
                        let _ = reply.send(self.persistence.announce(&address));
                    }
                }
                if turn.is_full() {
                    break;
                }
            }
            while self.serve_waiters(&mut waiters, &mut turn) {
                self.end_turn(std::mem::take(&mut turn));
            }
            self.end_turn(turn);
            self.machines.take_signals().into_iter().for_each(|signal| subscribers.send(signal));
        }
        self.persistence.close(&mut self.machines);
    }

    /// Passes tokens to waiters and applies the commands of those that brought one, which may produce
    /// further tokens. True if the turn is full and has to end before this goes on.
    fn serve_waiters(&mut self, waiters: &mut Waiters, turn: &mut Turn) -> bool {
        loop {
            self.wake(waiters);
            let Some(submission) = waiters.next_submission() else { return false };
            self.apply_in(turn, submission);
            if turn.is_full() {
                return true;
            }
        }
    }

    fn apply_in(&mut self, turn: &mut Turn, submission: Submission) {
        let weight = submission.command.weight();
        turn.jobs += weight.jobs;
        turn.bytes += weight.bytes;
        turn.replies.extend(self.apply(submission));
    }

    /// Passes tokens to waiters for their types. The cost does not depend on the number of waiters.
    fn wake(&mut self, waiters: &mut Waiters) {
        if waiters.is_empty() {
            return;
        }
        let wanted = self.machines.types_with_tokens().filter(|type_id| waiters.wait_for(type_id));
        for type_id in wanted.cloned().collect::<Vec<_>>() {
            while waiters.wait_for(&type_id) && self.machines.take_token(&type_id) {
                waiters.give(&type_id);
            }
        }
    }

    /// The next request; `None` after the last one.
    fn next_request(&mut self, queued: &mpsc::Receiver<Request>) -> Option<Request> {
        loop {
            let Some(timeout) = self.persistence.idle_timeout() else { return queued.recv().ok() };
            match queued.recv_timeout(timeout) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Timeout) => self.persistence.run_idle_work(&mut self.machines),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Applies a command, unless it is read-only and its caller was dropped.
    fn apply(&mut self, Submission { command, reply }: Submission) -> Option<PendingReply> {
        let reads = command.is_read_only();
        if reads && reply.is_closed() {
            return None;
        }
        if !reads && let Some(error) = self.persistence.refusal(&command) {
            return Some(PendingReply { reply, outcome: Err(error), command: None, reads });
        }
        let again = (reads || self.persistence.may_ask_again()).then(|| command.clone());
        let outcome = Ok(self.apply_to_machine(command));
        Some(PendingReply { reply, outcome, command: again, reads })
    }

    /// Persists the changes of a turn, and replies.
    fn end_turn(&mut self, Turn { replies, .. }: Turn) {
        let persisted =
            if replies.is_empty() { Ok(()) } else { self.persistence.persist(&mut self.machines) };
        for PendingReply { reply, mut outcome, command, reads } in replies {
            outcome = match (&persisted, command) {
                (Ok(()), _) => outcome,
                (Err(_), Some(command)) if reads => Ok(self.apply_to_machine(command)),
                (Err(NotPersisted::Value(_)), Some(command)) => self.carry_out_alone(command),
                (Err(not_persisted), _) => outcome.and(Err(not_persisted.error().clone())),
            };
            // A caller that was dropped repeats its command if it needs the reply.
            let _ = reply.send(outcome);
        }
        if let Some(error) = self.persistence.lost() {
            // The receiver may have been dropped.
            let _ = self.lost.send(Some(error.clone()));
        }
    }

    fn apply_to_machine(&mut self, command: Command) -> Reply {
        self.machines.apply(command, self.clock.now())
    }

    /// Applies a command of a turn that was undone because of a value that cannot be stored. If the
    /// value belongs to this command, the command is refused.
    fn carry_out_alone(&mut self, command: Command) -> Result<Reply, EngineError> {
        if let Some(error) = self.persistence.refusal(&command) {
            return Err(error);
        }
        let reply = self.apply_to_machine(command);
        self.persistence
            .persist(&mut self.machines)
            .map_err(|not_persisted| not_persisted.error().clone())?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::HashSeed;
    use fairlane_core::kernel::Registered;
    use fairlane_core::queue::{InspectQueue, Promote};

    use super::super::persistence::InMemory;
    use super::*;
    use crate::Clock;

    #[test]
    fn a_read_whose_caller_has_gone_is_skipped_and_a_change_is_applied() {
        let clock = OwnClock::new(Clock::System, Micros(0));
        let machines = Machines::new(HashSeed::FIXED, clock.now());
        let mut owner =
            Owner { machines, persistence: Box::new(InMemory), clock, lost: watch::Sender::default() };
        let mut is_applied = |command: Command, has_gone: bool| {
            let (reply, replied) = oneshot::channel();
            let caller = (!has_gone).then_some(replied);
            let is_applied = owner.apply(Submission { command, reply }).is_some();
            drop(caller);
            is_applied
        };
        assert!(is_applied(InspectQueue.into_command(), false));
        assert!(!is_applied(InspectQueue.into_command(), true));
        assert!(is_applied(Promote { jobs_max: 1 }.into_command(), true));
    }
}
