//! `enqueue`: the same id twice is one job, and a different job under it is reported; a lane turns
//! active only from idle.

mod bytes;

use std::collections::BTreeSet;

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{ENQUEUE_JOBS_MAX, PAYLOAD_BYTES_MAX, TYPES_MAX};
use fairlane_core::queue::*;
use fairlane_core::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;
use bytes::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_new_job_is_pending_and_complete,
    a_leased_job_always_has_its_payload,
    the_same_id_twice_is_one_job,
    the_same_id_twice_in_one_call_is_one_job,
    a_different_job_with_the_same_id_is_reported_with_the_field_that_differs,
    a_different_job_is_reported_in_every_state_of_the_first,
    a_different_job_in_one_call_is_reported,
    a_known_job_is_compared_when_no_more_are_taken,
    a_bulk_action_that_is_gone_makes_no_difference,
    a_receipt_comes_with_the_backlog_of_its_group,
    a_running_job_is_not_reset_by_its_id,
    an_id_belongs_to_its_group,
    names_with_separators_stay_apart,
    a_further_enqueue_does_not_move_a_group_back,
    a_group_that_went_idle_starts_anew,
    a_job_keeps_its_level,
    jobs_of_a_lane_leave_in_the_order_they_came,
    a_payload_is_opaque,
    the_largest_payload_is_taken,
    receipts_come_in_the_order_of_the_jobs,
    a_full_group_is_refused_with_a_retry_time,
    a_full_queue_refuses_with_a_retry_time,
    a_refused_job_leaves_nothing_behind,
    a_known_job_of_a_full_group_still_exists,
    leased_jobs_do_not_fill_a_group,
    group_with_enough_stored_bytes_is_refused_with_a_retry_time,
    queue_with_enough_stored_bytes_is_refused_with_a_retry_time,
    job_without_payload_or_with_a_known_id_needs_no_bytes,
    stored_bytes_follow_payloads_and_notes_until_jobs_are_removed,
    stored_bytes_of_bulk_actions_go_with_them,
    cancelled_jobs_hold_their_bytes_until_they_are_removed,
    group_forgotten_with_its_last_job_starts_without_bytes,
    dead_jobs_are_requeued_however_many_bytes_are_stored,
    bulk_action_with_a_payload_is_refused_when_bytes_are_full,
    a_type_too_many_is_refused,
    too_many_jobs_make_the_call_invalid,
    a_delayed_job_waits_until_it_is_due,
    a_job_is_stamped_by_the_clock_of_the_store,
    an_enqueue_into_an_idle_lane_wakes_a_waiter,
    a_further_enqueue_wakes_no_worker,
    an_enqueue_wakes_a_worker_that_waits_already,
    the_first_waiting_job_wakes_someone_to_hold_its_time,
    a_job_of_a_bulk_action_says_so_and_is_counted,
    a_job_that_exists_says_in_which_bulk_action,
    a_sealed_bulk_action_takes_no_more_jobs,
    an_unknown_bulk_action_is_refused_and_not_made,
    a_refused_job_is_not_counted_in_its_bulk_action,
    a_groups_run_is_counted_from_its_first_job,
    a_job_keeps_the_trace_it_was_enqueued_with,
];

async fn a_new_job_is_pending_and_complete(queue: Subject) {
    let new =
        NewJob { level: Level::Low, cost: cost(7), payload: bytes("p"), ..job_of("mail", "group", "job") };
    queue.add([new]).await;
    let view = queue.job("group", "job").await;
    assert_eq!(view.job, job_ref("group", "job"));
    assert_eq!((view.type_id, view.level, view.cost), (type_id("mail"), Level::Low, cost(7)));
    assert_eq!((&*view.payload, view.state, view.until), (&b"p"[..], JobState::Pending, None));
    assert_eq!((view.attempts, view.throttles, view.losses), (0, 0, 0));
    assert_eq!((view.fence, view.worker, view.settled_at, &*view.note), (None, None, None, &b""[..]));
}

