//! Commands on locks, with few names, tokens and processes, so that they collide often.

use std::collections::BTreeMap;

use fairlane_core::limits::{LIST_LOCKS_MAX, LOCK_STEP_WAITERS_MAX};
use fairlane_core::lock::*;
use fairlane_core::{Fence, HolderName};

use super::OtherGenerator;
use crate::dice::Dice;
use crate::subject::{group_id, lock_name, lock_token, process_id};

const NAMES: [&str; 6] = ["seat:1", "seat:2", "50%", "좌석", "seat", "b:c:d"];
const TOKENS: u64 = 12;
const PROCESSES: [&str; 4] = ["p1", "p:2", "p%3", "p4"];
const TTLS_MS: [u64; 6] = [10, 50, 200, 1000, 3000, 30_000];

/// Most fences that are remembered.
const FENCES_MAX: usize = 20;

/// Draws commands on locks.
pub(super) struct LockGenerator {
    dice: Dice,
    /// Whether mostly one lock is used, with many more waiters than one command handles.
    crowded: bool,
    /// The lock that was acquired last.
    last: Option<LockName>,
    /// Fences of holders, to be broken.
    fences: BTreeMap<u64, LockName>,
}

impl OtherGenerator for LockGenerator {
    fn observe(&mut self, reply: &fairlane_core::Reply) {
        let fence = match reply.lock() {
            Some(Reply::AcquireLock(LockAcquired::Held { fence, .. })) => Some(fence),
            _ => None,
        };
        if let (Some(name), Some(fence)) = (&self.last, fence) {
            self.fences.insert(fence.0, name.clone());
            while self.fences.len() > FENCES_MAX {
                self.fences.pop_first();
            }
        }
    }

    fn pause_us(&mut self) -> u64 {
        match self.dice.below(20) {
            _ if self.crowded && !self.dice.one_in(50) => self.dice.below(2000),
            0..8 => 0,
            8..14 => self.dice.below(20_000),
            14..19 => self.dice.below(400_000),
            _ => self.dice.below(3_000_000),
        }
    }

    fn command(&mut self) -> fairlane_core::Command {
        let command = match self.dice.below(40) {
            0..20 => Command::AcquireLock(self.acquire()),
            20..28 => Command::ReleaseLock(ReleaseLock { name: self.name(), token: self.token() }),
            28..31 => Command::RenewLocks(RenewLocks {
                locks: (0..self.dice.below(4)).map(|_| self.held()).collect(),
            }),
            31..34 => {
                let process = process_id(self.dice.pick(&PROCESSES));
                Command::AttendLocks(AttendLocks { process })
            }
            34..36 => Command::SweepLocks(SweepLocks { locks_max: self.dice.pick(&[1, 2, 100]) }),
            36 => Command::InspectLock(InspectLock { name: self.name() }),
            37 => Command::ListLocks(self.list()),
            38 if self.dice.one_in(3) => Command::BreakLock(self.break_lock()),
            _ => Command::AcquireLock(self.acquire()),
        };
        command.into()
    }
}

impl LockGenerator {
    pub fn new(mut dice: Dice) -> Self {
        Self { crowded: dice.one_in(4), dice, last: None, fences: BTreeMap::new() }
    }

    fn name(&mut self) -> LockName {
        let name = if self.crowded && !self.dice.one_in(8) { NAMES[0] } else { self.dice.pick(&NAMES) };
        lock_name(name)
    }

    fn token(&mut self) -> fairlane_core::LockToken {
        let tokens = if self.crowded { 3 * LOCK_STEP_WAITERS_MAX as u64 } else { TOKENS };
        match self.dice.below(tokens) {
            0 => lock_token("t:0%"),
            number => lock_token(&format!("t{number}")),
        }
    }

    fn held(&mut self) -> HeldLock {
        HeldLock { name: self.name(), token: self.token(), ttl_ms: self.dice.pick(&TTLS_MS) }
    }

    /// Each lock has a usual kind, and sometimes another.
    fn mode(&mut self, name: &LockName) -> LockMode {
        if self.dice.one_in(12) {
            return self.dice.pick(&[LockMode::Exclusive, LockMode::Read, LockMode::Permit { of: 2 }]);
        }
        match name.as_str() {
            "seat:2" => self.dice.pick(&[LockMode::Read, LockMode::Read, LockMode::Write]),
            "50%" => LockMode::Permit { of: 3 },
            "seat:1" if self.crowded => self.dice.pick(&[LockMode::Read, LockMode::Read, LockMode::Write]),
            _ => LockMode::Exclusive,
        }
    }

    fn acquire(&mut self) -> AcquireLock {
        let name = self.name();
        let mode = self.mode(&name);
        self.last = Some(name.clone());
        AcquireLock {
            token: self.token(),
            process: process_id(self.dice.pick(&PROCESSES)),
            holder: HolderName::new(self.dice.pick(&["host-1", "h:2 %", "호스트"])).expect("a valid holder"),
            mode,
            name,
            ttl_ms: self.dice.pick(&TTLS_MS),
            wait: self.crowded || !self.dice.one_in(3),
            fair: self.dice.one_in(3),
            lock_delay_ms: self.dice.pick(&[0, 0, 0, 500, 3000]),
            max_hold_ms: self.dice.one_in(4).then(|| self.dice.pick(&[10, 500, 2000])),
        }
    }

    fn list(&mut self) -> ListLocks {
        let group = self.dice.pick(&[None, None, Some("seat"), Some("b"), Some("none")]).map(group_id);
        let after = self.dice.one_in(2).then(|| self.name());
        ListLocks { group, after, locks_max: self.dice.pick(&[1, 2, LIST_LOCKS_MAX]) }
    }

    /// Breaks mostly the lock of one holder, by its fence.
    fn break_lock(&mut self) -> BreakLock {
        let known: Vec<_> = self.fences.iter().map(|(fence, name)| (Fence(*fence), name.clone())).collect();
        if known.is_empty() || self.dice.one_in(4) {
            return BreakLock { name: self.name(), fence: None };
        }
        let (fence, name) = self.dice.pick(&known);
        BreakLock { name, fence: Some(fence) }
    }
}
