//! Simulated buyers: HTTP clients that wait, choose, pay, change their minds and try again.
//!
//! - `crowd/buyer.rs`: one buyer. `crowd/client.rs`: requests to instances, of which some may be down.

mod buyer;
mod client;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::options::{duration, share};
use buyer::{Buyer, Visit};
pub use client::Client;

/// How a crowd behaves.
#[derive(Debug, Clone, Args)]
pub struct CrowdOptions {
    /// Number of buyers
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub buyers: u32,
    /// The seed of what buyers choose
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// The time in which all buyers arrive
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub arrive_within: Duration,
    /// The longest time that a buyer thinks before each step
    #[arg(long, default_value = "800ms", value_parser = duration)]
    pub think: Duration,
    /// The share of buyers who hold a seat and do not pay, 0 to 1; half of them give it back
    #[arg(long, default_value_t = 0.1, value_parser = share)]
    pub undecided: f64,
}

impl Default for CrowdOptions {
    fn default() -> Self {
        Self {
            buyers: 5000,
            seed: 7,
            arrive_within: Duration::from_secs(10),
            think: Duration::from_millis(800),
            undecided: 0.1,
        }
    }
}

/// What the buyers of a crowd met.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrowdReport {
    /// Buyers who came.
    pub buyers: u64,
    /// Buyers with a seat.
    pub bought: u64,
    /// Buyers who changed their minds.
    pub undecided: u64,
    /// Buyers for whom nothing was left.
    pub too_late: u64,
    /// Buyers who saw their position grow: another buyer overtook them.
    pub overtaken: u64,
    /// Buyers who lost their place in the waiting room and joined again.
    pub lost_places: u64,
    /// Seats that another buyer took first.
    pub conflicts: u64,
    /// Payments that were tried again.
    pub payments_again: u64,
    /// Requests that no instance answered at first.
    pub requests_again: u64,
    /// The time from the first arrival to the last departure, in seconds.
    pub seconds: f64,
}

/// Counts of a crowd that is in the shop.
#[derive(Default)]
struct Tally {
    bought: AtomicU64,
    undecided: AtomicU64,
    too_late: AtomicU64,
    overtaken: AtomicU64,
    lost_places: AtomicU64,
    conflicts: AtomicU64,
    payments_again: AtomicU64,
}

/// Sends a crowd to these instances, and waits until every buyer has left.
pub async fn run(urls: &[String], options: &CrowdOptions) -> Result<CrowdReport, String> {
    let client = Arc::new(Client::new(urls)?);
    let tally = Arc::new(Tally::default());
    let started = Instant::now();
    let mut buyers = JoinSet::new();
    for number in 0..options.buyers {
        let mut rng = fastrand::Rng::with_seed(options.seed.wrapping_mul(1_000_003) + u64::from(number));
        let arrival = options.arrive_within.mul_f64(rng.f64());
        let name = format!("buyer-{}-{number}", options.seed);
        let mut buyer = Buyer::new(name, client.clone(), tally.clone(), options.clone(), rng);
        buyers.spawn(async move {
            sleep(arrival).await;
            buyer.visit().await
        });
    }
    while let Some(visit) = buyers.join_next().await {
        let count = match visit.map_err(|error| format!("a buyer has failed: {error}"))? {
            Visit::Bought => &tally.bought,
            Visit::Undecided => &tally.undecided,
            Visit::TooLate => &tally.too_late,
        };
        count.fetch_add(1, Relaxed);
    }
    Ok(CrowdReport {
        buyers: options.buyers.into(),
        bought: tally.bought.load(Relaxed),
        undecided: tally.undecided.load(Relaxed),
        too_late: tally.too_late.load(Relaxed),
        overtaken: tally.overtaken.load(Relaxed),
        lost_places: tally.lost_places.load(Relaxed),
        conflicts: tally.conflicts.load(Relaxed),
        payments_again: tally.payments_again.load(Relaxed),
        requests_again: client.repeated(),
        seconds: started.elapsed().as_secs_f64(),
    })
}
