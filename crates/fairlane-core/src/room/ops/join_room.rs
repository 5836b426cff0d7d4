//! `join_room`: gives a user a place in a room.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{ROOM_CLASSES_MAX, ROOM_PLACES_MAX, ROOM_TICKETS, ROOMS_MAX};
use crate::names::{PlaceToken, RoomName, UserId};
use crate::numbers::{Micros, within};
use crate::room::state::{Place, PlaceState, Room};
use crate::room::{Machine, PlaceStatus, RoomPhase};

/// Joins a room. A user who has a place already keeps it, with its token; joining again counts as a
/// poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRoom {
    /// The room, which is made if it does not exist.
    pub room: RoomName,
    /// The id of the user.
    pub user: UserId,
    /// A new random token, used if the user has no place yet.
    pub token: PlaceToken,
    /// The priority class, from 0.
    pub class: u32,
    /// The user's ticket, used in a pre-queue only.
    pub ticket: Option<u64>,
}

/// The reply to [`JoinRoom`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoomJoined {
    /// The user has a place.
    Joined {
        /// The token of the place.
        token: PlaceToken,
        /// Its state.
        status: PlaceStatus,
    },
    /// The room is a pre-queue: join again with the ticket that follows from this seed.
    TicketNeeded {
        /// The seed, which stays secret until the room opens.
        seed: String,
    },
    /// The user cannot join.
    Refused(RoomRefusal),
}

/// Why a user cannot join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RoomRefusal {
    /// The room is closed.
    #[error("the room is closed")]
    Closed,
    /// The room has no such class.
    #[error("the room has no such priority class")]
    UnknownClass,
    /// The token belongs to another user.
    #[error("the token is in use; draw another")]
    TokenInUse,
    /// The room has too many places.
    #[error("the room already has {ROOM_PLACES_MAX} places")]
    TooManyPlaces,
    /// There are too many rooms.
    #[error("there are already {ROOMS_MAX} rooms")]
    TooManyRooms,
}

impl Operation for JoinRoom {
    type Machine = Machine;
    type Reply = RoomJoined;

    const STEM: &'static str = "join_room";

    fn validate(&self) -> Result<(), Invalid> {
        within("a priority class", self.class.into(), 0, ROOM_CLASSES_MAX as u64 - 1)?;
        within("a ticket", self.ticket.unwrap_or(0), 0, ROOM_TICKETS - 1)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn adds_data(&self) -> bool {
        true
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomJoined {
        machine.join_room(self, context.now)
    }
}

impl Machine {
    fn join_room(&mut self, command: JoinRoom, now: Micros) -> RoomJoined {
        let name = command.room.clone();
        let Some(mut room) = self.take_or_new(&name, now) else {
            return RoomJoined::Refused(RoomRefusal::TooManyRooms);
        };
        let known = room.users.get(&command.user).cloned();
        let added = match &known {
            Some(_) => Ok(()),
            None => self.add_waiter(&mut room, &command),
        };
        let token = known.unwrap_or(command.token);
        if let Some(silent_at) = room.silent_at(&token, now).filter(|_| added.is_ok()) {
            room.keep(&token, silent_at);
        }
        self.store(&name, room, now);
        match added {
            Ok(()) => RoomJoined::Joined { status: self.rooms[&name].status(&token, now), token },
            Err(refused) => refused,
        }
    }

    fn add_waiter(&mut self, room: &mut Room, command: &JoinRoom) -> Result<(), RoomJoined> {
        let refused = if !room.phase.accepts() {
            Some(RoomRefusal::Closed)
        } else if command.class as usize >= room.classes.len() {
            Some(RoomRefusal::UnknownClass)
        } else if room.places.contains_key(&command.token) {
            Some(RoomRefusal::TokenInUse)
        } else {
            (room.places.len() >= ROOM_PLACES_MAX).then_some(RoomRefusal::TooManyPlaces)
        };
        if let Some(refusal) = refused {
            return Err(RoomJoined::Refused(refusal));
        }
        let number = if room.phase == RoomPhase::Prequeue {
            let needed = || RoomJoined::TicketNeeded { seed: room.draw.seed.clone() };
            command.ticket.ok_or_else(needed)?
        } else {
            room.next_number += 1;
            room.next_number - 1
        };
        let row = self.next_row;
        self.next_row += 1;
        self.touch_place(row, &command.room, &command.token);
        let state = PlaceState::Waiting { number, silent_at: Micros::default() };
        let place = Place { row, user: command.user.clone(), class: command.class as usize, state };
        room.add(command.token.clone(), place);
        room.totals.joined += 1;
        Ok(())
    }
}
