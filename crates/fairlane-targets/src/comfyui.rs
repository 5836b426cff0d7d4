//! Runs each job as one prompt of a ComfyUI engine.
//!
//! The payload of a job is a [`Prompt`]. The engine keeps its queue and its history in memory only,
//! runs a prompt twice if it gets the same id twice, and may stop sending events. Therefore:
//!
//! - The id of the prompt follows from the job and the attempt. A worker looks for the id before it
//!   submits anything, so a worker that takes over a job finds the prompt that the dead worker
//!   submitted.
//! - Events (`comfyui/events.rs`) report progress and shorten the wait for the end. The state is
//!   read through `comfyui/api.rs` at an interval, whether events arrive or not.
//! - A prompt that the engine has forgotten, because it was restarted, is submitted again.
//!
//! `comfyui/record.rs` derives the outcome from the record of an ended prompt, `comfyui/outputs.rs`
//! turns its outputs into the result of the job.

mod api;
mod events;
mod outputs;
mod record;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fairlane_core::{GroupId, JobId};
use fairlane_worker::{BoxFuture, CancelReason, Context, Outcome, Processor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::call::idempotency_key;
use crate::client::{BadTarget, http_url, origin};
use api::{Api, State, Submission};
use record::Verdict;

/// The namespace of the ids of prompts.
const NAMESPACE: Uuid = Uuid::from_u128(0x9a3f_62c1_7d05_4e0b_8c4a_51f0_2b7e_d916);
/// Most submissions of a prompt in one attempt, if the engine keeps forgetting it.
const SUBMISSIONS_MAX: u32 = 4;
/// How long an engine may be unreachable before an attempt that has submitted nothing is retried.
const PATIENCE: Duration = Duration::from_secs(60);

/// The settings of a ComfyUI engine.
#[derive(Clone)]
pub struct ComfyUiSettings {
    /// The base URL, such as `http://gpu-1:8188`. Routes are below `/api`.
    pub url: String,
    /// Additional headers, such as `X-API-Key`; values are never shown.
    pub headers: Vec<(String, String)>,
    /// Whether a prompt with some invalid outputs runs without them. By default it fails.
    pub allow_partial: bool,
    /// The form of the outputs in the result of a job.
    pub outputs: OutputMode,
    /// How often the state of a prompt is read.
    pub poll_interval: Duration,
    /// How long a prompt must stay unknown before it counts as forgotten.
    pub forgotten_after: Duration,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Timeout of one request; a prompt itself may take as long as the timeout of an attempt.
    pub timeout: Duration,
}

/// What happens to the files that a prompt wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputMode {
    /// They stay on the engine; the result contains their URLs.
    Reference,
    /// They are saved below this directory; the result contains their paths.
    Download(PathBuf),
}

impl ComfyUiSettings {
    /// References to outputs of the engine at this URL, whose state is read every 5 seconds.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            allow_partial: false,
            outputs: OutputMode::Reference,
            poll_interval: Duration::from_secs(5),
            forgotten_after: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
        }
    }

    /// The origin of the URL, without credentials, path and query, any of which can be secret.
    pub fn origin(&self) -> String {
        http_url(&self.url).map_or_else(|_| "(invalid URL)".to_owned(), |url| origin(&url))
    }
}

impl fmt::Debug for ComfyUiSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ComfyUiSettings")
            .field("url", &self.origin())
            .field("headers", &names)
            .field("allow_partial", &self.allow_partial)
            .field("outputs", &self.outputs)
            .field("poll_interval", &self.poll_interval)
            .finish_non_exhaustive()
    }
}

/// A workflow in ComfyUI's API format, as the payload of a job.
///
/// ```
/// use fairlane_targets::Prompt;
///
/// let payload = r#"{"prompt": {"9": {"class_type": "SaveImage", "inputs": {"images": ["8", 0]}}}}"#;
/// let prompt: Prompt = serde_json::from_str(payload)?;
/// assert_eq!(prompt.prompt.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The nodes by their ids.
    pub prompt: Map<String, Value>,
    /// Data for nodes, such as API keys of other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_data: Option<Value>,
    /// The outputs to compute; all if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_execution_targets: Option<Vec<String>>,
}

/// A file that nodes such as `LoadImage` load by its name.
#[derive(Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Its name on the engine, such as `face.png`.
    pub name: String,
    /// Its media type, such as `image/png`.
    pub content_type: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for InputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {} bytes)", self.name, self.content_type, self.bytes.len())
    }
}

/// The prompt of an attempt.
struct Work<'a> {
    prompt: &'a Prompt,
    inputs: &'a [InputFile],
    id: String,
}

/// Runs prompts on one engine.
///
/// The engine runs one prompt at a time. Give its type a concurrency of 2: one prompt runs and the
/// next one waits in the engine. More would only move the queue into the engine's memory.
pub struct ComfyUi {
    api: Api,
    settings: ComfyUiSettings,
}

impl ComfyUi {
    /// Makes a target; an error if the settings are invalid.
    pub fn new(settings: ComfyUiSettings) -> Result<Self, BadTarget> {
        if settings.poll_interval.is_zero() {
            return Err(BadTarget("the poll interval must be longer than zero".to_owned()));
        }
        Ok(Self { api: Api::new(&settings)?, settings })
    }

    /// Runs one prompt as an attempt at a job, until the prompt ends or the attempt must stop.
    pub async fn run(&self, job: &Context, prompt: &Prompt) -> Outcome {
        self.run_with(job, prompt, &[]).await
    }

