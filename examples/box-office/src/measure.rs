//! Measures payments while the engine answers and while it does not.
//!
//! The two alternate in small blocks, so that a busy machine slows both alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use fairlane::{Engine, EngineError, Fairlane};
use fairlane_core::{Command, Reply};
use fairlane_engine::{BoxFuture, Hooks, layer};
use serde::Serialize;

use crate::now_ms;
use crate::options::Options;
use crate::serve::{Running, StartError, start_on};
use crate::shop::Payment;
use crate::store::SEATS_MAX;

/// How often a call looks whether the outage is over.
const HANG_POLL: Duration = Duration::from_millis(5);
/// Payments of a block.
const BLOCK: u32 = 50;

/// The options of a measurement.
#[derive(Debug, Clone, Args)]
pub struct MeasureOptions {
    /// The engine: memory: or redis://host:port
    #[arg(long, default_value = "memory:", env = "BOX_OFFICE_ENGINE")]
    pub engine: String,
    /// Payments with the engine, and as many without it
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(50..=10_000))]
    pub payments: u32,
}

/// Durations of payments, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
}

/// The result of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Payments while the engine answers.
    pub engine_up: Percentiles,
    /// Payments while no call to the engine returns.
    pub engine_down: Percentiles,
    /// Rows that the outbox had at the end of the last outage.
    pub behind: u64,
    /// The time until the boards and the queue had caught up, in seconds.
    pub caught_up_s: f64,
}

/// Pays for seats with and without an engine.
pub async fn run(measure: &MeasureOptions, mut options: Options) -> Result<Measured, StartError> {
    let is_down = Arc::new(AtomicBool::new(false));
    let fairlane = Fairlane::open(&measure.engine).await?;
    options.listen = ([127, 0, 0, 1], 0).into();
    options.provider_delay = Duration::ZERO;
    options.seats = SEATS_MAX;
    options.schedules = (2 * measure.payments).div_ceil(SEATS_MAX);
    let running = start_on(switchable(&fairlane, is_down.clone()), &options).await?;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut number = 0;
    while up.len() < measure.payments as usize {
        for (is_outage, times) in [(false, &mut up), (true, &mut down)] {
            is_down.store(is_outage, Ordering::SeqCst);
            for _ in 0..BLOCK {
                times.push(pay(&running, number).await?);
                number += 1;
            }
        }
    }
    let behind = running.shop.store.outbox_len().await?;
    is_down.store(false, Ordering::SeqCst);
    let started = Instant::now();
    while running.shop.store.outbox_len().await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let caught_up_s = started.elapsed().as_secs_f64();
    running.stop().await;
    Ok(Measured { engine_up: percentiles(up), engine_down: percentiles(down), behind, caught_up_s })
}

/// Holds a seat, and measures its payment.
async fn pay(running: &Running, number: u32) -> Result<Duration, StartError> {
    let shop = &running.shop;
    let seat = (format!("schedule-{:03}", number / SEATS_MAX + 1), number % SEATS_MAX + 1);
    let (user, now) = (format!("buyer-{number}"), now_ms());
    let held = shop.store.hold(seat, user.clone(), None, (now, now + 60_000)).await?;
    let started = Instant::now();
    match shop.pay(held.reservation, user).await? {
        Payment::Confirmed => Ok(started.elapsed()),
        Payment::Pending => Err("a payment did not end".into()),
    }
}

/// An engine whose calls do not return while the switch is on.
fn switchable(inner: &Fairlane, is_down: Arc<AtomicBool>) -> Fairlane {
    let submit =
        move |inner: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Result<Reply, EngineError>> {
            let is_down = is_down.clone();
            Box::pin(async move {
                while is_down.load(Ordering::SeqCst) {
                    tokio::time::sleep(HANG_POLL).await;
                }
                inner.submit(command).await
            })
        };
    Fairlane::from_engine(layer(inner.engine().clone(), Hooks::default().submit(submit)))
}

fn percentiles(mut times: Vec<Duration>) -> Percentiles {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    Percentiles { p50_ms: at(50), p99_ms: at(99) }
}
