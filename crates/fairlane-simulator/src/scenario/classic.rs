//! The keys of the `classic` discipline, as written in a file and as checked settings.
//!
//! They have the names and defaults of the original documents. `share` ignores them, so that a
//! scenario can have them and still run under either discipline.

use fairlane_core::Rate;
use fairlane_core::congestion::Congestion;
use fairlane_core::limits::{
    ADMIT_JOBS_MAX, ALPHA, ALPHA_MAX, BACKOFF_MS_MAX, GLOBAL_RPS, GLOBAL_RPS_MAX, PROMOTE_JOBS_MAX,
    READY_QUEUE_MAX_SIZE, READY_QUEUE_SIZE_LIMIT,
};
use fairlane_core::queue::Settings;
use serde::Deserialize;

use super::build::{Checked, Invalid, within};
use super::part::per_second;

const FETCH_INTERVAL_MS: u64 = 200;
const FETCH_BATCH_SIZE: u64 = 50;
const DISPATCH_INTERVAL_MS: u64 = 100;
const DISPATCH_BATCH_SIZE: u64 = 100;
const INTERVAL_MS_MAX: u64 = 60 * 60 * 1000;

/// The table `[classic]` of a file or a part, or the overrides of the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassicLayer {
    /// The weight of progress in a score; 10,000 by default.
    pub alpha: Option<i64>,
    /// Jobs per second over all groups; by default the scenario's `rate`, or 10,000 if it has none.
    pub global_rps: Option<u64>,
    /// Most admitted jobs that wait for a worker; 10,000 by default.
    pub ready_queue_max_size: Option<u64>,
    /// The interval in milliseconds at which jobs are taken from their lanes and admitted or
    /// refused; 200 by default.
    pub fetch_interval_ms: Option<u64>,
    /// Most jobs admitted or refused at a time; 50 by default.
    pub fetch_batch_size: Option<u64>,
    /// The interval in milliseconds at which jobs whose backoff is over return to their lanes; 100
    /// by default.
    pub dispatch_interval_ms: Option<u64>,
    /// Most jobs that return at a time; 100 by default.
    pub dispatch_batch_size: Option<u64>,
    /// The backoff of refused jobs.
    pub congestion: Option<CongestionLayer>,
}

/// The table `[classic.congestion]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CongestionLayer {
    /// If false, every refused job waits `base_backoff_ms`. True by default.
    pub enabled: Option<bool>,
    /// The shortest backoff in milliseconds; 1000 by default.
    pub base_backoff_ms: Option<u64>,
    /// The longest backoff in milliseconds; 120,000 by default.
    pub max_backoff_ms: Option<u64>,
}

impl ClassicLayer {
    pub(super) fn overridden_by(self, over: Self) -> Self {
        Self {
            alpha: over.alpha.or(self.alpha),
            global_rps: over.global_rps.or(self.global_rps),
            ready_queue_max_size: over.ready_queue_max_size.or(self.ready_queue_max_size),
            fetch_interval_ms: over.fetch_interval_ms.or(self.fetch_interval_ms),
            fetch_batch_size: over.fetch_batch_size.or(self.fetch_batch_size),
            dispatch_interval_ms: over.dispatch_interval_ms.or(self.dispatch_interval_ms),
            dispatch_batch_size: over.dispatch_batch_size.or(self.dispatch_batch_size),
            congestion: match (self.congestion, over.congestion) {
                (Some(base), Some(over)) => Some(base.overridden_by(over)),
                (base, over) => over.or(base),
            },
        }
    }
}

impl CongestionLayer {
    fn overridden_by(self, over: Self) -> Self {
        Self {
            enabled: over.enabled.or(self.enabled),
            base_backoff_ms: over.base_backoff_ms.or(self.base_backoff_ms),
            max_backoff_ms: over.max_backoff_ms.or(self.max_backoff_ms),
        }
    }
}

