//! Builds a part that can run from a file as written: resolves references and checks numbers.

use std::fmt::Display;

use fairlane_core::limits::{BASE_PRIORITY_MAX, DELAY_MS_MAX, LEASE_JOBS_MAX, TYPES_MAX};
use fairlane_core::queue::{Discipline, LevelOrder};
use fairlane_core::{Cost, GroupId, Level, Rate, TypeId, Weight};

use crate::steps::Steps;

use super::SimulationError;
use super::classic::{between, classic};
use super::layer::{
    ArrivalLayer, AtOnceLayer, DownstreamLayer, FlowLayer, GroupLayer, Layer, LevelChoice, RateLayer,
    Service, StepLayer, TypeLayer,
};
use super::part::{Arrival, DownstreamPart, FIFO, GroupPart, Moment, Part, Pause, ServiceTime, TypePart};

const GROUPS_MAX: u64 = 100_000;
const JOBS_MAX: u64 = 100_000_000;
const WORKERS_MAX: u64 = 1_000_000;
/// Longest service time, in milliseconds; below the longest lease, so that no lease of a run
/// expires.
const SERVICE_MS_MAX: u64 = 10 * 60 * 1000;
const TYPE_NAME: &str = "work";

/// An invalid field, and what is wrong with it.
pub struct Invalid {
    field: String,
    problem: String,
}

impl Invalid {
    pub fn new(field: impl Display, problem: impl Display) -> Self {
        Self { field: field.to_string(), problem: problem.to_string() }
    }

    pub fn of(self, scenario: &str, part: &str) -> SimulationError {
        SimulationError::Invalid {
            scenario: scenario.to_owned(),
            part: part.to_owned(),
            field: self.field,
            problem: self.problem,
        }
    }
}

pub type Checked<T> = Result<T, Invalid>;

/// Checks and builds one part.
pub fn part(layer: &Layer, name: &str) -> Checked<Part> {
    let workers = within("workers", layer.workers.unwrap_or(1), 1, WORKERS_MAX)?;
    let lease_jobs = layer.lease_jobs.unwrap_or(workers.min(LEASE_JOBS_MAX as u64));
    let rate = layer.rate.map(|written| rate("rate", written)).transpose()?;
    let types = types(layer)?;
    let groups = groups(layer, &types)?;
    let mut alone_without = Vec::new();
    for name in layer.alone_without.iter().flatten() {
        alone_without.extend(members_of(name, layer, "alone_without")?);
    }
    let stop = layer.stop.unwrap_or_default();
    let part = Part {
        name: name.to_owned(),
        discipline: layer.discipline.as_deref().map_or(Ok(Discipline::Share), discipline)?,
        is_fifo: layer.discipline.as_deref() == Some(FIFO),
        classic: classic(layer.classic.unwrap_or_default(), rate)?,
        seed: layer.seed.unwrap_or(1),
        workers,
        lease_jobs: within("lease_jobs", lease_jobs, 1, LEASE_JOBS_MAX as u64)?,
        rate,
        levels: match layer.levels {
            Some(LevelChoice::Strict) => LevelOrder::Strict,
            Some(LevelChoice::Weighted) | None => LevelOrder::Weighted,
        },
        stop_after_us: stop.after_ms.map(|ms| time_us("stop.after_ms", ms)).transpose()?,
        stop_after_jobs: stop.after_jobs.map(|n| within("stop.after_jobs", n, 1, JOBS_MAX)).transpose()?,
        types,
        groups,
        alone_without,
    };
    check_end(&part)?;
    Ok(part)
}

/// The discipline by its name. A plain queue runs as `share` with one group.
fn discipline(written: &str) -> Checked<Discipline> {
    if written == FIFO {
        return Ok(Discipline::Share);
    }
    let known = [Discipline::Share, Discipline::Classic];
    let found = known.into_iter().find(|discipline| discipline.as_str() == written);
    let problem = || format!("{written:?} is not a discipline; use \"share\", \"classic\" or \"fifo\"");
    found.ok_or_else(|| Invalid::new("discipline", problem()))
}

