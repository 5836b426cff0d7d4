//! Commands on waiting rooms, with few rooms and users, so that they collide often.

use fairlane_core::limits::{LIST_PLACES_MAX, LIST_ROOMS_MAX, ROOM_STEP_PLACES_MAX};
use fairlane_core::room::*;
use fairlane_core::{Rate, RoomName};

use super::OtherGenerator;
use crate::dice::Dice;
use crate::subject::{place_token, room_name, user_id};

/// The rooms of all commands.
pub(in crate::differential) const ROOMS: [&str; 4] = ["default", "a:b", "콘서트", "waiting"];
const USERS: u64 = 30;

/// Draws commands on waiting rooms.
pub(super) struct RoomGenerator {
    dice: Dice,
    /// Whether mostly one room is used, with more places than one command handles.
    crowded: bool,
}

impl OtherGenerator for RoomGenerator {
    fn pause_us(&mut self) -> u64 {
        match self.dice.below(60) {
            _ if self.crowded && !self.dice.one_in(100) => self.dice.below(2000),
            0..20 => 0,
            20..40 => self.dice.below(50_000),
            40..54 => self.dice.below(2_000_000),
            54..58 => self.dice.below(60_000_000),
            _ => self.dice.below(700_000_000),
        }
    }

    fn command(&mut self) -> fairlane_core::Command {
        let room = self.room();
        let command = match self.dice.below(60) {
            0..24 => Command::JoinRoom(self.join(room)),
            24..32 => Command::KeepPlace(KeepPlace { room, token: self.token() }),
            32..36 => Command::ShowPlace(ShowPlace { room, token: self.token() }),
            36..40 => Command::LeaveRoom(LeaveRoom { room, token: self.token() }),
            40 => Command::RevokePlace(RevokePlace { room, user: user_id(&self.user()) }),
            41..44 => Command::SetRoom(SetRoom { room, settings: self.settings() }),
            44 => Command::SetPhase(SetPhase { room, phase: self.phase() }),
            45 => {
                let reason =
                    self.dice.one_in(3).then(|| self.dice.pick(&["", "점검", "a reason"]).to_owned());
                Command::PauseRoom(PauseRoom { room, reason })
            }
            46..49 => Command::ReportRoom(ReportRoom {
                room,
                answered: self.dice.below(30),
                refused: self.dice.one_in(4),
                retry_after_ms: self.dice.pick(&[0, 0, 200, 5000]),
            }),
            49 => Command::InspectRoom(InspectRoom { room }),
            50 => {
                let after = self.dice.one_in(2).then_some(room);
                Command::ListRooms(ListRooms { after, rooms_max: self.dice.pick(&[1, 2, LIST_ROOMS_MAX]) })
            }
            51..53 => Command::ListPlaces(self.list(room)),
            53..56 => Command::AdmitWaiters(AdmitWaiters { room }),
            _ => Command::SweepRooms(SweepRooms { rooms_max: self.dice.pick(&[1, 2, 20]) }),
        };
        command.into()
    }

    fn observe(&mut self, _: &fairlane_core::Reply) {}
}

impl RoomGenerator {
    pub fn new(mut dice: Dice) -> Self {
        Self { crowded: dice.one_in(3), dice }
    }

    fn room(&mut self) -> RoomName {
        let name = if self.crowded && !self.dice.one_in(10) { ROOMS[0] } else { self.dice.pick(&ROOMS) };
        room_name(name)
    }

    fn user(&mut self) -> String {
        let users = if self.crowded { 6 * ROOM_STEP_PLACES_MAX as u64 } else { USERS };
        match self.dice.below(users) {
            0 => "u:0%".to_owned(),
            number => format!("u{number}"),
        }
    }

    /// Mostly the token of a user; every user has its own.
    fn token(&mut self) -> fairlane_core::PlaceToken {
        place_token(&format!("t {}", self.user()))
    }

    fn join(&mut self, room: RoomName) -> JoinRoom {
        let user = self.user();
        let token = if self.dice.one_in(20) { self.token() } else { place_token(&format!("t {user}")) };
        // Few tickets, so that some are equal.
        let ticket = (!self.dice.one_in(3)).then(|| self.dice.pick(&[0, 7, (1 << 52) - 1, 1 << 40]));
        let class = if self.dice.one_in(2) { 0 } else { self.dice.below(4) as u32 };
        JoinRoom { room, user: user_id(&user), token, class, ticket }
    }

    fn settings(&mut self) -> RoomSettings {
        if self.dice.one_in(4) {
            return RoomSettings::default();
        }
        let crowd = 4 * ROOM_STEP_PLACES_MAX as u32;
        let max_active =
            if self.crowded { self.dice.pick(&[0, crowd, 10]) } else { self.dice.below(8) as u32 };
        let rate = self.dice.one_in(2).then(|| {
            let (count, period_ms) = (1 + self.dice.below(40), self.dice.pick(&[1000, 60_000]));
            Rate::new(count, period_ms, None).expect("a valid rate")
        });
        let weights = self.dice.pick(&[vec![1], vec![1], vec![3, 1], vec![7, 2, 5], vec![1000, 999, 998, 1]]);
        RoomSettings {
            max_active,
            active_ttl_ms: self.dice.pick(&[1000, 20_000, 600_000]),
            retention_ms: self.dice.pick(&[1000, 30_000, 120_000]),
            polls_per_second: self.dice.pick(&[1, 13, 5000]),
            rate,
            weights,
        }
    }

    fn phase(&mut self) -> NextPhase {
        match self.dice.below(5) {
            0 => NextPhase::Closed,
            1 => NextPhase::Prequeue {
                seed: self.dice.pick(&["seed", "다른"]).to_owned(),
                commitment: self.dice.pick(&["hash", "x"]).to_owned(),
            },
            _ => NextPhase::Open { digest: self.dice.pick(&["", "digest"]).to_owned() },
        }
    }

    fn list(&mut self, room: RoomName) -> ListPlaces {
        let class = self.dice.below(4) as u32;
        ListPlaces {
            room,
            listing: self.dice.pick(&[PlaceListing::Active, PlaceListing::Waiting { class }]),
            from: self.dice.pick(&[0, 0, 1, 5]),
            places_max: self.dice.pick(&[1, 3, LIST_PLACES_MAX]),
        }
    }
}
