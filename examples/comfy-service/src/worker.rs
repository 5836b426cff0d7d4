//! Runs prompts, and sends callbacks.

use std::time::Duration;

use fairlane::{Context, Fairlane, Outcome, Pool, RetryPolicy, TypeOptions};
use fairlane_postgres::Outbox;
use fairlane_targets::{CALLBACK_MAX_RETRY_COUNT, ComfyUi, InputFile, Prompt, Webhooks};
use fairlane_worker::{BoxFuture, Processor};

use crate::StartError;
use crate::files::Files;
use crate::options::Options;
use crate::services::BundleFile;
use crate::store::{CALLBACK_TYPE, PROMPT_TYPE, QueuedJob};

/// Delays between attempts at a prompt.
const RETRY: RetryPolicy = RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_secs(300) };

/// Gives callbacks more retries than other jobs, unless an operator has set their number.
pub async fn prepare(fairlane: &Fairlane) -> Result<(), fairlane::Error> {
    let callbacks = fairlane.job_type(CALLBACK_TYPE);
    let is_set = callbacks.view().await?.is_some_and(|view| view.settings.max_retry_count.is_some());
    if !is_set {
        callbacks.max_retry_count(CALLBACK_MAX_RETRY_COUNT).apply().await?;
    }
    Ok(())
}

/// Starts a worker of one engine. Its mirror writes the state of jobs to the database.
pub fn start(
    outbox: &Outbox,
    fairlane: &Fairlane,
    files: &Files,
    options: &Options,
) -> Result<Pool, StartError> {
    let prompts = Prompts { comfyui: ComfyUi::new(options.engine_settings()?)?, files: files.clone() };
    let callbacks = options.callbacks();
    let prompt_options = TypeOptions {
        concurrency: Some(usize::from(options.prompts)),
        timeout: Some(options.timeout),
        retry: Some(RETRY),
        ..TypeOptions::default()
    };
    let worker = fairlane
        .worker()
        .name(&options.name)
        .configure(|settings| {
            settings.worker_count = usize::from(options.prompts);
            settings.lease = options.lease;
            let reclaim = settings.loops.reclaim_interval.min(options.lease / 2);
            settings.loops.reclaim_interval = reclaim;
        })
        .processor_with(PROMPT_TYPE, prompt_options, prompts)
        .processor_with(CALLBACK_TYPE, callbacks.type_options(), Webhooks::new(callbacks)?);
    Ok(outbox.mirror(worker, fairlane).start()?)
}

/// Runs the bundle of each job.
struct Prompts {
    comfyui: ComfyUi,
    files: Files,
}

impl Prompts {
    async fn run(&self, job: &Context) -> Result<Outcome, Outcome> {
        let queued: QueuedJob = serde_json::from_slice(job.payload()).map_err(|error| {
            Outcome::failed("bad_job", format!("the payload is no job of this service: {error}"))
        })?;
        let bundle = queued.execution_bundle;
        let mut inputs = Vec::with_capacity(bundle.files.len());
        for file in bundle.files {
            inputs.push(self.read(file).await?);
        }
        let prompt = Prompt { prompt: bundle.template, extra_data: None, partial_execution_targets: None };
        Ok(self.comfyui.run_with(job, &prompt, &inputs).await)
    }

    async fn read(&self, file: BundleFile) -> Result<InputFile, Outcome> {
        let (files, sha256) = (self.files.clone(), file.sha256.clone());
        let read = tokio::task::spawn_blocking(move || files.read(&sha256)).await;
        let bytes = read.map_err(|error| Outcome::retry("input", error.to_string()))?.map_err(|error| {
            let message = format!(
                "the uploaded file {} cannot be used: {error}; the API and the workers must share --files",
                file.sha256
            );
            match error.kind() {
                std::io::ErrorKind::InvalidData => Outcome::failed("input_changed", message),
                _ => Outcome::retry("input_missing", message),
            }
        })?;
        Ok(InputFile { name: file.name, content_type: file.content_type, bytes })
    }
}

impl Processor for Prompts {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.run(&job).await.unwrap_or_else(|early| early) })
    }
}
