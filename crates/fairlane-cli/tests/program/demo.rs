//! `fairlane demo`, on every engine.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use fairlane_testkit::document::{blocks, page};
use fairlane_testkit::redis::{RedisCluster, RedisServer, ServerOptions};

use super::documents::has;
use super::running::{fairlane, has_keys};
use super::served::{Served, ask};

const GROUP_KEYS: [&str; 6] =
    ["group", "enqueued", "completed", "wait_p50_ms", "wait_p99_ms", "last_done_ms"];

fn every_job_runs_once_and_small_customers_finish_first(engine: &str) {
    let words = ["demo", "--engine", engine, "--sizes", "3000,100,50", "--workers", "8", "--json"];
    let report = fairlane(&words).json();
    has_keys(&report, &["lost", "duplicated", "seconds", "groups"]);
    assert_eq!((report["lost"].as_u64(), report["duplicated"].as_u64()), (Some(0), Some(0)));
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    let groups = report["groups"].as_array().unwrap();
    for (group, (name, size)) in
        groups.iter().zip([("customer-A", 3000), ("customer-B", 100), ("customer-C", 50)])
    {
        has_keys(group, &GROUP_KEYS);
        assert_eq!(group["group"], name);
        assert_eq!((group["enqueued"].as_u64(), group["completed"].as_u64()), (Some(size), Some(size)));
    }
    let plain_wait_ms = |index: usize| groups[index]["plain_wait_p50_ms"].as_f64().unwrap();
    let wait_ms = |index: usize| groups[index]["wait_p50_ms"].as_f64().unwrap();
    assert!(plain_wait_ms(1) > wait_ms(1) && plain_wait_ms(2) > wait_ms(2), "they wait behind A: {report}");
    let last_done_ms = |index: usize| groups[index]["last_done_ms"].as_f64().unwrap();
    assert!(last_done_ms(1) < last_done_ms(0) && last_done_ms(2) < last_done_ms(0));
}

#[test]
fn in_memory_every_job_runs_once_and_small_customers_finish_first() {
    every_job_runs_once_and_small_customers_finish_first("memory:");
}

#[test]
fn on_redis_small_customers_finish_first_and_no_keys_remain() {
    let server = RedisServer::start(ServerOptions::default());
    every_job_runs_once_and_small_customers_finish_first(&server.url());
    every_job_runs_once_and_small_customers_finish_first(&server.url());
    assert_eq!(server.command(&["DBSIZE"]), "0");
}

#[test]
fn on_a_cluster_small_customers_finish_first_and_no_keys_remain() {
    let cluster = RedisCluster::start(1);
    every_job_runs_once_and_small_customers_finish_first(&cluster.url());
    assert_eq!(cluster.nodes()[0].command(&["DBSIZE"]), "0");
}

#[test]
fn the_text_output_is_a_table_and_a_verdict() {
    let ended = fairlane(&["demo", "--sizes", "300,20,10"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let verdict = "Nothing lost or run twice: 330 jobs";
    for word in ["group", "wait p99", "in a plain queue", "customer-C", "300", "1st", "2nd", "3rd", verdict] {
        assert!(ended.stdout.contains(word), "{word:?} is missing in: {}", ended.stdout);
    }
    let readme = page("README.md");
    let shown = &blocks(&readme, "text")[0];
    for column in shown.lines().next().unwrap().split("  ").map(str::trim).filter(|column| !column.is_empty())
    {
        assert!(ended.stdout.contains(column), "the README shows {column:?}: {}", ended.stdout);
    }
    let verdict = shown.lines().last().unwrap();
    let parts = verdict.split(|letter: char| letter.is_ascii_digit() || ",.".contains(letter));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    assert!(has(&ended.stdout, &parts.join("…")), "the README shows {verdict:?}: {}", ended.stdout);
    let widest = ended.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{}", ended.stdout);
}

#[test]
fn a_rate_limit_is_respected() {
    let words = ["demo", "--sizes", "60,5,5", "--rate", "100", "--json"];
    let report = fairlane(&words).json();
    // 70 jobs at 100 per second with a burst of 3 need at least 0.67 s on any machine.
    assert!(report["seconds"].as_f64().unwrap() >= 0.66, "{report}");
}

#[test]
fn an_invalid_address_or_number_exits_with_code_2() {
    fairlane(&["demo", "--engine", "postgres://localhost"]).failed(2, &["postgres://localhost", "redis://"]);
    fairlane(&["demo", "--sizes", "5"]).failed(2, &["--sizes takes 2 to 26 numbers"]);
    fairlane(&["demo", "--sizes", "0,1"]).failed(2, &["--sizes"]);
    fairlane(&["demo", "--rate", "0"]).failed(2, &["--rate", "between 1 and"]);
}

#[test]
fn demo_and_bench_refuse_the_queue_of_a_server() {
    let served = Served::start();
    fairlane(&["settings", "set", "max_retry_count=9", "--json", "--engine", &served.address]).json();
    let refused = ["--engine selects a server", "memory:"];
    fairlane(&["demo", "--sizes", "30,5", "--engine", &served.address]).failed(2, &refused);
    let bench = fairlane(&["bench", "--quick", "--only", "enqueue", "--engine", &served.address]);
    assert!(bench.code == 2 && bench.stderr.contains(refused[0]), "{}", bench.stderr);
    let status = fairlane(&["status", "--json", "--engine", &served.address]).json();
    assert_eq!((&status["backlog"], &status["types"]), (&0.into(), &serde_json::json!([])));
    let settings = fairlane(&["settings", "show", "--json", "--engine", &served.address]).json();
    assert_eq!(settings["settings"]["max_retry_count"], "9");
}

#[test]
fn an_unreachable_engine_exits_with_code_1() {
    fairlane(&["demo", "--engine", "redis://127.0.0.1:1"]).failed(1, &["redis cannot be reached"]);
}

#[test]
fn ctrl_c_reports_the_remaining_jobs_and_leaves_no_keys() {
    let server = RedisServer::start(ServerOptions::default());
    let mut program = Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(["demo", "--engine", &server.url(), "--sizes", "1000,10", "--rate", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(program.stderr.take().unwrap());
    let mut line = String::new();
    messages.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("Dashboard: ").unwrap().trim_end_matches('/');
    let (status, page) = ask(address, "GET", "/", "").unwrap();
    assert!(status == 200 && page.contains("What stands still"), "{page}");
    // The first line of progress shows that jobs are running.
    line.clear();
    messages.read_line(&mut line).unwrap();
    assert!(line.starts_with("customer-A"), "{line}");
    assert!(Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap().success());
    assert_eq!(program.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    messages.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("stopped: ") && rest.contains(" remain ("), "{rest}");
    assert_eq!(server.command(&["DBSIZE"]), "0");
}
