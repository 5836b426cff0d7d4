//! Commands and replies in the MessagePack that the Lua of Redis reads and writes.

use std::collections::BTreeSet;
use std::fmt::Debug;

use fairlane_conformance::differential::{other_samples, samples};
use fairlane_core::kernel::Registered;
use fairlane_core::limits::INTEGER_MAX;
use fairlane_core::queue::{self, *};
use fairlane_core::{BulkId, Command, Fence, GroupId, JobId, Rate, Reply, Trace, TypeId};
use fairlane_engine::redis::packed::{pack, unpack};
use fairlane_testkit::redis::{RedisServer, ServerOptions, connect};
use serde::Serialize;
use serde::de::DeserializeOwned;

struct Lua {
    _server: RedisServer,
    connection: redis::aio::MultiplexedConnection,
}

impl Lua {
    async fn start() -> Self {
        let server = RedisServer::start(ServerOptions::default());
        let connection = connect(&server.url()).await;
        Self { connection, _server: server }
    }

    /// Has Lua unpack the fields of a command or reply and pack them again, and compares the two.
    async fn keeps<T: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, value: &T) {
        let packed = pack(value);
        let (names, fields) = packed.split_at(names_bytes(&packed));
        let mut call = redis::cmd("EVAL");
        call.arg("return cmsgpack.pack((cmsgpack.unpack(ARGV[1])))").arg(0).arg(fields);
        let fields: Vec<u8> = call.query_async(&mut self.connection).await.expect("Lua unpacks and packs");
        assert_eq!(unpack::<T>(&[names, &fields].concat()).as_ref(), Ok(value));
    }
}

/// The bytes of the names of the capability and the operation, which are not sent. Each is a map of
/// one entry and a short text.
fn names_bytes(packed: &[u8]) -> usize {
    let name = |at: usize| at + 2 + usize::from(packed[at + 1] & 0x1f);
    name(name(0))
}

/// The operations that are not packed.
const HOT: [&str; 4] = ["enqueue", "lease", "extend", "settle"];

#[tokio::test]
async fn lua_keeps_every_packed_command_and_reply() {
    let (mut lua, mut stems) = (Lua::start().await, BTreeSet::from(HOT));
    for (command, reply) in samples(17, 4000) {
        if !HOT.contains(&command.stem()) {
            stems.insert(command.stem());
            lua.keeps(&Command::from(command)).await;
            lua.keeps(&Reply::from(reply)).await;
        }
    }
    for (command, reply) in other_samples(17, 2000) {
        stems.insert(command.stem());
        lua.keeps(&command).await;
        lua.keeps(&reply).await;
    }
    assert_eq!(stems, Command::stems().collect(), "each operation is among them");
}

#[tokio::test]
async fn lua_keeps_any_bytes_names_and_numbers() {
    let mut lua = Lua::start().await;
    let all_bytes = || (0..=u8::MAX).cycle();
    for bytes in [0, 1, 31, 32, 255, 256, 65_535, 65_536] {
        let trace = Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff").unwrap();
        let settled = SettleBulk {
            bulk: BulkRef { group: GroupId::new("a:%b%3A").unwrap(), id: BulkId::new("고객 1").unwrap() },
            fence: Fence(INTEGER_MAX - 1),
            summary: all_bytes().take(bytes).collect(),
            outcome: Aggregation::Released { delay_ms: bytes as u64 },
            callback: Some(Callback {
                id: JobId::new("::").unwrap(),
                payload: all_bytes().skip(128).take(bytes).collect(),
                trace: Some(trace),
            }),
        };
        lua.keeps(&settled.into_command()).await;
    }
    let rate = Rate::new(10, 1000, Some(2)).unwrap();
    for rate in [None, Some(None), Some(Some(rate))] {
        for concurrency in [None, Some(None), Some(Some(u32::MAX))] {
            let patch = GroupPatch { rate, concurrency, base_priority: Some(-7), ..GroupPatch::default() };
            let set = SetGroup { group: GroupId::new("g").unwrap(), patch, reset_congestion: false };
            lua.keeps(&set.into_command()).await;
            let patch = TypePatch { rate, concurrency, max_retry_count: concurrency, paused: None };
            lua.keeps(&SetType { type_id: TypeId::new("t").unwrap(), patch }.into_command()).await;
        }
    }
    for jobs in [0, u64::from(u32::MAX) + 1, INTEGER_MAX - 1] {
        lua.keeps(&Reply::from(queue::Reply::RemoveType(TypeRemoved::HasJobs { jobs }))).await;
    }
}

#[test]
fn incomplete_and_trailing_bytes_are_errors() {
    let packed = pack(&Reply::from(queue::Reply::MakeDue(MadeDue { moved: 3, next: Some(300) })));
    for end in 0..packed.len() {
        assert!(unpack::<Reply>(&packed[..end]).is_err(), "{end} bytes");
    }
    assert!(unpack::<Reply>(&[&packed[..], &[0]].concat()).is_err());
}
