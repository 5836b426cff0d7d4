//! How an attempt ended, as a processor says it.
//!
//! Invariant: whatever a processor returns becomes a settlement the engine takes: what is too long is cut or
//! refused here, with a reason that a person can act on.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest code of a problem, in bytes.
const CODE_BYTES_MAX: usize = 64;
/// Longest message of a problem, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// How an attempt ended.
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
    /// Done.
    Done {
        /// Kept with the job; JSON by convention.
        result: Vec<u8>,
    },
    /// Failed; to be tried again unless its retries are used up.
    Retry {
        /// After this long; by the type's retry policy if it is not said.
        after: Option<Duration>,
        /// What went wrong.
        problem: Problem,
    },
    /// The downstream refused it for now: costs no attempt, but slows the type.
    Throttled {
        /// What the downstream asked for; nothing of this type starts before.
        retry_after: Option<Duration>,
    },
    /// Failed for good: the job is dead.
    Failed(Problem),
    /// Given up because nobody wants it.
    Cancelled(Problem),
    /// Handed back unworked; it runs again at once and this attempt does not count.
    Released,
}

/// What went wrong: a code to count by and a message to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A short word; summaries count by it.
    pub code: String,
    /// A sentence for a person.
    pub message: String,
}

impl Problem {
    /// A problem; what is too long is cut.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: cut(code.into(), CODE_BYTES_MAX), message: cut(message.into(), MESSAGE_BYTES_MAX) }
    }

    /// As it is kept with the job: `{"code":…,"message":…}`.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("two strings are always JSON")
    }

    /// Reads what is kept with a job. What the queue itself says has the code `lost` or `throttled`; bytes of
    /// another origin become the message of the code `unknown`.
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

/// At most so many bytes of a text, cut at a character.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max - "…".len()).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Outcome {
    /// Done, with a result that is kept as JSON.
    pub fn done(result: &impl Serialize) -> Self {
        match serde_json::to_vec(result) {
            Ok(result) => Self::Done { result },
            Err(error) => Self::failed("result_unserializable", format!("its result is no JSON: {error}")),
        }
    }

    /// Done, with bytes that are kept as they are.
    pub fn done_bytes(result: impl Into<Vec<u8>>) -> Self {
        Self::Done { result: result.into() }
    }

    /// To be tried again.
    pub fn retry(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Retry { after: None, problem: Problem::new(code, message) }
    }

    /// A retry after this long; other outcomes stay as they are.
    pub fn after(self, delay: Duration) -> Self {
        match self {
            Self::Retry { problem, .. } => Self::Retry { after: Some(delay), problem },
            other => other,
        }
    }

    /// Refused by the downstream, with what it asked for.
    pub fn throttled(retry_after: Option<Duration>) -> Self {
        Self::Throttled { retry_after }
    }

    /// Failed for good.
    pub fn failed(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failed(Problem::new(code, message))
    }

    /// Given up.
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::Cancelled(Problem::new("cancelled", message))
    }

    /// The words of all outcomes.
    pub(crate) const WORDS: [&'static str; 6] =
        ["done", "retry", "throttled", "failed", "cancelled", "released"];

    /// The word for metrics and events.
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

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { .. } | Self::Throttled { .. } | Self::Released => f.write_str(self.as_str()),
            Self::Retry { problem, .. } | Self::Failed(problem) | Self::Cancelled(problem) => problem.fmt(f),
        }
    }
}

/// So that `?` leaves a processor with an outcome.
impl std::error::Error for Outcome {}

/// What a processor may return.
///
/// `()` is done without a result. An error is a retry with the code `error`, unless it is itself an
/// [`Outcome`]: `Err(Outcome::failed(…))?` fails for good.
pub trait IntoOutcome {
    /// The outcome it stands for.
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
    T: IntoOutcome,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn into_outcome(self) -> Outcome {
        match self.map_err(Into::into) {
            Ok(done) => done.into_outcome(),
            Err(error) => match error.downcast::<Outcome>() {
                Ok(outcome) => *outcome,
                Err(error) => Outcome::retry("error", fairlane_engine::causes(&*error)),
            },
        }
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
    fn a_long_message_is_cut_at_a_character() {
        let problem = Problem::new("code", "é".repeat(5000));
        assert!(problem.message.len() <= MESSAGE_BYTES_MAX && problem.message.ends_with("é…"));
        assert_eq!(Problem::from_bytes(&problem.to_bytes()), problem);
        assert_eq!(Problem::new("error", "").to_string(), "error");
    }

    #[test]
    fn bytes_of_another_origin_are_a_message() {
        assert_eq!(Problem::from_bytes(b"plain words"), Problem::new("unknown", "plain words"));
    }
}
