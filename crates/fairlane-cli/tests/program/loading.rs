//! `fairlane bulk load`: how it identifies sources, and how it fails.

use std::io::Write;

use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::bulk::{NEWS, arrived, lines, load, load_through_pipe, start_load};
use super::queue::Queue;

fn total(queue: &Queue) -> u64 {
    queue.json(&["bulk", "show", NEWS[0], NEWS[1]])["total"].as_u64().unwrap()
}

#[test]
fn another_source_without_ids_is_rejected_without_append() {
    let queue = Queue::new();
    let first = queue.file("first.ndjson", &lines(3));
    let other = queue.file("other.ndjson", "{\"payload\": \"x\"}\n{\"payload\": \"y\"}\n");
    queue.json(&load(&first, &["--no-seal"]));
    let refused =
        ["was loaded from another source", "behind the 3 existing jobs", "--append", "Nothing was loaded"];
    queue.run(&load(&other, &["--no-seal"])).failed(2, &refused);
    assert_eq!(total(&queue), 3);
    let appended = queue.json(&load(&other, &["--append", "--no-seal"]));
    assert_eq!(
        (&appended["jobs"], &appended["created"], &appended["existing"]),
        (&2.into(), &2.into(), &0.into())
    );
    // Continuing names the position at which the source began, so that nothing is added twice.
    let again = queue.json(&load(&other, &["--append=3"]));
    assert_eq!(
        (&again["created"], &again["existing"], &again["sealed"]),
        (&0.into(), &2.into(), &true.into())
    );
    assert_eq!(total(&queue), 5);
    queue.run(&load(&other, &["--append"])).failed(2, &["is sealed and accepts no more jobs"]);
    queue.run(&load(&other, &[])).failed(2, &["is sealed and accepts no more jobs"]);
    assert_eq!(queue.json(&load(&first, &[]))["existing"], 3, "the first source is still recognised");
}

#[test]
fn a_line_removed_from_the_source_is_detected() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(5));
    queue.json(&load(&file, &["--no-seal"]));
    let removed = lines(5).replace("{\"payload\": 3}\n", "");
    let file = queue.file("news.ndjson", &removed);
    queue
        .run(&load(&file, &[]))
        .failed(2, &["news-3 (number 3 of the source)", "another payload", "--append"]);
    let ids = queue.file("ids.ndjson", "{\"id\": \"a\", \"payload\": 1}\n");
    assert_eq!(queue.json(&load(&ids, &["--no-seal"]))["created"], 1, "jobs with ids need no position");
}

#[test]
fn a_source_with_an_invalid_first_line_leaves_nothing_behind() {
    let queue = Queue::new();
    for (text, words) in [
        ("nonsense\n", "it is not a job"),
        ("\n{\"payload\": 1, \"cost\": 0}\n", "line 2: it cannot be enqueued: a cost must be between"),
        ("\u{1f}\u{8b}", "it is not a job"),
    ] {
        let file = queue.file("wrong.ndjson", text);
        queue.run(&load(&file, &[])).failed(2, &[words, "nothing was loaded or opened"]);
    }
    let untyped = queue.file("untyped.ndjson", "{\"payload\": 1}\n");
    let words = ["bulk", "load", NEWS[0], NEWS[1], &untyped];
    queue.run(&words).failed(2, &["line 1: \"type\" is missing and no default is set with --type"]);
    let foreign = queue.file("foreign.ndjson", "{\"recipient\": \"ada\"}\n");
    queue.run(&load(&foreign, &[])).failed(2, &["line 1:", "(--payload-lines)"]);
    let packed = queue.path("packed.ndjson.gz");
    std::fs::write(&packed, b"\x1f\x8b\x08\x00rest\n").unwrap();
    queue.run(&load(&packed, &[])).failed(2, &["compressed with gzip"]);
    let short = queue.file("short.ndjson", &lines(3));
    queue.run(&load(&short, &["--skip", "5"])).failed(2, &["the source has only 3 jobs"]);
    queue.run(&load(&short, &["--skip", "1", "--append"])).failed(2, &["--append=1000 --skip 200"]);
    assert!(!std::path::Path::new(&queue.path("queue")).exists());
}

#[test]
fn options_that_differ_from_those_at_opening_are_rejected() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(2));
    let same = ["--deadline", "2h", "--failures-max", "9", "--callback", "https://a.example/done"];
    queue.json(&load(&file, &same));
    assert_eq!(queue.json(&load(&file, &same))["existing"], 2);
    assert_eq!(queue.json(&load(&file, &[]))["existing"], 2, "an omitted option does not differ");
    let other = ["--deadline", "3h", "--failures-max", "8", "--callback", "https://b.example/done"];
    let named = [
        "--deadline 3h (it has 2h)",
        "--failures-max 8 (it has 9)",
        "--callback https://b.example/done (it has https://a.example/done)",
        "Nothing was loaded",
    ];
    queue.run(&load(&file, &other)).failed(2, &named);
    let plain = ["bulk", "load", NEWS[0], "plain", &file, "--type", "mail"];
    queue.json(&plain);
    queue.run(&[&plain[..], &["--deadline", "1h"]].concat()).failed(2, &["--deadline 1h (it has none)"]);
}

