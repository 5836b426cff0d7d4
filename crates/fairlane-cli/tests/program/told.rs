//! How a failure is told: to people in a sentence, to programs as an object, and to nobody if nobody reads.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::running::{Ended, fairlane};
use super::work::{Place, until};

/// With `--json` a failure is one object on standard error, and nothing on standard output.
fn told(ended: &Ended, code: i32, words: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{}", ended.stderr);
    error_in(&ended.stderr, code, words);
}

fn error_in(stderr: &str, code: i32, words: &str) {
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let told: Value = serde_json::from_str(stderr).unwrap();
    assert_eq!(told["exit_code"], code, "{told}");
    assert!(told["error"].as_str().unwrap().contains(words), "{told}");
}

#[test]
fn programs_are_told_of_a_failure_in_one_object_whatever_the_command() {
    let place = Place::new();
    let engine = place.engine();
    let (nowhere, bad) = (place.path("nowhere").display().to_string(), place.config("[sever]\n"));
    fairlane(&["enqueue", "customer-7", "mail", "1", "--engine", &engine]);
    let lines: [(&[&str], i32, &str); 12] = [
        (&["status", "--engine", &nowhere], 2, "there is no directory"),
        (&["status", "--engine", "redis://127.0.0.1:1"], 1, "cannot be reached"),
        (&["job", "show", "customer-7", "b", "--engine", &engine], 2, "b"),
        (&["why", "customer-7", "b", "--engine", &engine], 2, "has no job b"),
        (&["enqueue", "customer-7", "mail", "{", "--engine", &engine], 2, "the payload is no JSON"),
        (&["enqueue", "--engine", &engine], 2, "required arguments"),
        (&["bulk", "show", "customer-7", "may", "--engine", &engine], 2, "may"),
        (&["key", "list", "--keys", &nowhere], 2, "there are no keys"),
        (&["config", "--config", &bad], 2, "did you mean `server`?"),
        (&["data", "check", &nowhere], 2, &nowhere),
        (&["demo", "--sizes", "5"], 2, "--sizes takes"),
        (&["work", "--config", &bad], 2, "did you mean `server`?"),
    ];
    for (words, code, said) in lines {
        told(&fairlane(&[words, &["--json"]].concat()), code, said);
    }
    let people = fairlane(&["status", "--engine", &nowhere]);
    assert!(people.stderr.starts_with("error: there is no directory"), "{}", people.stderr);
}

#[test]
fn a_worker_that_cannot_begin_says_last_that_it_stopped_and_why() {
    let place = Place::new();
    let config = place.config("[types.mail]\ncommand = [\"cat\"]\n");
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
fn a_code_is_the_same_when_nobody_reads_what_went_wrong() {
    let place = Place::new();
    let nowhere = place.path("nowhere").display().to_string();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(["status", "--engine", &nowhere])
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

/// As much as a pipe takes before it has to be read.
const PIPE_BYTES: usize = 65536;

#[test]
fn a_worker_whose_words_nobody_reads_ends_when_it_is_told() {
    let place = Place::new();
    fairlane(&["enqueue", "customer-7", "mail", "1", "--engine", &place.engine()]);
    let begun = place.path("begun");
    let config = place.config(&format!("[types.mail]\ncommand = [\"touch\", {begun:?}]\n"));
    for (json, word) in [(true, "--json"), (false, "--drain")] {
        let (_reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, &[b'\n'; PIPE_BYTES]).unwrap();
        let (stdout, stderr): (Stdio, Stdio) =
            if json { (writer.into(), Stdio::null()) } else { (Stdio::null(), writer.into()) };
        let mut program = Command::new(env!("CARGO_BIN_EXE_fairlane"))
            .args(["work", "--config", &config, "--engine", &place.engine(), word])
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        if json {
            until("the job is done", || begun.exists());
            assert!(Command::new("kill").arg(program.id().to_string()).status().unwrap().success());
        }
        let mut ended = None;
        until("it ends", || {
            ended = program.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(0));
    }
}
