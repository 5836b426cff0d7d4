//! What must hold for a data directory when something is wrong with it.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::queue::*;
use fairlane_core::{BulkId, GroupId, RequestNumber, Trace, WorkerId};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Disk, DiskError, FILE, Field, Import, Record, Sync, export, owner_of};
use crate::embedded::tests::{jobs, type_a};
use crate::{DirectoryOptions, Durability, EmbeddedEngine, Engine, EngineError};

mod full;

use full::Mounted;

fn open(folder: &Path) -> Result<EmbeddedEngine, EngineError> {
    let options = DirectoryOptions { synced: false, reserve_bytes: 0, ..Default::default() };
    EmbeddedEngine::open(folder, options)
}

fn seam(engine: &EmbeddedEngine) -> &dyn Engine {
    engine
}

/// A folder with the rows of so many jobs.
async fn filled(count: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    seam(&engine).enqueue_all(jobs(count)).await.unwrap();
    folder
}

async fn backlog(engine: &EmbeddedEngine) -> u64 {
    seam(engine).call(InspectQueue).await.unwrap().backlog
}

async fn lease(
    engine: &EmbeddedEngine,
    request: u64,
    jobs_max: usize,
) -> Result<Vec<LeasedJob>, EngineError> {
    let worker = WorkerId::new("w").unwrap();
    let request = RequestNumber(request);
    let command = Lease { worker, request, types: vec![type_a()], jobs_max, lease_ms: 60_000 };
    match seam(engine).call(command).await? {
        Leased::Jobs { jobs, .. } => Ok(jobs),
        superseded => panic!("{superseded:?}"),
    }
}

async fn succeed(engine: &EmbeddedEngine, leased: Vec<LeasedJob>) -> Result<Settled, EngineError> {
    let end = |job: LeasedJob| Settlement {
        job: job.job,
        fence: job.fence,
        outcome: Outcome::Succeeded { result: Arc::from(&b"done"[..]) },
    };
    seam(engine).call(Settle { settlements: leased.into_iter().map(end).collect() }).await
}

fn message<T: std::fmt::Debug>(result: Result<T, EngineError>) -> String {
    result.unwrap_err().to_string()
}

#[tokio::test]
async fn a_directory_has_one_owner_and_says_who() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(owner_of(folder.path()), None);
    let engine = open(folder.path()).unwrap();
    engine.announce("http://localhost:1").await.unwrap();
    let pid = std::process::id().to_string();
    let told = message(open(folder.path()));
    assert!(told.contains("this process has") && told.contains("clone the Fairlane you have"), "{told}");
    let owner = owner_of(folder.path()).unwrap();
    assert_eq!((owner.pid, owner.address.as_deref()), (pid, Some("http://localhost:1")));
    drop(engine);
    assert_eq!(owner_of(folder.path()), None);
    open(folder.path()).unwrap();
}

