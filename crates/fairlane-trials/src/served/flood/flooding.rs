//! The flood: requests of one kind, as fast as possible, on many connections at once.
//!
//! Batches and streams send jobs that exist already: the work is the same, and the memory of the
//! server does not grow.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fairlane_server::ServerSettings;

use super::{Kind, Plan};
use crate::served::client::{AddRequest, Connection, payload, request};
use crate::served::process::BATCH;

/// The number of different batches.
const BATCHES: u64 = 100;
/// The number of jobs that a list returns.
const LISTED: usize = 500;
/// The time between two checks of a blocked stream whether the flood is over.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The flooding key's requests.
pub(super) struct Flood {
    api: SocketAddr,
    key: String,
    kind: Kind,
    /// Whether more requests are sent at once than the burst: some are refused, and the others
    /// slowed down.
    is_refused: bool,
    pub over: AtomicBool,
    numbers: AtomicU64,
    pub passed: AtomicU64,
    pub refused: AtomicU64,
    pub other: AtomicU64,
}

impl Flood {
    pub fn new(api: SocketAddr, key: &str, plan: &Plan) -> Self {
        let [numbers, passed, refused, other] = [(); 4].map(|()| AtomicU64::new(0));
        let rate = plan.rate.or(ServerSettings::default().key_rate);
        let is_refused =
            rate.is_some_and(|rate| plan.kind == Kind::Single && plan.flooding as u64 > rate.burst());
        let (key, kind, over) = (key.to_owned(), plan.kind, AtomicBool::new(false));
        Self { api, key, kind, is_refused, over, numbers, passed, refused, other }
    }

    /// Whether the key was refused, if it is to be refused at all.
    pub fn has_reached_limit(&self) -> bool {
        !self.is_refused || self.refused.load(Ordering::Relaxed) > 0
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    async fn wait_until_over(&self) {
        while !self.is_over() {
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    fn count(&self, status: u16, passed: u64) {
        let (counter, count) = match status {
            200 | 201 => (&self.passed, passed),
            429 => (&self.refused, 1),
            _ => (&self.other, 1),
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Sends requests as fast as possible on this many connections, until the flood is over.
pub(super) async fn run(flood: &Arc<Flood>, connections: usize) {
    let tasks: Vec<_> = (0..connections)
        .map(|number| {
            let flood = flood.clone();
            tokio::spawn(async move {
                while !flood.is_over() {
                    // A refusal may close the connection: open it again.
                    let _ = match flood.kind {
                        Kind::Streams => stream(&flood, number).await,
                        _ => send_requests(&flood).await,
                    };
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task does not panic");
    }
}

/// Adds jobs that a list returns: they are due in an hour.
pub(super) async fn fill(api: SocketAddr, key: &str) -> Result<()> {
    let job = r#"{"group":"later","type":"bench","payload":{},"delay_ms":3600000}"#;
    let body = format!("{{\"jobs\":[{}]}}", vec![job; LISTED].join(","));
    let mut connection = Connection::open(api).await?;
    let response =
        connection.round_trip(&request("POST", "/api/jobs/batch", Some(key), body.as_bytes())).await?;
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(response.body));
    Ok(())
}

async fn send_requests(flood: &Flood) -> Result<()> {
    let key = Some(&*flood.key);
    let list = request("GET", &format!("/api/jobs?state=waiting&limit={LISTED}"), key, b"");
    let mut adding = match flood.kind {
        Kind::Batches => AddRequest::batch(BATCH, key),
        _ => AddRequest::one("/api/jobs", key),
    };
    let mut connection = Connection::open(flood.api).await?;
    while !flood.is_over() {
        let number = flood.numbers.fetch_add(1, Ordering::Relaxed);
        // The ids differ from those of the gentle key.
        let bytes = match flood.kind {
            Kind::Lists => &list,
            Kind::Batches => adding.numbered((1 << 32) + number % BATCHES),
            _ => adding.numbered((1 << 32) + number),
        };
        let response = connection.round_trip(bytes).await?;
        flood.count(response.status, 1);
        if response.is_last {
            return Ok(());
        }
    }
    Ok(())
}

async fn stream(flood: &Flood, number: usize) -> Result<()> {
    let head = format!(
        "POST /api/jobs/stream?group=stream-{number}&type=bench HTTP/1.1\r\nhost: localhost\r\n\
         authorization: Bearer {}\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
        flood.key
    );
    let payload = payload();
    let payload = String::from_utf8_lossy(&payload);
    let lines: String =
        (0..BATCH).map(|line| format!("{{\"id\":\"{line}\",\"payload\":{payload}}}\n")).collect();
    let chunk = format!("{:x}\r\n{lines}\r\n", lines.len());
    let mut connection = Connection::open(flood.api).await?;
    connection.send(head.as_bytes()).await?;
    loop {
        tokio::select! {
            sent = connection.send(chunk.as_bytes()) => {
                if sent.is_err() {
                    // The stream was refused or ended; the response has the status.
                    flood.count(connection.read_response().await?.status, 0);
                    return Ok(());
                }
                flood.passed.fetch_add(BATCH, Ordering::Relaxed);
            }
            () = flood.wait_until_over() => return connection.reset(),
        }
    }
}
