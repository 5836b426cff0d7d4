//! Figures: as Prometheus wants them, bounded, documented; and what is in `deploy/` speaks of those that exist.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use fairlane::{Fairlane, Job};
use fairlane_engine::observe::names::METRICS;
use fairlane_server::{ServerSettings, figures};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::Running;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");

async fn counting(groups_shown_max: usize) -> Running {
    figures::install();
    let settings = ServerSettings { groups_shown_max, ..ServerSettings::default() };
    Running::start_with(Fairlane::open("memory:").await.unwrap(), None, settings).await
}

async fn shown(running: &Running) -> String {
    let response = running.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    response.text().await.unwrap()
}

/// What `promtool` says; nothing if it has no objection.
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is needed: apt-get install prometheus");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { String::new() } else { String::from_utf8_lossy(&said).into_owned() }
}

#[tokio::test]
async fn prometheus_has_no_objection() {
    let running = counting(100).await;
    for number in 0..20 {
        let job = Job::new(format!("customer-{number}"), "mail", &json!({"number": number}));
        running.fairlane.enqueue(job).await.unwrap().accepted().unwrap();
    }
    let lease = json!({"worker": "w", "types": ["mail"], "count": 5});
    let (status, leased) = running.post("/api/leases", lease).await;
    assert_eq!(status, StatusCode::OK);
    let settlements: Vec<Value> = leased["jobs"].as_array().unwrap().iter().map(|job| {
        json!({"group": job["group"], "id": job["id"], "fence": job["fence"], "outcome": "throttled", "retry_after_ms": 10})
    }).collect();
    running.post("/api/leases/settle", json!({ "settlements": settlements })).await;
    let text = shown(&running).await;
    for line in [
        "bulk_action_enqueue_total{engine=\"embedded\"} 20",
        "fairlane_backlog_jobs 20",
        "bulk_action_group_pending_jobs{group_id=\"customer-7\"} 1",
        "fairlane_http_requests_total{method=\"POST\",route=\"/api/leases\",status=\"2xx\"} 1",
        "fairlane_job_wait_seconds_bucket",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert_eq!(promtool(&["check", "metrics"], &text), "");
}

#[tokio::test]
async fn groups_have_figures_of_their_own_up_to_a_bound() {
    let running = counting(3).await;
    for group in 0..12 {
        for _ in 0..=group {
            let job = Job::new(format!("customer-{group:02}"), "mail", &1);
            running.fairlane.enqueue(job).await.unwrap().accepted().unwrap();
        }
    }
    let text = shown(&running).await;
    let standing = |line: &&str| line.starts_with("bulk_action_group_pending_jobs{") && !line.ends_with(" 0");
    let mut lines: Vec<&str> = text.lines().filter(standing).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "bulk_action_group_pending_jobs{group_id=\"customer-09\"} 10",
            "bulk_action_group_pending_jobs{group_id=\"customer-10\"} 11",
            "bulk_action_group_pending_jobs{group_id=\"customer-11\"} 12",
        ]
    );
}

fn known() -> BTreeSet<String> {
    let ours = [figures::REQUESTS, figures::REQUEST_SECONDS, figures::CONNECTIONS, figures::HELD];
    let workers = {
        use fairlane_worker::names::{ATTEMPT_SECONDS, ATTEMPTS, LOOP_RUNS};
        [ATTEMPTS, ATTEMPT_SECONDS, LOOP_RUNS]
    };
    let engines = METRICS.iter().map(|metric| metric.name);
    engines.chain(ours).chain(workers).map(str::to_owned).collect()
}

/// Words of an expression that can only be metrics.
fn named(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    let ours = words.filter(|word| word.starts_with("fairlane_") || word.starts_with("bulk_action_"));
    ours.map(|word| word.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn every_metric_of_a_server_is_documented() {
    for metric in [figures::REQUESTS, figures::REQUEST_SECONDS, figures::CONNECTIONS, figures::HELD] {
        assert!(DOCUMENT.contains(&format!("| `{metric}` |")), "docs/metrics.md lacks {metric}");
    }
}

#[test]
fn alerts_and_dashboard_speak_of_metrics_that_exist() {
    let alerts = std::fs::read_to_string(format!("{DEPLOY}/prometheus/alerts.yaml")).unwrap();
    let dashboard = std::fs::read_to_string(format!("{DEPLOY}/grafana/fairlane.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let known = known();
    for name in named(&alerts) {
        assert!(known.contains(&name), "alerts.yaml speaks of {name}");
    }
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            shown.extend(named(target["expr"].as_str().unwrap()));
        }
    }
    assert!(shown.len() > 25, "{shown:?}");
    for name in &shown {
        assert!(known.contains(name), "the dashboard speaks of {name}");
    }
    assert_eq!(promtool(&["check", "rules", &format!("{DEPLOY}/prometheus/alerts.yaml")], ""), "");
}
