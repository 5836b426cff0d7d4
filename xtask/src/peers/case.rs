//! The cases that are measured.

use super::system::System;
use std::fmt;

/// One setting of one system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    pub system: System,
    pub mode: Mode,
    /// The number of jobs that run concurrently; `None` is the system's default.
    pub slots: Option<u32>,
    /// The number of customers whose jobs are enqueued in turn. Only Fairlane knows customers.
    pub customers: u32,
}

/// How jobs are enqueued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Many jobs per call.
    Bulk,
    /// One job per call.
    Single,
}

/// The number of customers of the reference cases.
const REFERENCE_CUSTOMERS: u32 = 100;

const fn fairlane(mode: Mode, slots: Option<u32>, customers: u32) -> Case {
    Case { system: System::Fairlane, mode, slots, customers }
}

const fn peer(system: System, mode: Mode, slots: Option<u32>) -> Case {
    Case { system, mode, slots, customers: 1 }
}

/// Every case, in the order of the table.
pub const CASES: [Case; 15] = [
    fairlane(Mode::Bulk, Some(100), REFERENCE_CUSTOMERS),
    fairlane(Mode::Bulk, None, REFERENCE_CUSTOMERS),
    fairlane(Mode::Single, None, REFERENCE_CUSTOMERS),
    fairlane(Mode::Bulk, None, 1),
    fairlane(Mode::Bulk, Some(100), 1),
    fairlane(Mode::Bulk, Some(100), 10),
    fairlane(Mode::Bulk, Some(100), 1_000),
    fairlane(Mode::Bulk, Some(100), 10_000),
    peer(System::BullMq, Mode::Bulk, Some(100)),
    peer(System::BullMq, Mode::Bulk, None),
    peer(System::BullMq, Mode::Single, None),
    peer(System::Sidekiq, Mode::Bulk, Some(100)),
    peer(System::Sidekiq, Mode::Bulk, None),
    peer(System::Sidekiq, Mode::Single, None),
    // Celery has no call that enqueues many jobs.
    peer(System::Celery, Mode::Single, None),
];

impl Case {
    /// The case of Fairlane that this one is compared with.
    pub fn reference(self) -> Case {
        fairlane(self.mode, self.slots, REFERENCE_CUSTOMERS)
    }

    /// The arguments that follow the address and the jobs.
    pub fn arguments(self) -> [String; 3] {
        [self.mode.name().into(), self.slots_text(), self.customers.to_string()]
    }

    /// The number of slots, or `default`.
    pub fn slots_text(self) -> String {
        self.slots.map_or_else(|| "default".into(), |slots| slots.to_string())
    }
}

impl Mode {
    /// The name of the mode in arguments and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Single => "single",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, mode, slots) = (self.system.title(), self.mode.name(), self.slots_text());
        write!(formatter, "{title}, {mode}, {slots} slots")?;
        match self.system {
            System::Fairlane if self.customers == 1 => write!(formatter, ", 1 customer"),
            System::Fairlane => write!(formatter, ", {} customers", self.customers),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_reference_among_the_cases() {
        for case in CASES {
            assert!(CASES.contains(&case.reference()), "{case}");
        }
    }
}
