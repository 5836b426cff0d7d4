//! The memory of a tab: many live updates of a real page in a real Chromium, without waiting for them.

use fairlane::Job;
use fairlane_testkit::browser::Browser;
use fairlane_testkit::wait::eventually;
use serde_json::json;

use crate::running::Running;

/// Updates of each third. A page reads itself about once a second, so all of them are an hour.
const UPDATES: u64 = 1200;
/// Updates of one call of the driver, which is bounded in time.
const AT_A_TIME: u64 = 50;
/// Customers whose pages are shown in turn.
const CUSTOMERS: u64 = 7;
/// How much the heap may grow from the first third to the last, in bytes: one update that was kept
/// would be more than 20 kB, and all of them more than 40 MB.
const HEAP_GROWTH_MAX: f64 = 1_500_000.0;
/// How many nodes may be added: an update that was kept would have hundreds.
const NODES_GROWTH_MAX: f64 = 1_000.0;

/// Runs before the page: `update` has the page read that of a customer. It lets a minute pass and the
/// server's stream tick, and completes with the number of updates so far when the page has changed.
const CLOCK: &str = "(() => {
    const Stream = EventSource;
    let stream;
    window.EventSource = class extends Stream {
        constructor(...settings) { super(...settings); stream = this; }
    };
    let [clock, isReading, customer, updates, updated] = [0, false, 'customer-0', 0, () => {}];
    performance.now = () => clock;
    const fetched = window.fetch.bind(window);
    window.fetch = (_, settings) => { isReading = true; return fetched(customer, settings); };
    const text = Response.prototype.text;
    Response.prototype.text = async function () {
        const body = await text.call(this);
        setTimeout(() => { isReading = false; updates += 1; updated(updates); }, 0);
        return body;
    };
    window.update = (next) => new Promise((ready) => {
        [customer, updated] = [next, ready];
        // A page that the stream has just opened reads itself.
        if (isReading) return;
        clock += 60000;
        stream.dispatchEvent(new Event('tick'));
    });
})();";

/// Updates the page with those of other customers, so that no two updates in a row are the same. The
/// server renders the page of a customer once a second, however often it is read.
const UPDATE: &str = "const [first, count, customers, done] = arguments;
    (async () => {
        let updates = 0;
        for (let number = first; number < first + count; number += 1) {
            updates = await window.update(`customer-${number % customers}`);
        }
        return updates;
    })().then(done, (error) => done(String(error)));";

/// A metric of the tab, after its garbage was collected.
async fn metrics(browser: &Browser) -> (f64, f64) {
    browser.devtools("HeapProfiler.collectGarbage", json!({})).await;
    let metrics = browser.devtools("Performance.getMetrics", json!({})).await;
    let of = |name: &str| {
        let found = metrics["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        found.and_then(|metric| metric["value"].as_f64()).unwrap()
    };
    (of("JSHeapUsedSize"), of("Nodes"))
}

#[tokio::test]
async fn live_updates_do_not_grow_the_memory_of_the_tab() {
    let running = Running::start().await;
    for number in 0..CUSTOMERS {
        let group = format!("customer-{number}");
        let jobs = (0..40).map(|job| Job::new(&group, format!("type-{}", job % 8), &job));
        running.fairlane.enqueue_all(jobs).await.unwrap();
        running.patch(&format!("/api/groups/{group}"), json!({"weight": 10 + number})).await;
    }
    let browser = Browser::start().await;
    browser.devtools("Performance.enable", json!({})).await;
    browser.devtools("HeapProfiler.enable", json!({})).await;
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": CLOCK})).await;
    browser.open(&running.url("/customers/customer-0")).await;
    browser.until_text("Live.").await;
    let update = async |first: u64, count: u64| {
        let arguments = vec![json!(first), json!(count), json!(CUSTOMERS)];
        let updates = browser.client().execute_async(UPDATE, arguments).await.unwrap();
        updates.as_u64().unwrap_or_else(|| panic!("{updates}"))
    };
    let mut thirds = Vec::new();
    for third in 0..3 {
        let mut updates = 0;
        for first in (0..UPDATES).step_by(AT_A_TIME as usize) {
            updates = update(third * UPDATES + first, AT_A_TIME).await;
        }
        assert!(updates >= (third + 1) * UPDATES, "{updates}");
        thirds.push(metrics(&browser).await);
    }
    // The page shows the customer that it has read last.
    eventually(async || {
        update(3, 1).await;
        let text = browser.text().await;
        if text.contains("weight 13") { Ok(()) } else { Err(text) }
    })
    .await;
    let ((heap, nodes), (last_heap, last_nodes)) = (thirds[0], thirds[2]);
    assert!(last_heap - heap < HEAP_GROWTH_MAX, "{thirds:?}");
    assert!(last_nodes - nodes < NODES_GROWTH_MAX, "{thirds:?}");
    browser.assert_no_errors().await;
}
