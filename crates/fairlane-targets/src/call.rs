//! The data of an attempt that a target sends on.
//!
//! Invariant: two jobs never have the same idempotency key, whatever their names contain.

use std::ops::Range;

use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use fairlane_worker::Context;

/// One attempt, as it is passed to a target.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub group: GroupId,
    pub job: JobId,
    pub type_id: TypeId,
    pub bulk: Option<BulkId>,
    pub attempt: u32,
    pub fence: u64,
    /// The `traceparent` of this attempt.
    pub trace: Option<String>,
    pub payload: Vec<u8>,
}

impl Call {
    pub fn new(job: &Context) -> Self {
        Self {
            group: job.group().clone(),
            job: job.id().clone(),
            type_id: job.type_id().clone(),
            bulk: job.bulk().cloned(),
            attempt: job.attempt(),
            fence: job.fence().0,
            trace: job.trace().map(child),
            payload: job.payload().to_vec(),
        }
    }

    /// The idempotency key of the job, the same in every attempt.
    pub fn idempotency_key(&self) -> String {
        idempotency_key(&self.group, &self.job)
    }
}

/// The idempotency key of a job.
pub(crate) fn idempotency_key(group: &GroupId, job: &JobId) -> String {
    format!("{}/{}", group.in_header(), job.in_header())
}

/// A `traceparent` for one attempt: the same trace, with a new span id.
pub(crate) fn child(trace: &str) -> String {
    let (start, flags) = (&trace[..SPAN.start], &trace[SPAN.end..]);
    format!("{start}{:016x}{flags}", fastrand::u64(1..))
}

/// The position of the span id in a `traceparent`.
const SPAN: Range<usize> = 36..52;

/// A name as a header value: percent-encoded, so that `/` can join two names and no server has to
/// guess an encoding.
pub(crate) trait InHeader {
    fn in_header(&self) -> String;
}

macro_rules! in_header {
    ($($name:ty),*) => {
        $(impl InHeader for $name {
            fn in_header(&self) -> String {
                // The escaped form already encodes `%` and `:`, and in the same way.
                self.escaped().bytes().map(encoded).collect()
            }
        })*
    };
}

in_header!(BulkId, GroupId, JobId, TypeId);

fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte) {
        return char::from(byte).to_string();
    }
    format!("%{byte:02X}")
}

#[cfg(test)]
pub(crate) fn example(payload: &[u8]) -> Call {
    Call {
        group: GroupId::new("customer/Ä:1").unwrap(),
        job: JobId::new("invoice 4711").unwrap(),
        type_id: TypeId::new("mail").unwrap(),
        bulk: Some(BulkId::new("may").unwrap()),
        attempt: 2,
        fence: 77,
        trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        payload: payload.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::Trace;

    use super::*;

    #[test]
    fn a_name_in_a_header_is_percent_encoded_once() {
        for (raw, expected) in [
            ("customer-A", "customer-A"),
            ("a:b", "a%3Ab"),
            ("50%", "50%25"),
            ("a/b c", "a%2Fb%20c"),
            ("ü\"", "%C3%BC%22"),
        ] {
            assert_eq!(GroupId::new(raw).unwrap().in_header(), expected);
        }
    }

    #[test]
    fn a_child_has_the_same_trace_and_a_new_span() {
        let parent = example(b"").trace.unwrap();
        let (one, other) = (child(&parent), child(&parent));
        assert!(one != other && one != parent);
        for text in [one, other] {
            assert_eq!((&text[..36], &text[52..]), (&parent[..36], &parent[52..]));
            assert_eq!(Trace::new(&text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn names_with_slashes_do_not_share_an_idempotency_key() {
        let key = |group: &str, job: &str| {
            let (group, job) = (GroupId::new(group).unwrap(), JobId::new(job).unwrap());
            Call { group, job, ..example(b"") }.idempotency_key()
        };
        assert_ne!(key("a/b", "c"), key("a", "b/c"));
        assert_eq!(key("a", "c"), "a/c");
    }
}
