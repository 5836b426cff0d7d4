//! The fuzz targets with their invariants.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fairlane::{Job, NdjsonReader};
use fairlane_conformance::differential::samples;
use fairlane_conformance::subject::START;
use fairlane_core::queue;
use fairlane_core::{Command, HashSeed, Machines, Reply};
use fairlane_engine::redis::decode_reply;
use fairlane_engine::wire::{self, Frames, ScanStep, WireError};
use fairlane_server::Framing;
use tokio::io::BufReader;

use super::{Target, recorded, rows};

/// Steps of the generator from which commands and replies are taken.
const STEPS: usize = 3000;
/// Commands that a machine has applied before a fuzzed one.
const COMMANDS_BEFORE: usize = 60;

/// Every target.
pub const TARGETS: [Target; 5] = [
    Target { name: "wire", seeds: wire_seeds, run: read_wire },
    Target { name: "ndjson", seeds: ndjson_seeds, run: read_ndjson },
    Target { name: "redis", seeds: redis_seeds, run: read_redis },
    Target { name: "rows", seeds: rows::seeds, run: rows::run },
    Target { name: "http", seeds: http_seeds, run: read_http },
];

static SAMPLES: LazyLock<Vec<(queue::Command, queue::Reply)>> = LazyLock::new(|| samples(5, STEPS));

fn wire_seeds() -> Vec<Vec<u8>> {
    let encoded = SAMPLES.iter().flat_map(|(command, reply)| {
        let reply: Result<Reply, WireError> = Ok(reply.clone().into());
        [wire::encode(&Command::from(command.clone())), wire::encode(&reply)]
    });
    encoded.collect()
}

/// Checks that a decoded value is encoded as the same value, and that a valid command can be
/// applied.
fn read_wire(bytes: &[u8]) {
    if let Ok(response) = wire::decode::<Result<Reply, WireError>>(bytes) {
        assert_eq!(wire::decode::<Result<Reply, WireError>>(&wire::encode(&response)), Ok(response));
    }
    let _ = wire::decode::<wire::Wait>(bytes);
    let _ = wire::decode::<wire::ServerInfo>(bytes);
    let _ = wire::decode::<ScanStep>(bytes);
    let mut frames = Frames::default();
    frames.push(bytes);
    while let Ok(Some(_)) = frames.next_step::<ScanStep>() {}
    let Ok(command) = wire::decode::<Command>(bytes) else { return };
    assert_eq!(wire::decode::<Command>(&wire::encode(&command)), Ok(command.clone()));
    let _ = (command.access(), command.weight());
    if command.validate().is_err() {
        return;
    }
    let mut machines = Machines::new(HashSeed::FIXED, START);
    for (before, _) in SAMPLES.iter().take(COMMANDS_BEFORE) {
        machines.apply(before.clone().into(), START);
    }
    let text = format!("{command:?}");
    machines.apply(command, START);
    if let Err(fault) = machines.check() {
        panic!("{fault} after {text}");
    }
}

fn ndjson_seeds() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"id": "order-1", "payload": {"to": "ada@example.com"}}"#,
        r#"{"type": "text", "level": "high", "cost": 3, "delay_ms": 500, "payload": [1, 2.5e-3, null]}"#,
        r#"{"run_at": "2026-11-17T12:00:00Z", "payload": "\ud83d\ude00 \u00e4"}"#,
        r#"{"trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "payload_base64": "aGk="}"#,
        "",
        "[]",
        r#"{"payload": 1, "payload": 2, "more": {}}"#,
    ];
    let mut seeds: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
    seeds.push(lines.join("\n").into_bytes());
    seeds.push(["\u{feff}", &lines.join("\r\n"), "\r\n"].concat().into_bytes());
    seeds.push("{\"payload\": 1}".encode_utf16().flat_map(u16::to_le_bytes).collect());
    seeds
}

/// Checks that the lines are the same however the source is divided into chunks.
fn read_ndjson(bytes: &[u8]) {
    let whole = lines_of(bytes, bytes.len().max(1), false);
    for piece in [1, 7] {
        assert_eq!(lines_of(bytes, piece, false), whole, "in pieces of {piece}");
    }
    lines_of(bytes, bytes.len().max(1), true);
}

fn lines_of(bytes: &[u8], piece: usize, payload_lines: bool) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(async {
        let source = BufReader::with_capacity(piece, bytes);
        let mut reader = NdjsonReader::new("customer-7", source).job_type("mail");
        if payload_lines {
            reader = reader.payload_lines();
        }
        let mut lines = Vec::new();
        // Each line gives a job or an error.
        for _ in 0..=bytes.len() {
            match reader.next().await {
                Ok(None) => return lines,
                Ok(Some(job)) => lines.push(format!("{}: {}", reader.line(), without_random_id(&job))),
                Err(error) => lines.push(format!("{}: {error}", reader.line())),
            }
        }
        panic!("there are more lines than bytes: {lines:?}");
    })
}

/// The job, without the id that it gets if the line has none.
fn without_random_id(job: &Job) -> String {
    let text = format!("{job:?}");
    let Some((before, random)) = text.split_once("unnamed: ") else { return text };
    [before, random.split_once(',').map_or("", |(_, after)| after)].concat()
}

/// A command of each operation, by stem.
static COMMANDS: LazyLock<BTreeMap<&str, Command>> =
    LazyLock::new(|| SAMPLES.iter().map(|(command, _)| (command.stem(), command.clone().into())).collect());

/// A line with the stem of the operation, and its reply as Redis writes it.
fn redis_seeds() -> Vec<Vec<u8>> {
    let replies = recorded::replies(SAMPLES.iter().map(|(command, _)| command));
    replies.into_iter().map(|(stem, reply)| [stem.as_bytes(), b"\n", &reply].concat()).collect()
}

/// Checks that an unknown reply is an error.
fn read_redis(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let stem = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    if let Some(command) = COMMANDS.get(stem) {
        let _ = decode_reply(command, &bytes[end + 1..], START);
    }
}

fn http_seeds() -> Vec<Vec<u8>> {
    let heads = [
        "GET /api/status HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /api/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n{\"a\": \"b\"}\n",
        "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n000\r\ntrailer: 1\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        "\r\n\r\nGET / HTTP/1.0\nA:\n b\n\n",
    ];
    let mut seeds: Vec<Vec<u8>> = heads.iter().map(|head| head.as_bytes().to_vec()).collect();
    seeds.push(heads.concat().into_bytes());
    seeds
}

/// Checks that the framing is the same however the bytes of a connection are divided into chunks.
fn read_http(bytes: &[u8]) {
    let ambiguous = |piece: usize| {
        let mut framing = Framing::default();
        bytes.chunks(piece).find_map(|chunk| framing.read(chunk))
    };
    let whole = ambiguous(bytes.len().max(1));
    for piece in [1, 2, 5, 64] {
        assert_eq!(ambiguous(piece), whole, "in pieces of {piece}");
    }
}
