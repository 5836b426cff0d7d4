//! The examples in other languages, run against a real server.

use std::fs::{File, read_to_string};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fairlane::{BulkState, JobState};
use fairlane_core::queue::{Inspect, Inspected};
use fairlane_core::{BulkId, GroupId};

use crate::running::Running;

/// They take a few seconds, and longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs an example; it has to say itself that all is well.
async fn run(server: &Running, program: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http").join(file);
    let folder = tempfile::tempdir().unwrap();
    let [said, complained] = ["said", "complained"].map(|name| folder.path().join(name));
    let mut child = Command::new(program)
        .arg(path)
        .env("FAIRLANE_URL", server.url(""))
        .env_remove("FAIRLANE_KEY")
        .stdin(Stdio::null())
        .stdout(File::create(&said).unwrap())
        .stderr(File::create(&complained).unwrap())
        .spawn()
        .unwrap();
    let ending = async {
        loop {
            match child.try_wait().unwrap() {
                Some(status) => return status.success(),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let is_well = tokio::time::timeout(PATIENCE, ending).await.unwrap_or(false);
    let _ = child.kill();
    let said = read_to_string(said).unwrap();
    assert!(is_well, "{file}: {said}{}", read_to_string(complained).unwrap());
    said
}

/// What must be so behind an example, whatever it says.
async fn check(server: &Running, prefix: &str, said: &str) {
    let last = said.lines().last().unwrap();
    let id = last.split(':').next().unwrap();
    assert!(id.starts_with(prefix) && last.contains("COMPLETED, 10 of 10 succeeded"), "{said}");
    let group = GroupId::new("example").unwrap();
    let bulk = fairlane::BulkRef { group, id: BulkId::new(id).unwrap() };
    let Inspected::Bulk(Some(view)) = server.fairlane.engine().inspect(Inspect::Bulk(bulk)).await.unwrap()
    else {
        panic!("{id} is not there");
    };
    assert_eq!((view.state, view.total, view.succeeded), (BulkState::Completed, 10, 10));
    let job = async |name: &str| {
        let view = server.fairlane.job("example", format!("{id}-{name}")).view().await.unwrap().unwrap();
        assert_eq!(view.state, JobState::Completed, "{name}");
        (view.attempts, view.throttles, view.losses)
    };
    assert_eq!(job("busy").await, (1, 1, 0), "throttled once, which costs no attempt");
    assert_eq!(job("shaky").await, (2, 0, 0), "failed once");
    assert_eq!(job("slow").await, (1, 0, 0), "its lease was kept");
    assert_eq!(job("ada").await, (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_workers_in_shell_python_and_javascript_do_what_they_show() {
    let server = Running::start().await;
    let pool = server.fairlane.worker().start().unwrap();
    let (shell, python, javascript) = tokio::join!(
        run(&server, "sh", "worker.sh"),
        run(&server, "python3", "worker.py"),
        run(&server, "node", "worker.mjs"),
    );
    check(&server, "sh-", &shell).await;
    check(&server, "py-", &python).await;
    check(&server, "js-", &javascript).await;
    let whole = server.fairlane.whole().await.unwrap();
    assert_eq!((whole.backlog, whole.in_flight, whole.failed), (0, 0, 0));
    pool.stop().await;
}