/// Rejects an endless flow in a run without a stop.
fn check_end(part: &Part) -> Checked<()> {
    if part.stop_after_us.is_some() || part.stop_after_jobs.is_some() {
        return Ok(());
    }
    for group in &part.groups {
        let endless = |arrival: &Arrival| matches!(arrival, Arrival::Flow { until_us: None, jobs: None, .. });
        if group.arrivals.iter().any(endless) {
            let problem = "never end; give them jobs or until_ms, or give the part a stop";
            return Err(Invalid::new(format_args!("arrivals of group {}", group.name), problem));
        }
    }
    within("jobs of all groups", part.jobs_expected(), 0, JOBS_MAX)?;
    Ok(())
}

fn types(layer: &Layer) -> Checked<Vec<TypePart>> {
    let common = layer.service.unwrap_or(Service::FixedMs(100));
    let default =
        TypeLayer { name: TYPE_NAME.into(), rate: None, concurrency: None, service: None, downstream: None };
    let written = if layer.types.is_empty() { std::slice::from_ref(&default) } else { &layer.types };
    within("the number of types", written.len() as u64, 1, TYPES_MAX as u64)?;
    let mut types: Vec<TypePart> = Vec::new();
    for written in written {
        let field = |key: &str| format!("{key} of type {}", written.name);
        let id = TypeId::new(&written.name).map_err(|error| Invalid::new("type.name", error))?;
        if types.iter().any(|known| known.id == id) {
            return Err(Invalid::new("type.name", format_args!("{:?} appears twice", written.name)));
        }
        let downstream = written.downstream.as_ref();
        types.push(TypePart {
            id,
            rate: written.rate.map(|written| rate(&field("rate"), written)).transpose()?,
            concurrency: concurrency(&field("concurrency"), written.concurrency)?,
            service: service(&field("service"), written.service.unwrap_or(common))?,
            downstream: downstream.map(|layer| self::downstream(&field("downstream"), layer)).transpose()?,
        });
    }
    Ok(types)
}

fn downstream(field: &str, layer: &DownstreamLayer) -> Checked<DownstreamPart> {
    let depth_seconds = layer.depth_seconds;
    if !(depth_seconds > 0.0 && depth_seconds <= 86_400.0) {
        let problem = format!("must be above 0 and at most 86400, not {depth_seconds}");
        return Err(Invalid::new(format_args!("{field}.depth_seconds"), problem));
    }
    let refusal_ms = layer.refusal_ms;
    let refusal_ms =
        refusal_ms.map(|ms| within(&format!("{field}.refusal_ms"), ms, 1, SERVICE_MS_MAX)).transpose()?;
    Ok(DownstreamPart {
        limit: steps(&format!("{field}.limit"), &layer.limit)?,
        depth_seconds,
        retry_after: layer.retry_after,
        refusal_us: refusal_ms.map(|ms| ms * 1000),
        retry_delay_ms: within(&format!("{field}.retry_delay_ms"), layer.retry_delay_ms, 1, DELAY_MS_MAX)?,
    })
}

fn groups(layer: &Layer, types: &[TypePart]) -> Checked<Vec<GroupPart>> {
    if layer.groups.is_empty() {
        return Err(Invalid::new("group", "there is none; a scenario needs at least one [[group]]"));
    }
    let mut groups: Vec<GroupPart> = Vec::new();
    for (position, written) in layer.groups.iter().enumerate() {
        let count = count_of(written)?;
        let width = count.to_string().len();
        for member in 0..count {
            let name = match written.count {
                None => written.name.clone(),
                Some(_) => format!("{}-{:0width$}", written.name, member + 1),
            };
            if groups.len() as u64 >= GROUPS_MAX {
                return Err(Invalid::new("group", format_args!("more than {GROUPS_MAX} groups")));
            }
            groups.push(group(layer, types, written, name, [position as u64, member])?);
        }
    }
    let mut names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Invalid::new("group.name", format_args!("{:?} appears twice", pair[0])));
    }
    Ok(groups)
}

