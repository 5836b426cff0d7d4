//! One lock: its holders, the claims of waiters that are next, and the other waiters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::AcquireLock;
use crate::limits::{LOCK_LOSSES_MAX, LOCK_SLICE_MS};
use crate::names::{HolderName, LockToken, ProcessId};
use crate::numbers::{Fence, Micros};

/// How a caller wants to hold a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockMode {
    /// As the only holder.
    Exclusive,
    /// As a reader, together with other readers.
    Read,
    /// As a writer, to the exclusion of readers and other writers.
    Write,
    /// As the holder of one permit of a semaphore.
    Permit {
        /// The number of permits of the semaphore.
        of: u32,
    },
}

/// The kind of a lock. It stays the same while the lock has holders or waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    /// One holder at a time.
    Exclusive,
    /// One writer, or any number of readers.
    ReadWrite,
    /// At most this many holders at a time.
    Semaphore {
        /// The number of permits.
        permits: u32,
    },
}

impl LockMode {
    /// The kind of lock that this mode belongs to.
    pub const fn kind(self) -> LockKind {
        match self {
            Self::Exclusive => LockKind::Exclusive,
            Self::Read | Self::Write => LockKind::ReadWrite,
            Self::Permit { of } => LockKind::Semaphore { permits: of },
        }
    }

    /// The lower-case name of the mode.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit { .. } => "permit",
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::ReadWrite => f.write_str("read-write"),
            Self::Semaphore { permits } => write!(f, "semaphore of {permits}"),
        }
    }
}

/// A holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub name: HolderName,
    pub mode: LockMode,
    pub fence: Fence,
    pub since: Micros,
    /// When the lease ends unless it is renewed.
    pub until: Micros,
    /// The latest end of the lease, whatever the renewals.
    pub hold_until: Option<Micros>,
    /// How long no caller can acquire the lock after the lease has run out, in milliseconds.
    pub lock_delay_ms: u64,
    /// The process that was signalled about a grant to its waiter, until the holder renews or acquires.
    pub signalled: Option<ProcessId>,
}

impl Holder {
    pub fn new(mode: LockMode, terms: Terms, ttl_ms: u64, fence: Fence, now: Micros) -> Self {
        let hold_until = terms.max_hold_ms.map(|ms| now.plus_ms(ms));
        Self {
            name: terms.holder,
            mode,
            fence,
            since: now,
            until: lease_end(hold_until, ttl_ms, now),
            hold_until,
            lock_delay_ms: terms.lock_delay_ms,
            signalled: None,
        }
    }
}

/// The end of a lease that begins now, at most `hold_until`.
pub(super) fn lease_end(hold_until: Option<Micros>, ttl_ms: u64, now: Micros) -> Micros {
    let until = now.plus_ms(ttl_ms);
    hold_until.map_or(until, |end| until.min(end))
}

/// The terms of a holder other than its mode and ttl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms {
    pub holder: HolderName,
    pub lock_delay_ms: u64,
    pub max_hold_ms: Option<u64>,
}

impl Terms {
    pub fn of(command: &AcquireLock) -> Self {
        Self {
            holder: command.holder.clone(),
            lock_delay_ms: command.lock_delay_ms,
            max_hold_ms: command.max_hold_ms,
        }
    }
}

/// A waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiter {
    pub token: LockToken,
    pub process: ProcessId,
    pub mode: LockMode,
    /// How often a newcomer has taken the lock that was claimed for this waiter. A `fair` waiter
    /// starts at the limit, so it never loses a claim.
    pub losses: u32,
    /// The terms under which the lock can be granted to it for one slice; `None` if the waiter has
    /// to acquire the lock.
    pub terms: Option<Terms>,
}

impl Waiter {
    pub fn new(command: &AcquireLock) -> Self {
        let lasts = |ms: u64| ms >= LOCK_SLICE_MS;
        let is_grantable = command.mode == LockMode::Exclusive
            && lasts(command.ttl_ms)
            && command.max_hold_ms.is_none_or(lasts);
        Self {
            token: command.token.clone(),
            process: command.process.clone(),
            mode: command.mode,
            losses: if command.fair { LOCK_LOSSES_MAX } else { 0 },
            terms: is_grantable.then(|| Terms::of(command)),
        }
    }

    /// Whether no newcomer takes a lock that is claimed for this waiter.
    pub fn is_protected(&self) -> bool {
        self.losses >= LOCK_LOSSES_MAX
    }
}

