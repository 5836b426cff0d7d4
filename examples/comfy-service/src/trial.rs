//! Every process is killed at every step from the upload to the delivered callback.
//!
//! In each round one job is uploaded, and one victim is killed with SIGKILL when the job reaches a step.
//! Rounds go through all pairs of a step and a victim in a seeded order. Must hold at the end: no
//! accepted job is lost or there twice; each has one completion in the database; no engine ran a job
//! again that it had accepted, or that had ended; each end was reported at least once, under one id.
//!
//! - `trial/ground.rs`: the processes. `trial/step.rs`: the steps. `trial/check.rs`: what must hold.

mod check;
mod ground;
mod step;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::StartError;
use crate::client::{Part, submit};
use ground::{Ground, Victim};
use step::Step;

/// How long a step may take before its victim is killed anyway.
const STEP_LIMIT: Duration = Duration::from_secs(90);
/// How long the open jobs have after the last kill: the queue waits half a minute after an outage.
const END_LIMIT: Duration = Duration::from_secs(300);
/// How long a client waits for an answer before it repeats its request.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long a client repeats its request.
const ACCEPT_LIMIT: Duration = Duration::from_secs(120);
/// The longest time of a victim between its end and its new start, in milliseconds.
const DOWN_MS_MAX: u64 = 300;
/// The longest time between the start of an upload and a kill, in milliseconds.
const UPLOAD_MS_MAX: u64 = 25;
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// One job in this many fails on the engine.
const FAILING: u64 = 10;

/// The options of a trial.
#[derive(Debug, Clone, Args)]
pub struct TrialOptions {
    /// Jobs that are uploaded, each with one kill
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rounds: u64,
    /// The order of steps and victims, and the pauses
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
}

/// What a trial found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TrialReport {
    /// Jobs that were accepted.
    pub accepted: u64,
    /// Requests that were repeated, because no answer arrived or the database was down.
    pub repeated_requests: u64,
    /// Kills by victim.
    pub kills: BTreeMap<&'static str, u64>,
    /// Kills of the worker that had the job of the round, or its callback.
    pub holders_killed: u64,
    /// Kills by step.
    pub steps: BTreeMap<&'static str, u64>,
    /// Pairs of a step and a victim that occurred, of all that there are.
    pub pairs: (usize, usize),
    /// Steps that took longer than 90 seconds.
    pub late_steps: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that failed, as some should.
    pub failed: u64,
    /// Prompts that engines ran.
    pub runs: u64,
    /// Runs of jobs that an engine which was killed had run before.
    pub runs_after_restart: u64,
    /// Callbacks that the receiver got.
    pub callbacks: u64,
    /// Callbacks beyond the first of each job.
    pub repeated_callbacks: u64,
    /// How long it took.
    pub seconds: u64,
    /// What must hold and does not.
    pub violations: Vec<String>,
}

/// A job that was accepted.
#[derive(Debug, Clone)]
struct Accepted {
    round: u64,
    id: i64,
    queue_id: String,
    fails: bool,
}

/// Runs the trial with this program.
pub async fn run(program: &Path, options: &TrialOptions) -> Result<TrialReport, StartError> {
    let began = Instant::now();
    let mut ground = Ground::start(program).await?;
    let mut report = TrialReport::default();
    let mut random = fastrand::Rng::with_seed(options.seed);
    let (mut steps, mut victims, mut jobs) = (Step::ALL, Victim::ALL, Vec::new());
    let all = steps.len() * victims.len();
    for round in 0..options.rounds {
        // Any twelve rounds in a row go through all steps, and seventy-two through all pairs.
        let index = round as usize % all;
        if index == 0 {
            random.shuffle(&mut steps);
            random.shuffle(&mut victims);
        }
        let step = steps[index % steps.len()];
        let victim = victims[(index % steps.len() + index / steps.len()) % victims.len()];
        let job = fire(&mut ground, &mut report, &mut random, round, step, victim).await?;
        jobs.push(job);
        *report.kills.entry(victim.name()).or_default() += 1;
        *report.steps.entry(step.name()).or_default() += 1;
        tracing::info!("round {round}: {} killed at {}", victim.name(), step.name());
    }
    report.pairs = (usize::try_from(options.rounds).unwrap_or(usize::MAX).min(all), all);
    report.accepted = jobs.len() as u64;
    let deadline = Instant::now() + END_LIMIT;
    while !ground.is_quiet(jobs.len()).await && Instant::now() < deadline {
        sleep(LOOK_EVERY * 10).await;
    }
    check::check(&ground, &jobs, &mut report).await?;
    report.seconds = began.elapsed().as_secs();
    ground.keep_logs(!report.violations.is_empty());
    Ok(report)
}

