//! Seeded random steps through the core and through an engine that forwards them to another: this
//! detects commands and replies that are lost or changed on the way. Also a source of commands and
//! replies of every kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::queue::{Command, Machine, Reply, Settings};
use fairlane_core::{HashSeed, Machines, Micros};
use fairlane_engine::{EmbeddedEngine, Engine};

use super::generator::Generator;
use super::{Action, Response, Step, apply_step, apply_to_all};
use crate::subject::START;

/// The longest time until an existing wake-up arrives.
const WAKE_LIMIT: Duration = Duration::from_secs(20);

/// Runs an episode through the core and through `engine`, which forwards to `target`, whose time is
/// `us`. The error is the first difference.
pub async fn compare_forwarded(
    engine: &dyn Engine,
    target: &EmbeddedEngine,
    us: &AtomicU64,
    seed: u64,
    steps: usize,
) -> Result<(), String> {
    let mut generator = Generator::new(seed, 0);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
    for number in 1..=steps {
        let step = generator.next_step();
        us.store(step.at.0, Ordering::SeqCst);
        let expected = apply_step(&mut machine, &step);
        let same = match (&step.action, &expected) {
            (Action::Command(command), Response::Reply(expected)) => {
                let expected = fairlane_core::Reply::from((**expected).clone());
                engine.submit(command.clone().into()).await == Ok(expected)
            }
            (Action::TakeToken(name), Response::Token(Some(_))) => {
                engine.wait(std::slice::from_ref(name), WAKE_LIMIT).await == Ok(true)
            }
            _ => true,
        };
        if !same {
            return Err(format!("step {number}, {step:?}: the core replies {expected:?}"));
        }
        generator.observe(&expected);
    }
    let now = Micros(us.load(Ordering::SeqCst));
    let mut dump = target.dump().await.map_err(|error| error.to_string())?;
    // The server also records changes in the activity log, which no step has asked for.
    dump.0.retain(|key, _| !key.starts_with("activity"));
    match machine.dump(now).difference(&dump) {
        same if same.is_empty() => Ok(()),
        difference => Err(format!("after {steps} steps:\n{difference}")),
    }
}

/// Commands and their replies, in the order of an episode.
pub fn samples(seed: u64, steps: usize) -> Vec<(Command, Reply)> {
    let mut generator = Generator::new(seed, 0);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
    let mut samples = Vec::new();
    for _ in 0..steps {
        let step = generator.next_step();
        let response = apply_step(&mut machine, &step);
        generator.observe(&response);
        if let (Step { action: Action::Command(command), .. }, Response::Reply(reply)) = (step, response) {
            samples.push((command, *reply));
        }
    }
    samples
}

/// Commands of the other capabilities and their replies, in the order of an episode of each.
pub fn other_samples(seed: u64, steps: usize) -> Vec<(fairlane_core::Command, fairlane_core::Reply)> {
    let mut samples = Vec::new();
    for mut generator in Generator::of_others(seed) {
        let mut machines = Machines::new(HashSeed::FIXED, START);
        for _ in 0..steps {
            let step = generator.next_step();
            let response = apply_to_all(&mut machines, &step);
            generator.observe(&response);
            if let (Step { action: Action::Other(command), .. }, Response::Other(reply)) = (step, response) {
                samples.push((command, *reply));
            }
        }
    }
    samples
}
