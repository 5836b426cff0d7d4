//! Jobs to be added, as they come.
//!
//! A body is parsed once, and a payload copied once; only a body that is wrong is looked at again, to say where.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::{is_too_deep, parse_time};
use fairlane_core::limits::{DELAY_MS_MAX, JSON_DEPTH_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX};
use fairlane_core::queue::{JobRef, NewJob};
use fairlane_core::{BulkId, Cost, GroupId, JobId, Level, Trace, TypeId};
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::extract::{Object, plain, read_json};
use crate::idempotency::{IdFrom, IdempotencyKey};
use crate::problem::{Fault, Problem, ProblemKind};

/// Most jobs of one batch.
pub const BATCH_JOBS_MAX: usize = 1000;
/// Most faults that one answer names; a body is read no further than to the last of them.
const FAULTS_MAX: usize = 20;
/// Unknown keys of one job after which the rest of it is not read.
const UNKNOWN_KEYS_MAX: usize = 5;
/// What a job may have.
const KEYS: &str = "group, type, id, payload, payload_base64, level, cost, delay_ms, run_at, bulk, trace";

/// A job to be added: with `payload`, or with `payload_base64` if that is not JSON, never with both or neither.
/// `delay_ms` and `run_at` exclude each other.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJob, example = json!({"group": "customer-7", "type": "mail", "id": "welcome-42", "payload": {"to": "ada@example.com"}}))]
pub struct JobBody<'a> {
    /// Whose: one customer.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    group: GroupId,
    /// What kind of work.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    r#type: TypeId,
    /// Which of theirs: a second job with the same id is not added. Without one it gets one.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    id: Option<JobId>,
    /// What is to be done: any JSON, kept byte for byte; at most 512 KiB, nested at most 96 levels deep.
    #[serde(default, borrow, deserialize_with = "as_it_is")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// What is to be done, in base64, if it is not JSON; at most 512 KiB of it.
    #[serde(default)]
    #[schema(
        max_length = 699_052,
        content_encoding = "base64",
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"
    )]
    payload_base64: Option<String>,
    /// How urgent it is among jobs of its type; normal unless said.
    #[serde(default)]
    level: Option<LevelWord>,
    /// What it counts for in its group's share; 1 unless said.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    cost: Option<Cost>,
    /// Must not run before this much time has passed; at most ten years.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 315_360_000_000u64)]
    delay_ms: Option<u64>,
    /// Must not run before then, by the server's clock; instead of `delay_ms`.
    #[serde(default)]
    #[schema(format = DateTime)]
    run_at: Option<String>,
    /// The bulk action of the group that it belongs to.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    bulk: Option<BulkId>,
    /// The trace it belongs to, a W3C `traceparent`; that of the request unless said.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$",
        example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    trace: Option<Trace>,
}

/// How urgent a job is.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Level)]
pub enum LevelWord {
    /// Urgent work or small customers.
    High,
    /// Ordinary work.
    #[default]
    Normal,
    /// Large or unhurried batches.
    Low,
}

impl From<LevelWord> for Level {
    fn from(word: LevelWord) -> Self {
        match word {
            LevelWord::High => Self::High,
            LevelWord::Normal => Self::Normal,
            LevelWord::Low => Self::Low,
        }
    }
}

/// Many jobs to be added.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJobs, example = json!({"jobs": [{"group": "customer-7", "type": "mail", "payload": {"to": "ada@example.com"}}]}))]
pub struct BatchBody<'a> {
    /// In the order in which they are to be added.
    #[serde(borrow)]
    #[schema(value_type = Vec<JobBody>, max_items = 1000)]
    jobs: AtMost<BATCH_JOBS_MAX, Object<JobBody<'a>>>,
}

/// A job as the engine takes it.
pub struct Checked {
    /// The job.
    pub new: NewJob,
    /// Where its id comes from; what is derived comes from an idempotency key.
    pub id_from: IdFrom,
}

/// Reads one job.
pub fn read_job(
    body: &[u8],
    key: Option<&IdempotencyKey>,
    trace: Option<&Trace>,
) -> Result<Checked, Problem> {
    let job: JobBody<'_> = read_json(body).map_err(|problem| {
        located(problem, || {
            let mut faults = Vec::new();
            add_faults(body, "", &mut faults);
            faults
        })
    })?;
    job.checked(&"", 1, key, trace).map_err(|fault| wrong(vec![fault]))
}

