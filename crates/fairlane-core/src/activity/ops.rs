//! The operations of the activity log. A file per operation; this list is the wire format.

mod list_activity;
mod record_activity;

pub use list_activity::{ActivityListed, ListActivity};
pub use record_activity::{ActivityRecorded, RecordActivity};

use super::Machine;
use crate::kernel::operations;

operations! {
    Activity(Machine):
    RecordActivity,
    ListActivity,
}
