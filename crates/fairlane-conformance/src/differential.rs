//! The differential test: seeded random steps through the core's machine and through Redis.
//!
//! The test compares every reply, and at intervals the complete state. A run is cut into episodes,
//! each on an empty server with random settings, so that the state stays small and many beginnings
//! are tested. Time is part of the steps: it stands still, runs, and jumps both ways. A divergence
//! is shrunk to few steps before it is reported.
//!
//! - `differential/generator.rs`: draws the steps. `differential/replay.rs`: runs them on both
//!   sides.
//! - `differential/shrink.rs`: fewer steps that still diverge.
//! - `differential/discards.rs`: steps through a core on disk, from which jobs are discarded while
//!   it is closed.
//! - `differential/restarts.rs`: the same steps through the core and through a core that is
//!   restarted from disk.
//! - `differential/forwarded.rs`: the same steps through the core and through an engine that
//!   forwards to another.

mod discards;
mod forwarded;
mod generator;
mod replay;
mod restarts;
mod shrink;

use std::fmt;
use std::time::Instant;

use fairlane_core::queue::{Command, Machine, Reply};
use fairlane_core::{Machines, Micros, TypeId};
use fairlane_engine::redis::ScriptEdit;

pub use discards::discards;
pub use forwarded::{compare_forwarded, other_samples, samples};
use generator::Generator;
use replay::Backend;
pub use restarts::restarts;

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The address of a Redis that this run may empty.
    pub url: String,
    /// The seed that determines every step.
    pub seed: u64,
    /// The number of steps of the run.
    pub steps: u64,
    /// The number of steps of one episode.
    pub episode_steps: u64,
    /// Steps between two comparisons of the complete state.
    pub dump_every: u64,
    /// Number of steps that are sent at a time. A server without functions needs 1, because a
    /// command that has to load its script would be overtaken by the next one.
    pub sent_at_once: usize,
    /// Most replays that are used to shrink a divergence.
    pub replays_max: usize,
    /// Changes a script, to test that the change is detected.
    pub edit_script: Option<ScriptEdit>,
}

/// Default limit on replays: a shorter list of steps is easier to read, but proves no more.
const REPLAYS_MAX: usize = 1_000;

/// The factor by which states are compared less often in an episode with the largest payloads,
/// because each comparison reads all of them.
const HEAVY_FACTOR: u64 = 10;

impl Run {
    /// A run with the usual intervals.
    pub fn new(url: impl Into<String>, seed: u64, steps: u64) -> Self {
        Self {
            url: url.into(),
            seed,
            steps,
            episode_steps: 2000,
            dump_every: 50,
            sent_at_once: 50,
            replays_max: REPLAYS_MAX,
            edit_script: None,
        }
    }
}

/// One action that both sides perform.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Applies a command to the queue.
    Command(Command),
    /// Applies a command of another capability.
    Other(fairlane_core::Command),
    /// Takes a wake-up token of a type.
    TakeToken(TypeId),
}

/// An action and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The time of the action.
    pub at: Micros,
    /// The action itself.
    pub action: Action,
}

/// The response of one side to an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// The reply to a command of the queue.
    Reply(Box<Reply>),
    /// The reply to a command of another capability.
    Other(Box<fairlane_core::Reply>),
    /// The token that was taken, if there was one.
    Token(Option<TypeId>),
    /// The error of an action that failed.
    Failed(String),
}

/// The first difference between the two sides.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The number of steps that led to it.
    pub steps: usize,
    /// The two responses, or what differs between the two states.
    pub what: String,
}

/// A difference with the steps that lead to it.
#[derive(Debug)]
pub struct Divergence {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the episode in the run.
    pub episode: u64,
    /// The fewest steps found that show the difference.
    pub steps: Vec<Step>,
    /// The difference itself.
    pub difference: Difference,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, episode {}: {} steps", self.seed, self.episode, self.steps.len())?;
        let mut last = None;
        for step in &self.steps {
            let since = last.map_or(0, |last: Micros| step.at.0 as i64 - last.0 as i64);
            writeln!(f, "  {} ({since:+} us) {:?}", step.at.0, step.action)?;
            last = Some(step.at);
        }
        write!(f, "left is the core, right is Redis\n{}", self.difference.what)
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The number of steps run.
    pub steps: u64,
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// The first divergence, which ends a run.
    pub divergence: Option<Divergence>,
}

/// Runs until a divergence or the end; calls `progress` with the number of steps run so far.
pub async fn run(run: &Run, mut progress: impl FnMut(u64)) -> Outcome {
    let started = Instant::now();
    let backend = Backend::open(run).await;
    let mut done = 0;
    let mut divergence = None;
    for episode in 0.. {
        if done >= run.steps || divergence.is_some() {
            break;
        }
        let steps = run.episode_steps.min(run.steps - done);
        divergence = run_episode(run, &backend, episode, steps, &mut |steps| progress(done + steps)).await;
        done += steps;
    }
    Outcome { steps: done, seconds: started.elapsed().as_secs_f64(), divergence }
}

async fn run_episode(
    run: &Run,
    backend: &Backend,
    episode: u64,
    count: u64,
    progress: &mut impl FnMut(u64),
) -> Option<Divergence> {
    let mut generator = Generator::mixed(run.seed, episode);
    let mut sides = backend.start().await;
    let mut steps: Vec<Step> = Vec::new();
    let mut undumped = 0;
    let dump_every = run.dump_every * if generator.is_heavy() { HEAVY_FACTOR } else { 1 };
    while (steps.len() as u64) < count {
        let chunk = run.sent_at_once.min(count as usize - steps.len());
        let found = sides.run_generated(chunk, &mut generator, &mut steps).await;
        undumped += chunk as u64;
        let due = undumped >= dump_every || steps.len() as u64 == count;
        let found = match found {
            None if due => sides.compare_states().await,
            found => found,
        };
        if due {
            undumped = 0;
        }
        progress(steps.len() as u64);
        if let Some(difference) = found {
            steps.truncate(difference.steps);
            let (steps, difference) = shrink::shrink(backend, run.replays_max, steps, difference).await;
            return Some(Divergence { seed: run.seed, episode, steps, difference });
        }
    }
    None
}

/// Applies one step to the core.
fn apply_to_all(machines: &mut Machines, step: &Step) -> Response {
    let Action::Other(command) = &step.action else { return apply_step(&mut machines.queue, step) };
    Response::Other(Box::new(machines.apply(command.clone(), step.at)))
}

/// Applies one step of the queue to the core.
fn apply_step(machine: &mut Machine, step: &Step) -> Response {
    match &step.action {
        Action::Other(command) => panic!("{command:?} is not a command of the queue"),
        Action::Command(command) => Response::Reply(Box::new(machine.apply(command.clone(), step.at))),
        Action::TakeToken(type_id) => Response::Token(machine.take_token(std::slice::from_ref(type_id))),
    }
}
