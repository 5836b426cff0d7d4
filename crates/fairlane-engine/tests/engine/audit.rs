//! An audit of a data directory with rows that were changed while it was closed.

use std::path::Path;
use std::sync::Arc;

use fairlane_core::queue::*;
use fairlane_core::{BulkId, GroupId, JobId, TypeId, WorkerId};
use fairlane_engine::{Engine, Leaser};
use rusqlite::Connection;
use tempfile::TempDir;

const FILE: &str = "fairlane.db";
const LEASE_MS: u64 = 60_000;

async fn open(folder: &Path) -> Arc<dyn Engine> {
    let address = format!("dir:{}", folder.display());
    fairlane_engine::open(&address, Settings::default()).await.expect("it can be opened")
}

fn group() -> GroupId {
    GroupId::new("g").expect("a name")
}

fn bulk() -> BulkRef {
    BulkRef { group: group(), id: BulkId::new("b").expect("a name") }
}

fn job(id: &str, bulk: Option<BulkId>) -> NewJob {
    NewJob {
        bulk,
        ..NewJob::new(
            JobRef { group: group(), id: JobId::new(id).expect("a name") },
            TypeId::new("t").expect("a name"),
            b"{}".as_slice().into(),
        )
    }
}

fn leaser(engine: &Arc<dyn Engine>) -> Leaser {
    Leaser::new(engine.clone(), WorkerId::new("w").expect("a name"))
}

async fn settle(engine: &Arc<dyn Engine>, leased: &[LeasedJob]) {
    let succeeded = || Outcome::Succeeded { result: b"".as_slice().into() };
    let settlements = leased.iter().map(|leased| Settlement {
        job: leased.job.clone(),
        fence: leased.fence,
        outcome: succeeded(),
    });
    let settled =
        engine.call(Settle { settlements: settlements.collect() }).await.expect("settle is answered");
    assert!(settled.verdicts.iter().all(|verdict| *verdict == Verdict::Applied));
}

/// A bulk action with one of its four jobs done and one leased, and a lane with the others.
async fn filled() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let engine = open(folder.path()).await;
    let opened = OpenBulk { bulk: bulk(), deadline_ms: None, failures_max: None, payload: [].into() };
    engine.call(opened).await.expect("open_bulk is answered");
    let new = ["1", "2", "3", "4"].map(|id| job(id, Some(bulk().id)));
    engine.enqueue_all(new).await.expect("enqueue is answered");
    engine.call(SealBulk { bulk: bulk(), expected: None }).await.expect("seal_bulk is answered");
    let mut leaser = leaser(&engine);
    let types = [TypeId::new("t").expect("a name")];
    let first = leaser.lease(&types, 1, LEASE_MS).await.expect("lease is answered").jobs;
    settle(&engine, &first).await;
    assert_eq!(leaser.lease(&types, 1, LEASE_MS).await.expect("lease is answered").jobs.len(), 1);
    folder
}

async fn words(engine: &Arc<dyn Engine>, repair: bool) -> Vec<String> {
    let report = engine.audit_all(repair, |_| {}).await.expect("audit is answered");
    assert!(!repair || report.remaining() == 0, "{report:?}");
    let words = report.findings.iter();
    words.map(|finding| format!("{} {}", finding.word(), finding.suspect)).collect()
}

/// Runs the remaining jobs, each once; the bulk action is complete then.
async fn drains(engine: &Arc<dyn Engine>) {
    let Ok(Some(view)) = engine.call(InspectGroup { group: group() }).await else {
        panic!("the group is there")
    };
    assert_eq!((view.backlog, view.in_flight), (2, 1));
    let types = [TypeId::new("t").expect("a name")];
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("other").expect("a name"));
    let rest = leaser.lease(&types, 10, LEASE_MS).await.expect("lease is answered").jobs;
    assert_eq!(rest.iter().map(|job| job.job.id.to_string()).collect::<Vec<_>>(), ["3", "4"]);
    settle(engine, &rest).await;
    let Ok(Some(held)) = engine.call(InspectJob { job: job("2", None).job }).await else {
        panic!("the job is there")
    };
    let fence = held.fence.expect("it is leased");
    let outcome = Outcome::Succeeded { result: b"".as_slice().into() };
    let last = Settlement { job: held.job, fence, outcome };
    let settled = engine.call(Settle { settlements: vec![last] }).await.expect("settle is answered");
    assert_eq!(settled.verdicts, [Verdict::Applied]);
    let Ok(Some(view)) = engine.call(InspectBulk { bulk: bulk() }).await else {
        panic!("the bulk action is there")
    };
    assert_eq!((view.state, view.succeeded), (BulkState::Aggregating, 4));
}

#[tokio::test]
async fn changed_rows_are_found_repaired_and_stay_repaired() {
    for (sql, expected) in [
        ("UPDATE bulks SET total = total + 2", "wrong-count g/b"),
        ("UPDATE lanes SET standing = 'paused'", "lane-out-of-order g"),
        ("UPDATE lanes SET standing = 'seat_parked'", "lane-out-of-order g"),
        ("UPDATE batches SET deadline = NULL", "active-without-lease g/2"),
        ("DELETE FROM bulk_ended", "orphan g/1"),
    ] {
        let folder = filled().await;
        assert_eq!(words(&open(folder.path()).await, false).await, [""; 0], "{sql}: before");
        let file = Connection::open(folder.path().join(FILE)).unwrap();
        assert!(file.execute(sql, []).unwrap() > 0, "{sql}");
        drop(file);
        let engine = open(folder.path()).await;
        for repair in [false, true] {
            let found = words(&engine, repair).await;
            assert!(found.iter().any(|line| line == expected), "{sql}: {found:?}");
        }
        assert_eq!(words(&engine, false).await, [""; 0], "{sql}: repaired");
        drop(engine);
        let engine = open(folder.path()).await;
        assert_eq!(words(&engine, false).await, [""; 0], "{sql}: and written");
        drains(&engine).await;
        assert_eq!(words(&engine, false).await, [""; 0], "{sql}: drained");
    }
}