/// The settings of a run under `classic`.
#[derive(Debug, Clone, Copy)]
pub struct ClassicPart {
    pub alpha: i64,
    pub global_rps: u64,
    pub ready_queue_max_size: u64,
    pub fetch_interval_us: u64,
    pub fetch_batch_size: usize,
    pub dispatch_interval_us: u64,
    pub dispatch_batch_size: usize,
    pub congestion: Congestion,
}

impl ClassicPart {
    /// The settings of a queue, with the default intervals and batches.
    pub fn of(settings: &Settings) -> Self {
        let default = classic(ClassicLayer::default(), None).ok().expect("the defaults are valid");
        Self {
            alpha: settings.alpha,
            global_rps: settings.global_rps,
            ready_queue_max_size: settings.ready_queue_max_size,
            congestion: settings.congestion,
            ..default
        }
    }
}

/// Checks the table; `rate` is the scenario's own.
pub fn classic(layer: ClassicLayer, rate: Option<Rate>) -> Checked<ClassicPart> {
    let number = |key: &str, written: Option<u64>, default: u64, most: u64| {
        within(&format!("classic.{key}"), written.unwrap_or(default), 1, most)
    };
    let alpha = layer.alpha.unwrap_or(ALPHA);
    let by_rate = rate.map_or(GLOBAL_RPS, |rate| (per_second(rate).floor() as u64).max(1));
    let fetch_ms = number("fetch_interval_ms", layer.fetch_interval_ms, FETCH_INTERVAL_MS, INTERVAL_MS_MAX)?;
    let dispatch_ms =
        number("dispatch_interval_ms", layer.dispatch_interval_ms, DISPATCH_INTERVAL_MS, INTERVAL_MS_MAX)?;
    let fetch_most = ADMIT_JOBS_MAX as u64;
    let dispatch_most = PROMOTE_JOBS_MAX as u64;
    let fetch = number("fetch_batch_size", layer.fetch_batch_size, FETCH_BATCH_SIZE, fetch_most)?;
    let dispatch =
        number("dispatch_batch_size", layer.dispatch_batch_size, DISPATCH_BATCH_SIZE, dispatch_most)?;
    let ready = layer.ready_queue_max_size;
    Ok(ClassicPart {
        alpha: between("classic.alpha", alpha, ALPHA_MAX)?,
        global_rps: number("global_rps", layer.global_rps, by_rate, GLOBAL_RPS_MAX)?,
        ready_queue_max_size: number(
            "ready_queue_max_size",
            ready,
            READY_QUEUE_MAX_SIZE,
            READY_QUEUE_SIZE_LIMIT,
        )?,
        fetch_interval_us: fetch_ms * 1000,
        fetch_batch_size: fetch as usize,
        dispatch_interval_us: dispatch_ms * 1000,
        dispatch_batch_size: dispatch as usize,
        congestion: congestion(layer.congestion.unwrap_or_default())?,
    })
}

fn congestion(layer: CongestionLayer) -> Checked<Congestion> {
    let default = Congestion::default();
    let base_ms = layer.base_backoff_ms.unwrap_or(default.base_backoff_ms);
    let base_ms = within("classic.congestion.base_backoff_ms", base_ms, 1, BACKOFF_MS_MAX)?;
    let max_ms = layer.max_backoff_ms.unwrap_or(default.max_backoff_ms.max(base_ms));
    Ok(Congestion {
        enabled: layer.enabled.unwrap_or(default.enabled),
        base_backoff_ms: base_ms,
        max_backoff_ms: within("classic.congestion.max_backoff_ms", max_ms, base_ms, BACKOFF_MS_MAX)?,
        ..default
    })
}

/// Checks a number that may be negative: its absolute value is at most `most`.
pub fn between(field: &str, got: i64, most: u64) -> Checked<i64> {
    if got.unsigned_abs() > most {
        return Err(Invalid::new(field, format_args!("must be between -{most} and {most}, not {got}")));
    }
    Ok(got)
}