#[tokio::test]
async fn an_owner_that_says_something_else_is_never_silent_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let addresses = ["http://127.0.0.1:1", "http://[2001:db8::1]:65535"];
    engine.announce(addresses[0]).await.unwrap();
    let (path, stop) = (folder.path().to_owned(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let reading = std::thread::spawn(move || {
        while !stopped.load(Ordering::SeqCst) {
            let owner = owner_of(&path).expect("it is owned all the time");
            assert!(owner.address.is_some(), "{owner:?}");
        }
    });
    for turn in 1..2000 {
        engine.announce(addresses[turn % 2]).await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    reading.join().unwrap();
}

#[tokio::test]
async fn leases_and_ends_survive_a_restart() {
    let folder = filled(5).await;
    let engine = open(folder.path()).unwrap();
    let mut leased = lease(&engine, 1, 3).await.unwrap();
    let kept = leased.split_off(1);
    succeed(&engine, leased).await.unwrap();
    let before = engine.dump().await.unwrap();
    drop(engine);
    let engine = open(folder.path()).unwrap();
    assert_eq!(before.difference(&engine.dump().await.unwrap()), "");
    engine.check().await.unwrap().unwrap();
    assert_eq!(lease(&engine, 1, 3).await.unwrap(), kept);
    assert_eq!(succeed(&engine, kept).await.unwrap().verdicts, [Verdict::Applied; 2]);
}

#[tokio::test]
async fn a_trace_survives_a_restart_and_an_import_and_older_rows_have_none() {
    let folder = filled(1).await;
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    let later = "ALTER TABLE jobs DROP COLUMN trace; ALTER TABLE bulks DROP COLUMN worker; \
        ALTER TABLE groups DROP COLUMN idle_at";
    file.execute_batch(&format!("{later}; PRAGMA user_version = 4")).unwrap();
    drop(file);
    let trace = Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let mut text_like = jobs(3);
    text_like.remove(0);
    text_like[0].trace = Some(trace.clone());
    text_like[1].trace = Some(Trace::from_packed(&[b'+'; Trace::PACKED_BYTES]).unwrap());
    let traces: Vec<Option<Trace>> =
        std::iter::once(None).chain(text_like.iter().map(|job| job.trace.clone())).collect();
    let engine = open(folder.path()).unwrap();
    seam(&engine).enqueue_all(text_like).await.unwrap();
    drop(engine);
    let copy = imported(folder.path(), |mut record| {
        // As bytes that are text come back from a file of lines.
        for (_, field) in record.fields.iter_mut().filter(|(name, _)| name == "trace") {
            if let Field::Bytes(bytes) = field
                && let Ok(text) = String::from_utf8(bytes.clone())
            {
                *field = Field::Text(text);
            }
        }
        Some(record)
    });
    for folder in [folder, copy] {
        let engine = open(folder.path()).unwrap();
        engine.check().await.unwrap().unwrap();
        let leased = lease(&engine, 1, 3).await.unwrap();
        assert_eq!(leased.into_iter().map(|job| job.trace).collect::<Vec<_>>(), traces);
    }
}

#[tokio::test]
async fn people_can_read_the_file() {
    let folder = filled(2).await;
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    let row: (String, String, String, String) = file
        .query_row("SELECT group_id, id, place, payload FROM job_list WHERE number = 2", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .unwrap();
    assert_eq!(row, ("g".into(), "1".into(), "lane".into(), "{}".into()));
}

#[test]
fn a_file_of_a_newer_version_or_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    file.execute_batch("PRAGMA user_version = 99").unwrap();
    let told = message(open(folder.path()));
    assert!(told.contains("newer Fairlane") && told.contains("99"), "{told}");
    file.execute_batch("PRAGMA user_version = 1; PRAGMA application_id = 7").unwrap();
    assert!(message(open(folder.path())).contains("not a file of Fairlane"));
}

async fn open_bulk(engine: &EmbeddedEngine, id: &str, payload: &[u8]) -> BulkRef {
    let bulk = BulkRef { group: GroupId::new("g").unwrap(), id: BulkId::new(id).unwrap() };
    let open =
        OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload: payload.into() };
    seam(engine).call(open).await.unwrap();
    bulk
}

/// Each time by another worker.
async fn take(engine: &EmbeddedEngine) -> Vec<LeasedBulk> {
    static TAKES: AtomicU64 = AtomicU64::new(0);
    take_as(engine, &format!("stranger {}", TAKES.fetch_add(1, Ordering::Relaxed))).await
}

async fn take_as(engine: &EmbeddedEngine, worker: &str) -> Vec<LeasedBulk> {
    let worker = WorkerId::new(worker).unwrap();
    let command = LeaseBulks { worker, bulks_max: 10, lease_ms: 60_000 };
    seam(engine).call(command).await.unwrap().bulks
}

#[tokio::test]
async fn a_bulk_action_that_had_ended_is_handed_out_once_across_restarts() {
    let folder = filled(0).await;
    let engine = open(folder.path()).unwrap();
    let bulk = open_bulk(&engine, "b", b"to whom").await;
    seam(&engine).call(CancelBulk { bulk: bulk.clone() }).await.unwrap();
    drop(engine);
    let engine = open(folder.path()).unwrap();
    let before = take_as(&engine, "aggregator").await;
    assert_eq!((before.len(), &*before[0].view.payload), (1, &b"to whom"[..]));
    assert_eq!(take(&engine).await, [], "it is in hand");
    drop(engine);
    let engine = open(folder.path()).unwrap();
    engine.check().await.unwrap().unwrap();
    let taken = take(&engine).await;
    assert_eq!(taken.len(), 1, "the aggregator has gone with its process, so another takes it at once");
    let finish = |fence| SettleBulk {
        bulk: bulk.clone(),
        fence,
        summary: b"told"[..].into(),
        outcome: Aggregation::Done,
        callback: None,
    };
    let late = seam(&engine).call(finish(before[0].fence)).await.unwrap();
    assert_eq!(late, BulkSettled(Verdict::Stale), "and the first comes too late");
    let finish = finish(taken[0].fence);
    for _ in 0..2 {
        let finished = seam(&engine).call(finish.clone()).await.unwrap();
        assert_eq!(finished, BulkSettled(Verdict::Applied));
    }
    drop(engine);
    let engine = open(folder.path()).unwrap();
    engine.check().await.unwrap().unwrap();
    assert_eq!(seam(&engine).call(finish).await.unwrap(), BulkSettled(Verdict::Applied));
    assert_eq!(take(&engine).await, []);
}

/// The folder's rows as `changed` gives them, in a folder of their own.
fn imported(folder: &Path, mut changed: impl FnMut(Record) -> Option<Record>) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let mut import = Import::begin(copy.path()).unwrap();
    export(folder, &mut |record| changed(record).map_or(Ok(()), |record| import.add(record))).unwrap();
    import.finish().unwrap();
    copy
}

