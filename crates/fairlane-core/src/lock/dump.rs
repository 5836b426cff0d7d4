//! The state of locks as text, under their keys in Redis.

use std::collections::BTreeMap;

use crate::kernel::{Dump, DumpValue};
use crate::numbers::Micros;

use super::Machine;
use super::state::{Holder, LockKind, LockMode, Waiter};

impl Machine {
    /// Adds the state to a dump: `lock:<name>` has the holders, `lock-waiters:<name>` the waiters.
    pub(super) fn dump(&self, _: Micros, dump: &mut Dump) {
        for (name, lock) in &self.locks {
            let key = format!("lock:{name}");
            dump.add_field(key.clone(), "kind", kind_text(lock.kind));
            dump.add_field(key.clone(), "delay", lock.delay_until.0.to_string());
            for (token, holder) in &lock.holders {
                dump.add_field(key.clone(), &format!("holder:{}", token.escaped()), holder_text(holder));
            }
            let mut waiters = BTreeMap::new();
            let waiting = lock.waiters.iter().map(|(place, waiter)| (place, waiter, 0));
            let claimed = lock.claims.iter().map(|(place, claim)| (place, &claim.waiter, claim.until.0));
            for (place, waiter, until) in waiting.chain(claimed) {
                waiters.insert(waiter.token.escaped().to_owned(), waiter_text(*place, waiter, until));
            }
            dump.0.insert(format!("lock-waiters:{name}"), DumpValue::Hash(waiters));
        }
        dump.0.insert("lock-fence".into(), DumpValue::Text(self.fence.0.to_string()));
        let deadlines = self.deadlines.iter().map(|(at, name)| (at.0, name.to_string()));
        dump.0.insert("lock-deadlines".into(), DumpValue::Sorted(deadlines.collect()));
        let processes = self.processes_until.iter().map(|(until, id)| (until.0, id.escaped().to_owned()));
        dump.0.insert("lock-processes".into(), DumpValue::Sorted(processes.collect()));
        dump.remove_empty();
    }
}

fn kind_text(kind: LockKind) -> String {
    match kind {
        LockKind::Exclusive => "exclusive".into(),
        LockKind::ReadWrite => "read-write".into(),
        LockKind::Semaphore { permits } => format!("semaphore:{permits}"),
    }
}

fn mode_text(mode: LockMode) -> &'static str {
    mode.as_str()
}

fn holder_text(holder: &Holder) -> String {
    let Holder { name, mode, fence, since, until, hold_until, lock_delay_ms } = holder;
    let hold_until = hold_until.map_or(0, |until| until.0);
    let mode = mode_text(*mode);
    format!("{fence}:{}:{}:{hold_until}:{lock_delay_ms}:{mode}:{}", since.0, until.0, name.escaped())
}

fn waiter_text(place: u64, waiter: &Waiter, claimed_until: u64) -> String {
    let Waiter { process, mode, losses, .. } = waiter;
    format!("{place}:{claimed_until}:{losses}:{}:{}", mode_text(*mode), process.escaped())
}
