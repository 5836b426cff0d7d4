//! Who waits for work, and how wake-up tokens reach them.
//!
//! Invariant: a token ends with a waiter that was there to take it. One that reaches a waiter too late
//! (it timed out, or was dropped) comes back and goes to the next.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc;
use std::time::Duration;

use fairlane_core::TypeId;
use fairlane_core::queue::Machine;
use tokio::sync::oneshot;

use super::owner::Request;

struct Waiter {
    types: Vec<TypeId>,
    token: oneshot::Sender<TypeId>,
}

/// The owner's side: waiters in the order they came.
#[derive(Default)]
pub(super) struct Waiters {
    queue: VecDeque<Waiter>,
    /// Types with a token that came back. One of each is enough: who leases all it asked for and leaves
    /// more makes the machine push another.
    returned: BTreeSet<TypeId>,
}

impl Waiters {
    pub fn add(&mut self, types: Vec<TypeId>, token: oneshot::Sender<TypeId>) {
        self.queue.push_back(Waiter { types, token });
    }

    pub fn give_back(&mut self, type_id: TypeId) {
        self.returned.insert(type_id);
    }

    /// Gives each waiter whose types have a token that token, and forgets those who have gone.
    pub fn wake(&mut self, machine: &mut Machine) {
        for _ in 0..self.queue.len() {
            let Some(waiter) = self.queue.pop_front() else { return };
            if waiter.token.is_closed() {
                continue;
            }
            let Some(type_id) = self.take_token(&waiter.types, machine) else {
                self.queue.push_back(waiter);
                continue;
            };
            if let Err(type_id) = waiter.token.send(type_id) {
                self.give_back(type_id);
            }
        }
    }

    fn take_token(&mut self, types: &[TypeId], machine: &mut Machine) -> Option<TypeId> {
        let returned = types.iter().find(|type_id| self.returned.contains(*type_id)).cloned();
        if let Some(type_id) = returned {
            self.returned.remove(&type_id);
            return Some(type_id);
        }
        machine.take_token(types)
    }
}

/// The caller's side: hands its token back if it does not get to use it.
pub(super) struct Waiting {
    woken: oneshot::Receiver<TypeId>,
    owner: mpsc::Sender<Request>,
}

impl Waiting {
    pub fn new(woken: oneshot::Receiver<TypeId>, owner: mpsc::Sender<Request>) -> Self {
        Self { woken, owner }
    }

    /// Whether a token came in time; an error if none can come any more.
    pub async fn at_most(mut self, at_most: Duration) -> Result<bool, oneshot::error::RecvError> {
        match tokio::time::timeout(at_most, &mut self.woken).await {
            Ok(token) => token.map(|_| true),
            Err(_) => Ok(false),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.woken.close();
        if let Ok(type_id) = self.woken.try_recv() {
            // An owner that has stopped has no use for tokens.
            let _ = self.owner.send(Request::GiveBack(type_id));
        }
    }
}