async fn a_job_keeps_the_trace_it_was_enqueued_with(queue: Subject) {
    let first = trace("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let other = trace("3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a-2b2b2b2b2b2b2b2b-0a");
    let traced = |id: &str, trace: &Trace| NewJob { trace: Some(trace.clone()), ..job("g", id) };
    let plain = NewJob { payload: bytes("+:1:payload"), ..job("g", "3") };
    queue.add([traced("1", &first), traced("2", &other), plain]).await;
    let again = queue.enqueue([traced("1", &other)]).await;
    assert_eq!(again, [JobReceipt::Exists { bulk: None }]);
    for (id, trace, payload) in
        [("1", Some(first), "{}"), ("2", Some(other), "{}"), ("3", None, "+:1:payload")]
    {
        let view = queue.job("g", id).await;
        assert_eq!((view.trace, &*view.payload), (trace, payload.as_bytes()));
    }
}

/// Erratum Q36.
async fn a_leased_job_always_has_its_payload(queue: Subject) {
    let producer = queue.clone();
    let producing = tokio::spawn(async move {
        for number in 0..100 {
            producer.add([NewJob { payload: bytes("complete"), ..job("g", &number.to_string()) }]).await;
        }
    });
    let mut seen = 0;
    while seen < 100 {
        for leased in queue.lease(5).await {
            assert_eq!(&*leased.payload, b"complete");
            seen += 1;
        }
    }
    producing.await.expect("the producer does not panic");
}

/// Erratum Q2.
async fn the_same_id_twice_is_one_job(queue: Subject) {
    queue.add([NewJob { payload: bytes("first"), ..job("g", "1") }]).await;
    let again = NewJob { payload: bytes("second"), level: Level::High, ..job_of("other", "g", "1") };
    assert_eq!(queue.enqueue([again]).await, [differs(Difference::Type)]);
    let leased = queue.lease_of(&["t", "other"], 10).await;
    assert_eq!(names(&leased), ["g/1"]);
    assert_eq!(&*leased[0].payload, b"first");
    assert_eq!((queue.queue_view().await.backlog, queue.group("g").await.backlog), (0, 0));
}

/// Erratum Q2.
async fn the_same_id_twice_in_one_call_is_one_job(queue: Subject) {
    let receipts = queue.enqueue([job("g", "1"), job("g", "1"), job("g", "2")]).await;
    assert_eq!(receipts, [JobReceipt::Created, EXISTS, JobReceipt::Created]);
    assert_eq!(names(&queue.lease(10).await), ["g/1", "g/2"]);
}

/// Erratum Q2.
async fn a_different_job_with_the_same_id_is_reported_with_the_field_that_differs(queue: Subject) {
    queue.open("g", "b").await;
    let traced = trace("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let first =
        NewJob { level: Level::Low, cost: cost(7), payload: bytes("+:1"), ..job_of("mail", "g", "1") };
    let second = NewJob {
        job: job_ref("g", "2"),
        cost: cost(1),
        trace: Some(traced.clone()),
        ..in_bulk("b", first.clone())
    };
    queue.add([first.clone(), second.clone()]).await;
    for there in [first, second] {
        let bulk = there.bulk.clone();
        let other_bulk = if bulk.is_some() { None } else { Some(bulk_id("b")) };
        let same = [
            there.clone(),
            NewJob { delay_ms: 5000, ..there.clone() },
            NewJob { trace: None, ..there.clone() },
            NewJob { trace: Some(traced.clone()), ..there.clone() },
        ];
        assert_eq!(queue.enqueue(same).await, vec![JobReceipt::Exists { bulk: bulk.clone() }; 4]);
        let others = [
            (Difference::Bulk, NewJob { bulk: other_bulk, type_id: type_id("t"), ..there.clone() }),
            (Difference::Type, NewJob { type_id: type_id("mai"), level: Level::High, ..there.clone() }),
            (Difference::Level, NewJob { level: Level::High, cost: cost(9), ..there.clone() }),
            (Difference::Cost, NewJob { cost: cost(70), payload: bytes(""), ..there.clone() }),
            (Difference::Payload, NewJob { payload: bytes("+:2"), ..there.clone() }),
            (Difference::Payload, NewJob { payload: bytes(""), trace: None, ..there.clone() }),
            (Difference::Payload, NewJob { payload: bytes("+:12"), ..there.clone() }),
        ];
        for (difference, other) in others {
            let different = JobReceipt::Differs { difference, bulk: bulk.clone() };
            assert_eq!(queue.enqueue([other.clone()]).await, [different], "{other:?}");
        }
        let view = queue.job("g", &there.job.id.to_string()).await;
        assert_eq!((view.type_id, view.level, view.cost), (there.type_id, there.level, there.cost));
        assert_eq!((view.payload, view.bulk, view.trace), (there.payload, there.bulk, there.trace));
    }
    assert_eq!((queue.queue_view().await.backlog, queue.bulk("g", "b").await.total), (2, 1));
    assert_eq!(queue.queue_view().await.types.len(), 1, "a type that is not used is not made");
}

/// Erratum Q2.
async fn a_different_job_is_reported_in_every_state_of_the_first(queue: Subject) {
    queue.add([job("g", "done"), job("g", "dead"), job("g", "leased"), job("g", "list")]).await;
    queue.add([delayed(60_000, "g", "waiting"), delayed(60_000, "g", "cancelled")]).await;
    let leased = queue.lease(3).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    queue.cancel("g", &["list", "cancelled"]).await;
    for id in ["done", "dead", "leased", "list", "waiting", "cancelled"] {
        let other = NewJob { payload: bytes("other"), ..job("g", id) };
        let receipts = queue.enqueue([job("g", id), other]).await;
        assert_eq!(receipts, [EXISTS, differs(Difference::Payload)], "{id}");
    }
}

/// Erratum Q2.
async fn a_different_job_in_one_call_is_reported(queue: Subject) {
    let other = NewJob { payload: bytes("other"), ..job("g", "1") };
    let receipts = queue.enqueue([job("g", "1"), other.clone(), job("g", "2"), job("g", "1"), other]).await;
    let different = differs(Difference::Payload);
    assert_eq!(receipts, [JobReceipt::Created, different.clone(), JobReceipt::Created, EXISTS, different]);
}

async fn a_known_job_is_compared_when_no_more_are_taken(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 1, ..Settings::default() }).await;
    queue.add([job("g", "1")]).await;
    let other = NewJob { cost: cost(2), ..job("g", "1") };
    let receipts = queue.enqueue([other, job("g", "2"), job("g", "1")]).await;
    assert_eq!(receipts, [differs(Difference::Cost), refused(Refusal::GroupFull), EXISTS]);
    let unknown = queue.enqueue([in_bulk("nowhere", job("g", "1"))]).await;
    assert_eq!(unknown, [differs(Difference::Bulk)]);
}