/// A cancelled bulk action whose only job was dropped, and one that was finished.
async fn with_ended_bulks() -> TempDir {
    let folder = filled(0).await;
    let engine = open(folder.path()).unwrap();
    let bulk = open_bulk(&engine, "finished", b"").await;
    seam(&engine).call(SealBulk { bulk: bulk.clone(), expected: None }).await.unwrap();
    let fence = take(&engine).await[0].fence;
    let summary = b"told"[..].into();
    let finish = SettleBulk { bulk, fence, summary, outcome: Aggregation::Done, callback: None };
    seam(&engine).call(finish).await.unwrap();
    let bulk = open_bulk(&engine, "cancelled", b"to whom").await;
    let new = jobs(1).into_iter().map(|job| NewJob { bulk: Some(bulk.id.clone()), ..job });
    seam(&engine).enqueue_all(new).await.unwrap();
    seam(&engine).call(CancelBulk { bulk }).await.unwrap();
    assert_eq!(seam(&engine).call(Sweep { jobs_max: 10 }).await.unwrap().dropped, 1);
    drop(engine);
    folder
}

#[tokio::test]
async fn an_import_hands_out_what_was_to_be_aggregated_and_nothing_else() {
    let folder = with_ended_bulks().await;
    let as_they_are = imported(folder.path(), Some);
    let older = imported(folder.path(), |mut record| {
        record.fields.retain(|(name, _)| name != "aggregated");
        Some(record)
    });
    for copy in [as_they_are, older] {
        let engine = open(copy.path()).unwrap();
        engine.check().await.unwrap().unwrap();
        let taken = take(&engine).await;
        assert_eq!((taken.len(), &*taken[0].view.payload), (1, &b"to whom"[..]));
    }
}

#[tokio::test]
async fn an_import_that_lost_the_end_of_a_job_hands_its_bulk_action_out_when_that_ends_again() {
    let folder = with_ended_bulks().await;
    let copy = imported(folder.path(), |record| Some(record).filter(|record| record.table != "progress"));
    let engine = open(copy.path()).unwrap();
    engine.check().await.unwrap().unwrap();
    assert_eq!((take(&engine).await, backlog(&engine).await), (vec![], 1));
    assert_eq!(lease(&engine, 1, 1).await.unwrap(), []);
    let taken = take(&engine).await;
    assert_eq!((taken.len(), taken[0].view.total, taken[0].view.cancelled), (1, 2, 2));
}

