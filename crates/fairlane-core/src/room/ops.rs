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

pub use admit_waiters::{AdmitWaiters, WaitersAdmitted};
pub use inspect_room::{InspectRoom, RoomInspected};
pub use join_room::{JoinRoom, RoomJoined, RoomRefusal};
pub use keep_place::KeepPlace;
pub use leave_room::{LeaveRoom, PlaceLeft};
pub use list_places::{ListPlaces, PlaceListing, PlacesListed};
pub use list_rooms::{ListRooms, RoomsListed};
pub use pause_room::{PauseRoom, RoomPaused};
pub use report_room::{ReportRoom, RoomReported};
pub use revoke_place::RevokePlace;
pub use set_phase::{NextPhase, PhaseSet, SetPhase};
pub use set_room::{RoomSet, SetRoom};
pub use show_place::ShowPlace;
pub use sweep_rooms::{RoomsSwept, SweepRooms};

use super::Machine;
use crate::kernel::operations;

operations! {
    Room(Machine):
    JoinRoom,
    ShowPlace,
    KeepPlace,
    AdmitWaiters,
    LeaveRoom,
    RevokePlace,
    SetRoom,
    SetPhase,
    PauseRoom,
    ReportRoom,
    InspectRoom,
    ListRooms,
    ListPlaces,
    SweepRooms,
}
