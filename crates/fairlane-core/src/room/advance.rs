//! Brings a room up to date: ends active places whose time is over, drops silent waiters, and gives
//! free places to the next waiters.

use crate::limits::{ROOM_IDLE_MS, ROOM_STEP_PLACES_MAX};
use crate::names::{PlaceToken, RoomName};
use crate::numbers::Micros;

use super::Machine;
use super::state::{Place, PlaceState, Room};

/// When to continue admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// At once: the step limit was reached.
    More,
    /// When the rate or the back end allows it.
    At(Micros),
    /// When a place is freed or a user joins.
    Blocked,
}

impl Machine {
    /// Takes a room out and brings it up to date. Afterwards [`Machine::store`] puts it back.
    pub(super) fn take(&mut self, name: &RoomName, now: Micros) -> Option<Room> {
        let mut room = self.rooms.remove(name)?;
        if let Some(deadline) = room.deadline.take() {
            self.deadlines.remove(&(deadline, name.clone()));
        }
        if std::mem::take(&mut room.is_restored) {
            // Polls are not stored, so after a restart every waiter gets the time for its next
            // poll.
            let poll_ms = room.next_poll_ms(None, None);
            room.grace_until = now.plus_ms(poll_ms + room.settings.retention_ms);
        }
        self.end_places(name, &mut room, now);
        self.drop_silent(name, &mut room, now);
        self.admit(name, &mut room, now);
        Some(room)
    }

    /// Admits waiters to places that a command has freed, and puts the room back unless it has been
    /// idle for long enough to be forgotten.
    pub(super) fn store(&mut self, name: &RoomName, mut room: Room, now: Micros) {
        let admission = self.admit(name, &mut room, now);
        let was_idle = room.idle_since;
        room.idle_since = match room.is_idle() {
            true if was_idle.0 == 0 => now,
            true => was_idle,
            false => Micros::default(),
        };
        room.changed |= room.idle_since != was_idle;
        let forget_at = (room.idle_since.0 > 0).then(|| room.idle_since.plus_ms(ROOM_IDLE_MS));
        let is_forgotten = forget_at.is_some_and(|at| at <= now);
        if let Some(touched) = self.touched.as_mut().filter(|_| room.changed || is_forgotten) {
            touched.rooms.insert(name.clone());
        }
        room.changed = false;
        if is_forgotten {
            return;
        }
        let end = room.active.first().map(|(until, _)| *until);
        let silence = room.silent.first().map(|(at, _)| (*at).max(room.grace_until));
        let admission = match admission {
            Admission::More => Some(now),
            Admission::At(at) => Some(at),
            Admission::Blocked => None,
        };
        room.deadline = [end, silence, admission, forget_at].into_iter().flatten().min();
        self.deadlines.extend(room.deadline.map(|deadline| (deadline, name.clone())));
        self.rooms.insert(name.clone(), room);
        self.is_used = true;
    }

    /// Removes a place with its row.
    pub(super) fn remove_place(&mut self, name: &RoomName, room: &mut Room, token: &PlaceToken) -> bool {
        let Some(place) = room.remove(token) else { return false };
        self.touch_place(place.row, name, token);
        true
    }

    fn end_places(&mut self, name: &RoomName, room: &mut Room, now: Micros) {
        for _ in 0..ROOM_STEP_PLACES_MAX {
            let Some((_, token)) = room.active.first().filter(|(until, _)| *until <= now).cloned() else {
                return;
            };
            self.remove_place(name, room, &token);
            room.totals.expired += 1;
        }
    }

    fn drop_silent(&mut self, name: &RoomName, room: &mut Room, now: Micros) {
        if now < room.grace_until {
            return;
        }
        for _ in 0..ROOM_STEP_PLACES_MAX {
            let Some((_, token)) = room.silent.first().filter(|(at, _)| *at <= now).cloned() else { return };
            self.remove_place(name, room, &token);
            room.totals.silent += 1;
        }
    }

    /// Moves waiters to free places, as many as the rate allows.
    fn admit(&mut self, name: &RoomName, room: &mut Room, now: Micros) -> Admission {
        let free = u64::from(room.settings.max_active).saturating_sub(room.active.len() as u64);
        let wanted = free.min(room.waiting());
        if wanted == 0 || room.phase.is_before_opening() || room.paused.is_some() {
            return Admission::Blocked;
        }
        if now < room.downstream.closed_until {
            return Admission::At(room.downstream.closed_until);
        }
        let cut_before = room.downstream.cut;
        let flow = room.downstream.flow(room.settings.rate, now);
        room.changed |= room.downstream.cut != cut_before;
        let mut bucket = room.bucket;
        let allowed = flow.map_or(wanted, |flow| {
            bucket.refill(flow, now);
            bucket.slots(flow).min(wanted)
        });
        if let Some(flow) = flow.filter(|_| allowed == 0) {
            return Admission::At(bucket.wake(flow, 1));
        }
        let mut admitted = 0;
        for _ in 0..ROOM_STEP_PLACES_MAX {
            if admitted == allowed || room.waiting() == 0 {
                break;
            }
            admitted += u64::from(self.admit_next(name, room, now));
        }
        if admitted > 0 {
            if let Some(flow) = flow {
                bucket.take(flow, admitted);
                room.bucket = bucket;
            }
            room.window = room.window.turned(now);
            room.window.count += admitted;
        }
        match flow {
            _ if admitted == free || room.waiting() == 0 => Admission::Blocked,
            Some(flow) if admitted == allowed => Admission::At(bucket.wake(flow, 1)),
            _ => Admission::More,
        }
    }

    /// Admits the next waiter and returns true, or drops it if it has fallen silent.
    fn admit_next(&mut self, name: &RoomName, room: &mut Room, now: Micros) -> bool {
        let class = room.next_class().expect("waiters were counted");
        let (_, token) = room.classes[class].waiting.first().cloned().expect("the class has waiters");
        if room.is_silent(&token, now) {
            self.remove_place(name, room, &token);
            room.totals.silent += 1;
            return false;
        }
        room.virtual_time = room.classes[class].tag;
        room.classes[class].tag += room.stride(class);
        let place = room.remove(&token).expect("a waiter has a place");
        let until = now.plus_ms(room.settings.active_ttl_ms);
        self.touch_place(place.row, name, &token);
        // Classes matter only among waiters.
        room.add(token, Place { class: 0, state: PlaceState::Active { until }, ..place });
        room.totals.admitted += 1;
        true
    }
}