async fn a_bulk_action_that_is_gone_makes_no_difference(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 0, ..Settings::default() }).await;
    queue.open("g", "b").await;
    let new = in_bulk("b", job("g", "1"));
    queue.add([new.clone()]).await;
    queue.lease_one().await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.find_bulk("g", "b").await, None);
    assert_eq!(
        queue.enqueue([new.clone(), job("g", "1")]).await,
        [EXISTS; 2],
        "its bulk action is forgotten"
    );
    let other = NewJob { payload: bytes("other"), ..new };
    assert_eq!(queue.enqueue([other]).await, [differs(Difference::Payload)]);
}

async fn a_receipt_comes_with_the_backlog_of_its_group(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 4, ..Settings::default() }).await;
    queue.add([job("a", "1"), delayed(1000, "a", "2"), job("b", "1")]).await;
    queue.lease_of(&["t"], 1).await;
    let enqueue = |jobs: Vec<NewJob>| queue.engine.call(Enqueue { jobs });
    let jobs = vec![
        job("a", "3"),
        job("a", "1"),
        job_of("mail", "a", "4"),
        job("b", "2"),
        NewJob { cost: cost(2), ..job("b", "2") },
        delayed(1000, "a", "5"),
        job("a", "6"),
        in_bulk("nowhere", job("new", "1")),
    ];
    let Enqueued { receipts, backlogs } = enqueue(jobs).await.expect("enqueue is answered");
    assert_eq!(receipts[1], EXISTS);
    assert_eq!((&receipts[4], &receipts[6]), (&differs(Difference::Cost), &refused(Refusal::GroupFull)));
    assert_eq!(backlogs, [2, 2, 3, 2, 2, 4, 4, 0], "what is leased does not count");
    assert_eq!((queue.group("a").await.backlog, queue.group("b").await.backlog), (4, 2));
}

