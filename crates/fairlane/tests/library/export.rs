//! Results of a bulk action as lines of JSON.

use fairlane::{Bulk, Context, Fairlane, Filter, Outcome};
use serde_json::{Value, json};

async fn lines(bulk: &Bulk, filter: Filter) -> Vec<Value> {
    let mut text = Vec::new();
    let jobs = bulk.export(&mut text, filter).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len() as u64, jobs);
    lines.sort_by_key(|line| line["id"].to_string());
    lines
}

/// Ends each kind of job with its kind of result.
async fn end(kind: String, _: Context) -> Outcome {
    match kind.as_str() {
        "json" => Outcome::done_bytes("{\"sent\":\n  1.50}"),
        "text" => Outcome::done_bytes("plain words"),
        "empty" => Outcome::done_bytes(""),
        "bytes" => Outcome::done_bytes(&b"\xff\x00a"[..]),
        _ => Outcome::failed("address", "no such address"),
    }
}

#[tokio::test]
async fn each_job_is_a_line_with_its_result_or_its_error() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let pool = fairlane.worker().process("mail", end).start().unwrap();
    let bulk = fairlane.bulk("customer-7", "kinds").open().await.unwrap();
    let kinds = ["json", "text", "empty", "wrong", "bytes"];
    bulk.add_all(kinds.map(|kind| bulk.job("mail", &kind).id(kind))).await.unwrap();
    bulk.seal(Some(5)).await.unwrap();
    bulk.finished().await.unwrap();

    let all = lines(&bulk, Filter::All).await;
    let [bytes, empty, with_json, text, wrong] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&with_json["id"], &with_json["type"]), (&json!("json"), &json!("mail")));
    assert_eq!((&with_json["state"], &with_json["attempts"]), (&json!("completed"), &json!(1)));
    assert_eq!(with_json["result"], json!({"sent": 1.5}));
    for time in ["created_at", "settled_at"] {
        fairlane::parse_time(with_json[time].as_str().unwrap()).unwrap();
    }
    assert_eq!((text["result"].as_str(), text.get("result_base64")), (Some("plain words"), None));
    assert_eq!((bytes["result_base64"].as_str(), bytes.get("result")), (Some("/wBh"), None));
    assert!(empty.get("result").is_none() && empty.get("error").is_none());
    assert_eq!(wrong["error"], json!({"code": "address", "reason": "no such address"}));
    assert_eq!(wrong["state"], json!("dead"));

    assert_eq!(lines(&bulk, Filter::Failed).await, std::slice::from_ref(wrong));
    assert_eq!(lines(&bulk, Filter::Succeeded).await.len(), 4);
    pool.stop().await;
}

#[tokio::test]
async fn results_that_are_json_are_exported_byte_for_byte() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let exact = "{\"z\":1.500,\"a\":12345678901234567890123}";
    let pool = fairlane
        .worker()
        .process("mail", move |_: u64, _: Context| async move { Outcome::done_bytes(exact) })
        .start()
        .unwrap();
    let bulk = fairlane.bulk("customer-7", "many").open().await.unwrap();
    bulk.add_all((0..1200).map(|number| bulk.job("mail", &number))).await.unwrap();
    bulk.seal(None).await.unwrap();
    bulk.finished().await.unwrap();
    let mut text = Vec::new();
    assert_eq!(bulk.export(&mut text, Filter::Succeeded).await.unwrap(), 1200, "page by page");
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(exact)).count(), 1200);
    pool.stop().await;
}

#[tokio::test]
async fn exporting_a_missing_bulk_action_is_an_error() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let bulk = fairlane.bulk("customer-7", "unknown").opened_before().unwrap();
    let error = bulk.export(tokio::io::sink(), Filter::All).await.unwrap_err();
    assert!(matches!(error, fairlane::Error::NoSuchBulk(_)), "{error}");
}
