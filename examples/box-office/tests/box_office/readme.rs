//! The commands of examples/box-office/README.md, with free ports, the built program and small crowds.

use std::path::Path;

use fairlane_testkit::document::{blocks, page, run_script};
use fairlane_testkit::program::Ended;
use fairlane_testkit::redis::{RedisServer, ServerOptions, free_port};

const PROGRAM: &str = env!("CARGO_BIN_EXE_box-office");

/// A crowd that comes and decides quickly.
const SMALL: &str = "--buyers 20 --arrive-within 500ms --think 10ms";

/// The five blocks of the README with the program of this build, and two ports that are free.
fn commands() -> ([String; 5], String) {
    let (first, second) = (free_port().to_string(), free_port().to_string());
    let here = |block: String| {
        let block = block.replace("cargo run --release -p", "cargo run -p");
        let block = block.replace("cargo run -p box-office --", PROGRAM);
        block.replace("8090", &first).replace("8091", &second).replace("--crowd 5000", "--crowd 20")
    };
    let blocks: Vec<String> =
        blocks(&page("examples/box-office/README.md"), "sh").into_iter().map(here).collect();
    (blocks.try_into().expect("five blocks"), first)
}

fn run(script: &str) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run_script(folder.path(), Path::new("."), script, &[]);
    assert_eq!(ended.code, 0, "{script}\n{}\n{}", ended.stdout, ended.stderr);
    ended
}

/// Waits until an instance listens, at most a minute.
fn until_open(port: &str) -> String {
    let poll = format!("until curl -s -o /dev/null localhost:{port}/api/concerts; do sleep 0.05; done");
    format!("timeout 60 sh -c '{poll}'\n")
}

#[test]
fn a_seat_is_bought_by_the_requests_of_the_readme_beside_a_crowd() {
    let ([serve, buy, ..], port) = commands();
    let serve = format!("{} --listen 127.0.0.1:{port} &\n{}", serve.trim_end(), until_open(&port));
    let bought = run(&format!("{serve}{buy}")).stdout;
    assert!(bought.contains("\"status\":\"CONFIRMED\""), "{bought}");
}

#[test]
fn instances_of_the_readme_share_an_engine_and_a_file() {
    let redis = RedisServer::start(ServerOptions::default());
    let ([_, _, instances, ..], port) = commands();
    let instances = instances.replace("redis://127.0.0.1:6379", &redis.url());
    // The first instance has the default port.
    let instances = instances.replacen("shop.db &", &format!("shop.db --listen 127.0.0.1:{port} &"), 1);
    let (serve, crowd) = instances.trim_end().rsplit_once('\n').expect("three commands");
    let second = crowd.rsplit(':').next().expect("a port");
    let wait = until_open(&port) + &until_open(second);
    let report = run(&format!("{serve}\n{wait}{crowd} {SMALL}\n")).stdout;
    assert!(report.contains("\"buyers\": 20") && report.contains("\"overtaken\": 0"), "{report}");
}

#[test]
fn the_trial_and_the_measurement_of_the_readme_run() {
    let redis = RedisServer::start(ServerOptions::default());
    let ([_, _, _, trial, measure], _) = commands();
    let trial = trial.replace("redis://127.0.0.1:6379", &redis.url());
    assert!(trial.contains("--buyers 5000"), "{trial}");
    let trial = trial.trim_end().replace("--buyers 5000", SMALL);
    let report = run(&format!("{trial} --schedules 1 --seats 5\n")).stdout;
    assert!(report.contains("\"violations\": []") && report.contains("\"sold\": 5"), "{report}");
    let measured = run(&format!("{} --payments 50\n", measure.trim_end())).stdout;
    assert!(measured.contains("\"engine_down\""), "{measured}");
}