/// Erratum Q2.
async fn a_running_job_is_not_reset_by_its_id(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    assert_eq!(queue.enqueue([job("g", "1")]).await, [EXISTS]);
    assert_eq!(queue.state("g", "1").await, JobState::Processing);
    assert_eq!(queue.lease(10).await, []);
    queue.succeed(&[leased]).await;
    assert_eq!(queue.enqueue([job("g", "1")]).await, [EXISTS]);
    assert_eq!(queue.state("g", "1").await, JobState::Completed);
}

/// Erratum Q6.
async fn an_id_belongs_to_its_group(queue: Subject) {
    queue.add([NewJob { payload: bytes("of a"), ..job("a", "1") }]).await;
    queue.add([NewJob { payload: bytes("of b"), ..job("b", "1") }]).await;
    assert_eq!(&*queue.job("a", "1").await.payload, b"of a");
    assert_eq!(&*queue.job("b", "1").await.payload, b"of b");
    let leased = queue.lease(10).await;
    assert_eq!(leased.len(), 2);
    queue.settle(&leased[0], failed()).await;
    queue.settle(&leased[1], succeeded()).await;
    let states = (queue.state("a", "1").await, queue.state("b", "1").await);
    assert_eq!(states, (JobState::Failed, JobState::Completed));
}

/// Erratum Q6.
async fn names_with_separators_stay_apart(queue: Subject) {
    let pairs = [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ("a%", "3Ab:c"), ("{a}", "*"), ("가 나", "다")];
    for (group, id) in pairs {
        let new = NewJob { payload: bytes(&format!("{group} {id}")), ..job_of("t:t%", group, id) };
        queue.add([new]).await;
    }
    let leased = queue.lease_of(&["t:t%"], 10).await;
    let seen: BTreeSet<String> =
        leased.iter().map(|job| String::from_utf8_lossy(&job.payload).into_owned()).collect();
    assert_eq!(seen.len(), pairs.len());
    for leased in &leased {
        assert_eq!(format!("{} {}", leased.job.group, leased.job.id).as_bytes(), &*leased.payload);
    }
    queue.succeed(&leased).await;
    assert_eq!(queue.group("a:b").await.in_flight, 0);
}

/// Erratum Q1.
async fn a_further_enqueue_does_not_move_a_group_back(queue: Subject) {
    queue.add(jobs("busy", 8)).await;
    queue.add(jobs("quiet", 400)).await;
    let mut served = Vec::new();
    for round in 0..100 {
        queue.advance_ms(1);
        queue.add([job("busy", &format!("more {round}"))]).await;
        served.push(queue.lease_one().await);
    }
    let busy = count_of("busy", &served);
    assert!((42..=58).contains(&busy), "a group that keeps enqueuing got {busy} of 100");
}

/// Erratum Q3.
async fn a_group_that_went_idle_starts_anew(queue: Subject) {
    queue.add(jobs("returning", 500)).await;
    assert_eq!(queue.serve_all(100).await.len(), 500);
    queue.add(jobs("steady", 400)).await;
    let second: Vec<NewJob> = (0..400).map(|number| job("returning", &format!("second {number}"))).collect();
    queue.add(second).await;
    let mut served = Vec::new();
    for _ in 0..100 {
        served.push(queue.lease_one().await);
    }
    let returning = count_of("returning", &served);
    assert!((42..=58).contains(&returning), "its past gave it {returning} of 100");
    assert_eq!(queue.group("returning").await.in_flight, returning as u64);
}

/// Erratum Q5.
async fn a_job_keeps_its_level(queue: Subject) {
    for number in 0..6 {
        queue.add([job_at(Level::ALL[number % 3], "g", &number.to_string())]).await;
    }
    let lanes = queue.group("g").await.lanes;
    let levels: Vec<(Level, u64)> = lanes.iter().map(|lane| (lane.level, lane.backlog)).collect();
    assert_eq!(levels, [(Level::High, 2), (Level::Normal, 2), (Level::Low, 2)]);
    for leased in queue.lease(10).await {
        let number: usize = leased.job.id.to_string().parse().expect("ids are numbers");
        assert_eq!(leased.level, Level::ALL[number % 3]);
        assert_eq!(queue.settle(&leased, retry(0)).await, Verdict::Applied);
    }
    let again = queue.lease(10).await;
    assert_eq!(again.len(), 6);
    for leased in &again {
        let number: usize = leased.job.id.to_string().parse().expect("ids are numbers");
        assert_eq!(leased.level, Level::ALL[number % 3]);
    }
}

