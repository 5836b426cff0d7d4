//! A key's rate as a generic cell rate algorithm (GCRA) that requests and jobs are charged to.
//!
//! The state is one number: the theoretical arrival time, at which everything charged so far has
//! been earned at the rate. A request is refused while that time lies further ahead than the burst.
//! Only the first requests of a large burst proceed at once; the others are paced, so that requests
//! of other keys do not wait behind all of them. Work is never refused: it is charged, and waits
//! until the theoretical arrival time is close. So a key with much work proceeds at a constant
//! speed, in the order in which its requests came.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane_core::Rate;

/// Jobs that cost as much as one request: enqueueing, settling or listing a job costs the server
/// about a fiftieth of a request.
pub(super) const REQUEST_JOBS: u64 = 50;
/// How far work may run ahead of the rate, in requests: about one large batch.
const WORK_AHEAD: u64 = 20;

/// The shortest interval between two paced requests, in nanoseconds: at most 2,000 a second, which
/// leaves room for requests of other keys between any two.
const PACE_NS: u64 = 500_000;

/// The rate limiter of one key. All times are nanoseconds since it was created.
pub(super) struct Gcra {
    created: Instant,
    /// The emission interval: the cost of one request.
    request: u64,
    /// How far requests may run ahead of the rate.
    burst: u64,
    /// How far work may run ahead of the rate.
    work_burst: u64,
    /// The interval between two paced requests.
    pace: u64,
    theoretical_arrival: AtomicU64,
    /// When the last paced request proceeds.
    paced_until: AtomicU64,
}

impl Gcra {
    pub fn new(rate: Rate) -> Self {
        let request = (rate.period_ms().saturating_mul(1_000_000) / rate.count()).max(1);
        let burst = request.saturating_mul(rate.burst());
        let work_burst = burst.min(request.saturating_mul(WORK_AHEAD));
        let [theoretical_arrival, paced_until] = [(); 2].map(|()| AtomicU64::new(0));
        let (created, pace) = (Instant::now(), request.min(PACE_NS));
        Self { created, request, burst, work_burst, pace, theoretical_arrival, paced_until }
    }

    pub fn now(&self) -> u64 {
        self.created.elapsed().as_nanos() as u64
    }

    /// Admits one request and returns how long it waits before it proceeds. An error is how long
    /// until a request could be admitted.
    pub fn admit(&self, now: u64) -> Result<Duration, Duration> {
        let charged = |arrival: u64| arrival.max(now).saturating_add(self.request);
        let latest = now.saturating_add(self.burst);
        let admitted =
            self.theoretical_arrival.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |arrival| {
                Some(charged(arrival)).filter(|charged| *charged <= latest)
            });
        admitted.map(|_| self.pace(now)).map_err(|arrival| Duration::from_nanos(charged(arrival) - latest))
    }

    /// How long a request waits for its turn when it is not among the first ones of a burst.
    fn pace(&self, now: u64) -> Duration {
        let ahead = self.pace * WORK_AHEAD;
        let next = |at: u64| at.max(now) + self.pace;
        let before =
            match self.paced_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| Some(next(at))) {
                Ok(at) | Err(at) => at,
            };
        Duration::from_nanos(before.saturating_sub(now).saturating_sub(ahead))
    }

    /// Charges the cost of this many jobs unconditionally, and returns how long to wait before the
    /// work begins.
    pub fn charge(&self, jobs: u64, now: u64) -> Duration {
        let cost = self.cost(jobs);
        let charged = |arrival: u64| Some(arrival.max(now).saturating_add(cost));
        let before =
            match self.theoretical_arrival.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged) {
                Ok(arrival) | Err(arrival) => arrival,
            };
        Duration::from_nanos(before.saturating_sub(now).saturating_sub(self.work_burst))
    }

    fn cost(&self, jobs: u64) -> u64 {
        self.request.saturating_mul(jobs) / REQUEST_JOBS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn gcra(burst: u64) -> Gcra {
        Gcra::new(Rate::new(100, 1000, Some(burst)).unwrap())
    }

    #[test]
    fn a_burst_of_requests_is_admitted_at_once_and_then_one_per_interval() {
        let gcra = gcra(3);
        let now = 1000 * MS;
        assert!((0..3).all(|_| gcra.admit(now).is_ok()));
        assert_eq!(gcra.admit(now), Err(Duration::from_millis(10)));
        assert_eq!(gcra.admit(now + 4 * MS), Err(Duration::from_millis(6)));
        assert!(gcra.admit(now + 10 * MS).is_ok() && gcra.admit(now + 10 * MS).is_err());
        assert!((0..3).all(|_| gcra.admit(now + 1000 * MS).is_ok()), "no more than the burst is saved up");
        assert!(gcra.admit(now + 1000 * MS).is_err());
    }

    #[test]
    fn a_large_burst_is_paced() {
        let gcra = gcra(100);
        let now = 1000 * MS;
        let waits: Vec<Duration> = (0..100).map(|_| gcra.admit(now).unwrap()).collect();
        assert!(waits[..=20].iter().all(Duration::is_zero), "{waits:?}");
        let pace = Duration::from_nanos(PACE_NS);
        assert!(waits[20..].windows(2).all(|pair| pair[1] - pair[0] == pace), "{waits:?}");
    }

    #[test]
    fn charged_work_does_not_pace_requests() {
        let gcra = gcra(100);
        let now = 1000 * MS;
        gcra.charge(90 * REQUEST_JOBS, now);
        assert_eq!(gcra.admit(now), Ok(Duration::ZERO));
    }

    #[test]
    fn work_is_charged_like_requests_and_waits_in_order_of_arrival() {
        let gcra = gcra(100);
        let now = 1000 * MS;
        assert_eq!(gcra.charge(WORK_AHEAD * REQUEST_JOBS, now), Duration::ZERO);
        assert_eq!(gcra.charge(REQUEST_JOBS, now), Duration::ZERO);
        assert_eq!(gcra.charge(2 * REQUEST_JOBS, now), Duration::from_millis(10));
        assert_eq!(gcra.charge(REQUEST_JOBS, now), Duration::from_millis(30));
        assert_eq!(gcra.charge(0, now + 40 * MS), Duration::ZERO);
        assert_eq!((0..100).filter(|_| gcra.admit(now).is_ok()).count(), 100 - 24);
    }
}
