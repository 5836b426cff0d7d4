//! `inspect`: shows what is there and changes nothing.

use fairlane_core::Level;
use fairlane_core::congestion::CongestionLevel;
use fairlane_core::limits::{LIST_GROUPS_MAX, STATS_RETENTION_MS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::dice::Dice;
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    what_is_not_there_is_nothing,
    a_group_shows_its_lanes,
    a_type_shows_its_order,
    the_whole_shows_its_types_by_name,
    every_state_has_its_word,
    a_job_shows_its_trace_in_every_state,
    a_group_shows_its_run,
    a_type_shows_what_is_ready,
    the_whole_shows_its_activity,
    a_bulk_action_is_shown_as_it_stands,
    bulk_actions_come_page_by_page_in_the_order_they_were_opened,
    unfinished_bulk_actions_come_page_by_page_without_those_that_have_ended,
    active_groups_come_page_by_page_by_name,
    a_listed_group_shows_its_settings,
    a_crowded_group_shows_its_predicted_wait_in_share,
    a_group_that_nobody_refuses_is_not_congested,
    a_page_out_of_range_is_invalid,
    looking_changes_nothing,
    counts_equal_a_recount,
    counts_of_classic_and_bulk_actions_equal_a_recount,
];

async fn what_is_not_there_is_nothing(queue: Subject) {
    assert_eq!(queue.find_job("g", "1").await, None);
    let group = queue.engine.inspect(Inspect::Group(group_id("g"))).await.expect("inspect is answered");
    assert_eq!(group, Inspected::Group(None));
    let found = queue.engine.inspect(Inspect::Type(type_id("t"))).await.expect("inspect is answered");
    assert_eq!(found, Inspected::Type(None));
    assert_eq!(queue.find_bulk("g", "b").await, None);
    let bulks = Inspect::Bulks { group: group_id("g"), after: 0, limit: 10, unfinished: false };
    assert_eq!(queue.inspect(bulks).await, Inspected::Bulks { bulks: vec![], next: None });
    assert_eq!(queue.inspect(Inspect::Congestion(group_id("g"))).await, Inspected::Congestion(None));
    assert_eq!((queue.history("g", 10).await, queue.groups(None, 10).await), (vec![], vec![]));
    let whole = queue.whole().await;
    assert_eq!((whole.backlog, whole.in_flight, whole.waiting, whole.completed), (0, 0, 0, 0));
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.find_job("g", "2").await, None);
    assert_eq!(queue.find_job("h", "1").await, None);
}

async fn a_group_shows_its_lanes(queue: Subject) {
    queue.add([job_of("b", "g", "1"), job_of("a", "g", "2"), job_of("a", "g", "3")]).await;
    queue.add([NewJob { level: Level::High, ..job_of("b", "g", "4") }, delayed(100, "g", "5")]).await;
    let view = queue.group("g").await;
    assert_eq!((view.backlog, view.in_flight, view.settings), (5, 0, GroupSettings::default()));
    let lane = |level, name: &str, backlog| LaneView {
        level,
        type_id: type_id(name),
        backlog,
        returned: 0,
        standing: LaneStanding::Active,
    };
    let expected = [lane(Level::High, "b", 1), lane(Level::Normal, "a", 2), lane(Level::Normal, "b", 1)];
    assert_eq!(view.lanes, expected, "by level and type; what waits is in no lane");
    queue.lease_of(&["a"], 10).await;
    assert_eq!(queue.group("g").await.lanes.len(), 2, "an empty lane is not shown");
}

async fn a_type_shows_its_order(queue: Subject) {
    queue.add([job("a", "1"), job("b", "1"), job_at(Level::Low, "a", "2")]).await;
    queue.lease_one().await;
    let view = queue.type_view("t").await;
    assert_eq!((view.in_flight, view.active_lanes), (1, [0, 1, 1]));
    assert_eq!((view.rate_milli, view.closed_until), (None, None));
    queue.set_type("t", type_rate(per_second(7, 1))).await;
    assert_eq!(queue.type_view("t").await.rate_milli, Some(7000));
}

async fn the_whole_shows_its_types_by_name(queue: Subject) {
    queue.add([job_of("m:%", "g", "1"), job_of("a", "g", "2"), job_of("z", "g", "3")]).await;
    queue.set_type("k", type_paused(true)).await;
    let types = queue.whole().await.types;
    assert_eq!(types, ["a", "k", "m:%", "z"].map(type_id));
}

