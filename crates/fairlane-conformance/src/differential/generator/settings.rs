//! Settings of the queue, of types and of groups: small limits and both ends of their ranges.

use fairlane_core::congestion::Congestion;
use fairlane_core::limits::{ALPHA_MAX, BASE_PRIORITY_MAX};
use fairlane_core::queue::*;
use fairlane_core::{Rate, Weight};

use super::Generator;
use crate::dice::Dice;

impl Generator {
    pub(super) fn set_group(&mut self) -> Command {
        let paused_one_in = self.paused_one_in;
        let most = BASE_PRIORITY_MAX as i64;
        let patch = GroupPatch {
            weight: self.maybe(|dice| Weight::new(dice.pick(&[1, 2, 3, 7, 11, 1000])).expect("in range")),
            base_priority: self.maybe(|dice| dice.pick(&[0, 0, 1000, -1000, 60_000, most, -most])),
            rate: self.maybe(rate),
            concurrency: self.maybe(seats),
            paused: self.maybe(|dice| dice.one_in(paused_one_in)),
        };
        let reset_congestion = self.dice.one_in(5);
        Command::SetGroup(SetGroup { group: self.group_id(), patch, reset_congestion })
    }

    pub(super) fn set_type(&mut self) -> Command {
        let paused_one_in = self.paused_one_in;
        let patch = TypePatch {
            rate: self.maybe(rate),
            concurrency: self.maybe(seats),
            paused: self.maybe(|dice| dice.one_in(paused_one_in)),
            max_retry_count: self.maybe(|dice| dice.pick(&[None, None, Some(0), Some(1), Some(5)])),
        };
        Command::SetType(SetType { type_id: self.type_id(), patch })
    }

    /// The discipline of the episode, and now and then the other, which is accepted while the queue
    /// is empty.
    pub(super) fn set_queue(&mut self) -> Command {
        let dice = &mut self.dice;
        let other = self.drawn > 1 && dice.one_in(4);
        let alpha_most = ALPHA_MAX as i64;
        let mut settings = Settings {
            discipline: if other { dice.pick(&DISCIPLINES) } else { self.discipline },
            alpha: dice.pick(&[10_000, 10_000, -10_000, 0, 123, alpha_most, -alpha_most]),
            global_rps: dice.pick(&[1, 2, 5, 20, 20, 1000]),
            ready_queue_max_size: dice.pick(&[1, 3, 10, 10_000, 10_000]),
            congestion: congestion(dice),
            rate: rate(dice),
            levels: dice.pick(&[LevelOrder::Weighted, LevelOrder::Weighted, LevelOrder::Strict]),
            max_retry_count: dice.below(4) as u32,
            max_throttle_count: dice.below(4) as u32,
            max_loss_count: dice.below(3) as u32,
            group_backlog_max: dice.pick(&[2, 8, 15, 1_000_000, 1_000_000]),
            queue_backlog_max: dice.pick(&[25, 60, 1_000_000, 1_000_000, 1_000_000]),
            group_stored_bytes_max: 1 << 40,
            stored_bytes_max: 1 << 40,
            completed_retention_ms: dice.pick(&[0, 3000, 20_000, 86_400_000]),
            failed_retention_ms: dice.pick(&[0, 3000, 20_000, 86_400_000]),
            bulk_retention_ms: dice.pick(&[0, 3000, 20_000, 20_000]),
            completed_kept_max: dice.below(40),
            failed_kept_max: dice.below(25),
        };
        // Rare, because ended jobs count too and would keep all other jobs out. Drawn from a copy
        // of the dice, so that other draws do not change.
        let mut dice = dice.clone();
        if dice.one_in(8) && !self.floods {
            settings.group_stored_bytes_max = dice.pick(&[10, 40, 1 << 40]);
            settings.stored_bytes_max = dice.pick(&[60, 150, 1 << 40]);
        }
        if self.floods || self.many_types {
            (settings.group_backlog_max, settings.queue_backlog_max) = (1_000_000, 1_000_000);
        }
        Command::SetQueue(SetQueue { settings })
    }
}

const DISCIPLINES: [Discipline; 2] = [Discipline::Share, Discipline::Classic];

fn congestion(dice: &mut Dice) -> Congestion {
    let base_backoff_ms = dice.pick(&[1, 50, 300, 1000]);
    Congestion {
        enabled: !dice.one_in(5),
        base_backoff_ms,
        max_backoff_ms: base_backoff_ms + dice.pick(&[0, 500, 2000, 119_000]),
        stats_retention_ms: dice.pick(&[1000, 2500, 5000, 3_600_000]),
    }
}

fn rate(dice: &mut Dice) -> Option<Rate> {
    let count = 1 + dice.below(50);
    let period_ms = dice.pick(&[1000, 1000, 1000, 1000, 1000, 60_000, 24 * 3600 * 1000]);
    let burst = dice.pick(&[None, None, Some(1), Some(5)]);
    let limited = dice.one_in(3);
    limited.then(|| Rate::new(count, period_ms, burst).expect("a rate in range"))
}

fn seats(dice: &mut Dice) -> Option<u32> {
    dice.pick(&[None, None, Some(1), Some(3), Some(20)])
}
