//! The limits in docs/http.md and the API description equal those in effect.

use fairlane_core::limits::{
    COST_MAX, DELAY_MS_MAX, EXTEND_JOBS_MAX, GROUP_BACKLOG_MAX, GROUP_BULKS_MAX, JSON_DEPTH_MAX,
    LEASE_BYTES_MAX, LEASE_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, NAME_BYTES_MAX, NOTE_BYTES_MAX,
    PAYLOAD_BYTES_MAX, PICK_JOBS_MAX, QUEUE_BACKLOG_MAX, RETRY_AFTER_MS_MAX, SETTLE_JOBS_MAX, TYPES_MAX,
};
use fairlane_server::{ServerSettings, openapi};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, send};

const DOCUMENT: &str = include_str!("../../../../docs/http.md");
const MIB: usize = 1024 * 1024;

/// The limit in the row that begins with this text.
fn documented(what: &str) -> &'static str {
    let (_, section) = DOCUMENT.split_once("\n## Limits\n").expect("there is a table");
    let row = section.lines().find(|line| line.starts_with(&format!("| {what}")));
    row.and_then(|row| row.split('|').nth(2)).unwrap_or_else(|| panic!("no row begins with {what}"))
}

/// The integers in the limit of a row.
fn numbers(what: &str) -> Vec<u64> {
    let digits = documented(what).split(|letter: char| !letter.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

#[test]
fn every_documented_limit_is_in_effect() {
    let settings = ServerSettings::default();
    let (payload, note) = (PAYLOAD_BYTES_MAX as u64, NOTE_BYTES_MAX as u64);
    let jobs = LEASE_JOBS_MAX as u64;
    assert_eq!([EXTEND_JOBS_MAX, SETTLE_JOBS_MAX, PICK_JOBS_MAX], [LEASE_JOBS_MAX; 3], "they share a row");
    let longest_line = payload.div_ceil(3) * 4 + 16 * 1024;
    for (what, limits) in [
        ("a payload |", vec![payload / 1024, payload, 64]),
        ("a result |", vec![note / 1024, note]),
        ("how deep", vec![JSON_DEPTH_MAX as u64]),
        ("a name", vec![NAME_BYTES_MAX as u64]),
        ("jobs of a lease", vec![jobs]),
        ("payloads of one lease", vec![(LEASE_BYTES_MAX / MIB) as u64]),
        ("a lease |", vec![LEASE_MS_MIN, LEASE_MS_MAX]),
        ("a long poll", vec![settings.poll_max.as_millis() as u64]),
        ("types", vec![TYPES_MAX as u64]),
        ("a cost", vec![COST_MAX.into()]),
        ("a delay", vec![DELAY_MS_MAX]),
        ("a `retry_after_ms`", vec![RETRY_AFTER_MS_MAX]),
        ("bulk actions", vec![GROUP_BULKS_MAX as u64]),
        ("a line", vec![longest_line]),
        ("a body", vec![(settings.body_bytes_max / MIB) as u64, settings.body_bytes_max as u64]),
        ("unfinished jobs", vec![GROUP_BACKLOG_MAX, QUEUE_BACKLOG_MAX]),
    ] {
        assert_eq!(numbers(what), limits, "{what}");
    }
}

#[test]
fn the_api_description_contains_the_limits() {
    let api = serde_json::to_value(openapi()).unwrap();
    let schema = |name: &str, field: &str| api["components"]["schemas"][name]["properties"][field].clone();
    assert_eq!(schema("NewJobs", "jobs")["maxItems"], numbers("jobs of a batch")[0]);
    let in_base64 = |bytes: usize| (bytes.div_ceil(3) * 4) as u64;
    assert_eq!(schema("NewJob", "payload_base64")["maxLength"], in_base64(PAYLOAD_BYTES_MAX));
    assert_eq!(schema("Settlement", "result_base64")["maxLength"], in_base64(NOTE_BYTES_MAX));
    for (name, field, text) in [
        ("NewJob", "payload", format!("{} KiB", PAYLOAD_BYTES_MAX / 1024)),
        ("NewJob", "payload", format!("{JSON_DEPTH_MAX} levels")),
        ("Settlement", "result", format!("{} KiB", NOTE_BYTES_MAX / 1024)),
        ("Settlement", "result", format!("{JSON_DEPTH_MAX} levels")),
    ] {
        let description = schema(name, field)["description"].as_str().unwrap().replace('\n', " ");
        assert!(description.contains(&text), "{name}.{field}: {description}");
    }
    let api = api.to_string();
    assert!(api.contains(&format!("\"maxLength\":{}", numbers("an `Idempotency-Key`")[0])));
}

/// The constants behind these limits are private.
#[tokio::test]
async fn a_reason_and_a_code_are_truncated_to_the_documented_limits() {
    let running = Running::start().await;
    running.post("/api/jobs", json!({"group": "g", "type": "mail", "id": "j", "payload": 1})).await;
    let (_, leased) = running.post("/api/leases", json!({"worker": "w", "types": ["mail"]})).await;
    let long = "x".repeat(5000);
    let settlement = json!({
        "group": "g", "id": "j", "fence": leased["jobs"][0]["fence"], "outcome": "failed", "reason": long, "code": long,
    });
    let (status, _) = running.post("/api/leases/settle", json!({"settlements": [settlement]})).await;
    assert_eq!(status, StatusCode::OK);
    let (_, job) = running.get("/api/jobs/g/j").await;
    let length = |key: &str| job["error"][key].as_str().unwrap().len() as u64;
    let [_, reason, code] = numbers("a `reason`")[..] else { panic!("a reason and a code") };
    assert!(length("reason") <= reason && length("reason") > reason - 8, "{}", length("reason"));
    assert!(length("code") <= code && length("code") > code - 8, "{}", length("code"));
}

#[tokio::test]
async fn an_idempotency_key_has_at_most_the_documented_length() {
    let running = Running::start().await;
    let length = numbers("an `Idempotency-Key`")[0] as usize;
    for (length, wanted) in [(length, StatusCode::CREATED), (length + 1, StatusCode::UNPROCESSABLE_ENTITY)] {
        let request =
            running.request(Method::POST, "/api/jobs").header("idempotency-key", "k".repeat(length));
        let job: Value = json!({"group": "g", "type": "mail", "payload": length});
        assert_eq!(send(crate::running::json(request, &job)).await.0, wanted, "{length}");
    }
}
