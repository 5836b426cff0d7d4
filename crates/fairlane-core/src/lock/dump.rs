//! The state of locks as text, under their keys in Redis.

use crate::kernel::{Dump, DumpValue};
use crate::names::LockToken;
use crate::numbers::Micros;

use super::state::{Holder, Lock, LockKind, Terms, Waiter};
use super::{LockName, Machine};

impl Machine {
    /// Adds the state to a dump, in the layout of `redis/lua/lock`.
    pub(super) fn dump(&self, _: Micros, dump: &mut Dump) {
        if self.fence.0 > 0 {
            dump.0.insert("lock-fence".into(), DumpValue::Text(self.fence.to_string()));
        }
        if self.waiters > 0 {
            dump.add_field("partition".into(), "lock_waiters", self.waiters.to_string());
        }
        if self.expired > 0 {
            dump.add_field("partition".into(), "lock_expired", self.expired.to_string());
        }
        for (name, lock) in &self.locks {
            dump_lock(name, lock, dump);
        }
        let names = self.locks.keys().map(|name| (0, name.to_string()));
        dump.0.insert("lock-names".into(), DumpValue::Sorted(names.collect()));
        let deadlines = self.deadlines.iter().map(|(at, name)| (at.0, name.to_string()));
        dump.0.insert("lock-deadlines".into(), DumpValue::Sorted(deadlines.collect()));
        let processes = self.processes_until.iter().map(|(until, id)| (until.0, id.escaped().to_owned()));
        dump.0.insert("lock-processes".into(), DumpValue::Sorted(processes.collect()));
        for (process, claims) in &self.claims {
            let members = claims.iter().map(|(name, token)| (0, format!("{name}\n{}", token.escaped())));
            let key = format!("lock-process:{}", process.escaped());
            dump.0.insert(key, DumpValue::Sorted(members.collect()));
        }
        dump.remove_empty();
    }
}

fn dump_lock(name: &LockName, lock: &Lock, dump: &mut Dump) {
    let (kind, waiters) = (kind_text(lock.kind), lock.places.len());
    let mut row = format!("{kind}:{}:{}:{waiters}:", lock.delay_until.0, lock.next_place);
    let holders = lock.holders.iter().map(|(token, holder)| (token.escaped(), holder_text(token, holder)));
    if lock.kind == LockKind::Exclusive {
        row.extend(holders.map(|(_, holder)| holder));
    } else {
        let holders = holders.map(|(token, holder)| (token.to_owned(), holder)).collect();
        dump.0.insert(format!("lock-holders:{name}"), DumpValue::Hash(holders));
        let ends = lock.ends.iter().map(|(until, token)| (until.0, token.escaped().to_owned()));
        dump.0.insert(format!("lock-ends:{name}"), DumpValue::Sorted(ends.collect()));
    }
    dump.0.insert(format!("lock:{name}"), DumpValue::Text(row));
    let place = |(place, waiter): (&u64, &Waiter)| (*place, waiter.token.escaped().to_owned());
    let waiting = lock.waiters.iter().map(place).collect();
    dump.0.insert(format!("lock-waiting:{name}"), DumpValue::Sorted(waiting));
    let claimed = lock.claims.iter().map(|(at, claim)| place((at, &claim.waiter))).collect();
    dump.0.insert(format!("lock-claims:{name}"), DumpValue::Sorted(claimed));
    let waiting = lock.waiters.iter().map(|(place, waiter)| (place, waiter, 0));
    let claimed = lock.claims.iter().map(|(place, claim)| (place, &claim.waiter, claim.until.0));
    let text = |(place, waiter, until): (&u64, &Waiter, u64)| {
        (waiter.token.escaped().to_owned(), waiter_text(*place, waiter, until))
    };
    let waiters = waiting.chain(claimed).map(text).collect();
    dump.0.insert(format!("lock-waiters:{name}"), DumpValue::Hash(waiters));
}

fn kind_text(kind: LockKind) -> String {
    match kind {
        LockKind::Exclusive => "exclusive".into(),
        LockKind::ReadWrite => "read-write".into(),
        LockKind::Semaphore { permits } => format!("semaphore/{permits}"),
    }
}

fn holder_text(token: &LockToken, holder: &Holder) -> String {
    let Holder { name, mode, fence, since, until, hold_until, lock_delay_ms, signalled } = holder;
    let hold_until = hold_until.map_or(0, |until| until.0);
    let (token, since, until, mode) = (token.escaped(), since.0, until.0, mode.as_str());
    let signalled = signalled.as_ref().map(|process| format!(":{}", process.escaped())).unwrap_or_default();
    let name = name.escaped();
    format!("{token}:{fence}:{since}:{until}:{hold_until}:{lock_delay_ms}:{mode}:{name}{signalled}")
}

fn waiter_text(place: u64, waiter: &Waiter, claimed_until: u64) -> String {
    let Waiter { process, mode, losses, terms, .. } = waiter;
    let terms = terms.as_ref().map(|Terms { holder, lock_delay_ms, max_hold_ms }| {
        format!(":{lock_delay_ms}:{}:{}", max_hold_ms.unwrap_or_default(), holder.escaped())
    });
    let (mode, process, terms) = (mode.as_str(), process.escaped(), terms.unwrap_or_default());
    format!("{place}:{claimed_until}:{losses}:{mode}:{process}{terms}")
}
