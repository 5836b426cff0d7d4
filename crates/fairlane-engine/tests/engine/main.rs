//! The embedded engine: what it counts and tells, and what an audit finds in its directory.

mod audit;
mod observe;
