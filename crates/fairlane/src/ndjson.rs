//! Jobs as lines of JSON, read in constant memory.
//!
//! A line is an object with the optional keys `payload` (null by default, or `payload_base64` for a
//! payload that is not JSON), `id`, `type`, `level`, `cost`, `delay_ms` or `run_at`, `trace`. With
//! [`payload_lines`](NdjsonReader::payload_lines) a line is the payload itself. A payload is passed
//! on byte for byte. Empty lines are skipped and counted. Invariant: an error names its line, and
//! nothing of that line has been used.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane_core::Level;
use fairlane_core::limits::{JSON_DEPTH_MAX, PAYLOAD_BYTES_MAX};
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use strsim::osa_distance;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use crate::depth::is_too_deep;
use crate::error::Error;
use crate::job::Job;
use crate::time::parse_time;

/// Longest line in bytes: a payload in base64, and room for the other keys.
const LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX.div_ceil(3) * 4 + 16 * 1024;
/// The keys of an object.
const KEYS: [&str; 9] =
    ["id", "type", "level", "cost", "delay_ms", "run_at", "trace", "payload", "payload_base64"];
const TRACE_FORM: &str =
    "a W3C traceparent, such as \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"";
const UTF_16: &str =
    "the source looks like UTF-16; write it as UTF-8 first, as iconv -f UTF-16 -t UTF-8 does";

/// Reads jobs of one group, a line at a time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # let fairlane = fairlane::Fairlane::open("memory:").await?;
/// let lines = br#"{"id": "order-1", "payload": {"to": "ada@example.com"}}
/// {"id": "order-2", "type": "text", "level": "high", "payload": {"to": "+4312345"}}"#;
///
/// let bulk = fairlane.bulk("customer-7", "newsletter").open().await?;
/// let mut ingest = bulk.ingest();
/// let mut reader = fairlane::NdjsonReader::new("customer-7", &lines[..]).job_type("mail");
/// while let Some(job) = reader.next().await? {
///     ingest.push(job).await?;
/// }
/// assert_eq!(ingest.finish().await?.created, 2);
/// # Ok(())
/// # }
/// ```
pub struct NdjsonReader<R> {
    source: R,
    group: String,
    job_type: Option<String>,
    level: Level,
    payload_lines: bool,
    line: u64,
    bytes: u64,
    empty_lines: u64,
    buffer: Vec<u8>,
    /// Whether the line in the buffer was peeked at and not yet taken.
    is_peeked: bool,
    /// Whether the rest of a line that was too long is still to be skipped.
    is_skipping: bool,
}

/// The first line of a source, from [`NdjsonReader::first`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstLine {
    /// A hash of the line; the same in every version of this library.
    pub fingerprint: String,
    /// Whether its job has an id, and so is not identified by its position.
    pub has_id: bool,
}

impl<R: AsyncBufRead + Unpin> NdjsonReader<R> {
    /// Makes a reader of jobs for this group.
    pub fn new(group: impl Into<String>, source: R) -> Self {
        Self {
            source,
            group: group.into(),
            job_type: None,
            level: Level::default(),
            payload_lines: false,
            line: 0,
            bytes: 0,
            empty_lines: 0,
            buffer: Vec::new(),
            is_peeked: false,
            is_skipping: false,
        }
    }

    /// Sets the type of jobs whose line has none.
    pub fn job_type(self, job_type: impl Into<String>) -> Self {
        Self { job_type: Some(job_type.into()), ..self }
    }

    /// Sets the level of jobs whose line has none.
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Takes each line as a payload, byte for byte, without its line end. Lines without any byte
    /// are skipped. The type is the default one.
    pub fn payload_lines(self) -> Self {
        Self { payload_lines: true, ..self }
    }

    /// The number of the line read last, counted from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The number of bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of empty lines skipped.
    pub fn empty_lines(&self) -> u64 {
        self.empty_lines
    }

