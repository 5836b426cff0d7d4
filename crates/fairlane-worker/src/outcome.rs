//! The outcome of an attempt, as a processor returns it.
//!
//! Invariant: every outcome a processor returns becomes a settlement that the engine accepts. What
//! is too long is truncated or rejected here, with a reason that a person can act on.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{DELAY_MS_MAX, NOTE_BYTES_MAX, RETRY_AFTER_MS_MAX};
use fairlane_core::queue::{self, LeasedJob, Settlement};
use serde::{Deserialize, Serialize};

use crate::retry::RetryPolicy;

/// Longest error code, in bytes.
const CODE_BYTES_MAX: usize = 64;
/// Longest error message, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Longest random delay, in milliseconds, of a job that its downstream throttled without a
/// Retry-After.
const THROTTLE_DELAY_MS: u64 = 200;

/// The outcome of an attempt.
///
/// ```
/// use std::time::Duration;
/// use fairlane_worker::Outcome;
///
/// let done = Outcome::done(&serde_json::json!({"sent": true}));
/// let again = Outcome::retry("smtp", "the server closed the connection").after(Duration::from_secs(5));
/// let slower = Outcome::throttled(Some(Duration::from_secs(30)));
/// let never = Outcome::failed("address", "ada@ is no address");
/// # assert!(matches!(done, Outcome::Done { .. }) && matches!(slower, Outcome::Throttled { .. }));
/// # assert!(matches!(again, Outcome::Retry { .. }) && matches!(never, Outcome::Failed(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The attempt succeeded.
    Done {
        /// The result, stored with the job; JSON by convention.
        result: Vec<u8>,
    },
    /// The attempt failed; the job is retried unless its retries are used up.
    Retry {
        /// The delay before the retry; the type's retry policy if `None`.
        after: Option<Duration>,
        /// What went wrong.
        problem: Problem,
    },
    /// The downstream rejected the call for now. This uses up no attempt, but slows the type down.
    Throttled {
        /// The delay that the downstream asked for; no job of this type starts before it is over.
        retry_after: Option<Duration>,
    },
    /// The attempt failed for good: the job is dead.
    Failed(Problem),
    /// The attempt was abandoned because the job was cancelled.
    Cancelled(Problem),
    /// The job was handed back unprocessed. It can run again at once, and this attempt does not
    /// count.
    Released,
}

/// An error: a code to group by and a message to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A short identifier; summaries count errors by it.
    pub code: String,
    /// A sentence for a person.
    pub message: String,
}

impl Problem {
    /// Makes a problem; a code or message that is too long is truncated.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: cut(code.into(), CODE_BYTES_MAX), message: cut(message.into(), MESSAGE_BYTES_MAX) }
    }

    /// The problem as it is stored with the job: `{"code":…,"message":…}`.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("two strings are always JSON")
    }

    /// Reads the note stored with a job. Notes that the queue itself writes have the code `lost` or
    /// `throttled`; any other bytes become the message of the code `unknown`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_else(|_| {
            let code = match bytes {
                b"lost too many leases" => "lost",
                b"throttled too often" => "throttled",
                _ => "unknown",
            };
            Self::new(code, String::from_utf8_lossy(bytes))
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => f.write_str(&self.code),
            message => write!(f, "{}: {message}", self.code),
        }
    }
}

