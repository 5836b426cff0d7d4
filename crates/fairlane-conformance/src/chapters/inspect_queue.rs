//! `inspect_queue`: shows the totals of the queue and changes nothing.

use fairlane_core::queue::*;

use super::{Case, cases};
use crate::dice::Dice;
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    an_empty_queue_shows_zero,
    the_queue_shows_its_types_by_name,
    the_queue_shows_its_activity,
    inspecting_changes_nothing,
    counts_equal_a_recount,
    counts_of_classic_and_bulk_actions_equal_a_recount,
];

async fn an_empty_queue_shows_zero(queue: Subject) {
    let totals = queue.queue_view().await;
    assert_eq!((totals.backlog, totals.in_flight, totals.waiting, totals.completed), (0, 0, 0, 0));
    assert_eq!((totals.failed, totals.stored_bytes, totals.active_groups), (0, 0, 0));
    assert_eq!((totals.succeeded_total, totals.dead_total), (0, 0));
}

async fn the_queue_shows_its_types_by_name(queue: Subject) {
    queue.add([job_of("m:%", "g", "1"), job_of("a", "g", "2"), job_of("z", "g", "3")]).await;
    queue.set_type("k", type_paused(true)).await;
    let types = queue.queue_view().await.types;
    assert_eq!(types, ["a", "k", "m:%", "z"].map(type_id));
}

async fn the_queue_shows_its_activity(queue: Subject) {
    queue.open_with_jobs("a", "dropped", 2).await;
    queue.cancel_bulk("a", "dropped").await;
    queue.open("b", "complete").await;
    queue.seal("b", "complete").await;
    queue.add([job("c", "1")]).await;
    let totals = queue.queue_view().await;
    assert_eq!((totals.active_groups, totals.aggregating, totals.sweeping), (2, 1, 1));
    let leased = queue.lease_bulk().await;
    assert_eq!(queue.queue_view().await.aggregating, 1, "a leased bulk action is not settled");
    queue.settle_bulk(&leased).await;
    queue.sweep(10).await;
    let totals = queue.queue_view().await;
    assert_eq!((totals.active_groups, totals.aggregating, totals.sweeping, totals.saved_spins), (1, 1, 0, 0));
    assert_eq!(queue.lease_bulk().await.view.bulk, bulk_ref("a", "dropped"), "its last job was swept");
}

async fn inspecting_changes_nothing(queue: Subject) {
    queue.set_type("t", type_rate(per_second(10, 5))).await;
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease(3).await;
    queue.settle(&leased[0], throttled(0, 2000)).await;
    queue.advance_ms(500);
    queue.drain_wakes().await;
    let before = (queue.queue_view().await, queue.group("g").await, queue.type_view("t").await);
    for _ in 0..3 {
        assert_eq!((queue.queue_view().await, queue.group("g").await, queue.type_view("t").await), before);
        assert!(queue.is_silent().await);
    }
    assert_eq!(queue.job("g", "2").await, queue.job("g", "2").await);
}

/// Erratum Q23. Erratum Q24. Erratum Q25.
async fn counts_equal_a_recount(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 1, ..Settings::default() }).await;
    queue.set_group("g0", group_seats(2)).await;
    let mut dice = Dice::new(25);
    let mut known = Vec::new();
    for round in 0..40 {
        for _ in 0..dice.below(4) {
            let (group, id) = (format!("g{}", dice.below(3)), format!("{}", dice.below(40)));
            let new = delayed(dice.below(3) * 10, &group, &id);
            if queue.enqueue([new]).await == [JobReceipt::Created] {
                known.push((group, id));
            }
        }
        for leased in queue.lease(1 + dice.below(4) as usize).await {
            let outcomes = [succeeded(), failed(), retry(15), throttled(15, 0), Outcome::Released];
            let outcome = dice.pick(&outcomes);
            for _ in 0..dice.below(3) {
                queue.settle(&leased, outcome.clone()).await;
            }
        }
        queue.promote(2).await;
        queue.advance_ms(5);
        if round % 8 != 0 {
            continue;
        }
        let (mut unleased, mut leased, mut waiting, mut ended) = ([0; 3], [0; 3], 0, [0; 2]);
        for (group, id) in &known {
            let number = usize::from(group.as_bytes()[1] - b'0');
            match queue.state(group, id).await {
                JobState::Pending => unleased[number] += 1,
                JobState::Waiting => (unleased[number], waiting) = (unleased[number] + 1, waiting + 1),
                JobState::Processing => leased[number] += 1,
                JobState::Completed => ended[0] += 1,
                JobState::Failed => ended[1] += 1,
                other => panic!("{other:?} in a queue where nothing is cancelled or admitted"),
            }
        }
        let totals = queue.queue_view().await;
        assert_eq!((totals.backlog, totals.in_flight), (unleased.iter().sum(), leased.iter().sum()));
        assert_eq!((totals.waiting, totals.completed, totals.failed), (waiting, ended[0], ended[1]));
        assert_eq!((totals.succeeded_total, totals.dead_total), (ended[0], ended[1]));
        assert_eq!(queue.type_view("t").await.in_flight, leased.iter().sum::<u64>());
        for (number, (unleased, leased)) in unleased.into_iter().zip(leased).enumerate() {
            if known.iter().any(|(group, _)| *group == format!("g{number}")) {
                let view = queue.group(&format!("g{number}")).await;
                assert_eq!((view.backlog, view.in_flight), (unleased, leased));
            }
        }
    }
}

