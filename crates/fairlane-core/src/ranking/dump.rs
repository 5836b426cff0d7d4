//! The state of boards as text, under their keys in Redis.

use crate::kernel::{Dump, DumpValue};
use crate::names::BoardName;

use super::Machine;
use super::score::ScoreSet;
use super::settings::{BoardRule, BoardSettings};
use super::state::{Board, Generation, Mark};
use super::window::Slot;

impl Machine {
    /// Adds the state to a dump, in the layout of `redis/lua/ranking`.
    pub(super) fn dump_boards(&self, dump: &mut Dump) {
        if self.is_used {
            dump.add_field("partition".into(), "boards_used", "1".into());
        }
        for (name, board) in &self.boards {
            dump_board(name, board, dump);
        }
        let names = self.boards.keys().map(|name| (0, name.escaped().to_owned()));
        dump.0.insert("ranking-names".into(), DumpValue::Sorted(names.collect()));
        let deadlines = self.deadlines.iter().map(|(at, name)| (at.0, name.escaped().to_owned()));
        dump.0.insert("ranking-deadlines".into(), DumpValue::Sorted(deadlines.collect()));
        dump.remove_empty();
    }
}

fn dump_board(name: &BoardName, board: &Board, dump: &mut Dump) {
    let (key, base) = (format!("ranking-board:{}", name.escaped()), format!("ranking:{}", name.escaped()));
    let mut field = |field: &str, value: String| dump.add_field(key.clone(), field, value);
    let totals = board.totals.to_array().map(|count| count.to_string());
    field("settings", board.settings.text());
    field("season", board.season.to_string());
    field("since", board.since_ms.to_string());
    field("totals", totals.join(","));
    if let Some(staged) = &board.staged {
        field("rebuild", staged.id.escaped().to_owned());
        field("rows", staged.rows.to_string());
    }
    if let Some(rebuilt) = &board.rebuilt {
        field("rebuilt", rebuilt.escaped().to_owned());
    }
    for (number, season) in &board.seasons {
        let announced = u8::from(season.announced);
        field(&format!("season:{number}"), format!("{}:{announced}", season.closed_at.0));
    }
    for (number, season) in &board.seasons {
        dump_set(format!("{base}:season:{number}"), &season.set, &board.settings, dump);
    }
    dump_generation(&base, &board.live, &board.settings, dump);
    if let Some(staged) = &board.staged {
        dump_generation(&format!("{base}:rebuild"), &staged.generation, &board.settings, dump);
    }
}

fn dump_generation(base: &str, generation: &Generation, settings: &BoardSettings, dump: &mut Dump) {
    dump_set(base.to_owned(), &generation.all, settings, dump);
    for (slot, set) in &generation.windows {
        dump_set(format!("{base}:{}", slot.text()), set, settings, dump);
    }
    for (arrived_s, ids) in &generation.ids {
        let ids = ids.iter().map(|id| id.escaped().to_owned()).collect();
        dump.0.insert(format!("{base}:{}", Slot::Ids(*arrived_s).text()), DumpValue::List(ids));
    }
    for (id, event) in &generation.events {
        let text = match &event.mark {
            Mark::Counted { member, delta, at_ms, season } => {
                format!("{season}:{at_ms}:{delta}:{}", member.escaped())
            }
            Mark::Cancelled => "cancelled".to_owned(),
            Mark::Pending => "pending".to_owned(),
        };
        dump.add_field(format!("{base}:events"), id.escaped(), text);
    }
    let due = generation.due.iter().map(|(at, slot)| (at.0, slot.text()));
    dump.0.insert(format!("{base}:due"), DumpValue::Sorted(due.collect()));
    if settings.rule == BoardRule::Latest {
        for (member, score) in generation.all.iter() {
            dump.add_field(format!("{base}:versions"), member.escaped(), score.version.to_string());
        }
    }
}

fn dump_set(key: String, set: &ScoreSet, settings: &BoardSettings, dump: &mut Dump) {
    let unit = 10_f64.powi(settings.decimals as i32);
    let score = |(member, score): (&crate::MemberId, super::score::Score)| {
        let fraction = f64::from(score.tie) / 2_f64.powi(32);
        (score.value as f64 / unit + fraction, member.escaped().to_owned())
    };
    dump.0.insert(key, DumpValue::scored(set.iter().map(score).collect()));
}
