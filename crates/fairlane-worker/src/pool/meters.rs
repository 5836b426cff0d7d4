//! Metric handles for the attempts of one type, resolved once so that attempts look up none.

use std::time::Duration;

use fairlane_core::TypeId;
use metrics::{Counter, Histogram, counter, histogram};

use crate::names::{ATTEMPT_SECONDS, ATTEMPTS};
use crate::outcome::Outcome;

pub(crate) struct Meters {
    attempts: [Counter; Outcome::LABELS.len()],
    seconds: Histogram,
}

impl Meters {
    pub fn new(type_id: &TypeId) -> Self {
        let name = type_id.to_string();
        let attempts =
            Outcome::LABELS.map(|outcome| counter!(ATTEMPTS, "type" => name.clone(), "outcome" => outcome));
        Self { attempts, seconds: histogram!(ATTEMPT_SECONDS, "type" => name) }
    }

    pub fn ended(&self, outcome: &Outcome, took: Duration) {
        let index = Outcome::LABELS.iter().position(|label| *label == outcome.as_str());
        self.attempts[index.expect("every outcome has a label")].increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}
