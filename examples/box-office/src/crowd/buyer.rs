//! One buyer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Client, CrowdOptions, Tally};

/// A pass lasts for a minute; a new one is fetched well before.
const PASS_FOR: Duration = Duration::from_secs(25);
/// How often a buyer looks again while all seats that are left are held, or a payment is under way.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// The buyer has a seat.
    Bought,
    /// The buyer held a seat and did not pay.
    Undecided,
    /// Everything was sold.
    TooLate,
}

/// How the attempt to pay for a seat ended.
enum Paid {
    Yes,
    /// The seat is gone, and nothing was paid.
    No,
}

pub struct Buyer {
    name: String,
    client: Arc<Client>,
    tally: Arc<Tally>,
    options: CrowdOptions,
    rng: fastrand::Rng,
    token: String,
    pass: String,
    pass_since: Instant,
}

impl Buyer {
    pub fn new(
        name: String,
        client: Arc<Client>,
        tally: Arc<Tally>,
        options: CrowdOptions,
        rng: fastrand::Rng,
    ) -> Self {
        let (token, pass) = Default::default();
        Self { name, client, tally, options, rng, token, pass, pass_since: Instant::now() }
    }

    /// The whole visit, from the arrival to the departure.
    pub async fn visit(&mut self) -> Visit {
        self.wait_for_admission().await;
        let visit = self.shop().await;
        let path = "/api/queue/token";
        self.client.send(&Method::DELETE, path, Some(&self.token), "").await;
        visit
    }

    /// Joins the waiting room, and polls it until the place is active.
    async fn wait_for_admission(&mut self) {
        let body = json!({"userId": self.name}).to_string();
        let mut status = self.client.send(&Method::POST, "/api/queue/token", None, &body).await.1;
        let mut position = u64::MAX;
        loop {
            match status["status"].as_str() {
                Some("ACTIVE") => return self.keep_pass(&status),
                Some("WAITING") => {
                    let now = status["position"].as_u64().unwrap_or(u64::MAX);
                    if now > position {
                        self.tally.overtaken.fetch_add(1, Relaxed);
                    }
                    position = now;
                }
                _ => {
                    self.tally.lost_places.fetch_add(1, Relaxed);
                    position = u64::MAX;
                    sleep(LOOK_EVERY).await;
                    status = self.client.send(&Method::POST, "/api/queue/token", None, &body).await.1;
                    continue;
                }
            }
            self.token = text(&status["token"]);
            sleep(Duration::from_millis(status["pollAfterMs"].as_u64().unwrap_or(1000))).await;
            status = self.client.send(&Method::GET, "/api/queue/status", Some(&self.token), "").await.1;
        }
    }

    fn keep_pass(&mut self, status: &Value) {
        (self.token, self.pass) = (text(&status["token"]), text(&status["pass"]));
        self.pass_since = Instant::now();
    }

    /// Fetches a new pass, or joins again if the place has ended.
    async fn renew_pass(&mut self) {
        let status = self.client.send(&Method::GET, "/api/queue/status", Some(&self.token), "").await.1;
        match status["pass"].as_str() {
            Some(_) => self.keep_pass(&status),
            None => self.wait_for_admission().await,
        }
    }

    async fn shop(&mut self) -> Visit {
        let is_undecided = self.rng.f64() < self.options.undecided;
        loop {
            if self.pass_since.elapsed() > PASS_FOR {
                self.renew_pass().await;
            }
            let Some((schedule, seat)) = self.choose().await else { return Visit::TooLate };
            self.think().await;
            let body = json!({"scheduleId": schedule, "seat": seat}).to_string();
            let (status, held) =
                self.client.send(&Method::POST, "/api/reservations", Some(&self.pass), &body).await;
            match status {
                StatusCode::CREATED => {}
                StatusCode::UNAUTHORIZED => {
                    self.renew_pass().await;
                    continue;
                }
                _ => {
                    self.tally.conflicts.fetch_add(1, Relaxed);
                    continue;
                }
            }
            self.think().await;
            let path = format!("/api/reservations/{}", text(&held["reservationId"]));
            let token = text(&held["paymentToken"]);
            if is_undecided {
                if self.rng.bool() {
                    self.client.send(&Method::DELETE, &path, Some(&token), "").await;
                }
                return Visit::Undecided;
            }
            if let Paid::Yes = self.pay(&path, &token).await {
                return Visit::Bought;
            }
        }
    }

    /// A free seat of a schedule, the first ones preferred; `None` if everything is sold.
    async fn choose(&mut self) -> Option<(String, u64)> {
        loop {
            let (_, shown) = self.client.send(&Method::GET, "/api/concerts", None, "").await;
            let concerts = shown["concerts"].as_array().cloned().unwrap_or_default();
            let schedules: Vec<&Value> =
                concerts.iter().filter_map(|concert| concert["schedules"].as_array()).flatten().collect();
            if schedules.iter().all(|schedule| schedule["sold"] == schedule["capacity"]) {
                return None;
            }
            let mut left: Vec<&&Value> =
                schedules.iter().filter(|schedule| schedule["free"] != json!(0)).collect();
            left.sort_by_key(|schedule| text(&schedule["id"]));
            if let Some(schedule) = self.prefer(left.len()).and_then(|index| left.get(index)) {
                let schedule = text(&schedule["id"]);
                let path = format!("/api/schedules/{schedule}/seats");
                let (_, plan) = self.client.send(&Method::GET, &path, None, "").await;
                let seats = plan["seats"].as_array().cloned().unwrap_or_default();
                let free: Vec<_> = seats.iter().filter(|seat| seat["status"] == "FREE").collect();
                if let Some(seat) = self.rng.choice(free) {
                    return Some((schedule, seat["number"].as_u64().unwrap_or(1)));
                }
            }
            // What is left is held by others, who may change their minds.
            sleep(LOOK_EVERY).await;
        }
    }

    /// An index below `count`; small ones are more likely.
    fn prefer(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| (self.rng.f64() * self.rng.f64() * count as f64) as usize)
    }

    async fn pay(&mut self, path: &str, token: &str) -> Paid {
        loop {
            let (status, answer) =
                self.client.send(&Method::POST, &format!("{path}/pay"), Some(token), "").await;
            match (status, answer["code"].as_str()) {
                (StatusCode::OK, _) => return Paid::Yes,
                (StatusCode::ACCEPTED, _) | (_, Some("payment-under-way")) => {
                    if let Some(paid) = self.follow(path, token).await {
                        return paid;
                    }
                }
                (_, Some("payment-failed")) => {}
                _ => return Paid::No,
            }
            self.tally.payments_again.fetch_add(1, Relaxed);
        }
    }

    /// Waits until a payment has ended; `None` if the seat can be paid again.
    async fn follow(&self, path: &str, token: &str) -> Option<Paid> {
        loop {
            let (_, reservation) = self.client.send(&Method::GET, path, Some(token), "").await;
            match reservation["status"].as_str() {
                Some("PAYING") => sleep(LOOK_EVERY).await,
                Some("CONFIRMED") => return Some(Paid::Yes),
                Some("HELD") => return None,
                _ => return Some(Paid::No),
            }
        }
    }

    async fn think(&mut self) {
        sleep(self.options.think.mul_f64(self.rng.f64())).await;
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
