//! The last hour of the queue, a sample every ten seconds, in constant memory.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlane_core::queue::QueueView;
use fairlane_core::{GroupId, Micros};
use fairlane_engine::Clock;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::api::{CustomerJobs, Jobs, Live};
use crate::app::Shared;

/// The time between two samples.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// The number of samples in an hour.
const SAMPLES_MAX: usize = 360;
/// Most customers that are kept per moment: those with the most jobs.
const CUSTOMERS_MAX: usize = 100;
/// Most further customers that are kept because their page was open recently.
const WATCHED_MAX: usize = 100;
/// How long a page counts as open after it was read.
const WATCHED_FOR: Duration = Duration::from_secs(120);

/// The counts of the queue at one moment, and the throughput since the previous sample.
#[derive(Debug, Clone, Copy, Default)]
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

/// Ten seconds of the last hour.
#[derive(Debug)]
pub(super) struct Moment {
    pub from: Micros,
    pub to: Micros,
    /// The sample at its end.
    pub sample: Sample,
    /// Jobs of the customers with the most jobs, and of those that were watched.
    pub customers: Vec<(GroupId, Jobs)>,
    /// Jobs of all other customers.
    pub others: Jobs,
}

impl Moment {
    /// The jobs of all customers.
    pub fn total(&self) -> Jobs {
        let mut total = self.others;
        self.customers.iter().for_each(|(_, jobs)| total += *jobs);
        total
    }

    pub fn over_ms(&self) -> u64 {
        self.to.since(self.from) / 1000
    }

    /// The jobs of one customer; `None` if it was not kept.
    pub fn of(&self, group: &GroupId) -> Option<Jobs> {
        self.customers.iter().find(|(name, _)| name == group).map(|(_, jobs)| *jobs)
    }

    #[cfg(test)]
    pub fn for_tests(from: Micros, to: Micros, customers: Vec<(GroupId, Jobs)>) -> Self {
        Self { from, to, sample: Sample::default(), customers, others: Jobs::default() }
    }
}

/// The last hour, oldest first.
pub(super) struct Hour {
    pub moments: Vec<Arc<Moment>>,
}

impl Hour {
    /// The moment that contains a point in time.
    pub fn at(&self, at: Micros) -> Option<&Moment> {
        let found = self.moments.iter().find(|moment| moment.from < at && at <= moment.to);
        found.map(|moment| &**moment)
    }
}

/// The samples and counts of the last hour.
#[derive(Default)]
pub(super) struct History {
    moments: Mutex<VecDeque<Arc<Moment>>>,
    watched: Mutex<HashMap<GroupId, Instant>>,
}

