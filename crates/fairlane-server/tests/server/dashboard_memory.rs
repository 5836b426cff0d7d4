//! The memory of a tab: many live updates of a real page in a real Chromium, without waiting for them.

use fairlane::Job;
use fairlane_testkit::browser::Browser;
use serde_json::{Value, json};

use crate::running::Running;

/// Updates of each third. A page reads itself about once a second; what leaks shows in fewer updates than
/// an hour has.
const UPDATES: u64 = 150;
/// Updates of one call of the driver, which is bounded in time.
const AT_A_TIME: u64 = 25;
/// How much the heap may grow from the first third to the last, in bytes: one update that was kept
/// would be more than 20 kB, and all of them more than 6 MB.
const HEAP_GROWTH_MAX: f64 = 1_500_000.0;
/// How many nodes may be added: an update that was kept would have hundreds.
const NODES_GROWTH_MAX: f64 = 1_000.0;

/// Runs before the page: `tick` lets a minute pass and the server's stream tick, and `reads` counts the
/// updates that are complete.
const CLOCK: &str = "(() => {
    const Stream = EventSource;
    let stream;
    window.EventSource = class extends Stream {
        constructor(...settings) { super(...settings); stream = this; }
    };
    const now = performance.now.bind(performance);
    let skipped = 0;
    performance.now = () => now() + skipped;
    window.tick = () => { skipped += 60000; stream.dispatchEvent(new Event('tick')); };
    window.reads = 0;
    const text = Response.prototype.text;
    Response.prototype.text = async function () {
        const body = await text.call(this);
        setTimeout(() => { window.reads += 1; }, 0);
        return body;
    };
})();";

/// Changes the weight of the customer, so that no two updates are the same, and updates the page.
const UPDATE: &str = "const [first, count, done] = arguments;
    const pause = () => new Promise((ready) => setTimeout(ready, 1));
    (async () => {
        for (let number = first; number < first + count; number += 1) {
            const body = new URLSearchParams({ act: 'set', weight: 1 + number % 999 });
            await fetch('acme', { method: 'POST', body, redirect: 'manual' });
            const before = window.reads;
            while (window.reads === before) { window.tick(); await pause(); }
        }
        return window.reads;
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
    for number in 0..40 {
        let job = Job::new("acme", format!("type-{}", number % 8), &number);
        running.fairlane.enqueue(job).await.unwrap().accepted().unwrap();
    }
    let browser = Browser::start().await;
    browser.devtools("Performance.enable", json!({})).await;
    browser.devtools("HeapProfiler.enable", json!({})).await;
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": CLOCK})).await;
    browser.open(&running.url("/customers/acme")).await;
    browser.until_text("Live.").await;
    let mut thirds = Vec::new();
    for third in 0..3 {
        for first in (0..UPDATES).step_by(AT_A_TIME as usize) {
            let arguments = vec![json!(third * UPDATES + first), json!(AT_A_TIME)];
            let reads = browser.client().execute_async(UPDATE, arguments).await.unwrap();
            assert!(matches!(reads, Value::Number(_)), "{reads}");
        }
        thirds.push(metrics(&browser).await);
    }
    browser.until_text(&format!("weight {}", 3 * UPDATES % 999)).await;
    let ((heap, nodes), (last_heap, last_nodes)) = (thirds[0], thirds[2]);
    assert!(last_heap - heap < HEAP_GROWTH_MAX, "{thirds:?}");
    assert!(last_nodes - nodes < NODES_GROWTH_MAX, "{thirds:?}");
    browser.assert_no_errors().await;
}
