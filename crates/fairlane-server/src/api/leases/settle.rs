//! Extends leases and settles jobs as workers in Rust do: with the same notes, delays and limits.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::views::Time;
use fairlane::{Extension, Fence, GroupId, HeldLease, JobId, JobRef, Progress, Settlement, Verdict};
use fairlane_core::limits::{
    DELAY_MS_MAX, EXTEND_JOBS_MAX, JSON_DEPTH_MAX, LEASE_MS_MAX, LEASE_MS_MIN, NOTE_BYTES_MAX,
    RETRY_AFTER_MS_MAX, SETTLE_JOBS_MAX,
};
use fairlane_core::numbers::within;
use fairlane_core::queue::Outcome;
use fairlane_worker::RetryPolicy;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::LEASE_MS;
use crate::access::Caller;
use crate::api::jobs::AtMost;
use crate::app::Shared;
use crate::extract::{Json, Object, check_content_type, parse_json, read_body};
use crate::problem::{Problem, ProblemKind};

/// The random delay of a job whose downstream refused it without a Retry-After.
const THROTTLE_POLICY: RetryPolicy =
    RetryPolicy { base: Duration::from_millis(200), cap: Duration::from_millis(200) };

/// Leases to be extended.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExtendRequest, example = json!({"leases": [{"group": "customer-7", "id": "welcome-42", "fence": 1}], "lease_ms": 30000}))]
pub(super) struct ExtendRequest {
    /// The leases, each job at most once.
    #[schema(value_type = Vec<LeaseToExtend>, max_items = 500)]
    leases: AtMost<EXTEND_JOBS_MAX, Object<LeaseToExtend>>,
    /// The new length of the leases, in milliseconds from now.
    #[schema(minimum = 100, maximum = 900000, default = 30000)]
    lease_ms: Option<u64>,
}

/// A lease, and how far its attempt is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LeaseToExtend {
    /// The group of the job.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    group: GroupId,
    /// The id of the job.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "welcome-42")]
    id: JobId,
    /// The fence of the lease.
    #[schema(minimum = 1, maximum = 9007199254740991_u64)]
    fence: u64,
    /// How far the attempt is. The queue shows it with the job until the lease ends.
    progress: Option<ProgressRequest>,
}

/// How far an attempt is, in a unit of the worker's choice.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ProgressRequest {
    /// Units done so far; at most `total`.
    #[schema(minimum = 0, maximum = 9007199254740991_u64, example = 12)]
    done: u64,
    /// Units in total.
    #[schema(minimum = 1, maximum = 9007199254740991_u64, example = 20)]
    total: u64,
}

/// The outcomes of the extensions.
#[derive(Serialize, ToSchema)]
pub(super) struct Extensions {
    /// The outcomes in the order of the request.
    leases: Vec<ExtensionResponse>,
}

/// The outcome of an extension.
#[derive(Serialize, ToSchema)]
#[schema(as = Extension)]
struct ExtensionResponse {
    /// `extended`; `lost`: another worker may have the job, so stop processing it; `cancelled`:
    /// extended, but the job was cancelled, so stop processing it and settle it as cancelled.
    status: ExtensionStatus,
    /// When the lease ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ExtensionStatus {
    Extended,
    Lost,
    Cancelled,
}

impl From<Extension> for ExtensionResponse {
    fn from(extension: Extension) -> Self {
        match extension {
            Extension::Until(until) => Self { status: ExtensionStatus::Extended, until: Some(Time(until)) },
            Extension::Lost => Self { status: ExtensionStatus::Lost, until: None },
            Extension::Cancelled(until) => {
                Self { status: ExtensionStatus::Cancelled, until: Some(Time(until)) }
            }
        }
    }
}

/// Extends leases
///
/// Send it well before the leases end, a third of their length after the last time. A job that is
/// not leased under its fence any more is `lost`, and is not leased again by this. Idempotent.
///
/// A lease may carry the progress of its attempt, which `GET /api/jobs/{group}/{job}` and the events of
/// the job show until the lease ends.
#[utoipa::path(
    post,
    path = "/api/leases/extend",
    tag = "leases",
    request_body = ExtendRequest,
    responses((status = 200, description = "The outcome of each", body = Extensions)),
)]
pub(super) async fn extend(
    State(app): State<Shared>,
    caller: Caller,
    Json(request): Json<ExtendRequest>,
) -> Result<Json<Extensions>, Problem> {
    let lease_ms = request.lease_ms.unwrap_or(LEASE_MS);
    within("the length of a lease in ms", lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
    let mut leases = Vec::with_capacity(request.leases.0.len());
    for (at, Object(lease)) in request.leases.0.into_iter().enumerate() {
        let progress = lease.progress.map(|ProgressRequest { done, total }| Progress { done, total });
        let lease = fenced_job(&caller, lease.group, lease.id, lease.fence);
        let (job, fence) = lease.map_err(|problem| problem.within(&format!("/leases/{at}")))?;
        leases.push(HeldLease { job, fence, progress });
    }
    let extensions = app.fairlane.leases().extend(leases, Duration::from_millis(lease_ms)).await?;
    Ok(Json(Extensions { leases: extensions.into_iter().map(Into::into).collect() }))
}

/// The job and its fence, if the caller may access the group.
fn fenced_job(caller: &Caller, group: GroupId, id: JobId, fence: u64) -> Result<(JobRef, Fence), Problem> {
    caller.check_group(&group)?;
    Ok((JobRef { group, id }, Fence::new(fence)?))
}

/// The outcomes of attempts.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettleRequest, example = json!({"settlements": [
    {"group": "customer-7", "id": "welcome-42", "fence": 1, "outcome": "succeeded", "result": {"sent": true}},
    {"group": "customer-7", "id": "welcome-43", "fence": 1, "outcome": "throttled", "retry_after_ms": 2000},
    {"group": "customer-7", "id": "welcome-44", "fence": 1, "outcome": "retry", "attempt": 1, "code": "smtp", "reason": "no answer"},
]}))]
pub(super) struct SettleRequest<'a> {
    /// The settlements, each job at most once.
    #[serde(borrow)]
    #[schema(value_type = Vec<SettlementBody>, max_items = 500)]
    settlements: AtMost<SETTLE_JOBS_MAX, Object<SettlementBody<'a>>>,
}

