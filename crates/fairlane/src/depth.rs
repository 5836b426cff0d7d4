//! The nesting depth of JSON: many parsers reject JSON beyond a depth, together with the document
//! around it.

use fairlane_core::limits::JSON_DEPTH_MAX;

/// Whether this JSON is nested deeper than payloads and results may be. The input must be valid
/// JSON, which is not checked.
///
/// ```
/// use fairlane::is_too_deep;
///
/// assert!(!is_too_deep(br#"{"to": ["ada@example.com"]}"#));
/// assert!(is_too_deep(format!("{}{}", "[".repeat(100), "]".repeat(100)).as_bytes()));
/// ```
pub fn is_too_deep(json: &[u8]) -> bool {
    // With so few opening brackets the depth is within the limit; this decides nearly all cases.
    // A sum of bytes over a short chunk compiles to vector instructions.
    let opening = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(matches!(byte, b'[' | b'{'))).sum::<u8>();
    let opened: usize = json.chunks(u8::MAX.into()).map(|chunk| usize::from(opening(chunk))).sum();
    opened > JSON_DEPTH_MAX && depth(json) > JSON_DEPTH_MAX
}

fn depth(json: &[u8]) -> usize {
    let (mut deepest, mut depth, mut in_text, mut is_escaped) = (0, 0_usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        "{\"a\":[".repeat(depth / 2)
            + &"[".repeat(depth % 2)
            + &"]".repeat(depth % 2)
            + &"]}".repeat(depth / 2)
    }

    #[test]
    fn the_deepest_nesting_counts_and_brackets_in_strings_do_not() {
        assert!(!is_too_deep(nested(JSON_DEPTH_MAX).as_bytes()));
        assert!(is_too_deep(nested(JSON_DEPTH_MAX + 1).as_bytes()));
        let wide = format!("[{}1]", "[{}],".repeat(1000));
        let text = format!("[\"{}\\\"{}\\\\\", 1]", "[".repeat(1000), "{".repeat(1000));
        for json in [wide, text] {
            assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
            assert!(!is_too_deep(json.as_bytes()));
        }
    }
}
