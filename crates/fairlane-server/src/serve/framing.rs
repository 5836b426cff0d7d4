//! Parses where the requests of a connection begin and end, beside hyper, to find ambiguous ones.
//!
//! hyper silently drops Content-Length where Transfer-Encoding is present, as RFC 9112 (6.3)
//! allows. A proxy that uses the other header sees another end of the request than this server, so
//! that a part of a body becomes the next request here (request smuggling). So such a request is
//! refused, and detected here by the bytes of its head.
//!
//! Bytes that are not HTTP are left to hyper, which refuses them: the parser stops there.

/// Bytes of a line that are kept: enough for every header that frames a request.
const LINE_BYTES_MAX: usize = 256;
/// The line end after the data of a chunk.
const LINE_END_BYTES: u64 = 2;

/// The framing of the requests of one connection.
#[derive(Default)]
pub struct Framing {
    part: Part,
    line: Vec<u8>,
    /// Whether the line is longer than the part of it that is kept.
    is_cut: bool,
    /// The number of complete heads.
    heads: u64,
    length: Option<u64>,
    has_length: bool,
    has_coding: bool,
}

#[derive(Default, Clone, Copy)]
enum Part {
    #[default]
    RequestLine,
    Header,
    /// A body, with the number of bytes left.
    Body(u64),
    ChunkSize,
    /// The data of a chunk, with the number of bytes left.
    Chunk(u64),
    Trailer,
    /// The beginning of the next request is unknown.
    Lost,
}

impl Framing {
    /// Parses more bytes; returns the number of the request, counted from 1, whose head has both
    /// headers.
    pub fn read(&mut self, mut bytes: &[u8]) -> Option<u64> {
        while !bytes.is_empty() {
            match self.part {
                Part::Lost => return None,
                Part::Body(left) => {
                    let (rest, left) = skip(bytes, left);
                    bytes = rest;
                    self.part = if left == 0 { Part::RequestLine } else { Part::Body(left) };
                }
                Part::Chunk(left) => {
                    let (rest, left) = skip(bytes, left);
                    bytes = rest;
                    self.part = if left == 0 { Part::ChunkSize } else { Part::Chunk(left) };
                }
                Part::RequestLine | Part::Header | Part::ChunkSize | Part::Trailer => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (begin, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
                    bytes = rest;
                    self.keep(begin);
                    if end.is_some() {
                        self.part = self.after_line();
                        self.line.clear();
                        self.is_cut = false;
                        if self.is_ambiguous() {
                            self.part = Part::Lost;
                            return Some(self.heads);
                        }
                    }
                }
            }
        }
        None
    }

    /// Keeps the beginning of a line, without the leading zeros of a chunk size.
    fn keep(&mut self, mut bytes: &[u8]) {
        if matches!(self.part, Part::ChunkSize) {
            while let ([b'0', rest @ ..], [b'0']) = (bytes, &*self.line) {
                bytes = rest;
            }
            if let (true, [b'0', rest @ ..]) = (self.line.is_empty(), bytes) {
                self.line.push(b'0');
                return self.keep(rest);
            }
        }
        let room = LINE_BYTES_MAX - self.line.len();
        self.is_cut |= bytes.len() > room;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn is_ambiguous(&self) -> bool {
        self.has_length && self.has_coding && !matches!(self.part, Part::Header)
    }

    /// The part that follows the current line.
    fn after_line(&mut self) -> Part {
        let line = self.line.trim_ascii();
        match self.part {
            Part::RequestLine if line.is_empty() => Part::RequestLine,
            Part::RequestLine => {
                (self.length, self.has_length, self.has_coding) = (None, false, false);
                Part::Header
            }
            Part::Header if line.is_empty() => {
                self.heads += 1;
                match (self.has_coding, self.has_length, self.length) {
                    (true, _, _) => Part::ChunkSize,
                    (false, false, _) | (false, true, Some(0)) => Part::RequestLine,
                    (false, true, Some(length)) => Part::Body(length),
                    (false, true, None) => Part::Lost,
                }
            }
            Part::Header => {
                let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
                let (name, value) = line.split_at(colon);
                if name.eq_ignore_ascii_case(b"content-length") {
                    self.has_length = true;
                    self.length = number(value.strip_prefix(b":").unwrap_or_default(), 10);
                    // The length is beyond what is kept, so the end of the body is unknown: treat
                    // it as ambiguous.
                    self.has_coding |= self.is_cut;
                } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                    self.has_coding = true;
                }
                Part::Header
            }
            Part::ChunkSize => {
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
                match number(size, 16) {
                    Some(0) => Part::Trailer,
                    Some(size) => Part::Chunk(size.saturating_add(LINE_END_BYTES)),
                    None => Part::Lost,
                }
            }
            Part::Trailer if line.is_empty() => Part::RequestLine,
            other => other,
        }
    }
}

