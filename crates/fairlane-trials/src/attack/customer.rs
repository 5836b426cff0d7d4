//! The customer beside the attacker: adds jobs and ends bulk actions at a steady pace, and records
//! every wait.

use std::collections::HashMap;
use std::io::Result;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane_testkit::receiver::{Receiver, response};
use serde_json::json;
use tokio::time::Instant;

use super::process::{CUSTOMER, WORKED_ON};
use super::{Plan, Waits};
use crate::served::alone;
use crate::served::client::{Connection, number_after, request};

/// Connections for jobs: a slow response must not delay other requests.
const CONNECTIONS: u64 = 8;
/// A connection is replaced after this many requests, as by most clients.
const REQUESTS_PER_CONNECTION: u64 = 10;
/// The longest time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests that are not sent within this time after the end of a phase have failed.
const LATE_MAX: Duration = Duration::from_secs(10);
/// The longest time for jobs to complete after the last one was added.
const LAST_TIMEOUT: Duration = Duration::from_secs(30);
const LAST_POLL: Duration = Duration::from_millis(10);

/// The times of requests in progress; an entry is removed when its job or bulk action is done.
#[derive(Default)]
struct Pending {
    jobs: HashMap<u64, Instant>,
    bulks: HashMap<u64, Instant>,
    waits: Option<Waits>,
}

/// The target of jobs and receiver of callbacks.
pub struct Target {
    receiver: Receiver,
    pending: Arc<Mutex<Pending>>,
}

impl Target {
    /// Listens on a free port.
    pub fn start() -> Self {
        let pending = Arc::new(Mutex::new(Pending::default()));
        let recording = pending.clone();
        let receiver = Receiver::handling(move |request| {
            let mut pending = recording.lock().expect("no holder of the lock panics");
            pending.record(request.path(), &request.body);
            std::future::ready(response("200 OK", &[], ""))
        });
        Self { receiver, pending }
    }

    pub fn address(&self) -> SocketAddr {
        self.receiver.address()
    }
}

impl Pending {
    /// A job names its number in its payload, a callback in its path.
    fn record(&mut self, path: &str, body: &[u8]) {
        let now = Instant::now();
        let micros = |sent: Instant| now.duration_since(sent).as_micros() as u64;
        let Some(waits) = &mut self.waits else { return };
        if let Some(number) = number_after(path.as_bytes(), b"/bulk/") {
            let sent = self.bulks.remove(&number);
            sent.into_iter().for_each(|sent| waits.bulk.saturating_record(micros(sent)));
        } else if let Some(number) = number_after(body, b"\"number\":") {
            let sent = self.jobs.remove(&number);
            sent.into_iter().for_each(|sent| waits.completion.saturating_record(micros(sent)));
        }
    }
}

/// The customer.
pub struct Customer<'a> {
    api: SocketAddr,
    key: &'a str,
    target: &'a Target,
    plan: &'a Plan,
}

impl<'a> Customer<'a> {
    pub fn new(api: SocketAddr, key: &'a str, target: &'a Target, plan: &'a Plan) -> Self {
        Self { api, key, target, plan }
    }

    /// Sends requests for this long, and waits for their jobs and bulk actions.
    pub async fn measure(&self, phase: &'static str, length: Duration) -> Waits {
        self.pending().waits = Some(Waits::new());
        // On its own thread, so that the target of the jobs responds meanwhile.
        let sent = tokio::task::block_in_place(|| alone(|| self.send_all(phase, length)));
        let deadline = Instant::now() + LAST_TIMEOUT;
        let unfinished = loop {
            let unfinished = {
                let pending = self.pending();
                pending.jobs.len() + pending.bulks.len()
            };
            if unfinished == 0 || Instant::now() > deadline {
                break unfinished as u64;
            }
            tokio::time::sleep(LAST_POLL).await;
        };
        let mut pending = self.pending();
        pending.jobs.clear();
        pending.bulks.clear();
        let mut waits = pending.waits.take().expect("it was set above");
        waits.failed = sent.failed + unfinished;
        sent.waits.into_iter().for_each(|wait| waits.enqueue.saturating_record(wait));
        waits
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.target.pending.lock().expect("no holder of the lock panics")
    }

