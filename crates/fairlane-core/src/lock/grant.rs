//! Who holds a lock next.

use crate::kernel::Signal;
use crate::limits::{LOCK_LOSSES_MAX, LOCK_SLICE_MS, LOCK_STEP_WAITERS_MAX};
use crate::names::LockToken;
use crate::numbers::{Fence, Micros};

use super::state::{Holder, Lock, LockKind, LockMode, Waiter};
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

    /// Puts a lock back, unless nothing is left of it.
    pub(super) fn store(&mut self, name: &LockName, mut lock: Lock, now: Micros) {
        let must_continue = self.claim_for_waiters(name, &mut lock, now);
        if lock.is_unused() {
            if lock.delay_until <= now {
                return;
            }
            // Any kind may follow.
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
            let holder = lock.remove_holder(&token).expect("every end has its holder");
            self.expired += 1;
            lock.delay_until = lock.delay_until.max(until.plus_ms(holder.lock_delay_ms));
            self.touch(name);
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

    /// Reserves free capacity for the longest run of waiters from the front that fits, and removes
    /// those whose process is gone. Returns whether a step limit was reached.
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
            let claim = lock.claim_first(now.plus_ms(LOCK_SLICE_MS)).expect("there is a first waiter");
            let Waiter { process, token, .. } = claim.waiter.clone();
            self.claims.entry(process.clone()).or_default().insert((name.clone(), token.clone()));
            self.signals.push(Signal { process, waiter: token });
            if lock.kind == LockKind::Exclusive {
                return false;
            }
        }
        !lock.waiters.is_empty()
    }

    /// Removes what is known of a waiter besides its entry in the lock's lists.
    pub(super) fn forget_waiter(&mut self, name: &LockName, lock: &mut Lock, waiter: &Waiter) {
        lock.places.remove(&waiter.token);
        self.forget_claim(name, waiter);
        self.waiters -= 1;
    }

    fn forget_claim(&mut self, name: &LockName, waiter: &Waiter) {
        if let Some(claims) = self.claims.get_mut(&waiter.process) {
            claims.remove(&(name.clone(), waiter.token.clone()));
            if claims.is_empty() {
                self.claims.remove(&waiter.process);
            }
        }
    }

    /// Removes a waiter with or without a claim; returns whether there was one.
    pub(super) fn remove_waiter(&mut self, name: &LockName, lock: &mut Lock, token: &LockToken) -> bool {
        let Some(place) = lock.places.get(token).copied() else { return false };
        let waiter = lock.end_claim(place).or_else(|| lock.waiters.remove(&place));
        let waiter = waiter.expect("a waiter has a claim or waits");
        self.forget_waiter(name, lock, &waiter);
        true
    }

    /// Whether this caller may hold the lock now. Capacity that is claimed for others is taken only
    /// by a caller that does not insist on the order, and not from a waiter that has lost it
    /// [`LOCK_LOSSES_MAX`] times.
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
        let is_protected = |losses: u32| losses >= LOCK_LOSSES_MAX;
        let any_protected = match needs_all {
            true => lock.claims.values().any(|claim| is_protected(claim.waiter.losses)),
            false => newest.is_none_or(|(_, claim)| is_protected(claim.waiter.losses)),
        };
        if any_protected || !lock.fits(mode, false) {
            return false;
        }
        while !lock.fits(mode, true) {
            let place = *lock.claims.keys().next_back().expect("claims are in the way");
            let mut waiter = lock.end_claim(place).expect("it was just found");
            self.forget_claim(name, &waiter);
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
        let hold_until = command.max_hold_ms.map(|ms| now.plus_ms(ms));
        let until = now.plus_ms(command.ttl_ms).min(hold_until.unwrap_or(Micros(u64::MAX)));
        let holder = Holder {
            name: command.holder.clone(),
            mode: command.mode,
            fence,
            since: now,
            until,
            hold_until,
            lock_delay_ms: command.lock_delay_ms,
        };
        lock.add_holder(command.token.clone(), holder);
        self.touch(name);
        fence
    }
}
