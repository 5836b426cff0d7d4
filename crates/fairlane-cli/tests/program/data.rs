//! `fairlane data`.

use std::io::Read;
use std::path::Path;

use fairlane_core::queue::{InspectQueue, JobRef, NewJob, Settings};
use fairlane_core::{GroupId, JobId, TypeId};
use tempfile::TempDir;

use super::running::fairlane;
use super::served::Served;
use super::work::until;

async fn fill(folder: &Path, jobs: usize) {
    let engine =
        fairlane_engine::open(&format!("dir:{}", folder.display()), Settings::default()).await.unwrap();
    let job = |number: usize| {
        NewJob::new(
            JobRef { group: GroupId::new("g").unwrap(), id: JobId::new(format!("j{number}")).unwrap() },
            TypeId::new("t").unwrap(),
            if number.is_multiple_of(2) { b"{}"[..].into() } else { b"\x00\xff"[..].into() },
        )
    };
    engine.enqueue_all((0..jobs).map(job)).await.unwrap();
}

async fn backlog(folder: &Path) -> u64 {
    let engine = fairlane_engine::attach(&format!("dir:{}", folder.display())).await.unwrap();
    engine.call(InspectQueue).await.unwrap().backlog
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_check_of_a_sound_directory_succeeds() {
    let folder = TempDir::new().unwrap();
    let queue = path(&folder, "queue");
    runtime().block_on(fill(Path::new(&queue), 10));
    let ended = fairlane(&["data", "check", &queue]);
    assert_eq!((ended.code, ended.stdout.contains("is sound: 10 jobs")), (0, true), "{}", ended.stderr);
    let checked = fairlane(&["data", "check", &queue, "--json"]).json();
    assert_eq!((checked["sound"].as_bool(), checked["jobs"].as_u64()), (Some(true), Some(10)));
    let vacuumed = fairlane(&["data", "vacuum", &queue, "--json"]).json();
    assert!(vacuumed["bytes_after"].as_u64().unwrap() > 0);
}

#[test]
fn an_imported_export_is_the_same_queue() {
    let folder = TempDir::new().unwrap();
    let (queue, copy, lines) = (path(&folder, "queue"), path(&folder, "copy"), path(&folder, "lines"));
    runtime().block_on(fill(Path::new(&queue), 10));
    let ended = fairlane(&["data", "export", &queue, "--out", &lines]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let exported = std::fs::read_to_string(&lines).unwrap();
    assert!(
        exported.contains(r#""id":"j3""#) && exported.contains(r#""payload_base64":"AP8=""#),
        "{exported}"
    );
    let imported = fairlane(&["data", "import", &copy, "--from", &lines, "--json"]).json();
    assert_eq!(imported["mended"].as_array().unwrap().len(), 0);
    assert_eq!(runtime().block_on(backlog(Path::new(&copy))), 10);
    let again = path(&folder, "again");
    let ended = fairlane(&["data", "export", &copy, "--out", &again]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&again).unwrap(), exported);
    fairlane(&["data", "import", &copy, "--from", &lines])
        .failed(2, &["holds a queue already", "name a directory that does not"]);
}

#[test]
fn an_incomplete_export_is_rejected_and_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let (queue, copy, lines) = (path(&folder, "queue"), path(&folder, "copy"), path(&folder, "lines"));
    runtime().block_on(fill(Path::new(&queue), 10));
    assert_eq!(fairlane(&["data", "export", &queue, "--out", &lines]).code, 0);
    let complete = std::fs::read_to_string(&lines).unwrap();
    let all: Vec<&str> = complete.lines().collect();
    let (end, rows) = all.split_last().unwrap();
    assert!(end.contains(&format!("\"rows\":{}", rows.len())), "{end}");
    for cut in [vec![], rows[..5].to_vec(), rows.to_vec(), [&rows[1..], &[end]].concat(), vec![end]] {
        std::fs::write(&lines, cut.join("\n")).unwrap();
        let ended = fairlane(&["data", "import", &copy, "--from", &lines]);
        ended.failed(2, &["the export is incomplete", "Nothing was imported"]);
        assert!(!Path::new(&copy).exists(), "{cut:?}");
    }
    std::fs::write(&lines, complete.clone() + rows[0]).unwrap();
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(Path::new(&copy).join("note"), "mine").unwrap();
    fairlane(&["data", "import", &copy, "--from", &lines]).failed(2, &["it follows the end line"]);
    let left: Vec<_> = std::fs::read_dir(&copy).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["note"], "existing files stay");
}

