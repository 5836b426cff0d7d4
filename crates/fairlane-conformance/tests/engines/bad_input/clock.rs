//! Work goes on while the clock jumps by hours, both ways.

use fairlane_conformance::dice::Dice;
use fairlane_conformance::subject::*;
use fairlane_core::limits::{ATTEMPTS_MAX, DELAY_MS_MAX};
use fairlane_core::queue::*;

const HOUR_MS: u64 = 3_600_000;
const GROUPS: [&str; 3] = ["a", "b", "c"];
const JOBS_EACH: usize = 20;
/// The clock jumps for this many rounds; then it only runs.
const WILD_ROUNDS: u64 = 80;

/// Seeds, each with the settings of one episode.
pub fn episodes() -> Vec<(u64, Settings)> {
    let patient = |settings| Settings {
        max_retry_count: ATTEMPTS_MAX,
        max_loss_count: ATTEMPTS_MAX,
        bulk_retention_ms: DELAY_MS_MAX,
        ..settings
    };
    let (share, classic) = (patient(Settings::default()), patient(classic(20)));
    vec![(1, share.clone()), (2, share), (3, classic.clone()), (4, classic)]
}

/// Every job of every group is of a bulk action, and each bulk action must end completed.
pub async fn work_while_the_clock_jumps(queue: &Subject, seed: u64, settings: Settings) {
    let mut dice = Dice::new(seed);
    queue.set_queue(settings).await;
    queue.set_group("a", group_rate(per_second(50, 5))).await;
    queue.set_group("b", group_seats(4)).await;
    for group in GROUPS {
        queue.open_with_jobs(group, "all", JOBS_EACH).await;
        queue.seal(group, "all").await;
    }
    let mut rounds = 0_u64;
    while !all_completed(queue).await {
        rounds += 1;
        assert!(
            rounds < 10 * WILD_ROUNDS,
            "seed {seed}: not done after {rounds} rounds: {:?}",
            queue.queue_view().await
        );
        jump(queue, &mut dice, rounds < WILD_ROUNDS);
        if rounds == WILD_ROUNDS {
            // The clock is corrected: a job that waits for a time waits for it, wherever the clock
            // has been.
            queue.advance_ms(14 * 24 * HOUR_MS);
        }
        step(queue, &mut dice).await;
    }
    let totals = queue.queue_view().await;
    assert_eq!((totals.backlog, totals.waiting, totals.in_flight, totals.aggregating), (0, 0, 0, 0));
    for group in GROUPS {
        assert_eq!(queue.end_counts(group, "all").await, [JOBS_EACH as u64, 0, 0], "each job has ended once");
    }
}

async fn all_completed(queue: &Subject) -> bool {
    for group in GROUPS {
        if queue.bulk_state(group, "all").await != BulkState::Completed {
            return false;
        }
    }
    true
}

fn jump(queue: &Subject, dice: &mut Dice, wild: bool) {
    match dice.below(12) {
        0 if wild => queue.advance_ms(dice.below(5) * HOUR_MS),
        1 if wild => queue.step_back_ms(dice.below(5) * HOUR_MS),
        2 if wild => queue.step_back_ms(dice.below(10_000)),
        _ => queue.advance_ms(dice.below(12_000)),
    }
}

async fn step(queue: &Subject, dice: &mut Dice) {
    queue.reclaim(100).await;
    queue.promote(100).await;
    queue.admit(100).await;
    queue.sweep(100).await;
    for leased in queue.lease(1 + dice.below(8) as usize).await {
        let outcome = match dice.below(10) {
            0 => retry(dice.below(1000)),
            1 => throttled(dice.below(1000), 0),
            2 => Outcome::Released,
            // A worker that never comes back.
            3 => continue,
            _ => succeeded(),
        };
        assert_eq!(queue.settle(&leased, outcome).await, Verdict::Applied);
    }
    for leased in queue.lease_bulks(1).await {
        if !dice.one_in(3) {
            assert_eq!(queue.settle_bulk(&leased).await, Verdict::Applied);
        }
    }
}
