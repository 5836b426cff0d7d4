//! Commands on the activity log: few ids, so that changes are repeated, and more entries than are
//! kept in some episodes.

use fairlane_core::activity::*;
use fairlane_core::{ActivityId, Micros};

use super::OtherGenerator;
use crate::dice::Dice;
use crate::subject::START;

const ACTORS: [&str; 3] = ["ada", "local", "key:1%"];
const NAMES: [&str; 3] = ["acme", "a:b%", "고객"];

/// Draws commands on the activity log.
pub(super) struct ActivityGenerator {
    dice: Dice,
    /// Number of ids that changes use.
    ids: u64,
    /// The time of the last change.
    last: Micros,
}

impl ActivityGenerator {
    pub fn new(mut dice: Dice) -> Self {
        let ids = dice.pick(&[5, 200, 100_000]);
        Self { dice, ids, last: START }
    }

    fn subject(&mut self) -> Option<ActivitySubject> {
        let (kind, name) = (self.dice.pick(&SubjectKind::ALL), self.dice.pick(&NAMES));
        (!self.dice.one_in(4)).then(|| ActivitySubject { kind, name: name.to_owned() })
    }
}

impl OtherGenerator for ActivityGenerator {
    fn pause_us(&mut self) -> u64 {
        if self.dice.one_in(2) { 0 } else { self.dice.below(1_000_000) }
    }

    fn command(&mut self) -> fairlane_core::Command {
        let command = match self.dice.below(10) {
            0..2 => Command::ListActivity(ListActivity {
                before: self.dice.one_in(2).then_some(self.last),
                subject: if self.dice.one_in(2) { self.subject() } else { None },
                limit: 1 + self.dice.below(20) as usize,
            }),
            _ => Command::RecordActivity(RecordActivity {
                id: ActivityId::new(format!("c:{}", self.dice.below(self.ids))).expect("a valid id"),
                actor: self.dice.pick(&ACTORS).to_owned(),
                subject: self.subject(),
                text: format!("change {}", self.dice.below(100)),
                jobs: self.dice.below(3) * 100,
            }),
        };
        command.into()
    }

    fn observe(&mut self, reply: &fairlane_core::Reply) {
        if let Some(Reply::RecordActivity(recorded)) = reply.activity() {
            self.last = recorded.at;
        }
    }
}
