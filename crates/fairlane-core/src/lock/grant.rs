//! Passes a lock on: to its next waiter, or to a newcomer.

use crate::kernel::{Grant, Signal};
use crate::limits::{LOCK_SLICE_MS, LOCK_STEP_WAITERS_MAX};
use crate::names::{LockToken, ProcessId};
use crate::numbers::{Fence, Micros};

use super::state::{Holder, Lock, LockKind, LockMode, Terms, Waiter, lease_end};
use super::{AcquireLock, LockName, Machine};

impl Machine {
    /// Takes a lock out, and ends leases and claims that have run out. Afterwards [`Machine::store`]
    /// reserves what is free and puts the lock back.
    pub(super) fn take_lock(&mut self, name: &LockName, now: Micros) -> Option<Lock> {
        let mut lock = self.locks.remove(name)?;
        if let Some(deadline) = lock.deadline.take() {
            self.deadlines.remove(&(deadline, name.clone()));
        }
        self.end_leases(name, &mut lock, now);
        self.end_claims(name, &mut lock, now);
        Some(lock)
    }

    /// Puts a lock back, unless it has no holders, no waiters and no delay.
    pub(super) fn store(&mut self, name: &LockName, mut lock: Lock, now: Micros) {
        let must_continue = self.claim_for_waiters(name, &mut lock, now);
        if lock.is_unused() {
            if lock.delay_until <= now {
                return;
            }
            // An unused lock can be acquired as any kind, so it is kept as the default one.
            lock.kind = LockKind::Exclusive;
        }
        let deadline = if must_continue { Some(now) } else { lock.next_deadline() };
        lock.deadline = deadline;
        self.deadlines.extend(deadline.map(|deadline| (deadline, name.clone())));
        self.locks.insert(name.clone(), lock);
    }

    fn end_leases(&mut self, name: &LockName, lock: &mut Lock, now: Micros) {
        while let Some((until, token)) = lock.ends.first().cloned()
            && until <= now
        {
            let holder = self.remove_holder(name, lock, &token).expect("every end has its holder");
            self.expired += 1;
            lock.delay_until = lock.delay_until.max(until.plus_ms(holder.lock_delay_ms));
        }
        if lock.delay_until.0 > 0 && lock.delay_until <= now {
            lock.delay_until = Micros::default();
            self.touch(name);
        }
    }

    /// Removes waiters whose claim has run out. Their process got a signal and the claim in the reply
    /// to each `attend_locks`; a waiter that is still interested registers again.
    fn end_claims(&mut self, name: &LockName, lock: &mut Lock, now: Micros) {
        while let Some(first) = lock.claims.first_entry()
            && first.get().until <= now
        {
            let waiter = first.remove().waiter;
            self.forget_waiter(name, lock, &waiter);
        }
    }

    /// Passes free capacity to the longest run of waiters from the front that fits, and removes those
    /// whose process is gone. Returns whether a step limit was reached.
    pub(super) fn claim_for_waiters(&mut self, name: &LockName, lock: &mut Lock, now: Micros) -> bool {
        if now < lock.delay_until {
            return false;
        }
        for _ in 0..LOCK_STEP_WAITERS_MAX {
            let Some((place, first)) = lock.waiters.first_key_value() else { return false };
            if !self.is_alive(&first.process, now) {
                let place = *place;
                let waiter = lock.waiters.remove(&place).expect("it is the first");
                self.forget_waiter(name, lock, &waiter);
                continue;
            }
            if !lock.fits(first.mode, true) {
                return false;
            }
            match first.terms.clone().filter(|terms| self.may_grant(first, terms, now)) {
                Some(terms) => self.grant_to_first(name, lock, terms, now),
                None => {
                    let until = now.plus_ms(LOCK_SLICE_MS);
                    let waiter = &lock.claim_first(until).expect("there is a first waiter").waiter;
                    self.signal(name, waiter, None);
                }
            }
            if lock.kind == LockKind::Exclusive {
                return false;
            }
        }
        !lock.waiters.is_empty()
    }

    /// Whether a free lock is granted to a waiter at once. Otherwise it is reserved, and a newcomer may
    /// take it: a newcomer is faster than a process that may be gone, and a grant to such a process
    /// would begin its `lock_delay`. No newcomer overtakes a protected waiter, so that a reservation
    /// would only delay it.
    fn may_grant(&self, waiter: &Waiter, terms: &Terms, now: Micros) -> bool {
        waiter.is_protected() || (terms.lock_delay_ms == 0 && self.is_attentive(&waiter.process, now))
    }

    /// Makes the first waiter the holder for one slice. Its first renewal extends the lease; a
    /// process that has died delays the waiters behind it no longer than a claim would.
    fn grant_to_first(&mut self, name: &LockName, lock: &mut Lock, terms: Terms, now: Micros) {
        let (_, waiter) = lock.waiters.pop_first().expect("there is a first waiter");
        self.forget_waiter(name, lock, &waiter);
        let holder = Holder::new(waiter.mode, terms, LOCK_SLICE_MS, self.next_fence(now), now);
        self.signal(name, &waiter, Some(Grant { fence: holder.fence, until: holder.until }));
        lock.add_holder(waiter.token, Holder { signalled: Some(waiter.process), ..holder });
        self.touch(name);
    }

