//! What the tests share: an instance, and a client that makes the requests of a buyer.

use std::sync::Arc;
use std::time::Duration;

use box_office::audit::{Audit, audit};
use box_office::crowd::Client;
use box_office::serve::{self, Running};
use box_office::trial::instance_options;
use fairlane::{Engine, EngineError, Fairlane};
use fairlane_core::{Command, Reply};
use fairlane_engine::{BoxFuture, Hooks, layer};
use fairlane_testkit::wait::eventually;
use serde_json::{Value, json};

/// How often a command that hangs looks whether the fault is over.
const HANG_POLL: Duration = Duration::from_millis(5);

/// An instance with a small catalogue and a fast provider; more arguments can be given.
pub async fn start_on(fairlane: Fairlane, arguments: &[&str]) -> Running {
    let small = ["--listen", "127.0.0.1:0", "--schedules", "3", "--seats", "12", "--provider-delay", "1ms"];
    let given = |name: &&str| name.starts_with("--") && arguments.contains(name);
    let defaults = small.chunks(2).filter(|pair| !given(&pair[0])).flatten().copied();
    let all: Vec<&str> = defaults.chain(arguments.iter().copied()).collect();
    serve::start_on(fairlane, &instance_options(&all)).await.expect("an instance starts")
}

/// An instance with everything in memory.
pub async fn start(arguments: &[&str]) -> Running {
    start_on(memory().await, arguments).await
}

pub async fn memory() -> Fairlane {
    Fairlane::open("memory:").await.expect("an engine in memory opens")
}

/// An engine whose commands fail as `fault_of` says for their stems.
pub fn faulty<F>(inner: &Fairlane, fault_of: F) -> Fairlane
where
    F: Fn(&'static str) -> Option<Fault> + Send + Sync + 'static,
{
    let fault_of = Arc::new(fault_of);
    let submit =
        move |inner: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Result<Reply, EngineError>> {
            let fault_of = fault_of.clone();
            Box::pin(async move {
                loop {
                    match fault_of(command.stem()) {
                        None => return inner.submit(command).await,
                        Some(Fault::Hangs) => tokio::time::sleep(HANG_POLL).await,
                        Some(Fault::Fails) => {
                            let reason = "made to fail".to_owned();
                            return Err(EngineError::Unavailable { engine: "test", reason });
                        }
                    }
                }
            })
        };
    Fairlane::from_engine(layer(inner.engine().clone(), Hooks::default().submit(submit)))
}

/// How a command fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It returns an error at once.
    Fails,
    /// It does not return until the fault is over.
    Hangs,
}

/// A buyer with a place in the waiting room.
pub struct Visitor {
    client: Client,
    pub token: String,
    pub pass: String,
}

/// A seat that a visitor holds.
pub struct Order {
    pub id: String,
    pub token: String,
}

impl Visitor {
    /// Joins the waiting room; the place may be active or not.
    pub async fn join(running: &Running, user: &str) -> Self {
        let client = Client::new(&[running.url()]).expect("the address is valid");
        let (status, place) = send(&client, "POST", "/api/queue/token", "", json!({"userId": user})).await;
        assert_eq!(status, 201, "{place}");
        Self { client, token: text(&place["token"]), pass: text(&place["pass"]) }
    }

    pub async fn status(&self) -> Value {
        send(&self.client, "GET", "/api/queue/status", &self.token, Value::Null).await.1
    }

    pub async fn send(&self, method: &str, path: &str, token: &str, body: Value) -> (u16, Value) {
        send(&self.client, method, path, token, body).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, "", Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn try_hold(&self, schedule: &str, seat: u32) -> (u16, Value) {
        let body = json!({"scheduleId": schedule, "seat": seat});
        self.send("POST", "/api/reservations", &self.pass, body).await
    }

    pub async fn hold(&self, schedule: &str, seat: u32) -> Order {
        let (status, held) = self.try_hold(schedule, seat).await;
        assert_eq!(status, 201, "{held}");
        Order { id: text(&held["reservationId"]), token: text(&held["paymentToken"]) }
    }

    pub async fn pay(&self, order: &Order) -> (u16, Value) {
        let path = format!("/api/reservations/{}/pay", order.id);
        self.send("POST", &path, &order.token, Value::Null).await
    }

    /// Buys a seat.
    pub async fn buy(&self, schedule: &str, seat: u32) -> Order {
        let order = self.hold(schedule, seat).await;
        let (status, paid) = self.pay(&order).await;
        assert_eq!((status, &paid["status"]), (200, &json!("CONFIRMED")), "{paid}");
        order
    }

    pub async fn cancel(&self, order: &Order) -> (u16, Value) {
        self.send("DELETE", &format!("/api/reservations/{}", order.id), &order.token, Value::Null).await
    }

    pub async fn reservation(&self, order: &Order) -> Value {
        self.send("GET", &format!("/api/reservations/{}", order.id), &order.token, Value::Null).await.1
    }

    /// The status of a seat.
    pub async fn seat(&self, schedule: &str, seat: usize) -> String {
        text(&self.get(&format!("/api/schedules/{schedule}/seats")).await["seats"][seat - 1]["status"])
    }
}

async fn send(client: &Client, method: &str, path: &str, token: &str, body: Value) -> (u16, Value) {
    let method = method.parse().expect("a method");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, body) = client.send(&method, path, Some(token).filter(|it| !it.is_empty()), &body).await;
    (status.as_u16(), body)
}

/// Waits until nothing is open, and asserts that seats, money and boards agree.
pub async fn settled(running: &Running) -> Audit {
    eventually(async || {
        let audit = audit(&running.shop, &running.boards).await.expect("an audit");
        if audit.open == 0 && audit.problems.is_empty() { Ok(audit) } else { Err(audit) }
    })
    .await
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