/// One round: a job is uploaded, and the victim is killed when the job reaches the step.
async fn fire(
    ground: &mut Ground,
    report: &mut TrialReport,
    random: &mut fastrand::Rng,
    round: u64,
    step: Step,
    victim: Victim,
) -> Result<Accepted, StartError> {
    let fails = round % FAILING == FAILING - 1;
    ground.hold_callback(round, step == Step::CallbackSent);
    let upload = tokio::spawn(upload(ground.api(), ground.callback_url(round), round, fails));
    let job;
    if step == Step::Upload {
        sleep(Duration::from_millis(random.u64(..=UPLOAD_MS_MAX))).await;
        let one_of_two = random.usize(..2);
        kill(ground, random, victim, one_of_two).await?;
        job = accepted(ground, report, upload, round, fails).await?;
    } else {
        job = accepted(ground, report, upload, round, fails).await?;
        let deadline = Instant::now() + STEP_LIMIT;
        while !step::is_reached(ground, &job, step).await {
            if Instant::now() > deadline {
                report.late_steps += 1;
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        let mut one_of_two = random.usize(..2);
        if victim == Victim::Worker
            && let Some(holder) = ground.holder(&[&job.queue_id, &step::callback_id(&job)]).await
        {
            report.holders_killed += 1;
            one_of_two = holder;
        }
        kill(ground, random, victim, one_of_two).await?;
    }
    ground.hold_callback(round, false);
    Ok(job)
}

async fn kill(
    ground: &mut Ground,
    random: &mut fastrand::Rng,
    victim: Victim,
    one_of_two: usize,
) -> Result<(), StartError> {
    ground.kill(victim, one_of_two);
    sleep(Duration::from_millis(random.u64(..=DOWN_MS_MAX))).await;
    ground.restart(victim, one_of_two).await
}

/// Uploads a job, and repeats the request until it is accepted. Returns its id, and the number of
/// requests.
async fn upload(
    api: std::net::SocketAddr,
    callback_url: String,
    round: u64,
    fails: bool,
) -> Result<(i64, u64), String> {
    let (key, picture) = (format!("round-{round}"), picture(round));
    let parts = [
        Part::Text("service_type", if fails { "broken" } else { "portrait" }),
        Part::Text("callback_url", &callback_url),
        Part::File("image", &picture),
    ];
    let (deadline, mut requests) = (Instant::now() + ACCEPT_LIMIT, 0);
    loop {
        requests += 1;
        let last = match timeout(ANSWER_LIMIT, submit(api, Some(&key), &parts)).await {
            Ok(Ok(answer)) if answer.status == 200 => {
                let body = answer.json();
                let id = body["job_id"].as_i64().filter(|_| body["status"] == "queued");
                return id.map(|id| (id, requests)).ok_or_else(|| format!("an answer without a job: {body}"));
            }
            // The cure of a 503 is to send the request again, with the same key.
            Ok(Ok(answer)) if answer.status != 503 => {
                return Err(format!("round {round} was refused: {} {}", answer.status, answer.body));
            }
            Ok(answer) => format!("{answer:?}"),
            Err(_) => "no answer in time".to_owned(),
        };
        if Instant::now() > deadline {
            return Err(format!("round {round} was not accepted: {last}"));
        }
        sleep(LOOK_EVERY * 4).await;
    }
}

async fn accepted(
    ground: &Ground,
    report: &mut TrialReport,
    upload: tokio::task::JoinHandle<Result<(i64, u64), String>>,
    round: u64,
    fails: bool,
) -> Result<Accepted, StartError> {
    let (id, requests) = upload.await??;
    report.repeated_requests += requests - 1;
    let deadline = Instant::now() + ACCEPT_LIMIT;
    loop {
        match ground.queue_id(id).await {
            Ok(Some(queue_id)) => return Ok(Accepted { round, id, queue_id, fails }),
            Ok(None) => return Err(format!("job {id} was accepted, and is not in the database").into()),
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => sleep(LOOK_EVERY).await,
        }
    }
}

/// A picture of its own for each round.
fn picture(round: u64) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend(std::iter::repeat_n(round.to_le_bytes(), 4096).flatten());
    bytes
}
