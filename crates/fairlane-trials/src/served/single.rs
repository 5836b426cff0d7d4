//! Sends one job per request from many connections, and compares it with a handler of the same
//! stack that does nothing.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fairlane::parse_rate;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, NewKey};

use super::client::{AddRequest, Connection};
use super::process::Served;
use super::{Compared, Side, alone};

/// The number of requests and connections.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Rounds of each side.
    pub rounds: usize,
    /// Requests in each round.
    pub requests: u64,
    /// Connections at once.
    pub connections: usize,
    /// Whether the server requires a key.
    pub with_key: bool,
}

/// Runs both sides in turns.
pub fn run(program: &Path, plan: &Plan) -> Compared {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.json");
    let key = plan.with_key.then(|| unbounded_key(&file));
    let mut compared = Compared::default();
    for _ in 0..plan.rounds {
        let server = Served::start(program, key.as_ref().map(|_| &*file));
        let sides =
            [(&mut compared.floor, server.bare, "/noop"), (&mut compared.ours, server.api, "/api/jobs")];
        for (side, address, path) in sides {
            let added = turn(&server, plan, side, address, path, key.as_deref());
            let all = plan.requests + plan.requests / 10;
            if added != all {
                compared.violations.push(format!("{added} of {all} requests to {path} got the status 201"));
            }
        }
    }
    compared
}

fn turn(
    server: &Served,
    plan: &Plan,
    side: &mut Side,
    address: SocketAddr,
    path: &str,
    key: Option<&str>,
) -> u64 {
    let numbers = Arc::new(AtomicU64::new(0));
    let warm = plan.requests / 10;
    let mut added = alone(|| send_requests(address, path, key, plan.connections, &numbers, warm));
    let (begun, cpu) = (Instant::now(), server.cpu_seconds());
    added += alone(|| send_requests(address, path, key, plan.connections, &numbers, warm + plan.requests));
    side.add(plan.requests, begun.elapsed().as_secs_f64(), server.cpu_seconds() - cpu);
    added
}

/// A key whose rate is never reached.
fn unbounded_key(path: &Path) -> String {
    let rate = Some(parse_rate("1000000/s").expect("a rate"));
    let new =
        NewKey { name: "measured".to_owned(), role: Role::Producer, groups: None, rate, expires_in: None };
    KeyFile::at(path.to_owned()).create(new).expect("the folder can be written").1.reveal().to_owned()
}

/// Sends requests up to the number `until`; returns how many got the status 201.
async fn send_requests(
    address: SocketAddr,
    path: &str,
    key: Option<&str>,
    connections: usize,
    numbers: &Arc<AtomicU64>,
    until: u64,
) -> u64 {
    let tasks: Vec<_> = (0..connections)
        .map(|_| tokio::spawn(requests(address, AddRequest::one(path, key), numbers.clone(), until)))
        .collect();
    let mut added = 0;
    for task in tasks {
        added += task.await.expect("the task does not panic").expect("the server responds");
    }
    numbers.store(until, Ordering::Relaxed);
    added
}

async fn requests(
    address: SocketAddr,
    mut adding: AddRequest,
    numbers: Arc<AtomicU64>,
    until: u64,
) -> std::io::Result<u64> {
    let mut connection = Connection::open(address).await?;
    let mut added = 0;
    loop {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        if number >= until {
            return Ok(added);
        }
        let response = connection.round_trip(adding.numbered(number)).await?;
        added += u64::from(response.status == 201);
    }
}
