//! The state of rooms as text, under their keys in Redis.

use crate::kernel::{Dump, DumpValue};
use crate::names::RoomName;
use crate::rate::Rate;

use super::state::{PlaceState, Room};
use super::{Machine, RoomSettings};

/// The room whose Redis keys do not contain its name.
const DEFAULT_ROOM: &str = "default";

impl Machine {
    /// Adds the state to a dump, in the layout of `redis/lua/room`.
    pub(super) fn dump_rooms(&self, dump: &mut Dump) {
        if self.is_used {
            dump.add_field("partition".into(), "rooms_used", "1".into());
        }
        for (name, room) in &self.rooms {
            dump_room(name, room, dump);
        }
        let names = self.rooms.keys().map(|name| (0, name.escaped().to_owned()));
        dump.0.insert("room-names".into(), DumpValue::Sorted(names.collect()));
        let deadlines = self.deadlines.iter().map(|(at, name)| (at.0, name.escaped().to_owned()));
        dump.0.insert("room-deadlines".into(), DumpValue::Sorted(deadlines.collect()));
        dump.remove_empty();
    }
}

fn dump_room(name: &RoomName, room: &Room, dump: &mut Dump) {
    let key = format!("room:{}", name.escaped());
    let mut field = |field: &str, value: String| dump.add_field(key.clone(), field, value);
    let window = &room.window;
    field("settings", room.settings.text());
    field("phase", room.phase.as_str().to_owned());
    if let Some(reason) = &room.paused {
        field("paused", reason.clone());
    }
    field("seed", room.draw.seed.clone());
    field("commitment", room.draw.commitment.clone());
    field("digest", room.draw.digest.clone());
    field("tickets", room.draw.tickets.to_string());
    field("next", room.next_number.to_string());
    field("virtual_time", room.virtual_time.to_string());
    field("tags", joined(room.classes.iter().map(|class| class.tag)));
    field("bucket", room.bucket.to_string());
    field("cut", room.downstream.cut_text());
    field("closed_until", room.downstream.closed_until.0.to_string());
    field("goodput", room.downstream.goodput_text());
    field("window", joined([window.at.0, window.count, window.count_before, window.before_ms]));
    field("totals", joined(room.totals.to_array()));
    field("idle_since", room.idle_since.0.to_string());
    let prefix = match name.escaped() {
        DEFAULT_ROOM => "queue:".to_owned(),
        name => format!("queue:{name}:"),
    };
    for (index, class) in room.classes.iter().enumerate() {
        let waiting = class.waiting.iter_from(0).map(|(number, token)| (*number, token.escaped().to_owned()));
        let key = if index == 0 { format!("{prefix}waiting") } else { format!("{prefix}waiting:{index}") };
        dump.0.insert(key, DumpValue::Sorted(waiting.collect()));
    }
    let active = room.active.iter_from(0).map(|(until, token)| (until.0, token.escaped().to_owned()));
    dump.0.insert(format!("{prefix}active"), DumpValue::Sorted(active.collect()));
    let silent = room.silent.iter().map(|(at, token)| (at.0, token.escaped().to_owned()));
    dump.0.insert(format!("{prefix}silent"), DumpValue::Sorted(silent.collect()));
    let users =
        room.users.iter().map(|(user, token)| (user.escaped().to_owned(), token.escaped().to_owned()));
    dump.0.insert(format!("{prefix}users"), DumpValue::Hash(users.collect()));
    let tokens = room.places.iter().map(|(token, place)| {
        let class = match place.state {
            PlaceState::Waiting { .. } => place.class.to_string(),
            PlaceState::Active { .. } => "active".to_owned(),
        };
        (token.escaped().to_owned(), format!("{class}:{}", place.user.escaped()))
    });
    dump.0.insert(format!("{prefix}tokens"), DumpValue::Hash(tokens.collect()));
}

impl RoomSettings {
    /// The form in Redis.
    pub fn text(&self) -> String {
        let Self { max_active, active_ttl_ms, retention_ms, polls_per_second, rate, weights } = self;
        let (count, period_ms, burst): (u64, u64, u64) = rate.map_or((0, 0, 0), Rate::into);
        let weights = joined(weights.iter().map(|weight| u64::from(*weight)));
        let times = format!("{max_active}:{active_ttl_ms}:{retention_ms}:{polls_per_second}");
        format!("{times}:{count}:{period_ms}:{burst}:{weights}")
    }
}

fn joined(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}
