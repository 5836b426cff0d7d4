//! How a failure is reported: as a sentence, as a JSON object, and with a reader that does not
//! read.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::running::{Ended, fairlane};
use super::work::{WorkFolder, until};

/// Asserts that a failure with `--json` is one object on standard error, and nothing on standard
/// output.
fn failed_with_json(ended: &Ended, code: i32, words: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{}", ended.stderr);
    error_in(&ended.stderr, code, words);
}

fn error_in(stderr: &str, code: i32, words: &str) {
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let report: Value = serde_json::from_str(stderr).unwrap();
    assert_eq!(report["exit_code"], code, "{report}");
    assert!(report["error"].as_str().unwrap().contains(words), "{report}");
}

#[test]
fn with_json_every_command_reports_a_failure_as_one_object() {
    let folder = WorkFolder::new();
    let engine = folder.engine();
    let (nowhere, bad) = (folder.path("nowhere").display().to_string(), folder.config("[sever]\n"));
    fairlane(&["enqueue", "customer-7", "mail", "1", "--engine", &engine]);
    let cases: [(&[&str], i32, &str); 12] = [
        (&["status", "--engine", &nowhere], 2, "there is no directory"),
        (&["status", "--engine", "redis://127.0.0.1:1"], 1, "cannot be reached"),
        (&["job", "show", "customer-7", "b", "--engine", &engine], 2, "b"),
        (&["why", "customer-7", "b", "--engine", &engine], 2, "has no job b"),
        (&["enqueue", "customer-7", "mail", "{", "--engine", &engine], 2, "the payload is not JSON"),
        (&["enqueue", "--engine", &engine], 2, "required arguments"),
        (&["bulk", "show", "customer-7", "may", "--engine", &engine], 2, "may"),
        (&["key", "list", "--keys", &nowhere], 2, "there are no keys"),
        (&["config", "--config", &bad], 2, "did you mean `server`?"),
        (&["data", "check", &nowhere], 2, &nowhere),
        (&["demo", "--sizes", "5"], 2, "--sizes takes"),
        (&["work", "--config", &bad], 2, "did you mean `server`?"),
    ];
    for (words, code, message) in cases {
        failed_with_json(&fairlane(&[words, &["--json"]].concat()), code, message);
    }
    let text = fairlane(&["status", "--engine", &nowhere]);
    assert!(text.stderr.starts_with("error: there is no directory"), "{}", text.stderr);
}

#[test]
fn the_last_event_of_a_worker_that_cannot_start_contains_the_error() {
    let folder = WorkFolder::new();
    let config = folder.config("[types.mail]\ncommand = [\"cat\"]\n");
    let words = ["work", "--config", &config, "--engine", "redis://127.0.0.1:1", "--patience", "0s"];
    let ended = fairlane(&[&words[..], &["--json"]].concat());
    assert_eq!(ended.code, 1);
    error_in(&ended.stderr, 1, "cannot be reached");
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "stopped");
    assert!(last["error"].as_str().unwrap().contains("cannot be reached"), "{last}");
    fairlane(&words).failed(1, &["cannot be reached"]);
}

