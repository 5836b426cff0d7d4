//! Read-only commands, and audits.

use fairlane_core::limits::LIST_STRIDE;
use fairlane_core::queue::*;

use super::Generator;

impl Generator {
    pub(super) fn read(&mut self) -> Command {
        match self.dice.below(20) {
            0..4 => self.list_jobs(),
            4..7 => Command::Explain(Explain { job: self.job_ref() }),
            7..11 => self.audit(),
            _ => self.inspect(),
        }
    }

    fn inspect(&mut self) -> Command {
        let limit = 1 + self.dice.below(4) as usize;
        match self.dice.below(16) {
            0..2 => InspectQueue.into(),
            2..4 => InspectGroup { group: self.group_id() }.into(),
            4..6 => InspectType { type_id: self.type_id() }.into(),
            6 => InspectBulk { bulk: self.bulk_ref() }.into(),
            7 => {
                let (after, unfinished) = (self.dice.below(12), self.dice.one_in(2));
                ListBulks { group: self.group_id(), after, limit, unfinished }.into()
            }
            8 => InspectCongestion { group: self.group_id() }.into(),
            9 => ListSnapshots { group: self.group_id(), limit }.into(),
            10 => {
                let after = self.dice.one_in(2).then(|| self.group_id());
                ListGroups { after, limit, all: self.dice.one_in(2) }.into()
            }
            11..13 => {
                let magnitude = self.dice.pick(&[0, 0, 3, 4, 5, 6, 64]);
                let after = LargestCursor { magnitude, group: self.group_id() };
                ListLargestGroups { after: self.dice.one_in(2).then_some(after), limit }.into()
            }
            _ => InspectJob { job: self.job_ref() }.into(),
        }
    }

    /// An audit. Both sides are consistent, so it must find nothing and repair nothing.
    fn audit(&mut self) -> Command {
        let count = 1 + self.dice.below(12);
        let suspects = (0..count).map(|_| match self.dice.below(8) {
            0..2 => Suspect::Job(self.job_ref()),
            2 => Suspect::Group(self.group_id()),
            3 => Suspect::Backlog(self.group_id()),
            4 => Suspect::Type(self.type_id()),
            5 => Suspect::Bulk(self.bulk_ref()),
            6 => Suspect::Lease(self.a_lease(false).1),
            _ => Suspect::Queue,
        });
        Command::Audit(Audit { suspects: suspects.collect(), repair: self.dice.one_in(4) })
    }

    fn list_jobs(&mut self) -> Command {
        let listing = match self.dice.below(8) {
            0 => Listing::Pending(self.group_id()),
            1 => Listing::Ready,
            2 => Listing::Waiting,
            3 => Listing::InFlight,
            4 => Listing::Dead,
            5 => Listing::Finished,
            6 => Listing::OfBulk(self.bulk_ref()),
            _ => Listing::OnHold(self.bulk_ref()),
        };
        Command::ListJobs(ListJobs {
            listing,
            group: self.dice.one_in(4).then(|| self.group_id()),
            type_id: self.dice.one_in(4).then(|| self.type_id()),
            cursor: self.dice.pick(&[0, 0, 0, 1, 3, LIST_STRIDE, 2 * LIST_STRIDE + 1]),
            limit: 1 + self.dice.below(8) as usize,
        })
    }
}
