//! The state of the queue as text, in the layout of Redis, so that two engines can be compared.
//!
//! Keys and fields are those of the Redis layout without the prefix. [`Dump::normalise`] removes
//! values that equal their default on both sides, because a field that was never written and one
//! that was written as zero mean the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::{Dump, DumpValue};
use crate::limits::{POOL, POOL_SERVED};
use crate::numbers::{Level, Micros};
use crate::rate::Rate;

use super::Machine;
use super::bulk::Bulk;
use super::job::{Job, JobKey, Place};
use super::lane::{Group, Lane, Order, Record, Standing, TypeState};
use super::ops::Progress;
use super::settings::{Discipline, LevelOrder, Settings};

impl Dump {
    /// Removes defaults, empty values and entries that have expired by `now`.
    pub fn normalise(mut self, now: Micros) -> Self {
        for (key, value) in &mut self.0 {
            match value {
                DumpValue::Hash(fields) => fields.retain(|field, value| !is_default(field, value)),
                DumpValue::Text(text) if key.starts_with("worker:") && request_until(text) <= now.0 => {
                    text.clear()
                }
                _ => {}
            }
        }
        self.remove_empty();
        self
    }
}

fn is_default(field: &str, value: &str) -> bool {
    match field {
        "0" | "1" | "2" => value == format!("0:1:{}:0:0", POOL * POOL_SERVED),
        _ if field.starts_with("lane:") => value == "I:0:0:0:0:0",
        "counts" => value == "0:0:0:0",
        "run" => value == "0:0:0:0:0:0",
        "window" => value == "0:0",
        "goodput" => value.bytes().all(|byte| byte == b'0' || byte == b':'),
        "limits" => value == "1:0:0:0:0:0:0" || value == "0:0:0:0:0:0" || value.is_empty(),
        "bucket" => value == "0:0" || value.is_empty(),
        _ => value == "0" || value.is_empty(),
    }
}

fn request_until(text: &str) -> u64 {
    text.split(':').nth(1).and_then(|until| until.parse().ok()).unwrap_or(0)
}

/// `count:period_ms:burst`, all zero without a rate.
pub(super) fn rate_text(rate: Option<Rate>) -> String {
    rate.map_or("0:0:0".into(), |rate| format!("{}:{}:{}", rate.count(), rate.period_ms(), rate.burst()))
}

impl Settings {
    /// The settings as fields of the partition's hash.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let strict = u8::from(self.levels == LevelOrder::Strict);
        let number = |value: u64| value.to_string();
        vec![
            ("classic", u8::from(self.discipline == Discipline::Classic).to_string()),
            ("alpha", self.alpha.to_string()),
            ("global_rps", number(self.global_rps)),
            ("ready_queue_max_size", number(self.ready_queue_max_size)),
            ("congestion_enabled", u8::from(self.congestion.enabled).to_string()),
            ("base_backoff_ms", number(self.congestion.base_backoff_ms)),
            ("max_backoff_ms", number(self.congestion.max_backoff_ms)),
            ("stats_retention_ms", number(self.congestion.stats_retention_ms)),
            ("bulk_retention_ms", number(self.bulk_retention_ms)),
            ("rate", rate_text(self.rate)),
            ("strict", strict.to_string()),
            ("max_retry_count", self.max_retry_count.to_string()),
            ("max_throttle_count", self.max_throttle_count.to_string()),
            ("max_loss_count", self.max_loss_count.to_string()),
            ("group_backlog_max", self.group_backlog_max.to_string()),
            ("whole_backlog_max", self.queue_backlog_max.to_string()),
            ("group_stored_bytes_max", number(self.group_stored_bytes_max)),
            ("stored_bytes_max", number(self.stored_bytes_max)),
            ("completed_retention_ms", self.completed_retention_ms.to_string()),
            ("failed_retention_ms", self.failed_retention_ms.to_string()),
            ("completed_kept_max", self.completed_kept_max.to_string()),
            ("failed_kept_max", self.failed_kept_max.to_string()),
        ]
    }
}

