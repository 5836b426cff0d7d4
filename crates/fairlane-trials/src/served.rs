//! The server under load: what HTTP costs, what waiting costs, and whether one key can spoil it for another.
//!
//! - `served/cycle.rs`: jobs in batches through the server, against the library alone.
//! - `served/single.rs`: one job a request, against a handler that does nothing.
//! - `served/idle.rs`: very many long polls or event streams at once.
//! - `served/flood.rs`: a key that floods beside one that does not.
//! - `served/process.rs`: the processes that are measured. `served/client.rs`: a client that costs little.
//!
//! What is measured is always a process of its own, and its floor is measured in the same run, in turns. The figures
//! of processes are read from `/proc`, so this runs on Linux.

pub(crate) mod client;
pub mod cycle;
pub mod flood;
pub mod idle;
mod process;
pub mod single;

pub use process::{be_library, be_server};

/// One side of a comparison, round by round.
#[derive(Debug, Default, Clone)]
pub struct Side {
    /// How many a second.
    pub rates: Vec<f64>,
    /// Processor time of the measured process for each, in microseconds.
    pub cpu_us: Vec<f64>,
}

impl Side {
    fn add(&mut self, count: u64, seconds: f64, cpu_seconds: f64) {
        self.rates.push(count as f64 / seconds);
        self.cpu_us.push(cpu_seconds * 1e6 / count as f64);
    }

    /// The rate of the middle round.
    pub fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    /// The processor time of the middle round.
    pub fn cpu(&self) -> f64 {
        median(self.cpu_us.clone())
    }
}

/// What was measured in turns.
#[derive(Debug, Default, Clone)]
pub struct Compared {
    /// The server.
    pub ours: Side,
    /// What it is measured against.
    pub floor: Side,
    /// What did not hold; empty if all is well.
    pub violations: Vec<String>,
}

impl Compared {
    /// The middle one of the rounds' ratios: both sides of a round had the same neighbours.
    pub fn ratio(&self) -> f64 {
        median(self.ours.rates.iter().zip(&self.floor.rates).map(|(ours, floor)| ours / floor).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs on a thread and a runtime of its own: a load generator that takes little of the machine.
pub(crate) fn alone<T: Send, F: Future<Output = T>>(load: impl FnOnce() -> F + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("threads can be started").block_on(load())
    };
    std::thread::scope(|scope| scope.spawn(run).join()).expect("the load does not panic")
}
