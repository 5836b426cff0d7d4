//! The chapters about the activity log.

pub mod list_activity;
pub mod record_activity;