impl Machine {
    /// The state of the queue, normalised as of `now`.
    pub fn dump(&self, now: Micros) -> Dump {
        let mut dump = Dump::default();
        self.dump_partition(&mut dump);
        for state in self.types.values().filter(|state| !state.is_removed) {
            self.dump_type(state, &mut dump);
        }
        for group in self.groups.values() {
            self.dump_group(group, &mut dump);
        }
        for (number, bulk) in &self.bulks {
            self.dump_bulk(*number, bulk, &mut dump);
        }
        for job in self.jobs.values() {
            self.dump_job(job, &mut dump);
        }
        self.dump_places(&mut dump);
        dump.normalise(now)
    }

    fn dump_partition(&self, dump: &mut Dump) {
        let mut fields: BTreeMap<String, String> = BTreeMap::new();
        for (field, value) in self.settings.fields() {
            fields.insert(field.into(), value);
        }
        let cursor = self.cursor.map_or("", |key| self.types[key].name.escaped());
        for (field, value) in [
            ("fence", self.fence.0.to_string()),
            ("sequence", self.sequence.to_string()),
            ("cursor", cursor.to_owned()),
            ("backlog", self.backlog.to_string()),
            ("completed", self.completed.jobs.to_string()),
            ("stored_bytes", self.stored_bytes.to_string()),
            ("opened", self.opened.to_string()),
            ("epochs", self.epochs.to_string()),
            ("window", window_text(self.window)),
            ("saved_spins", self.saved_spins.to_string()),
            ("succeeded_total", self.succeeded_total.to_string()),
            ("dead_total", self.dead_total.to_string()),
            ("bucket", self.bucket.to_string()),
            ("reclaimed_at", self.reclaimed_at.map_or(0, |at| at.0).to_string()),
            ("grace_until", self.reclaim_grace_until.0.to_string()),
        ] {
            fields.insert(field.into(), value);
        }
        dump.0.insert("partition".into(), DumpValue::Hash(fields));
        let idle = self.idle_groups.keys().map(|(at, name)| (at.0, name.to_string()));
        dump.0.insert("idle-groups".into(), DumpValue::Sorted(idle.collect()));
        let types = self.types_by_name.keys().map(|name| name.escaped().to_owned()).collect();
        dump.0.insert("types".into(), DumpValue::Set(types));
        for (worker, request) in &self.requests {
            let (number, until) = (request.number.0, request.until.0);
            let text = format!("{number}:{until}:{}", request.fence.0);
            dump.0.insert(format!("worker:{}", worker.escaped()), DumpValue::Text(text));
        }
    }

    fn dump_type(&self, state: &TypeState, dump: &mut Dump) {
        let name = state.name.escaped();
        let downstream = &state.downstream;
        let timer = state
            .timer
            .as_ref()
            .map_or(String::new(), |timer| format!("{}:{}", timer.at.0, timer.worker.escaped()));
        let settings = &state.settings;
        let (paused, concurrency) = (u8::from(settings.paused), settings.concurrency.unwrap_or(0));
        let dead_at = settings.max_retry_count.map_or(0, |most| most + 1);
        let mut fields: BTreeMap<String, String> = [
            ("limits", format!("{paused}:{concurrency}:{dead_at}:{}", rate_text(settings.rate))),
            ("bucket", state.bucket.to_string()),
            ("in_flight", state.in_flight.to_string()),
            ("jobs", state.jobs.to_string()),
            ("virtual_time", state.virtual_time.to_string()),
            ("cut", downstream.cut_text()),
            ("closed_until", downstream.closed_until.0.to_string()),
            ("goodput", downstream.goodput_text()),
            ("timer", timer),
            ("asked_at", state.asked_at.0.to_string()),
        ]
        .into_iter()
        .map(|(field, value)| (field.to_owned(), value))
        .collect();
        for level in Level::ALL {
            let order = &state.orders[level.index()];
            let Order { virtual_time, epoch, pool, tag, lanes } = order;
            let text = format!("{virtual_time}:{epoch}:{pool}:{tag}:{}", lanes.len());
            fields.insert(level.index().to_string(), text);
            let members = lanes.iter().map(|((tag, sequence), key)| {
                (*tag, format!("{sequence:016}:{}", self.groups[key.group].name.escaped()))
            });
            dump.0.insert(format!("fair-queue:{level}:{name}"), DumpValue::Sorted(members.collect()));
        }
        dump.0.insert(format!("type:{name}"), DumpValue::Hash(fields));
        let ready = state.ready.iter().map(|&key| self.place_name(key).to_string());
        dump.0.insert(format!("ready-queue:{name}"), DumpValue::List(ready.collect()));
        let tokens = vec!["1".to_owned(); state.tokens];
        dump.0.insert(format!("wake:{name}"), DumpValue::List(tokens));
    }

