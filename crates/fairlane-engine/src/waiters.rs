//! Who waits for work, and to whom a wake-up token goes.
//!
//! Waiters are found by type, so that ten thousand of them cost a command nothing, and waking one no more than
//! its own types. Invariant: a token ends with a waiter that was there to take it, the first that came of those
//! that wait for its type; one that reaches nobody (they timed out, or were dropped) is kept for the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::TypeId;
use tokio::sync::oneshot;

use crate::engine::EngineError;

/// What ends a wait before its time.
pub(crate) type Woken = Result<TypeId, EngineError>;

/// A waiter's place among all waiters of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u64);

impl Place {
    /// Behind everyone.
    pub fn last() -> Self {
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        Self(TAKEN.fetch_add(1, Ordering::Relaxed))
    }
}

struct Waiter {
    types: Vec<TypeId>,
    woken: oneshot::Sender<Woken>,
}

/// The engine's side: everyone who waits.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: HashMap<Place, Waiter>,
    /// Per type who waits for it, first come first; a type for which nobody waits is not there.
    by_type: BTreeMap<TypeId, BTreeSet<Place>>,
    /// Types with a token that reached nobody. One of each is enough: who leases all it asked for and leaves
    /// more has another one pushed.
    returned: BTreeSet<TypeId>,
}

impl Waiters {
    /// Takes in a waiter, or wakes it at once if a token was kept for it.
    pub fn add(&mut self, place: Place, types: Vec<TypeId>, woken: oneshot::Sender<Woken>) {
        if let Some(kept) = types.iter().find(|type_id| self.returned.contains(*type_id)) {
            if woken.send(Ok(kept.clone())).is_ok() {
                self.returned.remove(kept);
            }
            return;
        }
        for type_id in &types {
            self.by_type.entry(type_id.clone()).or_default().insert(place);
        }
        self.waiting.insert(place, Waiter { types, woken });
    }

    /// Lets a waiter go, and takes back the token that came too late for it.
    pub fn leave(&mut self, place: Place, late: Option<TypeId>) {
        self.remove(place);
        if let Some(type_id) = late {
            self.give(&type_id);
        }
    }

    /// Gives a token to the first waiter that is still there, or keeps it for the next.
    pub fn give(&mut self, type_id: &TypeId) {
        while let Some(first) = self.by_type.get(type_id).and_then(BTreeSet::first).copied() {
            let waiter = self.remove(first).expect("whoever waits for a type waits");
            if waiter.woken.send(Ok(type_id.clone())).is_ok() {
                return;
            }
        }
        self.returned.insert(type_id.clone());
    }

    /// Tells everyone that their wait has failed.
    pub fn fail(&mut self, error: &EngineError) {
        self.by_type.clear();
        for (_, waiter) in self.waiting.drain() {
            // Whoever has gone does not want to know.
            let _ = waiter.woken.send(Err(error.clone()));
        }
    }

    /// The types that someone waits for, in their order.
    pub fn types(&self) -> impl Iterator<Item = &TypeId> {
        self.by_type.keys()
    }

    /// Whether someone waits for this type.
    pub fn wait_for(&self, type_id: &TypeId) -> bool {
        self.by_type.contains_key(type_id)
    }

    /// Whether nobody waits for anything.
    pub fn is_empty(&self) -> bool {
        self.by_type.is_empty()
    }

    fn remove(&mut self, place: Place) -> Option<Waiter> {
        let waiter = self.waiting.remove(&place)?;
        for type_id in &waiter.types {
            // A type that was named twice is gone the second time.
            let Some(places) = self.by_type.get_mut(type_id) else { continue };
            places.remove(&place);
            if places.is_empty() {
                self.by_type.remove(type_id);
            }
        }
        Some(waiter)
    }
}

/// The caller's side: leaves if it was not woken, and hands back a token that came too late.
pub(crate) struct Waiting<L: FnMut(Option<TypeId>)> {
    woken: oneshot::Receiver<Woken>,
    leave: L,
    is_over: bool,
}

impl<L: FnMut(Option<TypeId>)> Waiting<L> {
    pub fn new(woken: oneshot::Receiver<Woken>, leave: L) -> Self {
        Self { woken, leave, is_over: false }
    }

    /// Whether a token came in time; an error if none can come any more.
    pub async fn at_most(mut self, at_most: Duration) -> Result<bool, EngineError> {
        let Ok(woken) = tokio::time::timeout(at_most, &mut self.woken).await else { return Ok(false) };
        self.is_over = true;
        match woken {
            Ok(token) => token.map(|_| true),
            Err(_) => Err(EngineError::broken("the engine has stopped; open a new one")),
        }
    }
}

impl<L: FnMut(Option<TypeId>)> Drop for Waiting<L> {
    fn drop(&mut self) {
        if !self.is_over {
            self.woken.close();
            (self.leave)(self.woken.try_recv().ok().and_then(Result::ok));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Vec<TypeId> {
        names.iter().map(|name| TypeId::new(*name).unwrap()).collect()
    }

    fn give(waiters: &mut Waiters, name: &str) {
        waiters.give(&TypeId::new(name).unwrap());
    }

    fn add(waiters: &mut Waiters, names: &[&str]) -> (Place, oneshot::Receiver<Woken>) {
        let (woken, receiver) = oneshot::channel();
        let place = Place::last();
        waiters.add(place, types(names), woken);
        (place, receiver)
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
    fn a_token_that_reaches_nobody_is_kept_for_the_next_of_its_type() {
        let mut waiters = Waiters::default();
        drop(add(&mut waiters, &["a"]));
        give(&mut waiters, "a");
        let (_, mut other) = add(&mut waiters, &["b"]);
        let (gone, _) = oneshot::channel();
        waiters.add(Place::last(), types(&["a"]), gone);
        let (_, mut next) = add(&mut waiters, &["b", "a"]);
        assert_eq!((token(&mut other), token(&mut next).as_deref()), (None, Some("a")));
        let (_, mut another) = add(&mut waiters, &["a"]);
        assert_eq!(token(&mut another), None);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_passes_its_late_token_on() {
        let waiters = std::cell::RefCell::new(Waiters::default());
        let (place, woken) = add(&mut waiters.borrow_mut(), &["a"]);
        let (_, mut next) = add(&mut waiters.borrow_mut(), &["a"]);
        let waiting = Waiting::new(woken, |late| waiters.borrow_mut().leave(place, late));
        give(&mut waiters.borrow_mut(), "a");
        assert_eq!(token(&mut next), None);
        drop(waiting);
        assert_eq!(token(&mut next).as_deref(), Some("a"));
    }

    #[tokio::test]
    async fn nothing_is_kept_of_waiters_that_timed_out() {
        let waiters = std::cell::RefCell::new(Waiters::default());
        let (place, woken) = add(&mut waiters.borrow_mut(), &["a", "b"]);
        let waiting = Waiting::new(woken, |late| waiters.borrow_mut().leave(place, late));
        assert_eq!(waiting.at_most(Duration::ZERO).await, Ok(false));
        assert!(waiters.borrow().is_empty() && waiters.borrow().waiting.is_empty());
    }
}
