use std::sync::Arc;

use fairlane_core::queue::{CancelJob, Enqueue, JobRef, NewJob};
use fairlane_core::{GroupId, JobId, TypeId};
use fairlane_engine::Engine;
use fairlane_testkit::comfyui::{ComfyUi as StandIn, FILE, Generation};
use fairlane_testkit::wait::{WAIT_LIMIT, until};
use fairlane_worker::{Event, Pool, RetryPolicy, TypeOptions, Worker, WorkerSettings};
use serde_json::json;
use tokio::sync::mpsc;

use super::*;

const BOTH: [Generation; 2] = [Generation::Old, Generation::New];

/// A worker of a queue in memory that runs prompts on a stand-in for ComfyUI.
struct Running {
    stand_in: StandIn,
    engine: Arc<dyn Engine>,
    events: mpsc::UnboundedReceiver<Event>,
    pool: Pool,
}

fn settings(stand_in: &StandIn) -> ComfyUiSettings {
    ComfyUiSettings {
        poll_interval: Duration::from_millis(20),
        forgotten_after: Duration::from_millis(40),
        ..ComfyUiSettings::new(stand_in.url())
    }
}

impl Running {
    async fn start(generation: Generation) -> Self {
        Self::start_with(generation, |_| {}).await
    }

    async fn start_with(generation: Generation, change: impl FnOnce(&mut ComfyUiSettings)) -> Self {
        let stand_in = StandIn::start(generation);
        let engine = fairlane_engine::open("memory:", Default::default()).await.unwrap();
        let mut settings = settings(&stand_in);
        change(&mut settings);
        let (events, pool) = start_worker(&engine, settings);
        Self { stand_in, engine, events, pool }
    }

    async fn enqueue(&self, id: &str, payload: Value) {
        let payload = payload.to_string().into_bytes().into();
        let job = NewJob::new(job(id), TypeId::new("image").unwrap(), payload);
        self.engine.call(Enqueue { jobs: vec![job] }).await.unwrap();
    }

    /// The outcome of the next attempt that is settled.
    async fn outcome(&mut self) -> Outcome {
        let settled = async {
            loop {
                if let Event::Settled { outcome, .. } = self.events.recv().await.unwrap() {
                    return outcome;
                }
            }
        };
        tokio::time::timeout(WAIT_LIMIT, settled).await.expect("an outcome in time")
    }

    /// The outcome of a prompt with these classes of nodes.
    async fn outcome_of(&mut self, classes: &[&str]) -> Outcome {
        self.enqueue("job", prompt(classes)).await;
        self.outcome().await
    }

    /// Waits until the engine has this many prompts.
    async fn queued(&self, count: usize) {
        until("the prompt is submitted", || self.stand_in.queued() == count).await;
    }
}

fn start_worker(
    engine: &Arc<dyn Engine>,
    settings: ComfyUiSettings,
) -> (mpsc::UnboundedReceiver<Event>, Pool) {
    let (sender, events) = mpsc::unbounded_channel();
    let retry = RetryPolicy { base: Duration::from_millis(1), cap: Duration::from_millis(1) };
    let options = TypeOptions { retry: Some(retry), ..TypeOptions::default() };
    let lease = Duration::from_millis(300);
    let pool = Worker::new(engine.clone())
        .settings(WorkerSettings { lease, shutdown_grace_period: lease, ..WorkerSettings::default() })
        .processor_with("image", options, ComfyUi::new(settings).unwrap())
        .on_event(move |event| drop(sender.send(event.clone())))
        .start()
        .unwrap();
    (events, pool)
}

fn job(id: &str) -> JobRef {
    JobRef { group: GroupId::new("customer").unwrap(), id: JobId::new(id).unwrap() }
}

fn prompt(classes: &[&str]) -> Value {
    let nodes = classes.iter().enumerate();
    let nodes: Map<String, Value> =
        nodes.map(|(id, class)| (id.to_string(), json!({"class_type": class, "inputs": {}}))).collect();
    json!({"prompt": nodes})
}

fn result(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Done { result } => serde_json::from_slice(result).unwrap(),
        other => panic!("not done: {other:?}"),
    }
}