    fn dump_group(&self, group: &Group, dump: &mut Dump) {
        let name = group.name.escaped();
        let settings = &group.settings;
        let limits = format!(
            "{}:{}:{}:{}:{}",
            settings.weight.get(),
            u8::from(settings.paused),
            settings.concurrency.unwrap_or(0),
            settings.base_priority,
            rate_text(settings.rate)
        );
        let mut fields: BTreeMap<String, String> = [
            ("limits", limits),
            ("bucket", group.bucket.to_string()),
            ("counts", counts_text(group)),
            ("stored_bytes", group.stored_bytes.to_string()),
            ("run", record_text(&group.record)),
            ("window", window_text(group.window)),
        ]
        .into_iter()
        .map(|(field, value)| (field.to_owned(), value))
        .collect();
        for lane in &group.lanes {
            let place = format!("{}:{}", lane.level.index(), self.types[lane.type_key].name.escaped());
            fields.insert(format!("lane:{place}"), lane_text(lane, self.is_classic()));
            let elements = |keys: &std::collections::VecDeque<JobKey>| {
                DumpValue::List(keys.iter().map(|&key| self.jobs[key].id.escaped().to_owned()).collect())
            };
            dump.0.insert(format!("group:{name}:jobs:{place}"), elements(&lane.backlog));
            dump.0.insert(format!("group:{name}:returned:{place}"), elements(&lane.returned));
        }
        dump.0.insert(format!("group:{name}:meta"), DumpValue::Hash(fields));
        let mut bulks: Vec<(u64, String)> =
            group.bulks.iter().map(|(name, number)| (*number, name.escaped().to_owned())).collect();
        bulks.sort();
        let unfinished = bulks.iter().filter(|(number, _)| group.unfinished.contains(number)).cloned();
        dump.0.insert(format!("group:{name}:unfinished"), DumpValue::Sorted(unfinished.collect()));
        dump.0.insert(format!("group:{name}:bulks"), DumpValue::Sorted(bulks));
        let history = group.record.history.iter().map(|snapshot| {
            format!("{}:{}:{}:{}", snapshot.at.0, snapshot.waiting, snapshot.speed, snapshot.backoff_ms)
        });
        dump.0.insert(format!("congestion:{name}:history"), DumpValue::List(history.collect()));
    }

    fn dump_bulk(&self, number: u64, bulk: &Bulk, dump: &mut Dump) {
        let time = |at: Option<Micros>| at.map_or(0, |at| at.0).to_string();
        let name = format!("{}:{}", self.groups[bulk.group].name.escaped(), bulk.name.escaped());
        let fields = [
            ("name", name),
            ("state", bulk.state.as_str().to_owned()),
            ("course", bulk.mode.as_str().to_owned()),
            ("sealed", u8::from(bulk.sealed).to_string()),
            ("total", bulk.total.to_string()),
            ("succeeded", bulk.succeeded.to_string()),
            ("failed", bulk.failed.to_string()),
            ("cancelled", bulk.cancelled.to_string()),
            ("created_at", bulk.created_at.0.to_string()),
            ("started_at", time(bulk.started_at)),
            ("finished_at", time(bulk.finished_at)),
            ("deadline", time(bulk.deadline)),
            ("fails_at", bulk.failures_max.map_or(0, |most| most + 1).to_string()),
            ("cause", bulk.cause.map_or("", |cause| cause.as_str()).to_owned()),
            ("fence", bulk.fence.0.to_string()),
            ("worker", bulk.worker.as_ref().map_or("", |worker| worker.escaped()).to_owned()),
            ("aggregated", u8::from(bulk.aggregated).to_string()),
            ("payload", String::from_utf8_lossy(&bulk.payload).into_owned()),
            ("summary", String::from_utf8_lossy(&bulk.summary).into_owned()),
        ];
        let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        dump.0.insert(format!("bulk:{number}"), DumpValue::Hash(fields));
        let held = bulk.on_hold.iter().map(|&key| self.place_name(key).to_string());
        dump.0.insert(format!("bulk:{number}:held"), DumpValue::List(held.collect()));
        let waiting = bulk.waiting.keys().map(|name| (0, name.to_string()));
        dump.0.insert(format!("bulk:{number}:waiting"), DumpValue::Sorted(waiting.collect()));
        let chunks = bulk.ended.iter().map(|(at, ids)| {
            let ids: Vec<&str> = ids.iter().map(|id| id.escaped()).collect();
            format!("{}:{}\n{}", at.0, ids.len(), ids.join("\n"))
        });
        dump.0.insert(format!("bulk:{number}:ended"), DumpValue::List(chunks.collect()));
    }

