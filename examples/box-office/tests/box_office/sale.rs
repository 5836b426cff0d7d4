//! A purchase step by step, and what is refused.

use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async;
use serde_json::{Value, json};

use crate::support::{Visitor, settled, start, text};

#[tokio::test]
async fn a_seat_is_held_paid_and_sold() {
    let shop = start(&[]).await;
    let ada = Visitor::join(&shop, "ada").await;
    assert_eq!(ada.status().await["status"], "ACTIVE");
    assert_eq!(ada.seat("schedule-001", 7).await, "FREE");
    let order = ada.hold("schedule-001", 7).await;
    assert_eq!(ada.seat("schedule-001", 7).await, "HELD");
    assert_eq!(ada.hold("schedule-001", 7).await.id, order.id, "a repeated request has the same hold");
    let (status, paid) = ada.pay(&order).await;
    assert_eq!((status, &paid["status"]), (200, &json!("CONFIRMED")));
    assert_eq!(ada.seat("schedule-001", 7).await, "SOLD");
    assert_eq!(ada.pay(&order).await.0, 200, "a repeated payment says the same");
    let audit = settled(&shop).await;
    assert_eq!((audit.sold, audit.points), (1, 100));
    shop.stop().await;
}

#[tokio::test]
async fn a_seat_has_one_buyer() {
    let shop = start(&[]).await;
    let (ada, bob) = (Visitor::join(&shop, "ada").await, Visitor::join(&shop, "bob").await);
    let order = ada.hold("schedule-001", 1).await;
    let (status, refused) = bob.try_hold("schedule-001", 1).await;
    assert_eq!(status, 409);
    assert!(matches!(refused["code"].as_str(), Some("seat-taken" | "seat-busy")), "{refused}");
    assert!(text(&refused["cure"]).contains("another seat"), "{refused}");
    // The reservation of another user is not there.
    let path = format!("/api/reservations/{}/pay", order.id);
    assert_eq!(bob.send("POST", &path, &bob.pass, Value::Null).await.0, 404);
    assert_eq!(ada.send("POST", &path, &ada.pass, Value::Null).await.0, 200, "a pass pays as well");
    shop.stop().await;
}

#[tokio::test]
async fn a_hold_ends_by_time_and_the_seat_is_free_again() {
    let shop = start(&["--hold", "3s"]).await;
    let (ada, bob) = (Visitor::join(&shop, "ada").await, Visitor::join(&shop, "bob").await);
    let order = ada.hold("schedule-001", 1).await;
    until_async("the seat is free", async || ada.seat("schedule-001", 1).await == "FREE").await;
    assert_eq!(ada.pay(&order).await.1["code"], "hold-ended");
    bob.buy("schedule-001", 1).await;
    // The job of the first hold ends nothing but that hold.
    let audit = settled(&shop).await;
    assert_eq!((audit.sold, bob.seat("schedule-001", 1).await.as_str()), (1, "SOLD"));
    shop.stop().await;
}

#[tokio::test]
async fn a_cancelled_seat_is_free_and_its_price_is_returned() {
    let shop = start(&[]).await;
    let ada = Visitor::join(&shop, "ada").await;
    let order = ada.buy("schedule-002", 3).await;
    assert_eq!(settled(&shop).await.points, 100);
    let (status, cancelled) = ada.cancel(&order).await;
    assert_eq!((status, &cancelled["refunded"]), (200, &json!(true)));
    assert_eq!(ada.cancel(&order).await.1["code"], "cancelled", "once");
    until_async("the money is returned", async || {
        shop.shop.provider.takings().await.is_ok_and(|takings| takings.charged == 0)
    })
    .await;
    assert_eq!(settled(&shop).await.sold, 0, "and the board counts it no longer");
    let held = ada.hold("schedule-002", 3).await;
    assert_eq!(ada.cancel(&held).await.1["refunded"], false);
    shop.stop().await;
}

#[tokio::test]
async fn a_buyer_who_waits_cannot_reserve_and_is_next_when_a_place_is_free() {
    let shop = start(&["--max-active", "1"]).await;
    let (ada, mut bob) = (Visitor::join(&shop, "ada").await, Visitor::join(&shop, "bob").await);
    let status = bob.status().await;
    assert_eq!((&status["status"], &status["position"]), (&json!("WAITING"), &json!(1)));
    assert_eq!(bob.try_hold("schedule-001", 1).await.0, 401);
    bob.pass = bob.token.clone();
    let (status, refused) = bob.try_hold("schedule-001", 1).await;
    assert_eq!(
        (status, text(&refused["cure"]).contains("queue/status")),
        (401, true),
        "a token is not a pass"
    );
    assert_eq!(ada.send("DELETE", "/api/queue/token", &ada.token, Value::Null).await.0, 204);
    let status = bob.status().await;
    assert_eq!(status["status"], "ACTIVE");
    bob.pass = text(&status["pass"]);
    bob.buy("schedule-001", 1).await;
    assert_eq!(ada.status().await["status"], "EXPIRED");
    shop.stop().await;
}

