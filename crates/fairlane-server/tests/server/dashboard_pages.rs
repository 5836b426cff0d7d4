//! The dashboard in a real Chromium: every page, wide and narrow, light and dark, with axe-core, and
//! without scripts.

use std::time::{Duration, SystemTime};

use fairlane::{BoardSettings, Job, Settings, WindowKind};
use fairlane_testkit::browser::{Browser, DESKTOP, PHONE};
use fairlane_testkit::wait::eventually;
use fantoccini::Locator;
use serde_json::json;

use crate::running::Running;

/// A queue with something on every page.
async fn busy() -> Running {
    let running = Running::over("memory:", Settings::default()).await;
    let fairlane = &running.fairlane;
    for (group, jobs) in [("acme", 240), ("globex", 60), ("initech", 12), ("umbrella", 3)] {
        let jobs = (0..jobs).map(|number| {
            Job::new(group, "mail", &json!({"to": "ada@example.com", "number": number}))
                .id(format!("mail-{number}"))
        });
        fairlane.enqueue_all(jobs).await.unwrap();
    }
    fairlane
        .enqueue(Job::new("acme", "render", &json!({"fence": 1_152_921_504_606_846_977_u64})).id("picture"))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    fairlane.group("globex").weight(3).rate(fairlane::parse_rate("100/s").unwrap()).apply().await.unwrap();
    fairlane.group("umbrella").pause().apply().await.unwrap();
    let leased = json!({"worker": "worker-1", "types": ["mail"], "count": 8, "wait_ms": 0});
    let (_, leases) = running.post("/api/leases", leased).await;
    let settle = |job: &serde_json::Value, at: usize| {
        let mut one = json!({"group": job["group"], "id": job["id"], "fence": job["fence"]});
        match at {
            0 | 1 => one["outcome"] = json!("succeeded"),
            _ => {
                one["outcome"] = json!("failed");
                one["code"] = json!("smtp_550");
                one["reason"] = json!("mailbox unavailable");
            }
        }
        one
    };
    let jobs = leases["jobs"].as_array().unwrap();
    let settled: Vec<_> = jobs.iter().take(5).enumerate().map(|(at, job)| settle(job, at)).collect();
    let (status, answer) = running.post("/api/leases/settle", json!({"settlements": settled})).await;
    assert!(status.is_success(), "{answer}");
    let bulk = fairlane.bulk("acme", "newsletter").open().await.unwrap();
    bulk.add_all((0..50).map(|number| bulk.job("mail", &number))).await.unwrap();
    bulk.seal(None).await.unwrap();
    let lock = fairlane.lock("acme:invoice").ttl(Duration::from_secs(600)).lock().await.unwrap();
    lock.detach().await.unwrap();
    fairlane.room("concert").join("ada").await.unwrap();
    let board = fairlane.ranking("popular");
    let windows = [WindowKind::Day].into_iter().collect();
    board.create(BoardSettings { windows, ..BoardSettings::default() }).await.unwrap();
    for number in 0..6 {
        let (event, member) = (format!("event-{number}"), format!("concert-{}", number % 3));
        board.record(&event, &member, SystemTime::now()).await.unwrap();
    }
    running
}

const PAGES: [(&str, &str, &str); 18] = [
    ("overview", "/", "What stands still"),
    ("customers", "/customers", "acme"),
    ("customers-by-name", "/customers?sort=name", "globex"),
    ("customer", "/customers/acme", "Jobs by type"),
    ("jobs", "/jobs?group=acme", "mail-20"),
    ("job", "/jobs/acme/picture", "1152921504606846977"),
    ("dead", "/dead", "Requeue all that match"),
    ("bulks", "/bulks?group=acme", "newsletter"),
    ("bulk", "/bulks/acme/newsletter", "Export results"),
    ("types", "/types", "render"),
    ("type", "/types/mail", "Limit found"),
    ("workers", "/workers", "worker-1"),
    ("locks", "/locks", "acme:invoice"),
    ("rooms", "/rooms/concert", "Pause admission"),
    ("rankings", "/rankings", "popular"),
    ("ranking", "/rankings/popular?member=concert-1", "First 3 members of 3"),
    ("outbox", "/outbox", "No database is configured"),
    ("activity", "/activity", "Activity"),
];

/// Checks the page that is open at both widths and in both schemes, and takes pictures.
pub async fn show_everywhere(browser: &Browser, name: &str) {
    for (size, width) in [(DESKTOP, "desktop"), (PHONE, "phone")] {
        for dark in [false, true] {
            browser.resize(size).await;
            browser.prefer_dark(dark).await;
            browser.assert_accessible().await;
            let scheme = if dark { "dark" } else { "light" };
            browser.screenshot(&format!("{name}-{width}-{scheme}")).await;
        }
    }
    browser.resize(DESKTOP).await;
    browser.prefer_dark(false).await;
    let hidden =
        "const list = document.querySelector('.top nav ul'); return list.scrollWidth - list.clientWidth";
    let hidden = browser.client().execute(hidden, Vec::new()).await.unwrap();
    assert_eq!(hidden, 0, "pixels of the navigation that a desktop does not show");
}

