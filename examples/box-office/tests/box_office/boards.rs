//! The boards, on an engine in memory and on a real Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use box_office::serve::Running;
use fairlane::Fairlane;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async;
use serde_json::{Value, json};

use crate::support::{Fault, Visitor, faulty, memory, settled, start, start_on};

/// Sells two seats of the first schedule, and the second schedule out.
async fn sell(shop: &Running) -> Visitor {
    let (ada, bob) = (Visitor::join(shop, "ada").await, Visitor::join(shop, "bob").await);
    for seat in 1..=2 {
        ada.buy("schedule-001", seat).await;
    }
    for seat in 1..=3 {
        bob.buy("schedule-002", seat).await;
    }
    settled(shop).await;
    ada
}

async fn check_boards(fairlane: Fairlane) {
    let shop = start_on(fairlane, &["--seats", "3"]).await;
    let ada = sell(&shop).await;
    let popular = ada.get("/api/rankings/popular?limit=10").await;
    let expected = json!({"rankings": [
        {"rank": 1, "scheduleId": "schedule-002", "concertTitle": "Night Trains",
         "concertDate": "2027-01-02", "reservationCount": 3},
        {"rank": 2, "scheduleId": "schedule-001", "concertTitle": "Aurora Strings",
         "concertDate": "2027-01-01", "reservationCount": 2},
    ]});
    assert_eq!(popular, expected);
    let first = ada.get("/api/rankings/popular?limit=1").await;
    assert_eq!(first["rankings"], json!([expected["rankings"][0]]));
    let sold_out = ada.get("/api/rankings/sold-out?limit=10").await;
    let entry = &sold_out["rankings"][0];
    assert_eq!(sold_out["rankings"].as_array().map(Vec::len), Some(1), "{sold_out}");
    let names: Vec<_> =
        entry.as_object().expect("an entry is an object").keys().map(String::as_str).collect();
    let mut expected = ["rank", "scheduleId", "concertTitle", "concertDate", "soldOutDurationSec"];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!((&entry["rank"], &entry["scheduleId"]), (&json!(1), &json!("schedule-002")));
    let took = shop.shop.store.counts().await.expect("counts are read").sold_out_ms["schedule-002"];
    assert_eq!(entry["soldOutDurationSec"], json!(took as f64 / 1000.0), "fractions of seconds are kept");
    shop.stop().await;
}

#[tokio::test]
async fn boards_have_the_confirmed_seats_and_the_times_of_selling_out() {
    check_boards(memory().await).await;
}

#[tokio::test]
async fn boards_have_the_same_on_redis() {
    let redis = RedisServer::start(ServerOptions::default());
    check_boards(Fairlane::open(&redis.url()).await.unwrap()).await;
}

/// Erratum R4.
#[tokio::test]
async fn titles_of_a_board_come_with_one_query() {
    // No page follows the boards, so only this test reads titles.
    let shop = start(&["--seats", "1"]).await;
    let ada = Visitor::join(&shop, "ada").await;
    for schedule in ["schedule-001", "schedule-002", "schedule-003"] {
        ada.buy(schedule, 1).await;
    }
    settled(&shop).await;
    for path in ["/api/rankings/popular", "/api/rankings/sold-out"] {
        let before = shop.shop.store.title_queries();
        let board = ada.get(path).await;
        assert_eq!(board["rankings"].as_array().map(Vec::len), Some(3), "{board}");
        assert_eq!(shop.shop.store.title_queries() - before, 1, "{path}");
    }
    shop.stop().await;
}

/// The first to sell out in the shortest time is first, whatever the order of the sales.
#[tokio::test]
async fn the_fastest_is_first_and_a_cancelled_seat_leaves_the_record() {
    let shop = start(&["--seats", "2"]).await;
    let store = &shop.shop.store;
    let ada = Visitor::join(&shop, "ada").await;
    // The first schedule takes longer: its two payments are a while apart.
    let slow = ada.buy("schedule-001", 1).await;
    let began = box_office::now_ms();
    for seat in 1..=2 {
        ada.buy("schedule-002", seat).await;
    }
    let fast_ms = box_office::now_ms() - began;
    until_async("the clock has moved on", async || box_office::now_ms() > began + 2 * fast_ms + 10).await;
    ada.buy("schedule-001", 2).await;
    settled(&shop).await;
    let order = |board: &Value| -> Vec<Value> {
        board["rankings"].as_array().unwrap().iter().map(|entry| entry["scheduleId"].clone()).collect()
    };
    let board = ada.get("/api/rankings/sold-out").await;
    assert_eq!(order(&board), ["schedule-002", "schedule-001"], "{board}");
    ada.cancel(&slow).await;
    let audit = settled(&shop).await;
    assert_eq!(audit.sold, 3);
    assert_eq!(ada.get("/api/rankings/sold-out").await, board, "it was sold out, and that was the time");
    let popular = ada.get("/api/rankings/popular").await;
    assert_eq!((order(&popular).len(), &popular["rankings"][1]["reservationCount"]), (2, &json!(1)));
    assert_eq!(store.outbox_len().await.unwrap(), 0);
    shop.stop().await;
}

/// The operations of the boards never return, and everything else works: payments, and expiry of
/// holds by the queue.
#[tokio::test]
async fn boards_that_hang_delay_neither_payments_nor_jobs() {
    let is_down = Arc::new(AtomicBool::new(true));
    let switch = is_down.clone();
    let of_boards = ["record_events", "cancel_events", "set_scores", "list_ranks", "set_board"];
    let down = move |stem: &str| {
        (of_boards.contains(&stem) && switch.load(Ordering::SeqCst)).then_some(Fault::Hangs)
    };
    let shop = start_on(faulty(&memory().await, down), &["--hold", "3s", "--seats", "2"]).await;
    let ada = Visitor::join(&shop, "ada").await;
    for seat in 1..=2 {
        ada.buy("schedule-001", seat).await;
    }
    let lapsed = ada.hold("schedule-002", 1).await;
    until_async("the job ends the hold", async || {
        let held = shop.shop.store.counts().await.unwrap().held;
        held == 0 && ada.reservation(&lapsed).await["status"] == "EXPIRED"
    })
    .await;
    is_down.store(false, Ordering::SeqCst);
    settled(&shop).await;
    let popular = ada.get("/api/rankings/popular").await;
    assert_eq!(popular["rankings"][0]["reservationCount"], 2);
    shop.stop().await;
}

#[tokio::test]
async fn a_redis_that_lost_its_boards_gets_them_back_from_the_database() {
    let mut redis = RedisServer::start(ServerOptions::default());
    let shop = start_on(Fairlane::open(&redis.url()).await.unwrap(), &["--seats", "3"]).await;
    let ada = sell(&shop).await;
    redis.restart();
    // The next confirmation finds no board, and brings all others along.
    let eve = shop.shop.store.hold(
        ("schedule-001".to_owned(), 3),
        "eve".to_owned(),
        None,
        (box_office::now_ms(), box_office::now_ms() + 60_000),
    );
    let held = eve.await.unwrap();
    shop.shop.pay(held.reservation, "eve".to_owned()).await.unwrap();
    let audit = settled(&shop).await;
    assert_eq!((audit.sold, audit.points), (6, 600));
    assert_eq!(ada.get("/api/rankings/popular").await["rankings"][0]["reservationCount"], 3);
    shop.stop().await;
}
