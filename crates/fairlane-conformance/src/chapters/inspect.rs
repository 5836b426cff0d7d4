//! `inspect`: shows what is there and changes nothing.

use fairlane_core::Level;
use fairlane_core::queue::*;

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
    looking_changes_nothing,
    counts_equal_a_recount,
];

async fn what_is_not_there_is_nothing(queue: Subject) {
    assert_eq!(queue.find_job("g", "1").await, None);
    let group = queue.engine.inspect(Inspect::Group(group_id("g"))).await.expect("inspect is answered");
    assert_eq!(group, Inspected::Group(None));
    let found = queue.engine.inspect(Inspect::Type(type_id("t"))).await.expect("inspect is answered");
    assert_eq!(found, Inspected::Type(None));
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
    assert_eq!(words, ["PENDING", "WAITING", "PROCESSING", "COMPLETED", "FAILED"]);
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