#[test]
fn a_closed_bulk_action_rejects_more_jobs() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(2));
    queue.json(&load(&file, &[]));
    let longer = queue.file("news.ndjson", &lines(3));
    let closed = |how: &str| {
        let ended = queue.run(&load(&longer, &[]));
        ended.failed(
            2,
            &[how, "accepts no more jobs", "it contains 2 jobs of this source", "Use a new bulk action"],
        );
        assert!(!ended.stderr.contains("stays open") && !ended.stderr.contains("again"), "{}", ended.stderr);
    };
    closed("news is sealed");
    queue.json(&["bulk", "cancel", NEWS[0], NEWS[1]]);
    closed("news is cancelled");
}

#[test]
fn an_invalid_line_for_a_closed_bulk_action_suggests_no_retry() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(2050));
    queue.json(&load(&file, &[]));
    let broken = lines(2050) + "nonsense\n";
    let closed = |how: &str| {
        let ended = load_through_pipe(&queue, &broken, &[]);
        ended.failed(2, &["line 2051", how, "has 2,050 jobs and accepts no more", "use a new bulk action"]);
        assert!(!ended.stderr.contains("open") && !ended.stderr.contains("again"), "{}", ended.stderr);
    };
    closed("news is sealed");
    queue.json(&["bulk", "cancel", NEWS[0], NEWS[1]]);
    closed("news is cancelled");
}

#[test]
fn an_empty_source_is_rejected_without_allow_empty() {
    let queue = Queue::new();
    let empty = queue.file("empty.ndjson", "\n");
    queue
        .run(&load(&empty, &[]))
        .failed(2, &["the source has no jobs", "nothing was loaded, opened", "--allow-empty"]);
    queue.run(&["bulk", "show", NEWS[0], NEWS[1]]).failed(2, &["there is no directory"]);
    let file = queue.file("news.ndjson", &lines(2));
    queue.json(&load(&file, &["--no-seal"]));
    queue.run(&load(&empty, &[])).failed(2, &["the source has no jobs"]);
    assert_eq!(queue.json(&["bulk", "show", NEWS[0], NEWS[1]])["sealed"], false);
    assert_eq!(queue.json(&load(&empty, &["--append", "--allow-empty"]))["sealed"], true);
}

#[test]
fn a_bulk_action_that_disappears_during_a_load_is_reported() {
    let server = RedisServer::start(ServerOptions::default());
    let mut loading = start_load(&server.url());
    loading.stdin.as_ref().unwrap().write_all(lines(250).as_bytes()).unwrap();
    // Jobs are sent in batches of 200; the rest is still buffered when the queue is emptied.
    arrived(&server, 200);
    assert_eq!(server.command(&["FLUSHALL"]), "OK");
    drop(loading.stdin.take());
    let ended = loading.wait_with_output().unwrap();
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{message}");
    assert!(message.contains("bulk action news is gone") && !message.contains("stays open"), "{message}");
}

#[test]
fn duplicate_ids_are_listed_with_their_lines() {
    let queue = Queue::new();
    let text: String = ["a", "b", "a", "c", "b", "d", "d", "c"]
        .iter()
        .map(|id| format!("{{\"id\": \"{id}\", \"payload\": 1}}\n"))
        .collect();
    let file = queue.file("twice.ndjson", &text);
    let ended = queue.run(&load(&file, &[]));
    ended.failed(2, &["a: lines 1 and 3", "b: lines 2 and 5", "d: lines 6 and 7", "--expected 4"]);
    assert!(!ended.stderr.contains("c: lines"), "only the first few are listed");
}

#[test]
fn payload_lines_keep_their_spaces_and_empty_lines_are_counted() {
    let queue = Queue::new();
    let file = queue.file("words.txt", "  \"a b\"  \r\n\n\"c\"\t\n");
    let loaded = queue.json(&load(&file, &["--payload-lines", "--no-seal"]));
    assert_eq!((&loaded["jobs"], &loaded["empty_lines"]), (&2.into(), &1.into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let payload = runtime.block_on(async {
        let fairlane = fairlane::Fairlane::attach(&queue.url()).await.unwrap();
        fairlane.job(NEWS[0], "news-1").view().await.unwrap().unwrap().payload
    });
    assert_eq!(&*payload, b"  \"a b\"  ");
    let text = queue.run(&load(&file, &["--payload-lines"])).stdout;
    assert!(text.contains("2 existing, 1 empty line skipped"), "{text}");
}

#[test]
fn an_interrupted_append_can_be_continued() {
    let queue = Queue::new();
    let first = queue.file("first.ndjson", &lines(2));
    queue.json(&load(&first, &["--no-seal"]));
    let other = lines(2050).replace("\": ", "\": 1");
    let hint = ["line 2051:", "loaded 2,000 jobs into", "with --append=2 --skip 2000"];
    load_through_pipe(&queue, &(other.clone() + "[]\n"), &["--append"]).failed(2, &hint);
    let corrected = queue.file("other.ndjson", &other);
    let loaded = queue.json(&load(&corrected, &["--append=2", "--skip", "2000"]));
    assert_eq!((&loaded["jobs"], &loaded["created"]), (&2050.into(), &50.into()));
    assert_eq!(total(&queue), 2052);
}