/// The outcome of an attempt. A field that does not belong to the outcome is refused: `result` or
/// `result_base64` (not both) belong to `succeeded`, `reason` and `code` to `failed`, `retry`,
/// `cancelled` and `throttled`, `delay_ms` to `retry` and `throttled`, `retry_after_ms` to
/// `throttled`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settlement)]
struct SettlementBody<'a> {
    /// The group of the job.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    group: GroupId,
    /// The id of the job.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "welcome-42")]
    id: JobId,
    /// The fence of the lease.
    #[schema(minimum = 1, maximum = 9007199254740991_u64)]
    fence: u64,
    /// The outcome of the attempt.
    outcome: OutcomeName,
    /// The result of a job that succeeded, kept byte for byte; at most 64 KiB, nested at most 96
    /// levels deep.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    /// The result in base64, if it is not JSON.
    #[schema(
        max_length = 87384,
        content_encoding = "base64",
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"
    )]
    result_base64: Option<String>,
    /// The error message for people (`failed`, `retry`, `cancelled`); truncated to 4 KiB.
    reason: Option<String>,
    /// The error code, by which summaries count; truncated to 64 bytes.
    #[schema(example = "smtp")]
    code: Option<String>,
    /// The delay before the next attempt (`retry`, `throttled`), in milliseconds. By default
    /// `retry` doubles a random delay with each attempt, and `throttled` waits for `retry_after_ms`
    /// or a moment.
    #[schema(minimum = 0, maximum = 315360000000_u64)]
    delay_ms: Option<u64>,
    /// The Retry-After of the downstream (`throttled`), in milliseconds: no job of this type starts
    /// before. Limited to a minute.
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    retry_after_ms: Option<u64>,
    /// The number of the attempt, as it was leased; `retry` without `delay_ms` computes the delay
    /// from it.
    #[schema(minimum = 1, maximum = 4294967295_u64, default = 1)]
    attempt: Option<u32>,
}

/// The outcome of an attempt: `succeeded`; `failed` for good; `retry`, unless its retries are used
/// up; `throttled`, refused by the downstream for now, which costs no attempt but slows the type;
/// `released`, returned without being processed; `cancelled`, stopped because it was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Outcome)]
enum OutcomeName {
    Succeeded,
    Failed,
    Retry,
    Throttled,
    Released,
    Cancelled,
}

/// The verdicts on the settlements.
#[derive(Serialize, ToSchema)]
pub(super) struct Verdicts {
    /// The verdicts in the order of the request. `applied`: the settlement takes effect, now or
    /// when it was first sent; `stale`: the job is not leased under this fence, so the attempt does
    /// not count; `gone`: the job does not exist.
    verdicts: Vec<VerdictName>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Verdict)]
enum VerdictName {
    Applied,
    Stale,
    Gone,
}

impl From<Verdict> for VerdictName {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Applied => Self::Applied,
            Verdict::Stale => Self::Stale,
            Verdict::Gone => Self::Gone,
        }
    }
}

/// Settles jobs
///
/// In steps of at most 200. Idempotent: a repeated settlement that took effect is `applied` again
/// and changes nothing.
#[utoipa::path(
    post,
    path = "/api/leases/settle",
    tag = "leases",
    request_body = SettleRequest,
    responses((status = 200, description = "The verdict on each", body = Verdicts)),
)]
pub(super) async fn settle(
    State(app): State<Shared>,
    caller: Caller,
    request: Request,
) -> Result<Json<Verdicts>, Problem> {
    check_content_type(request.headers(), "application/json")?;
    let body = read_body(request, &app).await?;
    let settlements = app.parsers.parse(body, move |body| parse_settlements(body, &caller)).await?;
    let verdicts = app.fairlane.leases().settle(settlements).await?;
    Ok(Json(Verdicts { verdicts: verdicts.into_iter().map(Into::into).collect() }))
}

