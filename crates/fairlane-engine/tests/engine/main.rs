//! Tests of the embedded engine: its metrics and events, and audits of its directory.

mod audit;
mod observe;
