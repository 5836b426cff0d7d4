//! The attacker: carries out one attack over a bounded number of connections until it is stopped.

use std::io::Result;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpListener;

use super::collisions::colliding_ids;
use super::process::{ATTACKER, PARKED};
use super::{Counters, Counts, Kind, Plan};
use crate::served::client::{Connection, request};

/// The source address of the attacker, which differs from that of the other customer.
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Number of jobs in a batch of colliding ids, and of connections that send such batches.
const BATCH: usize = 1000;
const BATCH_CONNECTIONS: usize = 6;
/// The size of a large payload, the number of jobs in a batch of such payloads, and the number of
/// connections that send them.
const PAYLOAD_BYTES: usize = 500 * 1024;
const LARGE_BATCH: usize = 15;
const LARGE_CONNECTIONS: usize = 2;
/// Connections that send bodies of unknown keys.
const KEYS_CONNECTIONS: usize = 2;
/// Connections that open bulk actions.
const BULK_CONNECTIONS: usize = 8;
/// The pause before a retry after a refusal or a broken connection, and between checks whether to
/// stop.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest wait for the first response to the attacker.
const FIRST_RESPONSE_MAX: Duration = Duration::from_secs(30);
/// The most connections that a receiver keeps without a response.
const HANGING_MAX: usize = 10_000;

/// The attacker.
pub struct Attacker {
    api: SocketAddr,
    key: String,
    hanging: SocketAddr,
    kind: Kind,
    plan: Plan,
    /// The requests that are repeated, prepared before the attack begins.
    requests: Vec<Vec<u8>>,
    counters: Counters,
    /// The next of a counted number of requests.
    next: AtomicUsize,
}

/// A receiver that accepts connections and never responds; it ends with the runtime.
pub async fn hanging_receiver() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the listener is bound");
    tokio::spawn(async move {
        let mut held = Vec::new();
        while held.len() < HANGING_MAX
            && let Ok((stream, _)) = listener.accept().await
        {
            held.push(stream);
        }
    });
    address
}

/// Starts the attack on its own thread and runtime.
pub fn start(attacker: &Arc<Attacker>) -> JoinHandle<()> {
    let attacker = attacker.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("threads can be started").block_on(attack(attacker));
    })
}

