//! Suspects to arguments.

use fairlane_core::queue::{Audit, BulkRef, Suspect};

use super::{Arguments, decimal, fence, name};

pub(super) fn audit(command: &Audit, arguments: &mut Arguments) {
    arguments.push(decimal(command.repair.into()));
    for suspect in &command.suspects {
        let (kind, name): (&str, Vec<u8>) = match suspect {
            Suspect::Job(job) => ("job", name(job)),
            Suspect::Group(group) => ("group", group.escaped().into()),
            Suspect::Backlog(group) => ("backlog", group.escaped().into()),
            Suspect::Type(type_id) => ("type", type_id.escaped().into()),
            Suspect::Bulk(BulkRef { group, id }) => {
                ("bulk", [group.escaped(), ":", id.escaped()].concat().into())
            }
            Suspect::Lease(batch) => ("lease", fence(*batch)),
            Suspect::Queue => ("whole", Vec::new()),
        };
        arguments.extend([kind.into(), name]);
    }
}