/// Reads a batch; if jobs are wrong, the problem names up to [`FAULTS_MAX`] faults.
pub fn read_batch(
    body: &[u8],
    key: Option<&IdempotencyKey>,
    trace: Option<&Trace>,
) -> Result<Vec<Checked>, Problem> {
    let batch: BatchBody<'_> = read_json(body).map_err(|problem| located(problem, || faults_in(body)))?;
    let mut faults = Vec::new();
    let mut jobs = Vec::with_capacity(batch.jobs.0.len());
    for (at, Object(job)) in batch.jobs.0.into_iter().enumerate() {
        match job.checked(&format_args!("/jobs/{at}"), at as u64 + 1, key, trace) {
            Ok(job) => jobs.push(job),
            Err(fault) => faults.push(fault),
        }
        if faults.len() == FAULTS_MAX {
            break;
        }
    }
    if faults.is_empty() { Ok(jobs) } else { Err(wrong(faults)) }
}

impl JobBody<'_> {
    fn checked(
        self,
        place: &dyn fmt::Display,
        position: u64,
        key: Option<&IdempotencyKey>,
        trace: Option<&Trace>,
    ) -> Result<Checked, Fault> {
        let at = |key: &str, detail: String| Fault { pointer: format!("{place}{key}"), detail };
        let is_json = self.payload.is_some();
        let payload: Arc<[u8]> = match (self.payload, self.payload_base64) {
            (Some(json), None) if is_too_deep(json.get().as_bytes()) => {
                return Err(at(
                    "/payload",
                    format!(
                        "it is nested deeper than {JSON_DEPTH_MAX} levels; send it flatter, or as payload_base64"
                    ),
                ));
            }
            (Some(json), None) => json.get().as_bytes().into(),
            (None, Some(text)) => match BASE64.decode(text) {
                Ok(bytes) => bytes.into(),
                Err(error) => return Err(at("/payload_base64", format!("it is not base64: {error}"))),
            },
            (None, None) => {
                return Err(at(
                    "",
                    "payload is missing: what is to be done? Any JSON will do, also null".to_owned(),
                ));
            }
            (Some(_), Some(_)) => {
                return Err(at(
                    "/payload_base64",
                    "payload and payload_base64 exclude each other".to_owned(),
                ));
            }
        };
        if payload.len() > PAYLOAD_BYTES_MAX {
            let key = if is_json { "/payload" } else { "/payload_base64" };
            let detail = format!(
                "it has {} bytes, and at most {PAYLOAD_BYTES_MAX} are taken; store it elsewhere and send where that is",
                payload.len()
            );
            return Err(at(key, detail));
        }
        let delay_ms =
            delay_ms(self.delay_ms, self.run_at.as_deref()).map_err(|(key, detail)| at(key, detail))?;
        let made = |text: String| JobId::new(text).map_err(|error| at("", error.to_string()));
        let (id, id_from) = match (self.id, key) {
            (Some(id), _) => (id, IdFrom::Request),
            (None, Some(key)) => (made(key.job_id(&self.group, position))?, IdFrom::Derived),
            (None, None) => (made(Uuid::now_v7().to_string())?, IdFrom::Drawn),
        };
        let new = NewJob {
            job: JobRef { group: self.group, id },
            type_id: self.r#type,
            level: self.level.unwrap_or_default().into(),
            cost: self.cost.unwrap_or_default(),
            payload,
            delay_ms,
            bulk: self.bulk,
            trace: self.trace.or_else(|| trace.cloned()),
        };
        Ok(Checked { new, id_from })
    }
}

