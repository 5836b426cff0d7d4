//! `set_phase`: opens and closes a room, and begins a pre-queue.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::bytes_at_most;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{ROOM_DRAW_BYTES_MAX, ROOM_TICKETS};
use crate::names::RoomName;
use crate::numbers::Micros;
use crate::room::state::{DrawState, Room};
use crate::room::{Machine, RoomPhase};

/// Sets the phase of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPhase {
    /// The room, which is made if it does not exist.
    pub room: RoomName,
    /// The next phase.
    pub phase: NextPhase,
}

/// The next phase of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NextPhase {
    /// Users join and are admitted. This ends a pre-queue and publishes its seed.
    Open {
        /// The digest of the list of tickets; empty without one.
        digest: String,
    },
    /// No user joins any more. In a pre-queue this freezes the list of tickets.
    Closed,
    /// Users draw tickets until the room opens.
    Prequeue {
        /// The secret from which tickets follow.
        seed: String,
        /// Its hash, which is published at once.
        commitment: String,
    },
}

/// The reply to [`SetPhase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PhaseSet {
    /// The room is in this phase.
    Set {
        /// The phase.
        phase: RoomPhase,
        /// Active places.
        active: u64,
    },
    /// A pre-queue can begin only in a room without waiters.
    NotEmpty,
    /// There are too many rooms.
    TooManyRooms,
}

impl Operation for SetPhase {
    type Machine = Machine;
    type Reply = PhaseSet;

    const STEM: &'static str = "set_phase";

    fn validate(&self) -> Result<(), Invalid> {
        let (seed, hash) = match &self.phase {
            NextPhase::Open { digest } => ("", &**digest),
            NextPhase::Closed => ("", ""),
            NextPhase::Prequeue { seed, commitment } => (&**seed, &**commitment),
        };
        bytes_at_most("the seed of a draw", seed.len(), ROOM_DRAW_BYTES_MAX)?;
        bytes_at_most("the commitment or digest of a draw", hash.len(), ROOM_DRAW_BYTES_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> PhaseSet {
        machine.set_phase(self, context.now)
    }
}

impl Machine {
    fn set_phase(&mut self, command: SetPhase, now: Micros) -> PhaseSet {
        let Some(mut room) = self.take_or_new(&command.room, now) else { return PhaseSet::TooManyRooms };
        let is_set = room.enter(command.phase);
        let phase = room.phase;
        self.store(&command.room, room, now);
        match is_set {
            true => PhaseSet::Set { phase, active: self.active_in(&command.room, now) },
            false => PhaseSet::NotEmpty,
        }
    }
}

impl Room {
    /// Enters a phase; returns false if the room must be empty for it and is not.
    fn enter(&mut self, next: NextPhase) -> bool {
        let is_before_opening = self.phase.is_before_opening();
        match next {
            NextPhase::Open { digest } => {
                if is_before_opening {
                    self.draw.tickets = self.waiting();
                    self.draw.digest = digest;
                }
                self.phase = RoomPhase::Open;
            }
            NextPhase::Closed if is_before_opening => self.phase = RoomPhase::Frozen,
            NextPhase::Closed => self.phase = RoomPhase::Closed,
            NextPhase::Prequeue { seed, commitment } => {
                let is_repeated = self.phase == RoomPhase::Prequeue && self.draw.seed == seed;
                if self.waiting() > 0 && !is_repeated {
                    return false;
                }
                self.draw = DrawState { seed, commitment, ..DrawState::default() };
                self.phase = RoomPhase::Prequeue;
                // Users that join after the draw come after all tickets.
                self.next_number = self.next_number.max(ROOM_TICKETS);
            }
        }
        self.changed = true;
        true
    }
}
