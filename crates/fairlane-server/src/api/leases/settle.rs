//! Keeps leases alive and ends them, as workers in Rust do: the same notes, delays and bounds.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane_core::limits::{
    DELAY_MS_MAX, EXTEND_JOBS_MAX, JSON_DEPTH_MAX, LEASE_MS_MAX, LEASE_MS_MIN, NOTE_BYTES_MAX,
    RETRY_AFTER_MS_MAX, SETTLE_JOBS_MAX,
};
use fairlane_core::numbers::within;
use fairlane_core::queue::{Extend, Extension, JobRef, Outcome, Settle, Settlement, Verdict};
use fairlane_core::{Fence, GroupId, JobId};
use fairlane_worker::RetryPolicy;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::LEASE_MS;
use crate::access::Caller;
use crate::api::jobs::AtMost;
use crate::api::shown::time;
use crate::app::Shared;
use crate::extract::{Json, Object, check_content_type, read_json, whole_body};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// How long a job waits at random whose downstream refused it without saying for how long.
const THROTTLE_POLICY: RetryPolicy =
    RetryPolicy { base: Duration::from_millis(200), cap: Duration::from_millis(200) };

/// Leases to be kept alive.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExtendRequest, example = json!({"leases": [{"group": "customer-7", "id": "welcome-42", "fence": 1}], "lease_ms": 30000}))]
pub(super) struct ExtendRequest {
    /// Each job at most once.
    #[schema(value_type = Vec<LeaseNamed>, max_items = 500)]
    leases: AtMost<EXTEND_JOBS_MAX, Object<LeaseNamed>>,
    /// Until this long from now.
    #[schema(minimum = 100, maximum = 900000, default = 30000)]
    lease_ms: Option<u64>,
}

/// A lease.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeaseName)]
struct LeaseNamed {
    /// Whose.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    group: GroupId,
    /// Which job of theirs.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "welcome-42")]
    id: JobId,
    /// As it was leased.
    #[schema(minimum = 1, maximum = 9007199254740991_u64)]
    fence: u64,
}

/// What became of the leases.
#[derive(Serialize, ToSchema)]
pub(super) struct Extensions {
    /// In the order they were sent.
    leases: Vec<ExtensionShown>,
}

/// What became of a lease.
#[derive(Serialize, ToSchema)]
#[schema(as = Extension)]
struct ExtensionShown {
    /// `extended`; `lost`: somebody else has the job, stop working on it; `cancelled`: extended, but nobody wants the
    /// job any more, so stop working on it and settle it as cancelled.
    status: Kept,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    until: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Kept {
    Extended,
    Lost,
    Cancelled,
}

impl From<Extension> for ExtensionShown {
    fn from(extension: Extension) -> Self {
        match extension {
            Extension::Until(until) => Self { status: Kept::Extended, until: Some(time(until)) },
            Extension::Lost => Self { status: Kept::Lost, until: None },
            Extension::Cancelled(until) => Self { status: Kept::Cancelled, until: Some(time(until)) },
        }
    }
}

/// Keeps leases alive
///
/// To be sent well before leases run out, a third of their length after the last time. What is not leased under its
/// fence any more is `lost`; it is never leased again by this. May be repeated.
#[utoipa::path(
    post,
    path = "/api/leases/extend",
    tag = "leases",
    request_body = ExtendRequest,
    responses(
        (status = 200, description = "What became of each", body = Extensions),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
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
        let named = named(&caller, lease.group, lease.id, lease.fence);
        leases.push(named.map_err(|problem| problem.within(&format!("/leases/{at}")))?);
    }
    let extended = app.engine().extend(Extend { leases, lease_ms }).await?;
    Ok(Json(Extensions { leases: extended.extensions.into_iter().map(Into::into).collect() }))
}

/// The job and the fence, of a group that the caller may speak for.
fn named(caller: &Caller, group: GroupId, id: JobId, fence: u64) -> Result<(JobRef, Fence), Problem> {
    caller.check_group(&group)?;
    Ok((JobRef { group, id }, Fence::new(fence)?))
}

/// How attempts ended.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettleRequest, example = json!({"settlements": [
    {"group": "customer-7", "id": "welcome-42", "fence": 1, "outcome": "succeeded", "result": {"sent": true}},
    {"group": "customer-7", "id": "welcome-43", "fence": 1, "outcome": "throttled", "retry_after_ms": 2000},
    {"group": "customer-7", "id": "welcome-44", "fence": 1, "outcome": "retry", "attempt": 1, "code": "smtp", "reason": "no answer"},
]}))]
pub(super) struct SettleRequest<'a> {
    /// Each job at most once.
    #[serde(borrow)]
    #[schema(value_type = Vec<SettlementSent>, max_items = 500)]
    settlements: AtMost<SETTLE_JOBS_MAX, Object<SettlementSent<'a>>>,
}