#[test]
fn the_readable_part_of_a_damaged_file_is_exported_and_repaired() {
    let folder = TempDir::new().unwrap();
    let (queue, copy, lines) = (path(&folder, "queue"), path(&folder, "copy"), path(&folder, "lines"));
    runtime().block_on(fill(Path::new(&queue), 3000));
    let file = Path::new(&queue).join("fairlane.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // The tables are made first, so what follows them is rows.
    let at = bytes.len() / 4 * 3;
    bytes[at..at + 8192].fill(0x5a);
    std::fs::write(&file, bytes).unwrap();
    fairlane(&["data", "check", &queue]).failed(1, &["is damaged", "fairlane.db"]);
    let ended = fairlane(&["data", "export", &queue, "--out", &lines]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("some rows could not be read"), "{}", ended.stderr);
    let imported = fairlane(&["data", "import", &copy, "--from", &lines]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let saved = runtime().block_on(backlog(Path::new(&copy)));
    assert!((2000..3000).contains(&saved), "{saved} jobs were saved");
    assert_eq!(fairlane(&["data", "check", &copy]).code, 0);
}

#[test]
fn jobs_are_discarded_only_when_confirmed() {
    let folder = TempDir::new().unwrap();
    let queue = path(&folder, "queue");
    runtime().block_on(fill(Path::new(&queue), 10));
    let discard = |words: &[&str]| fairlane(&[&["data", "discard", &queue], words].concat());
    let counted = discard(&["--state", "pending", "--dry-run", "--json"]).json();
    assert_eq!(
        (&counted["discarded"], &counted["jobs"], &counted["bytes"]),
        (&false.into(), &10.into(), &20.into())
    );
    discard(&["--state", "pending"])
        .failed(2, &["would discard 10 jobs with 20 bytes", "--yes", "--dry-run"]);
    discard(&["--state", "sleeping", "--yes"]).failed(2, &["completed, dead, cancelled, waiting, pending"]);
    discard(&["--yes"]).failed(2, &["--state"]);
    discard(&["--state", "pending", "--yes", "--dry-run"]).failed(2, &["cannot be used with"]);
    discard(&["--state", "pending", "--older-than", "soon", "--yes"]).failed(2, &["--older-than"]);
    fairlane(&["data", "discard", &path(&folder, "nothing"), "--state", "dead", "--yes"])
        .failed(2, &["holds no queue"]);
    for unselected in [&["--state", "dead"][..], &["--state", "pending", "--older-than", "1h"]] {
        assert_eq!(discard(&[unselected, &["--yes", "--json"]].concat()).json()["jobs"], 0);
    }
    let other = discard(&["--state", "pending", "--group", "other", "--yes", "--json"]).json();
    assert_eq!((&other["discarded"], &other["jobs"]), (&true.into(), &0.into()));
    assert_eq!(runtime().block_on(backlog(Path::new(&queue))), 10, "nothing has been discarded so far");
    let text = discard(&["--state", "completed,pending", "--group", "g", "--yes"]);
    assert!(text.stdout.contains("10 jobs with 20 bytes discarded"), "{} {}", text.stdout, text.stderr);
    assert_eq!(runtime().block_on(backlog(Path::new(&queue))), 0);
    assert_eq!(fairlane(&["data", "check", &queue]).code, 0);
}

#[test]
fn bad_input_is_rejected() {
    let folder = TempDir::new().unwrap();
    let (nothing, new, lines) = (path(&folder, "nothing"), path(&folder, "new"), path(&folder, "lines"));
    fairlane(&["data", "check", &nothing]).failed(2, &["holds no queue"]);
    assert!(!Path::new(&nothing).exists());
    fairlane(&["data", "export", &nothing]).failed(2, &["holds no queue"]);
    std::fs::write(&lines, "{\"table\": \"jobs\", \"speed\": 3}\n").unwrap();
    fairlane(&["data", "import", &new, "--from", &lines]).failed(2, &["line 1", "speed"]);
}

#[test]
fn a_directory_in_use_can_only_be_exported() {
    let folder = TempDir::new().unwrap();
    let queue = path(&folder, "queue");
    let url = format!("dir:{queue}");
    let engine = runtime().block_on(fairlane_engine::open(&url, Settings::default())).unwrap();
    for words in [&["check"][..], &["vacuum"], &["discard", "--state", "dead", "--yes"]] {
        let ended = fairlane(&[&["data", words[0], &queue], &words[1..]].concat());
        ended.failed(2, &["belongs to process", "stop it first", "docs/workers.md"]);
    }
    for words in [&["audit"][..], &["enqueue", "customer-7", "mail"], &["group", "list"]] {
        let ended = fairlane(&[words, &["--engine", &url]].concat());
        ended.failed(2, &["belongs to process", "stop it first", "docs/workers.md"]);
    }
    let ended = fairlane(&["data", "export", &queue]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains(r#""table":"whole""#), "{}", ended.stdout);
    drop(engine);
}

#[test]
fn an_export_with_a_stalled_reader_does_not_block_the_owners_log() {
    let served = Served::start();
    let payload = "x".repeat(2000);
    for id in 0..100 {
        let job = format!("{{\"group\":\"g\",\"id\":\"{id}\",\"type\":\"mail\",\"payload\":\"{payload}\"}}");
        assert_eq!(served.ask("POST", "/api/jobs", &job).unwrap().0, 201);
    }
    let mut export = std::process::Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(["data", "export"])
        .arg(served.path("queue"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut output = export.stdout.take().unwrap();
    let mut first = [0; 100];
    output.read_exact(&mut first).unwrap();
    let file = rusqlite::Connection::open(served.path("queue/fairlane.db")).unwrap();
    until("the log can be truncated", || {
        let truncated = file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, u64>(0));
        truncated.is_ok_and(|busy| busy == 0)
    });
    assert!(export.try_wait().unwrap().is_none(), "the export exceeds the buffer of the pipe");
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(export.wait().unwrap().success());
    assert!(rest.len() > 100 * payload.len(), "the export is complete: {} bytes", rest.len());
}
