//! What can be wrong, each with a word that stays the same, a sentence, and what repair does about it.

use serde::{Deserialize, Serialize};

use super::Suspect;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $code:literal: $word:literal, $found:literal, $repair:literal;)*) => {
        /// What is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$fault),*];

            /// Its short name between an engine and its store.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$fault => $code,)* }
            }

            const fn word(self) -> &'static str {
                match self { $(Self::$fault => $word,)* }
            }

            const fn found(self) -> &'static str {
                match self { $(Self::$fault => $found,)* }
            }

            const fn repair(self) -> &'static str {
                match self { $(Self::$fault => $repair,)* }
            }
        }
    };
}

faults! {
    /// A leased job that would never be taken back.
    NoLease = "no-lease": "active-without-lease",
        "it is leased without a deadline, so nobody would take it back",
        "gives it a deadline, after which it is taken back unless its worker settles or extends it";
    /// Jobs in flight.
    InFlight = "in-flight": "wrong-count",
        "{stored} seats are taken for {counted} jobs in flight",
        "sets the count and wakes those who wait for a seat";
    /// A group's or the whole's jobs that are unfinished and not in flight.
    Backlog = "backlog": "wrong-count",
        "the backlog is said to be {stored} and is {counted}",
        "sets the count";
    /// A group's waiting jobs.
    Waiting = "waiting": "wrong-count",
        "{stored} jobs are said to wait for a time, {counted} do",
        "sets the count";
    /// Lanes of a group that wait for a seat.
    SeatParked = "seat-parked": "wrong-count",
        "{stored} lanes are said to wait for a seat, {counted} do",
        "sets the count";
    /// Finished jobs.
    Completed = "completed": "wrong-count",
        "{stored} finished jobs are said to be kept, {counted} are",
        "sets the count";
    /// Lanes of a fair order.
    Active = "active": "wrong-count",
        "the fair order of {detail} is said to have {stored} lanes and has {counted}",
        "sets the count";
    /// Jobs of a batch.
    Left = "left": "wrong-count",
        "{stored} of its jobs are said to be leased, {counted} are",
        "sets the count, and forgets a batch that has none";
    /// Jobs of a bulk action.
    Total = "total": "wrong-count",
        "it is said to have {stored} jobs; those that ended and those that will are {counted}",
        "sets the count, so that it completes with its last job";
    /// A job that could run twice.
    TwoPlaces = "two-places": "two-places",
        "it stands in {counted} places: {detail}",
        "leaves it in the first of them, or in none if it has ended";
    /// A job that would never run.
    NoPlace = "no-place": "no-place",
        "it has not ended and stands nowhere it could be taken from",
        "puts it back into its lane, or ends it if it was cancelled";
    /// A lane that would not be served.
    IdleWithJobs = "idle": "lane-out-of-order",
        "lane {detail} has jobs and stands idle",
        "puts it into its fair order";
    /// A lane that would not be served.
    NotInOrder = "not-in-order": "lane-out-of-order",
        "lane {detail} is said to be in its fair order and is not",
        "puts it there if it has jobs";
    /// A lane that would be served too often.
    TwiceInOrder = "twice-in-order": "lane-out-of-order",
        "lane {detail} stands {counted} times in its fair order",
        "leaves it there once";
    /// A lane that would be served out of turn.
    Stranger = "stranger": "lane-out-of-order",
        "{detail} stands in a fair order where it does not belong",
        "takes it out";
    /// A lane that nobody would wake.
    NotParked = "not-parked": "lane-out-of-order",
        "lane {detail} waits for its group's rate and nobody would wake it",
        "puts it back into its fair order";
    /// A lane that is woken for nothing.
    StrayPark = "stray-park": "lane-out-of-order",
        "lane {detail} is to be woken although it does not wait",
        "takes it off that list";
    /// A lane that nobody would wake.
    SeatsFree = "seats-free": "lane-out-of-order",
        "lane {detail} waits for a seat although one is free",
        "puts it back into its fair order";
    /// A lane that nobody would wake.
    NotPaused = "not-paused": "lane-out-of-order",
        "lane {detail} waits for its group to be resumed, which is not paused",
        "puts it back into its fair order";
    /// Jobs that would not be served, or are looked for in vain.
    Returned = "returned": "lane-out-of-order",
        "lane {detail} does not know whether jobs came back to it",
        "looks and notes it";
    /// A place for a job that does not exist.
    NoRow = "no-row": "orphan",
        "there is no such job, yet it stands in {detail}",
        "takes it out";
    /// A job that has ended and would be kept for ever.
    Unfiled = "unfiled": "orphan",
        "it has ended and nothing would ever remove it",
        "files it with those that ended now";
    /// A job that is listed as dead and is not.
    NotDead = "not-dead": "orphan",
        "it stands among the dead and is not",
        "takes it off that list";
    /// A group without jobs among those that have some.
    NoJobs = "no-jobs": "orphan",
        "it is listed as having jobs and has none",
        "takes it off that list";
    /// A group with jobs that is not among those that have some.
    Unlisted = "unlisted": "orphan",
        "it has jobs and is not listed as having some",
        "puts it on that list";
    /// A bulk action that nobody would aggregate.
    NotTaken = "not-taken": "orphan",
        "all its jobs have ended and nobody would ever aggregate it",
        "lets it be taken now";
    /// A bulk action that would be aggregated too early or again.
    StrayTake = "stray-take": "orphan",
        "it is listed as to be aggregated and is not",
        "takes it off that list";
    /// A deadline of nothing.
    NoBatch = "no-batch": "orphan",
        "there is a deadline and nothing that it is for",
        "removes it";
    /// Numbers that come near their end.
    VirtualTime = "virtual-time": "virtual-time-high",
        "the virtual time of {detail} is past half of what can be counted",
        "";
    /// A lane that would not come back to its order.
    NotCleared = "not-cleared": "lane-out-of-order",
        "lane {detail} waits for its head to be cleared, and no sweep would do it",
        "puts it back into its fair order";
    /// A lane that is cleared although it is served.
    StrayClear = "stray-clear": "lane-out-of-order",
        "lane {detail} is to be cleared although it does not wait for it",
        "takes it off that list";
    /// A delayed job that a cancelled bulk action would not find.
    NotIndexed = "not-indexed": "orphan",
        "it waits for a time, and its bulk action does not list it as waiting",
        "lists it there";
    /// Bytes stored by a group or the whole.
    StoredBytes = "stored-bytes": "wrong-count",
        "{stored} bytes are counted as stored, {counted} are",
        "sets the count";
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// With what.
    pub suspect: Suspect,
    /// What it is.
    pub fault: Fault,
    /// Where exactly: a lane as `level:type`, or the places of a job; may be empty.
    pub detail: String,
    /// What is stored, where that is a count.
    pub stored: i64,
    /// What a recount gave.
    pub counted: i64,
    /// Whether it was put right.
    pub repaired: bool,
}