    /// Peeks at the first line; `None` if the source has no job. Calling this before opening a bulk
    /// action leaves nothing behind if the first line is invalid.
    pub async fn first(&mut self) -> Result<Option<FirstLine>, Error> {
        if !self.advance().await? {
            return Ok(None);
        }
        self.is_peeked = true;
        let has_id = self.checked_job()?.given_id().is_some();
        Ok(Some(FirstLine { fingerprint: format!("{:016x}", fnv_64(self.content())), has_id }))
    }

    /// Reads the jobs that are left and checks that each can be enqueued. The error names the first
    /// line that cannot.
    pub async fn check(&mut self) -> Result<(), Error> {
        while self.advance().await? {
            self.checked_job()?;
        }
        Ok(())
    }

    /// The next job; `None` at the end. After an invalid line ([`Error::Line`]) it continues with
    /// the next line.
    pub async fn next(&mut self) -> Result<Option<Job>, Error> {
        if self.advance().await? { self.job().map(Some) } else { Ok(None) }
    }

    /// Skips this many jobs without parsing them, and returns how many were skipped; fewer at the
    /// end of the source.
    pub async fn skip(&mut self, jobs: u64) -> Result<u64, Error> {
        let mut skipped = 0;
        while skipped < jobs && self.advance().await? {
            skipped += 1;
        }
        Ok(skipped)
    }

    /// Advances to the next line that is not empty; false at the end of the source.
    async fn advance(&mut self) -> Result<bool, Error> {
        if std::mem::take(&mut self.is_peeked) {
            return Ok(true);
        }
        while self.read_line().await? {
            if !self.content().is_empty() {
                return Ok(true);
            }
            self.empty_lines += 1;
        }
        Ok(false)
    }

    /// The job on the line in the buffer.
    fn job(&self) -> Result<Job, Error> {
        let line = self.content();
        let job = if self.payload_lines { self.payload(line) } else { self.object(line) };
        job.map_err(|reason| Error::Line { line: self.line, reason })
    }

    /// The job on the line in the buffer, if it can be enqueued.
    fn checked_job(&self) -> Result<Job, Error> {
        let job = self.job()?;
        job.clone().into_alone().map_err(|error| match error {
            Error::Job { reason, .. } => {
                Error::Line { line: self.line, reason: format!("it cannot be enqueued: {reason}") }
            }
            other => other,
        })?;
        Ok(job)
    }

