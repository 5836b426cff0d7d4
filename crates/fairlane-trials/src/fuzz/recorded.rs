//! Replies of a real Redis, as bytes: recorded between the engine and the server.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use fairlane_conformance::subject::START;
use fairlane_core::queue::Command;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, Engine};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

/// Most replies that are kept per operation.
const REPLIES_MAX: usize = 30;

type Recorded = Arc<Mutex<Vec<u8>>>;

/// Replies to the commands, with the stems of their operations.
pub fn replies<'a>(commands: impl Iterator<Item = &'a Command>) -> Vec<(&'static str, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(record(commands))
}

async fn record<'a>(commands: impl Iterator<Item = &'a Command>) -> Vec<(&'static str, Vec<u8>)> {
    let server = RedisServer::start(ServerOptions::default());
    let recorded = Recorded::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    let accepting = tokio::spawn(accept(listener, server.port(), recorded.clone()));
    let clock = Clock::Given(Arc::new(START.0.into()));
    let options = RedisOptions { clock, ..RedisOptions::default() };
    let engine = RedisEngine::connect(&format!("redis://{address}"), options).await.expect("it connects");
    let mut kept: BTreeMap<&'static str, Vec<Vec<u8>>> = BTreeMap::new();
    for command in commands {
        recorded.lock().expect("no holder of the lock panics").clear();
        engine.submit(command.clone().into()).await.expect("Redis replies");
        let reply = recorded.lock().expect("no holder of the lock panics").clone();
        let replies = kept.entry(command.stem()).or_default();
        // Short replies are mutated more thoroughly.
        if replies.len() < REPLIES_MAX && reply.len() < 4096 && !replies.contains(&reply) {
            replies.push(reply);
        }
    }
    accepting.abort();
    kept.into_iter().flat_map(|(stem, replies)| replies.into_iter().map(move |reply| (stem, reply))).collect()
}

async fn accept(listener: TcpListener, port: u16, recorded: Recorded) {
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("Redis listens");
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
        let recorded = recorded.clone();
        tokio::spawn(async move {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                recorded.lock().expect("no holder of the lock panics").extend_from_slice(&bytes[..count]);
                if to_client.write_all(&bytes[..count]).await.is_err() {
                    break;
                }
            }
        });
    }
}
