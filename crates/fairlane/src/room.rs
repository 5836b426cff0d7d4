//! Waiting rooms: users wait in order for one of a limited number of active places.
//!
//! - `room/draw.rs`: the draw of a pre-queue and its verification.
//! - `room/pass.rs`: signed passes, which an edge checks without a call.
//!
//! A room needs no setup: the first user that joins makes it. Its limits can be changed at any time.

mod draw;
mod pass;

pub use draw::{DrawError, DrawnList, Seed, TicketLine, VerifiedDraw, verify_draw};
pub use pass::{Pass, PassClaims, PassError, PassKeyView, PassKeys, PassOptions, PassVerifier};

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::LIST_PLACES_MAX;
use fairlane_core::room::{
    AdmitWaiters, InspectRoom, JoinRoom, KeepPlace, LeaveRoom, ListPlaces, NextPhase, PauseRoom, PhaseSet,
    PlaceListing, PlaceStatus, PlaceView, PlacesListed, ReportRoom, RevokePlace, RoomJoined, RoomPaused,
    RoomRefusal, RoomReported, RoomSet, RoomSettings, RoomView, SetPhase, SetRoom, ShowPlace,
    WaitersAdmitted,
};
use fairlane_core::{PlaceToken, RoomName, UserId};
use fairlane_engine::Engine;

use crate::error::Error;

/// Why a room refused a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoomError {
    /// The user cannot join.
    #[error("{0}")]
    Refused(RoomRefusal),
    /// The token has no place: it never had one, or its place has ended.
    #[error("the token has no place in this room; join it again")]
    UnknownPlace,
    /// The place is waiting, not active.
    #[error("the place is not active yet{}", .position.map_or(String::new(), |at| format!(": position {at}")))]
    Waiting {
        /// The position, from 1.
        position: Option<u64>,
    },
    /// A class that would be removed has waiters.
    #[error("a priority class that would be removed has waiters")]
    ClassInUse,
    /// A pre-queue can begin only in a room without waiters.
    #[error("the room has waiters; a pre-queue begins in a room without any")]
    NotEmpty,
    /// There is no pre-queue to open or to verify.
    #[error("the room has no pre-queue")]
    NoPrequeue,
    /// There are too many rooms.
    #[error("there are too many rooms")]
    TooManyRooms,
}

/// A place that a user has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedPlace {
    /// The token of the place, which only the user should know.
    pub token: PlaceToken,
    /// The state of the place.
    pub status: PlaceStatus,
}

/// A handle to a waiting room, made with [`Fairlane::room`](crate::Fairlane::room).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// use fairlane::{Fairlane, PlaceView, RoomSettings};
///
/// let fairlane = Fairlane::open("memory:").await?;
/// let room = fairlane.room("concert");
/// room.set(RoomSettings { max_active: 1, ..RoomSettings::default() }).await?;
/// let ada = room.join("ada").await?;
/// let bob = room.join("bob").await?;
/// assert!(room.validate(&ada.token).await.is_ok());
/// assert!(matches!(bob.status.place, PlaceView::Waiting { position: Some(1), .. }));
/// room.leave(&ada.token).await?;
/// assert!(room.validate(&bob.token).await.is_ok(), "the place is free, so the next user has it");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Room {
    engine: Arc<dyn Engine>,
    name: String,
}