/// Truncates a text to at most `bytes_max` bytes, at a character boundary.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max - "…".len()).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Outcome {
    /// Success, with a result that is stored as JSON.
    pub fn done(result: &impl Serialize) -> Self {
        match serde_json::to_vec(result) {
            Ok(result) => Self::Done { result },
            Err(error) => {
                Self::failed("result_unserializable", format!("its result cannot be serialised: {error}"))
            }
        }
    }

    /// Success, with a result that is stored byte for byte.
    pub fn done_bytes(result: impl Into<Vec<u8>>) -> Self {
        Self::Done { result: result.into() }
    }

    /// A failure that is retried.
    pub fn retry(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Retry { after: None, problem: Problem::new(code, message) }
    }

    /// Sets the delay of a retry; other outcomes stay as they are.
    pub fn after(self, delay: Duration) -> Self {
        match self {
            Self::Retry { problem, .. } => Self::Retry { after: Some(delay), problem },
            other => other,
        }
    }

    /// A rejection by the downstream, with the delay it asked for.
    pub fn throttled(retry_after: Option<Duration>) -> Self {
        Self::Throttled { retry_after }
    }

    /// A failure that is not retried.
    pub fn failed(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failed(Problem::new(code, message))
    }

    /// An attempt abandoned because its job was cancelled.
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::Cancelled(Problem::new("cancelled", message))
    }

    /// The settlement that ends the attempt at this job with this outcome, for a worker without a
    /// pool. A retry without a delay follows the default [`RetryPolicy`].
    pub fn settlement(self, job: &LeasedJob) -> Settlement {
        let outcome = self.bounded().to_engine(RetryPolicy::default(), job.attempt);
        Settlement { job: job.job.clone(), fence: job.fence, outcome }
    }

    /// The outcome as it is settled: truncates what is too long to store, or fails it, since another
    /// attempt would not make it shorter.
    #[must_use]
    pub fn bounded(self) -> Self {
        match self {
            Self::Done { result } if result.len() > NOTE_BYTES_MAX => Self::failed(
                "result_too_large",
                format!(
                    "its result has {} bytes, the limit is {NOTE_BYTES_MAX}; store it elsewhere and return a reference",
                    result.len()
                ),
            ),
            Self::Failed(Problem { code, message }) => Self::failed(code, message),
            Self::Cancelled(Problem { code, message }) => Self::Cancelled(Problem::new(code, message)),
            Self::Retry { after, problem: Problem { code, message } } => {
                Self::Retry { after, problem: Problem::new(code, message) }
            }
            other => other,
        }
    }

    /// The outcome in the form of the engine.
    pub(crate) fn to_engine(&self, policy: RetryPolicy, attempt: u32) -> queue::Outcome {
        let ms = |duration: Duration, most: u64| (duration.as_millis() as u64).min(most);
        match self {
            Self::Done { result } => queue::Outcome::Succeeded { result: to_note(result) },
            Self::Failed(problem) => queue::Outcome::Failed { reason: problem.to_bytes().into() },
            Self::Retry { after, problem } => queue::Outcome::Retry {
                delay_ms: ms(after.unwrap_or_else(|| policy.delay(attempt)), DELAY_MS_MAX),
                reason: problem.to_bytes().into(),
            },
            Self::Throttled { retry_after: Some(retry_after) } => {
                let retry_after_ms = ms(*retry_after, RETRY_AFTER_MS_MAX);
                queue::Outcome::Throttled { delay_ms: retry_after_ms, retry_after_ms }
            }
            Self::Throttled { retry_after: None } => queue::Outcome::Throttled {
                delay_ms: fastrand::u64(1..=THROTTLE_DELAY_MS),
                retry_after_ms: 0,
            },
            Self::Cancelled(problem) => queue::Outcome::Cancelled { reason: problem.to_bytes().into() },
            Self::Released => queue::Outcome::Released,
        }
    }

    /// The labels of all outcomes.
    pub(crate) const LABELS: [&'static str; 6] =
        ["done", "retry", "throttled", "failed", "cancelled", "released"];

    /// The label in metrics and events.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::Retry { .. } => "retry",
            Self::Throttled { .. } => "throttled",
            Self::Failed(_) => "failed",
            Self::Cancelled(_) => "cancelled",
            Self::Released => "released",
        }
    }
}

/// An empty note takes no allocation.
fn to_note(bytes: &[u8]) -> Arc<[u8]> {
    if bytes.is_empty() { Arc::default() } else { bytes.into() }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { .. } | Self::Throttled { .. } | Self::Released => f.write_str(self.as_str()),
            Self::Retry { problem, .. } | Self::Failed(problem) | Self::Cancelled(problem) => problem.fmt(f),
        }
    }
}

/// Lets `?` return an outcome from a processor.
impl std::error::Error for Outcome {}

