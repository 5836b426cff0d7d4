//! Reads HTTP responses within bounds: the beginning of a body, and Retry-After.

use std::time::{Duration, SystemTime};

use fairlane_core::limits::RETRY_AFTER_MS_MAX;
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Most bytes that are read of a body that is not stored: enough to reuse the connection after most
/// responses.
const DRAIN_BYTES_MAX: usize = 4 * 1024;
/// Most bytes of a body in a message.
const EXCERPT_BYTES: usize = 512;

/// The beginning of a body.
pub(crate) struct BodyPrefix {
    /// At most as many bytes as were requested.
    pub bytes: Vec<u8>,
    /// Whether these bytes are the complete body.
    pub is_complete: bool,
}

/// Reads at most this many bytes of a body; the rest is not read, and the connection is closed.
pub(crate) async fn read_prefix(
    response: &mut Response,
    bytes_max: usize,
) -> Result<BodyPrefix, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = bytes_max - bytes.len();
        if chunk.len() > room {
            bytes.extend_from_slice(&chunk[..room]);
            return Ok(BodyPrefix { bytes, is_complete: false });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(BodyPrefix { bytes, is_complete: true })
}

/// The status and the beginning of the body as a message. Only the status, if the body is cut off.
pub(crate) async fn describe(mut response: Response) -> String {
    let status = response.status();
    match read_prefix(&mut response, DRAIN_BYTES_MAX).await {
        Ok(body) if !body.bytes.is_empty() => {
            let shown = &body.bytes[..body.bytes.len().min(EXCERPT_BYTES)];
            format!("it responded {status}: {}", excerpt(shown))
        }
        _ => format!("it responded {status}"),
    }
}

/// Reads and discards a short body, so that the connection can be reused.
pub(crate) async fn drain(mut response: Response) {
    let _ = read_prefix(&mut response, DRAIN_BYTES_MAX).await;
}

/// Bytes as one line of text without control characters.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split(|letter: char| letter.is_control() || letter.is_whitespace());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The delay in Retry-After, given as seconds or as a date; capped at the longest the queue
/// applies.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let delay = match httpdate::parse_http_date(text) {
        Ok(date) => date.duration_since(now).unwrap_or_default(),
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Duration::from_secs(text.parse().unwrap_or(u64::MAX))
        }
        Err(_) => return None,
    };
    Some(delay.min(Duration::from_millis(RETRY_AFTER_MS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_is_capped() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let parsed = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, now).map(|delay| delay.as_secs())
        };
        for (text, expected) in [
            ("0", Some(0)),
            (" 30 ", Some(30)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999999999999999999", Some(60)),
            ("-1", None),
            ("+5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parsed(text), expected, "{text:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn an_excerpt_is_one_line_without_control_characters() {
        assert_eq!(excerpt(b"no\r\n\x1b[2Jsuch\t\tpage \xff"), "no [2Jsuch page \u{fffd}");
    }
}
