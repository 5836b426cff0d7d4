//! Seeded random steps through a machine on disk, from which jobs are discarded every few steps
//! while it is closed. The remaining rows must make a sound queue that goes on.

use std::path::Path;

use fairlane_core::{HashSeed, Machines, Micros};
use fairlane_engine::embedded::disk::{Disk, Selection, StoredState, Sync};

use super::apply_step;
use super::generator::Generator;
use crate::dice::Dice;
use crate::subject::{START, group_id};

/// Jobs that were discarded, by state.
pub type DiscardedJobs = std::collections::BTreeMap<StoredState, u64>;

/// Runs an episode of `steps` steps, with a discard after each `every`; the error is the first
/// unsound state.
pub fn discards(folder: &Path, seed: u64, steps: usize, every: usize) -> Result<DiscardedJobs, String> {
    let (mut generator, mut dice) = (Generator::new(seed, 0), Dice::new(seed));
    let mut machines = Machines::new(HashSeed::FIXED, START);
    machines.record();
    let mut disk = open(folder);
    let mut discarded = DiscardedJobs::new();
    for number in 1..=steps {
        let step = generator.next_step();
        let response = apply_step(&mut machines.queue, &step);
        generator.observe(&response);
        if number % every > 0 {
            continue;
        }
        disk.write(&machines.take_changes()).map_err(|error| error.to_string())?;
        drop(disk);
        disk = open(folder);
        let selection = selection(&mut dice, step.at);
        let failed = |error| format!("step {number}, {selection:?}: {error}");
        let counted = disk.selected(&selection).map_err(|error| failed(error.to_string()))?;
        let gone = disk.discard(&selection, step.at).map_err(|error| failed(error.to_string()))?;
        if counted != gone
            || !disk.selected(&selection).map_err(|error| failed(error.to_string()))?.is_empty()
        {
            return Err(failed(format!("{counted:?} were counted, {gone:?} discarded, and some are left")));
        }
        for selected in gone {
            *discarded.entry(selected.state).or_default() += selected.jobs;
        }
        let loaded = disk.load(&mut |_| {}).map_err(|error| failed(error.to_string()))?;
        machines = loaded.ok_or("nothing was written")?;
        machines.check().map_err(failed)?;
    }
    Ok(discarded)
}

fn selection(dice: &mut Dice, now: Micros) -> Selection {
    let states = StoredState::ALL.into_iter().filter(|_| dice.one_in(2)).collect();
    let group = dice.one_in(2).then(|| group_id(dice.pick(&["a", "b:c"])));
    let enqueued_before = dice.one_in(2).then(|| Micros(now.0 - dice.below(5_000_000)));
    Selection { states, group, enqueued_before }
}

fn open(folder: &Path) -> Disk {
    Disk::open(folder, Sync::Never, 0).expect("a folder of its own")
}
