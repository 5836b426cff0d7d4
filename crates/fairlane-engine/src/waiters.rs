//! Waiters for work, and the assignment of wake-up tokens to them.
//!
//! Waiters are indexed by type: ten thousand of them do not slow a command, and waking one costs
//! only its own types. Invariant: a token goes to the first waiter for its type that is still
//! there. A token without a waiter (all timed out or were dropped) is kept for the next one.
//! A waiter may bring a command, which the engine applies in its place when its token arrives.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::{Command, Reply, TypeId};
use tokio::sync::oneshot;

use crate::engine::EngineError;

/// The result that ends a wait early.
pub(crate) type Woken = Result<TypeId, EngineError>;

/// Identifies a waiter of this process; smaller ids came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId(u64);

impl WaiterId {
    /// A new id, larger than all before.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

struct Waiter {
    types: Vec<TypeId>,
    then: Then,
}

/// What a token does for a waiter.
pub(crate) enum Then {
    /// Ends the wait.
    Wake(oneshot::Sender<Woken>),
    /// Applies a command, whose reply ends the wait.
    Submit(Submission),
}

/// A validated command and the caller that waits for its reply.
pub(crate) struct Submission {
    pub command: Command,
    pub reply: oneshot::Sender<Result<Reply, EngineError>>,
}

/// The engine's side: all waiters.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: HashMap<WaiterId, Waiter>,
    /// Waiters by type, first come first; types without a waiter have no entry.
    by_type: BTreeMap<TypeId, BTreeSet<WaiterId>>,
    /// Types with a token that reached no waiter. One of each is enough: a lease that reaches its
    /// limit and leaves more jobs pushes another token.
    returned: BTreeSet<TypeId>,
    /// Commands of waiters whose token has arrived, to be applied.
    submissions: VecDeque<Submission>,
}

impl Waiters {
    /// Adds a waiter, or wakes it at once if a token was kept for it.
    pub fn add(&mut self, waiter: WaiterId, types: Vec<TypeId>, then: Then) {
        if let Some(kept) = types.iter().find(|type_id| self.returned.contains(*type_id)) {
            if self.wake(then, kept) {
                self.returned.remove(kept);
            }
            return;
        }
        for type_id in &types {
            self.by_type.entry(type_id.clone()).or_default().insert(waiter);
        }
        self.waiting.insert(waiter, Waiter { types, then });
    }

    /// Removes a waiter, and takes back a token that arrived too late for it.
    pub fn leave(&mut self, waiter: WaiterId, late: Option<TypeId>) {
        self.remove(waiter);
        if let Some(type_id) = late {
            self.give(&type_id);
        }
    }

    /// Passes a token to the first waiter that is still there, or keeps it for the next; false if it
    /// had to be kept.
    pub fn give(&mut self, type_id: &TypeId) -> bool {
        while let Some(first) = self.by_type.get(type_id).and_then(BTreeSet::first).copied() {
            let waiter = self.remove(first).expect("an indexed waiter exists");
            if self.wake(waiter.then, type_id) {
                return true;
            }
        }
        self.returned.insert(type_id.clone());
        false
    }

    /// Takes the types of the tokens that were kept.
    #[cfg(feature = "redis")]
    pub fn take_returned(&mut self) -> BTreeSet<TypeId> {
        std::mem::take(&mut self.returned)
    }

    /// Wakes a waiter; false if its caller was dropped.
    fn wake(&mut self, then: Then, type_id: &TypeId) -> bool {
        match then {
            Then::Wake(woken) => woken.send(Ok(type_id.clone())).is_ok(),
            Then::Submit(submission) if submission.reply.is_closed() => false,
            Then::Submit(submission) => {
                self.submissions.push_back(submission);
                true
            }
        }
    }

    /// Takes the command of the next waiter whose token has arrived.
    pub fn next_submission(&mut self) -> Option<Submission> {
        self.submissions.pop_front()
    }

    /// Ends all waits with an error.
    pub fn fail(&mut self, error: &EngineError) {
        self.by_type.clear();
        for (_, waiter) in self.waiting.drain() {
            // The waiter may have been dropped.
            let _ = match waiter.then {
                Then::Wake(woken) => woken.send(Err(error.clone())).is_ok(),
                Then::Submit(submission) => submission.reply.send(Err(error.clone())).is_ok(),
            };
        }
    }

    /// The types with a waiter, in order.
    pub fn types(&self) -> impl Iterator<Item = &TypeId> {
        self.by_type.keys()
    }

    /// Whether this type has a waiter.
    pub fn wait_for(&self, type_id: &TypeId) -> bool {
        self.by_type.contains_key(type_id)
    }

    /// Whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.by_type.is_empty()
    }

    fn remove(&mut self, waiter: WaiterId) -> Option<Waiter> {
        let removed = self.waiting.remove(&waiter)?;
        for type_id in &removed.types {
            // A type that was named twice is already removed the second time.
            let Some(waiters) = self.by_type.get_mut(type_id) else { continue };
            waiters.remove(&waiter);
            if waiters.is_empty() {
                self.by_type.remove(type_id);
            }
        }
        Some(removed)
    }
}

/// The caller's side: when it is dropped before the wait is over, it leaves and returns what arrived
/// too late.
pub(crate) struct Waiting<T, L: FnMut(Option<T>)> {
    ended: oneshot::Receiver<Result<T, EngineError>>,
    leave: L,
    is_over: bool,
}

