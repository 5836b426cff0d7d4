//! `fairlane key`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tempfile::TempDir;

use super::running::{Ended, fairlane, fairlane_in, has_keys};
use super::served::Served;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> String {
        self.0.path().join("keys.json").to_str().unwrap().to_owned()
    }

    fn run(&self, words: &[&str]) -> Ended {
        fairlane(&[&["key"], words, &["--keys", &self.file()]].concat())
    }

    fn json(&self, words: &[&str]) -> Value {
        self.run(&[words, &["--json"]].concat()).json()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }
}

#[test]
fn a_key_is_printed_once_and_only_its_hash_is_stored() {
    let folder = Folder::new();
    let made = folder.run(&["create", "--name", "import", "--role", "producer", "--group", "customer-7"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let key = made.stdout.strip_suffix('\n').expect("only the key is printed");
    let (id, secret) = (&key[4..12], &key[13..]);
    assert!(key.starts_with("flk_") && secret.len() == 43, "{key}");
    assert!(made.stderr.contains("printed once") && made.stderr.contains("first key in"), "{}", made.stderr);
    assert!(folder.text().contains(id) && !folder.text().contains(secret));
    let mode = std::fs::metadata(folder.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = folder.json(&["list"]);
    let shown = &listed["keys"][0];
    has_keys(
        shown,
        &["id", "name", "role", "groups", "rate", "state", "created_at", "expires_at", "revoked_at"],
    );
    assert_eq!((&shown["id"], &shown["state"]), (&id.into(), &"valid".into()));
    let table = folder.run(&["list"]).stdout;
    for word in [id, "import", "producer", "customer-7", "valid", "never"] {
        assert!(table.contains(word), "{word} is missing in {table}");
    }
    assert!(!table.contains(secret) && !listed.to_string().contains(secret));
}

#[test]
fn a_key_is_rotated_with_a_grace_period_and_revoked_permanently() {
    let folder = Folder::new();
    let made =
        folder.json(&["create", "--name", "w", "--role", "worker", "--rate", "100/s", "--expires", "90d"]);
    assert_eq!(made["rate"], "100/s burst 100");
    assert!(made["expires_at"].as_str() > made["created_at"].as_str());
    let id = made["id"].as_str().unwrap();
    let rotated = folder.json(&["rotate", id, "--grace", "1h"]);
    assert_ne!(made["key"], rotated["key"]);
    assert!(rotated["previous_valid_until"].is_string());
    let at_once = folder.run(&["rotate", id, "--grace", "0s"]);
    assert!(at_once.stderr.contains("no longer valid"), "{}{}", at_once.stdout, at_once.stderr);
    let revoked = folder.json(&["revoke", id]);
    assert_eq!(revoked["state"], "revoked");
    assert_eq!(folder.json(&["revoke", id])["revoked_at"], revoked["revoked_at"]);
    folder.run(&["rotate", id]).failed(2, &["is revoked or expired", "create another"]);
}

#[test]
fn invalid_input_is_rejected_with_the_valid_forms() {
    let folder = Folder::new();
    folder
        .run(&["list"])
        .failed(2, &["there are no keys at", "fairlane key create", &format!("--keys {}", folder.file())]);
    let bound = ["create", "--name", "n", "--group", "g", "--role"];
    folder
        .run(&[&bound[..], &["worker"]].concat())
        .failed(2, &["jobs of all groups", "a producer or a viewer"]);
    folder.run(&[&bound[..], &["admin"]].concat()).failed(2, &["the whole queue"]);
    folder
        .run(&["create", "--name", "n", "--role", "boss"])
        .failed(2, &["admin, producer, worker and viewer"]);
    folder.run(&["create", "--name", "", "--role", "admin"]).failed(2, &["1 to 128 visible characters"]);
    folder.run(&["create", "--name", "n", "--role", "admin", "--rate", "fast"]).failed(2, &["50/s"]);
    folder
        .run(&["create", "--name", "n", "--role", "admin", "--expires", "-5s"])
        .failed(2, &["30s, 5m, 2h, 1d"]);
    folder
        .run(&["create", "--name", "n", "--role", "admin", "--expires", "0s"])
        .failed(2, &["ends at once", "such as 90d"]);
    assert!(!std::path::Path::new(&folder.file()).exists());
    folder.run(&["revoke", "00000000"]).failed(2, &["there is no key 00000000", "key list"]);
    std::fs::write(folder.file(), "{}").unwrap();
    folder.run(&["list"]).failed(1, &["is not a valid file of keys", "repair it"]);
    std::fs::set_permissions(folder.file(), PermissionsExt::from_mode(0o666)).unwrap();
    folder.run(&["list"]).failed(1, &["others can write", "chmod 600"]);
}

#[test]
fn a_key_is_created_in_the_file_that_a_server_there_reads() {
    let create = ["key", "create", "--name", "me", "--role", "admin", "--json"];
    let file = "[types.mail]\ncommand = [\"cat\"]\n";
    let empty = [("FAIRLANE_KEYS", ""), ("FAIRLANE_ENGINE", "")];
    for (head, variables, keys) in [
        ("", &[][..], "fairlane-data/keys.json"),
        ("", &empty, "fairlane-data/keys.json"),
        ("engine = \"./queue\"\n", &[], "queue/keys.json"),
        ("engine = \"./queue\"\n[server]\nkeys = \"own.json\"\n", &empty, "own.json"),
        ("[server]\nkeys = \"own.json\"\n", &[("FAIRLANE_KEYS", "other.json")], "other.json"),
        ("engine = \"./queue\"\n", &[("FAIRLANE_ENGINE", "./elsewhere")], "elsewhere/keys.json"),
    ] {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("fairlane.toml"), format!("{head}{file}")).unwrap();
        fairlane_in(&folder, variables, &create).json();
        assert!(folder.path().join(keys).is_file(), "{head}{variables:?}");
        // A directory that contains only keys is not a queue.
        if head.is_empty() {
            let checked = fairlane_in(&folder, variables, &["work", "--check"]).stdout;
            assert!(checked.ends_with("the queue is at redis://127.0.0.1:6379\n"), "{checked}");
        }
        fairlane_in(&folder, variables, &["key", "list", "--json"]).json();
    }
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("fairlane.toml"), "engine = \"./queue\"\n").unwrap();
    fairlane_in(&folder, &[], &create).json();
    let served = Served::in_folder(folder, &[]);
    let serving = served.events().into_iter().find(|event| event["event"] == "serving").unwrap();
    assert!(serving["keys"]["keys"].as_str().unwrap().ends_with("queue/keys.json"), "{serving}");
}

#[test]
fn concurrent_edits_of_the_key_file_are_not_lost() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let folder = &folder;
            scope.spawn(move || folder.json(&["create", "--name", &number.to_string(), "--role", "viewer"]));
        }
    });
    assert_eq!(folder.json(&["list"])["keys"].as_array().unwrap().len(), 8);
}