impl History {
    /// The samples, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        lock(&self.moments).iter().map(|moment| moment.sample).collect()
    }

    /// The last hour up to now, including the incomplete current moment.
    pub fn hour(&self, live: &Live) -> Hour {
        let mut moments = self.complete();
        if let Some(last) = moments.last() {
            let (customers, others) = self.kept(live.customers_so_far());
            let (from, to) = (last.to, Clock::System.now());
            moments.push(Arc::new(Moment { from, to, sample: last.sample, customers, others }));
        }
        Hour { moments }
    }

    /// The complete moments of the last hour.
    pub fn complete(&self) -> Vec<Arc<Moment>> {
        lock(&self.moments).iter().cloned().collect()
    }

    /// Keeps the counts of a customer from now on, for as long as its page is read.
    pub fn watch(&self, group: &GroupId) {
        let mut watched = lock(&self.watched);
        watched.retain(|_, read_at| read_at.elapsed() < WATCHED_FOR);
        if watched.len() < WATCHED_MAX || watched.contains_key(group) {
            watched.insert(group.clone(), Instant::now());
        }
    }

    pub(super) fn push(&self, from: Micros, to: Micros, sample: Sample, jobs: CustomerJobs) {
        let (customers, others) = self.kept(jobs);
        let mut moments = lock(&self.moments);
        moments.push_back(Arc::new(Moment { from, to, sample, customers, others }));
        if moments.len() > SAMPLES_MAX {
            moments.pop_front();
        }
    }

    /// The customers with the most jobs and the watched ones, and the jobs of all others.
    fn kept(&self, CustomerJobs { named, mut others }: CustomerJobs) -> (Vec<(GroupId, Jobs)>, Jobs) {
        let mut customers: Vec<(GroupId, Jobs)> = named.into_iter().collect();
        customers.sort_unstable_by_key(|(_, jobs)| Reverse(jobs.served.max(jobs.arrived)));
        let rest = customers.split_off(customers.len().min(CUSTOMERS_MAX));
        let watched = lock(&self.watched);
        for (group, jobs) in rest {
            if watched.contains_key(&group) {
                customers.push((group, jobs));
            } else {
                others += jobs;
            }
        }
        customers.shrink_to_fit();
        (customers, others)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes samples until the server stops.
pub(crate) async fn sample(app: Shared) {
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut last_at, mut from) = (app.live.totals(), Instant::now(), Clock::System.now());
    while app.stopping.run_until_cancelled(ticks.tick()).await.is_some() {
        // A store that does not reply leaves a gap; the engine logs it.
        let Some(Ok(view)) = app.stopping.run_until_cancelled(app.fairlane.queue_view()).await else {
            continue;
        };
        let (totals, now) = (app.live.totals(), Instant::now());
        let over = now.duration_since(last_at).as_secs_f64().max(0.001);
        let rates = ((totals.0 - last.0) as f64 / over, (totals.1 - last.1) as f64 / over);
        let (sample, to) = (sample_of(&view, rates, app.live.take_waits()), Clock::System.now());
        app.dashboard.history.push(from, to, sample, app.live.take_customers());
        (last, last_at, from) = (totals, now, to);
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
    use super::*;

    fn jobs(number: u64) -> Jobs {
        Jobs { arrived: number, served: number }
    }

    fn group(number: u64) -> GroupId {
        GroupId::new(format!("g{number}")).unwrap()
    }

    #[test]
    fn an_hour_of_moments_is_kept_and_found_by_time() {
        let history = History::default();
        for at in 0..2 * SAMPLES_MAX as u64 {
            let sample = Sample { backlog: at, ..Sample::default() };
            history.push(Micros(at * 10), Micros((at + 1) * 10), sample, CustomerJobs::default());
        }
        let (samples, hour) = (history.samples(), Hour { moments: history.complete() });
        assert_eq!((samples.len(), samples[0].backlog), (SAMPLES_MAX, SAMPLES_MAX as u64));
        assert_eq!(hour.at(Micros(4005)).unwrap().sample.backlog, 400);
        assert_eq!(hour.at(Micros(4010)).unwrap().sample.backlog, 400);
        assert!(hour.at(Micros(10)).is_none() && hour.at(Micros(9999)).is_none());
    }

    #[test]
    fn the_customers_with_the_most_jobs_and_those_on_screen_are_kept() {
        let history = History::default();
        history.watch(&group(3));
        let named = (1..=500).map(|number| (group(number), jobs(number))).collect();
        history.push(Micros(0), Micros(1), Sample::default(), CustomerJobs { named, others: jobs(7) });
        let moment = &history.complete()[0];
        assert_eq!(moment.customers.len(), CUSTOMERS_MAX + 1);
        assert_eq!(
            (moment.of(&group(500)), moment.of(&group(3)), moment.of(&group(4))),
            (Some(jobs(500)), Some(jobs(3)), None)
        );
        assert_eq!(moment.total(), jobs(500 * 501 / 2 + 7));
    }

    #[test]
    fn the_number_of_watched_customers_is_bounded() {
        let history = History::default();
        (0..1000).for_each(|number| history.watch(&group(number)));
        history.watch(&group(0));
        assert_eq!(lock(&history.watched).len(), WATCHED_MAX);
    }
}
