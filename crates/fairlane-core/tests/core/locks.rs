//! Locks: exclusion, order, fences, and what happens when holders and waiters disappear.

use fairlane_core::kernel::row::ChangeSet;
use fairlane_core::kernel::{Machine as _, RestoreMode, Stored as _};
use fairlane_core::limits::{LOCK_GRANT_ALIVE_MS, LOCK_LOSSES_MAX, LOCK_SLICE_MS};
use fairlane_core::lock::*;
use fairlane_core::{Fence, HashSeed, HolderName, LockToken, Micros, ProcessId};

use crate::memory_store::MemoryStore;

const NOON: Micros = Micros(1_700_000_000_000_000);

struct World {
    machine: Machine,
    now: Micros,
}

impl World {
    fn new() -> Self {
        Self { machine: Machine::new(HashSeed::FIXED, NOON), now: NOON }
    }

    fn call<O: fairlane_core::kernel::Operation<Machine = Machine>>(&mut self, operation: O) -> O::Reply {
        operation.validate().expect("the command is valid");
        let reply = self.machine.call(operation, self.now);
        self.machine.check().expect("all counts match");
        reply
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }

    fn acquire(&mut self, token: &str) -> LockAcquired {
        self.call(acquire(token))
    }

    fn fence(&mut self, command: AcquireLock) -> Fence {
        match self.call(command) {
            LockAcquired::Held { fence, .. } => fence,
            other => panic!("not held: {other:?}"),
        }
    }

    fn release(&mut self, token: &str) -> LockReleased {
        self.call(ReleaseLock { name: name("a:b"), token: token_of(token) })
    }

    /// The tokens of waiters that were signalled since the last call.
    fn signalled(&mut self) -> Vec<String> {
        self.machine.take_signals().into_iter().map(|signal| signal.waiter.to_string()).collect()
    }
}

fn name(text: &str) -> LockName {
    LockName::new(text).expect("the name is valid")
}

fn token_of(text: &str) -> LockToken {
    LockToken::new(text).expect("the token is valid")
}

/// An exclusive acquisition that waits, by the process of the same name.
fn acquire(token: &str) -> AcquireLock {
    AcquireLock {
        name: name("a:b"),
        token: token_of(token),
        process: ProcessId::new(token).expect("the id is valid"),
        holder: HolderName::new(token).expect("the name is valid"),
        mode: LockMode::Exclusive,
        ttl_ms: 5000,
        wait: true,
        fair: false,
        lock_delay_ms: 0,
        max_hold_ms: None,
    }
}

/// Less than a slice cannot be granted to a waiter, so the lock is reserved for it.
fn brief(token: &str) -> AcquireLock {
    AcquireLock { ttl_ms: LOCK_SLICE_MS - 1, ..acquire(token) }
}

fn is_held(reply: &LockAcquired) -> bool {
    matches!(reply, LockAcquired::Held { .. })
}

#[test]
fn one_holder_at_a_time_and_the_next_waiter_is_signalled() {
    let mut world = World::new();
    let first = world.fence(acquire("one"));
    let LockAcquired::Waiting { position, blocked } = world.acquire("two") else { panic!() };
    assert_eq!(position, 1);
    let holder = blocked.holder.unwrap();
    assert_eq!((holder.holder.to_string(), holder.remaining_us), ("one".into(), 5_000_000));
    assert!(matches!(world.acquire("three"), LockAcquired::Waiting { position: 2, .. }));
    assert_eq!(world.signalled(), [""; 0]);
    world.pass_ms(300);
    assert_eq!(world.release("one"), LockReleased::Released);
    assert_eq!(world.signalled(), ["two"]);
    let second = world.fence(acquire("two"));
    assert!(second > first);
    assert_eq!(world.release("one"), LockReleased::NotHeld);
}

/// Erratum L6.
#[test]
fn the_same_token_gets_the_same_fence_again() {
    let mut world = World::new();
    let fence = world.fence(acquire("one"));
    world.pass_ms(10);
    assert_eq!(world.fence(acquire("one")), fence);
    assert!(matches!(world.acquire("two"), LockAcquired::Waiting { position: 1, .. }));
    assert!(matches!(world.acquire("two"), LockAcquired::Waiting { position: 1, .. }));
}