#[tokio::test]
async fn wrong_requests_are_refused_with_a_cure() {
    let shop = start(&["--price", "600"]).await;
    let ada = Visitor::join(&shop, "ada").await;
    let cases = [
        ("POST", "/api/queue/token", "", json!({"userId": "no spaces"}), 400),
        ("POST", "/api/queue/token", "", json!({"userId": "x".repeat(65)}), 400),
        ("POST", "/api/queue/token", "", json!({"user": "ada"}), 400),
        ("POST", "/api/queue/token", "", json!({"userId": "x".repeat(20_000)}), 400),
        ("GET", "/api/queue/status", "", Value::Null, 401),
        ("GET", "/api/queue/status", "forged.YWRh.AAAA", Value::Null, 401),
        ("POST", "/api/reservations", "forged", json!({"scheduleId": "schedule-001", "seat": 1}), 401),
        ("POST", "/api/reservations", &ada.pass, json!({"scheduleId": "schedule-001", "seat": -1}), 400),
        ("POST", "/api/reservations", &ada.pass, json!({"scheduleId": "schedule-001", "seat": 13}), 404),
        ("POST", "/api/reservations", &ada.pass, json!({"scheduleId": "'; DROP TABLE seat", "seat": 1}), 404),
        ("POST", "/api/reservations/unknown/pay", &ada.pass, Value::Null, 404),
        ("DELETE", "/api/reservations/unknown", &ada.pass, Value::Null, 404),
        ("GET", "/api/schedules/unknown/seats", "", Value::Null, 404),
        ("GET", "/api/rankings/popular?limit=0", "", Value::Null, 400),
        ("GET", "/api/rankings/popular?limit=101", "", Value::Null, 400),
        ("GET", "/api/rankings/sold-out?limit=ten", "", Value::Null, 400),
        ("GET", "/api/unknown", "", Value::Null, 404),
        ("PUT", "/api/concerts", "", Value::Null, 405),
    ];
    for (method, path, token, body, expected) in cases {
        let (status, refused) = ada.send(method, path, token, body).await;
        assert_eq!(status, expected, "{method} {path}: {refused}");
        let texts = ["code", "message", "cure"].map(|name| text(&refused[name]));
        assert!(texts.iter().all(|text| !text.is_empty()), "{method} {path}: {refused}");
    }
    ada.buy("schedule-001", 1).await;
    let second = ada.hold("schedule-001", 2).await;
    let (status, refused) = ada.pay(&second).await;
    assert_eq!((status, &refused["code"]), (402, &json!("too-few-points")));
    assert_eq!(ada.reservation(&second).await["status"], "HELD", "the seat is still held");
    for seat in [3, 4] {
        ada.hold("schedule-001", seat).await;
    }
    assert_eq!(ada.try_hold("schedule-001", 5).await.1["code"], "too-many-seats");
    shop.stop().await;
}

#[tokio::test]
async fn two_instances_share_the_seats_the_room_and_the_keys() {
    let redis = RedisServer::start(ServerOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db").display().to_string();
    let arguments = ["--database", &database, "--max-active", "2"];
    let open = || async { fairlane::Fairlane::open(&redis.url()).await.unwrap() };
    let one = crate::support::start_on(open().await, &arguments).await;
    let other = crate::support::start_on(open().await, &arguments).await;
    let (ada, bob) = (Visitor::join(&one, "ada").await, Visitor::join(&other, "bob").await);
    let eve = Visitor::join(&other, "eve").await;
    assert_eq!(eve.status().await["position"], 1, "the two instances have one room");
    let order = ada.hold("schedule-001", 1).await;
    assert_eq!(bob.try_hold("schedule-001", 1).await.0, 409);
    // What one instance issued, the other one accepts.
    let (status, _) = bob.pay(&order).await;
    assert_eq!(status, 200);
    let audit = settled(&other).await;
    assert_eq!((audit.sold, audit.points), (1, 100));
    one.stop().await;
    other.stop().await;
}
