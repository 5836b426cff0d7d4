//! Jobs in requests.
//!
//! A body is parsed once, and a payload is copied once; only an invalid body is parsed again, to
//! find all invalid values.

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

use crate::extract::{Object, parse_json, plain};
use crate::idempotency::{IdFrom, IdempotencyKey};
use crate::problem::{Fault, Problem, ProblemKind};

/// The maximum number of jobs in one batch.
pub const BATCH_JOBS_MAX: usize = 1000;
/// The maximum number of faults in one response; a body is parsed no further than to the last of
/// them.
const FAULTS_MAX: usize = 20;
/// The number of unknown fields of one job after which the rest of it is not parsed.
const UNKNOWN_FIELDS_MAX: usize = 5;
/// The fields of a job.
const FIELDS: &str = "group, type, id, payload, payload_base64, level, cost, delay_ms, run_at, bulk, trace";

/// A job to be added: with `payload`, or with `payload_base64` if it is not JSON; with neither, the
/// payload is null. `delay_ms` and `run_at` exclude each other.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJob, example = json!({"group": "customer-7", "type": "mail", "id": "welcome-42", "payload": {"to": "ada@example.com"}}))]
pub struct JobBody<'a> {
    /// The group of the job: one customer.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    group: GroupId,
    /// The type of the job.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    r#type: TypeId,
    /// The id of the job, unique within its group: a second job with the same id is not added.
    /// Generated if absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    id: Option<JobId>,
    /// The payload: any JSON, kept byte for byte; at most 512 KiB, nested at most 96 levels deep;
    /// null by default.
    #[serde(default, borrow, deserialize_with = "raw_value")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// The payload in base64, if it is not JSON; at most 512 KiB when decoded.
    #[serde(default)]
    #[schema(
        max_length = 699_052,
        content_encoding = "base64",
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"
    )]
    payload_base64: Option<String>,
    /// The level of the job among jobs of its type; normal by default.
    #[serde(default)]
    level: Option<LevelName>,
    /// How much the job counts in its group's share; 1 by default.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    cost: Option<Cost>,
    /// The delay in milliseconds before the job may run; at most ten years.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 315_360_000_000u64)]
    delay_ms: Option<u64>,
    /// The time from which the job may run, by the server's clock; instead of `delay_ms`.
    #[serde(default)]
    #[schema(format = DateTime)]
    run_at: Option<String>,
    /// The bulk action of the group that the job belongs to.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    bulk: Option<BulkId>,
    /// The trace of the job, a W3C `traceparent`; that of the request by default.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$",
        example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    trace: Option<Trace>,
}

/// The level of a job.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Level)]
pub enum LevelName {
    /// Urgent work or small customers.
    High,
    /// Ordinary work.
    #[default]
    Normal,
    /// Large or less urgent batches.
    Low,
}

impl From<LevelName> for Level {
    fn from(name: LevelName) -> Self {
        match name {
            LevelName::High => Self::High,
            LevelName::Normal => Self::Normal,
            LevelName::Low => Self::Low,
        }
    }
}

/// A batch of jobs to be added.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJobs, example = json!({"jobs": [{"group": "customer-7", "type": "mail", "payload": {"to": "ada@example.com"}}]}))]
pub struct BatchBody<'a> {
    /// The jobs in the order in which they are added.
    #[serde(borrow)]
    #[schema(value_type = Vec<JobBody>, max_items = 1000)]
    jobs: AtMost<BATCH_JOBS_MAX, Object<JobBody<'a>>>,
}

/// A valid job.
pub struct CheckedJob {
    /// The job for the engine.
    pub new: NewJob,
    /// Where its id comes from; a derived id comes from an idempotency key.
    pub id_from: IdFrom,
}

/// Parses one job.
pub fn parse_job(
    body: &[u8],
    key: Option<&IdempotencyKey>,
    trace: Option<&Trace>,
) -> Result<CheckedJob, Problem> {
    let job: JobBody<'_> = parse_json(body).map_err(|problem| {
        with_faults(problem, || {
            let mut faults = Vec::new();
            add_faults(body, "", &mut faults);
            faults
        })
    })?;
    job.checked(&"", 1, key, trace).map_err(|fault| invalid_jobs(vec![fault]))
}

/// Parses a batch; if jobs are invalid, the problem names up to [`FAULTS_MAX`] faults.
pub fn parse_batch(
    body: &[u8],
    key: Option<&IdempotencyKey>,
    trace: Option<&Trace>,
) -> Result<Vec<CheckedJob>, Problem> {
    let batch: BatchBody<'_> =
        parse_json(body).map_err(|problem| with_faults(problem, || faults_in(body)))?;
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
    if faults.is_empty() { Ok(jobs) } else { Err(invalid_jobs(faults)) }
}

