//! A command without a configured address tries the directory here, then a server on this machine,
//! and then Redis.

use std::path::Path;

use super::queue::Queue;
use super::running::{Ended, fairlane_in};
use super::served::Served;

/// Runs the program in a folder; a server started there would listen at `listen`.
fn run_in(folder: &Path, listen: &str, key: Option<&str>, words: &[&str]) -> Ended {
    let variables = [("FAIRLANE_SERVER_LISTEN", listen), ("FAIRLANE_KEY", key.unwrap_or_default())];
    fairlane_in(folder, &variables, words)
}

#[test]
fn a_command_in_an_empty_folder_finds_the_server_on_this_machine() {
    let served = Served::start();
    let listen = served.address.strip_prefix("http://").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let enqueued = run_in(folder.path(), listen, None, &["enqueue", "customer-7", "mail", "--json"]);
    assert_eq!(enqueued.json()["backlog"], 1);
    let status = run_in(folder.path(), listen, None, &["status", "--json"]).json();
    assert_eq!(
        (&status["backlog"], &status["engine"], &status["address"]),
        (&1.into(), &"http".into(), &served.address.as_str().into())
    );
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "no directory is created");
}

#[test]
fn a_local_directory_takes_precedence_over_a_server_on_this_machine() {
    let served = Served::start();
    let listen = served.address.strip_prefix("http://").unwrap();
    let queue = Queue::new();
    let here = queue.path("fairlane-data");
    super::running::fairlane(&["enqueue", "customer-7", "mail", "--json", "--engine", &here]).json();
    let folder = Path::new(&here).parent().unwrap();
    let status = run_in(folder, listen, None, &["status", "--json"]).json();
    assert_eq!((&status["backlog"], &status["engine"]), (&1.into(), &"embedded".into()));
    assert_eq!(status["address"], "./fairlane-data");
}
