//! Listings to arguments.

use fairlane_core::queue::{BulkRef, ListJobs, Listing};

use super::{Arguments, decimal};

pub(super) fn list_jobs(command: &ListJobs, arguments: &mut Arguments) {
    let of_bulk = |bulk: &BulkRef| (bulk.group.escaped().into(), bulk.id.escaped().into());
    let nothing = || (Vec::new(), Vec::new());
    let (listing, (group, bulk)): (&str, (Vec<u8>, Vec<u8>)) = match &command.listing {
        Listing::Pending(group) => ("pending", (group.escaped().into(), Vec::new())),
        Listing::Ready => ("ready", nothing()),
        Listing::Waiting => ("waiting", nothing()),
        Listing::InFlight => ("in_flight", nothing()),
        Listing::Dead => ("dead", nothing()),
        Listing::Finished => ("finished", nothing()),
        Listing::OfBulk(bulk) => ("ended", of_bulk(bulk)),
        Listing::OnHold(bulk) => ("held", of_bulk(bulk)),
    };
    arguments.extend([
        listing.into(),
        group,
        bulk,
        command.group.as_ref().map_or(Vec::new(), |group| group.escaped().into()),
        command.type_id.as_ref().map_or(Vec::new(), |type_id| type_id.escaped().into()),
        decimal(command.cursor),
        decimal(command.limit as u64),
    ]);
}
