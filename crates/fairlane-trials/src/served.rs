//! The server under load: the cost of HTTP, the cost of held requests, and whether one key can slow
//! down another.
//!
//! - `served/cycle.rs`: jobs in batches through the server, compared with the library alone.
//! - `served/single.rs`: one job per request, compared with a handler that does nothing.
//! - `served/idle.rs`: very many long polls or event streams at once.
//! - `served/flood.rs`: a key that floods beside one that does not.
//! - `served/process.rs`: the processes that are measured. `served/client.rs`: a client that costs
//!   little.
//!
//! The measured server is always a process of its own, and its baseline is measured in the same
//! run, in turns. CPU time and memory of processes are read from `/proc`, so this runs on Linux.

pub(crate) mod client;
pub mod cycle;
pub mod flood;
pub mod idle;
mod process;
pub mod single;

pub use process::{run_library, run_server};

/// One side of a comparison, round by round.
#[derive(Debug, Default, Clone)]
pub struct Side {
    /// Items per second in each round.
    pub rates: Vec<f64>,
    /// CPU time of the measured process per item, in microseconds.
    pub cpu_us: Vec<f64>,
}

impl Side {
    fn add(&mut self, count: u64, seconds: f64, cpu_seconds: f64) {
        self.rates.push(count as f64 / seconds);
        self.cpu_us.push(cpu_seconds * 1e6 / count as f64);
    }

    /// The median rate of the rounds.
    pub fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    /// The median CPU time per item of the rounds, in microseconds.
    pub fn cpu(&self) -> f64 {
        median(self.cpu_us.clone())
    }
}

/// Two sides that were measured in turns.
#[derive(Debug, Default, Clone)]
pub struct Compared {
    /// The measured server.
    pub ours: Side,
    /// The baseline that the server is measured against.
    pub floor: Side,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

impl Compared {
    /// The median of the rounds' ratios: both sides of a round ran under the same load of the
    /// machine.
    pub fn ratio(&self) -> f64 {
        median(self.ours.rates.iter().zip(&self.floor.rates).map(|(ours, floor)| ours / floor).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs a load generator on its own thread and runtime, so that it uses little of the machine.
pub(crate) fn alone<T: Send, F: Future<Output = T>>(load: impl FnOnce() -> F + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("threads can be started").block_on(load())
    };
    std::thread::scope(|scope| scope.spawn(run).join()).expect("the load does not panic")
}