    /// The line in the buffer without its end; an object is trimmed. A byte order mark at the
    /// beginning of a file belongs to no line.
    fn content(&self) -> &[u8] {
        let marked = !self.payload_lines || self.line == 1;
        let unmarked = self.buffer.strip_prefix("\u{feff}".as_bytes()).filter(|_| marked);
        let line = unmarked.unwrap_or(&self.buffer);
        if !self.payload_lines {
            return line.trim_ascii();
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Reads a line with its end into the buffer; false at the end of the source.
    async fn read_line(&mut self) -> Result<bool, Error> {
        self.buffer.clear();
        loop {
            let available = self.source.fill_buf().await?;
            let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(available.len());
            if self.is_skipping {
                self.source.consume(taken);
                self.bytes += taken as u64;
                self.is_skipping = end.is_none() && taken > 0;
                continue;
            }
            let fits = self.buffer.len() + taken <= LINE_BYTES_MAX;
            if fits {
                self.buffer.extend_from_slice(&available[..taken]);
            }
            self.source.consume(taken);
            self.bytes += taken as u64;
            if !fits {
                let long =
                    format!("it is longer than {LINE_BYTES_MAX} bytes; is each job on a line of its own?");
                let not_text = not_text(&self.buffer).filter(|_| self.line == 0 && !self.payload_lines);
                let reason = not_text.map_or(long, str::to_owned);
                (self.line, self.is_skipping) = (self.line + 1, end.is_none());
                return Err(Error::Line { line: self.line, reason });
            }
            if end.is_some() || taken == 0 {
                self.line += u64::from(!self.buffer.is_empty());
                return Ok(!self.buffer.is_empty());
            }
        }
    }

    fn payload(&self, line: &[u8]) -> Result<Job, String> {
        Ok(Job::bytes(&self.group, self.typed(None)?, line).level(self.level))
    }

    fn object(&self, line: &[u8]) -> Result<Job, String> {
        if let Some(reason) = not_text(line).filter(|_| self.line == 1) {
            return Err(reason.to_owned());
        }
        let pairs: Pairs = serde_json::from_slice(line).map_err(|error| not_an_object(&error))?;
        for (index, (key, _)) in pairs.0.iter().enumerate() {
            if !KEYS.contains(&key.as_str()) {
                return Err(unknown_key(key));
            }
            if pairs.0[..index].iter().any(|(other, _)| other == key) {
                return Err(format!("{key:?} appears twice; remove one of them"));
            }
        }
        let payload = payload(&pairs)?;
        let job_type = self.typed(pairs.value("type", "a string")?)?;
        let mut job = Job::bytes(&self.group, job_type, &*payload).level(self.level);
        if let Some(id) = pairs.value::<String>("id", "a string, such as \"order-42\"")? {
            job = job.id(id);
        }
        if let Some(level) = pairs.value::<String>("level", "\"high\", \"normal\" or \"low\"")? {
            job = job.level(level.parse().map_err(|error| format!("{error}"))?);
        }
        if let Some(cost) = pairs.value("cost", "a whole number from 1 to 10000")? {
            job = job.cost(cost);
        }
        if let Some(trace) = pairs.value::<String>("trace", TRACE_FORM)? {
            job = job.trace(trace);
        }
        match (pairs.value("delay_ms", "a whole number of milliseconds")?, run_at(&pairs)?) {
            (Some(_), Some(_)) => Err("\"delay_ms\" and \"run_at\" are mutually exclusive".to_owned()),
            (Some(delay_ms), None) => Ok(job.delay(Duration::from_millis(delay_ms))),
            (None, Some(at)) => Ok(job.run_at(at)),
            (None, None) => Ok(job),
        }
    }

    fn typed(&self, job_type: Option<String>) -> Result<String, String> {
        let job_type = job_type.or_else(|| self.job_type.clone());
        job_type.ok_or_else(|| "\"type\" is missing and there is no default type".to_owned())
    }
}

/// The encoding or compression of a source that is not text, by its first bytes; JSON has no zero
/// byte.
fn not_text(line: &[u8]) -> Option<&'static str> {
    match line {
        [0x1f, 0x8b, ..] => Some("the source is compressed with gzip; unpack it first, as zcat does"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Some("the source is compressed with zstd; unpack it first, as zstdcat does")
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(UTF_16),
        _ if line.contains(&0) => Some(UTF_16),
        _ => None,
    }
}

/// FNV-1a with 64 bits: a stable function, unlike the standard library's hasher.
fn fnv_64(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

fn payload<'a>(pairs: &'a Pairs<'_>) -> Result<Cow<'a, [u8]>, String> {
    match (pairs.raw("payload"), pairs.value::<String>("payload_base64", "bytes in base64")?) {
        (Some(json), None) if is_too_deep(json.get().as_bytes()) => Err(format!(
            "\"payload\" is nested deeper than {JSON_DEPTH_MAX} levels; send it flatter, or as \"payload_base64\""
        )),
        (Some(json), None) => Ok(json.get().as_bytes().into()),
        (None, Some(text)) => match BASE64.decode(text) {
            Ok(bytes) => Ok(bytes.into()),
            Err(_) => Err("\"payload_base64\" is not valid base64".to_owned()),
        },
        (None, None) => Ok(b"null"[..].into()),
        (Some(_), Some(_)) => Err("\"payload\" and \"payload_base64\" are mutually exclusive".to_owned()),
    }
}

fn run_at(pairs: &Pairs<'_>) -> Result<Option<SystemTime>, String> {
    let Some(raw) = pairs.raw("run_at") else { return Ok(None) };
    if let Ok(since_1970_ms) = serde_json::from_str::<u64>(raw.get()) {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since_1970_ms));
        return at.map(Some).ok_or_else(|| "\"run_at\" is too far ahead".to_owned());
    }
    let form = "milliseconds since 1970, or a time such as \"2026-01-31T08:30:00Z\"";
    let text = pairs.value::<String>("run_at", form)?;
    text.map(|text| parse_time(&text).map_err(|error| error.to_string())).transpose()
}

/// The members of an object, with unparsed values.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl Pairs<'_> {
    /// A value that is present and not null.
    fn raw(&self, key: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
        found.filter(|value| key == "payload" || value.get() != "null")
    }