    /// Signals the process of a waiter. The reply to `attend_locks` repeats it.
    fn signal(&mut self, name: &LockName, waiter: &Waiter, grant: Option<Grant>) {
        let Waiter { process, token, .. } = waiter.clone();
        self.claims.entry(process.clone()).or_default().insert((name.clone(), token.clone()));
        self.signals.push(Signal { process, waiter: token, grant });
    }

    /// Removes the records of a waiter other than its entry in the lock's lists.
    pub(super) fn forget_waiter(&mut self, name: &LockName, lock: &mut Lock, waiter: &Waiter) {
        lock.places.remove(&waiter.token);
        self.forget_signal(name, &waiter.process, &waiter.token);
        self.waiters -= 1;
    }

    fn forget_signal(&mut self, name: &LockName, process: &ProcessId, token: &LockToken) {
        if let Some(claims) = self.claims.get_mut(process) {
            claims.remove(&(name.clone(), token.clone()));
            if claims.is_empty() {
                self.claims.remove(process);
            }
        }
    }

    /// Removes the holder with this token, if there is one.
    pub(super) fn remove_holder(
        &mut self,
        name: &LockName,
        lock: &mut Lock,
        token: &LockToken,
    ) -> Option<Holder> {
        let holder = lock.remove_holder(token)?;
        if let Some(process) = &holder.signalled {
            self.forget_signal(name, process, token);
        }
        self.touch(name);
        Some(holder)
    }

    /// Extends the lease of the holder with this token, if there is one, and returns its end.
    pub(super) fn extend(
        &mut self,
        name: &LockName,
        lock: &mut Lock,
        token: &LockToken,
        ttl_ms: u64,
        now: Micros,
    ) -> Option<Micros> {
        let holder = self.remove_holder(name, lock, token)?;
        let until = lease_end(holder.hold_until, ttl_ms, now);
        lock.add_holder(token.clone(), Holder { until, signalled: None, ..holder });
        Some(until)
    }

    /// Removes a waiter with or without a claim; returns whether there was one.
    pub(super) fn remove_waiter(&mut self, name: &LockName, lock: &mut Lock, token: &LockToken) -> bool {
        let Some(place) = lock.places.get(token).copied() else { return false };
        let waiter = lock.end_claim(place).or_else(|| lock.waiters.remove(&place));
        let waiter = waiter.expect("a waiter has a claim or waits");
        self.forget_waiter(name, lock, &waiter);
        true
    }

    /// Whether this caller may hold the lock now. A caller takes capacity that is claimed for
    /// others only if it is not `fair`, and never from a waiter that is protected.
    pub(super) fn may_hold(
        &mut self,
        name: &LockName,
        lock: &mut Lock,
        command: &AcquireLock,
        now: Micros,
    ) -> bool {
        let place = lock.places.get(&command.token).copied();
        if place.is_some_and(|place| lock.claims.contains_key(&place)) {
            return true;
        }
        // The first waiter without a claim does not fit, or the step limit was reached before it.
        let is_behind = lock.waiters.first_key_value().is_some_and(|(first, _)| Some(*first) != place);
        if now < lock.delay_until || is_behind {
            return false;
        }
        lock.fits(command.mode, true) || (!command.fair && self.displace(name, lock, command.mode))
    }

    /// Makes room by returning claimed waiters to their places, last first. Changes nothing if that
    /// does not make enough room.
    fn displace(&mut self, name: &LockName, lock: &mut Lock, mode: LockMode) -> bool {
        let newest = lock.claims.iter().next_back();
        let needs_all = !matches!(mode, LockMode::Permit { .. });
        let any_protected = match needs_all {
            true => lock.claims.values().any(|claim| claim.waiter.is_protected()),
            false => newest.is_none_or(|(_, claim)| claim.waiter.is_protected()),
        };
        if any_protected || !lock.fits(mode, false) {
            return false;
        }
        while !lock.fits(mode, true) {
            let place = *lock.claims.keys().next_back().expect("claims are in the way");
            let mut waiter = lock.end_claim(place).expect("it was just found");
            self.forget_signal(name, &waiter.process, &waiter.token);
            waiter.losses += 1;
            lock.waiters.insert(place, waiter);
        }
        true
    }

    /// Makes the caller a holder.
    pub(super) fn grant(
        &mut self,
        name: &LockName,
        lock: &mut Lock,
        command: &AcquireLock,
        now: Micros,
    ) -> Fence {
        self.remove_waiter(name, lock, &command.token);
        let fence = self.next_fence(now);
        let holder = Holder::new(command.mode, Terms::of(command), command.ttl_ms, fence, now);
        lock.add_holder(command.token.clone(), holder);
        self.touch(name);
        fence
    }
}
