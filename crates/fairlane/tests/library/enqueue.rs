//! Jobs outside bulk actions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlane::{
    Context, Difference, Error, Fairlane, Job, JobReceipt, JobState, Level, Outcome, Refusal, RetryBudget,
    Settings,
};

use super::lossy::Lossy;

fn job(id: &str) -> Job {
    Job::new("customer-7", "mail", &"hello").id(id)
}

fn small(group_backlog_max: u64) -> Settings {
    Settings { group_backlog_max, ..Settings::default() }
}

#[tokio::test]
async fn a_job_enqueued_twice_is_stored_once() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    assert!(fairlane.enqueue(job("a")).await.unwrap().is_created());
    let again = fairlane.enqueue(job("a")).await.unwrap();
    assert_eq!(again.receipt, JobReceipt::Exists { bulk: None });
    assert_eq!(again.accepted().unwrap().id.to_string(), "a");
    assert_eq!(fairlane.queue_view().await.unwrap().backlog, 1);
}

#[tokio::test]
async fn a_different_job_with_the_same_id_is_an_error_that_names_the_difference() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    fairlane.enqueue(job("a")).await.unwrap().accepted().unwrap();
    let other = fairlane.enqueue(job("a").level(Level::High)).await.unwrap();
    assert!(!other.is_created());
    let error = other.accepted().unwrap_err();
    assert!(matches!(error, Error::Differs { difference: Difference::Level, owner: None, .. }), "{error}");
    assert!(error.to_string().contains("with another level") && !error.is_retryable(), "{error}");
    let later = fairlane.enqueue(job("a").delay(Duration::from_secs(60))).await.unwrap();
    assert_eq!(later.receipt, JobReceipt::Exists { bulk: None }, "a delay is relative");
}

#[tokio::test]
async fn a_receipt_has_the_backlog_of_its_group() {
    let fairlane = Fairlane::open_with("memory:", small(3)).await.unwrap();
    let backlogs =
        |receipts: Vec<fairlane::Receipt>| receipts.iter().map(|one| one.backlog).collect::<Vec<_>>();
    let other = Job::new("customer-8", "mail", &1);
    let receipts = fairlane.enqueue_all([job("a"), job("b"), other, job("a")]).await.unwrap();
    assert_eq!(backlogs(receipts), [1, 2, 1, 2]);
    let receipts = fairlane.enqueue_with_retry([job("b"), job("c")], RetryBudget::NONE).await.unwrap();
    assert_eq!(backlogs(receipts), [2, 3]);
}

#[tokio::test]
async fn the_result_of_a_job_is_parsed_and_its_absence_is_explained() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let enqueued = ["length", "nothing", "failure"].map(|name| Job::new("g", name, &"hello").id(name));
    fairlane.enqueue_all(enqueued).await.unwrap();
    let worker = fairlane.worker().process("nothing", |_: String, _| async {});
    let worker =
        worker.process("length", |text: String, _: Context| async move { Outcome::done(&text.len()) });
    let failure = |_: String, _: Context| async { Outcome::failed("address", "no such address") };
    let pool = worker.process("failure", failure).start().unwrap();
    assert_eq!(fairlane.job("g", "length").result::<usize>().await.unwrap(), 5);
    fairlane.job("g", "nothing").result::<()>().await.unwrap();
    for (id, words) in [
        ("length", "its result has another form: invalid type: integer"),
        ("failure", "it failed: address: no such address"),
        ("missing", "it does not exist"),
    ] {
        let error = fairlane.job("g", id).result::<String>().await.unwrap_err();
        assert!(matches!(error, Error::NoResult { .. }) && error.to_string().contains(words), "{error}");
    }
    pool.stop().await;
}

#[tokio::test]
async fn a_trace_reaches_the_processor_and_is_shown_in_the_view() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let wrong = fairlane.enqueue(job("a").trace(&trace[1..])).await.unwrap_err();
    assert!(matches!(&wrong, Error::Job { reason, .. } if reason.contains("W3C traceparent")), "{wrong}");
    fairlane.enqueue(job("a").trace(trace)).await.unwrap().accepted().unwrap();
    let trace_of = |_: String, job: Context| async move { fairlane::Outcome::done(&job.trace()) };
    let pool = fairlane.worker().process("mail", trace_of).start().unwrap();
    let view = fairlane.job("customer-7", "a").finished().await.unwrap().unwrap();
    assert_eq!(&*view.note, format!("{trace:?}").as_bytes());
    assert_eq!(view.trace.unwrap().as_str(), trace);
    pool.stop().await;
}