impl JobBody<'_> {
    /// Checks the job. Faults point to fields below `prefix`; `position` is that of the job in the
    /// request.
    fn checked(
        self,
        prefix: &dyn fmt::Display,
        position: u64,
        key: Option<&IdempotencyKey>,
        trace: Option<&Trace>,
    ) -> Result<CheckedJob, Fault> {
        let at = |field: &str, detail: String| Fault { pointer: format!("{prefix}{field}"), detail };
        let is_json = self.payload.is_some();
        let payload: Arc<[u8]> = match (self.payload, self.payload_base64) {
            (Some(json), None) if is_too_deep(json.get().as_bytes()) => {
                return Err(at(
                    "/payload",
                    format!(
                        "payload is nested deeper than {JSON_DEPTH_MAX} levels; flatten it, or send it as payload_base64"
                    ),
                ));
            }
            (Some(json), None) => json.get().as_bytes().into(),
            (None, Some(text)) => match BASE64.decode(text) {
                Ok(bytes) => bytes.into(),
                Err(_) => return Err(at("/payload_base64", "payload_base64 is not valid base64".to_owned())),
            },
            (None, None) => b"null"[..].into(),
            (Some(_), Some(_)) => {
                return Err(at(
                    "/payload_base64",
                    "payload and payload_base64 exclude each other".to_owned(),
                ));
            }
        };
        if payload.len() > PAYLOAD_BYTES_MAX {
            let field = if is_json { "/payload" } else { "/payload_base64" };
            let detail = format!(
                "the payload has {} bytes, and the maximum is {PAYLOAD_BYTES_MAX}; store it elsewhere and send a reference",
                payload.len()
            );
            return Err(at(field, detail));
        }
        let delay_ms =
            delay_ms(self.delay_ms, self.run_at.as_deref()).map_err(|(field, detail)| at(field, detail))?;
        let job_id = |text: String| JobId::new(text).map_err(|error| at("", error.to_string()));
        let (id, id_from) = match (self.id, key) {
            (Some(id), _) => (id, IdFrom::Request),
            (None, Some(key)) => (job_id(key.job_id(&self.group, position))?, IdFrom::Derived),
            (None, None) => (job_id(Uuid::now_v7().to_string())?, IdFrom::Random),
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
        Ok(CheckedJob { new, id_from })
    }
}

fn delay_ms(delay_ms: Option<u64>, run_at: Option<&str>) -> Result<u64, (&'static str, String)> {
    let (field, delay_ms) = match (delay_ms, run_at) {
        (None, None) => return Ok(0),
        (Some(delay_ms), None) => ("/delay_ms", delay_ms),
        (None, Some(text)) => {
            let at = parse_time(text).map_err(|error| ("/run_at", error.to_string()))?;
            let left = at.duration_since(SystemTime::now()).unwrap_or_default();
            // Rounded up, so that the job does not run too early.
            ("/run_at", u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
        }
        (Some(_), Some(_)) => return Err(("/run_at", "delay_ms and run_at exclude each other".to_owned())),
    };
    if delay_ms > DELAY_MS_MAX {
        return Err((field, "the delay is longer than the maximum of ten years".to_owned()));
    }
    Ok(delay_ms)
}

fn invalid_jobs(faults: Vec<Fault>) -> Problem {
    let (count, first) = (faults.len(), faults.first());
    let first = first.map_or(String::new(), |Fault { pointer, detail }| match pointer.as_str() {
        "" => detail.clone(),
        pointer => format!("{pointer}: {detail}"),
    });
    let detail = match count {
        1 => format!("nothing was added: {first}"),
        FAULTS_MAX => {
            format!("nothing was added: at least {FAULTS_MAX} values are invalid; the first: {first}")
        }
        _ => format!("nothing was added: {count} values are invalid; the first: {first}"),
    };
    ProblemKind::Invalid.because(detail).with_errors(faults)
}

/// The problem with all faults, if the body is valid JSON and faults are found in it.
fn with_faults(problem: Problem, find: impl FnOnce() -> Vec<Fault>) -> Problem {
    if problem.kind() != ProblemKind::Invalid {
        return problem;
    }
    let faults = find();
    if faults.is_empty() { problem } else { invalid_jobs(faults) }
}

/// The faults of a batch.
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

/// Adds the faults of a job, field by field, until there are [`FAULTS_MAX`].
fn add_faults(job: &[u8], prefix: &str, faults: &mut Vec<Fault>) {
    let of_job = match serde_json::from_slice::<Object<JobBody<'_>>>(job) {
        // A job that can be parsed may still be invalid.
        Ok(Object(job)) => return faults.extend(job.checked(&prefix, 1, None, None).err()),
        Err(error) => Fault { pointer: prefix.to_owned(), detail: plain(&error.to_string()) },
    };
    let (before, mut is_cut) = (faults.len(), false);
    let fields = FieldFaults { prefix, is_cut: &mut is_cut, faults };
    let parsed = serde_json::Deserializer::from_slice(job).deserialize_map(fields);
    if parsed.is_err() && !is_cut {
        faults.truncate(before);
    }
    if faults.len() == before {
        faults.push(of_job);
    }
    faults.truncate(FAULTS_MAX);
}

