//! Changes from the dashboard that take a while: previews of new limits, and actions on many dead jobs.

use std::sync::Arc;

use fairlane::{Fairlane, Job};
use fairlane_core::queue::{self, Lease, Leased, Outcome, Settle, Settlement};
use fairlane_core::{Command, Reply, RequestNumber, TypeId, WorkerId};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use fairlane_server::ServerSettings;
use fairlane_testkit::browser::Browser;
use fairlane_testkit::wait::eventually;
use fantoccini::Locator;
use reqwest::{Method, StatusCode};
use tokio::sync::Semaphore;

use crate::dashboard::form;
use crate::dashboard_pages::{press, show_everywhere};
use crate::running::Running;

async fn page(running: &Running, path: &str) -> String {
    running.request(Method::GET, path).send().await.unwrap().text().await.unwrap()
}

async fn weight(running: &Running, group: &str) -> u32 {
    let view = running.fairlane.group(group).view().await.unwrap().unwrap();
    u32::try_from(view.settings.weight.get()).unwrap()
}

async fn enqueue(fairlane: &Fairlane, group: &str, jobs: usize) {
    let jobs = (0..jobs).map(|number| Job::new(group, "mail", &number).id(format!("{group}-{number}")));
    fairlane.enqueue_all(jobs).await.unwrap();
}

#[tokio::test]
async fn a_change_is_previewed_and_then_applied_without_scripts() {
    let running = Running::start().await;
    for (group, jobs) in [("acme", 900), ("globex", 900), ("initech", 900)] {
        enqueue(&running.fairlane, group, jobs).await;
    }
    let browser = Browser::start().await;
    browser.disable_scripts().await;
    browser.open(&running.url("/customers/acme")).await;
    let field = browser.client().find(Locator::Id("weight")).await.unwrap();
    field.clear().await.unwrap();
    field.send_keys("3").await.unwrap();
    press(&browser, "Preview").await;
    browser.until_text("Preview for customer acme").await;
    let text = browser.text().await;
    assert!(text.contains("Weight: 1 → 3") && text.contains("Nothing has changed yet"), "{text}");
    assert!(text.contains("globex") && text.contains("loses") && text.contains("gains"), "{text}");
    assert_eq!(weight(&running, "acme").await, 1, "a preview changes nothing");
    press(&browser, "Apply").await;
    browser.until_text("The settings are saved").await;
    assert_eq!(weight(&running, "acme").await, 3);

    press(&browser, "Preview the pause").await;
    browser.until_text("State: running → paused").await;
    press(&browser, "Apply").await;
    browser.until_text("Paused. Running jobs continue").await;
    press(&browser, "Preview the resumption").await;
    browser.until_text("State: paused → running").await;
}

#[tokio::test]
async fn a_preview_is_accessible_at_every_width_and_in_both_schemes() {
    let running = Running::start().await;
    for (group, jobs) in [("acme", 900), ("globex", 800), ("initech", 700), ("umbrella", 40)] {
        enqueue(&running.fairlane, group, jobs).await;
    }
    let browser = Browser::start().await;
    browser.open(&running.url("/customers/acme")).await;
    browser.until_text("Live.").await;
    let field = browser.client().find(Locator::Id("rate")).await.unwrap();
    field.send_keys("5/s").await.unwrap();
    press(&browser, "Preview").await;
    browser.until_text("Rate: no limit → 5/s").await;
    show_everywhere(&browser, "preview").await;
    browser.assert_no_errors().await;
}

