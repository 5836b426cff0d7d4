//! A pre-queue of very many users is opened, and another program verifies random places in its draw.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane::{Fairlane, Seed};
use fairlane_core::room::*;
use fairlane_engine::Engine;

use super::{fill, room};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/draw/verify.py");
/// Active places of the room.
const MAX_ACTIVE: u32 = 50;
/// How long users may stay silent: longer than the trial, because its users never poll.
const RETENTION_MS: u64 = 24 * 3600 * 1000;

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Tickets that were drawn.
    pub tickets: u64,
    /// The time to publish the list.
    pub publish: Duration,
    /// The time of the step that opens the room.
    pub open: Duration,
    /// Users that this step has admitted.
    pub admitted: u64,
    /// The output of the other program.
    pub verified: String,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

/// Runs the trial on an engine without rooms; the script verifies this many random places.
pub async fn run(engine: Arc<dyn Engine>, users: u64, places: u64, seed: u64) -> Report {
    let (fairlane, mut report) = (Fairlane::from_engine(engine.clone()), Report::default());
    let handle = fairlane.room("default");
    let limits =
        RoomSettings { max_active: MAX_ACTIVE, retention_ms: RETENTION_MS, ..RoomSettings::default() };
    handle.set(limits).await.expect("set_room is answered");
    let secret = Seed::random().expect("there are random bytes");
    let commitment = secret.commitment();
    let phase = NextPhase::Prequeue { seed: secret.to_string(), commitment: commitment.clone() };
    engine.call(SetPhase { room: room(), phase }).await.expect("set_phase is answered");
    let tickets = secret.clone();
    fill(&engine, 0..users, move |user| Some(tickets.ticket(user))).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tickets.tsv");
    let mut list = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    let (started, mut published_at) = (Instant::now(), Instant::now());
    let drawn = handle.open_prequeue(|line| {
        published_at = Instant::now();
        writeln!(list, "{line}")
    });
    let drawn = drawn.await.expect("the pre-queue is opened");
    (report.publish, report.open) = (published_at - started, published_at.elapsed());
    list.flush().expect("the list is written");
    drop(list);
    let view = handle.view().await.expect("it is answered").expect("the room exists");
    let draw = view.draw.expect("there was a draw");
    (report.tickets, report.admitted) = (drawn.tickets, view.active);
    if (drawn.tickets, view.active) != (users, u64::from(MAX_ACTIVE)) {
        report.violations.push(format!("{} tickets, {} active", drawn.tickets, view.active));
    }
    let verify = |seed_text: &str| {
        let mut command = Command::new("python3");
        command.arg(SCRIPT).arg(&path).args([seed_text, &commitment, &drawn.digest()]);
        command.args(["--places", &places.to_string(), "--random", &seed.to_string()]);
        command.output().expect("python3 runs")
    };
    let output = verify(&draw.seed.expect("the seed is revealed"));
    report.verified = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        report.violations.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    if verify("another seed").status.success() {
        report.violations.push("another seed is accepted".to_owned());
    }
    report
}