#[test]
fn a_caller_that_does_not_wait_leaves_nothing_behind() {
    let mut world = World::new();
    world.acquire("one");
    let busy = world.call(AcquireLock { wait: false, ..acquire("two") });
    assert!(matches!(busy, LockAcquired::Busy(Blocked { waiters: 0, .. })));
    world.release("one");
    assert_eq!(world.signalled(), [""; 0]);
    assert_eq!(world.call(InspectLock { name: name("a:b") }), LockInspected(None));
}

/// Erratum L2.
#[test]
fn a_lease_that_runs_out_passes_the_lock_on() {
    let mut world = World::new();
    world.acquire("one");
    world.pass_ms(4500);
    assert!(!is_held(&world.acquire("two")));
    world.pass_ms(500);
    let swept = world.call(SweepLocks { locks_max: 10 });
    assert_eq!(swept.locks, 1);
    assert_eq!(world.signalled(), ["two"]);
    assert!(is_held(&world.acquire("two")));
    let held = HeldLock { name: name("a:b"), token: LockToken::new("one").unwrap(), ttl_ms: 5000 };
    let renewed = world.call(RenewLocks { locks: vec![held] });
    assert_eq!(renewed.renewals, [LockRenewal::Lost]);
}

#[test]
fn a_renewal_extends_only_a_held_lock_and_not_beyond_the_longest_hold() {
    let mut world = World::new();
    world.call(AcquireLock { max_hold_ms: Some(7000), ..acquire("one") });
    let renew = |world: &mut World| {
        let held = HeldLock { name: name("a:b"), token: LockToken::new("one").unwrap(), ttl_ms: 5000 };
        world.call(RenewLocks { locks: vec![held] }).renewals[0]
    };
    world.pass_ms(1000);
    assert_eq!(renew(&mut world), LockRenewal::Renewed { remaining_us: 5_000_000 });
    world.pass_ms(4000);
    assert_eq!(renew(&mut world), LockRenewal::Renewed { remaining_us: 2_000_000 });
    world.pass_ms(2000);
    assert_eq!(renew(&mut world), LockRenewal::Lost);
    assert!(is_held(&world.acquire("two")));
}

#[test]
fn a_released_lock_is_reserved_for_its_first_waiter_for_one_slice() {
    let mut world = World::new();
    world.acquire("one");
    world.call(brief("two"));
    world.acquire("three");
    world.release("one");
    assert!(matches!(world.call(AcquireLock { fair: true, ..acquire("new") }), LockAcquired::Waiting { .. }));
    world.pass_ms(LOCK_SLICE_MS - 1);
    world.call(AttendLocks { process: ProcessId::new("three").unwrap() });
    world.pass_ms(1);
    // The process of `two` is gone, and with it all its waiters.
    world.call(SweepLocks { locks_max: 10 });
    assert_eq!(world.signalled(), ["two", "three"]);
    assert!(is_held(&world.acquire("three")));
}

#[test]
fn a_process_learns_of_claims_whose_signal_was_lost() {
    let mut world = World::new();
    world.acquire("one");
    world.call(brief("two"));
    world.release("one");
    let attended = world.call(AttendLocks { process: ProcessId::new("two").unwrap() });
    let claim = LockClaim { name: name("a:b"), token: LockToken::new("two").unwrap() };
    assert_eq!(attended.claims, [claim]);
    world.acquire("two");
    assert_eq!(world.call(AttendLocks { process: ProcessId::new("two").unwrap() }).claims, []);
}

/// Erratum L8.
#[test]
fn a_newcomer_takes_a_reserved_lock_until_the_waiter_has_lost_often_enough() {
    let mut world = World::new();
    world.acquire("holder");
    world.acquire("waiter");
    // A lock is reserved for the waiter of a process that has not attended lately.
    world.pass_ms(LOCK_SLICE_MS - LOCK_GRANT_ALIVE_MS + 1);
    for number in 0..LOCK_LOSSES_MAX {
        world.release(if number == 0 { "holder" } else { "newcomer" });
        assert!(is_held(&world.acquire("newcomer")), "{number}");
    }
    world.release("newcomer");
    assert!(matches!(world.acquire("newcomer"), LockAcquired::Waiting { position: 1, .. }));
    assert!(is_held(&world.acquire("waiter")));
}

