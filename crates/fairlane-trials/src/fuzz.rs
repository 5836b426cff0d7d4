//! Fuzzing: feeds mutated inputs to everything that reads bytes from outside.
//!
//! - `fuzz/targets.rs`: the targets. `fuzz/rows.rs`: the target for rows of a store.
//! - `fuzz/mutation.rs`: mutated bytes. `fuzz/recorded.rs`: replies of a real Redis.
//!
//! It runs on stable Rust, without instrumentation: instead of coverage, valid inputs that the
//! generator of the differential test draws lead mutations deep into a parser. A seed and a number
//! of inputs determine a run. An input that fails is made smaller and kept in the corpus, which a
//! test replays.

mod mutation;
mod recorded;
mod rows;
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fairlane_conformance::dice::Dice;

pub use targets::TARGETS;

/// The longest time that one input may take.
const INPUT_TIME_MAX: Duration = Duration::from_secs(2);
/// Most attempts to make a failed input smaller.
const SHRINKS_MAX: usize = 2000;

/// The message of the last panic, with its location.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Stores panics for the report of a finding instead of printing them.
pub fn hide_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
}

/// A fuzz target: a function that reads bytes from outside.
pub struct Target {
    /// The name, also of its folder in the corpus.
    pub name: &'static str,
    /// Valid inputs to start from.
    seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input; panics if an invariant does not hold.
    run: fn(&[u8]),
}

/// A failed input.
pub struct Finding {
    /// The input, made smaller.
    pub input: Vec<u8>,
    /// The message of the panic, or how long the input took.
    pub problem: String,
}

impl Target {
    /// Runs mutated inputs until the time is over or one fails. Returns the number of inputs, and
    /// the failed one.
    pub fn fuzz(&self, seed: u64, time: Duration) -> (u64, Option<Finding>) {
        let seeds = self.all_seeds();
        let (mut dice, started, mut inputs) = (Dice::new(seed), Instant::now(), 0);
        while started.elapsed() < time {
            let input = mutation::mutated(&mut dice, &seeds);
            inputs += 1;
            if let Err(problem) = self.try_input(&input) {
                let finding = Finding { input: self.shrunk(&mut dice, input), problem };
                return (inputs, Some(finding));
            }
        }
        (inputs, None)
    }

    /// Runs one input; the error says what is wrong.
    pub fn try_input(&self, input: &[u8]) -> Result<(), String> {
        let started = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| (self.run)(input))).is_err() {
            return Err(LAST_PANIC.lock().map_or_else(|_| String::new(), |panic| panic.clone()));
        }
        match started.elapsed() {
            took if took > INPUT_TIME_MAX => Err(format!("it took {took:?}")),
            _ => Ok(()),
        }
    }

    /// Keeps an input in the corpus, under a name that follows from its content.
    pub fn keep(&self, input: &[u8]) -> PathBuf {
        let folder = corpus().join(self.name);
        fs::create_dir_all(&folder).expect("the folder of the corpus can be made");
        let file = folder.join(format!("{:016x}", fnv_64(input)));
        fs::write(&file, input).expect("the corpus can be written");
        file
    }

    /// The inputs in the corpus.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        let Ok(folder) = fs::read_dir(corpus().join(self.name)) else { return Vec::new() };
        let mut files: Vec<PathBuf> = folder.map(|entry| entry.expect("it can be listed").path()).collect();
        files.sort();
        files.iter().map(|file| fs::read(file).expect("the corpus can be read")).collect()
    }

    /// The valid inputs and those of the corpus.
    pub fn all_seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = (self.seeds)();
        seeds.extend(self.kept());
        seeds
    }

    /// A smaller input that also fails: pieces are left out as long as it does.
    fn shrunk(&self, dice: &mut Dice, mut input: Vec<u8>) -> Vec<u8> {
        for _ in 0..SHRINKS_MAX {
            let Some(smaller) = mutation::without_a_piece(dice, &input) else { break };
            if self.try_input(&smaller).is_err() {
                input = smaller;
            }
        }
        input
    }
}

/// The folder of the corpus.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn fnv_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
