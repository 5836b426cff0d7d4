//! `fairlane bulk load`: which source it takes for which, and how it ends before its end.

use std::io::Write;

use super::bulk::{NEWS, arrived, lines, load, start_load};
use super::queue::Queue;
use super::redis_server::RedisServer;

fn total(queue: &Queue) -> u64 {
    queue.json(&["bulk", "show", NEWS[0], NEWS[1]])["total"].as_u64().unwrap()
}

#[test]
fn another_source_without_ids_is_refused_until_it_is_appended() {
    let queue = Queue::new();
    let first = queue.file("first.ndjson", &lines(3));
    let other = queue.file("other.ndjson", "{\"payload\": \"x\"}\n{\"payload\": \"y\"}\n");
    queue.json(&load(&first, &["--no-seal"]));
    let refused =
        ["was loaded from another source", "behind the 3 jobs", "--append", "ids", "Nothing was loaded"];
    queue.run(&load(&other, &["--no-seal"])).failed(2, &refused);
    assert_eq!(total(&queue), 3);
    let appended = queue.json(&load(&other, &["--append", "--no-seal"]));
    assert_eq!(
        (&appended["jobs"], &appended["created"], &appended["existing"]),
        (&2.into(), &2.into(), &0.into())
    );
    // Going on with it names where it began, so that nothing is added twice.
    let again = queue.json(&load(&other, &["--append=3"]));
    assert_eq!(
        (&again["created"], &again["existing"], &again["sealed"]),
        (&0.into(), &2.into(), &true.into())
    );
    assert_eq!(total(&queue), 5);
    queue.run(&load(&other, &["--append"])).failed(2, &["is sealed", "it takes no more jobs"]);
    queue.run(&load(&other, &[])).failed(2, &["is sealed", "it takes no more jobs"]);
    assert_eq!(queue.json(&load(&first, &[]))["existing"], 3, "the first source is still known");
}

#[test]
fn a_line_removed_from_the_source_is_noticed() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(5));
    queue.json(&load(&file, &["--no-seal"]));
    let removed = lines(5).replace("{\"payload\": 3}\n", "");
    let file = queue.file("news.ndjson", &removed);
    queue
        .run(&load(&file, &[]))
        .failed(2, &["news-3 (number 3 of the source)", "another payload", "--append"]);
    let ids = queue.file("ids.ndjson", "{\"id\": \"a\", \"payload\": 1}\n");
    assert_eq!(queue.json(&load(&ids, &["--no-seal"]))["created"], 1, "ids need no position");
}

#[test]
fn a_source_that_cannot_begin_leaves_nothing_behind() {
    let queue = Queue::new();
    for (text, words) in [
        ("nonsense\n", "it is not a job"),
        ("\n{\"payload\": 1, \"cost\": 0}\n", "line 2: it cannot be enqueued: a cost must be between"),
        ("\u{1f}\u{8b}", "it is not a job"),
    ] {
        let file = queue.file("wrong.ndjson", text);
        queue.run(&load(&file, &[])).failed(2, &[words, "nothing was loaded, and nothing opened"]);
    }
    let packed = queue.path("packed.ndjson.gz");
    std::fs::write(&packed, b"\x1f\x8b\x08\x00rest\n").unwrap();
    queue.run(&load(&packed, &[])).failed(2, &["compressed with gzip"]);
    let short = queue.file("short.ndjson", &lines(3));
    queue.run(&load(&short, &["--skip", "5"])).failed(2, &["there are only 3 lines with a job"]);
    queue.run(&load(&short, &["--skip", "1", "--append"])).failed(2, &["--append=1000 --skip 200"]);
    assert!(!std::path::Path::new(&queue.path("queue")).exists());
}

#[test]
fn options_that_differ_from_those_it_was_opened_with_are_named() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(2));
    let same = ["--deadline", "2h", "--failures-max", "9", "--callback", "https://a.example/done"];
    queue.json(&load(&file, &same));
    assert_eq!(queue.json(&load(&file, &same))["existing"], 2);
    assert_eq!(queue.json(&load(&file, &[]))["existing"], 2, "what is not said does not differ");
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
fn what_takes_no_more_jobs_is_not_said_to_stay_open() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(2));
    queue.json(&load(&file, &[]));
    let longer = queue.file("news.ndjson", &lines(3));
    let closed = |how: &str| {
        let ended = queue.run(&load(&longer, &[]));
        ended.failed(
            2,
            &[how, "it takes no more jobs", "2 jobs of the source are in it", "name a new bulk action"],
        );
        assert!(!ended.stderr.contains("stays open") && !ended.stderr.contains("again"), "{}", ended.stderr);
    };
    closed("news is sealed");
    queue.json(&["bulk", "cancel", NEWS[0], NEWS[1]]);
    closed("news is CANCELLED");
}