/// Erratum Q7. Erratum Q35.
async fn jobs_of_a_lane_leave_in_the_order_they_came(queue: Subject) {
    queue.add(jobs("g", 50)).await;
    let expected: Vec<String> = (1..=50).map(|number| number.to_string()).collect();
    assert_eq!(ids(&queue.serve_all(7).await), expected);
}

async fn a_payload_is_opaque(queue: Subject) {
    let every_byte: Vec<u8> = (0..=255).chain([0, 13, 10, 0xC3, 0x28]).collect();
    queue.add([NewJob { payload: every_byte.clone().into(), ..job("g", "all") }]).await;
    queue.add([NewJob { payload: bytes(""), ..job("g", "none") }]).await;
    queue.add([NewJob { payload: bytes("1e400 9007199254740993 \u{0}:%"), ..job("g", "numbers") }]).await;
    let leased = queue.lease(10).await;
    assert_eq!(&*leased[0].payload, every_byte);
    assert_eq!(&*leased[1].payload, b"");
    assert_eq!(&*leased[2].payload, "1e400 9007199254740993 \u{0}:%".as_bytes());
    assert_eq!(&*queue.job("g", "all").await.payload, every_byte);
}

async fn the_largest_payload_is_taken(queue: Subject) {
    let large: std::sync::Arc<[u8]> = vec![0xA5; PAYLOAD_BYTES_MAX].into();
    let new = |id: &str| NewJob { payload: large.clone(), ..job("g", id) };
    let both = Enqueue { jobs: vec![new("1"), new("2")] };
    let receipts = queue.engine.call(both).await.expect("1 MiB is taken").receipts;
    assert_eq!(receipts, [const { JobReceipt::Created }; 2]);
    for leased in queue.lease(2).await {
        assert!(leased.payload == large);
    }
    let larger = NewJob { payload: vec![0; PAYLOAD_BYTES_MAX + 1].into(), ..job("g", "3") };
    let refused = queue.engine.call(Enqueue { jobs: vec![larger] }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooLarge { .. }))));
    let three = Enqueue { jobs: vec![new("3"), new("4"), new("5")] };
    let refused = queue.engine.call(three).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooLarge { .. }))));
    assert_eq!(queue.find_job("g", "3").await, None);
}

async fn receipts_come_in_the_order_of_the_jobs(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 2, ..Settings::default() }).await;
    queue.add([job("a", "1"), job("a", "2")]).await;
    let receipts = queue.enqueue([job("a", "3"), job("a", "1"), job("b", "1"), job("a", "2")]).await;
    assert_eq!(receipts, [refused(Refusal::GroupFull), EXISTS, JobReceipt::Created, EXISTS]);
}

async fn a_full_group_is_refused_with_a_retry_time(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 3, ..Settings::default() }).await;
    let receipts = queue.enqueue(jobs("a", 5)).await;
    assert_eq!(receipts[..3], [const { JobReceipt::Created }; 3]);
    assert_eq!(receipts[3..], [const { refused(Refusal::GroupFull) }; 2]);
    queue.add(jobs("b", 3)).await;
    assert_eq!(queue.queue_view().await.backlog, 6);
}

async fn a_full_queue_refuses_with_a_retry_time(queue: Subject) {
    queue.set_queue(Settings { queue_backlog_max: 3, ..Settings::default() }).await;
    queue.add([job("a", "1"), delayed(1000, "b", "1"), job("c", "1")]).await;
    assert_eq!(queue.enqueue([job("d", "1")]).await, [refused(Refusal::QueueFull)]);
    queue.lease_one().await;
    queue.add([job("d", "1")]).await;
}

async fn a_refused_job_leaves_nothing_behind(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 1, ..Settings::default() }).await;
    queue.add([job("g", "1")]).await;
    queue.enqueue([job("g", "2")]).await;
    assert_eq!(queue.find_job("g", "2").await, None);
    let leased = queue.lease(10).await;
    assert_eq!(ids(&leased), ["1"]);
    queue.add([job("g", "2")]).await;
    assert_eq!(ids(&queue.lease(10).await), ["2"]);
}

async fn a_known_job_of_a_full_group_still_exists(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 1, queue_backlog_max: 1, ..Settings::default() }).await;
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.enqueue([job("g", "1")]).await, [EXISTS]);
}

