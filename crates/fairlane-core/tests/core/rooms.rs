//! Waiting rooms: positions over classes, random commands, restarts, and a million waiters.

use fairlane_core::kernel::row::ChangeSet;
use fairlane_core::kernel::{Machine as _, Operation, RestoreMode, Stored as _};
use fairlane_core::limits::{ROOM_POLL_MS_MIN, ROOM_RETENTION_MS, ROOM_STEP_PLACES_MAX};
use fairlane_core::room::*;
use fairlane_core::{HashSeed, Micros, PlaceToken, Rate, RoomName, UserId};

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

    fn call<O: Operation<Machine = Machine>>(&mut self, operation: O) -> O::Reply {
        let reply = self.call_unchecked(operation);
        self.machine.check().expect("all counts match");
        reply
    }

    fn call_unchecked<O: Operation<Machine = Machine>>(&mut self, operation: O) -> O::Reply {
        operation.validate().expect("the command is valid");
        self.machine.call(operation, self.now)
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }

    fn set(&mut self, settings: RoomSettings) {
        self.call(SetRoom { room: room(), settings });
    }

    fn join(&mut self, user: &str, class: u32) -> PlaceView {
        match self.call(join(user, class)) {
            RoomJoined::Joined { status, .. } => status.place,
            other => panic!("not joined: {other:?}"),
        }
    }

    fn show(&mut self, user: &str) -> PlaceView {
        self.call(ShowPlace { room: room(), token: token(user) }).place
    }

    fn restart(&mut self, store: &mut MemoryStore) {
        self.machine.take_changes().write_to(store).expect("rows fit");
        let restored = Machine::restore(store, HashSeed::FIXED, RestoreMode::Strict).expect("rows are sound");
        if let Some(restored) = restored {
            self.machine = restored.machine;
        }
        self.machine.check().expect("all counts match");
    }
}

fn room() -> RoomName {
    RoomName::new("default").expect("the name is valid")
}

fn token(user: &str) -> PlaceToken {
    PlaceToken::new(format!("token of {user}")).expect("the token is valid")
}

fn join(user: &str, class: u32) -> JoinRoom {
    let user_id = UserId::new(user).expect("the id is valid");
    JoinRoom { room: room(), user: user_id, token: token(user), class, ticket: None }
}

fn position(view: &PlaceView) -> u64 {
    match view {
        PlaceView::Waiting { position, .. } => position.expect("the room is open"),
        other => panic!("not waiting: {other:?}"),
    }
}

fn below(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % bound
}

#[test]
fn position_is_the_number_of_admissions_until_a_waiters_turn() {
    for seed in 1..=10_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut world = World::new();
        let weights = [vec![1], vec![3, 1], vec![7, 2, 5, 1]][below(&mut state, 3) as usize].clone();
        let classes = weights.len() as u64;
        world.set(RoomSettings { max_active: 1, weights, ..RoomSettings::default() });
        let mut users = vec![];
        for number in 0..60 {
            let user = format!("u{number}");
            world.join(&user, below(&mut state, classes) as u32);
            users.push(user);
            if below(&mut state, 4) == 0 {
                let gone = users.remove(below(&mut state, users.len() as u64) as usize);
                world.call(LeaveRoom { room: room(), token: token(&gone) });
            }
        }
        let waits = |view: &PlaceView| matches!(view, PlaceView::Waiting { .. });
        let mut order: Vec<_> = users.iter().map(|user| (world.show(user), user)).collect();
        order.retain(|(view, _)| waits(view));
        order.sort_by_key(|(view, _)| position(view));
        for (index, (view, _)) in order.iter().enumerate() {
            assert_eq!(position(view), index as u64 + 1, "seed {seed}");
        }
        for (_, user) in &order {
            let active = users.iter().find(|user| matches!(world.show(user), PlaceView::Active { .. }));
            world.call(LeaveRoom { room: room(), token: token(active.expect("one is active")) });
            assert!(matches!(world.show(user), PlaceView::Active { .. }), "seed {seed}: {user} is next");
        }
    }
}

#[test]
fn classes_share_admissions_by_weight_and_an_empty_class_saves_nothing() {
    let mut world = World::new();
    let settings = RoomSettings { max_active: 0, weights: vec![3, 1], ..RoomSettings::default() };
    world.set(settings.clone());
    for number in 0..40 {
        world.join(&format!("low{number}"), 1);
    }
    world.set(RoomSettings { max_active: 10, ..settings.clone() });
    for number in 0..30 {
        world.join(&format!("high{number}"), 0);
    }
    world.set(RoomSettings { max_active: 30, ..settings });
    let RoomView { waiting, active, .. } = world.call(InspectRoom { room: room() }).0.expect("it exists");
    assert_eq!((active, waiting), (30, vec![14, 26]), "three to one, and one more at first");
}