#[test]
fn a_broken_line_does_not_reopen_what_takes_no_more_jobs() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(2));
    queue.json(&load(&file, &[]));
    let broken = queue.file("news.ndjson", &(lines(2) + "nonsense\n"));
    let closed = |how: &str| {
        let ended = queue.run(&load(&broken, &[]));
        ended.failed(2, &["line 3", how, "takes no more jobs than the 2 it has", "name a new bulk action"]);
        assert!(!ended.stderr.contains("open") && !ended.stderr.contains("again"), "{}", ended.stderr);
    };
    closed("news is sealed");
    queue.json(&["bulk", "cancel", NEWS[0], NEWS[1]]);
    closed("news is CANCELLED");
}

#[test]
fn an_empty_source_is_not_sealed_unless_that_is_meant() {
    let queue = Queue::new();
    let empty = queue.file("empty.ndjson", "\n");
    queue.run(&load(&empty, &[])).failed(2, &["no job in the source", "nothing opened", "--allow-empty"]);
    queue.run(&["bulk", "show", NEWS[0], NEWS[1]]).failed(2, &["there is no directory"]);
    let file = queue.file("news.ndjson", &lines(2));
    queue.json(&load(&file, &["--no-seal"]));
    queue.run(&load(&empty, &[])).failed(2, &["no job in the source"]);
    assert_eq!(queue.json(&["bulk", "show", NEWS[0], NEWS[1]])["sealed"], false);
    assert_eq!(queue.json(&load(&empty, &["--append", "--allow-empty"]))["sealed"], true);
}

#[test]
fn a_bulk_action_that_is_gone_meanwhile_is_said_to_be() {
    let server = RedisServer::start();
    let mut loading = start_load(&server.url());
    loading.stdin.as_ref().unwrap().write_all(lines(250).as_bytes()).unwrap();
    // 200 jobs are sent together; the rest is in its hands when all is taken away.
    arrived(&server, 200);
    assert_eq!(server.ask("FLUSHALL").unwrap().trim(), "+OK");
    drop(loading.stdin.take());
    let ended = loading.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("bulk action news is gone") && !said.contains("stays open"), "{said}");
}

#[test]
fn ids_that_stand_twice_are_named_with_their_lines() {
    let queue = Queue::new();
    let text: String = ["a", "b", "a", "c", "b", "d", "d", "c"]
        .iter()
        .map(|id| format!("{{\"id\": \"{id}\", \"payload\": 1}}\n"))
        .collect();
    let file = queue.file("twice.ndjson", &text);
    let ended = queue.run(&load(&file, &[]));
    ended.failed(2, &["a: lines 1 and 3", "b: lines 2 and 5", "d: lines 6 and 7", "--expected 4"]);
    assert!(!ended.stderr.contains("c: lines"), "the first few are enough");
}

#[test]
fn payload_lines_keep_their_blanks_and_empty_ones_are_counted() {
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
    let told = queue.run(&load(&file, &["--payload-lines"])).stdout;
    assert!(told.contains("2 there before, 1 empty lines skipped"), "{told}");
}

#[test]
fn a_load_that_appends_and_is_stopped_half_way_says_where_it_began() {
    let queue = Queue::new();
    let first = queue.file("first.ndjson", &lines(2));
    queue.json(&load(&first, &["--no-seal"]));
    let other = queue.file("other.ndjson", &(lines(250).replace("\": ", "\": 1") + "[]\n"));
    let way_on = ["line 251:", "200 jobs of the source are in", "with --append=2 --skip 200"];
    queue.run(&load(&other, &["--append"])).failed(2, &way_on);
    let mended = queue.file("other.ndjson", &lines(250).replace("\": ", "\": 1"));
    let loaded = queue.json(&load(&mended, &["--append=2", "--skip", "200"]));
    assert_eq!((&loaded["jobs"], &loaded["created"]), (&250.into(), &50.into()));
    assert_eq!(total(&queue), 252);
}

#[test]
fn a_callback_that_finds_no_room_for_its_type_is_refused_before_anything_is_opened() {
    let queue = Queue::new();
    for number in 0..64 {
        queue.json(&["type", "set", &format!("type-{number}"), "--resume"]);
    }
    let file = queue.file("news.ndjson", &lines(1));
    let with_callback = ["--callback", "https://customer-7.example/done"];
    queue.run(&load(&file, &with_callback)).failed(2, &["64 types already, and callbacks need one"]);
    queue.run(&["bulk", "show", NEWS[0], NEWS[1]]).failed(2, &["no bulk action news"]);
}
