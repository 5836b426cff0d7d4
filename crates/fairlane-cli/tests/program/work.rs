//! `fairlane work`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlane_core::queue::{
    BulkRef, InspectJob, InspectQueue, JobRef, JobView, NewJob, OpenBulk, SealBulk, Settings,
};
use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use fairlane_engine::Engine;
use fairlane_testkit::comfyui::{ComfyUi, FILE, Generation};
use fairlane_testkit::program::Background;
use fairlane_testkit::receiver::{Receiver, response};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
pub use fairlane_testkit::wait::until_blocking as until;
use fairlane_worker::{BulkPlan, CallbackPlan};
use serde_json::Value;
use tempfile::TempDir;

use super::running::{Ended, PROGRAM, fairlane};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A temporary folder with a queue and a configuration file.
pub struct WorkFolder {
    folder: TempDir,
}

impl WorkFolder {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn engine(&self) -> String {
        format!("dir:{}", self.path("queue").display())
    }

    pub fn config(&self, text: &str) -> String {
        let path = self.path("work.toml");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn drain(&self, engine: &str, config: &str) -> Ended {
        fairlane(&["work", "--config", &self.config(config), "--engine", engine, "--drain", "--json"])
    }
}

/// Opens the queue at an address, calls a function with it, and closes it.
pub fn at<T>(url: &str, work: impl AsyncFnOnce(&Arc<dyn Engine>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = fairlane_engine::open(url, Settings::default()).await.unwrap();
        work(&engine).await
    })
}

fn new_job(type_name: &str, number: u32, bulk: Option<&BulkRef>) -> NewJob {
    NewJob {
        bulk: bulk.map(|bulk| bulk.id.clone()),
        ..NewJob::new(
            job(type_name, number),
            TypeId::new(type_name).unwrap(),
            format!("{{\"number\":{number}}}").into_bytes().into(),
        )
    }
}

fn job(type_name: &str, number: u32) -> JobRef {
    let id = JobId::new(format!("{type_name}-{number}")).unwrap();
    JobRef { group: GroupId::new("customer-A").unwrap(), id }
}

/// Enqueues jobs of a type.
pub fn fill(url: &str, type_name: &str, jobs: u32) {
    at(url, async |engine| {
        engine.enqueue_all((1..=jobs).map(|number| new_job(type_name, number, None))).await.unwrap();
    });
}

fn inspect(url: &str, job: JobRef) -> JobView {
    at(url, async |engine| engine.call(InspectJob { job }).await.unwrap().expect("the job exists"))
}

fn in_flight(url: &str) -> u64 {
    at(url, async |engine| engine.call(InspectQueue).await.unwrap().in_flight)
}

