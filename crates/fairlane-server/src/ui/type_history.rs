//! The limits of downstreams over the last hour: a sample of every type every five seconds, in
//! bounded memory. Cuts after a 429, and the recovery between them, are derived from the samples.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairlane::{QueueState, TypeView};
use fairlane_core::{Micros, TypeId};
use fairlane_engine::Clock;
use tokio::time::{MissedTickBehavior, interval};

use crate::app::Shared;

/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// The number of samples in an hour.
const SAMPLES_MAX: usize = 720;

/// A type at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeSample {
    pub at: Micros,
    /// The configured limit and the limit in effect, in thousandths of a job per second.
    set_milli: Option<u64>,
    pub rate_milli: Option<u64>,
    /// Whether a Retry-After of the downstream was in effect.
    is_closed: bool,
    /// Responses of the downstream in the last second, without refusals.
    pub answers: u64,
}

/// A cut of the limit after the downstream refused a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub at: Micros,
    /// The limit before the cut, if there was one.
    pub from_milli: Option<u64>,
    pub to_milli: Option<u64>,
    /// Whether a Retry-After of the downstream was in effect.
    pub is_closed: bool,
}

/// The samples of all types.
#[derive(Default)]
pub(super) struct TypeHistory(Mutex<BTreeMap<TypeId, VecDeque<TypeSample>>>);

impl TypeHistory {
    /// The samples of a type, oldest first.
    pub fn of(&self, name: &TypeId) -> Vec<TypeSample> {
        let types = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        types.get(name).map(|samples| samples.iter().copied().collect()).unwrap_or_default()
    }

    fn push(&self, state: &QueueState, at: Micros) {
        let mut types = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        types.retain(|name, _| state.types.iter().any(|(known, _)| known == name));
        for (name, view) in &state.types {
            let samples = types.entry(name.clone()).or_default();
            samples.push_back(sample_of(view, at));
            if samples.len() > SAMPLES_MAX {
                samples.pop_front();
            }
        }
    }
}

fn sample_of(view: &TypeView, at: Micros) -> TypeSample {
    TypeSample {
        at,
        set_milli: view.settings.rate.map(|rate| rate.milli_per_second()),
        rate_milli: view.rate_milli,
        is_closed: view.closed_until.is_some(),
        answers: view.answers,
    }
}

/// The cuts among samples, newest first.
pub(super) fn cuts(samples: &[TypeSample]) -> Vec<Cut> {
    let cut = |pair: &[TypeSample]| {
        let [before, after] = pair else { return None };
        // A change of the limit by an operator is not a cut.
        let has_fallen = before.set_milli == after.set_milli
            && match (before.rate_milli, after.rate_milli) {
                (Some(before), Some(after)) => after < before,
                (None, Some(_)) => true,
                _ => false,
            };
        let has_closed = after.is_closed && !before.is_closed;
        (has_fallen || has_closed).then_some(Cut {
            at: after.at,
            from_milli: before.rate_milli,
            to_milli: after.rate_milli,
            is_closed: after.is_closed,
        })
    };
    samples.windows(2).rev().filter_map(cut).collect()
}

/// Takes samples until the server stops.
pub(crate) async fn sample_types(app: Shared) {
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while app.stopping.run_until_cancelled(ticks.tick()).await.is_some() {
        // A store that does not reply leaves a gap; the engine logs it.
        if let Some(Ok(state)) = app.stopping.run_until_cancelled(app.fairlane.state()).await {
            app.dashboard.types.push(&state, Clock::System.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, set: Option<u64>, rate: Option<u64>, is_closed: bool) -> TypeSample {
        TypeSample { at: Micros(at), set_milli: set, rate_milli: rate, is_closed, answers: 0 }
    }

    #[test]
    fn a_fall_of_the_limit_and_a_retry_after_are_cuts() {
        let set = Some(100_000);
        let samples = [
            sample(0, set, set, false),
            sample(1, set, Some(85_000), false),
            sample(2, set, Some(90_000), false),
            sample(3, set, Some(90_000), true),
            sample(4, Some(50_000), Some(50_000), true),
            sample(5, None, None, false),
            sample(6, None, Some(20_000), false),
        ];
        let at: Vec<u64> = cuts(&samples).iter().map(|cut| cut.at.0).collect();
        assert_eq!(at, [6, 3, 1]);
        assert_eq!(cuts(&samples)[2].from_milli, set);
    }

    #[tokio::test]
    async fn an_hour_of_samples_of_existing_types_is_kept() {
        let fairlane = fairlane::Fairlane::open("memory:").await.unwrap();
        let name = TypeId::new("mail").unwrap();
        fairlane.enqueue(fairlane::Job::new("a", "mail", &1)).await.unwrap().accepted().unwrap();
        let history = TypeHistory::default();
        let mut state = fairlane.state().await.unwrap();
        (0..2 * SAMPLES_MAX as u64).for_each(|at| history.push(&state, Micros(at)));
        let samples = history.of(&name);
        assert_eq!((samples.len(), samples[0].at), (SAMPLES_MAX, Micros(SAMPLES_MAX as u64)));
        state.types.clear();
        history.push(&state, Micros(0));
        assert!(history.of(&name).is_empty());
    }
}