#[test]
fn waiters_get_time_for_their_next_poll_after_a_restart() {
    let (mut world, mut store) = (World::new(), MemoryStore::default());
    world.machine.record();
    world.set(RoomSettings { max_active: 1, ..RoomSettings::default() });
    world.join("one", 0);
    world.join("two", 0);
    world.join("three", 0);
    world.restart(&mut store);
    world.pass_ms(10 * ROOM_RETENTION_MS);
    assert!(matches!(world.show("two"), PlaceView::Waiting { position: Some(1), .. }));
    world.call(SweepRooms { rooms_max: 1 });
    assert!(matches!(world.show("two"), PlaceView::Active { .. }), "the time of the first is over");
    world.pass_ms(ROOM_RETENTION_MS + ROOM_POLL_MS_MIN - 1);
    assert_eq!(position(&world.call(KeepPlace { room: room(), token: token("three") }).place), 1);
    world.join("four", 0);
    world.restart(&mut store);
    world.call(SweepRooms { rooms_max: 1 });
    world.pass_ms(ROOM_RETENTION_MS + ROOM_POLL_MS_MIN);
    world.call(SweepRooms { rooms_max: 1 });
    assert_eq!(world.show("three"), PlaceView::Unknown, "silent since the restart");
}

#[test]
fn a_large_room_is_brought_up_to_date_in_bounded_steps() {
    let mut world = World::new();
    let many = 5 * ROOM_STEP_PLACES_MAX as u32;
    let settings = RoomSettings { max_active: many, ..RoomSettings::default() };
    world.set(RoomSettings { max_active: 0, ..settings.clone() });
    for number in 0..2 * many {
        world.call_unchecked(join(&format!("u{number}"), 0));
    }
    world.set(settings);
    let mut last = 0;
    loop {
        let reply = world.call(AdmitWaiters { room: room() });
        assert!(reply.admitted <= 2 * ROOM_STEP_PLACES_MAX as u64);
        if reply.active == last {
            break;
        }
        last = reply.active;
    }
    assert_eq!(last, many.into());
    world.pass_ms(ROOM_RETENTION_MS * 100);
    for _ in 0..20 {
        world.call(SweepRooms { rooms_max: 1 });
    }
    let view = world.call(InspectRoom { room: room() }).0.expect("it has settings");
    assert_eq!((view.active, view.waiting), (0, vec![0]));
}

#[test]
// tidy: long because each command stands in one place
fn random_commands_keep_every_invariant_and_survive_restarts() {
    for seed in 1..=12_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (mut world, mut store) = (World::new(), MemoryStore::default());
        world.machine.record();
        for step in 0..1500 {
            let mut draw = |bound| below(&mut state, bound);
            let user = format!("u{}", draw(40));
            let room = RoomName::new(["default", "r:1"][draw(2) as usize]).unwrap();
            let user_id = UserId::new(&user).unwrap();
            let active = match draw(16) {
                0..=5 => {
                    let class = draw(3) as u32;
                    let ticket = (draw(2) == 0).then(|| draw(1 << 40));
                    let reply = world.call(JoinRoom { room: room.clone(), ticket, ..join(&user, class) });
                    if let RoomJoined::Joined { status, .. } = reply { status.active } else { 0 }
                }
                6 | 7 => world.call(KeepPlace { room: room.clone(), token: token(&user) }).active,
                8 => world.call(LeaveRoom { room: room.clone(), token: token(&user) }).active,
                9 => world.call(RevokePlace { room: room.clone(), user: user_id }).active,
                10 => {
                    let rate = (draw(2) == 0).then(|| Rate::new(1 + draw(50), 1000, None).unwrap());
                    let weights = [vec![1], vec![2, 1], vec![5, 3, 1]][draw(3) as usize].clone();
                    let max_active = 3 + draw(6) as u32;
                    let settings = RoomSettings { max_active, rate, weights, ..RoomSettings::default() };
                    world.call(SetRoom { room: room.clone(), settings });
                    0
                }
                11 => {
                    let reason = (draw(3) == 0).then(|| "a reason".to_owned());
                    world.call(PauseRoom { room: room.clone(), reason });
                    0
                }
                12 => {
                    let (seed, commitment) = ("seed".to_owned(), "hash".to_owned());
                    let phase = match draw(5) {
                        0 => NextPhase::Closed,
                        1 => NextPhase::Prequeue { seed, commitment },
                        _ => NextPhase::Open { digest: "digest".to_owned() },
                    };
                    world.call(SetPhase { room: room.clone(), phase });
                    0
                }
                13 => {
                    let (refused, retry_after_ms) = (draw(3) == 0, draw(2) * 500);
                    let answered = draw(20);
                    world.call(ReportRoom { room: room.clone(), answered, refused, retry_after_ms }).active
                }
                14 => world.call(AdmitWaiters { room: room.clone() }).active,
                _ => {
                    world.pass_ms(if draw(40) == 0 { 700_000 } else { draw(3000) });
                    world.call(SweepRooms { rooms_max: 3 });
                    0
                }
            };
            assert!(active <= 8, "seed {seed}, step {step}: {active} are active");
            if below(&mut state, 20) == 0 {
                world.machine.take_changes().write_to(&mut store).unwrap();
            }
            if below(&mut state, 150) == 0 {
                let before = world.call(ListRooms { after: None, rooms_max: 10 });
                world.restart(&mut store);
                assert_eq!(
                    world.call(ListRooms { after: None, rooms_max: 10 }),
                    before,
                    "seed {seed}, {step}"
                );
            }
        }
    }
}
