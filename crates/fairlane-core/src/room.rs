//! Waiting rooms: users wait in order for one of a limited number of active places.
//!
//! - `room/settings.rs`: limits of a room. `room/state.rs`: one room with its places.
//! - `room/order.rs`: priority classes, positions, and when a waiter polls again.
//! - `room/advance.rs`: places that end, waiters that fall silent, and admission.
//! - `room/view.rs`: views of rooms and places. `room/rows.rs`: the rows in a store. `room/ops/`:
//!   the operations.
//!
//! Every command first brings its room up to date, and every command that frees a place admits the
//! next waiter in the same step. Invariants: no more than `max_active` places are active, except
//! after the limit was lowered; a user has one place in a room; a place is waiting or active, never
//! both; within a class, waiters are admitted in the order of their numbers. Left out on purpose:
//! signed passes and the computation of tickets, which belong to the library.

mod advance;
mod dump;
mod invariants;
mod ops;
mod order;
mod rows;
mod settings;
mod state;
mod view;

pub use ops::*;
pub use settings::RoomSettings;
pub use state::{RoomPhase, RoomTotals};
pub use view::{Draw, Eta, PlaceEntry, PlaceStatus, PlaceView, RoomView};

use std::collections::{BTreeMap, BTreeSet};

use crate::hashing::HashSeed;
use crate::kernel::{self, Context, Dump, Operation};
use crate::names::{PlaceToken, RoomName};
use crate::numbers::Micros;
use state::Room;

/// The state of all waiting rooms of one partition.
#[derive(Debug)]
pub struct Machine {
    now: Micros,
    hash_seed: HashSeed,
    rooms: BTreeMap<RoomName, Room>,
    /// The next time at which each room changes by itself.
    deadlines: BTreeSet<(Micros, RoomName)>,
    /// Whether there ever was a room.
    is_used: bool,
    /// The number of the next row of a place.
    next_row: u64,
    /// The rows that a store has to write; `None` before recording is enabled.
    touched: Option<Touched>,
}

/// Rooms, and places by the number of their rows, that have changed.
#[derive(Debug, Default)]
struct Touched {
    rooms: BTreeSet<RoomName>,
    places: BTreeMap<u64, (RoomName, PlaceToken)>,
}

impl Machine {
    fn empty(hash_seed: HashSeed) -> Self {
        Self {
            now: Micros::default(),
            hash_seed,
            rooms: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            is_used: false,
            next_row: 1,
            touched: None,
        }
    }

    /// Applies one operation, which must have passed [`Operation::validate`].
    pub fn call<O: Operation<Machine = Self>>(&mut self, operation: O, now: Micros) -> O::Reply {
        self.now = now;
        operation.apply(self, &mut Context { now })
    }

    fn touch_place(&mut self, row: u64, name: &RoomName, token: &PlaceToken) {
        if let Some(touched) = &mut self.touched {
            touched.places.insert(row, (name.clone(), token.clone()));
        }
    }
}

impl kernel::Machine for Machine {
    type Command = Command;
    type Reply = Reply;

    fn new(hash_seed: HashSeed, now: Micros) -> Self {
        Self { now, ..Self::empty(hash_seed) }
    }

    fn apply(&mut self, command: Command, now: Micros) -> Reply {
        self.now = now;
        command.apply(self, &mut Context { now })
    }

    fn last_time(&self) -> Micros {
        self.now
    }

    fn check(&self) -> Result<(), String> {
        self.check()
    }

    fn dump(&self, _: Micros, dump: &mut Dump) {
        self.dump_rooms(dump);
    }
}
