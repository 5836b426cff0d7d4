//! The rows of rooms and places in a store. Polls are not stored: after a restart every waiter gets
//! the time for its next poll.

use crate::hashing::HashSeed;
use crate::kernel::downstream::Cut;
use crate::kernel::row::{Damage, Restoring, RowSource, rows};
use crate::kernel::{RestoreMode, Restored, Stored};
use crate::limits::GOODPUT_BUCKETS;
use crate::names::{PlaceToken, RoomName, UserId};
use crate::numbers::{Fence, Micros};
use crate::rate::Rate;

use super::state::{Class, Place, PlaceState, Room, RoomPhase, RoomTotals, Window};
use super::{Machine, Touched};

rows! {
    /// Rows of rooms to be removed and to be written.
    pub struct Changes;

    /// The time of the last command.
    struct RoomStateRow in room_state, key 1 {
        id: u64,
        time: Micros,
    }

    /// A room.
    struct RoomRow in rooms, key 1, of (room: Room, name: &RoomName) {
        name: String => name.to_string(),
        max_active: u32 = room.settings.max_active,
        active_ttl_ms: u64 = room.settings.active_ttl_ms,
        retention_ms: u64 = room.settings.retention_ms,
        polls_per_second: u32 = room.settings.polls_per_second,
        rate: Option<Rate> = room.settings.rate,
        weights: Vec<u64> => room.settings.weights.iter().map(|weight| u64::from(*weight)).collect(),
        phase: RoomPhase = room.phase,
        paused: Option<String> = room.paused,
        seed: String = room.draw.seed,
        commitment: String = room.draw.commitment,
        digest: String = room.draw.digest,
        tickets: u64 = room.draw.tickets,
        virtual_time: u64 = room.virtual_time,
        tags: Vec<u64> => room.classes.iter().map(|class| class.tag).collect(),
        next_number: u64 = room.next_number,
        bucket: u64 = room.bucket.level,
        bucket_at: Micros = room.bucket.at,
        cut_at: Option<Micros> => room.downstream.cut.map(|cut| cut.at),
        cut_fence: Option<Fence> => room.downstream.cut.map(|cut| cut.fence),
        plateau_milli: Option<u64> => room.downstream.cut.map(|cut| cut.plateau_milli),
        plateau_ms: Option<u64> => room.downstream.cut.map(|cut| cut.plateau_ms),
        closed_until: Micros = room.downstream.closed_until,
        goodput_at: u64 = room.downstream.goodput_at,
        goodput: [u64; GOODPUT_BUCKETS] = room.downstream.goodput,
        window_at: Micros = room.window.at,
        window_counts: [u64; 3] => [room.window.count, room.window.count_before, room.window.before_ms],
        totals: [u64; 6] => room.totals.to_array(),
        idle_since: Micros = room.idle_since,
    }

    /// A place; `until` is the end of an active one.
    struct PlaceRow in room_places, key 1 {
        row: u64,
        room: String,
        token: String,
        user: String,
        class: u32,
        number: u64,
        until: Option<Micros>,
    }
}

impl Stored for Machine {
    type Changes = Changes;

    fn record(&mut self) {
        self.touched.get_or_insert_default();
    }

    fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        let Some(touched) = self.touched.as_mut().map(std::mem::take) else { return changes };
        let Touched { rooms, places } = touched;
        if rooms.is_empty() && places.is_empty() {
            return changes;
        }
        changes.room_state.rows.push(RoomStateRow { id: 0, time: self.now });
        for name in rooms {
            let row = self.rooms.get(&name).map(|room| RoomRow::of(room, &name));
            changes.rooms.put(row, || name.to_string());
        }
        for (row, (name, token)) in places {
            let place = self.rooms.get(&name).and_then(|room| room.places.get(&token));
            let place = place.filter(|place| place.row == row);
            changes.room_places.put(place.map(|place| PlaceRow::of(&name, &token, place)), || row);
        }
        changes
    }

    fn restore<S: RowSource>(
        source: &mut S,
        hash_seed: HashSeed,
        mode: RestoreMode,
    ) -> Result<Option<Restored<Self>>, S::Error> {
        let mut machine = Machine::empty(hash_seed);
        let mut rows = Restoring::new(source, mode, "a room or a place");
        rows.read_intact(|row: RoomStateRow| machine.now = row.time)?;
        rows.read(|row: RoomRow| {
            let (name, room) = row.read(hash_seed)?;
            machine.rooms.insert(name, room);
            Ok(())
        })?;
        rows.read(|row: PlaceRow| machine.add_restored(row.read()?))?;
        for (name, room) in &mut machine.rooms {
            room.changed = false;
            // Due at once, so that the first sweep starts the grace period of its waiters.
            room.deadline = Some(machine.now);
            machine.deadlines.insert((machine.now, name.clone()));
        }
        machine.is_used = !rows.is_new;
        machine.touched = Some(Touched::default());
        if mode == RestoreMode::Mend {
            let touched = machine.touched.get_or_insert_default();
            for (name, room) in &machine.rooms {
                touched.rooms.insert(name.clone());
                touched.places.extend(
                    room.places.iter().map(|(token, place)| (place.row, (name.clone(), token.clone()))),
                );
            }
        }
        Ok(rows.finish(machine))
    }
}