async fn a_job_shows_its_trace_in_every_state(queue: Subject) {
    let trace = trace("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    queue.add(jobs("g", 4).into_iter().map(|new| NewJob { trace: Some(trace.clone()), ..new })).await;
    let leased = queue.lease(3).await;
    queue.settle(&leased[0], succeeded()).await;
    queue.settle(&leased[1], failed()).await;
    assert_eq!(queue.cancel("g", &["4"]).await, [Cancellation::Cancelled]);
    for (id, state) in ["COMPLETED", "FAILED", "PROCESSING", "CANCELLED"].into_iter().enumerate() {
        let view = queue.job("g", &(id + 1).to_string()).await;
        assert_eq!((view.state.as_str(), view.trace.as_ref()), (state, Some(&trace)));
        assert_eq!(&*view.payload, b"{}");
    }
}

/// Erratum Q14.
async fn every_state_has_its_word(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    queue.add([delayed(1000, "g", "late")]).await;
    let mut words = vec![queue.state("g", "1").await.as_str(), queue.state("g", "late").await.as_str()];
    let leased = queue.lease(3).await;
    words.push(queue.state("g", "1").await.as_str());
    queue.settle(&leased[1], succeeded()).await;
    queue.settle(&leased[2], failed()).await;
    words.push(queue.state("g", "2").await.as_str());
    words.push(queue.state("g", "3").await.as_str());
    queue.add([job("g", "unwanted")]).await;
    queue.cancel("g", &["unwanted"]).await;
    words.push(queue.state("g", "unwanted").await.as_str());
    assert_eq!(words, ["PENDING", "WAITING", "PROCESSING", "COMPLETED", "FAILED", "CANCELLED"]);
}

async fn looking_changes_nothing(queue: Subject) {
    queue.set_type("t", type_rate(per_second(10, 5))).await;
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease(3).await;
    queue.settle(&leased[0], throttled(0, 2000)).await;
    queue.advance_ms(500);
    queue.drain_wakes().await;
    let before = (queue.whole().await, queue.group("g").await, queue.type_view("t").await);
    for _ in 0..3 {
        assert_eq!((queue.whole().await, queue.group("g").await, queue.type_view("t").await), before);
        assert!(queue.is_silent().await);
    }
    assert_eq!(queue.job("g", "2").await, queue.job("g", "2").await);
}

/// Erratum Q23. Erratum Q24. Erratum Q25.
async fn counts_equal_a_recount(queue: Subject) {
    queue.set_whole(Settings { max_retry_count: 1, ..Settings::default() }).await;
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
        let whole = queue.whole().await;
        assert_eq!((whole.backlog, whole.in_flight), (unleased.iter().sum(), leased.iter().sum()));
        assert_eq!((whole.waiting, whole.completed, whole.failed), (waiting, ended[0], ended[1]));
        assert_eq!(queue.type_view("t").await.in_flight, leased.iter().sum::<u64>());
        for (number, (unleased, leased)) in unleased.into_iter().zip(leased).enumerate() {
            if known.iter().any(|(group, _)| *group == format!("g{number}")) {
                let view = queue.group(&format!("g{number}")).await;
                assert_eq!((view.backlog, view.in_flight), (unleased, leased));
            }
        }
    }
}

async fn a_group_shows_its_run(queue: Subject) {
    queue.add([job("g", "1"), job("g", "2"), delayed(1000, "g", "3")]).await;
    let leased = queue.lease(1).await;
    queue.succeed(&leased).await;
    queue.lease(1).await;
    let view = queue.group("g").await;
    assert_eq!((view.total, view.done, view.waiting), (3, 1, 1));
    assert_eq!((view.backlog, view.in_flight), (1, 1));
}

async fn a_type_shows_what_is_ready(queue: Subject) {
    queue.classic(10).await;
    queue.add(jobs("g", 3)).await;
    assert_eq!(queue.type_view("t").await.ready, 0);
    queue.admit(2).await;
    let view = queue.type_view("t").await;
    assert_eq!((view.ready, view.active_lanes), (2, [0, 1, 0]));
    assert_eq!(queue.whole().await.active_lanes, [0, 1, 0]);
}

