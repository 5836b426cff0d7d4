//! The operations on waiting rooms. A file per operation; this list is the wire format.

mod admit_waiters;
mod inspect_room;
mod join_room;
mod keep_place;
mod leave_room;
mod list_places;
mod list_rooms;
mod pause_room;
mod report_room;
mod revoke_place;
mod set_phase;
mod set_room;
mod show_place;
mod sweep_rooms;

use super::Machine;
use crate::kernel::operations;

operations! {
    Room(Machine):
    join_room::JoinRoom { RoomJoined, RoomRefusal },
    show_place::ShowPlace,
    keep_place::KeepPlace,
    admit_waiters::AdmitWaiters { WaitersAdmitted },
    leave_room::LeaveRoom { PlaceLeft },
    revoke_place::RevokePlace,
    set_room::SetRoom { RoomSet },
    set_phase::SetPhase { NextPhase, PhaseSet },
    pause_room::PauseRoom { RoomPaused },
    report_room::ReportRoom { RoomReported },
    inspect_room::InspectRoom { RoomInspected },
    list_rooms::ListRooms { RoomsListed },
    list_places::ListPlaces { PlaceListing, PlacesListed },
    sweep_rooms::SweepRooms { RoomsSwept },
}
