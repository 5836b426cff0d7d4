//! Reads answers, never more of them than asked for.

use std::time::{Duration, SystemTime};

use fairlane_core::limits::RETRY_AFTER_MS_MAX;
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// What is read of an answer that is not kept, in bytes: enough to use its connection again after most.
const ANSWER_BYTES_MAX: usize = 4 * 1024;
/// What is shown of it, in bytes.
const EXCERPT_BYTES: usize = 512;

/// The beginning of a body.
pub(crate) struct Beginning {
    /// At most as many bytes as were asked for.
    pub bytes: Vec<u8>,
    /// Whether that was all.
    pub whole: bool,
}

/// Reads at most so many bytes of an answer's body; the rest is not read, and its connection closed.
pub(crate) async fn beginning(
    response: &mut Response,
    bytes_max: usize,
) -> Result<Beginning, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = bytes_max - bytes.len();
        if chunk.len() > room {
            bytes.extend_from_slice(&chunk[..room]);
            return Ok(Beginning { bytes, whole: false });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Beginning { bytes, whole: true })
}

/// The status and what the body begins with, for a person. A body that breaks off says less, no more.
pub(crate) async fn described(mut response: Response) -> String {
    let status = response.status();
    match beginning(&mut response, ANSWER_BYTES_MAX).await {
        Ok(body) if !body.bytes.is_empty() => {
            let shown = &body.bytes[..body.bytes.len().min(EXCERPT_BYTES)];
            format!("it answered {status}: {}", excerpt(shown))
        }
        _ => format!("it answered {status}"),
    }
}

/// Reads past a body that nobody wants, so that the connection can be used again.
pub(crate) async fn passed_over(mut response: Response) {
    let _ = beginning(&mut response, ANSWER_BYTES_MAX).await;
}

/// Bytes as one line without control characters.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split(|letter: char| letter.is_control() || letter.is_whitespace());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What the downstream asked for, as seconds or as a date; no longer than what the queue honours.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = match httpdate::parse_http_date(text) {
        Ok(date) => date.duration_since(now).unwrap_or_default(),
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Duration::from_secs(text.parse().unwrap_or(u64::MAX))
        }
        Err(_) => return None,
    };
    Some(asked.min(Duration::from_millis(RETRY_AFTER_MS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_within_what_is_honoured() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let parsed = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, now).map(|asked| asked.as_secs())
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
    fn an_excerpt_is_one_line_that_cannot_move_a_cursor() {
        assert_eq!(excerpt(b"no\r\n\x1b[2Jsuch\t\tpage \xff"), "no [2Jsuch page \u{fffd}");
    }
}