/// Presses the first button with this label.
pub async fn press(browser: &Browser, label: &str) {
    let button = format!("//button[normalize-space()='{label}']");
    browser.client().find(Locator::XPath(&button)).await.unwrap().click().await.unwrap();
}

#[tokio::test]
async fn every_page_is_accessible_at_every_width_and_in_both_schemes() {
    let running = busy().await;
    let browser = Browser::start().await;
    for (name, path, words) in PAGES {
        browser.open(&running.url(path)).await;
        browser.until_text(words).await;
        browser.until_text("Live.").await;
        show_everywhere(&browser, name).await;
        browser.assert_no_errors().await;
    }
}

#[tokio::test]
async fn pages_change_by_themselves_and_say_when_the_server_is_gone() {
    let running = Running::start().await;
    let browser = Browser::start().await;
    browser.open(&running.url("/customers?sort=name")).await;
    browser.until_text("No customer").await;
    running.fairlane.enqueue(Job::new("late", "mail", &1)).await.unwrap().accepted().unwrap();
    browser.until_text("late").await;
    running.server.stop().await;
    browser.until_text("Connection lost").await;
    browser.screenshot("connection-lost").await;
}

#[tokio::test]
async fn controls_work_without_scripts() {
    let running = busy().await;
    let browser = Browser::start().await;
    browser.disable_scripts().await;
    browser.open(&running.url("/customers/acme")).await;
    let client = browser.client();
    let press = async |label: &str| press(&browser, label).await;
    press("Pause").await;
    browser.until_text("Paused. Running jobs continue").await;
    press("Resume").await;
    browser.until_text("Resumed.").await;
    let weight = client.find(Locator::Id("weight")).await.unwrap();
    weight.clear().await.unwrap();
    weight.send_keys("7").await.unwrap();
    press("Save").await;
    browser.until_text("The settings are saved").await;
    assert_eq!(running.fairlane.group("acme").view().await.unwrap().unwrap().settings.weight.get(), 7);

    browser.open(&running.url("/bulks/acme/newsletter")).await;
    press("Hold").await;
    browser.until_text("On hold.").await;
    press("Resume").await;
    browser.until_text("Resumed.").await;
    press("Cancel").await;
    browser.until_text("Cancelled.").await;

    browser.open(&running.url("/dead?code=smtp_550")).await;
    press("Requeue all that match").await;
    // Without scripts, the page shows the progress when it is opened again.
    eventually(async || {
        browser.open(&running.url("/dead?code=smtp_550")).await;
        let text = browser.text().await;
        if text.contains("3 jobs requeued.") { Ok(()) } else { Err(text) }
    })
    .await;
    browser.open(&running.url("/types/mail")).await;
    press("Pause").await;
    browser.until_text("Paused.").await;
    browser.open(&running.url("/locks")).await;
    press("Break").await;
    browser.until_text("The holders have lost the lock.").await;
    browser.open(&running.url("/rooms/concert")).await;
    press("Pause admission").await;
    browser.until_text("We are pausing admission for a moment.").await;
    browser.open(&running.url("/audit")).await;
    press("Audit now").await;
    browser.until_text("clean").await;
    browser.open(&running.url("/activity")).await;
    browser.until_text("lock acme:invoice").await;
}

#[tokio::test]
async fn member_of_a_board_is_found_in_the_season_and_in_a_window() {
    let running = busy().await;
    let browser = Browser::start().await;
    browser.disable_scripts().await;
    let client = browser.client();
    let press = async |path: &str| {
        client.find(Locator::XPath(path)).await.unwrap().click().await.unwrap();
    };
    browser.open(&running.url("/rankings")).await;
    press("//a[.='popular']").await;
    browser.until_text("First 3 members of 3").await;
    client.find(Locator::Id("member")).await.unwrap().send_keys("concert-2").await.unwrap();
    press("//button[.='Find']").await;
    browser.until_text("Rank 1 of 3, score 2").await;
    press("//a[.='This day']").await;
    browser.until_text("First 3 members of 3").await;
    client.find(Locator::Id("member")).await.unwrap().send_keys("nobody").await.unwrap();
    press("//button[.='Find']").await;
    browser.until_text("This member is not in this standing.").await;
    browser.assert_no_errors().await;
}

#[tokio::test]
async fn destructive_controls_ask_first_and_keys_lead_to_pages() {
    let running = busy().await;
    let browser = Browser::start().await;
    browser.open(&running.url("/jobs/acme/picture")).await;
    browser.until_text("Live.").await;
    let client = browser.client();
    client.find(Locator::XPath("//button[.='Cancel']")).await.unwrap().click().await.unwrap();
    browser.until_text("Cancel this job? It will not run.").await;
    client.find(Locator::XPath("//dialog//button[.='Yes, do it']")).await.unwrap().click().await.unwrap();
    browser.until_text("Cancelled.").await;
    let body = client.find(Locator::Css("body")).await.unwrap();
    body.send_keys("gw").await.unwrap();
    browser.until_text("Jobs by worker").await;
    browser.assert_no_errors().await;
}
