//! The rows of locks in a store: holders and delays. Waiters are not stored, because they register
//! again.

use std::collections::BTreeMap;

use crate::hashing::HashSeed;
use crate::kernel::row::{Damage, Restoring, RowSource, rows};
use crate::kernel::{RestoreMode, Restored, Stored};
use crate::names::{HolderName, LockToken};
use crate::numbers::{Fence, Micros};

use super::state::{Holder, Lock, LockKind, LockMode};
use super::{LockName, Machine};

rows! {
    /// Rows of locks to be removed and to be written.
    pub struct Changes;

    /// The last fence, the time of the last command, and the leases that ran out since the last sweep.
    struct LockStateRow in lock_state, key 1 {
        id: u64,
        fence: Fence,
        time: Micros,
        expired: u64,
    }

    /// The delay of a lock after a lease that ran out.
    struct LockDelayRow in lock_delays, key 1 {
        name: String,
        until: Micros,
    }

    /// A holder.
    struct LockHolderRow in lock_holders, key 2 {
        name: String,
        token: String,
        holder: String,
        mode: String,
        permits: u32,
        fence: Fence,
        since: Micros,
        until: Micros,
        hold_until: Option<Micros>,
        lock_delay_ms: u64,
    }
}

impl Stored for Machine {
    type Changes = Changes;

    fn record(&mut self) {
        self.touched.get_or_insert_default();
    }

    fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        let Some(touched) = self.touched.as_mut().map(std::mem::take) else { return changes };
        if touched.is_empty() && self.expired == self.expired_stored {
            return changes;
        }
        let (fence, time, expired) = (self.fence, self.now, self.expired);
        changes.lock_state.rows.push(LockStateRow { id: 0, fence, time, expired });
        self.expired_stored = self.expired;
        for name in touched {
            let text = name.as_str().to_owned();
            changes.lock_delays.gone.push(text.clone());
            changes.lock_holders.gone.push(text.clone());
            let Some(lock) = self.locks.get(&name) else { continue };
            // A delay that has passed is kept with its lock until a sweep forgets both.
            if lock.delay_until > Micros::default() {
                changes.lock_delays.rows.push(LockDelayRow { name: text.clone(), until: lock.delay_until });
            }
            let rows = lock.holders.iter().map(|(token, holder)| LockHolderRow::of(&text, token, holder));
            changes.lock_holders.rows.extend(rows);
        }
        changes
    }

    fn restore<S: RowSource>(
        source: &mut S,
        hash_seed: HashSeed,
        mode: RestoreMode,
    ) -> Result<Option<Restored<Self>>, S::Error> {
        let mut machine = Machine::empty(hash_seed);
        let mut rows = Restoring::new(source, mode, "a holder of a lock");
        rows.read_intact(|row: LockStateRow| {
            (machine.fence, machine.now) = (row.fence, row.time);
            (machine.expired, machine.expired_stored) = (row.expired, row.expired);
        })?;
        let mut delays: BTreeMap<LockName, Micros> = BTreeMap::new();
        // A delay alone does not show that the store had locks, so it leaves `is_new` as it is.
        rows.source.read(|row: Result<LockDelayRow, Damage>| {
            let row = row?;
            let name = LockName::new(&row.name).map_err(|error| Damage::new(error.to_string()))?;
            delays.insert(name, row.until);
            Ok(())
        })?;
        // A holder whose row is skipped has lost its lock. Its next renewal reports the loss.
        rows.read(|row: LockHolderRow| {
            let (name, token, holder) = row.read()?;
            machine.fence = machine.fence.max(holder.fence);
            let lock = machine.locks.entry(name).or_insert_with(|| Lock::new(holder.mode.kind()));
            lock.add_holder(token, holder);
            Ok(())
        })?;
        for (name, until) in delays {
            let lock = machine.locks.entry(name).or_insert_with(|| Lock::new(LockKind::Exclusive));
            lock.delay_until = until;
        }
        for (name, lock) in &mut machine.locks {
            lock.deadline = lock.next_deadline();
            machine.deadlines.extend(lock.deadline.map(|deadline| (deadline, name.clone())));
        }
        machine.touched = Some(match mode {
            RestoreMode::Strict => Default::default(),
            RestoreMode::Mend => machine.locks.keys().cloned().collect(),
        });
        Ok(rows.finish(machine))
    }
}

impl LockHolderRow {
    fn of(name: &str, token: &LockToken, holder: &Holder) -> Self {
        let permits = if let LockMode::Permit { of } = holder.mode { of } else { 0 };
        Self {
            name: name.to_owned(),
            token: token.to_string(),
            holder: holder.name.to_string(),
            mode: holder.mode.as_str().to_owned(),
            permits,
            fence: holder.fence,
            since: holder.since,
            until: holder.until,
            hold_until: holder.hold_until,
            lock_delay_ms: holder.lock_delay_ms,
        }
    }

    fn read(self) -> Result<(LockName, LockToken, Holder), Damage> {
        let damaged = Damage::in_table("lock_holders");
        let mode = match (self.mode.as_str(), self.permits) {
            ("exclusive", _) => LockMode::Exclusive,
            ("read", _) => LockMode::Read,
            ("write", _) => LockMode::Write,
            ("permit", of) => LockMode::Permit { of },
            (mode, _) => return Err(Damage::new(format!("lock_holders.mode: {mode:?} is not a mode"))),
        };
        let holder = Holder {
            name: HolderName::new(&self.holder).map_err(damaged)?,
            mode,
            fence: self.fence,
            since: self.since,
            until: self.until,
            hold_until: self.hold_until,
            lock_delay_ms: self.lock_delay_ms,
            // Signals are not stored: a waiter that was granted the lock renews it, or gets it by
            // trying again.
            signalled: None,
        };
        Ok((
            LockName::new(&self.name).map_err(damaged)?,
            LockToken::new(&self.token).map_err(damaged)?,
            holder,
        ))
    }
}