async fn the_whole_shows_its_activity(queue: Subject) {
    queue.open_with_jobs("a", "dropped", 2).await;
    queue.cancel_bulk("a", "dropped").await;
    queue.open("b", "complete").await;
    queue.seal("b", "complete").await;
    queue.add([job("c", "1")]).await;
    let whole = queue.whole().await;
    assert_eq!((whole.active_groups, whole.aggregating, whole.sweeping), (2, 1, 1));
    let taken = queue.take_one().await;
    assert_eq!(queue.whole().await.aggregating, 1, "in hand is not finished");
    queue.finish(&taken).await;
    queue.sweep(10).await;
    let whole = queue.whole().await;
    assert_eq!((whole.active_groups, whole.aggregating, whole.sweeping, whole.saved_spins), (1, 1, 0, 0));
    assert_eq!(queue.take_one().await.view.bulk, bulk_ref("a", "dropped"), "its last job was swept");
}

async fn a_bulk_action_is_shown_as_it_stands(queue: Subject) {
    queue.open_with_jobs("g", "b", 5).await;
    queue.advance_ms(1);
    let leased = queue.lease(2).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.cancel("g", &["b5"]).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.total, view.succeeded, view.failed, view.cancelled), (5, 1, 1, 1));
    assert_eq!((view.state, view.course, view.sealed), (BulkState::Running, Course::Hold, false));
    assert_eq!((view.created_at, view.started_at), (START, Some(START.plus_ms(1))));
    assert!(view.on_hold >= 2, "{view:?}");
}

async fn bulk_actions_come_page_by_page_in_the_order_they_were_opened(queue: Subject) {
    for id in ["z", "m:%", "a", "k", "b"] {
        queue.open("g", id).await;
        queue.open("h", id).await;
    }
    let (mut seen, mut after, mut pages) = (Vec::new(), 0, 0);
    loop {
        let look = Inspect::Bulks { group: group_id("g"), after, limit: 2, unfinished: false };
        let page = queue.inspect(look).await;
        let Inspected::Bulks { bulks, next } = page else { panic!("{page:?}") };
        assert!(bulks.len() <= 2 && bulks.iter().all(|view| view.bulk.group == group_id("g")));
        seen.extend(bulks.iter().map(|view| view.bulk.id.to_string()));
        pages += 1;
        let Some(next) = next else { break };
        after = next;
    }
    assert_eq!((seen, pages), (["z", "m:%", "a", "k", "b"].map(String::from).to_vec(), 3));
}

async fn unfinished_bulk_actions_come_page_by_page_without_those_that_have_ended(queue: Subject) {
    for id in ["completed", "running", "cancelled", "failed", "aggregating", "new", "last"] {
        queue.open("g", id).await;
    }
    queue.add([in_bulk("running", job("g", "1"))]).await;
    queue.lease_one().await;
    queue.seal("g", "completed").await;
    let taken = queue.take_one().await;
    queue.finish(&taken).await;
    queue.cancel_bulk("g", "cancelled").await;
    queue.seal("g", "failed").await;
    for taken in queue.take(10).await {
        queue.finish_with(&taken, "", true).await;
    }
    queue.seal("g", "aggregating").await;
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let look = Inspect::Bulks { group: group_id("g"), after, limit: 3, unfinished: true };
        let page = queue.inspect(look).await;
        let Inspected::Bulks { bulks, next } = page else { panic!("{page:?}") };
        assert!(bulks.len() <= 3 && bulks.iter().all(|view| !view.state.is_final()), "{bulks:?}");
        seen.extend(bulks.iter().map(|view| view.bulk.id.to_string()));
        let Some(next) = next else { break };
        after = next;
    }
    assert_eq!(seen, ["running", "aggregating", "new", "last"]);
    let nobody = Inspect::Bulks { group: group_id("nobody"), after: 0, limit: 3, unfinished: true };
    assert_eq!(queue.inspect(nobody).await, Inspected::Bulks { bulks: vec![], next: None });
}

async fn active_groups_come_page_by_page_by_name(queue: Subject) {
    for group in ["d", "b", "c:%", "a"] {
        queue.add(jobs(group, 2)).await;
    }
    queue.set_group("idle", weight(2)).await;
    queue.open("open", "b").await;
    let names = |lines: &[GroupLine]| lines.iter().map(|line| line.group.to_string()).collect::<Vec<_>>();
    let first = queue.groups(None, 3).await;
    assert_eq!(names(&first), ["a", "b", "c:%"]);
    assert_eq!(names(&queue.groups(Some("c:%"), 3).await), ["d"], "who has no jobs is not among them");
    assert_eq!(queue.groups(Some("d"), 3).await, []);
    assert_eq!(
        names(&queue.groups(Some("bb"), 1).await),
        ["c:%"],
        "a name that is not there is a place, too"
    );
    let line = &first[0];
    assert_eq!((line.backlog, line.in_flight, line.waiting, line.total, line.done), (2, 0, 0, 2, 0));
    assert_eq!(line.settings, GroupSettings::default());
    let leased = queue.lease(8).await;
    queue.succeed(&leased).await;
    assert_eq!(queue.groups(None, 10).await, []);
}

