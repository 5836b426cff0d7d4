//! `fairlane bulk`.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fairlane_testkit::process::Process;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::queue::Queue;
use super::running::{Ended, PROGRAM, fairlane, has_keys};
use super::work::until;

/// Jobs as lines of JSON.
pub fn lines(jobs: u32) -> String {
    (1..=jobs).map(|number| format!("{{\"payload\": {number}}}\n")).collect()
}

pub const NEWS: [&str; 2] = ["customer-7", "news"];

pub fn load<'a>(file: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["bulk", "load", NEWS[0], NEWS[1], file, "--type", "mail"], options].concat()
}

#[test]
fn a_file_is_loaded_and_sealed_and_loading_it_again_is_idempotent() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(450));
    let loaded = queue.run(&load(&file, &["--deadline", "2h", "--failures-max", "9"]));
    assert_eq!((loaded.code, loaded.stderr.as_str()), (0, ""));
    assert!(loaded.stdout.starts_with("news: 450 jobs (450 new, 0 existing), sealed"), "{}", loaded.stdout);
    let again = queue.json(&load(&file, &[]));
    has_keys(&again, &["group", "id", "jobs", "created", "existing", "sealed", "elapsed_ms"]);
    assert_eq!((&again["created"], &again["existing"]), (&0.into(), &450.into()));
    let shown = queue.json(&["bulk", "show", NEWS[0], NEWS[1]]);
    assert_eq!(
        (&shown["total"], &shown["sealed"], &shown["failures_max"]),
        (&450.into(), &true.into(), &9.into())
    );
    assert!(shown["deadline"].is_string());
}

#[test]
fn payload_lines_can_be_loaded_into_a_bulk_action_that_stays_open() {
    let queue = Queue::new();
    let file = queue.file("ids.txt", "1\n2\n\n3\n");
    let first = queue.json(&load(&file, &["--payload-lines", "--no-seal"]));
    assert_eq!((&first["jobs"], &first["sealed"]), (&3.into(), &false.into()));
    let longer = queue.file("ids.txt", "1\n2\n\n3\n4\n");
    let second = queue.json(&load(&longer, &["--payload-lines", "--skip", "3"]));
    assert_eq!(
        (&second["jobs"], &second["created"], &second["sealed"]),
        (&4.into(), &1.into(), &true.into())
    );
    queue.work_off(NEWS[0], NEWS[1]);
    let exported = queue.run(&["bulk", "export", NEWS[0], NEWS[1]]);
    assert_eq!(exported.stdout.lines().count(), 4, "{}", exported.stderr);
}

#[test]
fn an_invalid_line_of_a_file_or_at_the_beginning_of_a_pipe_leaves_nothing_behind() {
    let queue = Queue::new();
    for (text, words) in [
        ("{\"payload\": 1}\n{\"paylod\": 2}\n", ["line 2:", "is \"payload\" meant?"]),
        ("{\"payload\": 1}\n\n{\"payload\": 1, \"cost\": 0}\n", ["line 3:", "a cost must be between"]),
    ] {
        let words = [&words[..], &["nothing was loaded or opened"]].concat();
        queue.run(&load(&queue.file("wrong.ndjson", text), &[])).failed(2, &words);
        load_through_pipe(&queue, text, &[]).failed(2, &words);
    }
    let late = queue.file("late.ndjson", &(lines(2050) + "[]\n"));
    queue.run(&load(&late, &[])).failed(2, &["line 2051:", "nothing was loaded or opened"]);
    assert!(!std::path::Path::new(&queue.path("queue")).exists());
}

#[test]
fn a_late_invalid_line_of_a_pipe_is_reported_with_how_to_continue() {
    let queue = Queue::new();
    let words =
        ["line 2051:", "loaded 2,000 jobs into", "stays open", "run the same command again", "--skip 2000"];
    load_through_pipe(&queue, &(lines(2050) + "[]\n"), &[]).failed(2, &words);
    let file = queue.file("right.ndjson", &lines(2050));
    let loaded = queue.json(&load(&file, &["--skip", "2000"]));
    assert_eq!((&loaded["jobs"], &loaded["created"]), (&2050.into(), &50.into()));
    let short = ["the source has only 2,050 jobs", "--skip is 2,051", "nothing was loaded"];
    queue.run(&load(&file, &["--skip", "2051"])).failed(2, &short);
}

