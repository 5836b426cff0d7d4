//! The differential test: seeded random steps through the core's machine and through Redis.
//!
//! Every answer is compared, and at intervals the whole state. A run is cut into episodes, each on an empty
//! server with random settings, so that state stays small and many beginnings are seen. Time is part of the
//! steps: it stands still, runs, and jumps both ways. A divergence is shrunk to few steps before it is told.
//!
//! - `differential/world.rs`: which steps come. `differential/replay.rs`: the two sides, side by side.
//! - `differential/shrink.rs`: fewer steps that still diverge.
//! - `differential/discards.rs`: steps through a core on disk, from which jobs are discarded while it is closed.
//! - `differential/restarts.rs`: the same steps through the core and through a core that is restarted from disk.
//! - `differential/carried.rs`: the same steps through the core and through an engine that leads to another one.

mod carried;
mod discards;
mod replay;
mod restarts;
mod shrink;
mod world;

use std::fmt;
use std::time::Instant;

use fairlane_core::queue::{Command, Machine, Reply};
use fairlane_core::{Micros, TypeId};
use fairlane_engine::redis::ScriptEdit;

pub use carried::{carried, samples};
pub use discards::discards;
use replay::Arena;
pub use restarts::restarts;
use world::World;

/// Steps sent to Redis before their answers are awaited.
const CHUNK_STEPS: usize = 50;

/// What to run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Address of a Redis that this run may empty.
    pub url: String,
    /// Decides every step.
    pub seed: u64,
    /// Steps in all.
    pub steps: u64,
    /// Steps of one episode.
    pub episode_steps: u64,
    /// Steps between two comparisons of the whole state.
    pub dump_every: u64,
    /// Changes a script, to see that it is noticed.
    pub edit_script: Option<ScriptEdit>,
}

impl Run {
    /// A run with the usual intervals.
    pub fn new(url: impl Into<String>, seed: u64, steps: u64) -> Self {
        Self { url: url.into(), seed, steps, episode_steps: 2000, dump_every: 50, edit_script: None }
    }
}

/// One thing that both sides do.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// A command.
    Command(Command),
    /// A wake-up token is taken.
    TakeToken(TypeId),
}

/// A deed and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When.
    pub at: Micros,
    /// What.
    pub deed: Deed,
}

/// What one side answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To a command.
    Reply(Box<Reply>),
    /// To taking a token.
    Token(Option<TypeId>),
    /// It failed.
    Failed(String),
}

/// Where the two sides part.
#[derive(Debug, Clone)]
pub struct Difference {
    /// How many steps led to it.
    pub steps: usize,
    /// The two answers, or what differs between the two states.
    pub what: String,
}

/// A difference with what leads to it.
#[derive(Debug)]
pub struct Divergence {
    /// The run's seed.
    pub seed: u64,
    /// In which of its episodes.
    pub episode: u64,
    /// Few steps that show it.
    pub steps: Vec<Step>,
    /// What it is.
    pub difference: Difference,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, episode {}: {} steps", self.seed, self.episode, self.steps.len())?;
        let mut last = None;
        for step in &self.steps {
            let since = last.map_or(0, |last: Micros| step.at.0 as i64 - last.0 as i64);
            writeln!(f, "  {} ({since:+} us) {:?}", step.at.0, step.deed)?;
            last = Some(step.at);
        }
        write!(f, "left is the core, right is Redis\n{}", self.difference.what)
    }
}

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// Steps taken.
    pub steps: u64,
    /// How long it took.
    pub seconds: f64,
    /// The first divergence, which ends a run.
    pub divergence: Option<Divergence>,
}

/// Runs until a divergence or the end; `progress` hears the steps taken so far.
pub async fn run(run: &Run, mut progress: impl FnMut(u64)) -> Outcome {
    let started = Instant::now();
    let arena = Arena::open(run).await;
    let mut taken = 0;
    let mut divergence = None;
    for episode in 0.. {
        if taken >= run.steps || divergence.is_some() {
            break;
        }
        let steps = run.episode_steps.min(run.steps - taken);
        divergence = run_episode(run, &arena, episode, steps, &mut |steps| progress(taken + steps)).await;
        taken += steps;
    }
    Outcome { steps: taken, seconds: started.elapsed().as_secs_f64(), divergence }
}

async fn run_episode(
    run: &Run,
    arena: &Arena,
    episode: u64,
    count: u64,
    progress: &mut impl FnMut(u64),
) -> Option<Divergence> {
    let mut world = World::new(run.seed, episode);
    let mut sides = arena.start().await;
    let mut steps: Vec<Step> = Vec::new();
    let mut undumped = 0;
    while (steps.len() as u64) < count {
        let chunk = CHUNK_STEPS.min(count as usize - steps.len());
        let found = sides.play_generated(chunk, &mut world, &mut steps).await;
        undumped += chunk as u64;
        let due = undumped >= run.dump_every || steps.len() as u64 == count;
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
            let (steps, difference) = shrink::shrink(arena, steps, difference).await;
            return Some(Divergence { seed: run.seed, episode, steps, difference });
        }
    }
    None
}

/// What the core answers.
fn answer_of(machine: &mut Machine, step: &Step) -> Answer {
    match &step.deed {
        Deed::Command(command) => Answer::Reply(Box::new(machine.apply(command.clone(), step.at))),
        Deed::TakeToken(type_id) => Answer::Token(machine.take_token(std::slice::from_ref(type_id))),
    }
}