impl Finding {
    /// The kind of finding, as a word that stays the same from version to version.
    pub fn word(&self) -> &'static str {
        match self.fault {
            Fault::InFlight if self.stored > self.counted => "seat-without-job",
            fault => fault.word(),
        }
    }

    /// Whether nothing is wrong yet: there is nothing to repair.
    pub fn is_warning(&self) -> bool {
        self.fault == Fault::VirtualTime
    }

    /// What was found, and what repair does or did about it.
    pub fn sentence(&self) -> String {
        let found = self.fault.found().replace("{stored}", &self.stored.to_string());
        let found = found.replace("{counted}", &self.counted.to_string()).replace("{detail}", &self.detail);
        match self.fault.repair() {
            "" => format!("{found}; it restarts when its order has been empty once"),
            repair if self.repaired => format!("{found}; repaired: {repair}"),
            repair => format!("{found}; repair {repair}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_code_of_its_own_and_a_sentence_without_gaps() {
        let mut codes = std::collections::BTreeSet::new();
        for fault in Fault::ALL {
            assert!(codes.insert(fault.code()), "{fault:?}");
            let (suspect, detail) = (Suspect::Whole, "1:mail".to_owned());
            let finding = Finding { suspect, fault: *fault, detail, stored: 2, counted: 1, repaired: false };
            let sentence = finding.sentence();
            assert!(!sentence.contains(['{', '}']) && sentence.contains("; "), "{sentence}");
        }
    }

    #[test]
    fn a_seat_too_many_and_a_seat_too_few_are_told_apart() {
        let seats = |stored, counted| {
            let (suspect, detail) = (Suspect::Whole, String::new());
            Finding { suspect, fault: Fault::InFlight, detail, stored, counted, repaired: true }
        };
        assert_eq!((seats(2, 1).word(), seats(1, 2).word()), ("seat-without-job", "wrong-count"));
        assert!(seats(2, 1).sentence().contains("repaired: sets the count"));
    }
}