/// Loads lines from a pipe that has a path: it can be read once, and a repeated load can skip jobs.
pub fn load_through_pipe(queue: &Queue, text: &str, options: &[&str]) -> Ended {
    let url = queue.url();
    let words = [&load("/dev/stdin", options)[..], &["--engine", &url]].concat();
    let pipes = || Stdio::piped();
    let mut program = Command::new(env!("CARGO_BIN_EXE_fairlane"));
    let mut loading = program.args(words).stdin(pipes()).stdout(pipes()).stderr(pipes()).spawn().unwrap();
    // The program may reject the source before it has read all of it.
    let _ = loading.stdin.take().unwrap().write_all(text.as_bytes());
    let output = loading.wait_with_output().unwrap();
    Ended {
        code: output.status.code().expect("the program exits without a signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn invalid_input_is_rejected_before_anything_is_opened() {
    let queue = Queue::new();
    queue.run(&load("/nowhere/news.ndjson", &[])).failed(2, &["/nowhere/news.ndjson cannot be read"]);
    queue.run(&load(&queue.path(""), &[])).failed(2, &["is a directory"]);
    let file = queue.file("news.ndjson", "x\n");
    let untyped = ["bulk", "load", "customer-7", "news", &file, "--payload-lines"];
    queue.run(&untyped).failed(2, &["--type <TYPE>"]);
    queue.run(&load(&file, &["--deadline", "tomorrow"])).failed(2, &["1h30m"]);
    assert!(!std::path::Path::new(&queue.path("queue")).exists());
}

#[test]
fn a_duplicate_id_leaves_the_bulk_action_open() {
    let queue = Queue::new();
    let other = queue.file("other.ndjson", "{\"id\":\"a\",\"payload\":1}\n{\"id\":\"a\",\"payload\":2}\n");
    queue.run(&load(&other, &[])).failed(2, &["with another payload", "  a: lines 1 and 2", "stays open"]);
    let file = queue.file("twice.ndjson", "{\"id\":\"a\",\"payload\":1}\n{\"id\":\"a\",\"payload\":1}\n");
    let exact = format!("\n  fairlane bulk seal customer-7 news --expected 1 --engine {}", queue.url());
    queue.run(&load(&file, &[])).failed(2, &["has 1 job and stays open", "  a: lines 1 and 2", &exact]);
    let sealed = queue.json(&["bulk", "seal", NEWS[0], NEWS[1], "--expected", "1"]);
    assert_eq!(sealed["sealed"], true);
}

#[test]
fn a_bulk_action_is_shown_listed_held_resumed_and_cancelled() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(3));
    queue.json(&load(&file, &[]));
    let state = |action: &str| queue.json(&["bulk", action, NEWS[0], NEWS[1]]);
    assert_eq!(state("hold")["mode"], "hold");
    assert_eq!(state("resume")["mode"], "run");
    let listed = queue.run(&["bulk", "list", NEWS[0]]);
    assert!(listed.stdout.contains("news") && listed.stdout.contains("0 of 3"), "{}", listed.stdout);
    assert_eq!(queue.json(&["bulk", "list", "customer-8"])["bulks"].as_array().unwrap().len(), 0);
    let cancelled = queue.run(&["bulk", "cancel", NEWS[0], NEWS[1]]);
    assert!(cancelled.stdout.contains("3 jobs still to be dropped"), "{}", cancelled.stdout);
    let cancelled = state("cancel");
    assert_eq!((&cancelled["state"], &cancelled["unfinished"]), (&"cancelled".into(), &3.into()));
    for action in ["hold", "resume"] {
        queue.run(&["bulk", action, NEWS[0], NEWS[1]]).failed(2, &["cancelled", "it has ended"]);
    }
    let watched = queue.run(&["bulk", "watch", NEWS[0], NEWS[1]]);
    assert_eq!((watched.code, watched.stderr.as_str()), (3, ""));
    assert!(watched.stdout.starts_with("news: cancelled, 0 of 3 jobs done"), "{}", watched.stdout);
    for action in ["show", "hold", "resume", "cancel", "seal", "watch", "export"] {
        queue.run(&["bulk", action, "customer-7", "unknown"]).failed(2, &["no bulk action unknown"]);
    }
}

#[test]
fn results_are_watched_and_exported_by_outcome() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", "{\"payload\":1}\n{\"payload\":\"broken\"}\n");
    queue.json(&load(&file, &[]));
    queue.work_off(NEWS[0], NEWS[1]);
    let watched = queue.json(&["bulk", "watch", NEWS[0], NEWS[1]]);
    assert_eq!((&watched["succeeded"], &watched["failed"]), (&1.into(), &1.into()));
    assert_eq!(watched["summary"]["errors"][0]["code"], "broken");
    let export =
        |options: &[&str]| queue.run(&[&["bulk", "export", NEWS[0], NEWS[1]], options].concat()).stdout;
    assert_eq!(export(&[]).lines().count(), 2);
    let failed: serde_json::Value = serde_json::from_str(&export(&["--failed"])).unwrap();
    assert_eq!((&failed["id"], &failed["error"]["code"]), (&"news-2".into(), &"broken".into()));
    let target = queue.path("done.ndjson");
    assert_eq!(export(&["--succeeded", "--out", &target]).trim(), format!("1 job in {target}"));
    let counted = queue.json(&["bulk", "export", NEWS[0], NEWS[1], "--succeeded", "--out", &target]);
    assert_eq!(counted, serde_json::json!({"jobs": 1, "out": target}));
    let done: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(target).unwrap()).unwrap();
    assert_eq!((&done["id"], &done["result"]), (&"news-1".into(), &1.into()));
}

