//! The state of locks as text, under their keys in Redis.

use crate::kernel::{Dump, DumpValue};
use crate::numbers::Micros;

use super::state::{Holder, Lock, LockKind, Waiter};
use super::{LockName, Machine};

impl Machine {
    /// Adds the state to a dump, in the layout of `redis/lua/lock`.
    pub(super) fn dump(&self, _: Micros, dump: &mut Dump) {
        for (field, number) in [("lock_fence", self.fence.0), ("lock_waiters", self.waiters)] {
            if number > 0 {
                dump.add_field("partition".into(), field, number.to_string());
            }
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
    let key = format!("lock:{name}");
    let mut field = |field: &str, value: String| dump.add_field(key.clone(), field, value);
    field("kind", kind_text(lock.kind));
    for (name, number, default) in [
        ("delay", lock.delay_until.0, 0),
        ("next", lock.next_place, 1),
        ("waiters", lock.places.len() as u64, 0),
    ] {
        if number != default {
            field(name, number.to_string());
        }
    }
    for (token, holder) in &lock.holders {
        match lock.kind {
            LockKind::Exclusive => field("holder", format!("{}:{}", token.escaped(), holder_text(holder))),
            _ => field(&format!("holder:{}", token.escaped()), holder_text(holder)),
        }
    }
    if lock.kind != LockKind::Exclusive {
        let ends = lock.ends.iter().map(|(until, token)| (until.0, token.escaped().to_owned()));
        dump.0.insert(format!("lock-ends:{name}"), DumpValue::Sorted(ends.collect()));
    }
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
        LockKind::Semaphore { permits } => format!("semaphore:{permits}"),
    }
}

fn holder_text(holder: &Holder) -> String {
    let Holder { name, mode, fence, since, until, hold_until, lock_delay_ms } = holder;
    let hold_until = hold_until.map_or(0, |until| until.0);
    let mode = mode.as_str();
    format!("{fence}:{}:{}:{hold_until}:{lock_delay_ms}:{mode}:{}", since.0, until.0, name.escaped())
}

fn waiter_text(place: u64, waiter: &Waiter, claimed_until: u64) -> String {
    let Waiter { process, mode, losses, .. } = waiter;
    format!("{place}:{claimed_until}:{losses}:{}:{}", mode.as_str(), process.escaped())
}
