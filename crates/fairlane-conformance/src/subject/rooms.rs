//! Methods for waiting rooms. Unless a case says otherwise, it uses the room `default`, and the token
//! of a user has the user's name.

use fairlane_core::room::*;
use fairlane_core::{PlaceToken, RoomName, UserId};

use super::Subject;

impl Subject {
    /// Joins the room `default`.
    pub async fn join(&self, user: &str) -> PlaceView {
        match self.try_join(joining(user)).await {
            RoomJoined::Joined { status, .. } => status.place,
            other => panic!("not joined: {other:?}"),
        }
    }

    /// Tries to join a room.
    pub async fn try_join(&self, command: JoinRoom) -> RoomJoined {
        self.engine.call(command).await.expect("join_room is answered")
    }

    /// An active place of a user that lasts this long from now on.
    pub fn active_for(&self, user: &str, remaining_us: u64) -> PlaceView {
        PlaceView::Active { user: user_id(user), remaining_us, until: self.now().plus_us(remaining_us) }
    }

    /// Shows a place without a poll.
    pub async fn show_place(&self, user: &str) -> PlaceView {
        let command = ShowPlace { room: room_name("default"), token: place_token(user) };
        self.engine.call(command).await.expect("show_place is answered").place
    }

    /// Polls a place.
    pub async fn keep_place(&self, user: &str) -> PlaceView {
        let command = KeepPlace { room: room_name("default"), token: place_token(user) };
        self.engine.call(command).await.expect("keep_place is answered").place
    }

    /// Leaves the room `default`.
    pub async fn leave_room(&self, user: &str) -> PlaceLeft {
        let command = LeaveRoom { room: room_name("default"), token: place_token(user) };
        self.engine.call(command).await.expect("leave_room is answered")
    }

    /// Sets the limits of the room `default`.
    pub async fn set_room(&self, settings: RoomSettings) -> RoomSet {
        let command = SetRoom { room: room_name("default"), settings };
        self.engine.call(command).await.expect("set_room is answered")
    }

    /// Sets the number of active places of the room `default`.
    pub async fn set_max_active(&self, max_active: u32) {
        self.set_room(RoomSettings { max_active, ..RoomSettings::default() }).await;
    }

    /// Sets the phase of the room `default`.
    pub async fn set_phase(&self, phase: NextPhase) -> PhaseSet {
        let command = SetPhase { room: room_name("default"), phase };
        self.engine.call(command).await.expect("set_phase is answered")
    }

    /// Pauses or resumes the room `default`.
    pub async fn pause_room(&self, reason: Option<&str>) -> RoomPaused {
        let command = PauseRoom { room: room_name("default"), reason: reason.map(str::to_owned) };
        self.engine.call(command).await.expect("pause_room is answered")
    }

    /// Brings the room `default` up to date.
    pub async fn admit_waiters(&self) -> WaitersAdmitted {
        let command = AdmitWaiters { room: room_name("default") };
        self.engine.call(command).await.expect("admit_waiters is answered")
    }

    /// Brings rooms up to date that are due.
    pub async fn sweep_rooms(&self) -> RoomsSwept {
        self.engine.call(SweepRooms { rooms_max: 20 }).await.expect("sweep_rooms is answered")
    }

    /// The room `default`, if it exists.
    pub async fn find_room(&self) -> Option<RoomView> {
        let command = InspectRoom { room: room_name("default") };
        self.engine.call(command).await.expect("inspect_room is answered").0
    }

    /// The room `default`, which exists.
    pub async fn room(&self) -> RoomView {
        self.find_room().await.expect("the room exists")
    }

    /// The users of a page of places of the room `default`, with their numbers.
    pub async fn places(&self, listing: PlaceListing) -> Vec<(String, u64)> {
        let command = ListPlaces { room: room_name("default"), listing, from: 0, places_max: 100 };
        let listed = self.engine.call(command).await.expect("list_places is answered");
        listed.places.into_iter().map(|place| (place.user.to_string(), place.number)).collect()
    }
}

/// The name of a room.
pub fn room_name(name: &str) -> RoomName {
    RoomName::new(name).expect("a valid room")
}

/// The token of a place.
pub fn place_token(token: &str) -> PlaceToken {
    PlaceToken::new(token).expect("a valid token")
}

/// A user.
pub fn user_id(user: &str) -> UserId {
    UserId::new(user).expect("a valid user id")
}

/// Joins the room `default` in its first class.
pub fn joining(user: &str) -> JoinRoom {
    JoinRoom {
        room: room_name("default"),
        user: user_id(user),
        token: place_token(user),
        class: 0,
        ticket: None,
    }
}

/// The position of a waiter.
pub fn position(place: &PlaceView) -> Option<u64> {
    match place {
        PlaceView::Waiting { position, .. } => *position,
        other => panic!("not waiting: {other:?}"),
    }
}

/// When a waiter is to poll again.
pub fn next_poll_ms(place: &PlaceView) -> u64 {
    match place {
        PlaceView::Waiting { next_poll_ms, .. } => *next_poll_ms,
        other => panic!("not waiting: {other:?}"),
    }
}

/// Whether a place is active.
pub fn is_active(place: &PlaceView) -> bool {
    matches!(place, PlaceView::Active { .. })
}