    /// Runs one prompt whose nodes load these files, which are stored on the engine before each
    /// submission. Their names must follow from their content: files of the same name are replaced.
    pub async fn run_with(&self, job: &Context, prompt: &Prompt, inputs: &[InputFile]) -> Outcome {
        let work = Work { prompt, inputs, id: prompt_id(job.group(), job.id(), job.attempt()) };
        tokio::select! {
            biased;
            reason = job.cancelled() => self.stop(&work.id, reason).await,
            outcome = self.run_to_the_end(job, &work) => outcome,
        }
    }

    /// Handles a stop request. A prompt is cancelled on the engine only if its job was cancelled or
    /// timed out: if the job is released, another worker finds the prompt.
    async fn stop(&self, id: &str, reason: CancelReason) -> Outcome {
        match reason {
            CancelReason::Lost | CancelReason::Stopping => Outcome::Released,
            CancelReason::Cancelled => {
                self.api.cancel(id).await;
                Outcome::cancelled("it was cancelled while the engine ran it")
            }
            CancelReason::TimedOut => {
                self.api.cancel(id).await;
                Outcome::retry("timeout", "the engine did not finish the prompt in time")
            }
        }
    }

    async fn run_to_the_end(&self, job: &Context, work: &Work<'_>) -> Outcome {
        let has_news = Notify::new();
        tokio::select! {
            outcome = self.poll(job, work, &has_news) => outcome,
            never = events::follow(&self.api, job, work.prompt, &work.id, &has_news) => match never {},
        }
    }

    /// Submits the prompt if the engine does not know it, and reads its state until it has ended.
    async fn poll(&self, job: &Context, work: &Work<'_>, has_news: &Notify) -> Outcome {
        let (began, mut submissions, mut unknown_since) = (Instant::now(), 0, None::<Instant>);
        loop {
            let mut pause = self.settings.poll_interval;
            match self.api.find(&work.id).await {
                Ok(State::Ended(record)) => return self.conclude(job, &work.id, record.verdict()).await,
                Ok(State::Waiting) => unknown_since = None,
                Ok(State::Unknown) => {
                    let since = *unknown_since.get_or_insert_with(Instant::now);
                    let is_forgotten = submissions == 0 || since.elapsed() >= self.settings.forgotten_after;
                    if is_forgotten && submissions == SUBMISSIONS_MAX {
                        let message = format!("the engine forgot the prompt {SUBMISSIONS_MAX} times");
                        return Outcome::retry("forgotten", message);
                    }
                    if is_forgotten {
                        submissions += 1;
                        unknown_since = None;
                        if let Err(outcome) = self.submit(work).await {
                            return outcome;
                        }
                    } else {
                        pause = pause.min(self.settings.forgotten_after);
                    }
                }
                // After a submission the prompt may be running, so an error of a read does not end
                // the attempt.
                Err(outcome) if submissions == 0 && !matches!(outcome, Outcome::Retry { .. }) => {
                    return outcome;
                }
                Err(outcome) if submissions == 0 && began.elapsed() >= PATIENCE => return outcome,
                Err(_) => {}
            }
            // A wake-up that turns out to be early costs one request.
            let _ = tokio::time::timeout(pause, has_news.notified()).await;
        }
    }

    /// Submits a prompt; an error is the outcome of the attempt. A submission without a response
    /// may have arrived, which the next read of the state shows.
    async fn submit(&self, work: &Work<'_>) -> Result<(), Outcome> {
        for input in work.inputs {
            self.api.upload(input).await?;
        }
        match self.api.submit(work.prompt, &work.id).await? {
            Submission::Accepted | Submission::Unanswered => Ok(()),
            Submission::Partial(_) if self.settings.allow_partial => Ok(()),
            Submission::Partial(problem) => {
                self.api.cancel(&work.id).await;
                Err(Outcome::failed("node_errors", problem))
            }
        }
    }

    async fn conclude(&self, job: &Context, id: &str, verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Succeeded(outputs) => match &self.settings.outputs {
                OutputMode::Reference => outputs::references(&self.api, id, outputs),
                OutputMode::Download(directory) => {
                    outputs::download(&self.api, id, job.attempt(), outputs, directory).await
                }
            },
            Verdict::OutOfMemory(message) => {
                self.api.free_memory().await;
                Outcome::retry("out_of_memory", message)
            }
            Verdict::NodeFailed(message) => Outcome::failed("node_failed", message),
            Verdict::Interrupted => Outcome::retry("interrupted", "the prompt was interrupted on the engine"),
            Verdict::None => Outcome::retry("no_verdict", "the engine ended the prompt without saying how"),
        }
    }
}

impl Processor for ComfyUi {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match serde_json::from_slice::<Prompt>(job.payload()) {
                Ok(prompt) => self.run(&job, &prompt).await,
                Err(error) => {
                    let message = format!(
                        "the payload is not a prompt: {error}; expected {{\"prompt\": {{\"<node>\": {{…}}}}}}, a \
                         workflow exported in API format"
                    );
                    Outcome::failed("bad_prompt", message)
                }
            }
        })
    }
}

impl fmt::Debug for ComfyUi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComfyUi").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The id of the prompt of an attempt: the UUID of version 5 of `group/job/attempt`, whose names are
/// percent-encoded. Lost leases do not count as attempts, so every worker that gets the same attempt,
/// in whichever language, derives the same id.
///
/// ```
/// use fairlane_core::{GroupId, JobId};
///
/// let (group, job) = (GroupId::new("customer:7")?, JobId::new("a/b")?);
/// assert_eq!(fairlane_targets::prompt_id(&group, &job, 1), "9f222652-84d1-5440-bbe3-9908f7bc59aa");
/// # Ok::<(), fairlane_core::InvalidName>(())
/// ```
pub fn prompt_id(group: &GroupId, job: &JobId, attempt: u32) -> String {
    let name = format!("{}/{attempt}", idempotency_key(group, job));
    Uuid::new_v5(&NAMESPACE, name.as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