#[test]
fn a_lock_is_granted_to_a_waiter_whose_process_has_attended_lately_and_reserved_for_another() {
    for (silent_ms, is_granted) in [(0, true), (LOCK_SLICE_MS - LOCK_GRANT_ALIVE_MS, true), (999, false)] {
        let mut world = World::new();
        world.acquire("one");
        world.acquire("two");
        world.pass_ms(silent_ms);
        world.release("one");
        let [signal] = world.machine.take_signals().try_into().expect("one waiter is signalled");
        assert_eq!(signal.grant.is_some(), is_granted, "{silent_ms}");
        assert_eq!(is_held(&world.acquire("newcomer")), !is_granted, "{silent_ms}");
    }
}

#[test]
fn a_fair_waiter_holds_a_released_lock_for_one_slice_and_its_signal_has_the_fence() {
    let mut world = World::new();
    let first = world.fence(acquire("one"));
    let fair = |token: &str| AcquireLock { fair: true, ..acquire(token) };
    world.call(fair("two"));
    world.call(fair("three"));
    world.pass_ms(300);
    world.release("one");
    let [signal] = world.machine.take_signals().try_into().expect("one waiter is signalled");
    let grant = signal.grant.expect("the lock is granted");
    assert_eq!((signal.waiter, grant.until), (token_of("two"), world.now.plus_ms(LOCK_SLICE_MS)));
    assert!(grant.fence > first);
    let lock = world.call(InspectLock { name: name("a:b") }).0.unwrap();
    assert_eq!((lock.holders, lock.waiters, lock.claims), (1, 1, 0));
    assert_eq!((lock.held_by[0].holder.to_string(), lock.held_by[0].fence), ("two".into(), grant.fence));
    assert!(matches!(world.acquire("newcomer"), LockAcquired::Waiting { position: 2, .. }));
    // The holder uses it, and is not reported any more.
    world.pass_ms(LOCK_SLICE_MS / 3);
    let attend = AttendLocks { process: ProcessId::new("two").unwrap() };
    let attended = world.call(attend.clone());
    assert_eq!((attended.claims.len(), attended.time), (1, world.now));
    let renew =
        RenewLocks { locks: vec![HeldLock { name: name("a:b"), token: token_of("two"), ttl_ms: 5000 }] };
    assert_eq!(world.call(renew).renewals, [LockRenewal::Renewed { remaining_us: 5_000_000 }]);
    assert_eq!(world.call(attend).claims, []);
    assert_eq!(world.fence(fair("two")), grant.fence);
}

#[test]
fn a_fair_newcomer_never_overtakes() {
    let mut world = World::new();
    world.acquire("holder");
    let tokens: Vec<String> = (0..50).map(|number| format!("w{number:02}")).collect();
    for token in &tokens {
        world.call(AcquireLock { fair: true, ..acquire(token) });
    }
    let mut before = "holder".to_owned();
    for token in &tokens {
        world.release(&before);
        let newcomer = world.call(AcquireLock { fair: true, wait: false, ..acquire("newcomer") });
        assert!(matches!(newcomer, LockAcquired::Busy(_)));
        assert!(is_held(&world.call(AcquireLock { fair: true, ..acquire(token) })), "{token}");
        before.clone_from(token);
    }
}

#[test]
fn readers_share_a_lock_and_queue_behind_a_waiting_writer() {
    let mut world = World::new();
    let read = |token: &str| AcquireLock { mode: LockMode::Read, ..acquire(token) };
    let write = |token: &str| AcquireLock { mode: LockMode::Write, ..acquire(token) };
    assert!(is_held(&world.call(read("r1"))) && is_held(&world.call(read("r2"))));
    assert!(!is_held(&world.call(write("w"))));
    assert!(!is_held(&world.call(read("r3"))) && !is_held(&world.call(read("r4"))));
    world.release("r1");
    assert_eq!(world.signalled(), [""; 0]);
    world.release("r2");
    assert_eq!(world.signalled(), ["w"]);
    assert!(is_held(&world.call(write("w"))));
    world.release("w");
    assert_eq!(world.signalled(), ["r3", "r4"]);
    assert!(is_held(&world.call(read("r4"))) && is_held(&world.call(read("r3"))));
}