async fn leased_jobs_do_not_fill_a_group(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 2, ..Settings::default() }).await;
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease_one().await;
    queue.add([job("g", "3")]).await;
    assert_eq!(queue.settle(&leased, retry(1000)).await, Verdict::Applied);
    assert_eq!(queue.group("g").await.backlog, 3, "a job that comes back is never refused");
}

async fn a_type_too_many_is_refused(queue: Subject) {
    for number in 0..TYPES_MAX {
        queue.add([job_of(&format!("t{number}"), "g", &number.to_string())]).await;
    }
    assert_eq!(queue.enqueue([job_of("one more", "g", "x")]).await, [refused(Refusal::TooManyTypes)]);
    queue.add([job_of("t0", "g", "y")]).await;
    assert_eq!(queue.queue_view().await.types.len(), TYPES_MAX);
}

async fn too_many_jobs_make_the_call_invalid(queue: Subject) {
    let command = Enqueue { jobs: jobs("g", ENQUEUE_JOBS_MAX + 1) };
    let refused = queue.engine.call(command).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooMany { .. }))));
    assert_eq!(queue.queue_view().await.backlog, 0);
    let command = Enqueue { jobs: jobs("g", ENQUEUE_JOBS_MAX) };
    assert_eq!(queue.engine.call(command).await.expect("200 are taken").receipts.len(), ENQUEUE_JOBS_MAX);
}

async fn a_delayed_job_waits_until_it_is_due(queue: Subject) {
    queue.add([delayed(1000, "g", "late"), job("g", "now")]).await;
    let view = queue.job("g", "late").await;
    assert_eq!((view.state, view.until), (JobState::Waiting, Some(START.plus_ms(1000))));
    assert_eq!((queue.group("g").await.backlog, queue.queue_view().await.waiting), (2, 1));
    assert_eq!(ids(&queue.lease(10).await), ["now"]);
    queue.advance_ms(999);
    assert_eq!(queue.lease(10).await, []);
    queue.advance_ms(1);
    assert_eq!(ids(&queue.lease(10).await), ["late"]);
}

/// Erratum Q26.
async fn a_job_is_stamped_by_the_clock_of_the_store(queue: Subject) {
    queue.advance_ms(12_345);
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    assert_eq!(leased.created_at, START.plus_ms(12_345));
    assert_eq!(queue.job("g", "1").await.until, Some(START.plus_ms(12_345 + LEASE_MS)));
}

/// Erratum Q43.
async fn an_enqueue_into_an_idle_lane_wakes_a_waiter(queue: Subject) {
    queue.add([job_of("other", "g", "other")]).await;
    assert!(queue.is_silent().await);
    queue.add(jobs("g", 3)).await;
    assert!(queue.is_woken().await);
    assert!(queue.is_silent().await);
}

async fn a_further_enqueue_wakes_no_worker(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    queue.drain_wakes().await;
    queue.add([job("g", "4")]).await;
    assert!(queue.is_silent().await);
}

/// Erratum Q43.
async fn an_enqueue_wakes_a_worker_that_waits_already(queue: Subject) {
    let waiter = queue.clone();
    let waiting = tokio::spawn(async move { waiter.is_woken().await });
    tokio::task::yield_now().await;
    queue.add([job("g", "1")]).await;
    assert!(waiting.await.expect("the waiter does not panic"));
}

async fn the_first_waiting_job_wakes_someone_to_hold_its_time(queue: Subject) {
    queue.add([delayed(1000, "g", "1")]).await;
    assert!(queue.is_woken().await);
    queue.add([delayed(2000, "g", "2")]).await;
    assert!(queue.is_silent().await, "the time that is held comes first");
    queue.add([delayed(500, "g", "3")]).await;
    assert!(queue.is_woken().await);
}

async fn a_job_of_a_bulk_action_says_so_and_is_counted(queue: Subject) {
    queue.open("g", "b").await;
    queue.add([in_bulk("b", job("g", "1")), in_bulk("b", delayed(1000, "g", "2")), job("g", "3")]).await;
    assert_eq!(queue.bulk("g", "b").await.total, 2);
    assert_eq!(queue.job("g", "1").await.bulk, Some(bulk_id("b")));
    assert_eq!(queue.job("g", "3").await.bulk, None);
    let again = queue.enqueue([in_bulk("b", job("g", "1"))]).await;
    assert_eq!(again, [JobReceipt::Exists { bulk: Some(bulk_id("b")) }]);
    assert_eq!(queue.bulk("g", "b").await.total, 2, "a repeat counts nothing");
}