/// Adds the faults of a job's fields; sets `is_cut` when it stops before the end of the job.
struct FieldFaults<'a> {
    prefix: &'a str,
    is_cut: &'a mut bool,
    faults: &'a mut Vec<Fault>,
}

impl<'de> Visitor<'de> for FieldFaults<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (first, mut unknown_fields) = (self.faults.len(), 0);
        let mut missing = vec!["group", "type"];
        while let Some(key) = map.next_key::<String>()? {
            missing.retain(|name| *name != key);
            let detail = match FIELDS.split(", ").any(|known| known == key) {
                true => field_fault(&key, map.next_value::<&RawValue>()?),
                false => {
                    map.next_value::<IgnoredAny>()?;
                    unknown_fields += 1;
                    Some(format!(
                        "this is not a known field; the known fields are {FIELDS}; put your own data into payload"
                    ))
                }
            };
            if let Some(detail) = detail {
                // A very long key is omitted, as it would repeat the body.
                let key = Some(key).filter(|key| key.len() <= NAME_BYTES_MAX).unwrap_or_default();
                let slash = if key.is_empty() { "" } else { "/" };
                let escaped = key.replace('~', "~0").replace('/', "~1");
                self.faults.push(Fault { pointer: format!("{}{slash}{escaped}", self.prefix), detail });
            }
            if self.faults.len() >= FAULTS_MAX || unknown_fields >= UNKNOWN_FIELDS_MAX {
                *self.is_cut = true;
                return Ok(());
            }
        }
        let missing = missing
            .into_iter()
            .map(|name| Fault { pointer: self.prefix.to_owned(), detail: format!("{name} is required") });
        self.faults.splice(first..first, missing);
        Ok(())
    }
}

fn field_fault(field: &str, value: &RawValue) -> Option<String> {
    fn parse<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<String> {
        serde_json::from_str::<T>(value.get()).err().map(|error| plain(&error.to_string()))
    }
    match field {
        "group" => parse::<GroupId>(value),
        "type" => parse::<TypeId>(value),
        "id" => parse::<Option<JobId>>(value),
        "payload" => None,
        "payload_base64" | "run_at" => parse::<Option<String>>(value),
        "level" => parse::<Option<LevelName>>(value),
        "cost" => parse::<Option<Cost>>(value),
        "delay_ms" => parse::<Option<u64>>(value),
        "bulk" => parse::<Option<BulkId>>(value),
        "trace" => parse::<Option<Trace>>(value),
        _ => None,
    }
}

/// Deserializes a present value, which may be null.
fn raw_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A list of at most `MOST` items; no more than these are ever in memory.
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
        write!(f, "a list of at most {MOST} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            if items.len() == MOST {
                return Err(de::Error::custom(format_args!(
                    "there are more than {MOST} items; send the rest in another request"
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
    fn faults_are_collected_up_to_twenty_and_unknown_fields_up_to_five() {
        const BODY_BYTES: usize = 8 * 1024 * 1024;
        let unknown =
            body_of(BODY_BYTES, r#"{"group":"g","type":"t""#, |number| format!(r#","{number}":0"#), "}");
        assert_eq!(faults_of(&unknown).len(), UNKNOWN_FIELDS_MAX);
        let repeated = body_of(BODY_BYTES, r#"{"group":"g""#, |_| r#","type":0"#.to_owned(), "}");
        assert_eq!(faults_of(&repeated).len(), FAULTS_MAX);
        let jobs = format!(r#"{{"jobs":[{}{{}}]}}"#, "{},".repeat(BATCH_JOBS_MAX - 1));
        assert_eq!(faults_in(jobs.as_bytes()).len(), FAULTS_MAX);
        let problem = parse_batch(jobs.as_bytes(), None, None).err().unwrap();
        assert!(problem.detail().contains("at least 20 values are invalid"), "{}", problem.detail());
    }

    #[test]
    fn the_name_of_a_long_unknown_field_is_not_repeated_in_the_response() {
        let faults = faults_of(&format!(r#"{{"group":"g","type":"t","{}":0}}"#, "~".repeat(100_000)));
        assert_eq!((faults.len(), faults[0].pointer.as_str()), (1, ""));
        assert!(faults[0].detail.len() < 1000);
    }

    #[test]
    fn faults_name_missing_fields_first_and_then_each_invalid_one() {
        let faults = faults_of(r#"{"group":"","cost":0,"a/b":1}"#);
        let pointers: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(pointers, ["", "/group", "/cost", "/a~1b"]);
        assert_eq!(faults[0].detail, "type is required");
    }
}
