//! Who was served when, the search in payloads, and the limits of downstreams, in a real Chromium.

use fairlane::Job;
use fairlane_testkit::browser::Browser;
use fantoccini::Locator;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::dashboard_pages::show_everywhere;
use crate::running::Running;

async fn page(running: &Running, path: &str) -> String {
    running.request(Method::GET, path).send().await.unwrap().text().await.unwrap()
}

/// Enqueues jobs through the server, which counts what passes through it.
async fn enqueue(running: &Running, group: &str, jobs: usize) {
    let job = |number: usize| json!({"group": group, "type": "mail", "id": format!("m-{number}"), "payload": number});
    let jobs: Vec<Value> = (0..jobs).map(job).collect();
    for part in jobs.chunks(100) {
        let (status, answer) = running.post("/api/jobs/batch", json!({"jobs": part})).await;
        assert!(status.is_success(), "{answer}");
    }
}

/// Leases jobs and settles them with an outcome.
async fn serve(running: &Running, jobs: usize, outcome: &Value) {
    let lease = json!({"worker": "w", "types": ["mail"], "count": jobs, "wait_ms": 0});
    let (_, leased) = running.post("/api/leases", lease).await;
    let settle = |job: &Value| {
        let mut one = json!({"group": job["group"], "id": job["id"], "fence": job["fence"]});
        one.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        one
    };
    let settlements: Vec<Value> = leased["jobs"].as_array().unwrap().iter().map(settle).collect();
    let (status, answer) = running.post("/api/leases/settle", json!({"settlements": settlements})).await;
    assert!(status.is_success(), "{answer}");
}

#[tokio::test]
async fn a_picture_and_a_table_show_who_was_served() {
    let running = Running::start().await;
    let browser = Browser::start().await;
    browser.open(&running.url("/served")).await;
    browser.until_text("No job has passed through this server").await;
    for (group, jobs) in [("acme", 300), ("globex", 20), ("initech", 10)] {
        enqueue(&running, group, jobs).await;
    }
    serve(&running, 60, &json!({"outcome": "succeeded"})).await;
    browser.until_text("60 jobs of 3 customers were served").await;
    let text = browser.text().await;
    assert!(text.contains("Jobs that arrived") && text.contains("The same as a table"), "{text}");
    show_everywhere(&browser, "served").await;
    browser.assert_no_errors().await;

    // A moment is a link that can be opened by anyone, with or without scripts.
    browser.disable_scripts().await;
    browser.open(&running.url("/served")).await;
    let link = browser.client().find(Locator::Css("tbody th a")).await.unwrap();
    let address = link.attr("href").await.unwrap().unwrap();
    assert!(address.contains("served?at=2"), "{address}");
    link.click().await.unwrap();
    browser.until_text("10 seconds earlier").await;
    let text = browser.text().await;
    assert!(text.contains("Median wait") && text.contains("acme"), "{text}");
    browser.screenshot("served-at").await;
}

#[tokio::test]
async fn a_moment_without_figures_and_a_wrong_time_are_explained() {
    let running = Running::start().await;
    let old = page(&running, "/served?at=2001-01-01T00:00:00Z").await;
    assert!(old.contains("has no figures of this moment"), "{old}");
    let wrong = running.request(Method::GET, "/served?at=noon").send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(wrong.text().await.unwrap().contains("is not a point in time"));
}

#[tokio::test]
async fn jobs_that_are_refused_or_enqueued_twice_are_not_counted() {
    let running = Running::start().await;
    enqueue(&running, "acme", 20).await;
    enqueue(&running, "acme", 20).await;
    serve(&running, 5, &json!({"outcome": "succeeded"})).await;
    serve(&running, 5, &json!({"outcome": "throttled"})).await;
    let page = page(&running, "/served").await;
    assert!(page.contains("5 jobs of 1 customer were served"), "{page}");
    assert_eq!(table_sums(&page), (5, 20), "{page}");
}

/// Jobs served and jobs arrived in all rows of the table. A row ends every ten seconds, so the jobs
/// of a test may be in two.
fn table_sums(page: &str) -> (u64, u64) {
    let cells = page.split("<td class=\"number\">").skip(1).filter_map(|rest| {
        let (served, arrived) = rest.split('<').next()?.split_once(" of ")?;
        Some((served.parse::<u64>().ok()?, arrived.parse::<u64>().ok()?))
    });
    cells.fold((0, 0), |sums, cell| (sums.0 + cell.0, sums.1 + cell.1))
}

#[tokio::test]
async fn jobs_are_found_by_a_text_in_their_payload_in_bounded_steps() {
    let running = Running::start().await;
    let job = |number: usize| Job::new("acme", "mail", &json!({"to": format!("user-{number}@example.com")}));
    running.fairlane.enqueue_all((0..600).map(|number| job(number).id(format!("m-{number}")))).await.unwrap();
    let browser = Browser::start().await;
    browser.disable_scripts().await;
    browser.open(&running.url("/jobs")).await;
    for (field, text) in [("group", "acme"), ("text", "USER-555@")] {
        browser.client().find(Locator::Id(field)).await.unwrap().send_keys(text).await.unwrap();
    }
    crate::dashboard_pages::press(&browser, "Search").await;
    browser.until_text("Searched 250 jobs: 0 contain USER-555@. There are more jobs to search.").await;
    for searched in ["Searched 250 jobs: 0 contain", "Searched 100 jobs: 1 contain"] {
        let next = browser.client().find(Locator::Css("a[rel=next]")).await.unwrap();
        next.click().await.unwrap();
        browser.until_text(searched).await;
    }
    browser.until_text("m-555").await;
    show_everywhere_without_scripts(&browser).await;
    let other = page(&running, "/jobs?group=acme&type=render&text=user").await;
    assert!(other.contains("Searched <b>0 jobs</b>"), "{other}");
    let long = "x".repeat(200);
    let long = running.request(Method::GET, &format!("/jobs?text={long}")).send().await.unwrap();
    assert_eq!(long.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

/// A picture; axe-core cannot run without scripts.
async fn show_everywhere_without_scripts(browser: &Browser) {
    browser.screenshot("jobs-search-desktop-light").await;
}

#[tokio::test]
async fn a_search_is_accessible_and_a_downstream_shows_its_cuts() {
    let running = Running::start().await;
    enqueue(&running, "acme", 40).await;
    let browser = Browser::start().await;
    browser.open(&running.url("/jobs?group=acme&text=3")).await;
    browser.until_text("Searched 40 jobs").await;
    show_everywhere(&browser, "jobs-search").await;
    browser.open(&running.url("/types/mail")).await;
    browser.until_text("The limit over the last hour").await;
    // The first samples have no limit; then the downstream refuses jobs.
    browser.until_text("None: the downstream refused no job").await;
    serve(&running, 10, &json!({"outcome": "succeeded"})).await;
    serve(&running, 5, &json!({"outcome": "throttled", "retry_after_ms": 60_000})).await;
    browser.until_text("asked to wait").await;
    show_everywhere(&browser, "type-cut").await;
    browser.assert_no_errors().await;
}