/// The code of a failure or a retry.
fn code(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Failed(problem) | Outcome::Retry { problem, .. } | Outcome::Cancelled(problem) => {
            &problem.code
        }
        other => panic!("no problem: {other:?}"),
    }
}

#[tokio::test]
async fn a_prompt_runs_once_and_its_files_are_the_result() {
    for generation in BOTH {
        let mut running = Running::start(generation).await;
        let result = result(&running.outcome_of(&["KSampler", "SaveImage"]).await);
        let file = &result["files"][0];
        assert_eq!((&file["node"], &file["filename"]), (&json!("1"), &json!("1_1.png")), "{result}");
        let url = format!("{}/api/view?filename=1_1.png&subfolder=&type=output", running.stand_in.url());
        assert_eq!(file["url"], url);
        let id = result["prompt_id"].as_str().unwrap();
        assert_eq!(running.stand_in.runs(), [(id.to_owned(), 1)].into(), "{generation:?}");
        running.pool.stop().await;
    }
}

#[tokio::test]
async fn progress_counts_the_nodes_that_have_run() {
    let mut running = Running::start(Generation::New).await;
    running.stand_in.hold(true);
    running.enqueue("job", prompt(&["KSampler", "SaveImage"])).await;
    running.queued(1).await;
    until("the socket is open", || running.stand_in.listeners() == 1).await;
    running.stand_in.allow_nodes(1);
    let mut seen = Vec::new();
    while seen.last() != Some(&(100, 200)) {
        let event = tokio::time::timeout(WAIT_LIMIT, running.events.recv()).await;
        if let Event::Progress { done, total, .. } = event.expect("an event in time").unwrap() {
            seen.push((done, total));
        }
    }
    assert_eq!(seen, [(50, 200), (100, 200)]);
    running.stand_in.hold(false);
    result(&running.outcome().await);
    running.pool.stop().await;
}

/// Erratum Q42.
#[tokio::test]
async fn a_worker_finds_the_prompt_that_another_has_submitted() {
    for generation in BOTH {
        let mut running = Running::start(generation).await;
        running.stand_in.hold(true);
        running.enqueue("job", prompt(&["SaveImage"])).await;
        running.queued(1).await;
        // The first worker hands the job back without stopping the prompt.
        running.pool.stop().await;
        let (events, pool) = start_worker(&running.engine, settings(&running.stand_in));
        (running.events, running.pool) = (events, pool);
        let looks = |stand_in: &StandIn| {
            let is_look = |path: &str| path.contains("/jobs/") || path.ends_with("/queue");
            stand_in.requests().iter().filter(|request| is_look(request.path())).count()
        };
        let before = looks(&running.stand_in);
        until("the other worker looks", || looks(&running.stand_in) > before).await;
        running.stand_in.hold(false);
        result(&running.outcome().await);
        assert_eq!(running.stand_in.runs().into_values().collect::<Vec<_>>(), [1], "{generation:?}");
        running.pool.stop().await;
    }
}

/// Erratum Q42.
#[tokio::test]
async fn a_prompt_that_the_engine_has_forgotten_is_submitted_again() {
    for generation in BOTH {
        let mut running = Running::start(generation).await;
        running.stand_in.hold(true);
        running.enqueue("job", prompt(&["SaveImage"])).await;
        running.queued(1).await;
        running.stand_in.forget();
        running.queued(1).await;
        running.stand_in.hold(false);
        result(&running.outcome().await);
        assert_eq!(running.stand_in.runs().into_values().collect::<Vec<_>>(), [2], "{generation:?}");
        running.pool.stop().await;
    }
}

/// Erratum Q42.
#[tokio::test]
async fn a_submission_whose_response_is_late_is_not_repeated() {
    let timeout = Duration::from_millis(50);
    let mut running = Running::start_with(Generation::New, |settings| settings.timeout = timeout).await;
    running.stand_in.delay_submissions(Duration::from_secs(3600));
    result(&running.outcome_of(&["SaveImage"]).await);
    assert_eq!(running.stand_in.runs().into_values().collect::<Vec<_>>(), [1]);
    running.pool.stop().await;
}

#[tokio::test]
async fn a_prompt_ends_without_any_event() {
    let mut running = Running::start(Generation::New).await;
    running.stand_in.set_silent(true);
    result(&running.outcome_of(&["SaveImage"]).await);
    running.pool.stop().await;
}

