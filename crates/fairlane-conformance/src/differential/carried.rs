//! Seeded random steps through the core and through an engine that carries them to another one: what is lost or
//! changed on the way shows. Also a source of commands and replies of every kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::queue::{Command, Machine, Reply, Settings};
use fairlane_core::{HashSeed, Micros};
use fairlane_engine::{EmbeddedEngine, Engine};

use super::world::World;
use super::{Answer, Deed, Step, answer_of};
use crate::subject::START;

/// How long a wake-up that is there may take.
const WAKE_LIMIT: Duration = Duration::from_secs(20);

/// Plays an episode through the core and through `engine`, which leads to `behind`, whose time is `us`; says what
/// first differs.
pub async fn carried(
    engine: &dyn Engine,
    behind: &EmbeddedEngine,
    us: &AtomicU64,
    seed: u64,
    steps: usize,
) -> Result<(), String> {
    let mut world = World::new(seed, 0);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
    for number in 1..=steps {
        let step = world.next_step();
        us.store(step.at.0, Ordering::SeqCst);
        let expected = answer_of(&mut machine, &step);
        let same = match (&step.deed, &expected) {
            (Deed::Command(command), Answer::Reply(expected)) => {
                engine.execute(command.clone()).await.as_ref() == Ok(expected)
            }
            (Deed::TakeToken(name), Answer::Token(Some(_))) => {
                engine.wait(std::slice::from_ref(name), WAKE_LIMIT).await == Ok(true)
            }
            _ => true,
        };
        if !same {
            return Err(format!("step {number}, {step:?}: the core answers {expected:?}"));
        }
        world.learn(&expected);
    }
    let now = Micros(us.load(Ordering::SeqCst));
    let dump = behind.dump().await.map_err(|error| error.to_string())?;
    match machine.dump(now).difference(&dump) {
        same if same.is_empty() => Ok(()),
        difference => Err(format!("after {steps} steps:\n{difference}")),
    }
}

/// Commands and their replies, as they come in an episode.
pub fn samples(seed: u64, steps: usize) -> Vec<(Command, Reply)> {
    let mut world = World::new(seed, 0);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
    let mut samples = Vec::new();
    for _ in 0..steps {
        let step = world.next_step();
        let answer = answer_of(&mut machine, &step);
        world.learn(&answer);
        if let (Step { deed: Deed::Command(command), .. }, Answer::Reply(reply)) = (step, answer) {
            samples.push((command, *reply));
        }
    }
    samples
}