    fn value<T: DeserializeOwned>(&self, key: &str, form: &str) -> Result<Option<T>, String> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|_| format!("{key:?} must be {form}"))
    }
}

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object such as {\"id\": \"order-42\", \"payload\": {}}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            // With more keys than are known, one must be unknown; the caller names the first.
            if pairs.len() > KEYS.len() {
                return Err(de::Error::custom("too many keys"));
            }
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

/// The parser's message with its column only: its input is one line, so its line number is always
/// 1.
fn not_an_object(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    format!("it is not a job: {text} (column {})", error.column())
}

fn unknown_key(key: &str) -> String {
    let start: String = key.chars().take(64).collect();
    let steps = |known: &str| osa_distance(&start, known);
    let is_beginning = |known: &str| !start.is_empty() && known.starts_with(&start);
    let near = KEYS.iter().filter(|known| is_beginning(known) || steps(known) * 3 <= known.len());
    match near.min_by_key(|known| steps(known)) {
        Some(known) => format!("{key:?} is not known; is {known:?} meant?"),
        None => format!(
            "{key:?} is not known; known are {}; put your own data into \"payload\", or take each line as a payload \
             (payload_lines)",
            KEYS.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlane_core::Trace;
    use fairlane_core::queue::NewJob;

    const TRACED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn reader(text: &[u8]) -> NdjsonReader<&[u8]> {
        NdjsonReader::new("customer-7", text).job_type("mail")
    }

    async fn read(text: &str) -> Result<Vec<NewJob>, String> {
        let (mut reader, mut jobs) = (reader(text.as_bytes()), Vec::new());
        while let Some(job) = reader.next().await.map_err(|error| error.to_string())? {
            jobs.push(job.into_alone().unwrap());
        }
        Ok(jobs)
    }

    #[tokio::test]
    async fn a_line_is_a_job_and_its_payload_is_passed_on_byte_for_byte() {
        let payload = r#"{"b" : 1.000, "a":"\u00e9",  "n":12345678901234567890123}"#;
        let text = format!(
            "\u{feff}{{\"payload\": {payload}}}\r\n\n  \n{{\"id\":\"x\",\"type\":\"text\",\"level\":\"low\",\
             \"cost\":7,\"delay_ms\":250,\"trace\":\"{TRACED}\",\"payload\":null}}"
        );
        let jobs = read(&text).await.unwrap();
        assert_eq!(jobs.len(), 2);
        assert_eq!((&*jobs[0].payload, jobs[0].type_id.to_string()), (payload.as_bytes(), "mail".into()));
        let second = &jobs[1];
        assert_eq!((second.job.id.to_string(), second.type_id.to_string()), ("x".into(), "text".into()));
        assert_eq!((second.level, second.cost.get(), second.delay_ms), (Level::Low, 7, 250));
        assert_eq!(&*second.payload, b"null");
        assert_eq!((&jobs[0].trace, &second.trace), (&None, &Some(Trace::new(TRACED).unwrap())));
    }

    #[tokio::test]
    async fn a_line_without_a_payload_has_the_payload_null() {
        let jobs = read("{\"id\":\"a\"}\n{}\n{\"payload_base64\":null}").await.unwrap();
        let payloads: Vec<&[u8]> = jobs.iter().map(|job| &*job.payload).collect();
        assert_eq!(payloads, [b"null"; 3]);
    }

    #[tokio::test]
    async fn a_payload_that_is_not_json_is_given_in_base64() {
        let largest = BASE64.encode(vec![0xff; PAYLOAD_BYTES_MAX]);
        let text = format!(
            "{{\"payload_base64\":\"//4A\"}}\n{{\"payload\":1,\"payload_base64\":null}}\n\
             {{\"payload_base64\":\"\"}}\n{{\"payload_base64\":\"{largest}\"}}"
        );
        let jobs = read(&text).await.unwrap();
        let lengths: Vec<usize> = jobs.iter().map(|job| job.payload.len()).collect();
        assert_eq!((&*jobs[0].payload, lengths), (&b"\xff\xfe\0"[..], vec![3, 1, 0, PAYLOAD_BYTES_MAX]));
    }

    #[tokio::test]
    async fn an_invalid_line_is_reported_with_its_number_and_fault() {
        for (line, words) in [
            ("{\"payload\":1", "it is not a job: EOF while parsing an object (column 12)"),
            ("[1]", "expected an object such as"),
            ("{\"payload\":1} x", "trailing characters"),
            ("{\"payload_base64\":\"?\"}", "\"payload_base64\" is not valid base64"),
            ("{\"payload_base64\":7}", "\"payload_base64\" must be bytes in base64"),
            ("{\"payload\":1,\"payload_base64\":\"AA==\"}", "mutually exclusive"),
            ("{\"paylaod\":1}", "\"paylaod\" is not known; is \"payload\" meant?"),
            ("{\"delay\":1,\"payload\":1}", "is \"delay_ms\" meant?"),
            ("{\"tpye\":1,\"payload\":1}", "is \"type\" meant?"),
            ("{\"customer\":1,\"payload\":1}", "known are id, type, level"),
            ("{\"nope\":1,\"payload\":1}", "known are id, type, level"),
            ("{\"\":1,\"payload\":1}", "take each line as a payload (payload_lines)"),
            ("{\"id\":42,\"payload\":1}", "\"id\" must be a string, such as"),
            ("{\"level\":\"urgent\",\"payload\":1}", "the levels are high, normal and low"),
            ("{\"cost\":-1,\"payload\":1}", "\"cost\" must be a whole number from 1 to 10000"),
            ("{\"run_at\":\"noon\",\"payload\":1}", "2026-01-31T08:30:00Z"),
            ("{\"trace\":7,\"payload\":1}", "\"trace\" must be a W3C traceparent, such as \"00-"),
            ("{\"run_at\":1,\"delay_ms\":1,\"payload\":1}", "mutually exclusive"),
            ("{\"id\":\"a\",\"id\":\"b\",\"payload\":1}", "\"id\" appears twice"),
            (&format!("{{\"payload\":{}1{}}}", "[".repeat(97), "]".repeat(97)), "deeper than 96 levels"),
        ] {
            let message = read(&format!("{{\"payload\":0}}\n\n{line}\n")).await.unwrap_err();
            assert!(message.starts_with("line 3: ") && message.contains(words), "{line}: {message}");
        }
    }

    #[tokio::test]
    async fn the_type_of_a_job_is_that_of_its_line_or_the_default() {
        let mut without = NdjsonReader::new("customer-7", &b"{\"payload\":1}"[..]);
        let message = without.next().await.unwrap_err().to_string();
        assert!(message.contains("there is no default type"), "{message}");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_rejected_without_being_buffered() {
        let mut text = b"{\"payload\":1}\n".to_vec();
        text.extend(vec![b'x'; LINE_BYTES_MAX + 1]);
        let mut reader = reader(&text);
        assert!(reader.next().await.unwrap().is_some());
        let message = reader.next().await.unwrap_err().to_string();
        assert!(message.starts_with("line 2: it is longer than"), "{message}");
        assert!(reader.buffer.capacity() <= 2 * LINE_BYTES_MAX);
        assert!(reader.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn after_an_invalid_line_the_reader_continues_with_the_next() {
        let mut text = b"{\"payload\":1\n".to_vec();
        text.extend(vec![b'x'; 3 * LINE_BYTES_MAX]);
        text.extend(b"\n{\"payload\":3}");
        let mut reader =
            NdjsonReader::new("customer-7", tokio::io::BufReader::new(&text[..])).job_type("mail");
        for line in [1, 2] {
            let message = reader.next().await.unwrap_err().to_string();
            assert!(message.starts_with(&format!("line {line}: ")), "{message}");
        }
        assert_eq!(&*reader.next().await.unwrap().unwrap().into_alone().unwrap().payload, b"3");
        assert_eq!((reader.line(), reader.bytes()), (3, text.len() as u64));
    }

    #[tokio::test]
    async fn payload_lines_are_payloads_whatever_their_content() {
        let mut reader = reader(b"\xef\xbb\xbf  plain words\t\r\n\n\r\n\xff\xfe\n \n{\0").payload_lines();
        let mut payloads = Vec::new();
        while let Some(job) = reader.next().await.unwrap() {
            payloads.push(job.into_alone().unwrap().payload.to_vec());
        }
        assert_eq!(payloads, [&b"  plain words\t"[..], b"\xff\xfe", b" ", b"{\0"]);
        assert_eq!((reader.line(), reader.bytes(), reader.empty_lines()), (6, 29, 2));
    }

    #[tokio::test]
    async fn a_source_that_is_compressed_or_utf_16_is_recognised() {
        for (text, words) in [
            (&b"\x1f\x8b\x08\x00\n"[..], "compressed with gzip"),
            (b"\x28\xb5\x2f\xfd\x00", "compressed with zstd"),
            (b"\xff\xfe{\0\"\0", "UTF-16"),
            (b"\0{\0\"", "UTF-16"),
        ] {
            let message = reader(text).next().await.unwrap_err().to_string();
            assert!(message.starts_with("line 1: ") && message.contains(words), "{message}");
        }
        let mut long = b"\x1f\x8b".to_vec();
        long.extend(vec![b'x'; LINE_BYTES_MAX]);
        let mut chunks =
            NdjsonReader::new("customer-7", tokio::io::BufReader::new(&long[..])).job_type("mail");
        let message = chunks.next().await.unwrap_err().to_string();
        assert!(message.contains("compressed with gzip"), "{message}");
    }

    #[tokio::test]
    async fn peeking_at_the_first_line_does_not_take_it() {
        let mut numbers = reader(b"\n{\"payload\":1}\n{\"payload\":2}\n");
        let first = numbers.first().await.unwrap().unwrap();
        assert_eq!((first.fingerprint.as_str(), first.has_id), ("98f0959c6325456c", false));
        assert_eq!(numbers.first().await.unwrap(), Some(first.clone()));
        assert_eq!(&*numbers.next().await.unwrap().unwrap().into_alone().unwrap().payload, b"1");
        assert_eq!((numbers.skip(5).await.unwrap(), numbers.first().await.unwrap()), (1, None));
        let mut named = reader(b"{\"id\":\"a\",\"payload\":1}\n");
        let other = named.first().await.unwrap().unwrap();
        assert!(other.has_id && other.fingerprint != first.fingerprint);
        assert_eq!(named.skip(1).await.unwrap(), 1);
        let message = reader(b"{\"payload\":1,\"cost\":0}").first().await.unwrap_err().to_string();
        assert!(message.starts_with("line 1: it cannot be enqueued: a cost must be"), "{message}");
        let message = reader(b"{\"payload\":1,\"trace\":\"00\"}").first().await.unwrap_err().to_string();
        assert!(
            message.starts_with("line 1: it cannot be enqueued: a trace is a W3C traceparent"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn a_check_names_the_first_line_that_cannot_be_enqueued() {
        reader(b"{\"payload\":1}\n\n{}\n").check().await.unwrap();
        let message = reader(b"{}\n{\"cost\":0}\nnonsense\n").check().await.unwrap_err().to_string();
        assert!(message.starts_with("line 2: it cannot be enqueued: a cost must be"), "{message}");
        let mut skipping = reader(b"nonsense\n{}\n");
        skipping.skip(1).await.unwrap();
        skipping.check().await.unwrap();
    }

    #[tokio::test]
    async fn skipped_jobs_are_not_parsed() {
        let mut reader = reader(b"not json\n\nnor this\n{\"payload\":3}\n");
        assert_eq!(reader.skip(2).await.unwrap(), 2);
        assert!(reader.next().await.unwrap().is_some());
        assert_eq!(reader.skip(5).await.unwrap(), 0);
    }
}
