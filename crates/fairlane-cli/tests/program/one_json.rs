//! `--json` prints what the HTTP API returns.

use serde_json::Value;

use super::running::fairlane;
use super::served::Served;

fn get(served: &Served, path: &str) -> Value {
    let (status, body) = served.ask("GET", path, "").unwrap();
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn a_command_prints_the_json_that_the_api_returns() {
    let served = Served::start();
    let json = |words: &[&str]| fairlane(&[words, &["--json", "--engine", &served.address]].concat()).json();
    json(&["group", "set", "customer-7", "--rate", "50/s", "--weight", "3"]);
    json(&["enqueue", "customer-7", "mail", "{\"to\": 1}", "--id", "welcome", "--delay", "1h"]);
    served.ask("POST", "/api/bulks", r#"{"group": "customer-7", "id": "may", "failures_max": 5}"#).unwrap();
    for (words, path) in [
        (&["job", "show", "customer-7", "welcome"][..], "/api/jobs/customer-7/welcome"),
        (&["bulk", "show", "customer-7", "may"], "/api/bulks/customer-7/may"),
        (&["group", "show", "customer-7"], "/api/groups/customer-7"),
        (&["type", "show", "mail"], "/api/types/mail"),
        (&["type", "list"], "/api/types"),
    ] {
        assert_eq!(json(words), get(&served, path), "{words:?}");
    }
    for (words, path, list) in [
        (&["bulk", "list", "customer-7"][..], "/api/bulks/customer-7", "bulks"),
        (&["group", "list"], "/api/groups", "groups"),
        (&["dead", "list"], "/api/dead", "jobs"),
        (&["status"], "/api/status", "types"),
    ] {
        assert_eq!(json(words)[list], get(&served, path)[list], "{words:?}");
    }
    let cancelled = json(&["job", "cancel", "customer-7", "welcome"]);
    assert_eq!((&cancelled["id"], &cancelled["outcome"]), (&"welcome".into(), &"cancelled".into()));
}
