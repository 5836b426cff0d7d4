//! An audit of a damaged queue in Redis: each damage is found under its name and repaired, and the
//! queue then drains with every surviving job done exactly once.

mod growth;
mod scene;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlane_conformance::subject::{group_id, job, succeeded, type_id};
use fairlane_core::WorkerId;
use fairlane_core::queue::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, Leaser};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use scene::{Damage, Scene};

/// Inflicts each damage, and checks its findings, its repair and the jobs that are lost with it.
async fn each_is_found_and_repaired(damages: &[Damage]) {
    let server = RedisServer::start(ServerOptions::default());
    for damage in damages {
        let scene = Scene::set(&server, damage.name).await;
        assert_eq!(scene.audit(false).await, [""; 0], "{}: before", damage.name);
        (damage.inflict)(&scene);
        let found = scene.audit(false).await;
        for expected in damage.found {
            assert!(
                found.iter().any(|line| line == expected),
                "{}: {expected:?} not in {found:?}",
                damage.name
            );
        }
        assert_eq!(scene.audit(false).await, found, "{}: an audit changes nothing", damage.name);
        scene.repair().await;
        assert_eq!(scene.audit(false).await, [""; 0], "{}: after", damage.name);
        let scene = scene.drain(damage.lost).await;
        assert_eq!(scene.audit(false).await, [""; 0], "{}: drained", damage.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leased_job_without_a_deadline_is_given_one() {
    each_is_found_and_repaired(&[
        Damage {
            name: "a deadline is gone",
            inflict: |scene| drop(scene.raw(&["ZREM", "deadlines", &scene.batch()])),
            found: &["active-without-lease job g/1"],
            lost: &[],
        },
        Damage {
            name: "a lease is gone",
            inflict: |scene| {
                scene.raw(&["DEL", &format!("lease:{}", scene.batch())]);
                scene.raw(&["ZREM", "deadlines", &scene.batch()]);
            },
            found: &["active-without-lease job g/1"],
            lost: &[],
        },
        Damage {
            name: "a lease is gone and its deadline is not",
            inflict: |scene| drop(scene.raw(&["DEL", &format!("lease:{}", scene.batch())])),
            found: &["active-without-lease job g/1"],
            lost: &[],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_lease_was_gone_is_taken_back_when_its_worker_is_silent() {
    let server = RedisServer::start(ServerOptions::default());
    let scene = Scene::set(&server, "silent").await;
    scene.raw(&["DEL", "deadlines"]);
    scene.queue.advance_reclaiming_ms(600_000).await;
    assert_eq!(scene.queue.queue_view().await.in_flight, 8, "without a deadline they stay");
    scene.repair().await;
    scene.queue.advance_reclaiming_ms(120_000).await;
    scene.queue.reclaim(100).await;
    assert_eq!(scene.queue.queue_view().await.in_flight, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_unlike_a_recount_are_set() {
    each_is_found_and_repaired(&[
        Damage {
            name: "seats of a group",
            inflict: |scene| scene.add_to_counts("g", 2, 0),
            found: &["seat-without-job group g"],
            lost: &[],
        },
        Damage {
            name: "seats that a lane waits for",
            inflict: |scene| scene.add_to_counts("seated", 1, 0),
            found: &["seat-without-job group seated"],
            lost: &[],
        },
        Damage {
            name: "too few seats of a group",
            inflict: |scene| scene.add_to_counts("g", -1, 0),
            found: &["wrong-count group g"],
            lost: &[],
        },
        Damage {
            name: "a backlog below zero",
            inflict: |scene| scene.add_to_counts("g", 0, -100),
            found: &["wrong-count group g"],
            lost: &[],
        },
        Damage {
            name: "seats of a type",
            inflict: |scene| drop(scene.raw(&["HINCRBY", "type:t", "in_flight", "5"])),
            found: &["seat-without-job type t"],
            lost: &[],
        },
        Damage {
            name: "waiting jobs",
            inflict: |scene| scene.set_waiting("g", -3),
            found: &["wrong-count group g"],
            lost: &[],
        },
        Damage {
            name: "the queue",
            inflict: |scene| {
                scene.raw(&["HINCRBY", "partition", "backlog", "7"]);
                scene.raw(&["HINCRBY", "partition", "completed", "-1"]);
            },
            found: &["wrong-count queue the queue", "wrong-count queue the queue"],
            lost: &[],
        },
        Damage {
            name: "jobs of a batch",
            inflict: |scene| drop(scene.raw(&["HINCRBY", &format!("lease:{}", scene.batch()), "left", "1"])),
            found: &["wrong-count lease"],
            lost: &[],
        },
        Damage {
            name: "jobs of a bulk action",
            inflict: |scene| drop(scene.raw(&["HINCRBY", "bulk:1", "total", "2"])),
            found: &["wrong-count bulk action h/b"],
            lost: &[],
        },
        Damage {
            name: "lanes of an order",
            inflict: |scene| scene.set_active(9),
            found: &["wrong-count type t"],
            lost: &[],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_in_two_lists_is_left_in_one() {
    each_is_found_and_repaired(&[
        Damage {
            name: "leased and in its lane",
            inflict: |scene| drop(scene.raw(&["RPUSH", "group:g:jobs:1:t", "1"])),
            found: &["two-places job g/1"],
            lost: &[],
        },
        Damage {
            name: "twice in its lane",
            inflict: |scene| drop(scene.raw(&["RPUSH", "group:g:jobs:1:t", "6"])),
            found: &["two-places job g/6"],
            lost: &[],
        },
        Damage {
            name: "in its lane and waiting",
            inflict: |scene| drop(scene.raw(&["ZADD", "non-ready-queue", "1700000000000001", "1:t:g:6"])),
            found: &["two-places job g/6"],
            lost: &[],
        },
        Damage {
            name: "in two lanes",
            inflict: |scene| drop(scene.raw(&["RPUSH", "group:g:returned:2:t", "6"])),
            found: &["two-places job g/6"],
            lost: &[],
        },
        Damage {
            name: "completed and in its lane",
            inflict: |scene| drop(scene.raw(&["RPUSH", "group:g:jobs:1:t", "done"])),
            found: &["two-places job g/done"],
            lost: &[],
        },
        Damage {
            name: "dead and leased",
            inflict: |scene| {
                let held = scene.raw(&["HGET", "in-flight", "g:1"]);
                scene.raw(&["HSET", "in-flight", "g:dead", &held]);
            },
            found: &["two-places job g/dead"],
            lost: &[],
        },
        Damage {
            name: "cancelled in its lane, twice",
            inflict: |scene| drop(scene.raw(&["RPUSH", "group:g:jobs:1:t", "cancelled"])),
            found: &["two-places job g/cancelled"],
            lost: &[],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_in_no_list_goes_back_to_its_lane() {
    each_is_found_and_repaired(&[
        Damage {
            name: "out of its lane",
            inflict: |scene| drop(scene.raw(&["LREM", "group:g:jobs:1:t", "1", "6"])),
            found: &["no-place job g/6"],
            lost: &[],
        },
        Damage {
            name: "all lists of a group",
            inflict: |scene| drop(scene.raw(&["DEL", "group:g:jobs:1:t"])),
            found: &["no-place job g/5", "no-place job g/6", "no-place job g/cancelled"],
            lost: &[],
        },
        Damage {
            name: "waits no more",
            inflict: |scene| drop(scene.raw(&["ZREM", "non-ready-queue", "1:t:g:later"])),
            found: &["no-place job g/later"],
            lost: &[],
        },
        Damage {
            name: "leased no more",
            inflict: |scene| drop(scene.raw(&["HDEL", "in-flight", "g:1"])),
            found: &["no-place job g/1", "seat-without-job group g", "seat-without-job type t"],
            lost: &[],
        },
        Damage {
            name: "in the lane of another level",
            inflict: |scene| {
                scene.raw(&["LREM", "group:g:jobs:1:t", "1", "6"]);
                scene.raw(&["RPUSH", "group:g:jobs:0:t", "6"]);
            },
            found: &["no-place job g/6", "lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "set aside no more",
            inflict: |scene| drop(scene.raw(&["DEL", "bulk:2:held"])),
            found: &["no-place job h/held-1"],
            lost: &[],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_out_of_order_is_put_where_it_belongs() {
    each_is_found_and_repaired(&[
        Damage {
            name: "has jobs and stands idle",
            inflict: |scene| {
                scene.leave_order("g");
                scene.set_lane("g", "I:0:0:0:0:0");
            },
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "unknown to its group",
            inflict: |scene| {
                scene.leave_order("g");
                scene.raw(&["HDEL", "group:g:meta", "lane:1:t"]);
            },
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "active and not in its order",
            inflict: |scene| scene.leave_order("g"),
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "twice in its order",
            inflict: |scene| drop(scene.raw(&["ZADD", "fair-queue:normal:t", "3", "0000000000009999:g"])),
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "a group that does not exist",
            inflict: |scene| drop(scene.raw(&["ZADD", "fair-queue:normal:t", "0", "0000000000009999:ghost"])),
            found: &["lane-out-of-order group ghost"],
            lost: &[],
        },
        Damage {
            name: "idle and in its order",
            inflict: |scene| scene.set_lane("g", "I:0:0:0:0:0"),
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_without_a_wake_up_is_put_back_into_its_order() {
    each_is_found_and_repaired(&[
        Damage {
            name: "parked and not among the parked",
            inflict: |scene| drop(scene.raw(&["ZREM", "parked", "1:t:slow"])),
            found: &["lane-out-of-order group slow"],
            lost: &[],
        },
        Damage {
            name: "among the parked and not parked",
            inflict: |scene| drop(scene.raw(&["ZADD", "parked", "1", "1:t:g"])),
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "waits to be cleared and not among those to be cleared",
            inflict: |scene| {
                scene.leave_order("g");
                scene.set_lane("g", "C:0:0:0:5:0");
            },
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "waits for a seat that is free",
            inflict: |scene| {
                scene.leave_order("g");
                scene.set_lane("g", "S:0:0:0:0:0");
            },
            found: &["lane-out-of-order group g", "wrong-count group g"],
            lost: &[],
        },
        Damage {
            name: "waits for a group that is not paused",
            inflict: |scene| {
                scene.leave_order("g");
                scene.set_lane("g", "P:0:0:0:0:0");
            },
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
        Damage {
            name: "does not know of jobs that came back",
            inflict: |scene| {
                scene.raw(&["LREM", "group:g:jobs:1:t", "1", "6"]);
                scene.raw(&["RPUSH", "group:g:returned:1:t", "6"]);
            },
            found: &["lane-out-of-order group g"],
            lost: &[],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_entries_of_jobs_that_do_not_exist_are_removed() {
    each_is_found_and_repaired(&[
        Damage {
            name: "the row of a job in its lane",
            inflict: |scene| drop(scene.raw(&["HDEL", "group:g:rows", "6"])),
            found: &["orphan job g/6"],
            lost: &["g/6"],
        },
        Damage {
            name: "the row of a leased job",
            inflict: |scene| drop(scene.raw(&["HDEL", "group:g:rows", "1"])),
            found: &["orphan job g/1"],
            lost: &["g/1"],
        },
        Damage {
            name: "the row of a waiting job",
            inflict: |scene| drop(scene.raw(&["HDEL", "group:g:rows", "later"])),
            found: &["orphan job g/later"],
            lost: &["g/later"],
        },
        Damage {
            name: "the row of a dead job",
            inflict: |scene| drop(scene.raw(&["HDEL", "group:g:rows", "dead"])),
            found: &["orphan job g/dead"],
            lost: &[],
        },
        Damage {
            name: "the rows of a dead job",
            inflict: |scene| drop(scene.raw(&["HDEL", "group:g:rows", "dead", ":dead"])),
            found: &["orphan job g/dead"],
            lost: &[],
        },
        Damage {
            name: "the row of a job of a bulk action",
            inflict: |scene| drop(scene.raw(&["HDEL", "group:h:rows", "b-3"])),
            found: &["orphan job h/b-3", "wrong-count bulk action h/b"],
            lost: &["h/b-3"],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_and_missing_list_entries_are_corrected() {
    each_is_found_and_repaired(&[
        Damage {
            name: "a job that is not dead among the dead",
            inflict: |scene| drop(scene.raw(&["ZADD", "failed", "1700000000000000", "g:6"])),
            found: &["orphan job g/6"],
            lost: &[],
        },
        Damage {
            name: "a finished job that nothing would remove",
            inflict: |scene| drop(scene.raw(&["DEL", "completed"])),
            found: &["orphan job g/done", "wrong-count queue the queue"],
            lost: &[],
        },
        Damage {
            name: "a dead job that nothing would remove",
            inflict: |scene| drop(scene.raw(&["ZREM", "failed", "g:dead"])),
            found: &["orphan job g/dead"],
            lost: &[],
        },
        Damage {
            name: "an ended job of a bulk action that nothing would remove",
            inflict: |scene| drop(scene.raw(&["DEL", "bulk:1:ended"])),
            found: &["orphan job h/b-1"],
            lost: &[],
        },
        Damage {
            name: "a group without jobs among those with some",
            inflict: |scene| drop(scene.raw(&["ZADD", "active-groups", "0", "ghost"])),
            found: &["orphan group ghost"],
            lost: &[],
        },
        Damage {
            name: "a group with jobs that is not among them",
            inflict: |scene| drop(scene.raw(&["ZREM", "active-groups", "g"])),
            found: &["orphan group g"],
            lost: &[],
        },
        Damage {
            name: "a cancelled bulk action that would not be aggregated",
            inflict: |scene| drop(scene.raw(&["DEL", "aggregating"])),
            found: &["orphan bulk action h/dropped"],
            lost: &[],
        },
        Damage {
            name: "a bulk action that would be aggregated too early",
            inflict: |scene| drop(scene.raw(&["ZADD", "aggregating", "5", "0000000000000001"])),
            found: &["orphan bulk action h/b"],
            lost: &[],
        },
        Damage {
            name: "a bulk action that would be aggregated twice",
            inflict: |scene| drop(scene.raw(&["HSET", "bulk:3", "aggregated", "1"])),
            found: &["orphan bulk action h/dropped"],
            lost: &[],
        },
        Damage {
            name: "a deadline of nothing",
            inflict: |scene| drop(scene.raw(&["ZADD", "deadlines", "1", "0000000000000123"])),
            found: &["orphan lease 123"],
            lost: &[],
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_damages_at_once_are_repaired_together() {
    each_is_found_and_repaired(&[Damage {
        name: "everything",
        inflict: |scene| {
            scene.leave_order("g");
            scene.raw(&["LREM", "group:g:jobs:1:t", "1", "6"]);
            scene.raw(&["HDEL", "in-flight", "h:1"]);
            scene.raw(&["ZREM", "deadlines", &scene.batch()]);
            scene.add_to_counts("g", -4, 11);
            scene.add_to_counts("h", 3, -20);
            scene.raw(&["HINCRBY", "partition", "backlog", "-50"]);
            scene.raw(&["RPUSH", "group:h:jobs:1:t", "b-3", "b-3", "unknown"]);
            scene.set_active(0);
        },
        found: &[
            "lane-out-of-order group g",
            "no-place job g/6",
            "two-places job h/b-3",
            "orphan job h/unknown",
        ],
        lost: &[],
    }])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_time_past_its_half_is_a_warning_and_nothing_is_repaired() {
    let server = RedisServer::start(ServerOptions::default());
    let scene = Scene::set(&server, "virtual time").await;
    scene.raw(&["HSET", "type:t", "virtual_time", "4503599627370496"]);
    for repair in [false, true] {
        let report = scene.report(repair).await;
        let names: Vec<&str> = report.findings.iter().map(Finding::word).collect();
        assert_eq!((names, report.remaining()), (vec!["virtual-time-high"], 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_too_large_for_one_step_is_reported() {
    let server = RedisServer::start(ServerOptions::default());
    let scene = Scene::set(&server, "large").await;
    let waiting = "for i = 1, 20001 do redis.call('ZADD', KEYS[1], 1e17, '1:t:other:' .. i) end return ''";
    scene.raw(&["EVAL", waiting, "1", "non-ready-queue"]);
    let suspects = vec![Suspect::Group(group_id("g")), Suspect::Backlog(group_id("g")), Suspect::Queue];
    let audited = scene.queue.engine.call(Audit { suspects: suspects.clone(), repair: false }).await.unwrap();
    assert_eq!(audited, Audited { looked_at: 1, too_large: false, findings: vec![] }, "the rest is not done");
    let rest = suspects[1..].to_vec();
    let audited = scene.queue.engine.call(Audit { suspects: rest, repair: false }).await.unwrap();
    assert_eq!(audited, Audited { looked_at: 1, too_large: true, findings: vec![] }, "it was tried alone");
}

/// The backlog of a group from which on no jobs are added for some rounds. One step of an audit reads
/// 20,000 entries, and all groups share some of the lists.
const BACKLOG_MAX: u64 = 500;

/// Enqueues, leases and settles as fast as possible until `stop` is set.
async fn work(engine: Arc<dyn Engine>, number: usize, stop: Arc<AtomicBool>) -> usize {
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new(format!("w{number}")).expect("a name"));
    let (types, mut done, mut round, mut full_until) = ([type_id("t")], 0, 0, 0);
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let new = (0..20).map(|index| {
            let mut new = job(&format!("g{}", (round + index) % 7), &format!("{number}-{round}-{index}"));
            new.delay_ms = if index % 5 == 0 { 10 } else { 0 };
            new
        });
        if round >= full_until {
            let backlogs = engine.enqueue_all(new).await.expect("it is answered").backlogs;
            full_until = if backlogs.iter().any(|backlog| *backlog > BACKLOG_MAX) { round + 10 } else { 0 };
        }
        let leased = leaser.lease(&types, 30, 30_000).await.expect("it is answered").jobs;
        let outcome = |index: usize| match index % 9 {
            0 => Outcome::Released,
            1 => Outcome::Retry { delay_ms: 1, reason: Arc::from(&b"again"[..]) },
            _ => succeeded(),
        };
        let ended = leased.iter().enumerate().map(|(index, job)| Settlement {
            job: job.job.clone(),
            fence: job.fence,
            outcome: outcome(index),
        });
        engine.call(Settle { settlements: ended.collect() }).await.expect("it is answered");
        engine.call(Sweep { jobs_max: 10 }).await.expect("it is answered");
        done += leased.len();
    }
    done
}

async fn audits_while_others_work(settings: Settings) {
    let server = RedisServer::start(ServerOptions::default());
    let connected =
        RedisEngine::connect(&server.url(), RedisOptions::default()).await.expect("Redis is there");
    let engine: Arc<dyn Engine> = Arc::new(connected);
    engine
        .call(SetQueue { settings: Settings { completed_kept_max: 500, ..settings } })
        .await
        .expect("it is answered");
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> =
        (0..3).map(|number| tokio::spawn(work(engine.clone(), number, stop.clone()))).collect();
    let admitting = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move {
            while !stop.load(Ordering::Relaxed) {
                engine.call(Admit { jobs_max: 50 }).await.expect("it is answered");
                engine.call(Promote { jobs_max: 50 }).await.expect("it is answered");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let mut looked_at = 0;
    for round in 0..15 {
        let report = engine.audit_all(round % 2 == 1, |_| {}).await.expect("it is answered");
        assert_eq!((report.findings, report.too_large), (vec![], vec![]), "round {round}");
        looked_at += report.looked_at;
    }
    stop.store(true, Ordering::Relaxed);
    let mut done = 0;
    for worker in workers {
        done += worker.await.expect("it is answered");
    }
    admitting.await.expect("it is answered");
    assert!(done > 100 && looked_at > 100, "{done} jobs done, {looked_at} suspects");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_while_producers_and_workers_run_finds_nothing() {
    audits_while_others_work(Settings::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_of_a_busy_classic_queue_finds_nothing() {
    audits_while_others_work(fairlane_conformance::subject::classic(5000)).await;
}
