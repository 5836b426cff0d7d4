//! The operations of the activity log. A file per operation; this list is the wire format.

mod list_activity;
mod record_activity;

use super::Machine;
use crate::kernel::operations;

operations! {
    Activity(Machine):
    record_activity::RecordActivity { ActivityRecorded },
    list_activity::ListActivity { ActivityListed },
}
