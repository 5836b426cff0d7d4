//! The options of an instance.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairlane::parse_duration;

use crate::provider::Faults;
use crate::shop::Times;
use crate::store::{Catalogue, SEATS_MAX};

/// The options of an instance.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The address to listen on; port 0 means any free port
    #[arg(long, default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,
    /// The engine: memory:, ./directory, redis://host:port or http://host:port. Instances that share
    /// an engine share one waiting room.
    #[arg(long, default_value = "memory:", env = "BOX_OFFICE_ENGINE")]
    pub engine: String,
    /// The SQLite file of the shop, which instances share; a temporary one by default. The payment
    /// provider has its own file beside it, with the ending .provider.
    #[arg(long)]
    pub database: Option<PathBuf>,
    /// Schedules on sale in a new database
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub schedules: u32,
    /// Seats of each schedule in a new database
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=i64::from(SEATS_MAX)))]
    pub seats: u32,
    /// The price of a seat in points in a new database; an account has 1000 points
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub price: u32,
    /// Users who may shop at once; the others wait
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_active: u32,
    /// How long a user may shop
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub active_for: Duration,
    /// Polls of all waiting users in a second; the room spreads them
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub polls_per_second: u32,
    /// How long a seat is held
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub hold: Duration,
    /// How long a payment waits for the provider
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub payment_timeout: Duration,
    /// The longest delay of the payment provider
    #[arg(long, default_value = "300ms", value_parser = duration)]
    pub provider_delay: Duration,
    /// The share of calls to the payment provider that fail, 0 to 1; half of them after it has charged
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub provider_failures: f64,
}

impl Options {
    /// Times of a sale.
    pub fn times(&self) -> Times {
        Times { hold: self.hold, payment: self.payment_timeout }
    }

    /// What is on sale in a new database.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue { schedules: self.schedules, seats: self.seats, price: self.price }
    }

    /// How the provider behaves.
    pub fn faults(&self) -> Faults {
        Faults { delay: self.provider_delay, failures: self.provider_failures }
    }
}

/// A duration from 1 ms to a day.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = (Duration::from_millis(1)..=Duration::from_secs(86_400)).contains(&duration);
    is_allowed.then_some(duration).ok_or_else(|| "use a duration from 1ms to 24h".to_owned())
}

/// A share from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "use a number from 0 to 1, such as 0.1".to_owned())
}