/// What the steps after the first have added.
const LATER: &str = "
    ALTER TABLE bulks DROP COLUMN payload;
    ALTER TABLE types DROP COLUMN max_retry_count;
    ALTER TABLE bulks DROP COLUMN aggregated;
    ALTER TABLE jobs DROP COLUMN trace;
    ALTER TABLE bulks DROP COLUMN worker;
    ALTER TABLE groups DROP COLUMN idle_at";

#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up_to_date() {
    let folder = filled(3).await;
    let engine = open(folder.path()).unwrap();
    for id in ["open", "complete", "finished"] {
        let bulk = open_bulk(&engine, id, b"").await;
        if id != "open" {
            seam(&engine).call(SealBulk { bulk, expected: None }).await.unwrap();
        }
    }
    // Nothing is in hand: who had it was not kept by then.
    let outcomes = [Aggregation::Released { delay_ms: 0 }, Aggregation::Done];
    for (LeasedBulk { view, fence }, outcome) in take(&engine).await.into_iter().zip(outcomes) {
        let finish = SettleBulk { bulk: view.bulk, fence, summary: [].into(), outcome, callback: None };
        seam(&engine).call(finish).await.unwrap();
    }
    let before = engine.dump().await.unwrap();
    drop(engine);
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    file.execute_batch(&format!("{LATER}; PRAGMA user_version = 1")).unwrap();
    drop(file);
    let engine = open(folder.path()).unwrap();
    assert_eq!(before.difference(&engine.dump().await.unwrap()), "");
    engine.check().await.unwrap().unwrap();
    assert_eq!(lease(&engine, 1, 3).await.unwrap().len(), 3);
}

#[tokio::test]
async fn bulk_actions_that_ended_under_an_older_version_are_not_handed_out() {
    let folder = with_ended_bulks().await;
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    let as_it_was = "UPDATE bulks SET take_at = NULL; PRAGMA user_version = 1";
    file.execute_batch(&format!("{LATER}; {as_it_was}")).unwrap();
    drop(file);
    let engine = open(folder.path()).unwrap();
    engine.check().await.unwrap().unwrap();
    assert_eq!(take(&engine).await, []);
}

#[tokio::test]
async fn damage_names_the_file_and_the_remedy() {
    let folder = filled(2000).await;
    let path = folder.path().join(FILE);
    let whole = std::fs::read(&path).unwrap();
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(whole.len() as u64 / 2)).unwrap();
    file.write_all(&[0x5a; 8192]).unwrap();
    drop(file);
    let told = message(open(folder.path()));
    assert!(told.contains(FILE) && told.contains("damaged") && told.contains("data export"), "{told}");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(message(open(folder.path())).contains("damaged"));
    std::fs::write(&path, b"something else altogether, and long enough to be looked at").unwrap();
    assert!(message(open(folder.path())).contains("damaged"));
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(backlog(&open(folder.path()).unwrap()).await, 2000);
}

#[tokio::test]
async fn rows_that_contradict_each_other_are_damage() {
    let folder = filled(3).await;
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    for sql in [
        "UPDATE lanes SET standing = 'idle'",
        "INSERT INTO progress (number, place) VALUES (99, 'lane')",
        "INSERT INTO progress (number, place, fence, batch, worker) VALUES (1, 'in_flight', 5, 5, 'w')",
        "INSERT INTO progress (number, place) VALUES (1, 'elsewhere')",
        "INSERT INTO progress (number, place) VALUES (2, 'completed')",
        "UPDATE whole SET value = 'many' WHERE name = 'fence'",
        "UPDATE jobs SET id = '0'",
        "DELETE FROM lanes",
    ] {
        file.execute_batch(&format!("SAVEPOINT before; {sql}; RELEASE before")).unwrap();
        let copy = tempfile::tempdir().unwrap();
        file.execute_batch(&format!("VACUUM INTO '{}'", copy.path().join(FILE).display())).unwrap();
        let told = message(open(copy.path()));
        assert!(told.contains("damaged"), "{sql}: {told}");
        drop(copy);
        file.execute_batch("DELETE FROM progress").unwrap();
        file.execute_batch("UPDATE whole SET value = '0' WHERE value = 'many'").unwrap();
        file.execute_batch("UPDATE jobs SET id = number - 1; UPDATE lanes SET standing = 'active'").unwrap();
    }
}

