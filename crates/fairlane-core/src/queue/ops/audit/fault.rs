//! The faults: each has a stable word, a sentence, and a description of its repair.

use serde::{Deserialize, Serialize};

use super::Suspect;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $code:literal: $word:literal, $found:literal, $repair:literal;)*) => {
        /// A kind of inconsistency.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Fault {
            $($(#[$doc])* #[serde(rename = $code)] $fault,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$fault),*];

            /// The code of the fault between an engine and its store.
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
    /// A leased job without a deadline.
    NoLease = "no-lease": "active-without-lease",
        "it is leased without a deadline, so its lease would never expire",
        "gives it a deadline, after which its lease expires unless its worker settles or extends it";
    /// A wrong number of jobs in flight.
    InFlight = "in-flight": "wrong-count",
        "{stored} seats are taken for {counted} jobs in flight",
        "sets the count and wakes the lanes that wait for a seat";
    /// A wrong backlog of a group or the queue: unfinished jobs that are not in flight.
    Backlog = "backlog": "wrong-count",
        "the backlog is counted as {stored} and is {counted}",
        "sets the count";
    /// A wrong number of waiting jobs of a group.
    Waiting = "waiting": "wrong-count",
        "{stored} jobs are counted as waiting for a time, {counted} are",
        "sets the count";
    /// A wrong number of lanes of a group that wait for a seat.
    SeatParked = "seat-parked": "wrong-count",
        "{stored} lanes are counted as waiting for a seat, {counted} are",
        "sets the count";
    /// A wrong number of finished jobs.
    Completed = "completed": "wrong-count",
        "{stored} finished jobs are counted as kept, {counted} are",
        "sets the count";
    /// A wrong number of lanes in a fair order.
    Active = "active": "wrong-count",
        "the fair order of {detail} is counted as having {stored} lanes and has {counted}",
        "sets the count";
    /// A wrong number of leased jobs of a batch.
    Left = "left": "wrong-count",
        "{stored} of its jobs are counted as leased, {counted} are",
        "sets the count, and removes a batch that has none";
    /// A wrong number of jobs of a bulk action.
    Total = "total": "wrong-count",
        "it is counted as having {stored} jobs; {counted} have ended or still can",
        "sets the count, so that it completes with its last job";
    /// A job in more than one place, which could run twice.
    TwoPlaces = "two-places": "two-places",
        "it is in {counted} places: {detail}",
        "leaves it in the first of them, or in none if it has ended";
    /// A job in no place, which would never run.
    NoPlace = "no-place": "no-place",
        "it has not ended and is in no place from which it could run",
        "puts it back into its lane, or ends it if it was cancelled";
    /// A lane with jobs that is marked idle and would not be served.
    IdleWithJobs = "idle": "lane-out-of-order",
        "lane {detail} has jobs and is marked idle",
        "puts it into its fair order";
    /// A lane that is marked as active, is not in its order, and would not be served.
    NotInOrder = "not-in-order": "lane-out-of-order",
        "lane {detail} is marked as being in its fair order and is not",
        "puts it there if it has jobs";
    /// A lane that is in its order more than once and would be served too often.
    TwiceInOrder = "twice-in-order": "lane-out-of-order",
        "lane {detail} is {counted} times in its fair order",
        "leaves it there once";
    /// A lane in a fair order to which it does not belong.
    Stranger = "stranger": "lane-out-of-order",
        "{detail} is in a fair order to which it does not belong",
        "removes it";
    /// A rate-parked lane that would never be woken.
    NotParked = "not-parked": "lane-out-of-order",
        "lane {detail} waits for its group's rate and would never be woken",
        "puts it back into its fair order";
    /// A lane that is listed as parked and is not.
    StrayPark = "stray-park": "lane-out-of-order",
        "lane {detail} is listed as parked and is not",
        "removes it from that list";
    /// A lane that waits for a seat although one is free.
    SeatsFree = "seats-free": "lane-out-of-order",
        "lane {detail} waits for a seat although one is free",
        "puts it back into its fair order";
    /// A lane that waits for the resumption of a group that is not paused.
    NotPaused = "not-paused": "lane-out-of-order",
        "lane {detail} waits for its group to be resumed, but the group is not paused",
        "puts it back into its fair order";
    /// A lane with a wrong mark for returned jobs.
    Returned = "returned": "lane-out-of-order",
        "lane {detail} has a wrong mark for jobs that came back to it",
        "sets the mark";
    /// A place that names a job that does not exist.
    NoRow = "no-row": "orphan",
        "there is no such job, yet it is listed in {detail}",
        "removes it";
    /// A job that has ended and would be kept forever.
    Unfiled = "unfiled": "orphan",
        "it has ended and would never be removed",
        "files it as ended now";
    /// A job that is listed as dead and is not.
    NotDead = "not-dead": "orphan",
        "it is listed as dead and is not",
        "removes it from that list";
    /// A group without jobs that is listed as active.
    NoJobs = "no-jobs": "orphan",
        "it is listed as having jobs and has none",
        "removes it from that list";
    /// A group with jobs that is not listed as active.
    Unlisted = "unlisted": "orphan",
        "it has jobs and is not listed as having any",
        "adds it to that list";
    /// A bulk action that is ready for aggregation and could never be leased.
    NotTaken = "not-taken": "orphan",
        "all its jobs have ended and it would never be aggregated",
        "makes it available for aggregation";
    /// A bulk action that would be aggregated too early or twice.
    StrayTake = "stray-take": "orphan",
        "it is listed for aggregation and is not ready for it",
        "removes it from that list";
    /// A deadline without a batch.
    NoBatch = "no-batch": "orphan",
        "there is a deadline without a batch",
        "removes it";
    /// A virtual time that approaches its largest value.
    VirtualTime = "virtual-time": "virtual-time-high",
        "the virtual time of {detail} is past half of its largest value",
        "";
    /// A lane that waits to be cleared and would not return to its order.
    NotCleared = "not-cleared": "lane-out-of-order",
        "lane {detail} waits for its head to be cleared, and no sweep would do it",
        "puts it back into its fair order";
    /// A lane that is listed for clearing although it is served.
    StrayClear = "stray-clear": "lane-out-of-order",
        "lane {detail} is listed for clearing and does not wait for it",
        "removes it from that list";
    /// A delayed job that its bulk action does not list, so that a cancellation would miss it.
    NotIndexed = "not-indexed": "orphan",
        "it waits for a time, and its bulk action does not list it as waiting",
        "lists it there";
    /// A group at a wrong position in the index of large groups, so that it is listed too early or
    /// too late.
    Magnitude = "magnitude": "wrong-count",
        "it is indexed with magnitude {stored}, its backlog has {counted}",
        "indexes it by its backlog";
    /// A group with settings of its own that is not listed as having any.
    SettingsUnlisted = "settings-unlisted": "orphan",
        "it has settings of its own and is not listed as having any",
        "adds it to that list";
    /// A group without settings of its own that is listed as having some.
    NoSettings = "no-settings": "orphan",
        "it is listed as having settings of its own and has none",
        "removes it from that list";
    /// A wrong number of stored bytes of a group or the queue.
    StoredBytes = "stored-bytes": "wrong-count",
        "{stored} bytes are counted as stored, {counted} are",
        "sets the count";
}

/// One fault of one suspect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The inconsistent item.
    pub suspect: Suspect,
    /// The kind of inconsistency.
    pub fault: Fault,
    /// Where exactly: a lane as `level:type`, or the places of a job; may be empty.
    pub detail: String,
    /// The stored count, for faults that are about a count.
    pub stored: i64,
    /// The result of the recount.
    pub counted: i64,
    /// Whether it was repaired.
    pub repaired: bool,
}

impl Finding {
    /// The kind of finding, as a word that is stable across versions.
    pub fn word(&self) -> &'static str {
        match self.fault {
            Fault::InFlight if self.stored > self.counted => "seat-without-job",
            fault => fault.word(),
        }
    }

    /// Whether the finding is only a warning: nothing is wrong yet, and there is nothing to repair.
    pub fn is_warning(&self) -> bool {
        self.fault == Fault::VirtualTime
    }

    /// A sentence that describes the fault and its repair.
    pub fn sentence(&self) -> String {
        let found = self.fault.found().replace("{stored}", &self.stored.to_string());
        let found = found.replace("{counted}", &self.counted.to_string()).replace("{detail}", &self.detail);
        match self.fault.repair() {
            "" => format!("{found}; it restarts when its order becomes empty"),
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
            let (suspect, detail) = (Suspect::Queue, "1:mail".to_owned());
            let finding = Finding { suspect, fault: *fault, detail, stored: 2, counted: 1, repaired: false };
            let sentence = finding.sentence();
            assert!(!sentence.contains(['{', '}']) && sentence.contains("; "), "{sentence}");
        }
    }

    #[test]
    fn a_seat_too_many_and_a_seat_too_few_are_told_apart() {
        let seats = |stored, counted| {
            let (suspect, detail) = (Suspect::Queue, String::new());
            Finding { suspect, fault: Fault::InFlight, detail, stored, counted, repaired: true }
        };
        assert_eq!((seats(2, 1).word(), seats(1, 2).word()), ("seat-without-job", "wrong-count"));
        assert!(seats(2, 1).sentence().contains("repaired: sets the count"));
    }
}