/// Erratum Q23. Erratum Q24. Erratum Q25.
async fn counts_of_classic_and_bulk_actions_equal_a_recount(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 1, ready_queue_max_size: 6, ..classic(3) }).await;
    for bulk in ["x", "y"] {
        queue.open("g", bulk).await;
    }
    let mut dice = Dice::new(26);
    let mut known = Vec::new();
    let mut successes = 0;
    for round in 0..60 {
        let bulk = dice.pick(&[None, Some("x"), Some("y")]);
        let new = delayed(dice.below(2) * 30, "g", &round.to_string());
        let new = bulk.map_or(new.clone(), |bulk| in_bulk(bulk, new));
        if queue.enqueue([new]).await == [JobReceipt::Created] {
            known.push((round.to_string(), bulk));
        }
        queue.promote(3).await;
        queue.admit(3).await;
        for leased in queue.lease(2).await {
            let outcomes = [succeeded(), failed(), retry(15), throttled(15, 0), Outcome::Released];
            let outcome = dice.pick(&outcomes);
            successes += u64::from(outcome == succeeded());
            queue.settle(&leased, outcome).await;
        }
        let (picked, _) = dice.pick(&known);
        match dice.below(8) {
            0 => drop(queue.cancel("g", &[picked.as_str()]).await),
            1 => drop(queue.hold("g", "x").await),
            2 => drop(queue.resume("g", "x").await),
            3 => drop(queue.sweep(2).await),
            4 => drop(queue.requeue("g", &[picked.as_str()]).await),
            _ => {}
        }
        queue.advance_ms(200);
        if round % 10 == 9 {
            recount(&queue, &known).await;
            assert_eq!(queue.queue_view().await.succeeded_total, successes);
        }
    }
}

async fn recount(queue: &Subject, known: &[(String, Option<&str>)]) {
    let (mut unleased, mut waiting, mut ready) = (0, 0, 0);
    let mut ended = [[0; 3]; 2];
    for (id, bulk) in known {
        let view = queue.job("g", id).await;
        unleased += u64::from(matches!(view.state, JobState::Pending | JobState::Waiting | JobState::Ready));
        waiting += u64::from(view.state == JobState::Waiting);
        ready += u64::from(view.state == JobState::Ready);
        let at = [Some("x"), Some("y")].iter().position(|name| name == bulk);
        let end = [JobState::Completed, JobState::Failed, JobState::Cancelled];
        let how = end.iter().position(|end| *end == view.state);
        if let (Some(at), Some(how), true) = (at, how, view.bulk.is_some()) {
            ended[at][how] += 1;
        }
    }
    let (group, totals) = (queue.group("g").await, queue.queue_view().await);
    assert_eq!((group.backlog, totals.backlog, totals.in_flight), (unleased, unleased, 0));
    assert_eq!((group.waiting, totals.waiting), (waiting, waiting));
    let listed = queue.type_view("t").await.ready;
    assert!(listed >= ready, "{ready} jobs are ready, {listed} are listed");
    for (bulk, [succeeded, failed, cancelled]) in ["x", "y"].into_iter().zip(ended) {
        let view = queue.bulk("g", bulk).await;
        assert_eq!((view.succeeded, view.cancelled), (succeeded, cancelled), "{bulk}");
        assert!(view.failed >= failed, "a requeued job has left it, its failure has not");
    }
}
