//! `fairlane job`.

use super::queue::Queue;
use super::running::has_keys;

#[test]
fn a_job_is_shown_with_its_payload_and_can_be_cancelled_once() {
    let queue = Queue::new();
    queue.json(&["enqueue", "customer-7", "mail", "{\"to\": 1}", "--id", "welcome", "--level", "high"]);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    queue.json(&["enqueue", "customer-7", "mail", "--id", "traced", "--trace", trace]);
    let shown = queue.json(&["job", "show", "customer-7", "welcome"]);
    has_keys(&shown, &["group", "id", "type", "state", "level", "cost", "attempts", "created_at"]);
    assert_eq!((&shown["state"], &shown["payload"]), (&"pending".into(), &serde_json::json!({"to": 1})));
    let text = queue.run(&["job", "show", "customer-7", "welcome"]).stdout;
    assert!(text.starts_with("welcome of customer-7: pending, 0 attempts"), "{text}");
    assert!(text.contains("payload    {\"to\": 1}") && text.contains("mail, level high, cost 1"), "{text}");
    assert!(shown["trace"].is_null() && !text.contains("trace"), "{text}");
    assert_eq!(queue.json(&["job", "show", "customer-7", "traced"])["trace"], trace);
    let text = queue.run(&["job", "show", "customer-7", "traced"]).stdout;
    assert!(text.contains(&format!("trace      {trace}")), "{text}");
    let cancelled = queue.run(&["job", "cancel", "customer-7", "welcome"]);
    assert_eq!((cancelled.code, cancelled.stdout.trim()), (0, "welcome of customer-7 will not run"));
    assert_eq!(queue.json(&["job", "show", "customer-7", "welcome"])["state"], "cancelled");
    queue.run(&["job", "cancel", "customer-7", "welcome"]).failed(2, &["has ended"]);
    for action in ["show", "cancel"] {
        queue.run(&["job", action, "customer-7", "unknown"]).failed(2, &["customer-7 has no job unknown"]);
    }
}

#[test]
fn a_dead_job_is_shown_with_its_error() {
    let queue = Queue::with_dead(&["rare-1"]);
    let shown = queue.json(&["job", "show", "customer-7", "rare-1"]);
    assert_eq!((&shown["state"], &shown["error"]["code"]), (&"dead".into(), &"rare".into()));
    assert!(queue.run(&["job", "show", "customer-7", "rare-1"]).stdout.contains("rare: it never works"));
}

#[test]
fn requeueing_one_dead_job_leaves_the_others_dead() {
    let queue = Queue::with_dead(&["rare-1", "rare-2"]);
    let requeued = queue.run(&["job", "requeue", "customer-7", "rare-1"]);
    assert_eq!((requeued.code, requeued.stdout.trim()), (0, "rare-1 of customer-7 is requeued"));
    let state = |job| queue.json(&["job", "show", "customer-7", job])["state"].clone();
    assert_eq!((state("rare-1"), state("rare-2")), ("pending".into(), "dead".into()));
    queue.run(&["job", "requeue", "customer-7", "rare-1"]).failed(2, &["is not dead", "fairlane job show"]);
    queue.run(&["job", "requeue", "customer-7", "unknown"]).failed(2, &["customer-7 has no job unknown"]);
    queue.run(&["job", "requeue", "", "rare-2"]).failed(2, &["must not be empty"]);
    assert_eq!(queue.json(&["job", "requeue", "customer-7", "rare-2"])["requeued"], true);
}