/// Capacity that is reserved for a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub waiter: Waiter,
    pub until: Micros,
}

/// A lock that has holders or waiters, or is in its delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
    pub kind: LockKind,
    pub holders: BTreeMap<LockToken, Holder>,
    /// Holders by the end of their leases.
    pub ends: BTreeSet<(Micros, LockToken)>,
    /// Claims by the place of their waiters. They are made and end in the order of the places, which
    /// all lie before those of waiters without a claim.
    pub claims: BTreeMap<u64, Claim>,
    /// Waiters without a claim by their places, first come first.
    pub waiters: BTreeMap<u64, Waiter>,
    /// The places of waiters with and without a claim.
    pub places: BTreeMap<LockToken, u64>,
    pub next_place: u64,
    /// The time until which no caller can acquire the lock, after a lease ran out.
    pub delay_until: Micros,
    /// The entry of this lock in the deadlines.
    pub deadline: Option<Micros>,
}

impl Lock {
    pub fn new(kind: LockKind) -> Self {
        Self {
            kind,
            holders: BTreeMap::new(),
            ends: BTreeSet::new(),
            claims: BTreeMap::new(),
            waiters: BTreeMap::new(),
            places: BTreeMap::new(),
            next_place: 1,
            delay_until: Micros::default(),
            deadline: None,
        }
    }

    /// Whether the lock has no holders and no waiters.
    pub fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.places.is_empty()
    }

    pub fn add_holder(&mut self, token: LockToken, holder: Holder) {
        self.ends.insert((holder.until, token.clone()));
        self.holders.insert(token, holder);
    }

    pub fn remove_holder(&mut self, token: &LockToken) -> Option<Holder> {
        let holder = self.holders.remove(token)?;
        self.ends.remove(&(holder.until, token.clone()));
        Some(holder)
    }

    /// Adds a waiter behind all others.
    pub fn add_waiter(&mut self, waiter: Waiter) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.places.insert(waiter.token.clone(), place);
        self.waiters.insert(place, waiter);
        place
    }

    /// Reserves capacity for the first waiter.
    pub fn claim_first(&mut self, until: Micros) -> Option<&Claim> {
        let (place, waiter) = self.waiters.pop_first()?;
        Some(self.claims.entry(place).or_insert(Claim { waiter, until }))
    }

    /// Ends a claim and returns its waiter, which keeps its place if it is put back.
    pub fn end_claim(&mut self, place: u64) -> Option<Waiter> {
        self.claims.remove(&place).map(|claim| claim.waiter)
    }

    /// Whether the lock is reserved for this waiter, or this is the first waiter without a claim.
    pub fn is_next(&self, token: &LockToken) -> bool {
        let is_first = |place: &u64| self.waiters.first_key_value().is_some_and(|(first, _)| first == place);
        self.places.get(token).is_some_and(|place| self.claims.contains_key(place) || is_first(place))
    }

    /// How a waiter wants to hold the lock.
    pub fn waiting_mode(&self, token: &LockToken) -> Option<LockMode> {
        let place = self.places.get(token)?;
        let claimed = self.claims.get(place).map(|claim| claim.waiter.mode);
        claimed.or_else(|| self.waiters.get(place).map(|waiter| waiter.mode))
    }

    /// Whether a holder of this mode fits beside the holders and, if `beside_claims`, the claims.
    pub fn fits(&self, mode: LockMode, beside_claims: bool) -> bool {
        let holders = self.holders.values().map(|holder| holder.mode);
        let claims = self.claims.values().map(|claim| claim.waiter.mode).filter(|_| beside_claims);
        let in_use = self.holders.len() + if beside_claims { self.claims.len() } else { 0 };
        match mode {
            LockMode::Exclusive | LockMode::Write => in_use == 0,
            // A writer is always alone, so checking the first holder or claim is enough.
            LockMode::Read => holders.chain(claims).next() != Some(LockMode::Write),
            LockMode::Permit { of } => in_use < of as usize,
        }
    }

    /// The next time at which the lock changes by itself.
    pub fn next_deadline(&self) -> Option<Micros> {
        let lease = self.ends.first().map(|(until, _)| *until);
        let claim = self.claims.first_key_value().map(|(_, claim)| claim.until);
        let delay = self.holders.is_empty().then_some(self.delay_until).filter(|until| until.0 > 0);
        [lease, claim, delay].into_iter().flatten().min()
    }
}