impl PlaceRow {
    fn of(name: &RoomName, token: &PlaceToken, place: &Place) -> Self {
        let (number, until) = match place.state {
            PlaceState::Waiting { number, .. } => (number, None),
            PlaceState::Active { until } => (0, Some(until)),
        };
        Self {
            row: place.row,
            room: name.to_string(),
            token: token.to_string(),
            user: place.user.to_string(),
            class: place.class as u32,
            number,
            until,
        }
    }

    fn read(self) -> Result<(RoomName, PlaceToken, Place), Damage> {
        let damaged = Damage::in_table("room_places");
        let state = match self.until {
            Some(until) => PlaceState::Active { until },
            None => PlaceState::Waiting { number: self.number, silent_at: Micros::default() },
        };
        let user = UserId::new(&self.user).map_err(damaged)?;
        let place = Place { row: self.row, user, class: self.class as usize, state };
        let (room, token) = (RoomName::new(&self.room), PlaceToken::new(&self.token));
        Ok((room.map_err(damaged)?, token.map_err(damaged)?, place))
    }
}

impl RoomRow {
    fn read(self, hash_seed: HashSeed) -> Result<(RoomName, Room), Damage> {
        let name = RoomName::new(&self.name).map_err(Damage::in_table("rooms"))?;
        let mut room = Room::new(hash_seed);
        let weights: Result<Vec<u32>, _> = self.weights.iter().map(|weight| u32::try_from(*weight)).collect();
        room.settings.weights = weights.map_err(Damage::in_table("rooms.weights"))?;
        if self.tags.len() != room.settings.weights.len() {
            return Err(Damage::new(format!("rooms: {name} has {} tags", self.tags.len())));
        }
        room.classes = self.tags.iter().map(|tag| Class { tag: *tag, ..Default::default() }).collect();
        room.downstream.cut = match (self.cut_at, self.cut_fence, self.plateau_milli, self.plateau_ms) {
            (Some(at), Some(fence), Some(plateau_milli), Some(plateau_ms)) => {
                Some(Cut { at, fence, plateau_milli, plateau_ms })
            }
            _ => None,
        };
        let [count, count_before, before_ms] = self.window_counts;
        room.window = Window { at: self.window_at, count, count_before, before_ms };
        room.totals = RoomTotals::from_array(self.totals);
        (room.is_restored, room.changed) = (true, false);
        self.apply(&mut room);
        room.settings.validate().map_err(|error| Damage::new(format!("rooms: {name}: {error}")))?;
        Ok((name, room))
    }
}

impl Machine {
    fn add_restored(&mut self, (name, token, place): (RoomName, PlaceToken, Place)) -> Result<(), Damage> {
        self.next_row = self.next_row.max(place.row + 1);
        let room = self.rooms.get_mut(&name);
        let room = room.ok_or_else(|| Damage::new(format!("room_places: {name} is not a room")))?;
        if place.class >= room.classes.len() {
            return Err(Damage::new(format!("room_places: {name} has no class {}", place.class)));
        }
        if room.users.contains_key(&place.user) || room.places.contains_key(&token) {
            return Err(Damage::new(format!("room_places: {} has two places in {name}", place.user)));
        }
        let tag = room.classes[place.class].tag;
        let class = place.class;
        room.add(token, place);
        room.classes[class].tag = tag;
        Ok(())
    }
}
