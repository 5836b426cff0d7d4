//! What must hold at the end of a trial.

use std::collections::{BTreeSet, HashMap, HashSet};

use fairlane_postgres::Error;
use fairlane_postgres::sqlx::{self, Row};
use fairlane_testkit::receiver::ReceivedRequest;
use serde_json::Value;
use standardwebhooks::Webhook;

use super::ground::Ground;
use super::{Accepted, TrialReport};
use crate::StartError;

/// Checks everything, and adds what does not hold to the report.
pub async fn check(ground: &Ground, jobs: &[Accepted], report: &mut TrialReport) -> Result<(), StartError> {
    let ended_at = database(ground, jobs, report).await?;
    engine(&ground.journal(), jobs, &ended_at, report);
    callbacks(ground, jobs, report)?;
    Ok(())
}

/// Every accepted job has a row of its own with the right end, which was written once. Returns when
/// each job ended, in milliseconds.
async fn database(
    ground: &Ground,
    jobs: &[Accepted],
    report: &mut TrialReport,
) -> Result<HashMap<String, i64>, Error> {
    let pool = ground.outbox.pool();
    let rows = "SELECT id, queue_id, status, (extract(epoch FROM ended_at) * 1000)::bigint AS ended_at FROM comfy_jobs";
    let mut statuses = HashMap::new();
    let mut ended_at = HashMap::new();
    for row in sqlx::query(rows).fetch_all(pool).await? {
        statuses.insert(row.get::<i64, _>("id"), row.get::<String, _>("status"));
        if let Some(at) = row.get::<Option<i64>, _>("ended_at") {
            ended_at.insert(row.get("queue_id"), at);
        }
    }
    let ids: HashSet<i64> = jobs.iter().map(|job| job.id).collect();
    if (ids.len(), statuses.len()) != (jobs.len(), jobs.len()) {
        let found = format!(
            "{} jobs were accepted, {} ids given, {} rows stored",
            jobs.len(),
            ids.len(),
            statuses.len()
        );
        report.violations.push(found);
    }
    for job in jobs {
        let expected = if job.fails { "FAILED" } else { "SUCCEEDED" };
        match statuses.get(&job.id).map(String::as_str) {
            Some("SUCCEEDED") => report.succeeded += 1,
            Some("FAILED") => report.failed += 1,
            _ => {}
        }
        if statuses.get(&job.id).is_none_or(|status| status != expected) {
            let found = format!("job {} should be {expected}: {:?}", job.id, statuses.get(&job.id));
            report.violations.push(found);
        }
    }
    for (what, sql) in [
        (
            "jobs completed more than once",
            "SELECT count(*) FROM (SELECT id FROM ends WHERE status = 'SUCCEEDED' GROUP BY id HAVING count(*) > 1) AS d",
        ),
        (
            "jobs have another end beside their completion",
            "SELECT count(*) FROM ends a WHERE a.status = 'SUCCEEDED' AND EXISTS \
             (SELECT FROM ends b WHERE b.id = a.id AND b.status <> 'SUCCEEDED')",
        ),
        ("rows are left in the outbox", "SELECT count(*) FROM fairlane_outbox"),
        ("jobs or callbacks are open", "SELECT count(*) FROM fairlane_jobs WHERE ended_at IS NULL"),
    ] {
        let count: i64 = sqlx::query(sql).fetch_one(pool).await?.get(0);
        if count > 0 {
            report.violations.push(format!("{count} {what}"));
        }
    }
    Ok(ended_at)
}

/// The id of the job that a prompt belongs to.
fn job_of(line: &Value) -> Option<String> {
    let nodes = line["prompt"].as_object()?;
    let prefix = nodes.values().find_map(|node| node["inputs"]["filename_prefix"].as_str());
    prefix.map(str::to_owned)
}

/// An engine that lives gets a prompt once, unless it did not answer, and runs nothing that has ended.
fn engine(journal: &[Value], jobs: &[Accepted], ended_at: &HashMap<String, i64>, report: &mut TrialReport) {
    let mut answered: HashSet<&str> = HashSet::new();
    let mut ran_here: HashMap<String, u64> = HashMap::new();
    let mut ran_before: HashSet<String> = HashSet::new();
    for line in journal {
        let prompt = line["prompt_id"].as_str().unwrap_or_default();
        match line["event"].as_str() {
            Some("started") => {
                answered.clear();
                ran_before.extend(ran_here.drain().map(|(job, _)| job));
            }
            Some("answered") => drop(answered.insert(prompt)),
            Some("submitted") if answered.contains(prompt) => {
                report
                    .violations
                    .push(format!("prompt {prompt} was submitted again to an engine that had it"));
            }
            Some("run") => {
                let job = job_of(line).unwrap_or_default();
                report.runs += 1;
                report.runs_after_restart += u64::from(ran_before.contains(&job));
                let runs = ran_here.entry(job.clone()).or_default();
                *runs += 1;
                if *runs > 1 {
                    report.violations.push(format!("job {job} ran {runs} times on one engine"));
                }
                let began = line["at_ms"].as_i64().unwrap_or_default();
                if ended_at.get(&job).is_some_and(|ended| began > *ended) {
                    report.violations.push(format!("job {job} ran after its end"));
                }
            }
            _ => {}
        }
    }
    let ran: HashSet<&String> = ran_before.iter().chain(ran_here.keys()).collect();
    for job in jobs.iter().filter(|job| !ran.contains(&job.queue_id)) {
        report.violations.push(format!("job {} never ran", job.id));
    }
}

/// Every end was reported, with a valid signature, under one id and with one body.
fn callbacks(ground: &Ground, jobs: &[Accepted], report: &mut TrialReport) -> Result<(), StartError> {
    let webhook = Webhook::new(&ground.secret).map_err(|error| format!("the secret: {error}"))?;
    for job in jobs {
        let requests = ground.callback_requests(job.round);
        report.callbacks += requests.len() as u64;
        report.repeated_callbacks += (requests.len() as u64).saturating_sub(1);
        let (mut ids, mut bodies) = (BTreeSet::new(), BTreeSet::new());
        for request in &requests {
            ids.insert(request.header("webhook-id").unwrap_or_default().to_owned());
            bodies.insert(request.body.clone());
            if !is_signed(&webhook, request) {
                report.violations.push(format!("a callback of job {} has no valid signature", job.id));
            }
        }
        let end = if job.fails { "failed" } else { "succeeded" };
        let is_right = |body: &Vec<u8>| {
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            body["data"]["job_id"] == job.id && body["data"]["status"] == end
        };
        if ids.len() != 1 || bodies.len() != 1 || !bodies.iter().all(is_right) {
            let found = format!(
                "job {} has {} callbacks with {} ids and {} bodies",
                job.id,
                requests.len(),
                ids.len(),
                bodies.len()
            );
            report.violations.push(found);
        }
    }
    Ok(())
}

/// Whether a receiver with the secret accepts the request. It was received a while ago, so only the
/// signature is checked, not its time.
fn is_signed(webhook: &Webhook, request: &ReceivedRequest) -> bool {
    let header = |name: &str| request.header(name).unwrap_or_default();
    let timestamp = header("webhook-timestamp").parse().unwrap_or(0);
    let signed = webhook.sign(header("webhook-id"), timestamp, &request.body);
    signed.is_ok_and(|expected| expected == header("webhook-signature"))
}