/// The JSON lines of a successful run, which must have printed nothing else.
pub fn lines(ended: &Ended) -> Vec<Value> {
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ok(body: &str) -> String {
    response("200 OK", &[], body)
}

#[test]
fn payloads_are_posted_and_responses_stored_on_every_engine() {
    let receiver =
        Receiver::handling(|request| std::future::ready(ok(&format!("{{\"got\":{}}}", request.text()))));
    let (folder, redis) = (WorkFolder::new(), RedisServer::start(ServerOptions::default()));
    for engine in [folder.engine(), redis.url()] {
        fill(&engine, "mail", 5);
        let url = receiver.url("/send");
        let config = format!(
            "[types.mail]\nhttp = \"{url}\"\nheaders = {{ x-path = \"${{PATH}}\" }}\nrate = \"1000/s\""
        );
        let lines = lines(&folder.drain(&engine, &config));
        assert_eq!(lines[0]["event"], "started");
        assert_eq!(lines[0]["types"][0]["type"], "mail");
        let last = lines.last().unwrap();
        assert_eq!(
            (&last["event"], &last["attempts"]["done"], &last["left"]),
            (&"stopped".into(), &5.into(), &0.into())
        );
        let view = inspect(&engine, job("mail", 3));
        assert_eq!((view.state.as_str(), &*view.note), ("completed", &b"{\"got\":{\"number\":3}}"[..]));
    }
    let received = receiver.requests_to("/send");
    assert_eq!(received.len(), 10);
    assert_eq!(received[0].header("x-path").map(str::to_owned), std::env::var("PATH").ok());
    assert_eq!(
        (received[0].header("fairlane-group"), received[0].header("fairlane-attempt")),
        (Some("customer-A"), Some("1"))
    );
}

#[test]
fn programs_receive_payloads_and_other_types_are_not_run() {
    let folder = WorkFolder::new();
    let engine = folder.engine();
    fill(&engine, "shrink", 3);
    fill(&engine, "broken", 1);
    fill(&engine, "foreign", 2);
    let config = r#"
        [types.shrink]
        command = ["sh", "-c", "printf '%s %s ' \"$FAIRLANE_JOB\" \"$OWN\"; cat"]
        environment = { OWN = "own" }
        [types.broken]
        command = ["sh", "-c", "echo no such customer >&2; exit 65"]
    "#;
    let lines = lines(&folder.drain(&engine, config));
    let problem = lines.iter().find(|line| line["event"] == "problem").unwrap();
    assert_eq!((&problem["code"], &problem["job"]), (&"exit_65".into(), &"customer-A/broken-1".into()));
    assert!(problem["reason"].as_str().unwrap().contains("no such customer"));
    assert_eq!(problem["dead"], true);
    let drained = lines.iter().find(|line| line["event"] == "drained").unwrap();
    assert_eq!((&drained["left"][0]["type"], &drained["left"][0]["jobs"]), (&"foreign".into(), &2.into()));
    assert_eq!(
        (drained["left"].as_array().unwrap().len(), &lines.last().unwrap()["drained"]),
        (1, &true.into())
    );
    let view = inspect(&engine, job("shrink", 2));
    assert_eq!((view.state.as_str(), &*view.note), ("completed", &b"shrink-2 own {\"number\":2}"[..]));
    assert_eq!(inspect(&engine, job("broken", 1)).state.as_str(), "dead");
    assert_eq!(inspect(&engine, job("foreign", 1)).state.as_str(), "pending");
}

#[test]
fn prompts_run_on_a_comfyui_engine_and_their_files_are_downloaded() {
    let (folder, comfyui) = (WorkFolder::new(), ComfyUi::start(Generation::New));
    let prompt = r#"{"prompt":{"3":{"class_type":"KSampler"},"9":{"class_type":"SaveImage"}}}"#;
    let job =
        |prompt: &str| NewJob::new(job("image", 1), TypeId::new("image").unwrap(), prompt.as_bytes().into());
    at(&folder.engine(), async |engine| drop(engine.enqueue_all([job(prompt)]).await.unwrap()));
    let saved = folder.path("images");
    let config = format!("[types.image]\ncomfyui = \"{}\"\ndownload_to = {saved:?}\n", comfyui.url());
    lines(&folder.drain(&folder.engine(), &config));
    let stored = inspect(&folder.engine(), job(prompt).job);
    let result: Value = serde_json::from_slice(&stored.note).unwrap();
    let path = Path::new(result["files"][0]["path"].as_str().unwrap());
    assert!(path.starts_with(&saved), "{result}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), FILE);
}

#[test]
fn throttling_slows_only_its_own_type() {
    const FAST: u32 = 40;
    let fast_done = Arc::new(AtomicU64::new(0));
    let counted = fast_done.clone();
    // The slow target throttles until all jobs of the fast one are done, so they cannot have waited
    // for it.
    let receiver = Receiver::handling(move |request| {
        let is_fast = request.path() == "/fast";
        counted.fetch_add(u64::from(is_fast), Ordering::SeqCst);
        let may_succeed = is_fast || counted.load(Ordering::SeqCst) >= u64::from(FAST);
        let throttled = || response("429 Too Many Requests", &["retry-after: 1"], "");
        std::future::ready(if may_succeed { ok("") } else { throttled() })
    });
    let folder = WorkFolder::new();
    let engine = folder.engine();
    fill(&engine, "slow", 10);
    fill(&engine, "fast", FAST);
    let config = format!(
        "[worker]\nworker_count = 4\n[types.slow]\nhttp = \"{}\"\n[types.fast]\nhttp = \"{}\"\nconcurrency = 2",
        receiver.url("/slow"),
        receiver.url("/fast")
    );
    let lines = lines(&folder.drain(&engine, &config));
    let attempts = &lines.last().unwrap()["attempts"];
    assert_eq!(
        (&attempts["done"], &attempts["failed"], &attempts["retry"]),
        (&50.into(), &0.into(), &0.into())
    );
    assert_eq!(fast_done.load(Ordering::SeqCst), u64::from(FAST), "no job ran twice");
    for number in 1..=FAST {
        assert_eq!(inspect(&engine, job("fast", number)).throttles, 0);
    }
    let throttles = receiver.requests_to("/slow").len() - 10;
    assert_eq!(attempts["throttled"], throttles);
    let throttled = lines.iter().find(|line| line["event"] == "throttled").unwrap();
    assert_eq!((&throttled["type"], &throttled["count"]), (&"slow".into(), &1.into()));
    assert_eq!(throttled["retry_after_ms"], 1000);
}

#[test]
fn the_callback_of_a_bulk_action_is_sent_signed() {
    let receiver = Receiver::responding(ok(""));
    let folder = WorkFolder::new();
    let engine = folder.engine();
    let bulk = BulkRef { group: GroupId::new("customer-A").unwrap(), id: BulkId::new("may").unwrap() };
    at(&engine, async |engine| {
        let callback = Some(CallbackPlan { url: receiver.url("/hook") });
        let payload = BulkPlan { callback, ..BulkPlan::default() }.to_bytes();
        let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
        engine.call(open).await.unwrap();
        engine.enqueue_all((1..=2).map(|number| new_job("echo", number, Some(&bulk)))).await.unwrap();
        engine.call(SealBulk { bulk: bulk.clone(), expected: Some(2) }).await.unwrap();
    });
    let config = format!(
        "[types.echo]\ncommand = [\"cat\"]\n[callbacks]\nsecrets = [\"{SECRET}\"]\nallow_hosts = [\"127.0.0.1\"]"
    );
    let lines = lines(&folder.drain(&engine, &config));
    assert_eq!(lines.last().unwrap()["attempts"]["done"], 3);
    let request = &receiver.requests_to("/hook")[0];
    assert!(request.header("webhook-signature").unwrap().starts_with("v1,"));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["type"], &body["data"]["succeeded"]), (&"bulk.completed".into(), &2.into()));
}

