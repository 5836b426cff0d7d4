//! Locks, boards and payments that fail, and processes that die on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use box_office::crowd::{self, CrowdOptions};
use box_office::now_ms;
use box_office::provider::Charge;
use box_office::store::Payable;
use fairlane_testkit::wait::until_async;
use serde_json::json;

use crate::support::{Fault, Visitor, faulty, memory, settled, start, start_on};

fn is_lock(stem: &str) -> bool {
    stem.contains("lock")
}

/// Everyone wants the same few seats at once, and no lock helps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_no_seat_is_sold_twice() {
    let fairlane = faulty(&memory().await, |stem| is_lock(stem).then_some(Fault::Fails));
    let shop = start_on(fairlane, &["--schedules", "1", "--seats", "5", "--max-active", "200"]).await;
    let mut buyers = Vec::new();
    for number in 0..60 {
        let buyer = Visitor::join(&shop, &format!("buyer-{number}")).await;
        buyers.push(async move {
            let (status, held) = buyer.try_hold("schedule-001", number % 5 + 1).await;
            (status, held["code"].clone())
        });
    }
    let tasks: Vec<_> = buyers.into_iter().map(tokio::spawn).collect();
    let (mut held, mut taken) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            (201, _) => held += 1,
            (409, code) if code == "seat-taken" => taken += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((held, taken), (5, 55));
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_sells_out_without_locks_while_payments_fail() {
    let fairlane = faulty(&memory().await, |stem| is_lock(stem).then_some(Fault::Fails));
    let arguments = ["--schedules", "2", "--seats", "10", "--provider-failures", "0.3", "--hold", "2s"];
    let shop = start_on(fairlane, &arguments).await;
    let options = CrowdOptions {
        buyers: 60,
        arrive_within: std::time::Duration::from_millis(50),
        think: std::time::Duration::from_millis(5),
        ..CrowdOptions::default()
    };
    let crowd = crowd::run(&[shop.url()], &options).await.unwrap();
    let audit = settled(&shop).await;
    assert_eq!((crowd.bought, audit.sold, audit.points), (20, 20, 2000), "{crowd:?}");
    assert_eq!(crowd.overtaken, 0);
    shop.stop().await;
}

/// The fence of a lock that a later holder has overtaken is refused by the database.
#[tokio::test]
async fn a_stale_fence_is_refused() {
    let shop = start(&[]).await;
    let store = &shop.shop.store;
    let seat = || ("schedule-001".to_owned(), 1);
    let times = (now_ms(), now_ms() + 60_000);
    let held = store.hold(seat(), "ada".to_owned(), Some(8), times).await.unwrap();
    store.cancel(held.reservation, "ada".to_owned(), now_ms()).await.unwrap();
    let late = store.hold(seat(), "bob".to_owned(), Some(7), times).await.unwrap_err();
    assert_eq!(late.to_string(), "another buyer was faster");
    assert!(store.hold(seat(), "eve".to_owned(), Some(9), times).await.is_ok());
    shop.stop().await;
}

/// The process ends after the provider has charged: the job confirms the seat.
#[tokio::test]
async fn a_payment_that_was_charged_before_a_crash_is_confirmed() {
    // The job that confirms the seat reaches the queue after the charge.
    let is_charged = Arc::new(AtomicBool::new(false));
    let switch = is_charged.clone();
    let early =
        move |stem: &str| (stem == "enqueue" && !switch.load(Ordering::SeqCst)).then_some(Fault::Hangs);
    let shop = start_on(faulty(&memory().await, early), &[]).await;
    let ada = Visitor::join(&shop, "ada").await;
    let order = ada.hold("schedule-001", 1).await;
    let begun = shop.shop.store.begin_payment(order.id.clone(), "ada".to_owned(), (now_ms(), now_ms())).await;
    let Payable::Begun(attempt) = begun.unwrap() else { panic!("the seat is held") };
    let charge = shop.shop.provider.charge(attempt.key(), "ada".to_owned(), attempt.price).await.unwrap();
    assert_eq!(charge, Charge::Charged);
    is_charged.store(true, Ordering::SeqCst);
    until_async("it is confirmed", async || ada.reservation(&order).await["status"] == "CONFIRMED").await;
    assert_eq!(settled(&shop).await.points, 100);
    shop.stop().await;
}

/// The process ends before the provider was asked: the seat is held again, and a charge that arrives
/// late takes nothing.
#[tokio::test]
async fn a_payment_that_was_not_charged_before_a_crash_is_undone() {
    let shop = start(&[]).await;
    let ada = Visitor::join(&shop, "ada").await;
    let order = ada.hold("schedule-001", 1).await;
    let begun = shop
        .shop
        .store
        .begin_payment(order.id.clone(), "ada".to_owned(), (now_ms(), now_ms() + 60_000))
        .await;
    let Payable::Begun(attempt) = begun.unwrap() else { panic!("the seat is held") };
    assert_eq!(ada.pay(&order).await.1["code"], "payment-under-way");
    shop.shop.recover(order.id.clone(), attempt.number).await.unwrap();
    assert_eq!(ada.reservation(&order).await["status"], "HELD");
    let late = shop.shop.provider.charge(attempt.key(), "ada".to_owned(), attempt.price).await.unwrap();
    assert_eq!(late, Charge::Closed);
    let (status, paid) = ada.pay(&order).await;
    assert_eq!((status, &paid["status"]), (200, &json!("CONFIRMED")), "a new attempt has a new key");
    assert_eq!(settled(&shop).await.points, 100);
    shop.stop().await;
}

/// With an engine that never answers again, what is held is paid all the same; the boards catch up.
#[tokio::test]
async fn a_payment_needs_no_engine_and_the_boards_catch_up() {
    let is_down = Arc::new(AtomicBool::new(false));
    let switch = is_down.clone();
    let down = move |_: &str| switch.load(Ordering::SeqCst).then_some(Fault::Hangs);
    let shop = start_on(faulty(&memory().await, down), &[]).await;
    let ada = Visitor::join(&shop, "ada").await;
    let first = ada.hold("schedule-001", 1).await;
    is_down.store(true, Ordering::SeqCst);
    assert_eq!(ada.pay(&first).await.0, 200);
    // A new seat can be taken, too: the pass is checked offline, and the database decides.
    ada.buy("schedule-001", 2).await;
    is_down.store(false, Ordering::SeqCst);
    let audit = settled(&shop).await;
    assert_eq!((audit.sold, audit.points), (2, 200));
    shop.stop().await;
}
