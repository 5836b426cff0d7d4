//! The page in a real Chromium.

use box_office::serve::Running;
use fairlane_testkit::browser::{Browser, DESKTOP, PHONE};
use fairlane_testkit::wait::until_async;
use fantoccini::Locator;
use fantoccini::key::Key;

use crate::support::{Visitor, start};

async fn click(browser: &Browser, css: &str) {
    let element = browser.client().find(Locator::Css(css)).await.expect("the element exists");
    element.click().await.expect("it can be clicked");
}

fn seat(label: &str) -> String {
    format!("button[aria-label^='{label}']")
}

async fn until_seat(browser: &Browser, label: &str) {
    let css = format!("button[aria-label='{label}']");
    until_async(label, async || browser.client().find(Locator::Css(&css)).await.is_ok()).await;
}

async fn open() -> (Running, Browser) {
    let shop = start(&["--schedules", "10", "--seats", "50", "--max-active", "2"]).await;
    let browser = Browser::start().await;
    browser.open(&shop.url()).await;
    browser.until_text("Aurora Strings").await;
    until_seat(&browser, "Row A, seat 1, free").await;
    (shop, browser)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_waits_chooses_with_the_keyboard_and_pays() {
    let (shop, browser) = open().await;
    browser.assert_accessible().await;
    let (ada, bob) = (Visitor::join(&shop, "ada").await, Visitor::join(&shop, "bob").await);
    click(&browser, "#act").await;
    browser.until_text("You are in the waiting room").await;
    browser.until_text("of 1 waiting").await;
    browser.assert_accessible().await;
    browser.screenshot("box-office-waiting").await;

    // Another buyer's seat changes while the page is open.
    ada.buy("schedule-001", 4).await;
    until_seat(&browser, "Row A, seat 4, sold").await;
    bob.hold("schedule-001", 5).await;
    until_seat(&browser, "Row A, seat 5, held").await;
    browser.until_text("1 sold").await;

    ada.send("DELETE", "/api/queue/token", &ada.token, serde_json::Value::Null).await;
    browser.until_text("It is your turn").await;
    browser.assert_accessible().await;

    // Into the plan with Tab once, then with the arrow keys: down to row C, right to seat 2.
    let first = browser.client().find(Locator::Css(&seat("Row A, seat 1"))).await.unwrap();
    first
        .send_keys(&[Key::Down, Key::Down, Key::Right, Key::Enter].map(char::from).iter().collect::<String>())
        .await
        .unwrap();
    browser.until_text("Row C, seat 2").await;
    browser.until_text("left to pay").await;
    until_seat(&browser, "Row C, seat 2, yours").await;
    browser.assert_accessible().await;
    browser.screenshot("box-office-held").await;
    click(&browser, "#act").await;
    browser.until_text("The seat is yours").await;
    browser.assert_accessible().await;
    browser.screenshot("box-office-bought").await;

    // A reload shows the same.
    browser.open(&shop.url()).await;
    browser.until_text("The seat is yours").await;
    browser.assert_no_errors().await;
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_accessible_on_a_phone_and_in_the_dark() {
    let (shop, browser) = open().await;
    let ada = Visitor::join(&shop, "ada").await;
    for number in 1..=4 {
        ada.buy("schedule-001", number * 3).await;
    }
    browser.until_text("4 sold").await;
    for (name, size, dark) in [
        ("box-office-phone", PHONE, false),
        ("box-office-phone-dark", PHONE, true),
        ("box-office-desktop", DESKTOP, false),
        ("box-office-desktop-dark", DESKTOP, true),
    ] {
        browser.resize(size).await;
        browser.prefer_dark(dark).await;
        browser.assert_accessible().await;
        browser.screenshot(name).await;
    }
    browser.assert_no_errors().await;
    shop.stop().await;
}