async fn a_listed_group_shows_its_settings(queue: Subject) {
    queue.add(jobs("g", 1)).await;
    let patch = GroupPatch { paused: Some(true), ..group_rate(per_second(2, 1)) };
    let settings = queue.set_group("g", GroupPatch { concurrency: Some(Some(4)), ..patch }).await;
    let line = &queue.groups(None, 1).await[0];
    assert!(line.settings.paused && line.settings.rate.is_some());
    assert_eq!(line.settings, settings);
}

async fn a_crowded_group_shows_its_predicted_wait_in_share(queue: Subject) {
    queue.set_group("g", group_rate(per_second(2, 1))).await;
    queue.add(jobs("g", 41)).await;
    assert_eq!(queue.lease(10).await.len(), 1);
    let view = queue.congestion("g").await;
    assert_eq!((view.waiting, view.speed, view.backoff_ms), (40, 2, 21_000));
    assert_eq!((view.level, view.level.as_str()), (CongestionLevel::High, "HIGH"));
    assert_eq!(view.estimated_completion_ms(), Some(20_000));
    let history = queue.history("g", 10).await;
    assert_eq!(history, [Snapshot { at: START, waiting: 40, speed: 2, backoff_ms: 21_000 }]);
    for _ in 0..25 {
        queue.advance_ms(100);
        queue.lease(10).await;
    }
    let times: Vec<u64> =
        queue.history("g", 10).await.iter().map(|one| one.at.since(START) / 1_000_000).collect();
    assert_eq!(times, [0, 1, 2], "one a second at most");
    assert!(queue.congestion("g").await.backoff_ms < 21_000, "and it falls as the queue drains");
}

async fn a_group_that_nobody_refuses_is_not_congested(queue: Subject) {
    queue.add(jobs("g", 40)).await;
    queue.lease(10).await;
    let view = queue.congestion("g").await;
    assert_eq!((view.waiting, view.backoff_ms, view.level), (30, 0, CongestionLevel::None));
    assert_eq!(queue.history("g", 10).await, []);
}

async fn a_page_out_of_range_is_invalid(queue: Subject) {
    let group = group_id("g");
    let history_max = (STATS_RETENTION_MS_MAX / 1000) as usize;
    let wrong = [
        Inspect::Bulks { group: group.clone(), after: 0, limit: 0, unfinished: true },
        Inspect::Bulks { group: group.clone(), after: 0, limit: LIST_GROUPS_MAX + 1, unfinished: false },
        Inspect::Groups { after: None, limit: 0 },
        Inspect::Groups { after: None, limit: LIST_GROUPS_MAX + 1 },
        Inspect::History { group: group.clone(), limit: 0 },
        Inspect::History { group: group.clone(), limit: history_max + 1 },
    ];
    for command in wrong {
        assert!(matches!(queue.engine.inspect(command).await, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.groups(None, LIST_GROUPS_MAX).await, []);
    assert_eq!(queue.history("g", history_max).await, []);
}

/// Erratum Q23. Erratum Q24. Erratum Q25.
async fn counts_of_classic_and_bulk_actions_equal_a_recount(queue: Subject) {
    queue.set_whole(Settings { max_retry_count: 1, ready_queue_max_size: 6, ..classic(3) }).await;
    for bulk in ["x", "y"] {
        queue.open("g", bulk).await;
    }
    let mut dice = Dice::new(26);
    let mut known = Vec::new();
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
            queue.settle(&leased, dice.pick(&outcomes)).await;
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
    let (group, whole) = (queue.group("g").await, queue.whole().await);
    assert_eq!((group.backlog, whole.backlog, whole.in_flight), (unleased, unleased, 0));
    assert_eq!((group.waiting, whole.waiting), (waiting, waiting));
    let listed = queue.type_view("t").await.ready;
    assert!(listed >= ready, "{ready} jobs are ready, {listed} are listed");
    for (bulk, [succeeded, failed, cancelled]) in ["x", "y"].into_iter().zip(ended) {
        let view = queue.bulk("g", bulk).await;
        assert_eq!((view.succeeded, view.cancelled), (succeeded, cancelled), "{bulk}");
        assert!(view.failed >= failed, "a requeued job has left it, its failure has not");
    }
}