#[tokio::test]
async fn a_prompt_with_invalid_outputs_fails_unless_partial_results_are_allowed() {
    for generation in BOTH {
        let mut running = Running::start(generation).await;
        running.stand_in.hold(true);
        let outcome = running.outcome_of(&["SaveImage", "Invalid"]).await;
        assert_eq!(code(&outcome), "node_errors", "{outcome:?}");
        running.stand_in.hold(false);
        until("the rest is cancelled", || running.stand_in.queued() == 0).await;
        running.pool.stop().await;
    }
    let mut running = Running::start_with(Generation::New, |settings| settings.allow_partial = true).await;
    result(&running.outcome_of(&["SaveImage", "Invalid"]).await);
    running.pool.stop().await;
}

#[tokio::test]
async fn faulty_prompts_and_nodes_fail_with_the_reason_of_the_engine() {
    let mut running = Running::start(Generation::New).await;
    for (id, payload, expected) in [
        ("missing", prompt(&["Missing"]), "missing_node_type"),
        ("node", prompt(&["Fail"]), "node_failed"),
        ("empty", json!({"workflow": {}}), "bad_prompt"),
    ] {
        running.enqueue(id, payload).await;
        let outcome = running.outcome().await;
        assert_eq!(code(&outcome), expected);
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    running.pool.stop().await;
}

#[tokio::test]
async fn too_little_memory_is_retried_after_memory_was_freed() {
    let mut running = Running::start(Generation::New).await;
    assert_eq!(code(&running.outcome_of(&["OutOfMemory", "SaveImage"]).await), "out_of_memory");
    result(&running.outcome().await);
    assert_eq!(running.stand_in.freed(), 1);
    assert_eq!(running.stand_in.runs().len(), 2, "each attempt has a prompt of its own");
    running.pool.stop().await;
}

#[tokio::test]
async fn a_cancelled_job_is_stopped_on_the_engine() {
    for generation in BOTH {
        let mut running = Running::start(generation).await;
        running.stand_in.hold(true);
        running.enqueue("job", prompt(&["SaveImage"])).await;
        running.queued(1).await;
        running.engine.call(CancelJob { jobs: vec![job("job")] }).await.unwrap();
        assert_eq!(code(&running.outcome().await), "cancelled");
        until("the engine has stopped it", || running.stand_in.queued() == 0).await;
        running.pool.stop().await;
    }
}

#[tokio::test]
async fn files_are_downloaded_into_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let outputs = OutputMode::Download(directory.path().to_owned());
    let mut running = Running::start_with(Generation::New, |settings| settings.outputs = outputs).await;
    let result = result(&running.outcome_of(&["SaveImage"]).await);
    let path = result["files"][0]["path"].as_str().unwrap();
    assert!(path.starts_with(directory.path().to_str().unwrap()), "{path}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), FILE);
    running.pool.stop().await;
}

#[tokio::test]
async fn input_files_are_stored_on_the_engine_byte_for_byte() {
    let stand_in = StandIn::start(Generation::New);
    let comfyui = ComfyUi::new(settings(&stand_in)).unwrap();
    let bytes = b"\x89PNG\r\n--\xff".to_vec();
    let file = |name: &str| InputFile {
        name: name.to_owned(),
        content_type: "image/png".to_owned(),
        bytes: bytes.clone(),
    };
    comfyui.api.upload(&file("face.png")).await.unwrap();
    assert_eq!(stand_in.uploads(), [("face.png".to_owned(), bytes.clone())].into());
    let refused = comfyui.api.upload(&file("a\"b.png")).await.unwrap_err();
    assert_eq!(code(&refused), "bad_input_name");
}

#[test]
fn settings_that_cannot_work_are_refused_and_secrets_are_not_shown() {
    for (url, word) in [("ftp://gpu", "http://"), ("gpu:8188", "not supported")] {
        let refused = ComfyUi::new(ComfyUiSettings::new(url)).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    }
    let headers = vec![("X-API-Key".to_owned(), "s3cret".to_owned())];
    let settings = ComfyUiSettings { headers, ..ComfyUiSettings::new("http://user:s3cret@gpu:8188/base") };
    assert!(!format!("{:?}", ComfyUi::new(settings).unwrap()).contains("s3cret"));
}
