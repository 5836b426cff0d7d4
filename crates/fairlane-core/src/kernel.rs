//! The building blocks of every capability. Nothing here depends on a capability.
//!
//! - [`operation`]: an operation as a type. `kernel/operations_macro.rs`: a capability's
//!   list of operations.
//! - [`access`]: the permission that an operation needs, and the groups whose data it accesses.
//! - [`names`], [`numbers`], [`rate`], [`trace`]: validated names and quantities.
//! - [`limits`]: every limit and default. [`hashing`]: hash maps that names chosen by a client
//!   cannot slow down.
//! - [`downstream`]: how a rate responds to refusals.
//! - [`machine`]: the state machine of a capability, as engines use it. [`dump`]: its state as text.
//! - `encoding`: serialisation that applies the same checks as the constructors.
//! - [`page`]: pages of lists.
//! - [`row`]: how state passes to a store and back.
//! - [`ranked_set`]: an ordered set that knows the rank of each item.
//! - `table`: rows by key that record which of them a command has changed.

pub mod access;
pub mod downstream;
pub mod dump;
pub(crate) mod encoding;
pub mod hashing;
pub mod limits;
pub mod machine;
pub mod names;
pub mod numbers;
pub mod operation;
mod operations_macro;
pub mod page;
pub mod ranked_set;
pub mod rate;
pub mod row;
pub mod signal;
pub(crate) mod table;
pub mod trace;

pub use access::{Access, Permission, Subjects};
pub use dump::{Dump, DumpValue};
pub use machine::{Machine, RestoreMode, Restored, Stored};
pub use operation::{Context, Invalid, Operation, OperationWeight, Registered};
pub(crate) use operations_macro::operations;
pub use page::PageSize;
pub use signal::{Grant, Signal};
