//! Ids out of an idempotency key, so that a repeated request finds the same jobs.
//!
//! Nothing is remembered: the ids of what a request adds are derived from the caller, the key, the group and the
//! position within the request. So repeating works as long as the jobs are kept, and from any server of the queue.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use fairlane_core::GroupId;
use fairlane_core::queue::{Inspect, Inspected, NewJob};
use fairlane_engine::{Engine, EngineError};
use sha2::{Digest, Sha256};

use crate::access::Caller;
use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};

/// Where the key stands.
pub const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Most characters of a key.
const KEY_CHARS_MAX: usize = 255;
/// Bytes of the hash that stand in an id: 128 bits do not collide by chance.
const HASH_BYTES: usize = 16;

/// The key of a request, if it came with one.
#[derive(Clone)]
pub struct Idempotency(pub Option<IdempotencyKey>);

/// A key that a caller gave to a request, to be able to repeat it.
#[derive(Clone)]
pub struct IdempotencyKey {
    /// The name of whoever asks: two of them may have chosen the same key.
    caller: Arc<str>,
    key: String,
}

impl IdempotencyKey {
    /// The id of a bulk action of this group that was given none.
    pub fn bulk_id(&self, group: &GroupId) -> String {
        self.prefix(group)
    }

    /// The id of the job at this position, counted from 1, that was given none.
    pub fn job_id(&self, group: &GroupId, position: u64) -> String {
        format!("{}-{position}", self.prefix(group))
    }

    fn prefix(&self, group: &GroupId) -> String {
        let mut hash = Sha256::new();
        for part in [&*self.caller, &self.key, group.escaped()] {
            // With its length before it, no part can be read as the end of another.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hex: String = hash.finalize()[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("idem-{hex}")
    }
}

impl FromRequestParts<Shared> for Idempotency {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        let mut named = parts.headers.get_all(HEADER).iter();
        let (first, second) = (named.next(), named.next());
        let Some(value) = first else { return Ok(Self(None)) };
        let is_visible = value.as_bytes().iter().all(u8::is_ascii_graphic);
        if second.is_some() || value.is_empty() || value.len() > KEY_CHARS_MAX || !is_visible {
            return Err(ProblemKind::Invalid.because(format!(
                "the header Idempotency-Key stands once and has 1 to {KEY_CHARS_MAX} visible ASCII characters, such as \
                 a UUID"
            )));
        }
        let key = value.to_str().map_err(|error| ProblemKind::Invalid.because(error.to_string()))?.to_owned();
        let caller = Caller::from_request_parts(parts, app).await?;
        Ok(Self(Some(IdempotencyKey { caller: caller.name, key })))
    }
}

/// Whether the job that is there under this id is the same one. One whose payload is not kept any more may be.
pub async fn is_same(engine: &dyn Engine, new: &NewJob) -> Result<bool, EngineError> {
    match engine.inspect(Inspect::Job(new.job.clone())).await? {
        Inspected::Job(None) => Ok(true),
        Inspected::Job(Some(view)) => {
            let is_dropped = view.payload.is_empty() && view.settled_at.is_some();
            Ok(view.type_id == new.type_id && (is_dropped || view.payload == new.payload))
        }
        _ => Err(EngineError::Broken { reason: "inspect was answered with something else".to_owned() }),
    }
}

/// The key was used for other jobs before.
pub fn reused(new: &NewJob) -> Problem {
    ProblemKind::KeyReused.because(format!(
        "the job {} of {} is there with another payload or type: this idempotency key was used for another request; \
         repeat a request as it was, and use a new key for a new one",
        new.job.id, new.job.group
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(caller: &str, key: &str) -> IdempotencyKey {
        IdempotencyKey { caller: caller.into(), key: key.to_owned() }
    }

    #[test]
    fn an_id_depends_on_the_caller_the_key_the_group_and_the_position() {
        let group = |name: &str| GroupId::new(name).unwrap();
        let id = key("c", "k").job_id(&group("g"), 1);
        assert_eq!(id, key("c", "k").job_id(&group("g"), 1));
        assert!(id.starts_with("idem-") && id.ends_with("-1") && id.len() == 39, "{id}");
        for other in [
            key("d", "k").job_id(&group("g"), 1),
            key("c", "l").job_id(&group("g"), 1),
            key("c", "k").job_id(&group("h"), 1),
            key("c", "k").job_id(&group("g"), 2),
            key("ck", "").job_id(&group("g"), 1),
        ] {
            assert_ne!(id, other);
        }
    }
}
