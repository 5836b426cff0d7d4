//! Converts payloads and results between the queue, which stores bytes, and the database, which
//! stores `jsonb`.
//!
//! Bytes that `jsonb` cannot hold are stored in base64. `jsonb` preserves JSON values, but not
//! white space or the order of keys.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane_core::queue::NewJob;
use serde_json::{Map, Value, json};

/// The key of a result that is not JSON.
const RESULT_BASE64: &str = "result_base64";

/// The bytes as JSON, if `jsonb` can store it.
fn as_json(bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    if text.contains("\\u0000") {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// A job in the form of a row of the outbox. A delay becomes a time, so that it counts from now.
pub(crate) fn job_to_json(new: &NewJob) -> Value {
    let mut job = Map::new();
    let mut set = |key: &str, value: Value| job.insert(key.to_owned(), value);
    set("group", new.job.group.to_string().into());
    set("type", new.type_id.to_string().into());
    set("id", new.job.id.to_string().into());
    if new.level != Default::default() {
        set("level", new.level.as_str().into());
    }
    if new.cost != Default::default() {
        set("cost", new.cost.get().into());
    }
    if new.delay_ms > 0 {
        set("run_at", (now_ms() + new.delay_ms).into());
    }
    if let Some(trace) = &new.trace {
        set("trace", trace.as_str().into());
    }
    match as_json(&new.payload) {
        Some(payload) => set("payload", payload),
        None => set("payload_base64", BASE64.encode(&new.payload).into()),
    };
    Value::Object(job)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A result in the form that the mirror stores; `None` if there is none.
pub(crate) fn result_to_json(result: &[u8]) -> Option<String> {
    match as_json(result) {
        _ if result.is_empty() => None,
        Some(value) => Some(value.to_string()),
        None => Some(json!({ RESULT_BASE64: BASE64.encode(result) }).to_string()),
    }
}

/// A result of the mirror in the form that the queue stores.
pub(crate) fn result_from_json(result: Option<&str>) -> Vec<u8> {
    let Some(text) = result else { return Vec::new() };
    let bytes = match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(object) if object.len() == 1 => {
            object.get(RESULT_BASE64).and_then(Value::as_str).and_then(|text| BASE64.decode(text).ok())
        }
        _ => None,
    };
    bytes.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// An error in the form that the mirror stores.
pub(crate) fn error_to_json(code: &str, message: &str) -> Value {
    json!({ "code": without_nul(code), "message": without_nul(message) })
}

/// The text without zero characters, which PostgreSQL does not accept.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_any_bytes_comes_back() {
        for bytes in [&b"{\"a\":1}"[..], b"plain \0 text", b"\"\\u0000\"", b"\xff\xfe", b"", b"1e999"] {
            let stored = result_to_json(bytes);
            assert_eq!(result_from_json(stored.as_deref()), bytes, "{stored:?}");
        }
    }
}
