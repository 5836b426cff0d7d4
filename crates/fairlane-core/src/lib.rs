//! The deterministic core of Fairlane.
//!
//! Nothing here reads a clock, draws a random number or performs I/O. Time and the hash seed are
//! arguments, and the same commands in the same order give the same replies and the same state. The
//! embedded engine runs these machines, the simulator runs them in virtual time, and the tests
//! check that the Redis scripts behave the same.
//!
//! - [`kernel`]: the building blocks of every capability: operations, access, names,
//!   numbers, rates, limits.
//! - [`registry`]: the list of capabilities, with [`Command`], [`Reply`] and
//!   [`Machines`] over all of them.
//! - [`queue`]: the job queue. Each operation is a file in `queue/ops`, with the same name as its
//!   script and its conformance chapter.

pub mod activity;
pub mod kernel;
pub mod lock;
pub mod queue;
pub mod ranking;
pub mod registry;
pub mod room;

pub(crate) use kernel::encoding;
pub use kernel::{hashing, limits, names, numbers, rate, trace};
pub use queue::{classic, congestion};

pub use hashing::HashSeed;
pub use names::{
    ActivityId, BoardName, BulkId, EventId, GroupId, HolderName, InvalidName, JobId, LockToken, MemberId,
    PlaceToken, ProcessId, RebuildId, RoomName, TypeId, UserId, WorkerId,
};
pub use numbers::{Cost, Fence, Level, Micros, OutOfRange, RequestNumber, Weight};
pub use rate::Rate;
pub use registry::{Changes, Command, Machines, Reply};
pub use trace::{InvalidTrace, Trace};