fn group(
    layer: &Layer,
    types: &[TypePart],
    written: &GroupLayer,
    name: String,
    stream: [u64; 2],
) -> Checked<GroupPart> {
    let field = |key: &str| format!("{key} of group {}", written.name);
    let level = written.level.as_deref().map_or(Ok(Level::Normal), str::parse);
    let later_us = time_us(&field("stagger_ms"), written.stagger_ms.unwrap_or(0))? * stream[1];
    let mut arrivals = Vec::new();
    for arrival in written.arrivals.iter().flatten() {
        arrivals.push(self::arrival(layer, &field("arrivals"), arrival, later_us)?);
    }
    if arrivals.is_empty() {
        return Err(Invalid::new(field("arrivals"), "there are none; define when its jobs arrive"));
    }
    let mut pauses = Vec::new();
    for pause in written.pauses.iter().flatten() {
        let from_us = time_us(&field("pauses.from_ms"), pause.from_ms)?;
        let until_us = pause.until_ms.map(|ms| time_us(&field("pauses.until_ms"), ms)).transpose()?;
        if until_us.is_some_and(|until_us| until_us <= from_us) {
            return Err(Invalid::new(field("pauses"), "until_ms must lie after from_ms"));
        }
        pauses.push(Pause { from_us, until_us });
    }
    let wrong = |key: &str, error: &dyn Display| Invalid::new(field(key), error);
    Ok(GroupPart {
        id: GroupId::new(&name).map_err(|error| wrong("name", &error))?,
        name,
        stream,
        weight: Weight::new(written.weight.unwrap_or(1)).map_err(|error| wrong("weight", &error))?,
        base_priority: between(
            &field("base_priority"),
            written.base_priority.unwrap_or(0),
            BASE_PRIORITY_MAX,
        )?,
        rate: written.rate.map(|written| rate(&field("rate"), written)).transpose()?,
        concurrency: concurrency(&field("concurrency"), written.concurrency)?,
        level: level.map_err(|error| wrong("level", &error))?,
        type_index: type_of(written, types)?,
        cost: Cost::new(written.cost.unwrap_or(1)).map_err(|error| wrong("cost", &error))?,
        arrivals,
        pauses,
    })
}

fn type_of(group: &GroupLayer, types: &[TypePart]) -> Checked<usize> {
    let field = || format!("type of group {}", group.name);
    match &group.type_name {
        None if types.len() == 1 => Ok(0),
        None => Err(Invalid::new(field(), "there are several types; name one")),
        Some(name) => {
            let found = types.iter().position(|known| known.id.to_string() == *name);
            found.ok_or_else(|| Invalid::new(field(), format_args!("there is no type {name:?}")))
        }
    }
}

fn arrival(layer: &Layer, field: &str, written: &ArrivalLayer, later_us: u64) -> Checked<Arrival> {
    let flow = |flow: &FlowLayer, poisson| {
        let step = StepLayer { from_ms: flow.from_ms, per_second: flow.per_second };
        self::flow(field, &[step], flow.until_ms, flow.jobs, poisson, later_us)
    };
    match written {
        ArrivalLayer::AtOnce(at_once) => Ok(Arrival::AtOnce {
            jobs: within(&format!("{field}.at_once.jobs"), at_once.jobs, 1, JOBS_MAX)?,
            moment: moment(layer, field, at_once, later_us)?,
        }),
        ArrivalLayer::Steady(steady) => flow(steady, false),
        ArrivalLayer::Poisson(poisson) => flow(poisson, true),
        ArrivalLayer::Stepping(stepping) => {
            self::flow(field, &stepping.steps, stepping.until_ms, stepping.jobs, false, later_us)
        }
    }
}

fn flow(
    field: &str,
    written: &[StepLayer],
    until_ms: Option<u64>,
    jobs: Option<u64>,
    poisson: bool,
    later_us: u64,
) -> Checked<Arrival> {
    let until_us = until_ms.map(|ms| time_us(&format!("{field}.until_ms"), ms)).transpose()?;
    Ok(Arrival::Flow {
        rate: steps(field, written)?.shifted(later_us),
        until_us: until_us.map(|until_us| until_us + later_us),
        jobs: jobs.map(|jobs| within(&format!("{field}.jobs"), jobs, 1, JOBS_MAX)).transpose()?,
        poisson,
    })
}