async fn attack(attacker: Arc<Attacker>) {
    let connections = match attacker.kind {
        Kind::Ids => BATCH_CONNECTIONS,
        Kind::Payloads => LARGE_CONNECTIONS,
        Kind::UnknownKeys => KEYS_CONNECTIONS,
        Kind::Callbacks | Kind::Folds => BULK_CONNECTIONS,
        Kind::Connections => attacker.plan.connections_max * 2,
    };
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..connections {
        let attacker = attacker.clone();
        tasks.spawn(async move {
            while !attacker.is_over() {
                // A connection that the server closes is opened again.
                let sent = match attacker.kind {
                    Kind::Callbacks | Kind::Folds => attacker.end_bulks().await,
                    Kind::Connections => attacker.hold().await,
                    _ => attacker.repeat(number).await,
                };
                if sent.is_err() {
                    attacker.counters.broken.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    while !attacker.is_over() {
        tokio::time::sleep(PAUSE).await;
    }
    // Tasks that still wait for a response are aborted.
    tasks.shutdown().await;
}

impl Attacker {
    pub fn new(api: SocketAddr, key: &str, hanging: SocketAddr, kind: Kind, plan: &Plan) -> Self {
        let (counters, next) = (Counters::default(), AtomicUsize::new(0));
        let requests = requests(kind, plan, key);
        Self { api, key: key.to_owned(), hanging, kind, plan: *plan, requests, counters, next }
    }

    /// Waits for the first response, which may arrive after the phase on a busy machine; at most
    /// [`FIRST_RESPONSE_MAX`].
    pub async fn until_answered(&self) {
        let deadline = Instant::now() + FIRST_RESPONSE_MAX;
        while self.counts().is_empty() && Instant::now() < deadline {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Stops the attack.
    pub fn stop(&self) {
        self.counters.over.store(true, Ordering::Relaxed);
    }

    /// The numbers of its requests by result.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    fn is_over(&self) -> bool {
        self.counters.over.load(Ordering::Relaxed)
    }

    /// Sends the requests in turns; each connection starts with another one.
    async fn repeat(&self, from: usize) -> Result<()> {
        let mut connection = Connection::open_from(SOURCE, self.api).await?;
        let first = from * self.requests.len() / BATCH_CONNECTIONS;
        for request in self.requests.iter().cycle().skip(first) {
            if self.is_over() || !self.send(&mut connection, request).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Opens and seals bulk actions until the planned number is reached.
    async fn end_bulks(&self) -> Result<()> {
        let mut connection = Connection::open_from(SOURCE, self.api).await?;
        let most = match self.kind {
            Kind::Folds => self.plan.unknown_folds,
            _ => self.plan.hanging_callbacks,
        };
        while !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= most {
                break;
            }
            let id = format!("stuck-{number}");
            let body = match self.kind {
                Kind::Folds => json!({ "group": ATTACKER, "id": id, "fold": "nope" }),
                _ => {
                    let callback = format!("http://{}/", self.hanging);
                    json!({ "group": ATTACKER, "id": id, "callback": callback })
                }
            };
            let open = request("POST", "/api/bulks", Some(&self.key), body.to_string().as_bytes());
            let path = format!("/api/bulks/{ATTACKER}/{id}/seal");
            let seal = request("POST", &path, Some(&self.key), b"{\"expected\":0}");
            if !self.send(&mut connection, &open).await? || !self.send(&mut connection, &seal).await? {
                return Ok(());
            }
        }
        // All bulk actions exist now. Their effect on the server is the attack.
        while !self.is_over() {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Sends one request and keeps the connection until the server closes it.
    async fn hold(&self) -> Result<()> {
        let mut connection = Connection::open_from(SOURCE, self.api).await?;
        self.send(&mut connection, &self.requests[0]).await?;
        // No further request is sent, so the next event is the end of the connection.
        connection.until(b"\0").await
    }

    /// Sends a request and counts the response; returns whether the connection can be used again.
    async fn send(&self, connection: &mut Connection, request: &[u8]) -> Result<bool> {
        let response = connection.round_trip(request).await?;
        let counter = match response.status {
            200..300 => &self.counters.accepted,
            _ => &self.counters.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(!response.is_last)
    }
}

/// The requests that are repeated.
fn requests(kind: Kind, plan: &Plan, key: &str) -> Vec<Vec<u8>> {
    let post = |path: &str, body: &[u8]| request("POST", path, Some(key), body);
    match kind {
        Kind::Ids => {
            let ids = colliding_ids(plan.colliding_ids);
            let batch = |ids: &[String]| {
                let job = |id| json!({ "group": ATTACKER, "type": PARKED, "id": id, "payload": 0 });
                let jobs: Vec<_> = ids.iter().map(job).collect();
                post("/api/jobs/batch", json!({ "jobs": jobs }).to_string().as_bytes())
            };
            ids.chunks(BATCH).map(batch).collect()
        }
        Kind::Payloads => {
            let payload = "x".repeat(PAYLOAD_BYTES);
            let batch = |batch: usize| {
                let job = |index: usize| {
                    let id = format!("large-{batch}-{index}");
                    json!({ "group": ATTACKER, "type": PARKED, "id": id, "payload": payload })
                };
                let jobs: Vec<_> = (0..LARGE_BATCH).map(job).collect();
                post("/api/jobs/batch", json!({ "jobs": jobs }).to_string().as_bytes())
            };
            (0..plan.large_jobs.div_ceil(LARGE_BATCH)).map(batch).collect()
        }
        Kind::UnknownKeys => vec![post("/api/jobs", &unknown_keys(plan.unknown_keys_bytes))],
        Kind::Connections => vec![request("GET", "/healthz", None, b"")],
        Kind::Callbacks | Kind::Folds => Vec::new(),
    }
}

/// A job with as many unknown keys as fit into this many bytes.
fn unknown_keys(bytes: usize) -> Vec<u8> {
    let mut body = format!("{{\"group\":\"{ATTACKER}\",\"type\":\"{PARKED}\",\"payload\":0").into_bytes();
    for number in 0.. {
        let key = format!(",\"{number:x}\":0");
        if body.len() + key.len() >= bytes {
            break;
        }
        body.extend_from_slice(key.as_bytes());
    }
    body.push(b'}');
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_unknown_keys_is_json_of_the_size_wanted() {
        let body = unknown_keys(10_000);
        assert!((9_900..=10_000).contains(&body.len()), "{}", body.len());
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(read.as_object().unwrap().len() > 900);
    }
}