/// A running worker whose output goes to files.
pub struct Started(Background);

impl Started {
    fn new(folder: &WorkFolder, config: &str) -> Self {
        Self::at(&folder.engine(), folder, config)
    }

    pub fn at(engine: &str, folder: &WorkFolder, config: &str) -> Self {
        Self::with(&["--engine", engine], folder, config)
    }

    pub fn with(words: &[&str], folder: &WorkFolder, config: &str) -> Self {
        let config = folder.config(config);
        let words = [&["work", "--config", &config], words].concat();
        Self(Background::start(Path::new(PROGRAM), folder.folder.path(), &words))
    }

    pub fn terminate(&self) {
        self.0.signal("-TERM");
    }

    /// Waits until standard error contains these words.
    pub fn prints(&self, words: &str) {
        until(words, || self.0.stderr().contains(words));
    }

    pub fn ended(self) -> Ended {
        self.0.ended()
    }
}

/// A configuration with a program that creates `begun` and runs until `go` exists.
fn waiting_program(folder: &WorkFolder, worker: &str) -> String {
    let (begun, go) = (folder.path("begun").display().to_string(), folder.path("go").display().to_string());
    format!(
        "[worker]\n{worker}\n[types.wait]\ncommand = [\"sh\", \"-c\", \"echo $$ > {begun}; while [ ! -e {go} ]; do sleep 0.02; done; echo went\"]"
    )
}