impl Room {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: String) -> Self {
        Self { engine, name }
    }

    fn name(&self) -> Result<RoomName, Error> {
        Ok(RoomName::new(&self.name)?)
    }

    /// Gives a user a place. A user who has one keeps it, with the same token.
    pub async fn join(&self, user: &str) -> Result<JoinedPlace, Error> {
        self.join_class(user, 0).await
    }

    /// Gives a user a place in a priority class.
    pub async fn join_class(&self, user: &str, class: u32) -> Result<JoinedPlace, Error> {
        let token = PlaceToken::new(pass::hex(&draw::random_bytes::<16>()?))?;
        let (room, user) = (self.name()?, UserId::new(user)?);
        let mut command = JoinRoom { room, user, token, class, ticket: None };
        let mut reply = self.engine.call(command.clone()).await?;
        if let RoomJoined::TicketNeeded { seed } = &reply {
            command.ticket = Some(Seed::from(seed.as_str()).ticket(&command.user));
            reply = self.engine.call(command).await?;
        }
        match reply {
            RoomJoined::Joined { token, status } => Ok(JoinedPlace { token, status }),
            RoomJoined::Refused(refusal) => Err(RoomError::Refused(refusal).into()),
            // Another pre-queue has begun since the first call.
            RoomJoined::TicketNeeded { .. } => Err(RoomError::NotEmpty.into()),
        }
    }

    /// The state of a place. It does not count as a poll, so it does not keep the place.
    pub async fn show(&self, token: &PlaceToken) -> Result<PlaceStatus, Error> {
        Ok(self.engine.call(ShowPlace { room: self.name()?, token: token.clone() }).await?)
    }

    /// A waiter's poll: keeps its place, and shows it.
    pub async fn keep(&self, token: &PlaceToken) -> Result<PlaceStatus, Error> {
        Ok(self.engine.call(KeepPlace { room: self.name()?, token: token.clone() }).await?)
    }

    /// How long the place is still active; an error if it is not.
    pub async fn validate(&self, token: &PlaceToken) -> Result<Duration, Error> {
        match self.show(token).await?.place {
            PlaceView::Active { remaining_us, .. } => Ok(Duration::from_micros(remaining_us)),
            PlaceView::Waiting { position, .. } => Err(RoomError::Waiting { position }.into()),
            PlaceView::Unknown => Err(RoomError::UnknownPlace.into()),
        }
    }

    /// Gives up a place, waiting or active; an error if the token has none. Returns the number of
    /// active places.
    pub async fn leave(&self, token: &PlaceToken) -> Result<u64, Error> {
        let left = self.engine.call(LeaveRoom { room: self.name()?, token: token.clone() }).await?;
        if left.was_there { Ok(left.active) } else { Err(RoomError::UnknownPlace.into()) }
    }

    /// Takes a user's place away; an error if the user has none. A pass that the user has stays
    /// valid until it expires.
    pub async fn revoke(&self, user: &str) -> Result<u64, Error> {
        let left = self.engine.call(RevokePlace { room: self.name()?, user: UserId::new(user)? }).await?;
        if left.was_there { Ok(left.active) } else { Err(RoomError::UnknownPlace.into()) }
    }

    /// Brings the room up to date. Every other call does the same, so this is a backstop.
    pub async fn admit(&self) -> Result<WaitersAdmitted, Error> {
        Ok(self.engine.call(AdmitWaiters { room: self.name()? }).await?)
    }

    /// Sets all limits. A lower limit ends no place.
    pub async fn set(&self, settings: RoomSettings) -> Result<(), Error> {
        match self.engine.call(SetRoom { room: self.name()?, settings }).await? {
            RoomSet::Set { .. } => Ok(()),
            RoomSet::ClassInUse => Err(RoomError::ClassInUse.into()),
            RoomSet::TooManyRooms => Err(RoomError::TooManyRooms.into()),
        }
    }

    /// Changes some limits and returns all of them. Changes at the same time may undo each other.
    pub async fn update(&self, change: impl FnOnce(&mut RoomSettings)) -> Result<RoomSettings, Error> {
        let mut settings = self.view().await?.map(|view| view.settings).unwrap_or_default();
        change(&mut settings);
        self.set(settings.clone()).await?;
        Ok(settings)
    }

    /// Stops admission, with a reason that waiters see.
    pub async fn pause(&self, reason: &str) -> Result<(), Error> {
        self.set_pause(Some(reason.to_owned())).await
    }

    /// Resumes admission.
    pub async fn resume(&self) -> Result<(), Error> {
        self.set_pause(None).await
    }

    async fn set_pause(&self, reason: Option<String>) -> Result<(), Error> {
        match self.engine.call(PauseRoom { room: self.name()?, reason }).await? {
            RoomPaused::Set { .. } => Ok(()),
            RoomPaused::TooManyRooms => Err(RoomError::TooManyRooms.into()),
        }
    }

    /// Lets users join. A pre-queue is opened with [`open_prequeue`](Self::open_prequeue), so that
    /// its draw can be verified.
    pub async fn open(&self) -> Result<(), Error> {
        self.set_phase(NextPhase::Open { digest: String::new() }).await
    }

    /// Lets no more users join; those who wait are admitted.
    pub async fn close(&self) -> Result<(), Error> {
        self.set_phase(NextPhase::Closed).await
    }

    async fn set_phase(&self, phase: NextPhase) -> Result<(), Error> {
        match self.engine.call(SetPhase { room: self.name()?, phase }).await? {
            PhaseSet::Set { .. } => Ok(()),
            PhaseSet::NotEmpty => Err(RoomError::NotEmpty.into()),
            PhaseSet::TooManyRooms => Err(RoomError::TooManyRooms.into()),
        }
    }

    /// Begins a pre-queue with a random seed: users draw tickets until it is opened. Publish the
    /// commitment that is returned.
    pub async fn begin_prequeue(&self) -> Result<String, Error> {
        let seed = Seed::random()?;
        let commitment = seed.commitment();
        let phase = NextPhase::Prequeue { seed: seed.to_string(), commitment: commitment.clone() };
        self.set_phase(phase).await?;
        Ok(commitment)
    }

    /// Opens a pre-queue: no more tickets are drawn, `publish` gets each line of the list of tickets,
    /// and then the room admits users in the order of the list. Publish the lines, so that users can
    /// verify their places with [`verify_draw`].
    ///
    /// If this fails on the way, the room admits no user yet; call it again.
    pub async fn open_prequeue(
        &self,
        mut publish: impl FnMut(&TicketLine) -> std::io::Result<()>,
    ) -> Result<DrawnList, Error> {
        let view = self.view().await?.filter(|view| view.phase.is_before_opening());
        let view = view.ok_or(RoomError::NoPrequeue)?;
        self.close().await?;
        let mut list = DrawnList::default();
        for class in 0..view.settings.weights.len() as u32 {
            let mut from = Some(0);
            while let Some(rank) = from {
                let page = self.places(PlaceListing::Waiting { class }, rank, LIST_PLACES_MAX).await?;
                for place in page.places {
                    let line = TicketLine { class, ticket: place.number, user: place.user };
                    list.add(&line);
                    publish(&line)?;
                }
                from = page.next;
            }
        }
        self.set_phase(NextPhase::Open { digest: list.digest() }).await?;
        Ok(list)
    }

    /// Reports responses of the back end behind the room. A refusal lowers the admission rate, which
    /// then grows back; `retry_after` stops admission until then.
    pub async fn report(
        &self,
        answered: u64,
        refused: bool,
        retry_after: Duration,
    ) -> Result<RoomReported, Error> {
        let retry_after_ms = retry_after.as_millis() as u64;
        Ok(self.engine.call(ReportRoom { room: self.name()?, answered, refused, retry_after_ms }).await?)
    }

    /// The state of the room; `None` if it does not exist.
    pub async fn view(&self) -> Result<Option<RoomView>, Error> {
        Ok(self.engine.call(InspectRoom { room: self.name()? }).await?.0)
    }

    /// A page of places, from a rank on.
    pub async fn places(
        &self,
        listing: PlaceListing,
        from: u64,
        places_max: usize,
    ) -> Result<PlacesListed, Error> {
        Ok(self.engine.call(ListPlaces { room: self.name()?, listing, from, places_max }).await?)
    }
}
