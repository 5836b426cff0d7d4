//! The errors of the library; each message says what to do.

use std::time::Duration;

use fairlane_core::queue::{BulkRef, Difference, JobRef, Refusal};
use fairlane_core::{BulkId, GroupId, InvalidName, InvalidTrace, OutOfRange};
use fairlane_engine::EngineError;

use crate::duration::duration_text;
use crate::lock::LockError;
use crate::ranking::{LineError, RankingError};
use crate::rate::InvalidRate;
use crate::retry_budget::Backpressure;
use crate::room::RoomError;

/// An error of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine failed, refused the command or did not reply.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An invalid trace.
    #[error(transparent)]
    Trace(#[from] InvalidTrace),
    /// An invalid rate.
    #[error(transparent)]
    Rate(#[from] InvalidRate),
    /// A number out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The settings for callbacks are invalid.
    #[cfg(feature = "targets")]
    #[error(transparent)]
    Target(#[from] fairlane_targets::BadTarget),
    /// A lock was not acquired, or was lost.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A waiting room refused a request.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// A board refused a request.
    #[error(transparent)]
    Ranking(#[from] RankingError),
    /// A line of a board's source cannot be used.
    #[error(transparent)]
    RankingLine(#[from] LineError),
    /// A set of keys for passes cannot be used.
    #[error("the keys for passes cannot be used: {0}")]
    PassKeys(String),
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    NoRandomness,
    /// A job that every engine would reject.
    #[error("job {job} cannot be enqueued: {reason}")]
    Job {
        /// The job's id, and its position in the source.
        job: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A job was refused; see [`Receipt::accepted`](crate::Receipt::accepted).
    #[error("job {} of {} was refused: {}", .job.id, .job.group, refusal_text(*refusal, *retry_after))]
    Refused {
        /// The job's group and id.
        job: JobRef,
        /// Why it was refused.
        refusal: Refusal,
        /// The delay before a retry can succeed.
        retry_after: Duration,
    },
    /// A job has no result of the requested type; see [`JobHandle::result`](crate::JobHandle::result).
    #[error("job {} of {} has no result: {reason}", .job.id, .job.group)]
    NoResult {
        /// The job's group and id.
        job: JobRef,
        /// Why there is none.
        reason: String,
    },
    /// A job outside the bulk action already has this id.
    #[error(
        "job {} cannot join bulk action {wanted}: {} already has a job of this id, {}; give it another id",
        .job.id, .job.group, belongs_text(owner)
    )]
    Conflict {
        /// The job's group and id.
        job: JobRef,
        /// The bulk action that the job was to join.
        wanted: BulkId,
        /// The bulk action that the existing job belongs to, if any.
        owner: Option<BulkId>,
    },
    /// Another job already has this id, and stays as it is.
    #[error(
        "job {} of {} is there already, {}, and stays as it is; send a job again unchanged, or give a new one another \
         id",
        .job.id, .job.group, difference_text(*difference, owner)
    )]
    Differs {
        /// The job's group and id.
        job: JobRef,
        /// The first field in which the two jobs differ.
        difference: Difference,
        /// The bulk action that the existing job belongs to, if any.
        owner: Option<BulkId>,
    },
    /// A job without an id differs from the one at its position: this is not the source that was
    /// ingested before.
    #[error(
        "job {} (number {position} of the source) is there with another {}. Jobs without an id are identified by their \
         position: fix a line in place, but never remove, insert or change one that is loaded. If this is another \
         source, give its jobs ids, or append it to the jobs that are there (bulk load --append, Ingest::skip)",
        .job.id, .difference.as_str()
    )]
    OtherSource {
        /// The job's group and id.
        job: JobRef,
        /// The job's position in the source, counted from 1.
        position: u64,
        /// The first field in which the two jobs differ.
        difference: Difference,
    },
    /// A job for a bulk action names another group.
    #[error("a job of {} cannot join bulk action {} of {}; make it with Bulk::job", .group, .bulk.id, .bulk.group)]
    OtherGroup {
        /// The group of the job.
        group: GroupId,
        /// The bulk action that the job was to join.
        bulk: BulkRef,
    },
    /// There is no such bulk action.
    #[error("{} has no bulk action {}; open it first, or it ended and is past its retention", .0.group, .0.id)]
    NoSuchBulk(BulkRef),
    /// The group has reached the limit of stored bulk actions.
    #[error("{0} has reached the limit of bulk actions; wait until old ones are past their retention")]
    TooManyBulks(GroupId),
    /// There is no room for the payload of a new bulk action.
    #[error("bulk action {} of {} was not opened: {}", .bulk.id, .bulk.group, refusal_text(*refusal, *retry_after))]
    BulkRefused {
        /// The group and id of the bulk action.
        bulk: BulkRef,
        /// Why it was refused.
        refusal: Refusal,
        /// The delay before a retry can succeed.
        retry_after: Duration,
    },
    /// The bulk action does not have the expected number of jobs, and stays open.
    #[error(
        "bulk action {} has {}, not {expected}, and stays open; the source may contain an id twice, or \
         another producer adds jobs: add the missing jobs, or seal it with {total}",
        .bulk.id, jobs_text(*total)
    )]
    Mismatch {
        /// The group and id of the bulk action.
        bulk: BulkRef,
        /// The number of jobs that the producer counted.
        expected: u64,
        /// The number of jobs in the bulk action.
        total: u64,
    },
    /// The bulk action was sealed before, with another number of jobs.
    #[error(
        "bulk action {} was sealed with {}, not {expected}, and takes no more; seal it without a number, or open a \
         new one for other jobs",
        .bulk.id, jobs_text(*total)
    )]
    SealedWithOthers {
        /// The group and id of the bulk action.
        bulk: BulkRef,
        /// The number of jobs that the producer counted.
        expected: u64,
        /// The number of jobs in the bulk action.
        total: u64,
    },
    /// The URL of a callback is invalid.
    #[error("{0:?} is not a URL for a callback; it begins with http:// or https://")]
    Callback(String),
    /// The discipline cannot be changed, because the queue has unfinished jobs.
    #[error(
        "the discipline can only be changed while the queue has no unfinished jobs; nothing was changed: let the \
         queue run empty first"
    )]
    DisciplineInUse,
    /// The type is new, and the queue has reached the limit of types.
    #[error(
        "type {0} cannot be added: there are 64 types already; use one of them, or remove one without jobs"
    )]
    TooManyTypes(String),
    /// A type cannot be removed because it has jobs that have not ended, or dead jobs.
    #[error(
        "type {type_name} has {}, unfinished or dead; let jobs run, cancel them, or discard dead ones first",
        jobs_text(*jobs)
    )]
    TypeHasJobs {
        /// The name of the type.
        type_name: String,
        /// The number of these jobs.
        jobs: u64,
    },
    /// A worker has sent a request with a larger number; see
    /// [`LeaseRequest`](crate::LeaseRequest::number).
    #[error(
        "the latest request of this worker has the number {latest}; use a larger one, or another worker name"
    )]
    Superseded {
        /// The largest number of the worker's requests.
        latest: u64,
    },
    /// There was no progress within the retry budget.
    #[error("gave up after {} without progress: {reason}", duration_text(*.waited))]
    GaveUp {
        /// The time without progress.
        waited: Duration,
        /// What the call waited for, in words.
        reason: String,
        /// What the call waited for.
        backpressure: Backpressure,
        /// The delay before a retry can succeed; zero if it is not known.
        retry_after: Duration,
    },
    /// A wait was interrupted; see [`JobSender::interrupted_by`](crate::JobSender::interrupted_by).
    #[error("interrupted while waiting for the queue")]
    Interrupted,
    /// A line of a source is invalid.
    #[error("line {line}: {reason}")]
    Line {
        /// The number of the line, counted from 1.
        line: u64,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// Data stored in the queue cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// The name of the data.
        what: String,
        /// The parser's message.
        reason: String,
    },
    /// A source or destination outside the queue failed.
    #[error("reading or writing failed: {0}")]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Whether the same call may succeed after a delay.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_retryable(),
            Self::Refused { refusal, .. } => refusal.is_full(),
            Self::GaveUp { .. } | Self::Lock(LockError::Busy { .. } | LockError::WaitTimeout { .. }) => true,
            _ => false,
        }
    }
}