#[test]
fn a_signal_waits_for_running_jobs_and_leaves_nothing_leased() {
    let folder = WorkFolder::new();
    fill(&folder.engine(), "wait", 3);
    let started = Started::new(&folder, &waiting_program(&folder, "worker_count = 1"));
    until("a job begins", || folder.path("begun").exists());
    started.terminate();
    started.prints("stopping with 1 job running");
    File::create(folder.path("go")).unwrap();
    let ended = started.ended();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.starts_with("stopped: 1 job ended while stopping, 0 handed back, 0 left;"),
        "{}",
        ended.stdout
    );
    assert_eq!(in_flight(&folder.engine()), 0);
    assert_eq!(inspect(&folder.engine(), job("wait", 1)).state.as_str(), "completed");
    assert_eq!(inspect(&folder.engine(), job("wait", 2)).state.as_str(), "pending");
}

#[test]
fn jobs_that_exceed_the_grace_period_are_handed_back() {
    let folder = WorkFolder::new();
    fill(&folder.engine(), "wait", 1);
    let started = Started::new(&folder, &waiting_program(&folder, "shutdown_grace_period_ms = 0"));
    until("a job begins", || folder.path("begun").exists());
    started.terminate();
    let ended = started.ended();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("1 handed back, 0 left;"), "{}", ended.stdout);
    assert_eq!(in_flight(&folder.engine()), 0);
    assert_eq!(inspect(&folder.engine(), job("wait", 1)).state.as_str(), "pending");
}

#[test]
fn a_second_signal_stops_at_once_and_reports_running_jobs() {
    let folder = WorkFolder::new();
    fill(&folder.engine(), "wait", 1);
    let started = Started::new(&folder, &waiting_program(&folder, ""));
    started.prints("is connected to dir:");
    until("a job begins", || folder.path("begun").exists());
    started.terminate();
    started.prints("stopping with 1 job running");
    started.terminate();
    let ended = started.ended();
    assert_eq!(ended.code, 130);
    assert!(ended.stderr.contains("stopped: left running: 1 job;"), "{}", ended.stderr);
    let status = format!("/proc/{}/stat", std::fs::read_to_string(folder.path("begun")).unwrap().trim());
    let is_gone = || std::fs::read_to_string(&status).map_or(true, |status| status.contains(") Z "));
    until("its program is killed", is_gone);
}

