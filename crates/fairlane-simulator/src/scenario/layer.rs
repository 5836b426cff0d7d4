//! A scenario file as it is written: every key is optional, and a part overrides the file.
//!
//! Unknown keys are errors, so that a mistyped key is never silently a default.

use serde::Deserialize;

use super::classic::ClassicLayer;

/// The file, or one part of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    pub name: Option<String>,
    pub alone_without: Option<Vec<String>>,
    pub discipline: Option<String>,
    pub classic: Option<ClassicLayer>,
    pub levels: Option<LevelChoice>,
    pub seed: Option<u64>,
    pub workers: Option<u64>,
    pub lease_jobs: Option<u64>,
    pub rate: Option<RateLayer>,
    pub service: Option<Service>,
    pub stop: Option<Stop>,
    #[serde(default, rename = "type")]
    pub types: Vec<TypeLayer>,
    #[serde(default, rename = "group")]
    pub groups: Vec<GroupLayer>,
    #[serde(default, rename = "part")]
    pub parts: Vec<Layer>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelChoice {
    Weighted,
    Strict,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLayer {
    pub count: u64,
    #[serde(default = "one_second_ms")]
    pub period_ms: u64,
    pub burst: Option<u64>,
}

fn one_second_ms() -> u64 {
    1000
}

/// The duration of a call.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    FixedMs(u64),
    UniformMs([u64; 2]),
}

/// When the run ends, if not when all jobs are done.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    pub after_ms: Option<u64>,
    pub after_jobs: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeLayer {
    pub name: String,
    pub rate: Option<RateLayer>,
    pub concurrency: Option<u32>,
    pub service: Option<Service>,
    pub downstream: Option<DownstreamLayer>,
}

/// The true limit of a downstream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DownstreamLayer {
    pub limit: Vec<StepLayer>,
    #[serde(default = "one_second")]
    pub depth_seconds: f64,
    #[serde(default)]
    pub retry_after: bool,
    pub refusal_ms: Option<u64>,
    #[serde(default = "one_second_ms")]
    pub retry_delay_ms: u64,
}

fn one_second() -> f64 {
    1.0
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepLayer {
    #[serde(default)]
    pub from_ms: u64,
    pub per_second: f64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupLayer {
    pub name: String,
    pub count: Option<u64>,
    pub stagger_ms: Option<u64>,
    pub weight: Option<u32>,
    pub base_priority: Option<i64>,
    pub rate: Option<RateLayer>,
    pub concurrency: Option<u32>,
    pub level: Option<String>,
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    pub cost: Option<u32>,
    pub arrivals: Option<Vec<ArrivalLayer>>,
    pub pauses: Option<Vec<PauseLayer>>,
}

/// One way in which a group's jobs arrive.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalLayer {
    AtOnce(AtOnceLayer),
    Steady(FlowLayer),
    Poisson(FlowLayer),
    Stepping(SteppingLayer),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtOnceLayer {
    pub jobs: u64,
    pub at_ms: Option<u64>,
    pub when: Option<WhenLayer>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhenLayer {
    pub group: String,
    pub done_percent: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowLayer {
    pub per_second: f64,
    #[serde(default)]
    pub from_ms: u64,
    pub until_ms: Option<u64>,
    pub jobs: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteppingLayer {
    pub steps: Vec<StepLayer>,
    pub until_ms: Option<u64>,
    pub jobs: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseLayer {
    pub from_ms: u64,
    pub until_ms: Option<u64>,
}

impl Layer {
    /// This file with the keys of `part` instead of its own. Groups and types are matched by name,
    /// key by key; new ones are added.
    pub fn overridden_by(&self, part: &Self) -> Self {
        Self {
            name: part.name.clone(),
            alone_without: part.alone_without.clone().or_else(|| self.alone_without.clone()),
            discipline: part.discipline.clone().or_else(|| self.discipline.clone()),
            classic: match (self.classic, part.classic) {
                (Some(base), Some(over)) => Some(base.overridden_by(over)),
                (base, over) => over.or(base),
            },
            levels: part.levels.or(self.levels),
            seed: part.seed.or(self.seed),
            workers: part.workers.or(self.workers),
            lease_jobs: part.lease_jobs.or(self.lease_jobs),
            rate: part.rate.or(self.rate),
            service: part.service.or(self.service),
            stop: part.stop.or(self.stop),
            types: merge(&self.types, &part.types, |layer| &layer.name, TypeLayer::overridden_by),
            groups: merge(&self.groups, &part.groups, |layer| &layer.name, GroupLayer::overridden_by),
            parts: Vec::new(),
        }
    }
}

fn merge<T: Clone>(base: &[T], over: &[T], name: fn(&T) -> &str, override_by: fn(&T, &T) -> T) -> Vec<T> {
    let mut all = base.to_vec();
    for layer in over {
        match all.iter_mut().find(|known| name(known) == name(layer)) {
            Some(known) => *known = override_by(known, layer),
            None => all.push(layer.clone()),
        }
    }
    all
}

impl TypeLayer {
    fn overridden_by(&self, part: &Self) -> Self {
        Self {
            name: self.name.clone(),
            rate: part.rate.or(self.rate),
            concurrency: part.concurrency.or(self.concurrency),
            service: part.service.or(self.service),
            downstream: part.downstream.clone().or_else(|| self.downstream.clone()),
        }
    }
}

impl GroupLayer {
    fn overridden_by(&self, part: &Self) -> Self {
        Self {
            name: self.name.clone(),
            count: part.count.or(self.count),
            stagger_ms: part.stagger_ms.or(self.stagger_ms),
            weight: part.weight.or(self.weight),
            base_priority: part.base_priority.or(self.base_priority),
            rate: part.rate.or(self.rate),
            concurrency: part.concurrency.or(self.concurrency),
            level: part.level.clone().or_else(|| self.level.clone()),
            type_name: part.type_name.clone().or_else(|| self.type_name.clone()),
            cost: part.cost.or(self.cost),
            arrivals: part.arrivals.clone().or_else(|| self.arrivals.clone()),
            pauses: part.pauses.clone().or_else(|| self.pauses.clone()),
        }
    }
}
