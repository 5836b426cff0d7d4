//! Metrics: valid for Prometheus, bounded and documented; alerts and dashboards in `deploy/` use
//! existing ones.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use fairlane::{Fairlane, Job};
use fairlane_core::queue::Settings;
use fairlane_engine::observe::names::METRICS;
use fairlane_server::{ServerSettings, metrics};
use fairlane_testkit::wait::until_async as until;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::keys::{one_key, start};
use crate::running::Running;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");

async fn with_metrics(groups_shown_max: usize) -> Running {
    metrics::install();
    let settings = ServerSettings { groups_shown_max, ..ServerSettings::default() };
    Running::start_with(Fairlane::open("memory:").await.unwrap(), None, settings).await
}

async fn scrape(running: &Running) -> String {
    let response = running.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    response.text().await.unwrap()
}

/// The output of `promtool`; empty if it succeeds.
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
    let text = [output.stdout, output.stderr].concat();
    if output.status.success() { String::new() } else { String::from_utf8_lossy(&text).into_owned() }
}

#[tokio::test]
async fn metrics_are_valid_for_prometheus() {
    let running = with_metrics(100).await;
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
    let text = scrape(&running).await;
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
    let documented = documented();
    for (name, (kind, labels)) in families(&text) {
        let Some((documented_kind, documented_labels)) = documented.get(&name) else {
            panic!("docs/metrics.md lacks {name}");
        };
        assert_eq!(&kind, documented_kind, "{name}");
        assert!(labels.is_subset(documented_labels), "{name} has {labels:?}, not {documented_labels:?}");
    }
}

/// The kinds and labels of all documented metrics, by name.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        ["counter", "gauge", "histogram"]
            .contains(cells.get(2)?)
            .then(|| (name.to_owned(), (cells[2].to_owned(), words(cells[3]))))
    };
    DOCUMENT.lines().filter_map(row).collect()
}

/// The kinds and labels of all metrics in a scrape, by name.
fn families(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut families: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let before = families.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
            assert_eq!(before, None, "{name} appears twice");
            last = name.to_owned();
        } else if let Some((_, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let keys = labels.split("=\"").filter_map(|part| part.rsplit([',', '"']).next());
            let keys = keys.filter(|key| *key != "le" && !key.contains('}')).map(str::to_owned);
            families.get_mut(&last).unwrap().1.extend(keys);
        }
    }
    families
}

#[tokio::test]
async fn a_bounded_number_of_groups_has_gauges_of_their_own() {
    let running = with_metrics(3).await;
    for group in 0..12 {
        for _ in 0..=group {
            let job = Job::new(format!("customer-{group:02}"), "mail", &1);
            running.fairlane.enqueue(job).await.unwrap().accepted().unwrap();
        }
    }
    let text = scrape(&running).await;
    let mut lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with("bulk_action_group_pending_jobs{")).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "bulk_action_group_pending_jobs{group_id=\"customer-09\"} 10",
            "bulk_action_group_pending_jobs{group_id=\"customer-10\"} 11",
            "bulk_action_group_pending_jobs{group_id=\"customer-11\"} 12",
        ]
    );
    assert_eq!(groups_in(&text), BTreeSet::from(["customer-09", "customer-10", "customer-11"]));
    for _ in 0..20 {
        let job = Job::new("customer-00", "mail", &1);
        running.fairlane.enqueue(job).await.unwrap().accepted().unwrap();
    }
    let now = BTreeSet::from(["customer-00", "customer-10", "customer-11"]);
    until("a group that has left the list is not shown", || async {
        groups_in(&scrape(&running).await) == now
    })
    .await;
}

#[tokio::test]
async fn the_space_of_a_data_directory_is_shown() {
    metrics::install();
    let folder = tempfile::tempdir().unwrap();
    let running = Running::over(&format!("dir:{}", folder.path().display()), Settings::default()).await;
    let text = scrape(&running).await;
    for name in ["fairlane_store_used_bytes", "fairlane_store_limit_bytes"] {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert!(found.is_some_and(|bytes| bytes > 0.0), "{name} in {text}");
    }
}