/// How an attempt ended. A field that does not fit the outcome is refused: `result` or `result_base64` (not both)
/// belong to `succeeded`, `reason` and `code` to `failed`, `retry`, `cancelled` and `throttled`, `delay_ms` to
/// `retry` and `throttled`, `retry_after_ms` to `throttled`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settlement)]
struct SettlementSent<'a> {
    /// Whose.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    group: GroupId,
    /// Which job of theirs.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "welcome-42")]
    id: JobId,
    /// As it was leased.
    #[schema(minimum = 1, maximum = 9007199254740991_u64)]
    fence: u64,
    /// How.
    outcome: OutcomeWord,
    /// Of what succeeded: what came of it, kept byte for byte; at most 64 KiB, nested at most 96 levels
    /// deep.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    /// The same if it is not JSON.
    #[schema(
        max_length = 87384,
        content_encoding = "base64",
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"
    )]
    result_base64: Option<String>,
    /// What went wrong, for a person (`failed`, `retry`, `cancelled`); beyond 4 KiB it is cut.
    reason: Option<String>,
    /// What went wrong, in a word that summaries count by; beyond 64 bytes it is cut.
    #[schema(example = "smtp")]
    code: Option<String>,
    /// When it is to be tried again (`retry`, `throttled`); if it is not said, `retry` doubles a random delay with
    /// each attempt, and `throttled` waits for `retry_after_ms` or a moment.
    #[schema(minimum = 0, maximum = 315360000000_u64)]
    delay_ms: Option<u64>,
    /// What the downstream asked for (`throttled`): nothing of this type starts before. Beyond a minute it is cut.
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    retry_after_ms: Option<u64>,
    /// As it was leased; `retry` without `delay_ms` needs it to wait longer each time.
    #[schema(minimum = 1, maximum = 4294967295_u64, default = 1)]
    attempt: Option<u32>,
}

/// How an attempt ended: `succeeded`; `failed` for good; `retry`, to be tried again unless its retries are used up;
/// `throttled`, refused by the downstream for now, which costs no attempt but slows the type; `released`, handed back
/// unworked; `cancelled`, given up because nobody wants it.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Outcome)]
enum OutcomeWord {
    Succeeded,
    Failed,
    Retry,
    Throttled,
    Released,
    Cancelled,
}

/// What became of the settlements.
#[derive(Serialize, ToSchema)]
pub(super) struct Verdicts {
    /// In the order they were sent. `applied`: it counts, now or since it was first said; `stale`: the job is not
    /// leased under this fence, so this attempt does not count; `gone`: there is no such job.
    verdicts: Vec<VerdictWord>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Verdict)]
enum VerdictWord {
    Applied,
    Stale,
    Gone,
}

impl From<Verdict> for VerdictWord {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Applied => Self::Applied,
            Verdict::Stale => Self::Stale,
            Verdict::Gone => Self::Gone,
        }
    }
}