#[test]
fn a_queue_in_memory_does_not_use_the_keys_of_another_queue() {
    let folder = TempDir::new().unwrap();
    fairlane_in(&folder, &[], &["key", "create", "--name", "me", "--role", "admin", "--json"]).json();
    assert!(folder.path().join("fairlane-data/keys.json").is_file());
    let served = Served::in_folder(folder, &["--engine", "memory:"]);
    let serving = served.events().into_iter().find(|event| event["event"] == "serving").unwrap();
    assert!(
        serving["keys"]["loopback"]["create"].as_str().unwrap().contains("--keys keys.json"),
        "{serving}"
    );
    assert_eq!(served.ask("GET", "/api/status", "").unwrap().0, 200);
}

#[test]
fn a_server_does_not_start_if_its_required_keys_are_gone() {
    let folder = TempDir::new().unwrap();
    let queue = folder.path().join("queue");
    let create = ["key", "create", "--name", "me", "--role", "admin", "--json", "--data", "queue"];
    fairlane_in(&folder, &[], &create).json();
    std::fs::remove_file(queue.join("keys.json")).unwrap();
    let (ended, folder) =
        Served::spawned(folder, &["--engine", "dir:queue", "--listen", "127.0.0.1:0"]).ended();
    ended.failed(2, &["queue/keys.json is gone", "restore it from a backup", "queue/keys.json.required"]);
    std::fs::remove_file(queue.join("keys.json.required")).unwrap();
    let served = Served::in_folder(folder, &["--engine", "dir:queue"]);
    assert_eq!(served.ask("GET", "/api/status", "").unwrap().0, 200);
}