#[test]
fn a_place_that_is_no_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "").unwrap();
    assert!(message(open(&path)).contains("cannot be used as a data directory"));
}

/// Nothing of a refused turn is left in memory, reads go on, and the next change is taken again.
#[tokio::test]
async fn a_write_that_fails_is_refused_and_leaves_nothing_behind() {
    let folder = filled(3).await;
    let engine = open(folder.path()).unwrap();
    let other = Connection::open(folder.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = engine.dump().await.unwrap();
    let told = message(seam(&engine).enqueue_all(jobs(9).split_off(5)).await);
    assert!(told.contains("locked by another program"), "{told}");
    assert_eq!(before.difference(&engine.dump().await.unwrap()), "");
    let told = message(lease(&engine, 1, 1).await);
    assert!(told.contains("locked by another program"), "{told}");
    assert_eq!(backlog(&engine).await, 3);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(lease(&engine, 1, 1).await.unwrap().len(), 1);
    seam(&engine).enqueue_all(jobs(9).split_off(5)).await.unwrap();
    engine.check().await.unwrap().unwrap();
    assert_eq!(backlog(&engine).await, 6);
}

#[tokio::test]
async fn interval_answers_first_and_writes_within_a_second_or_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |folder: &Path| -> u64 {
        let file = Connection::open(folder.join(FILE)).unwrap();
        file.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0)).unwrap()
    };
    let options =
        || DirectoryOptions { durability: Durability::Interval, reserve_bytes: 0, ..Default::default() };
    let engine = EmbeddedEngine::open(folder.path(), options()).unwrap();
    seam(&engine).enqueue_all(jobs(3)).await.unwrap();
    assert_eq!(rows(folder.path()), 0);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while rows(folder.path()) == 0 {
        assert!(std::time::Instant::now() < deadline, "nothing was written");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seam(&engine).enqueue_all(jobs(5)).await.unwrap();
    drop(engine);
    assert_eq!(rows(folder.path()), 5);
    assert_eq!(backlog(&EmbeddedEngine::open(folder.path(), options()).unwrap()).await, 5);
}

#[tokio::test]
async fn unused_space_is_given_back() {
    let folder = filled(0).await;
    let settings = Settings { completed_kept_max: 10, ..Settings::default() };
    let engine = open(folder.path()).unwrap();
    seam(&engine).call(SetQueue { settings }).await.unwrap();
    let large = jobs(5000).into_iter().map(|job| NewJob { payload: vec![b'x'; 2000].into(), ..job });
    seam(&engine).enqueue_all(large).await.unwrap();
    for request in 1..=10 {
        let leased = lease(&engine, request, 500).await.unwrap();
        succeed(&engine, leased).await.unwrap();
    }
    drop(engine);
    let pages = |disk: &Disk| -> u64 {
        disk.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
    };
    let mut disk = Disk::open(folder.path(), Sync::Never, 0).unwrap();
    let before = pages(&disk);
    for _ in 0..100 {
        if !disk.tidy().unwrap() {
            break;
        }
    }
    assert!(pages(&disk) * 2 < before, "{before} pages became {}", pages(&disk));
    assert_eq!(disk.integrity().unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_read_only_disk_is_reported() {
    let Some(mounted) = Mounted::small(8) else {
        return eprintln!("not run: this user may not mount a small disk");
    };
    let folder = mounted.0.path().join("queue");
    drop(open(&folder).unwrap());
    mounted.remount("remount,ro");
    let told = message(open(&folder));
    assert!(told.contains("Read-only") && told.contains("can write to"), "{told}");
    assert!(matches!(Disk::open(&folder, Sync::Each, 0), Err(DiskError::Folder { .. })));
}

#[cfg(unix)]
#[test]
fn payloads_are_private_in_a_directory_that_is_open_to_all() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let _disk = Disk::open(folder.path(), Sync::Each, 0).unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
    let rows: Vec<_> = files.filter(|file| file.file_name().to_string_lossy().starts_with(FILE)).collect();
    assert!(rows.len() > 1, "the file and its log: {rows:?}");
    for file in rows {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file:?}");
    }
}
