//! Runs the commands of docs/backup.md.

use std::path::Path;
use std::process::Command;

use super::queue::Queue;
use super::running::fairlane;

/// The commands in the shell blocks.
fn commands() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backup.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn the_documented_commands_restore_a_queue() {
    let queue = Queue::new();
    let live = queue.path("fairlane-data");
    fairlane(&["enqueue", "customer-7", "mail", "--id", "a", "--json", "--engine", &live]).json();
    let folder = Path::new(&live).parent().unwrap();
    let commands = commands();
    assert_eq!(commands.len(), 3);
    for command in &commands {
        let mut words = command.split(' ');
        assert_eq!(words.next(), Some("fairlane"), "{command}");
        let program = env!("CARGO_BIN_EXE_fairlane");
        let output = Command::new(program).args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let restored = queue.path("restored");
    let shown = fairlane(&["job", "show", "customer-7", "a", "--json", "--engine", &restored]).json();
    assert_eq!(shown["state"], "pending");
}

#[test]
fn a_copy_of_the_file_by_sqlite_contains_the_queue() {
    let queue = Queue::new();
    let live = queue.path("live");
    fairlane(&["enqueue", "customer-7", "mail", "--id", "a", "--json", "--engine", &live]).json();
    let copy = Path::new(&queue.path("copy")).to_owned();
    std::fs::create_dir(&copy).unwrap();
    let connection = rusqlite::Connection::open(Path::new(&live).join("fairlane.db")).unwrap();
    let file = copy.join("fairlane.db");
    connection.execute("VACUUM INTO ?1", [file.to_str().unwrap()]).unwrap();
    drop(connection);
    let copy = copy.to_str().unwrap();
    assert_eq!(fairlane(&["data", "check", copy]).code, 0);
    assert_eq!(fairlane(&["status", "--json", "--engine", copy]).json()["backlog"], 1);
}