/// Says how attempts ended
///
/// All of them in one step. May be repeated until it is answered: what counted says `applied` again and changes
/// nothing.
#[utoipa::path(
    post,
    path = "/api/leases/settle",
    tag = "leases",
    request_body = SettleRequest,
    responses(
        (status = 200, description = "What became of each", body = Verdicts),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(super) async fn settle(
    State(app): State<Shared>,
    caller: Caller,
    request: Request,
) -> Result<Json<Verdicts>, Problem> {
    check_content_type(request.headers(), "application/json")?;
    let body = whole_body(request, &app).await?;
    let settlements = app.parsers.parse(body, move |body| read_settlements(body, &caller)).await?;
    let settled = app.engine().settle(Settle { settlements }).await?;
    Ok(Json(Verdicts { verdicts: settled.verdicts.into_iter().map(Into::into).collect() }))
}

fn read_settlements(body: &[u8], caller: &Caller) -> Result<Vec<Settlement>, Problem> {
    // Results are taken out of the body as they stand there.
    let request: SettleRequest<'_> = read_json(body)?;
    let mut settlements = Vec::with_capacity(request.settlements.0.len());
    for (at, Object(sent)) in request.settlements.0.into_iter().enumerate() {
        let settlement = sent.checked(caller);
        settlements.push(settlement.map_err(|problem| problem.within(&format!("/settlements/{at}")))?);
    }
    Ok(settlements)
}

impl SettlementSent<'_> {
    fn checked(self, caller: &Caller) -> Result<Settlement, Problem> {
        let outcome = self.outcome()?;
        let (job, fence) = named(caller, self.group, self.id, self.fence)?;
        Ok(Settlement { job, fence, outcome })
    }

    fn outcome(&self) -> Result<Outcome, Problem> {
        if let Some(delay_ms) = self.delay_ms {
            within("a delay in ms", delay_ms, 0, DELAY_MS_MAX)?;
        }
        if self.outcome != OutcomeWord::Succeeded && (self.result.is_some() || self.result_base64.is_some()) {
            return Err(ProblemKind::Invalid
                .because("only what succeeded has a result; say what went wrong with reason and code"));
        }
        self.check_fits()?;
        Ok(match self.outcome {
            OutcomeWord::Succeeded => Outcome::Succeeded { result: self.result()? },
            OutcomeWord::Failed => Outcome::Failed { reason: self.note("error") },
            OutcomeWord::Cancelled => Outcome::Cancelled { reason: self.note("cancelled") },
            OutcomeWord::Retry => {
                let delay = || RetryPolicy::default().delay(self.attempt.unwrap_or(1)).as_millis() as u64;
                Outcome::Retry { delay_ms: self.delay_ms.unwrap_or_else(delay), reason: self.note("error") }
            }
            OutcomeWord::Throttled => {
                let retry_after_ms = self.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX);
                let moment = || THROTTLE_POLICY.delay(1).as_millis() as u64 + 1;
                let asked = (retry_after_ms > 0).then_some(retry_after_ms);
                let delay_ms = self.delay_ms.or(asked).unwrap_or_else(moment);
                Outcome::Throttled { delay_ms, retry_after_ms }
            }
            OutcomeWord::Released => Outcome::Released,
        })
    }

    /// Refuses what would say something and change nothing: whoever sends it means another outcome.
    fn check_fits(&self) -> Result<(), Problem> {
        use OutcomeWord::{Released, Retry, Succeeded, Throttled};
        let invalid = |key: &str, detail: &str| Err(ProblemKind::Invalid.because(detail).at(key));
        let has_note = |outcome| !matches!(outcome, Succeeded | Released);
        if self.code.is_some() && !has_note(self.outcome) {
            return invalid(
                "/code",
                "code says what went wrong; nothing did, if it succeeded or was released",
            );
        }
        if self.reason.is_some() && !has_note(self.outcome) {
            return invalid(
                "/reason",
                "reason says what went wrong; nothing did, if it succeeded or was released",
            );
        }
        if self.delay_ms.is_some() && !matches!(self.outcome, Retry | Throttled) {
            return invalid("/delay_ms", "only retry and throttled are tried again after delay_ms");
        }
        if self.retry_after_ms.is_some() && self.outcome != Throttled {
            return invalid(
                "/retry_after_ms",
                "retry_after_ms belongs to throttled; a retry waits for delay_ms",
            );
        }
        Ok(())
    }

    fn result(&self) -> Result<Arc<[u8]>, Problem> {
        let result: Arc<[u8]> = match (&self.result, &self.result_base64) {
            (Some(_), Some(_)) => {
                return Err(ProblemKind::Invalid.because("send result or result_base64, not both"));
            }
            (Some(json), None) if fairlane::is_too_deep(json.get().as_bytes()) => {
                return Err(ProblemKind::Invalid
                    .because(format!(
                        "a result is nested at most {JSON_DEPTH_MAX} levels deep; send it flatter, or as result_base64"
                    ))
                    .at("/result"));
            }
            (Some(json), None) => json.get().as_bytes().into(),
            (None, Some(text)) => match BASE64.decode(text) {
                Ok(bytes) => bytes.into(),
                Err(error) => {
                    return Err(ProblemKind::Invalid.because(format!("result_base64 is not base64: {error}")));
                }
            },
            (None, None) => [].into(),
        };
        if result.len() > NOTE_BYTES_MAX {
            return Err(ProblemKind::TooLarge.because(format!(
                "a result has at most {NOTE_BYTES_MAX} bytes and this one has {}; store it elsewhere and send where",
                result.len()
            )));
        }
        Ok(result)
    }

    /// What went wrong, as workers in Rust keep it with a job.
    fn note(&self, code: &str) -> Arc<[u8]> {
        let code = self.code.as_deref().unwrap_or(code);
        fairlane_worker::Problem::new(code, self.reason.as_deref().unwrap_or("")).to_bytes().into()
    }
}
