//! An operation as a type: its arguments, reply, validation, access and effect in one file.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::access::Access;
use super::page::PageSize;
use crate::numbers::{Micros, OutOfRange, within};

/// One operation of one capability. The value is the command; applying it to the machine
/// returns the reply.
pub trait Operation: Serialize + DeserializeOwned + Clone + Debug + PartialEq + Send + 'static {
    /// The state machine that the operation is applied to.
    type Machine;
    /// The result of the operation.
    type Reply: Serialize + DeserializeOwned + Clone + Debug + PartialEq + Send + 'static;

    /// The name of the operation's file, its Lua script, its metric label and its
    /// conformance chapter.
    const STEM: &'static str;
    /// Whether the operation leaves the machine unchanged, whatever its arguments are.
    const READ_ONLY: bool = false;

    /// Checks what the argument types cannot guarantee.
    fn validate(&self) -> Result<(), Invalid> {
        self.validate_page()
    }

    /// The size of the page that the operation asks for, if it lists something page by page.
    fn page_size(&self) -> Option<PageSize> {
        None
    }

    /// Checks the size of the page. An operation with its own `validate` calls it there.
    fn validate_page(&self) -> Result<(), Invalid> {
        self.page_size().map_or(Ok(()), |page| page.validate())
    }

    /// Whether the operation leaves the machine unchanged.
    fn is_read_only(&self) -> bool {
        Self::READ_ONLY
    }

    /// The permission that the caller needs, and the groups whose data the operation accesses.
    fn access(&self) -> Access<'_>;

    /// The amount of work that the operation causes.
    fn weight(&self) -> OperationWeight {
        self.page_size().map_or(OperationWeight::ONE, |page| OperationWeight::jobs(page.items))
    }

    /// Whether the operation stores new data. It is refused while a store is almost full; others
    /// are not, so that a full store can be emptied.
    fn adds_data(&self) -> bool {
        false
    }

    /// Applies a validated operation.
    fn apply(self, machine: &mut Self::Machine, context: &mut Context) -> Self::Reply;
}

/// An operation that is listed in the registry.
pub trait Registered: Operation {
    /// The operation as a command.
    fn into_command(self) -> crate::Command;

    /// The operation's reply, or `None` if `reply` belongs to another operation.
    fn from_reply(reply: crate::Reply) -> Option<Self::Reply>;
}

/// The inputs of an operation besides its arguments and the machine.
#[derive(Debug)]
pub struct Context {
    /// The current time of the store.
    pub now: Micros,
}

/// The amount of work that an operation causes. Owners and quotas schedule by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationWeight {
    /// Jobs that the operation names or requests.
    pub jobs: usize,
    /// Bytes of payloads and notes in the operation.
    pub bytes: usize,
}

impl OperationWeight {
    /// The weight of an operation on one item without a payload.
    pub const ONE: Self = Self { jobs: 1, bytes: 0 };

    /// The weight of an operation on `jobs` jobs without payloads.
    pub const fn jobs(jobs: usize) -> Self {
        Self { jobs, bytes: 0 }
    }
}

/// Why a command was rejected before it was applied: it is malformed, and repeating
/// it does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// More items than one command accepts.
    #[error("{what} takes at most {most} jobs in one call, not {got}; split the batch")]
    TooMany {
        /// The operation.
        what: &'static str,
        /// The limit.
        most: usize,
        /// The number of items in the command.
        got: usize,
    },
    /// More bytes than one command accepts.
    #[error("{what} has at most {most} bytes, not {got}")]
    TooLarge {
        /// The field that is too large.
        what: &'static str,
        /// The limit in bytes.
        most: usize,
        /// The size in bytes.
        got: usize,
    },
    /// A number out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// An empty text, or one with a control character such as a line break.
    #[error("{0} must be one line of text")]
    NotOneLine(&'static str),
    /// The same item twice in one call.
    #[error("{0} stands twice in one call; name it once")]
    Twice(String),
}

/// Rejects more than `most` items.
pub(crate) fn at_most(what: &'static str, got: usize, most: usize) -> Result<(), Invalid> {
    if got <= most { Ok(()) } else { Err(Invalid::TooMany { what, most, got }) }
}

/// Rejects a request for no items, or for more than `most`.
pub(crate) fn one_to(what: &'static str, got: usize, most: usize) -> Result<(), Invalid> {
    within(what, got as u64, 1, most as u64)?;
    Ok(())
}

/// Rejects more than `most` bytes.
pub(crate) fn bytes_at_most(what: &'static str, got: usize, most: usize) -> Result<(), Invalid> {
    if got <= most { Ok(()) } else { Err(Invalid::TooLarge { what, most, got }) }
}

/// Rejects a text that is empty, has more than `most` bytes or is not one line.
pub(crate) fn line_of(what: &'static str, text: &str, most: usize) -> Result<(), Invalid> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(Invalid::NotOneLine(what));
    }
    bytes_at_most(what, text.len(), most)
}
