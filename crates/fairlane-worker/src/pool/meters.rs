//! What is counted of the attempts of one type; handles are taken at the start, so that an attempt looks up none.

use std::time::Duration;

use fairlane_core::TypeId;
use metrics::{Counter, Histogram, counter, histogram};

use crate::names::{ATTEMPT_SECONDS, ATTEMPTS};
use crate::outcome::Outcome;

pub(crate) struct Meters {
    attempts: [Counter; Outcome::WORDS.len()],
    seconds: Histogram,
}

impl Meters {
    pub fn new(type_id: &TypeId) -> Self {
        let name = type_id.to_string();
        let attempts =
            Outcome::WORDS.map(|outcome| counter!(ATTEMPTS, "type" => name.clone(), "outcome" => outcome));
        Self { attempts, seconds: histogram!(ATTEMPT_SECONDS, "type" => name) }
    }

    pub fn ended(&self, outcome: &Outcome, took: Duration) {
        let index = Outcome::WORDS.iter().position(|word| *word == outcome.as_str());
        self.attempts[index.expect("every outcome has its word")].increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}
