//! A key's rate as a budget that requests and jobs are paid from.
//!
//! One number says until when everything taken so far is paid for, at the rate. A request is refused when that lies
//! further ahead than the burst; of a large burst only the first requests go on at once, and the others in step, so that
//! nobody else stands behind all of them. Work is never refused: it is owed, and waits until what was taken before it is all but
//! paid for. So a key that has much done goes on at a constant speed, and whoever came first goes first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane_core::Rate;

/// Jobs that are worth a request: an enqueued, settled or listed one takes about so much less of the server.
pub(super) const REQUEST_JOBS: u64 = 50;
/// Requests' worth of work that is done before any of it is paid for: about one large batch.
const WORK_AHEAD: u64 = 20;

/// The step of a burst: no more than two thousand a second, which leaves room between any two.
const STEP: u64 = 500_000;

/// What a key may take, by its rate. All times are nanoseconds since it began.
pub(super) struct Budget {
    begun: Instant,
    /// What one request takes.
    request: u64,
    /// How far requests may be ahead of what is paid for, and how far work may.
    burst: u64,
    work_burst: u64,
    /// The step of a burst.
    step: u64,
    paid_at: AtomicU64,
    /// When the last request goes on.
    stepped_at: AtomicU64,
}

impl Budget {
    pub fn new(rate: Rate) -> Self {
        let request = (rate.period_ms().saturating_mul(1_000_000) / rate.count()).max(1);
        let burst = request.saturating_mul(rate.burst());
        let work_burst = burst.min(request.saturating_mul(WORK_AHEAD));
        let [paid_at, stepped_at] = [(); 2].map(|()| AtomicU64::new(0));
        let (begun, step) = (Instant::now(), request.min(STEP));
        Self { begun, request, burst, work_burst, step, paid_at, stepped_at }
    }

    pub fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Takes one request and says how long until it goes on; or how long until there could be one.
    pub fn take(&self, now: u64) -> Result<Duration, Duration> {
        let paid_at = |at: u64| at.max(now).saturating_add(self.request);
        let latest = now.saturating_add(self.burst);
        let taken = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| {
            Some(paid_at(at)).filter(|paid_at| *paid_at <= latest)
        });
        taken.map(|_| self.in_step(now)).map_err(|at| Duration::from_nanos(paid_at(at) - latest))
    }

    /// How long until the next step is free, if more than the first requests of a burst have come.
    fn in_step(&self, now: u64) -> Duration {
        let ahead = self.step * WORK_AHEAD;
        let next = |at: u64| at.max(now) + self.step;
        let before =
            match self.stepped_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| Some(next(at))) {
                Ok(at) | Err(at) => at,
            };
        Duration::from_nanos(before.saturating_sub(now).saturating_sub(ahead))
    }

    /// Takes so many jobs' worth in any case, and says how long to wait before they are worked on.
    pub fn owe(&self, jobs: u64, now: u64) -> Duration {
        let price = self.price(jobs);
        let more = |at: u64| Some(at.max(now).saturating_add(price));
        let before = match self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(at) | Err(at) => at,
        };
        Duration::from_nanos(before.saturating_sub(now).saturating_sub(self.work_burst))
    }

    /// Gives back what was owed and not needed.
    pub fn give_back(&self, jobs: u64) {
        let less = |at: u64| Some(at.saturating_sub(self.price(jobs)));
        // It always changes: `less` always says to what.
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn price(&self, jobs: u64) -> u64 {
        self.request.saturating_mul(jobs) / REQUEST_JOBS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn budget(burst: u64) -> Budget {
        Budget::new(Rate::new(100, 1000, Some(burst)).unwrap())
    }

    #[test]
    fn as_many_requests_as_the_burst_pass_at_once_and_then_one_by_one() {
        let budget = budget(3);
        let now = 1000 * MS;
        assert!((0..3).all(|_| budget.take(now).is_ok()));
        assert_eq!(budget.take(now), Err(Duration::from_millis(10)));
        assert_eq!(budget.take(now + 4 * MS), Err(Duration::from_millis(6)));
        assert!(budget.take(now + 10 * MS).is_ok() && budget.take(now + 10 * MS).is_err());
        assert!((0..3).all(|_| budget.take(now + 1000 * MS).is_ok()), "what is not used is not saved up");
        assert!(budget.take(now + 1000 * MS).is_err());
    }

    #[test]
    fn a_large_burst_goes_on_in_step() {
        let budget = budget(100);
        let now = 1000 * MS;
        let waits: Vec<Duration> = (0..100).map(|_| budget.take(now).unwrap()).collect();
        assert!(waits[..=20].iter().all(Duration::is_zero), "{waits:?}");
        let step = Duration::from_nanos(STEP);
        assert!(waits[20..].windows(2).all(|pair| pair[1] - pair[0] == step), "{waits:?}");
    }

    #[test]
    fn work_that_is_owed_keeps_no_request_at_the_door() {
        let budget = budget(100);
        let now = 1000 * MS;
        budget.owe(90 * REQUEST_JOBS, now);
        assert_eq!(budget.take(now), Ok(Duration::ZERO));
    }

    #[test]
    fn work_is_paid_for_like_requests_and_waits_in_the_order_it_came() {
        let budget = budget(100);
        let now = 1000 * MS;
        assert_eq!(budget.owe(WORK_AHEAD * REQUEST_JOBS, now), Duration::ZERO);
        assert_eq!(budget.owe(REQUEST_JOBS, now), Duration::ZERO);
        assert_eq!(budget.owe(2 * REQUEST_JOBS, now), Duration::from_millis(10));
        assert_eq!(budget.owe(REQUEST_JOBS, now), Duration::from_millis(30));
        assert_eq!(budget.owe(0, now + 40 * MS), Duration::ZERO);
        assert_eq!((0..100).filter(|_| budget.take(now).is_ok()).count(), 100 - 24);
    }

    #[test]
    fn what_is_given_back_was_never_taken() {
        let budget = budget(10);
        let now = 1000 * MS;
        budget.owe(20 * REQUEST_JOBS, now);
        assert!(budget.take(now).is_err());
        budget.give_back(20 * REQUEST_JOBS);
        assert_eq!((0..100).filter(|_| budget.take(now).is_ok()).count(), 10);
    }
}