fn moment(layer: &Layer, field: &str, at_once: &AtOnceLayer, later_us: u64) -> Checked<Moment> {
    let Some(when) = &at_once.when else {
        let us = time_us(&format!("{field}.at_once.at_ms"), at_once.at_ms.unwrap_or(0))?;
        return Ok(Moment::At { us: us + later_us });
    };
    if at_once.at_ms.is_some() {
        return Err(Invalid::new(format_args!("{field}.at_once"), "has both at_ms and when; choose one"));
    }
    let percent = when.done_percent;
    if !(percent > 0.0 && percent <= 100.0) {
        let problem = format!("must be above 0 and at most 100, not {percent}");
        return Err(Invalid::new(format_args!("{field}.at_once.when.done_percent"), problem));
    }
    let field = format!("{field}.at_once.when.group");
    let members = members_of(&when.group, layer, &field)?;
    if members.len() != 1 {
        return Err(Invalid::new(
            field,
            format_args!("{:?} is several groups; name a single one", when.group),
        ));
    }
    let watched = layer.groups.iter().find(|group| group.name == when.group);
    let mut jobs_total = 0;
    for watched in watched.and_then(|group| group.arrivals.as_ref()).into_iter().flatten() {
        jobs_total += match watched {
            ArrivalLayer::AtOnce(at_once) => at_once.jobs,
            other => arrival(layer, &field, other, 0)?.jobs_expected(),
        };
    }
    let jobs = (jobs_total as f64 * percent / 100.0).ceil().max(1.0) as u64;
    Ok(Moment::WhenDone { group: members.start, jobs, later_us })
}

/// The indices of the groups named `name` in the file, after groups with a `count` are expanded.
fn members_of(name: &str, layer: &Layer, field: &str) -> Checked<std::ops::Range<usize>> {
    let mut start = 0;
    for group in &layer.groups {
        let count = count_of(group)? as usize;
        if group.name == name {
            return Ok(start..start + count);
        }
        start += count;
    }
    let known: Vec<&str> = layer.groups.iter().map(|group| group.name.as_str()).collect();
    let problem = format!("there is no group {name:?}; there are {}", known.join(", "));
    Err(Invalid::new(field, problem))
}

fn count_of(group: &GroupLayer) -> Checked<u64> {
    within(&format!("count of group {}", group.name), group.count.unwrap_or(1), 1, GROUPS_MAX)
}

fn steps(field: &str, written: &[StepLayer]) -> Checked<Steps> {
    if written.is_empty() {
        return Err(Invalid::new(field, "has no steps; give at least one"));
    }
    let mut steps = Vec::new();
    for step in written {
        let rate = step.per_second;
        if !(rate > 0.0 && rate <= 1e6) {
            let problem = format!("must be above 0 and at most 1000000, not {rate}");
            return Err(Invalid::new(format_args!("{field}.per_second"), problem));
        }
        steps.push((time_us(&format!("{field}.from_ms"), step.from_ms)?, rate));
    }
    if !steps.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(Invalid::new(field, "its steps must follow one another in from_ms"));
    }
    Ok(Steps::new(steps))
}

fn rate(field: &str, written: RateLayer) -> Checked<Rate> {
    Rate::new(written.count, written.period_ms, written.burst).map_err(|error| Invalid::new(field, error))
}

fn concurrency(field: &str, written: Option<u32>) -> Checked<Option<u32>> {
    let most = u64::from(fairlane_core::limits::CONCURRENCY_MAX);
    written.map(|seats| within(field, seats.into(), 1, most).map(|_| seats)).transpose()
}

fn service(field: &str, written: Service) -> Checked<ServiceTime> {
    let [least, most] = match written {
        Service::FixedMs(ms) => [ms, ms],
        Service::UniformMs(range) => range,
    };
    within(field, least, 1, SERVICE_MS_MAX)?;
    if least > most {
        return Err(Invalid::new(field, format_args!("{least} ms to {most} ms is not a range")));
    }
    within(field, most, 1, SERVICE_MS_MAX)?;
    Ok(ServiceTime { least_us: least * 1000, most_us: most * 1000 })
}

fn time_us(field: &str, ms: u64) -> Checked<u64> {
    within(field, ms, 0, DELAY_MS_MAX).map(|ms| ms * 1000)
}

pub fn within(field: &str, got: u64, least: u64, most: u64) -> Checked<u64> {
    if got < least {
        return Err(Invalid::new(field, format_args!("must be at least {least}, not {got}")));
    }
    if got > most {
        return Err(Invalid::new(field, format_args!("must be at most {most}, not {got}")));
    }
    Ok(got)
}