/// Every group in the labels of a scrape.
fn groups_in(text: &str) -> BTreeSet<&str> {
    text.split("group_id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test]
async fn counters_are_shown_while_the_engine_is_unavailable() {
    metrics::install();
    let (running, gate) = Gate::start().await;
    gate.set_away(true);
    assert_eq!(running.get("/api/status").await.0, StatusCode::SERVICE_UNAVAILABLE);
    let text = scrape(&running).await;
    assert!(text.contains("\nfairlane_engine_up 0\n"), "{text}");
    assert!(text.contains("route=\"/api/status\",status=\"5xx\"}"), "{text}");
    let gauges: Vec<&str> =
        METRICS.iter().filter(|metric| metric.kind.as_str() == "gauge").map(|metric| metric.name).collect();
    let count = |text: &str| gauges.iter().filter(|name| text.contains(&format!("\n{name}"))).count();
    assert_eq!(count(&text), 0, "there are no gauges of the queue: {text}");
    gate.set_away(false);
    until("the engine is up again", || async {
        let text = scrape(&running).await;
        text.contains("\nfairlane_engine_up 1\n") && text.contains("\nfairlane_backlog_jobs 0\n")
    })
    .await;
    gate.set_away(true);
    until("the engine is down again", || async { count(&scrape(&running).await) == 0 }).await;
}

#[tokio::test]
async fn refusals_are_counted_by_problem_and_not_timed() {
    metrics::install();
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "k");
    let mut running = start(&file, ServerSettings::default()).await;
    let path = "/api/groups/customer-7/make-due";
    assert_eq!(running.post(path, Value::Null).await.0, StatusCode::UNAUTHORIZED);
    running.set_token(key);
    let text = scrape(&running).await;
    assert!(text.contains("fairlane_http_problems_total{problem=\"unauthenticated\"} 1\n"), "{text}");
    let timed =
        "fairlane_http_request_seconds_count{method=\"POST\",route=\"/api/groups/{group}/make-due\"} 1\n";
    assert!(!text.contains(timed), "{text}");
    assert_eq!(running.post_nothing(path.to_owned()).await.0, StatusCode::OK);
    assert!(scrape(&running).await.contains(timed));
}

fn known() -> BTreeSet<String> {
    let server = metrics::NAMES;
    let worker = {
        use fairlane_worker::names::{ATTEMPT_SECONDS, ATTEMPTS, LOOP_RUNS};
        [ATTEMPTS, ATTEMPT_SECONDS, LOOP_RUNS]
    };
    let engine = METRICS.iter().map(|metric| metric.name);
    engine.chain(server).chain(worker).map(str::to_owned).collect()
}

/// The metrics in an expression.
fn named(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words.filter(|word| word.starts_with("fairlane_") || word.starts_with("bulk_action_"));
    names.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn every_metric_of_a_server_is_documented() {
    let documented: BTreeSet<String> = documented().into_keys().collect();
    assert_eq!(documented, known(), "docs/metrics.md and the code have the same metrics");
}

/// A test for `promtool`: with these series, one sample a minute, these alerts fire at the end.
fn fires(series: &[(&str, u32)], minutes: u32, alerts: &[&str]) -> String {
    let series =
        series.iter().map(|(name, value)| json!({"series": name, "values": format!("{value}x{minutes}")}));
    let alerts = alerts.iter().map(|name| json!({"labels": format!("{{alertname={name:?}}}"), "value": 1}));
    json!({
        "interval": "1m",
        "input_series": series.collect::<Vec<_>>(),
        "promql_expr_test": [{
            "expr": "count by (alertname) (ALERTS{alertstate=\"firing\"})",
            "eval_time": format!("{minutes}m"),
            "exp_samples": alerts.collect::<Vec<_>>(),
        }],
    })
    .to_string()
}

#[test]
fn alerts_fire_when_an_engine_is_down_a_store_is_nearly_full_and_a_backoff_is_at_its_limit() {
    let used = "fairlane_store_used_bytes{instance=\"a\",job=\"fairlane\"}";
    let bound = "fairlane_store_limit_bytes{instance=\"a\",job=\"fairlane\"}";
    let stored = "fairlane_stored_bytes{instance=\"a\",job=\"fairlane\"}";
    let stored_bound = "fairlane_stored_limit_bytes{instance=\"a\",job=\"fairlane\"}";
    let up = "fairlane_engine_up{instance=\"a\",job=\"fairlane\"}";
    let backoff = "fairlane_group_backoff_seconds{instance=\"a\",job=\"fairlane\",group_id=\"g\"}";
    let limit = "fairlane_backoff_limit_seconds{instance=\"a\",job=\"fairlane\"}";
    let tests = [
        fires(&[(up, 0)], 3, &["EngineDown"]),
        fires(&[(up, 1)], 3, &[]),
        fires(&[(used, 81), (bound, 100)], 3, &["StoreNearlyFull"]),
        fires(&[(used, 79), (bound, 100)], 3, &[]),
        fires(&[(stored, 81), (stored_bound, 100)], 3, &["StoredBytesNearlyFull"]),
        fires(&[(stored, 79), (stored_bound, 100)], 3, &[]),
        fires(&[(backoff, 30), (limit, 30)], 40, &["BackoffAtItsBound"]),
        fires(&[(backoff, 30), (limit, 120)], 40, &[]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.yaml");
    // JSON is YAML.
    let rules = format!("{DEPLOY}/prometheus/alerts.yaml");
    std::fs::write(&path, format!("{{\"rule_files\": [{rules:?}], \"tests\": [{}]}}", tests.join(",")))
        .unwrap();
    assert_eq!(promtool(&["test", "rules", path.to_str().unwrap()], ""), "");
}

#[test]
fn alerts_and_dashboard_use_existing_metrics() {
    let alerts = std::fs::read_to_string(format!("{DEPLOY}/prometheus/alerts.yaml")).unwrap();
    let dashboard = std::fs::read_to_string(format!("{DEPLOY}/grafana/fairlane.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let known = known();
    for name in named(&alerts) {
        assert!(known.contains(&name), "alerts.yaml uses {name}");
    }
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            shown.extend(named(target["expr"].as_str().unwrap()));
        }
    }
    assert!(shown.len() > 25, "{shown:?}");
    for name in &shown {
        assert!(known.contains(name), "the dashboard uses {name}");
    }
    assert_eq!(promtool(&["check", "rules", &format!("{DEPLOY}/prometheus/alerts.yaml")], ""), "");
    let scrape = format!("{DEPLOY}/prometheus/prometheus.yaml");
    assert_eq!(promtool(&["check", "config", "--syntax-only", &scrape], ""), "");
}