/// A number of jobs: `1 job`, `2 jobs`.
fn jobs_text(jobs: u64) -> String {
    if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") }
}

/// The meaning of a refusal, and what to do about it.
pub(crate) fn refusal_text(refusal: Refusal, retry_after: Duration) -> String {
    let again = format!("try again in {}", duration_text(retry_after));
    match refusal {
        Refusal::GroupFull => format!("its group has reached its limit of unfinished jobs; {again}"),
        Refusal::QueueFull => format!("the queue has reached its limit of unfinished jobs; {again}"),
        Refusal::GroupBytesFull => format!("its group {}; {again}", bytes_full("group_stored_bytes_max")),
        Refusal::QueueBytesFull => format!("the queue {}; {again}", bytes_full("stored_bytes_max")),
        Refusal::TooManyTypes => {
            "its type is new and there are 64 types already; use one of them, or remove one without jobs"
                .to_owned()
        }
        Refusal::BulkSealed => {
            "its bulk action is sealed or has ended; open another one for more jobs".to_owned()
        }
        Refusal::BulkUnknown => "there is no such bulk action; open it first".to_owned(),
    }
}

/// Why a group or queue has no room for bytes, and what to do. Finished jobs count until they are
/// removed.
fn bytes_full(setting: &str) -> String {
    format!(
        "has stored as many bytes as {setting} allows, finished jobs included: shorten the retention of finished jobs, \
         discard dead ones, or raise {setting}"
    )
}

fn difference_text(difference: Difference, owner: &Option<BulkId>) -> String {
    match difference {
        Difference::Bulk => belongs_text(owner),
        other => format!("with another {}", other.as_str()),
    }
}

fn belongs_text(owner: &Option<BulkId>) -> String {
    match owner {
        Some(owner) => format!("in bulk action {owner}"),
        None => "in no bulk action (it was enqueued alone, or requeued after it had died)".to_owned(),
    }
}
