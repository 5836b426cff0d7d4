//! Workers in three languages beside each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use comfy_service::options::Options;
use comfy_service::role::{self, Queue, Roles};
use fairlane::{GroupId, JobId};
use fairlane_server::{Server, ServerSettings};
use fairlane_targets::prompt_id;
use fairlane_testkit::process::Process;
use fairlane_testkit::wait::until;

use crate::support::{Service, verified};

/// Jobs that the three workers share.
const JOBS: usize = 9;

/// A worker in another language, which knows the server, the engine and the files, and no database.
fn script(name: &str, server: &str, service: &Service) -> Process {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workers").join(name);
    let mut command = Command::new(path);
    command.env("FAIRLANE_ENGINE", server).env_remove("FAIRLANE_KEY");
    command.env("COMFY_URL", service.stand_in.url()).env("COMFY_FILES", service.files());
    command.env_remove("no_proxy").env("http_proxy", "http://127.0.0.1:1");
    Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()))
}

/// Erratum Q42. All workers derive the same ids of prompts, so that each finds those of the others.
#[tokio::test(flavor = "multi_thread")]
async fn workers_in_rust_python_and_javascript_share_the_jobs_and_each_job_runs_once() {
    let service = Service::start_with(Roles { worker: false, ..Roles::ALL }, &[]).await;
    let any_port = ([127, 0, 0, 1], 0).into();
    let server = Server::start(service.fairlane.clone(), any_port, None, ServerSettings::default());
    let server = server.await.unwrap();
    let url = format!("http://{}", server.address());
    // Each worker has one job at a time, and no prompt ends before each of them has submitted one.
    service.stand_in.hold(true);
    let mut ids = Vec::new();
    for _ in 0..JOBS {
        ids.push(service.portrait().await);
    }
    let options = Options { prompts: 1, ..service.options.clone() };
    let rust = role::start_on(Queue::at(&url), Roles::WORKER, &options).await.unwrap();
    let _scripts = ["worker.py", "worker.mjs"].map(|name| script(name, &url, &service));
    until("each worker has submitted a prompt", || service.stand_in.queued() == 3).await;
    service.stand_in.hold(false);
    let mut expected = BTreeSet::new();
    for id in &ids {
        let job = service.until(*id, "succeeded").await;
        assert_eq!(
            (&job["retry_count"], &job["result"]["files"][0]["node"]),
            (&0.into(), &"8".into()),
            "{job}"
        );
        let queue_id = service.row(*id).await["queue_id"].as_str().unwrap().to_owned();
        let names = (GroupId::new("default").unwrap(), JobId::new(&queue_id).unwrap());
        expected.insert(prompt_id(&names.0, &names.1, 1));
    }
    let runs: BTreeMap<String, usize> = service.stand_in.runs().into_iter().collect();
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    assert_eq!(runs.into_keys().collect::<BTreeSet<_>>(), expected);
    let mut submitted = BTreeMap::<&str, usize>::new();
    for request in service.stand_in.requests().iter().filter(|request| request.path() == "/api/prompt") {
        let agent = request.header("user-agent").unwrap_or_default();
        let worker = ["Python", "node", "fairlane"].into_iter().find(|name| agent.starts_with(name));
        *submitted.entry(worker.unwrap_or("another")).or_default() += 1;
    }
    assert_eq!(
        submitted.keys().copied().collect::<Vec<_>>(),
        ["Python", "fairlane", "node"],
        "{submitted:?}"
    );
    assert_eq!(submitted.values().sum::<usize>(), JOBS);
    let ids: BTreeSet<i64> = ids.into_iter().collect();
    let callbacks = service.callbacks(JOBS).await;
    let reported: BTreeSet<i64> =
        callbacks.iter().map(|callback| verified(callback)["data"]["job_id"].as_i64().unwrap()).collect();
    assert_eq!(reported, ids);
    rust.stop().await;
    server.stop().await;
    service.stop().await;
}