fn delay_ms(delay_ms: Option<u64>, run_at: Option<&str>) -> Result<u64, (&'static str, String)> {
    let (key, delay_ms) = match (delay_ms, run_at) {
        (None, None) => return Ok(0),
        (Some(delay_ms), None) => ("/delay_ms", delay_ms),
        (None, Some(text)) => {
            let at = parse_time(text).map_err(|error| ("/run_at", error.to_string()))?;
            let left = at.duration_since(SystemTime::now()).unwrap_or_default();
            // Rounded up, so that nothing runs too early.
            ("/run_at", u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
        }
        (Some(_), Some(_)) => return Err(("/run_at", "delay_ms and run_at exclude each other".to_owned())),
    };
    if delay_ms > DELAY_MS_MAX {
        return Err((key, "it is to run in more than ten years, the longest delay".to_owned()));
    }
    Ok(delay_ms)
}

fn wrong(faults: Vec<Fault>) -> Problem {
    let (count, first) = (faults.len(), faults.first());
    let first = first.map_or(String::new(), |Fault { pointer, detail }| match pointer.as_str() {
        "" => detail.clone(),
        pointer => format!("{pointer}: {detail}"),
    });
    let detail = match count {
        1 => format!("nothing was added, for something is wrong: {first}"),
        FAULTS_MAX => {
            format!("nothing was added, for at least {FAULTS_MAX} things are wrong; the first is {first}")
        }
        _ => format!("nothing was added, for {count} things are wrong; the first is {first}"),
    };
    ProblemKind::Invalid.because(detail).with_errors(faults)
}

/// The problem with the places of what is wrong, if it is about what the JSON says and they can be found.
fn located(problem: Problem, find: impl FnOnce() -> Vec<Fault>) -> Problem {
    if problem.kind() != ProblemKind::Invalid {
        return problem;
    }
    let faults = find();
    if faults.is_empty() { problem } else { wrong(faults) }
}

/// What is wrong within a batch.
fn faults_in(body: &[u8]) -> Vec<Fault> {
    #[derive(Deserialize)]
    struct Jobs<'a> {
        #[serde(borrow)]
        jobs: AtMost<BATCH_JOBS_MAX, &'a RawValue>,
    }
    let Ok(Object(batch)) = serde_json::from_slice::<Object<Jobs<'_>>>(body) else { return Vec::new() };
    let mut faults = Vec::new();
    for (at, job) in batch.jobs.0.iter().enumerate() {
        add_faults(job.get().as_bytes(), &format!("/jobs/{at}"), &mut faults);
        if faults.len() == FAULTS_MAX {
            break;
        }
    }
    faults
}

/// Adds what is wrong with a job, key by key, until there are [`FAULTS_MAX`] faults.
fn add_faults(job: &[u8], place: &str, faults: &mut Vec<Fault>) {
    let whole = match serde_json::from_slice::<Object<JobBody<'_>>>(job) {
        // A job that can be read may still make no sense.
        Ok(Object(job)) => return faults.extend(job.checked(&place, 1, None, None).err()),
        Err(error) => Fault { pointer: place.to_owned(), detail: plain(&error.to_string()) },
    };
    let (before, mut is_cut) = (faults.len(), false);
    let members = Members { place, is_cut: &mut is_cut, faults };
    let read = serde_json::Deserializer::from_slice(job).deserialize_map(members);
    if read.is_err() && !is_cut {
        faults.truncate(before);
    }
    if faults.len() == before {
        faults.push(whole);
    }
    faults.truncate(FAULTS_MAX);
}

/// Adds the faults of a job's members; sets `is_cut` when it stops before the job's end.
struct Members<'a> {
    place: &'a str,
    is_cut: &'a mut bool,
    faults: &'a mut Vec<Fault>,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (first, mut unknown_keys) = (self.faults.len(), 0);
        let mut missing = vec!["group", "type"];
        while let Some(key) = map.next_key::<String>()? {
            missing.retain(|name| *name != key);
            let detail = match KEYS.split(", ").any(|known| known == key) {
                true => member_fault(&key, map.next_value::<&RawValue>()?),
                false => {
                    map.next_value::<IgnoredAny>()?;
                    unknown_keys += 1;
                    Some(format!("this key is not known; known are {KEYS}; put data of yours into payload"))
                }
            };
            if let Some(detail) = detail {
                // A longer key is no name: naming it would repeat the body.
                let key = Some(key).filter(|key| key.len() <= NAME_BYTES_MAX).unwrap_or_default();
                let slash = if key.is_empty() { "" } else { "/" };
                let escaped = key.replace('~', "~0").replace('/', "~1");
                self.faults.push(Fault { pointer: format!("{}{slash}{escaped}", self.place), detail });
            }
            if self.faults.len() >= FAULTS_MAX || unknown_keys >= UNKNOWN_KEYS_MAX {
                *self.is_cut = true;
                return Ok(());
            }
        }
        let missing = missing
            .into_iter()
            .map(|name| Fault { pointer: self.place.to_owned(), detail: format!("{name} is missing") });
        self.faults.splice(first..first, missing);
        Ok(())
    }
}