    async fn send_all(&self, phase: &str, length: Duration) -> Sent {
        let begun = Instant::now();
        let until = begun + length + LATE_MAX;
        let total = |each_second: u64| (length.as_secs_f64() * each_second as f64).ceil() as u64;
        let (jobs, bulks) = (total(self.plan.jobs_per_second), total(self.plan.bulks_per_second));
        let lanes = (0..CONNECTIONS).map(|lane| {
            let numbers = (lane..jobs).step_by(CONNECTIONS as usize);
            Box::pin(self.add_jobs(phase, begun, until, numbers.collect()))
        });
        let (lanes, ended) = tokio::join!(all(lanes.collect()), self.end_bulks(phase, begun, until, bulks));
        let mut sent = Sent { waits: Vec::new(), failed: ended };
        for lane in lanes {
            sent.waits.extend(lane.waits);
            sent.failed += lane.failed;
        }
        sent
    }

    async fn add_jobs(&self, phase: &str, begun: Instant, until: Instant, numbers: Vec<u64>) -> Sent {
        let mut sent = Sent::default();
        let mut connection = None;
        let mut free = begun;
        for (turn, number) in numbers.into_iter().enumerate() {
            let due = begun + Duration::from_secs(1) * number as u32 / self.plan.jobs_per_second as u32;
            tokio::time::sleep_until(due).await;
            if Instant::now() > until {
                sent.failed += 1;
                continue;
            }
            // A request that another one delayed has waited since it was due; a late timer does not
            // count.
            let since = if free > due { due } else { Instant::now() };
            if (turn as u64).is_multiple_of(REQUESTS_PER_CONNECTION) {
                connection = None;
            }
            let id = format!("{phase}-{number}");
            let body =
                json!({ "group": CUSTOMER, "type": WORKED_ON, "id": id, "payload": { "number": number } });
            self.pending().jobs.insert(number, since);
            match self.post(&mut connection, "/api/jobs", &body.to_string()).await {
                Ok(200..300) => sent.waits.push(since.elapsed().as_micros() as u64),
                _ => {
                    self.pending().jobs.remove(&number);
                    connection = None;
                    sent.failed += 1;
                }
            }
            free = Instant::now();
        }
        sent
    }

    /// Opens and seals empty bulk actions; returns the number of failures.
    async fn end_bulks(&self, phase: &str, begun: Instant, until: Instant, bulks: u64) -> u64 {
        let (mut connection, mut failed) = (None, 0);
        for number in 0..bulks {
            let due = begun + Duration::from_secs(1) * number as u32 / self.plan.bulks_per_second as u32;
            tokio::time::sleep_until(due).await;
            if Instant::now() > until {
                failed += 1;
                continue;
            }
            let id = format!("{phase}-{number}");
            let callback = self.target.receiver.url(&format!("/bulk/{number}"));
            let body = json!({ "group": CUSTOMER, "id": id, "callback": callback }).to_string();
            let opened = self.post(&mut connection, "/api/bulks", &body).await;
            self.pending().bulks.insert(number, Instant::now());
            let path = format!("/api/bulks/{CUSTOMER}/{id}/seal");
            let sealed = self.post(&mut connection, &path, "{\"expected\":0}").await;
            if !matches!((opened, sealed), (Ok(200..300), Ok(200..300))) {
                self.pending().bulks.remove(&number);
                connection = None;
                failed += 1;
            }
        }
        failed
    }

    /// Sends a request, over a new connection if there is none; returns the status of the response.
    async fn post(&self, connection: &mut Option<Connection>, path: &str, body: &str) -> Result<u16> {
        let response = tokio::time::timeout(RESPONSE_TIMEOUT, self.post_once(connection, path, body)).await;
        response.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
    }

    async fn post_once(&self, connection: &mut Option<Connection>, path: &str, body: &str) -> Result<u16> {
        if connection.is_none() {
            *connection = Some(Connection::open(self.api).await?);
        }
        let Some(open) = connection else { return Ok(0) };
        let response = open.round_trip(&request("POST", path, Some(self.key), body.as_bytes())).await?;
        let (status, is_last) = (response.status, response.is_last);
        if is_last {
            *connection = None;
        }
        Ok(status)
    }
}

/// The results of the requests of one task.
#[derive(Default)]
struct Sent {
    waits: Vec<u64>,
    failed: u64,
}

/// Runs futures concurrently in one task.
async fn all<T>(mut futures: Vec<std::pin::Pin<Box<impl Future<Output = T>>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