#[test]
fn the_exit_code_does_not_depend_on_a_reader_of_the_message() {
    let folder = WorkFolder::new();
    let nowhere = folder.path("nowhere").display().to_string();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(["status", "--engine", &nowhere])
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

/// The capacity of a pipe.
const PIPE_BYTES: usize = 65536;

#[test]
fn a_worker_whose_output_is_not_read_stops_on_a_signal() {
    let folder = WorkFolder::new();
    fairlane(&["enqueue", "customer-7", "mail", "1", "--engine", &folder.engine()]);
    let begun = folder.path("begun");
    let config = folder.config(&format!("[types.mail]\ncommand = [\"touch\", {begun:?}]\n"));
    for (json, word) in [(true, "--json"), (false, "--drain")] {
        let (_reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, &[b'\n'; PIPE_BYTES]).unwrap();
        let (stdout, stderr): (Stdio, Stdio) =
            if json { (writer.into(), Stdio::null()) } else { (Stdio::null(), writer.into()) };
        let mut program = Command::new(env!("CARGO_BIN_EXE_fairlane"))
            .args(["work", "--config", &config, "--engine", &folder.engine(), word])
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        if json {
            until("the job is done", || begun.exists());
            assert!(Command::new("kill").arg(program.id().to_string()).status().unwrap().success());
        }
        let mut ended = None;
        until("the worker exits", || {
            ended = program.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(0));
    }
}

/// What newcomers write, and the words of the message that name the cure.
#[test]
fn an_argument_that_does_not_exist_is_answered_with_the_one_that_does() {
    let cases: [(&[&str], &str); 10] = [
        (&["serve", "--port", "9000"], "tip: use --listen 127.0.0.1:9000\n"),
        (&["serve", "--port=9000"], "tip: use --listen 127.0.0.1:9000\n"),
        (&["serve", "--host", "0.0.0.0"], "tip: use --listen with an address and a port"),
        (
            &["enqueue", "customer-7", "mail", "--payload", "{}"],
            "tip: PAYLOAD is not an option: write its value in its place, fairlane enqueue GROUP TYPE PAYLOAD\n",
        ),
        (&["enqueue", "--group", "customer-7", "mail"], "tip: GROUP is not an option"),
        (&["job", "show", "--job", "a"], "fairlane job show GROUP JOB\n"),
        (&["job", "list", "--state", "dead"], "fairlane dead list"),
        (&["dead", "requeue", "customer-7", "a"], "fairlane job requeue GROUP JOB"),
        (&["status", "--redis", "redis://127.0.0.1:6379"], "tip: use --engine"),
        (&["room", "set", "concert", "--max-active", "many"], "tip: write a whole number"),
    ];
    for (words, cure) in cases {
        fairlane(words).failed(2, &[cure]);
    }
    let json = fairlane(&["serve", "--port", "9000", "--json"]);
    error_in(&json.stderr, 2, "--listen 127.0.0.1:9000");
}

#[test]
fn an_address_without_a_listener_is_one_sentence_and_its_cure() {
    let engine = |address: &str| fairlane(&["status", "--engine", address]).stderr;
    assert_eq!(
        engine("http://127.0.0.1:1"),
        "error: the server at http://127.0.0.1:1 cannot be reached: connection refused\nstart it (fairlane serve), or \
         select another queue with --engine, such as --engine ./data\n"
    );
    assert_eq!(
        engine("redis://127.0.0.1:1"),
        "error: redis at redis://127.0.0.1:1 cannot be reached: connection refused\nstart it (redis-server), or select \
         another queue with --engine, such as --engine ./data\n"
    );
    assert_eq!(
        engine("redis+cluster://127.0.0.1:1,127.0.0.1:2"),
        engine("redis://127.0.0.1:1")
            .replace("redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1,127.0.0.1:2")
    );
    let health = fairlane(&["health", "http://127.0.0.1:1"]).stderr;
    assert!(
        health.starts_with("error: http://127.0.0.1:1 is not ready: connection refused\nstart it"),
        "{health}"
    );
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_that_does_not_reply_is_named_without_its_password() {
    let ended = fairlane(&["outbox", "status", "--database", "postgres://app:secret@127.0.0.1:1/shop"]);
    ended.failed(1, &["PostgreSQL at postgres://127.0.0.1:1/shop does not reply", "FAIRLANE_DATABASE"]);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    let in_query = "postgres://127.0.0.1:1/shop?user=app&password=secret";
    let ended = fairlane(&["outbox", "status", "--database", in_query]);
    ended.failed(1, &["PostgreSQL at postgres://127.0.0.1:1/shop does not reply"]);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    let no_file = "postgres://127.0.0.1:1/shop?sslmode=verify-full&sslrootcert=/no/such.pem";
    let ended = fairlane(&["outbox", "status", "--database", no_file]);
    assert!(!ended.stderr.contains("secret") && ended.code == 1, "{}", ended.stderr);
}