fn skip(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    (&bytes[skipped..], left - skipped as u64)
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?.trim(), radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    const LENGTH: &str =
        "POST / HTTP/1.1\r\nContent-Length: 38\r\n\r\ncontent-length: 1\ntransfer-encoding: a\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n13;x=y\r\ncontent-length: 1\r\n\r\n0\r\nx: y\r\n\r\n";
    const BOTH: &str =
        "POST / HTTP/1.1\r\ncontent-length: 5\r\nx: y\r\nTRANSFER-ENCODING: chunked\r\n\r\n0\r\n\r\n";

    /// The ambiguous requests in a text that arrives in chunks of this size.
    fn found(text: &str, chunk_bytes: usize) -> Vec<u64> {
        let mut framing = Framing::default();
        text.as_bytes().chunks(chunk_bytes).filter_map(|chunk| framing.read(chunk)).collect()
    }

    #[test]
    fn a_request_with_both_headers_is_found_at_any_position() {
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "content-length: 1 ".repeat(100));
        let before = [PLAIN, "\r\n", LENGTH, CHUNKED, PLAIN, &long, CHUNKED, LENGTH];
        for chunk_bytes in [1, 2, 7, 64, 100_000] {
            assert_eq!(found(&before.concat(), chunk_bytes), [0; 0]);
            assert_eq!(found(&format!("{}{BOTH}{PLAIN}", before.concat()), chunk_bytes), [8]);
            assert_eq!(found(BOTH, chunk_bytes), [1]);
        }
        let other_order = "POST / HTTP/1.1\ntransfer-encoding: chunked\ncontent-length: 5\n\n";
        assert_eq!(found(other_order, 1000), [1]);
    }

    #[test]
    fn padding_hides_no_ambiguous_request() {
        let padded_size =
            CHUNKED.replace("13;x=y", &format!("{}13;x={}", "0".repeat(1000), "y".repeat(1000)));
        for chunk_bytes in [1, 7, 100_000] {
            assert_eq!(found(&format!("{padded_size}{BOTH}"), chunk_bytes), [2]);
            let padded_length = format!("GET / HTTP/1.1\r\nContent-Length:{}0\r\n\r\n", " ".repeat(1000));
            assert_eq!(
                found(&format!("{padded_length}{BOTH}"), chunk_bytes),
                [1],
                "the padded request is refused"
            );
        }
    }

    #[test]
    fn bytes_that_are_not_http_are_left_to_hyper() {
        for lost in [
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        ] {
            assert_eq!(found(&format!("{lost}{BOTH}"), 3), [0; 0]);
        }
        for line in ["content-length", "transfer-encoding", "content-length: 5: 6", ""] {
            for end in ["", "\r\n", "\r\n\r\n"] {
                assert_eq!(found(&format!("GET / HTTP/1.1\r\n{line}{end}"), 3), [0; 0]);
            }
        }
        assert_eq!(found("\u{0}: \n:::\n\n\n:", 3), [0; 0]);
    }
}