    fn dump_job(&self, job: &Job, dump: &mut Dump) {
        let (group, id) = (self.groups[job.group].name.escaped(), job.id.escaped());
        let (level, type_name) = (job.level.index(), self.types[job.type_key].name.escaped());
        let (created, cost) = (job.created_at.0, job.cost.get());
        let tail = match &job.trace {
            Some(trace) => [&b"+"[..], &trace.packed(), &job.payload].concat(),
            None => [b":", &*job.payload].concat(),
        };
        let tail = String::from_utf8_lossy(&tail);
        let cost_text = if cost == 1 { String::new() } else { cost.to_string() };
        let bulk = bulk_text(job);
        let mark = if job.cancelled { "X" } else { "" };
        let row = format!("{mark}{}{level}:{type_name}:{cost_text}:{bulk}{tail}", base_36(created));
        dump.add_field(format!("group:{group}:rows"), id, row);
        let Some(run) = &job.run else { return };
        let state = match job.place {
            Place::Completed => 'C',
            Place::Failed(_) => 'F',
            Place::Cancelled => 'X',
            _ if job.cancelled => 'X',
            _ => 'N',
        };
        let text = format!(
            "{state}{:016}{:016}:{level}:{type_name}:{cost}:{}:{}:{}:{}:{}",
            run.settled.0,
            run.settled_at.0,
            run.attempts,
            run.throttles,
            run.losses,
            run.worker.as_ref().map_or("", |worker| worker.escaped()),
            String::from_utf8_lossy(&run.note)
        );
        dump.add_field(format!("group:{group}:rows"), &format!(":{id}"), text);
    }

    fn dump_places(&self, dump: &mut Dump) {
        let mut in_flight = BTreeMap::new();
        for (key, job) in self.jobs.iter() {
            let Place::InFlight(held) = &job.place else { continue };
            let known = match (job.run.is_some(), held.cancelled) {
                (true, false) => 'r',
                (false, false) => 'n',
                (true, true) => 'R',
                (false, true) => 'N',
            };
            let bulk = bulk_text(job);
            let (level, type_name) = (job.level.index(), self.types[job.type_key].name.escaped());
            let (fence, batch, cost) = (held.fence.0, held.batch.0, job.cost.get());
            let worker = held.worker.escaped();
            let what = format!("{level}:{type_name}:{cost}:{bulk}:{worker}:{}", job.payload.len());
            let progress =
                held.progress.map_or(String::new(), |Progress { done, total }| format!("@{done}/{total}"));
            let value = format!("{fence:016}{batch:016}{known}:{what}{progress}");
            in_flight.insert(self.full_name(key).into(), value);
        }
        dump.0.insert("in-flight".into(), DumpValue::Hash(in_flight));
        for (batch, record) in &self.batches {
            let left = [("left".to_owned(), record.left.to_string())].into();
            dump.0.insert(format!("lease:{:016}", batch.0), DumpValue::Hash(left));
        }
        let deadlines = self.deadlines.iter().map(|(at, batch)| (at.0, format!("{:016}", batch.0)));
        dump.0.insert("deadlines".into(), DumpValue::Sorted(deadlines.collect()));
        let waiting = self.waiting.keys().map(|(due, name)| (due.0, name.to_string()));
        dump.0.insert("non-ready-queue".into(), DumpValue::Sorted(waiting.collect()));
        let parked = self.parked.keys().map(|(until, name)| (until.0, name.to_string()));
        dump.0.insert("parked".into(), DumpValue::Sorted(parked.collect()));
        let clearing = self.clearing.keys().map(|(since, name)| (since.0, name.to_string()));
        dump.0.insert("clearing".into(), DumpValue::Sorted(clearing.collect()));
        let dead = self.dead.keys().map(|(at, name)| (at.0, name.to_string()));
        dump.0.insert("failed".into(), DumpValue::Sorted(dead.collect()));
        let chunks = self.completed.chunks.iter().map(|(at, jobs)| {
            let names: Vec<Box<str>> = jobs.iter().map(|&key| self.full_name(key)).collect();
            format!("{}:{}{}\n{}", at.0, jobs.len(), self.bytes_text(jobs), names.join("\n"))
        });
        dump.0.insert("completed".into(), DumpValue::List(chunks.collect()));
        let active = self.active_groups.iter().map(|name| (0, name.escaped().to_owned()));
        dump.0.insert("active-groups".into(), DumpValue::Sorted(active.collect()));
        let configured = self.configured_groups.iter().map(|name| (0, name.escaped().to_owned()));
        dump.0.insert("configured-groups".into(), DumpValue::Sorted(configured.collect()));
        let large = self.large_groups.iter();
        let large = large.map(|(magnitude, name)| (u64::from(*magnitude), name.escaped().to_owned()));
        dump.0.insert("large-groups".into(), DumpValue::Sorted(large.collect()));
        let numbers = |set: &BTreeSet<(Micros, u64)>| {
            DumpValue::Sorted(set.iter().map(|(at, number)| (at.0, format!("{number:016}"))).collect())
        };
        dump.0.insert("aggregating".into(), numbers(&self.aggregating));
        let taken =
            self.taken.iter().map(|(worker, number)| (0, format!("{}:{number:016}", worker.escaped())));
        let mut taken: Vec<(u64, String)> = taken.collect();
        taken.sort();
        dump.0.insert("taken".into(), DumpValue::Sorted(taken));
        dump.0.insert("bulk-deadlines".into(), numbers(&self.bulk_deadlines));
        dump.0.insert("finished-bulks".into(), numbers(&self.finished_bulks));
        let sweeping = self.sweeping.iter().map(u64::to_string).collect();
        dump.0.insert("sweeping".into(), DumpValue::List(sweeping));
    }
}

