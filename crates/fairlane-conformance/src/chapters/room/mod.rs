//! The chapters about waiting rooms.

pub(super) mod admit_waiters;
pub(super) mod inspect_room;
pub(super) mod join_room;
pub(super) mod keep_place;
pub(super) mod leave_room;
pub(super) mod list_places;
pub(super) mod list_rooms;
pub(super) mod pause_room;
pub(super) mod report_room;
pub(super) mod revoke_place;
pub(super) mod set_phase;
pub(super) mod set_room;
pub(super) mod show_place;
pub(super) mod sweep_rooms;