#[tokio::test]
async fn a_preview_of_nothing_or_of_nonsense_is_explained() {
    let running = Running::start().await;
    enqueue(&running.fairlane, "acme", 3).await;
    let same = form(&running, "/customers/acme", "act=preview&weight=1").send().await.unwrap();
    assert!(same.text().await.unwrap().contains("nothing would change"));
    let wrong = form(&running, "/customers/acme", "act=preview&weight=1&rate=fast").send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let unknown = form(&running, "/customers/nobody", "act=preview&weight=1").send().await.unwrap();
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

/// Makes dead jobs of a group.
async fn kill(fairlane: &Fairlane, group: &str, jobs: usize) {
    enqueue(fairlane, group, jobs).await;
    let mut killed = 0;
    for number in 1.. {
        let lease = Lease {
            worker: WorkerId::new(group).unwrap(),
            request: RequestNumber(number),
            types: vec![TypeId::new("mail").unwrap()],
            jobs_max: 100,
            lease_ms: 30_000,
        };
        let Leased::Jobs { jobs: leased, .. } = fairlane.engine().call(lease).await.unwrap() else {
            panic!("the request is new");
        };
        killed += leased.len();
        let settlement = |job: queue::LeasedJob| Settlement {
            job: job.job,
            fence: job.fence,
            outcome: Outcome::Failed { reason: Arc::from(&b"{\"code\":\"gone\",\"reason\":\"gone\"}"[..]) },
        };
        let settlements = leased.into_iter().map(settlement).collect();
        fairlane.engine().call(Settle { settlements }).await.unwrap();
        if killed == jobs {
            return;
        }
    }
}

async fn until_page(running: &Running, path: &str, words: &str) -> String {
    eventually(async || {
        let page = page(running, path).await;
        if page.contains(words) { Ok(page) } else { Err(page) }
    })
    .await
}

#[tokio::test]
async fn all_dead_jobs_that_match_are_discarded_in_the_background() {
    let running = Running::start().await;
    kill(&running.fairlane, "acme", 1200).await;
    kill(&running.fairlane, "globex", 30).await;
    let started = form(&running, "/dead", "act=discard&group=acme").send().await.unwrap();
    assert_eq!(started.status(), StatusCode::SEE_OTHER);
    until_page(&running, "/dead", "1,200 jobs discarded.").await;
    assert_eq!(running.fairlane.queue_view().await.unwrap().failed, 30);
    until_page(&running, "/activity", "discarded 1,200 jobs").await;
    // Another one may begin now.
    form(&running, "/dead", "act=requeue").send().await.unwrap();
    until_page(&running, "/dead", "30 jobs requeued.").await;
    assert_eq!(running.fairlane.queue_view().await.unwrap().failed, 0);
}

/// A queue whose requeues wait for a permit.
async fn gated() -> (Running, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let permits = gate.clone();
    let hold =
        move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Result<Reply, EngineError>> {
            let permits = permits.clone();
            Box::pin(async move {
                if matches!(command, Command::Queue(queue::Command::RequeueDead(_))) {
                    permits.acquire().await.unwrap().forget();
                }
                engine.submit(command).await
            })
        };
    let memory = Fairlane::open("memory:").await.unwrap();
    let engine = layer(memory.engine().clone(), Hooks::default().submit(hold));
    let running = Running::start_with(Fairlane::from_engine(engine), None, ServerSettings::default()).await;
    (running, gate)
}

#[tokio::test]
async fn an_action_shows_its_progress_can_be_stopped_and_says_what_is_left() {
    let (running, gate) = gated().await;
    kill(&running.fairlane, "acme", 1500).await;
    let browser = Browser::start().await;
    browser.open(&running.url("/dead?group=acme")).await;
    browser.until_text("Live.").await;
    press(&browser, "Requeue all that match").await;
    browser.until_text("Requeue all dead jobs that match the filter?").await;
    press(&browser, "Yes, do it").await;
    browser.until_text("Requeue dead jobs running").await;
    let second = form(&running, "/dead", "act=discard&group=acme").send().await.unwrap();
    assert_eq!(second.status(), StatusCode::CONFLICT);
    assert!(second.text().await.unwrap().contains("Another action on dead jobs is running"));

    // The first step ends, the second one waits.
    gate.add_permits(4);
    browser.until_text("jobs requeued; ").await;
    // The progress is on the page with any filter; this one lists no jobs.
    browser.open(&running.url("/dead?group=globex")).await;
    browser.until_text("Requeue dead jobs running").await;
    show_everywhere(&browser, "dead-action").await;
    browser.open(&running.url("/dead?group=acme")).await;
    browser.until_text("Requeue dead jobs running").await;
    press(&browser, "Stop").await;
    browser.until_text("The action stops after its present step.").await;
    gate.add_permits(100);
    browser.until_text("Requeue dead jobs stopped").await;
    let text = browser.text().await;
    let number = |after: &str| -> u64 {
        let words = text.split(after).next().unwrap().rsplit(' ').next().unwrap();
        words.trim_start_matches('\n').replace(',', "").rsplit('\n').next().unwrap().parse().unwrap()
    };
    let (done, left) = (number(" jobs requeued"), number(" dead jobs not looked at"));
    assert!(done >= 500 && left > 0 && done + left == 1500, "{text}");
    assert_eq!(running.fairlane.queue_view().await.unwrap().failed, left);
    browser.assert_no_errors().await;
}
