//! The owner thread: the only one that touches the machine.

use std::sync::mpsc;

use fairlane_core::queue::{Command, Machine, Reply};
use fairlane_core::{Micros, TypeId};
use tokio::sync::oneshot;

use crate::clock::Clock;

use super::waiters::Waiters;

/// Most requests of one turn; the first of them waits no longer than the others take.
const TURN_REQUESTS_MAX: usize = 1024;

/// What a caller can ask of the owner.
pub(super) enum Request {
    /// Carry out a command that is valid.
    Execute { command: Command, reply: oneshot::Sender<Reply> },
    /// Say when something of these types may be servable.
    Wait { types: Vec<TypeId>, token: oneshot::Sender<TypeId> },
    /// A token that came too late for its waiter.
    GiveBack(TypeId),
    /// Look at the machine.
    Look(Look),
}

/// What someone wants to see of the machine.
pub(super) type Look = Box<dyn FnOnce(&Machine, Micros) + Send>;

/// Serves until every sender is gone.
pub(super) fn run(mut machine: Machine, clock: &Clock, queued: &mpsc::Receiver<Request>) {
    let mut waiters = Waiters::default();
    let mut replies = Vec::new();
    while let Ok(first) = queued.recv() {
        let turn = std::iter::once(first).chain(queued.try_iter()).take(TURN_REQUESTS_MAX);
        for request in turn {
            match request {
                Request::Execute { command, reply } => {
                    replies.push((reply, machine.apply(command, clock.now())));
                }
                Request::Wait { types, token } => waiters.add(types, token),
                Request::GiveBack(type_id) => waiters.give_back(type_id),
                Request::Look(look) => look(&machine, clock.now()),
            }
        }
        for (reply, answer) in replies.drain(..) {
            // A caller that has gone repeats its command if it cares.
            let _ = reply.send(answer);
        }
        waiters.wake(&mut machine);
    }
}