fn parse_settlements(body: &[u8], caller: &Caller) -> Result<Vec<Settlement>, Problem> {
    // Results are borrowed from the body.
    let request: SettleRequest<'_> = parse_json(body)?;
    let mut settlements = Vec::with_capacity(request.settlements.0.len());
    for (at, Object(settlement)) in request.settlements.0.into_iter().enumerate() {
        let settlement = settlement.checked(caller);
        settlements.push(settlement.map_err(|problem| problem.within(&format!("/settlements/{at}")))?);
    }
    Ok(settlements)
}

impl SettlementBody<'_> {
    fn checked(self, caller: &Caller) -> Result<Settlement, Problem> {
        let outcome = self.outcome()?;
        let (job, fence) = fenced_job(caller, self.group, self.id, self.fence)?;
        Ok(Settlement { job, fence, outcome })
    }

    fn outcome(&self) -> Result<Outcome, Problem> {
        if let Some(delay_ms) = self.delay_ms {
            within("a delay in ms", delay_ms, 0, DELAY_MS_MAX)?;
        }
        if self.outcome != OutcomeName::Succeeded && (self.result.is_some() || self.result_base64.is_some()) {
            return Err(ProblemKind::Invalid
                .because("only the outcome succeeded has a result; describe an error with reason and code"));
        }
        self.check_fields()?;
        Ok(match self.outcome {
            OutcomeName::Succeeded => Outcome::Succeeded { result: self.result()? },
            OutcomeName::Failed => Outcome::Failed { reason: self.note("error") },
            OutcomeName::Cancelled => Outcome::Cancelled { reason: self.note("cancelled") },
            OutcomeName::Retry => {
                let delay = || RetryPolicy::default().delay(self.attempt.unwrap_or(1)).as_millis() as u64;
                Outcome::Retry { delay_ms: self.delay_ms.unwrap_or_else(delay), reason: self.note("error") }
            }
            OutcomeName::Throttled => {
                let retry_after_ms = self.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX);
                let moment = || THROTTLE_POLICY.delay(1).as_millis() as u64 + 1;
                let asked = (retry_after_ms > 0).then_some(retry_after_ms);
                let delay_ms = self.delay_ms.or(asked).unwrap_or_else(moment);
                Outcome::Throttled { delay_ms, retry_after_ms }
            }
            OutcomeName::Released => Outcome::Released,
        })
    }

    /// Refuses fields that have no effect on the outcome: the client most likely means another
    /// outcome.
    fn check_fields(&self) -> Result<(), Problem> {
        use OutcomeName::{Released, Retry, Succeeded, Throttled};
        let invalid = |pointer: &str, detail: &str| Err(ProblemKind::Invalid.because(detail).at(pointer));
        let has_note = |outcome| !matches!(outcome, Succeeded | Released);
        if self.code.is_some() && !has_note(self.outcome) {
            return invalid(
                "/code",
                "code describes an error; the outcomes succeeded and released have none",
            );
        }
        if self.reason.is_some() && !has_note(self.outcome) {
            return invalid(
                "/reason",
                "reason describes an error; the outcomes succeeded and released have none",
            );
        }
        if self.delay_ms.is_some() && !matches!(self.outcome, Retry | Throttled) {
            return invalid("/delay_ms", "delay_ms belongs to the outcomes retry and throttled");
        }
        if self.retry_after_ms.is_some() && self.outcome != Throttled {
            return invalid(
                "/retry_after_ms",
                "retry_after_ms belongs to the outcome throttled; use delay_ms for a retry",
            );
        }
        Ok(())
    }

    fn result(&self) -> Result<Arc<[u8]>, Problem> {
        let result: Arc<[u8]> = match (&self.result, &self.result_base64) {
            (Some(_), Some(_)) => {
                return Err(ProblemKind::Invalid.because("result and result_base64 exclude each other"));
            }
            (Some(json), None) if fairlane::is_too_deep(json.get().as_bytes()) => {
                return Err(ProblemKind::Invalid
                    .because(format!(
                        "a result may be nested at most {JSON_DEPTH_MAX} levels deep; flatten it, or send it as result_base64"
                    ))
                    .at("/result"));
            }
            (Some(json), None) => json.get().as_bytes().into(),
            (None, Some(text)) => match BASE64.decode(text) {
                Ok(bytes) => bytes.into(),
                Err(_) => return Err(ProblemKind::Invalid.because("result_base64 is not valid base64")),
            },
            (None, None) => [].into(),
        };
        if result.len() > NOTE_BYTES_MAX {
            return Err(ProblemKind::TooLarge.because(format!(
                "a result may have at most {NOTE_BYTES_MAX} bytes, and this one has {}; store it elsewhere and send a reference",
                result.len()
            )));
        }
        Ok(result)
    }

    /// The error in the form in which workers in Rust store it with a job.
    fn note(&self, code: &str) -> Arc<[u8]> {
        let code = self.code.as_deref().unwrap_or(code);
        fairlane_worker::Problem::new(code, self.reason.as_deref().unwrap_or("")).to_bytes().into()
    }
}