/// Erratum Q2.
async fn a_job_that_exists_says_in_which_bulk_action(queue: Subject) {
    queue.open("g", "b").await;
    queue.open("g", "c").await;
    queue.add([in_bulk("b", job("g", "1")), job("g", "2")]).await;
    let receipts = queue.enqueue([in_bulk("c", job("g", "1")), in_bulk("c", job("g", "2"))]).await;
    let elsewhere = JobReceipt::Differs { difference: Difference::Bulk, bulk: Some(bulk_id("b")) };
    assert_eq!(receipts, [elsewhere.clone(), differs(Difference::Bulk)]);
    assert_eq!(queue.enqueue([job("g", "1")]).await, [elsewhere], "in none is another one, too");
    assert_eq!((queue.bulk("g", "b").await.total, queue.bulk("g", "c").await.total), (1, 0));
    queue.seal("g", "b").await;
    let receipts = queue.enqueue([in_bulk("b", job("g", "1"))]).await;
    assert_eq!(receipts, [JobReceipt::Exists { bulk: Some(bulk_id("b")) }], "also when no more are taken");
}

/// Erratum Q16.
async fn a_sealed_bulk_action_takes_no_more_jobs(queue: Subject) {
    queue.open_with_jobs("g", "b", 1).await;
    queue.seal("g", "b").await;
    let receipts = queue.enqueue([in_bulk("b", job("g", "late")), job("g", "own")]).await;
    assert_eq!(receipts, [refused(Refusal::BulkSealed), JobReceipt::Created]);
    let leased = queue.lease(10).await;
    assert_eq!(ids(&leased), ["b1", "own"]);
    queue.succeed(&leased).await;
    for _ in 0..2 {
        let receipts = queue.enqueue([in_bulk("b", job("g", "late"))]).await;
        assert_eq!(receipts, [refused(Refusal::BulkSealed)]);
        queue.lease_bulks(10).await;
    }
    let view = queue.bulk("g", "b").await;
    assert_eq!(
        (view.total, view.state, queue.find_job("g", "late").await),
        (1, BulkState::Aggregating, None)
    );
}

async fn an_unknown_bulk_action_is_refused_and_not_made(queue: Subject) {
    let new = in_bulk("b", job("g", "1"));
    assert_eq!(queue.enqueue([new.clone()]).await, [refused(Refusal::BulkUnknown)]);
    queue.open("h", "b").await;
    assert_eq!(queue.enqueue([new.clone()]).await, [refused(Refusal::BulkUnknown)], "that is another's");
    assert_eq!((queue.find_job("g", "1").await, queue.find_bulk("g", "b").await), (None, None));
    assert_eq!((queue.queue_view().await.types, queue.queue_view().await.backlog), (vec![], 0));
    queue.open("g", "b").await;
    queue.add([new]).await;
}

async fn a_refused_job_is_not_counted_in_its_bulk_action(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 2, ..Settings::default() }).await;
    queue.open("g", "b").await;
    let receipts = queue.enqueue(jobs_in("b", "g", 4)).await;
    assert_eq!(receipts[2..], [const { refused(Refusal::GroupFull) }; 2]);
    assert_eq!(queue.bulk("g", "b").await.total, 2);
    assert_eq!(queue.seal_expecting("g", "b", Some(4)).await, BulkSealed::Mismatch { total: 2 });
}

/// Erratum Q3.
async fn a_groups_run_is_counted_from_its_first_job(queue: Subject) {
    queue.add([job("g", "1"), job("g", "2"), delayed(1000, "g", "3")]).await;
    queue.enqueue([job("g", "1")]).await;
    let view = queue.group("g").await;
    assert_eq!((view.total, view.done, view.waiting, view.backlog), (3, 0, 1, 3));
    let leased = queue.lease(2).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    let view = queue.group("g").await;
    assert_eq!((view.total, view.done), (3, 2));
    queue.cancel("g", &["3"]).await;
    let view = queue.group("g").await;
    assert_eq!((view.total, view.done), (0, 0), "nothing is left: its next job begins a new run");
}
