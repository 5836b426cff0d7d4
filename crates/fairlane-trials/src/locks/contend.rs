//! Measures how often a lock passes on between tasks of several handles that acquire and release it
//! without a pause.

use std::time::{Duration, Instant};

use fairlane::{Fairlane, LockOptions};
use fairlane_core::limits::LOCK_SLICE_MS;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

/// The size of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Tasks that contend, in turn on each of the handles.
    pub tasks: usize,
    /// Handles, each of which is a process to the engine.
    pub handles: usize,
    /// How long each order is measured, in each of the rounds.
    pub turn: Duration,
    /// Turns of every order.
    pub rounds: usize,
}

/// The way in which waiters get the lock.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// The lock is granted to a waiter.
    Granted,
    /// The lock is reserved for a waiter, because a grant would be longer than the ttl.
    Reserved,
    /// Waiters keep to their order.
    Fair,
}

/// Every order.
pub const ORDERS: [Order; 3] = [Order::Granted, Order::Reserved, Order::Fair];

impl Order {
    fn options(self) -> LockOptions {
        let max_wait = Duration::from_secs(60);
        let options = LockOptions { max_wait, fair: matches!(self, Self::Fair), ..LockOptions::default() };
        match self {
            Self::Reserved => LockOptions { ttl: Duration::from_millis(LOCK_SLICE_MS - 1), ..options },
            Self::Granted | Self::Fair => options,
        }
    }
}

/// Grants per second for each of [`ORDERS`], the median of the rounds. Without an address it starts
/// a Redis.
pub async fn run(plan: &Plan, address: Option<&str>) -> [f64; 3] {
    let server = address.is_none().then(|| RedisServer::start(ServerOptions::default()));
    let address = server.as_ref().map_or_else(|| address.unwrap_or_default().to_owned(), RedisServer::url);
    let mut handles = Vec::new();
    for _ in 0..plan.handles {
        handles.push(Fairlane::open(&address).await.expect("the engine opens"));
    }
    let mut rates: [Vec<f64>; 3] = Default::default();
    for _ in 0..plan.rounds {
        for (order, rates) in ORDERS.into_iter().zip(&mut rates) {
            rates.push(contend(plan, &handles, order).await);
        }
    }
    rates.map(|mut rates| {
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    })
}

async fn contend(plan: &Plan, handles: &[Fairlane], order: Order) -> f64 {
    let began = Instant::now();
    let until = began + plan.turn;
    let tasks = (0..plan.tasks).map(|task| {
        let lock = handles[task % handles.len()].lock("contended").options(order.options());
        tokio::spawn(async move {
            let mut grants = 0_u64;
            while Instant::now() < until {
                let guard = lock.lock().await.expect("the lock passes on");
                grants += 1;
                guard.release().await.expect("the engine replies");
            }
            grants
        })
    });
    let mut grants = 0;
    for task in tasks.collect::<Vec<_>>() {
        grants += task.await.expect("no task panics");
    }
    grants as f64 / began.elapsed().as_secs_f64()
}