#[test]
fn a_bulk_action_is_shown_with_its_callback_and_summary() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", "{\"payload\":1}\n{\"payload\":\"broken\"}\n");
    let url = "https://customer-7.example/done";
    queue.json(&load(&file, &["--callback", url]));
    let show = ["bulk", "show", NEWS[0], NEWS[1]];
    let waiting = queue.json(&show);
    assert_eq!((&waiting["callback"]["url"], &waiting["fold"]), (&url.into(), &serde_json::Value::Null));
    assert!(waiting["callback_state"].is_null());
    let text = queue.run(&show).stdout;
    assert!(text.contains(&format!("callback  {url} (called when the bulk action has ended)")), "{text}");

    queue.work_off(NEWS[0], NEWS[1]);
    let ended = queue.json(&show);
    assert_eq!((&ended["callback_state"], &ended["summary"]["total"]), (&"pending".into(), &2.into()));
    let text = queue.run(&show).stdout;
    for words in [
        &format!("{} is pending", ended["callback"]["job"].as_str().unwrap()),
        "2 jobs: 1 succeeded, 1 failed, 0 cancelled",
        "2 attempts, 0 times throttled",
        "took    p50",
        "1 failed with broken, such as:",
        "  news-2: it never works",
    ] {
        assert!(text.contains(words), "{words:?} is missing in {text}");
    }
    assert!(!text.contains('{'), "{text}");
}

#[test]
fn a_list_of_length_0_is_rejected() {
    let queue = Queue::new();
    for list in [&["bulk", "list", "customer-7"][..], &["dead", "list"], &["group", "list"]] {
        queue.run(&[list, &["--limit", "0"]].concat()).failed(2, &["use 1 or more"]);
    }
}

/// Starts a load that reads standard input.
pub fn start_load(url: &str) -> Child {
    let words = load("-", &["--engine", url]);
    let pipes = || Stdio::piped();
    Command::new(PROGRAM).args(words).stdin(pipes()).stdout(pipes()).stderr(pipes()).spawn().unwrap()
}

/// Waits until the bulk action has this many jobs.
pub fn arrived(server: &RedisServer, jobs: u64) {
    let total = || {
        let shown = fairlane(&["bulk", "show", NEWS[0], NEWS[1], "--engine", &server.url(), "--json"]);
        serde_json::from_str::<serde_json::Value>(&shown.stdout)
            .map_or(0, |view| view["total"].as_u64().unwrap())
    };
    until("the first jobs arrive", || total() >= jobs);
}

#[test]
fn a_load_interrupted_by_ctrl_c_can_be_continued_with_the_same_source() {
    let server = RedisServer::start(ServerOptions::default());
    let mut loading = start_load(&server.url());
    // Jobs are sent in batches of 200; the rest is still buffered when the load is interrupted.
    let source = lines(250);
    loading.stdin.as_ref().unwrap().write_all(source.as_bytes()).unwrap();
    arrived(&server, 200);
    let sent = Command::new("kill").args(["-INT", &loading.id().to_string()]).status().unwrap();
    assert!(sent.success());
    // Its standard input stays open until it has exited.
    let stdin = loading.stdin.take();
    let stopped = loading.wait_with_output().unwrap();
    drop(stdin);
    let message = String::from_utf8(stopped.stderr).unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{message}");
    assert!(message.contains("loaded 200 jobs into"), "{message}");
    assert!(message.contains("run the same command again"), "{message}");

    let mut again = start_load(&server.url());
    again.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let ended = again.wait_with_output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.starts_with("news: 250 jobs (50 new, 200 existing), sealed"), "{text}");
}

/// The peak memory of a load in MiB.
#[cfg(target_os = "linux")]
fn memory_of_loading(lines: usize, bulk: &str, url: &str, queue: &Queue) -> f64 {
    let line = "{\"payload\":{\"to\":\"reader@example.com\",\"template\":\"spring\"}}\n";
    let file = queue.file(bulk, &line.repeat(lines));
    let words = ["bulk", "load", "customer-7", bulk, &file, "--type", "mail", "--engine", url, "--json"];
    let mut loading = Process::start(Command::new(PROGRAM).args(words).stdout(Stdio::null()));
    let mut highest = 0.0_f64;
    while loading.try_wait().expect("the status of a child can be read").is_none() {
        // There is no peak after the exit.
        highest = highest.max(loading.memory_mib().1);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(loading.wait().expect("the program has exited").success());
    highest
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_a_load_does_not_depend_on_its_size() {
    let server = RedisServer::start(ServerOptions::default());
    let queue = Queue::new();
    let little = memory_of_loading(5_000, "little", &server.url(), &queue);
    let much = memory_of_loading(100_000, "much", &server.url(), &queue);
    assert!(little > 0.0 && much < little + 4.0, "{little} MiB and {much} MiB");
}