#[tokio::test]
async fn a_refusal_is_a_receipt_with_the_delay_before_a_retry() {
    let fairlane = Fairlane::open_with("memory:", small(1)).await.unwrap();
    let receipts = fairlane.enqueue_all([job("a"), job("b")]).await.unwrap();
    assert!(receipts[0].is_created());
    let refused = receipts[1].clone().accepted().unwrap_err();
    assert!(refused.is_retryable());
    let Error::Refused { job, refusal, retry_after } = &refused else { panic!("{refused}") };
    assert_eq!((job.id.to_string().as_str(), *refusal), ("b", Refusal::GroupFull));
    assert!(*retry_after > Duration::ZERO);
    assert!(refused.to_string().contains("try again in"), "{refused}");
}

#[tokio::test]
async fn nothing_is_sent_when_one_of_the_jobs_is_invalid() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let error = fairlane.enqueue_all([job("a"), job("b").cost(0)]).await.unwrap_err();
    assert!(error.to_string().contains("\"b\""), "{error}");
    assert_eq!(fairlane.queue_view().await.unwrap().backlog, 0);
}

#[tokio::test]
async fn retries_wait_for_room_and_keep_the_order() {
    let fairlane = Fairlane::open_with("memory:", small(2)).await.unwrap();
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    let pool = fairlane
        .worker()
        .configure(|settings| settings.worker_count = 1)
        .process("mail", move |_: String, job: Context| {
            let done = done.clone();
            async move { done.send(job.id().to_string()).unwrap() }
        })
        .start()
        .unwrap();
    let names: Vec<String> = (1..=6).map(|number| format!("job-{number}")).collect();
    let jobs = names.iter().map(|name| job(name));
    let receipts = fairlane.enqueue_with_retry(jobs, RetryBudget::default()).await.unwrap();
    assert!(receipts.iter().all(|receipt| receipt.is_created()));
    for name in names {
        assert_eq!(order.recv().await.unwrap(), name);
    }
    pool.stop().await;
}

#[tokio::test]
async fn without_a_retry_budget_backpressure_is_an_error_at_once() {
    let (lossy, fairlane) = Lossy::open(small(1)).await;
    let full = fairlane.enqueue_with_retry([job("a"), job("b")], RetryBudget::NONE).await.unwrap_err();
    assert!(matches!(&full, Error::GaveUp { reason, .. } if reason.contains("unfinished jobs")), "{full}");
    lossy.to_lose.store(1, Ordering::SeqCst);
    let down = fairlane.enqueue_with_retry([job("a")], RetryBudget::NONE).await.unwrap_err();
    assert!(down.is_retryable() && down.to_string().contains("the reply is lost"), "{down}");
}

#[tokio::test]
async fn a_job_is_waited_for_inspected_and_cancelled() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let missing = fairlane.job("customer-7", "a");
    assert!(missing.view().await.unwrap().is_none() && missing.explain().await.unwrap().is_none());
    assert!(missing.finished().await.unwrap().is_none());
    assert_eq!(missing.cancel().await.unwrap(), fairlane::Cancellation::Unknown);

    fairlane.enqueue(job("a").delay(Duration::from_secs(3600))).await.unwrap().accepted().unwrap();
    let existing = fairlane.job("customer-7", "a");
    assert_eq!(existing.view().await.unwrap().unwrap().state, JobState::Waiting);
    assert_eq!(existing.cancel().await.unwrap(), fairlane::Cancellation::Cancelled);
    assert_eq!(existing.finished().await.unwrap().unwrap().state, JobState::Cancelled);
}

#[tokio::test]
async fn a_directory_keeps_its_jobs_and_attaching_keeps_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("dir:{}/queue", folder.path().display());
    assert!(Fairlane::attach(&url).await.err().unwrap().to_string().contains("there is no directory"));
    let settings = Settings { max_retry_count: 7, ..Settings::default() };
    let fairlane = Fairlane::open_with(&url, settings).await.unwrap();
    fairlane.enqueue(job("a")).await.unwrap().accepted().unwrap();
    drop(fairlane);
    let totals = Fairlane::attach(&url).await.unwrap().queue_view().await.unwrap();
    assert_eq!((totals.backlog, totals.settings.max_retry_count), (1, 7));
}