fn member_fault(key: &str, value: &RawValue) -> Option<String> {
    fn read<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<String> {
        serde_json::from_str::<T>(value.get()).err().map(|error| plain(&error.to_string()))
    }
    match key {
        "group" => read::<GroupId>(value),
        "type" => read::<TypeId>(value),
        "id" => read::<Option<JobId>>(value),
        "payload" => None,
        "payload_base64" | "run_at" => read::<Option<String>>(value),
        "level" => read::<Option<LevelWord>>(value),
        "cost" => read::<Option<Cost>>(value),
        "delay_ms" => read::<Option<u64>>(value),
        "bulk" => read::<Option<BulkId>>(value),
        "trace" => read::<Option<Trace>>(value),
        _ => None,
    }
}

/// A value that is there, be it null.
fn as_it_is<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A list of at most so many items; no more than these are ever in memory.
pub struct AtMost<const MOST: usize, T>(pub Vec<T>);

impl<'de, const MOST: usize, T: Deserialize<'de>> Deserialize<'de> for AtMost<MOST, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Items::<MOST, T>(PhantomData))
    }
}

struct Items<const MOST: usize, T>(PhantomData<T>);

impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for Items<MOST, T> {
    type Value = AtMost<MOST, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            if items.len() == MOST {
                return Err(de::Error::custom(format_args!(
                    "there are more than {MOST} jobs; send the rest in another request"
                )));
            }
            items.push(item);
        }
        Ok(AtMost(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of this many bytes that ends in `end`, with as many members as fit.
    fn body_of(bytes: usize, begin: &str, member: impl Fn(usize) -> String, end: &str) -> String {
        let mut body = begin.to_owned();
        for number in 0.. {
            let next = member(number);
            if body.len() + next.len() + end.len() > bytes {
                break;
            }
            body.push_str(&next);
        }
        body + end
    }

    fn faults_of(body: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        add_faults(body.as_bytes(), "", &mut faults);
        faults
    }

    #[test]
    fn faults_are_collected_up_to_twenty_and_unknown_keys_up_to_five() {
        const BODY_BYTES: usize = 8 * 1024 * 1024;
        let unknown =
            body_of(BODY_BYTES, r#"{"group":"g","type":"t""#, |number| format!(r#","{number}":0"#), "}");
        assert_eq!(faults_of(&unknown).len(), UNKNOWN_KEYS_MAX);
        let repeated = body_of(BODY_BYTES, r#"{"group":"g""#, |_| r#","type":0"#.to_owned(), "}");
        assert_eq!(faults_of(&repeated).len(), FAULTS_MAX);
        let jobs = format!(r#"{{"jobs":[{}{{}}]}}"#, "{},".repeat(BATCH_JOBS_MAX - 1));
        assert_eq!(faults_in(jobs.as_bytes()).len(), FAULTS_MAX);
        let problem = read_batch(jobs.as_bytes(), None, None).err().unwrap();
        assert!(problem.detail().contains("at least 20 things are wrong"), "{}", problem.detail());
    }

    #[test]
    fn a_long_unknown_key_is_not_repeated_in_the_answer() {
        let faults = faults_of(&format!(r#"{{"group":"g","type":"t","{}":0}}"#, "~".repeat(100_000)));
        assert_eq!((faults.len(), faults[0].pointer.as_str()), (1, ""));
        assert!(faults[0].detail.len() < 1000);
    }

    #[test]
    fn faults_name_missing_keys_first_and_then_each_wrong_one() {
        let faults = faults_of(r#"{"group":"","cost":0,"a/b":1}"#);
        let pointers: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(pointers, ["", "/group", "/cost", "/a~1b"]);
        assert_eq!(faults[0].detail, "type is missing");
    }
}