/// The label of an outcome, as in metrics and events.
impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A return type of a processor.
///
/// | returned | outcome |
/// |---|---|
/// | `()`, `Ok(())` | success without a result |
/// | `Ok(value)` | success; the value is stored as JSON, as by [`Outcome::done`] |
/// | an [`Outcome`], `Ok(outcome)`, `Err(outcome)` | that outcome |
/// | `Err(error)` | a retry with the code `error` and the causes of the error |
///
/// So `?` retries, and `Err(Outcome::failed(…))?` fails for good.
///
/// ```
/// use fairlane_worker::{IntoOutcome, Outcome};
///
/// fn length(text: &str) -> Result<usize, std::str::Utf8Error> {
///     Ok(std::str::from_utf8(text.as_bytes())?.len())
/// }
/// assert_eq!(length("ada").into_outcome(), Outcome::done(&3));
/// ```
#[diagnostic::on_unimplemented(
    message = "a processor cannot return `{Self}`",
    label = "this processor returns `{Self}`",
    note = "return a value with `Outcome::done(&value)`, or with `Ok(value)` if the processor returns a `Result`",
    note = "a value in `Ok` must implement `serde::Serialize`, and an error `std::error::Error + Send + Sync`"
)]
pub trait IntoOutcome {
    /// Converts it into an outcome.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done { result: Vec::new() }
    }
}

impl<T, E> IntoOutcome for Result<T, E>
where
    T: Serialize + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn into_outcome(self) -> Outcome {
        match self.map_err(Into::into) {
            Ok(value) => success(value),
            Err(error) => match error.downcast::<Outcome>() {
                Ok(outcome) => *outcome,
                Err(error) => Outcome::retry("error", fairlane_engine::causes(&*error)),
            },
        }
    }
}

/// A value in `Ok`: an outcome is taken as it is, `()` has no result, anything else is the result.
fn success<T: Serialize + 'static>(value: T) -> Outcome {
    let mut value = Some(value);
    if let Some(outcome) = (&mut value as &mut dyn Any).downcast_mut::<Option<Outcome>>() {
        return outcome.take().expect("it was set two lines above");
    }
    match (&value as &dyn Any).is::<Option<()>>() {
        true => ().into_outcome(),
        false => Outcome::done(&value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_retry_that_names_its_causes() {
        let inner = std::io::Error::other("no route");
        let outer: Box<dyn std::error::Error + Send + Sync> = Box::new(std::io::Error::other(inner));
        let outcome = Err::<(), _>(outer).into_outcome();
        assert_eq!(outcome, Outcome::retry("error", "no route"));
    }

    #[test]
    fn an_outcome_as_an_error_stays_that_outcome() {
        fn refuse() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Err(Outcome::failed("address", "no such address"))?;
            Ok(())
        }
        assert_eq!(refuse().into_outcome(), Outcome::failed("address", "no such address"));
    }

    #[test]
    fn a_value_in_ok_is_the_result_and_an_outcome_stays_itself() {
        type Returned<T> = Result<T, std::io::Error>;
        let value: Returned<_> = Ok(vec!["sent"]);
        assert_eq!(value.into_outcome(), Outcome::done_bytes(*br#"["sent"]"#));
        assert_eq!(Returned::Ok(()).into_outcome(), Outcome::done_bytes([]));
        assert_eq!(Returned::Ok(None::<u8>).into_outcome(), Outcome::done_bytes(*b"null"));
        let outcome = Outcome::throttled(Some(Duration::from_secs(3)));
        assert_eq!(Returned::Ok(outcome.clone()).into_outcome(), outcome);
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let problem = Problem::new("code", "é".repeat(5000));
        assert!(problem.message.len() <= MESSAGE_BYTES_MAX && problem.message.ends_with("é…"));
        assert_eq!(Problem::from_bytes(&problem.to_bytes()), problem);
        assert_eq!(Problem::new("error", "").to_string(), "error");
    }

    #[test]
    fn bytes_of_another_origin_become_the_message() {
        assert_eq!(Problem::from_bytes(b"plain text"), Problem::new("unknown", "plain text"));
    }
}
