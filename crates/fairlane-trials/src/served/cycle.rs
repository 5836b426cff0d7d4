//! Adds, leases and settles batches of 100 jobs through the server, and compares it with the
//! library alone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::client::{AddRequest, Connection, PAYLOAD_BYTES, find, request};
use super::process::{BATCH, Served, library};
use super::{Compared, alone};

/// The number of batches and connections.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Rounds of each side.
    pub rounds: usize,
    /// Batches of 100 jobs in each round.
    pub batches: u64,
    /// Connections to the server, and tasks of the library.
    pub connections: usize,
}

/// Runs both sides in turns.
pub fn run(program: &Path, plan: &Plan) -> Compared {
    let mut compared = Compared::default();
    let jobs = plan.batches * BATCH;
    for _ in 0..plan.rounds {
        let floor = library(program, plan.connections, plan.batches);
        compared.floor.add(jobs, floor.seconds, floor.cpu_seconds);
        let server = Served::start(program, None);
        let numbers = Arc::new(AtomicU64::new(0));
        let warm = plan.batches / 10;
        let mut settled = alone(|| run_batches(server.api, plan.connections, &numbers, warm));
        let (begun, cpu) = (Instant::now(), server.cpu_seconds());
        settled += alone(|| run_batches(server.api, plan.connections, &numbers, warm + plan.batches));
        compared.ours.add(jobs, begun.elapsed().as_secs_f64(), server.cpu_seconds() - cpu);
        if settled != jobs + warm * BATCH {
            compared.violations.push(format!("{settled} of {} jobs were settled", jobs + warm * BATCH));
        }
    }
    compared
}

/// Runs batches up to the number `until`; returns how many jobs were settled.
async fn run_batches(api: SocketAddr, connections: usize, numbers: &Arc<AtomicU64>, until: u64) -> u64 {
    let tasks: Vec<_> = (0..connections)
        .map(|number| tokio::spawn(cycles(api, format!("worker-{number}"), numbers.clone(), until)))
        .collect();
    let mut settled = 0;
    for task in tasks {
        settled += task.await.expect("the task does not panic").expect("the server responds");
    }
    numbers.store(until, Ordering::Relaxed);
    settled
}

async fn cycles(
    api: SocketAddr,
    worker: String,
    numbers: Arc<AtomicU64>,
    until: u64,
) -> std::io::Result<u64> {
    let mut connection = Connection::open(api).await?;
    let mut adding = AddRequest::batch(BATCH, None);
    let asking = format!(r#"{{"worker":"{worker}","types":["bench"],"count":{BATCH}}}"#);
    let asking = request("POST", "/api/leases", None, asking.as_bytes());
    let (mut settling, mut settled) = (Vec::new(), 0);
    loop {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        if number >= until {
            return Ok(settled);
        }
        let added = connection.round_trip(adding.numbered(number)).await?;
        assert!(find(added.body, b"\"created\":100,").is_some(), "{}", String::from_utf8_lossy(added.body));
        let leased = connection.round_trip(&asking).await?;
        assert_eq!(leased.status, 200, "{}", String::from_utf8_lossy(leased.body));
        write_settlements(leased.body, &mut settling);
        let verdicts = connection.round_trip(&request("POST", "/api/leases/settle", None, &settling)).await?;
        let strings = verdicts.body.split(|byte| *byte == b'"');
        settled += strings.filter(|string| *string == b"applied").count() as u64;
    }
}

/// Writes the settlements of the jobs in a lease response. The response is not parsed as JSON: its
/// form is known, and parsing would use half of the machine.
fn write_settlements(leased: &[u8], body: &mut Vec<u8>) {
    body.clear();
    body.extend_from_slice(b"{\"settlements\":[");
    let mut rest = leased;
    while let Some(at) = find(rest, b"{\"group\":") {
        let job = &rest[at..];
        let named = find(job, b",\"type\":").expect("the id comes before the type");
        // The payload is between the type and the fence.
        let behind = &job[named + PAYLOAD_BYTES..];
        let fence = find(behind, b",\"fence\":").expect("a leased job has a fence");
        let end = find(&behind[fence + 1..], b",").expect("the attempt comes behind the fence");
        body.extend_from_slice(&job[..named]);
        body.extend_from_slice(&behind[fence..fence + 1 + end]);
        body.extend_from_slice(b",\"outcome\":\"succeeded\"},");
        rest = &behind[fence + 1 + end..];
    }
    if body.ends_with(b",") {
        body.pop();
    }
    body.extend_from_slice(b"]}");
}