impl<T, L: FnMut(Option<T>)> Waiting<T, L> {
    pub fn new(ended: oneshot::Receiver<Result<T, EngineError>>, leave: L) -> Self {
        Self { ended, leave, is_over: false }
    }

    /// Waits for a token, or for the reply to a command; `None` if neither arrived in time, an error
    /// if none can arrive any more.
    pub async fn at_most(mut self, at_most: Duration) -> Result<Option<T>, EngineError> {
        let Ok(ended) = tokio::time::timeout(at_most, &mut self.ended).await else { return Ok(None) };
        self.is_over = true;
        match ended {
            Ok(ended) => ended.map(Some),
            Err(_) => Err(EngineError::broken("the engine has stopped; open a new one")),
        }
    }
}

impl<T, L: FnMut(Option<T>)> Drop for Waiting<T, L> {
    fn drop(&mut self) {
        if !self.is_over {
            self.ended.close();
            (self.leave)(self.ended.try_recv().ok().and_then(Result::ok));
        }
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::kernel::Registered;
    use fairlane_core::queue::InspectType;

    use super::*;

    fn types(names: &[&str]) -> Vec<TypeId> {
        names.iter().map(|name| TypeId::new(*name).unwrap()).collect()
    }

    fn give(waiters: &mut Waiters, name: &str) {
        waiters.give(&TypeId::new(name).unwrap());
    }

    fn add(waiters: &mut Waiters, names: &[&str]) -> (WaiterId, oneshot::Receiver<Woken>) {
        let (woken, receiver) = oneshot::channel();
        let waiter = WaiterId::next();
        waiters.add(waiter, types(names), Then::Wake(woken));
        (waiter, receiver)
    }

    fn token(woken: &mut oneshot::Receiver<Woken>) -> Option<String> {
        woken.try_recv().ok().map(|token| token.unwrap().to_string())
    }

    #[test]
    fn a_token_goes_to_the_first_that_waits_for_its_type() {
        let mut waiters = Waiters::default();
        let (_, mut other) = add(&mut waiters, &["b"]);
        let (_, mut first) = add(&mut waiters, &["a", "b", "a"]);
        let (_, mut second) = add(&mut waiters, &["a"]);
        give(&mut waiters, "a");
        assert_eq!((token(&mut first).as_deref(), token(&mut second)), (Some("a"), None));
        give(&mut waiters, "a");
        assert_eq!((token(&mut second).as_deref(), token(&mut other)), (Some("a"), None));
        give(&mut waiters, "b");
        assert_eq!(token(&mut other).as_deref(), Some("b"));
        assert!(waiters.is_empty() && waiters.waiting.is_empty());
    }

    #[test]
    fn a_token_without_a_waiter_is_kept_for_the_next_of_its_type() {
        let mut waiters = Waiters::default();
        drop(add(&mut waiters, &["a"]));
        give(&mut waiters, "a");
        let (_, mut other) = add(&mut waiters, &["b"]);
        let (gone, _) = oneshot::channel();
        waiters.add(WaiterId::next(), types(&["a"]), Then::Wake(gone));
        let (_, mut next) = add(&mut waiters, &["b", "a"]);
        assert_eq!((token(&mut other), token(&mut next).as_deref()), (None, Some("a")));
        let (_, mut another) = add(&mut waiters, &["a"]);
        assert_eq!(token(&mut another), None);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_passes_its_late_token_on() {
        let waiters = std::cell::RefCell::new(Waiters::default());
        let (waiter, woken) = add(&mut waiters.borrow_mut(), &["a"]);
        let (_, mut next) = add(&mut waiters.borrow_mut(), &["a"]);
        let waiting = Waiting::new(woken, |late| waiters.borrow_mut().leave(waiter, late));
        give(&mut waiters.borrow_mut(), "a");
        assert_eq!(token(&mut next), None);
        drop(waiting);
        assert_eq!(token(&mut next).as_deref(), Some("a"));
    }

    #[tokio::test]
    async fn waiters_that_timed_out_leave_nothing_behind() {
        let waiters = std::cell::RefCell::new(Waiters::default());
        let (waiter, woken) = add(&mut waiters.borrow_mut(), &["a", "b"]);
        let waiting = Waiting::new(woken, |late| waiters.borrow_mut().leave(waiter, late));
        assert_eq!(waiting.at_most(Duration::ZERO).await, Ok(None));
        assert!(waiters.borrow().is_empty() && waiters.borrow().waiting.is_empty());
    }

    #[test]
    fn the_command_of_a_waiter_is_applied_once_and_only_for_a_caller_that_is_there() {
        let mut waiters = Waiters::default();
        let submit = |waiters: &mut Waiters, name: &str| {
            let (reply, replied) = oneshot::channel();
            let command = InspectType { type_id: TypeId::new(name).unwrap() }.into_command();
            waiters.add(WaiterId::next(), types(&[name]), Then::Submit(Submission { command, reply }));
            replied
        };
        drop(submit(&mut waiters, "a"));
        let _second = submit(&mut waiters, "a");
        let (_, mut third) = add(&mut waiters, &["a"]);
        give(&mut waiters, "a");
        assert!(waiters.next_submission().is_some() && waiters.next_submission().is_none());
        assert_eq!(token(&mut third), None);
        give(&mut waiters, "a");
        assert_eq!(token(&mut third).as_deref(), Some("a"));
        give(&mut waiters, "a");
        let _kept = submit(&mut waiters, "a");
        assert!(waiters.next_submission().is_some(), "a kept token applies it at once");
    }
}
