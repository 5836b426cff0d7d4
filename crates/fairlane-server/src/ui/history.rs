//! The last hour of the queue, a sample every ten seconds, in constant memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairlane_core::queue::QueueView;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::app::Shared;

/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// An hour of samples.
const SAMPLES_MAX: usize = 360;

/// The queue at one moment, and the throughput since the sample before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub backlog: u64,
    pub waiting: u64,
    pub in_flight: u64,
    pub dead: u64,
    pub enqueued_per_second: f64,
    pub settled_per_second: f64,
    /// The median and the 99th percentile of the waits of jobs, in milliseconds; `None` if none
    /// started.
    pub waits_ms: Option<(u64, u64)>,
}

/// The samples of the last hour.
#[derive(Default)]
pub(super) struct History {
    samples: Mutex<VecDeque<Sample>>,
}

impl History {
    /// The samples, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn push(&self, sample: Sample) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back(sample);
        if samples.len() > SAMPLES_MAX {
            samples.pop_front();
        }
    }
}

/// Takes samples until the server stops.
pub(crate) async fn sample(app: Shared) {
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut last_at) = (app.live.totals(), Instant::now());
    while app.stopping.run_until_cancelled(ticks.tick()).await.is_some() {
        // A store that does not reply leaves a gap; the engine logs it.
        let Some(Ok(view)) = app.stopping.run_until_cancelled(app.fairlane.queue_view()).await else {
            continue;
        };
        let (totals, now) = (app.live.totals(), Instant::now());
        let over = now.duration_since(last_at).as_secs_f64().max(0.001);
        let rates = ((totals.0 - last.0) as f64 / over, (totals.1 - last.1) as f64 / over);
        app.dashboard.history.push(sample_of(&view, rates, app.live.take_waits()));
        (last, last_at) = (totals, now);
    }
}

fn sample_of(view: &QueueView, rates: (f64, f64), waits_ms: Option<(u64, u64)>) -> Sample {
    Sample {
        backlog: view.backlog,
        waiting: view.waiting,
        in_flight: view.in_flight,
        dead: view.failed,
        enqueued_per_second: rates.0,
        settled_per_second: rates.1,
        waits_ms,
    }
}

#[cfg(test)]
mod tests {
    use fairlane::Fairlane;

    use super::*;

    #[tokio::test]
    async fn an_hour_of_samples_is_kept() {
        let view = Fairlane::open("memory:").await.unwrap().queue_view().await.unwrap();
        let history = History::default();
        for number in 0..2 * SAMPLES_MAX {
            history.push(sample_of(&view, (number as f64, 0.0), None));
        }
        let samples = history.samples();
        assert_eq!((samples.len(), samples[0].enqueued_per_second), (SAMPLES_MAX, SAMPLES_MAX as f64));
    }
}
