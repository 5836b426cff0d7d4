//! Settings that the store and the file have with different values, and the warnings about them.
//!
//! No operator has chosen the value of a new store: replacing it causes no warning, and after an outage
//! it is a sign that the store has lost its settings.

use std::collections::{HashMap, HashSet};

use fairlane::TypeId;

use super::event::WorkEvent;
use super::reporter::Reporter;

/// The owner of the settings of the queue.
pub const QUEUE: &str = "the queue";
/// The keys of the settings of a type.
pub const RATE: &str = "rate";
pub const MAX_RETRY_COUNT: &str = "max_retry_count";

/// A setting with different values in the store and in the file.
pub struct Difference {
    /// The queue, or a type.
    pub owner: String,
    pub key: String,
    pub stored: String,
    pub of_file: String,
    /// Whether the stored value is that of a new store.
    pub is_unset: bool,
}

/// The name of a setting in warnings.
pub fn name(key: &str, owner: &str) -> String {
    match key {
        RATE => format!("the rate of {owner}"),
        key => format!("{key} of {owner}"),
    }
}

impl Difference {
    /// The difference in a setting of a type; `None` if the file does not name it or has the same value.
    pub fn of_type<T: PartialEq>(
        type_id: &TypeId,
        key: &str,
        stored: Option<T>,
        of_file: Option<Option<T>>,
        text: impl Fn(Option<T>) -> String,
    ) -> Option<Self> {
        let of_file = of_file.filter(|of_file| *of_file != stored)?;
        let (owner, key, is_unset) = (type_id.to_string(), key.to_owned(), stored.is_none());
        Some(Self { owner, key, stored: text(stored), of_file: text(of_file), is_unset })
    }
}

/// What a running worker knows about stored settings.
#[derive(Default)]
pub struct KnownSettings {
    /// The settings that had the values of a new store before an outage.
    pub unset: HashSet<String>,
    /// The stored values that a warning has named, by setting.
    pub warned: HashMap<String, String>,
}

impl KnownSettings {
    /// Whether the stored value stays after an outage, although the file has another one. A setting
    /// that had a value and now has that of a new store is taken for one of a store that has lost its
    /// settings.
    fn keep(&mut self, one: &Difference, reporter: &Reporter) -> bool {
        let setting = name(&one.key, &one.owner);
        let stays = !one.is_unset || self.unset.contains(&setting);
        if stays {
            self.warn(&setting, &one.stored, &one.of_file, reporter);
        }
        stays
    }

    /// Warns of a stored value that stays, once.
    pub fn warn(&mut self, setting: &str, stored: &str, of_file: &str, reporter: &Reporter) {
        let warned = self.warned.insert(setting.to_owned(), stored.to_owned());
        if warned.as_deref() != Some(stored) {
            let warning = format!(
                "{setting} stays {stored}, as it is stored; the file has {of_file}, which applies at the next start"
            );
            reporter.report(WorkEvent::EngineWarning { warning });
        }
    }
}

/// The differences in which the stored value stays, and those in which the file's is written; all of
/// them at startup.
pub fn split(
    differing: Vec<Difference>,
    known: Option<&mut KnownSettings>,
    reporter: &Reporter,
) -> (Vec<Difference>, Vec<Difference>) {
    match known {
        Some(known) => differing.into_iter().partition(|one| known.keep(one, reporter)),
        None => (Vec::new(), differing),
    }
}

/// A warning for each value that was replaced.
pub fn report_replaced(replaced: &[Difference], reporter: &Reporter) {
    for Difference { owner, key, stored, of_file, .. } in replaced.iter().filter(|one| !one.is_unset) {
        let warning = format!("{} is now {of_file}, as in the file; it was {stored}", name(key, owner));
        reporter.report(WorkEvent::EngineWarning { warning });
    }
}