#[test]
fn a_file_can_be_checked_without_running_jobs() {
    let folder = WorkFolder::new();
    let config = folder.config(&format!(
        "engine = \"redis://127.0.0.1:1\"\n[types.mail]\nhttp = \"http://me:hunter2@mailer.example/hunter2\"\n\
         [callbacks]\nsecrets = [\"{SECRET}\"]"
    ));
    let ended = fairlane(&["work", "--config", &config, "--check"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    assert!(ended.stdout.contains("is valid: mail (http://mailer.example), fairlane-callback (callbacks)"));
    assert!(!ended.stdout.contains("hunter2"));
    assert!(ended.stdout.contains("the queue is at redis://127.0.0.1:1"), "{}", ended.stdout);
}

#[test]
fn an_error_in_a_file_names_its_line_and_the_valid_values() {
    let folder = WorkFolder::new();
    let http = "[types.mail]\nhttp = \"http://127.0.0.1/\"\n";
    let cases: &[(String, &[&str])] = &[
        ("".into(), &["no types are configured", "[types.NAME]"]),
        ("[worker]\nwroker_count = 5".into(), &["line 2", "wroker_count", "did you mean `worker_count`?"]),
        ("[typs.mail]".into(), &["line 1", "did you mean `types`?"]),
        ("[worker]\nworker_count = 0".into(), &["line 2", "worker_count is 0", "from 1 to"]),
        ("[worker]\nworker_count = \"many\"".into(), &["line 2", "worker_count must be a whole number\n"]),
        ("[worker]\nname = \"a\"\nlease_ms = 5".into(), &["line 3: lease_ms is 5; it must be from 100 to"]),
        (format!("{http}timeout_ms = 0"), &["line 3: timeout_ms is 0;"]),
        (format!("{http}max_retry_count = -1"), &["line 3: max_retry_count must be", "from 0 to 10000"]),
        (format!("{http}retry = 5"), &["line 3: retry must be a table", "base_ms = 1000"]),
        ("[types.mail]\ncommand = \"a\"".into(), &["line 2: command must be a list such as [\"a\", \"b\"]"]),
        ("[types.mail]".into(), &["line 1", "http = ", "command = ", "rate = "]),
        ("[types.mail]\nrate = \"5/s\"".into(), &["no types are configured", "http, command or comfyui"]),
        ("[types.mail]\nrate = \"5/s\"\nretry = {}".into(), &["line 3: retry is only for types with http"]),
        ("[groups.a]\nweight = 0".into(), &["line 1", "between 1 and 1000"]),
        ("[groups.a]\nwieght = 1".into(), &["line 2", "did you mean `weight`?"]),
        ("[server]\nlisten = 127.0.0.1:9000".into(), &["line 2", "listen = \"…\""]),
        ("[worker]\nworkers = 5".into(), &["line 2", "did you mean `worker_count`?"]),
        (format!("{http}command = [\"a\"]"), &["line 1", "has one target"]),
        (format!("{http}rate = \"fast\""), &["line 3: rate must be a rate", "50/s"]),
        (format!("{http}header = {{}}"), &["line 3", "did you mean `headers`?"]),
        (format!("{http}environment = {{}}"), &["environment is only for types with command"]),
        (format!("{http}allow_partial = true"), &["allow_partial is only for types with comfyui"]),
        ("[types.image]\ncomfyui = \"gpu\"".into(), &["comfyui:", "not a URL"]),
        (format!("{http}comfyui = \"http://gpu:8188\""), &["line 1", "has one target"]),
        (format!("{http}concurrency = 0"), &["concurrency is 0"]),
        (format!("{http}max_retry_count = 99999"), &["max_retry_count", "10000"]),
        (format!("{http}retry = {{ base_ms = 10, cap_ms = 1 }}"), &["base_ms is 10", "cap_ms"]),
        (
            format!("{http}headers = {{ authorization = \"hunter2 ${{NO_SUCH_VARIABLE}}\" }}"),
            &["line 3", "NO_SUCH_VARIABLE"],
        ),
        (format!("{http}headers = \"hunter2\""), &["line 3: headers must be a table such as {"]),
        (format!("{http}headers = {{ fairlane-job = \"hunter2\" }}"), &["fairlane-job", "set by the worker"]),
        ("[types.mail]\nhttp = \"ftp://hunter2/\"".into(), &["http:", "ftp:", "https://"]),
        ("[types.mail]\ncommand = []".into(), &["names no program"]),
        ("[types.fairlane-callback]\ncommand = [\"a\"]".into(), &["[callbacks]"]),
        ("[callbacks]\nsecrets = []".into(), &["line 1", "need a secret"]),
        ("[callbacks]\nsecrets = [\"hunter2\"]".into(), &["line 2", "number 1 of secrets", "whsec_"]),
        ("[callbacks]\nsecrets = \"hunter2\"".into(), &["line 2: secrets must be a list"]),
        ("[callbacks]".into(), &["line 1: [callbacks] needs secrets"]),
        ("[types.mail\n".into(), &["line 1"]),
    ];
    for (text, words) in cases {
        let ended = fairlane(&["work", "--config", &folder.config(text), "--engine", "memory:", "--check"]);
        ended.failed(2, words);
        assert!(ended.stderr.contains("work.toml") && !ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
    fairlane(&["work", "--config", "no-such-file.toml"]).failed(2, &["no-such-file.toml", "cannot be read"]);
    fairlane(&["work"]).failed(2, &["--config <FILE>"]);
    let config = folder.config(http);
    fairlane(&["work", "--config", &config, "--engine", "memory:"]).failed(2, &["in memory", "--engine"]);
}
