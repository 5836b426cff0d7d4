//! The invariants of locks, which hold after every command.

use std::collections::BTreeSet;

use super::state::{Lock, LockMode};
use super::{LockName, Machine};

impl Machine {
    /// Recounts everything; an error describes the first mismatch.
    pub fn check(&self) -> Result<(), String> {
        let mut waiters = 0;
        let mut claims = BTreeSet::new();
        let mut fences = BTreeSet::new();
        for (name, lock) in &self.locks {
            self.check_lock(lock).map_err(|found| format!("{name}: {found}"))?;
            waiters += lock.places.len() as u64;
            let claimed = lock.claims.values().map(|claim| &claim.waiter);
            claims.extend(claimed.map(|waiter| (&waiter.process, name, &waiter.token)));
            for (token, holder) in &lock.holders {
                claims.extend(holder.signalled.as_ref().map(|process| (process, name, token)));
                ensure(holder.fence <= self.fence, || format!("{name}: a fence beyond the last"))?;
                ensure(fences.insert(holder.fence), || format!("{name}: two holders have {}", holder.fence))?;
            }
        }
        ensure(waiters == self.waiters, || format!("{} waiters are counted, {waiters} wait", self.waiters))?;
        let listed = self
            .claims
            .iter()
            .flat_map(|(process, claims)| claims.iter().map(move |(name, token)| (process, name, token)));
        ensure(listed.collect::<BTreeSet<_>>() == claims, || "signals by process differ".into())?;
        let entry = |(name, lock): (&LockName, &Lock)| lock.deadline.map(|at| (at, name.clone()));
        let deadlines: BTreeSet<_> = self.locks.iter().filter_map(entry).collect();
        ensure(deadlines == self.deadlines, || "deadlines differ".into())?;
        let alive = self.processes.iter().map(|(process, until)| (*until, process.clone()));
        ensure(alive.collect::<BTreeSet<_>>() == self.processes_until, || "processes differ".into())
    }

    fn check_lock(&self, lock: &Lock) -> Result<(), String> {
        let modes = lock.holders.values().map(|holder| holder.mode);
        let modes: Vec<_> = modes.chain(lock.claims.values().map(|claim| claim.waiter.mode)).collect();
        let all = modes.iter().chain(lock.waiters.values().map(|waiter| &waiter.mode));
        ensure(all.clone().all(|mode| mode.kind() == lock.kind), || "a mode of another kind".into())?;
        let fits = match modes.first() {
            Some(LockMode::Exclusive | LockMode::Write) => modes.len() == 1,
            Some(LockMode::Read) => modes.iter().all(|mode| *mode == LockMode::Read),
            Some(LockMode::Permit { of }) => modes.len() <= *of as usize,
            None => true,
        };
        ensure(fits, || format!("{modes:?} do not fit together"))?;
        let ends: BTreeSet<_> =
            lock.holders.iter().map(|(token, holder)| (holder.until, token.clone())).collect();
        ensure(ends == lock.ends, || "ends of leases differ".into())?;
        let (last_claim, first_waiting) = (lock.claims.keys().next_back(), lock.waiters.keys().next());
        let is_in_order = first_waiting.is_none_or(|waiting| last_claim < Some(waiting));
        ensure(is_in_order, || "a claim behind a waiter without one".into())?;
        let claimed = lock.claims.iter().map(|(place, claim)| (claim.waiter.token.clone(), *place));
        let waiting = lock.waiters.iter().map(|(place, waiter)| (waiter.token.clone(), *place));
        ensure(claimed.chain(waiting).collect::<std::collections::BTreeMap<_, _>>() == lock.places, || {
            "places differ".into()
        })?;
        ensure(lock.deadline.is_some(), || "nothing is left of it, or no sweep finds it".into())
    }
}

fn ensure(holds: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(found()) }
}