#[test]
fn a_semaphore_has_as_many_holders_as_permits() {
    let mut world = World::new();
    let permit = |token: &str| AcquireLock { mode: LockMode::Permit { of: 2 }, ..acquire(token) };
    assert!(is_held(&world.call(permit("one"))) && is_held(&world.call(permit("two"))));
    assert!(!is_held(&world.call(permit("three"))) && !is_held(&world.call(permit("four"))));
    let other = world.call(AcquireLock { mode: LockMode::Permit { of: 3 }, ..acquire("five") });
    let in_use = LockKind::Semaphore { permits: 2 };
    let wanted = LockKind::Semaphore { permits: 3 };
    assert_eq!(other, LockAcquired::Refused(LockRefusal::OtherKind { in_use, wanted }));
    world.release("one");
    world.release("two");
    assert_eq!(world.signalled(), ["three", "four"]);
}

#[test]
fn after_a_lease_that_ran_out_the_lock_stays_free_for_its_delay() {
    let mut world = World::new();
    world.call(AcquireLock { lock_delay_ms: 2000, ..acquire("one") });
    world.pass_ms(4500);
    world.acquire("two");
    world.pass_ms(600);
    assert!(
        matches!(world.acquire("two"), LockAcquired::Waiting { blocked, .. } if blocked.holder.is_none())
    );
    world.pass_ms(1000);
    world.acquire("two");
    world.pass_ms(900);
    world.call(SweepLocks { locks_max: 10 });
    assert_eq!(world.signalled(), ["two"]);
    // A release has no delay.
    world.call(AcquireLock { lock_delay_ms: 2000, ..acquire("two") });
    world.release("two");
    assert!(is_held(&world.acquire("three")));
}

#[test]
fn a_broken_lock_passes_on_and_its_holder_finds_out() {
    let mut world = World::new();
    let fence = world.fence(acquire("one"));
    world.acquire("two");
    let missed = world.call(BreakLock { name: name("a:b"), fence: Some(Fence(fence.0 + 1)) });
    assert_eq!(missed.holders, 0);
    assert_eq!(world.call(BreakLock { name: name("a:b"), fence: Some(fence) }).holders, 1);
    assert_eq!(world.signalled(), ["two"]);
    assert_eq!(world.release("one"), LockReleased::NotHeld);
}

#[test]
fn a_thousand_dead_waiters_delay_the_line_by_one_slice_in_all() {
    for fair in [false, true] {
        let mut world = World::new();
        world.call(AcquireLock { ttl_ms: 60_000, ..acquire("holder") });
        for number in 0..1000 {
            let process = ProcessId::new("dead").unwrap();
            world.call(AcquireLock { process, fair, ..acquire(&format!("d{number}")) });
        }
        world.acquire("alive");
        world.release("holder");
        assert_eq!(world.signalled(), ["d0"]);
        let mut waited = 0;
        while !is_held(&world.call(AcquireLock { fair: true, ..acquire("alive") })) {
            world.pass_ms(50);
            waited += 50;
            world.call(SweepLocks { locks_max: 10 });
        }
        assert!(waited <= LOCK_SLICE_MS + 500, "{waited} ms");
    }
}

#[test]
fn locks_are_listed_by_name_and_group_page_by_page() {
    let mut world = World::new();
    for text in ["a:1", "a:2", "a:3", "ab", "b:1"] {
        world.call(AcquireLock { name: name(text), ..acquire(&text.replace(':', "-")) });
    }
    let group = Some(fairlane_core::GroupId::new("a").unwrap());
    let names =
        |listed: &LocksListed| listed.locks.iter().map(|lock| lock.name.to_string()).collect::<Vec<_>>();
    let first = world.call(ListLocks { group: group.clone(), after: None, locks_max: 2 });
    assert_eq!(names(&first), ["a:1", "a:2"]);
    let rest = world.call(ListLocks { group, after: first.next, locks_max: 2 });
    assert_eq!((names(&rest), rest.next), (vec!["a:3".to_owned()], None));
    let all = world.call(ListLocks { group: None, after: None, locks_max: 100 });
    assert_eq!(names(&all), ["a:1", "a:2", "a:3", "ab", "b:1"]);
}