impl Machine {
    /// `:group:bytes` for each group of these jobs, in the order of first occurrence.
    fn bytes_text(&self, jobs: &[JobKey]) -> String {
        let mut groups: Vec<(&str, u64)> = Vec::new();
        for job in jobs.iter().map(|&key| &self.jobs[key]) {
            let name = self.groups[job.group].name.escaped();
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, bytes)) => *bytes += job.stored_bytes(),
                None => groups.push((name, job.stored_bytes())),
            }
        }
        groups.iter().map(|(name, bytes)| format!(":{name}:{bytes}")).collect()
    }
}

fn bulk_text(job: &Job) -> String {
    job.bulk.map_or(String::new(), |number| number.to_string())
}

/// `second:jobs` of a rate window.
fn window_text(window: (u64, u64)) -> String {
    format!("{}:{}", window.0, window.1)
}

/// `in_flight:backlog:seat_parked:done` of a group.
fn counts_text(group: &Group) -> String {
    format!("{}:{}:{}:{}", group.in_flight, group.backlog, group.seat_parked, group.record.done)
}

/// `waiting:total:throttles:since:noted:backoff_ms` of a group's record.
fn record_text(record: &Record) -> String {
    let Record { waiting, total, throttles, throttles_since, noted, backoff_ms, .. } = record;
    format!("{waiting}:{total}:{throttles}:{throttles_since}:{noted}:{backoff_ms}")
}

/// A number in base 36, padded to ten digits.
fn base_36(mut number: u64) -> String {
    let mut digits = [b'0'; 10];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// `standing:tag:epoch:remainder:park:returned`. For a lane in its order, the order holds the tag;
/// in `classic`, its sequence takes the position of the park.
fn lane_text(lane: &Lane, classic: bool) -> String {
    let (standing, park) = match lane.standing {
        Standing::Idle => ('I', 0),
        Standing::Active => ('A', if classic { lane.sequence } else { 0 }),
        Standing::RateParked(until) => ('R', until.0),
        Standing::SeatParked => ('S', 0),
        Standing::Paused => ('P', 0),
        Standing::Clearing(since) => ('C', since.0),
    };
    let (tag, epoch) = if lane.standing == Standing::Active { (0, 0) } else { (lane.tag, lane.epoch) };
    let returned = u8::from(!lane.returned.is_empty());
    format!("{standing}:{tag}:{epoch}:{}:{park}:{returned}", lane.remainder)
}