#[test]
// tidy: long because each command stands in one place
fn random_commands_keep_every_invariant_and_survive_restarts() {
    let mut commands_by_reply = std::collections::BTreeMap::<&str, u32>::new();
    for seed in 1..=20_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = move |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let (mut world, mut store) = (World::new(), MemoryStore::default());
        world.machine.record();
        let mut last_fence = Fence(0);
        for step in 0..2000 {
            let lock = name(["a:1", "a:2", "b", "c:d:e"][below(4) as usize]);
            let token = LockToken::new(format!("t{}", below(12))).unwrap();
            let process = ProcessId::new(format!("p{}", below(3))).unwrap();
            match below(12) {
                0..=5 => {
                    let mode = match lock.as_str() {
                        "a:1" => LockMode::Exclusive,
                        "a:2" => [LockMode::Read, LockMode::Read, LockMode::Write][below(3) as usize],
                        "b" => LockMode::Permit { of: 3 },
                        _ => [LockMode::Exclusive, LockMode::Read][below(2) as usize],
                    };
                    let held_before = world.call(InspectLock { name: lock.clone() });
                    let reply = world.call(AcquireLock {
                        name: lock,
                        token,
                        process,
                        mode,
                        ttl_ms: 100 + below(3000),
                        wait: below(3) > 0,
                        fair: below(2) == 0,
                        lock_delay_ms: if below(4) == 0 { 300 } else { 0 },
                        max_hold_ms: (below(3) == 0).then_some(1500),
                        ..acquire("holder")
                    });
                    if let LockAcquired::Held { fence, .. } = reply {
                        let is_new = held_before
                            .0
                            .is_none_or(|lock| lock.held_by.iter().all(|one| one.fence != fence));
                        assert!(!is_new || fence > last_fence, "seed {seed}, step {step}");
                        last_fence = last_fence.max(fence);
                    }
                    *commands_by_reply.entry(word(&reply)).or_default() += 1;
                }
                6 | 7 => {
                    world.call(ReleaseLock { name: lock, token });
                }
                8 => {
                    let held = HeldLock { name: lock, token, ttl_ms: 100 + below(2000) };
                    world.call(RenewLocks { locks: vec![held] });
                }
                9 => {
                    world.call(AttendLocks { process });
                }
                10 => {
                    world.call(SweepLocks { locks_max: 3 });
                }
                _ if below(10) == 0 => {
                    world.call(BreakLock { name: lock, fence: None });
                }
                _ => world.pass_ms(below(400)),
            }
            world.machine.take_signals();
            if below(20) == 0 {
                world.machine.take_changes().write_to(&mut store).unwrap();
            }
            if below(200) == 0 {
                world.machine.take_changes().write_to(&mut store).unwrap();
                let before = held(&mut world);
                if let Some(restored) =
                    Machine::restore(&mut store, HashSeed::FIXED, RestoreMode::Strict).unwrap()
                {
                    world.machine = restored.machine;
                    world.machine.check().unwrap();
                }
                assert_eq!(held(&mut world), before, "seed {seed}, step {step}");
            }
        }
    }
    for reply in ["held", "waiting", "busy", "refused"] {
        assert!(commands_by_reply.get(reply).is_some_and(|count| *count > 100), "{commands_by_reply:?}");
    }
}

fn held(world: &mut World) -> Vec<(LockName, Vec<HolderView>, u64)> {
    let listed = world.call(ListLocks { group: None, after: None, locks_max: 100 });
    let locks = listed.locks.into_iter().filter(|lock| lock.holders > 0 || lock.delay_us > 0);
    locks.map(|lock| (lock.name, lock.held_by, lock.delay_us)).collect()
}

fn word(reply: &LockAcquired) -> &'static str {
    match reply {
        LockAcquired::Held { .. } => "held",
        LockAcquired::Waiting { .. } => "waiting",
        LockAcquired::Busy(_) => "busy",
        LockAcquired::Refused(_) => "refused",
    }
}
