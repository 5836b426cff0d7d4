//! The behaviours of processors, and the outcomes of their jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::*;
use fairlane_core::Trace;
use fairlane_core::queue::{CancelJob, InspectType, JobState, JobView, NewJob, Progress};
use fairlane_worker::*;

fn problem(view: &JobView) -> Problem {
    Problem::from_bytes(&view.note)
}

#[tokio::test]
async fn a_processor_gets_its_payload_and_its_result_is_stored() {
    on_both_engines(|engine| async move {
        enqueue(&engine, vec![job("a", "1", "double", "21"), job("a", "2", "double", "\"words\"")]).await;
        let pool = Worker::new(engine.clone())
            .settings(quick())
            .process("double", |number: u64, job: Context| async move {
                assert_eq!((job.attempt(), job.type_id().to_string()), (1, "double".into()));
                Outcome::done(&(number * 2))
            })
            .start()
            .unwrap();
        let done = reaches(&engine, "a", "1", JobState::Completed).await;
        assert_eq!(&*done.note, b"42");
        let failed = reaches(&engine, "a", "2", JobState::Failed).await;
        assert_eq!((problem(&failed).code.as_str(), failed.attempts), ("bad_payload", 1));
        assert_eq!(pool.stop().await.left, 0);
    })
    .await;
}

#[tokio::test]
async fn a_processor_gets_the_trace_of_its_job_in_every_attempt() {
    on_both_engines(|engine| async move {
        let trace = Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let traced = NewJob { trace: Some(trace.clone()), ..job("a", "traced", "trace", "") };
        enqueue(&engine, vec![traced, job("a", "plain", "trace", "")]).await;
        let pool = Worker::new(engine.clone())
            .settings(quick())
            .process("trace", |(): (), job: Context| async move {
                match job.attempt() {
                    1 => Outcome::retry("first", "once more"),
                    _ => Outcome::done(&job.trace()),
                }
            })
            .start()
            .unwrap();
        let done = reaches(&engine, "a", "traced", JobState::Completed).await;
        assert_eq!((&*done.note, done.attempts), (format!("\"{trace}\"").as_bytes(), 2));
        assert_eq!(&*reaches(&engine, "a", "plain", JobState::Completed).await.note, b"null");
        pool.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_panic_is_a_retryable_failure_and_affects_no_other_job() {
    on_both_engines(|engine| async move {
        let panics = Arc::new(AtomicUsize::new(0));
        let counted = panics.clone();
        enqueue(&engine, vec![job("a", "always", "bad", ""), job("a", "fine", "good", "")]).await;
        let pool = Worker::new(engine.clone())
            .settings(quick())
            .process("bad", move |(): (), _| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move {
                    if true {
                        panic!("out of cheese");
                    }
                }
            })
            .process("good", |(): (), _| async {})
            .start()
            .unwrap();
        let dead = reaches(&engine, "a", "always", JobState::Failed).await;
        assert_eq!(problem(&dead), Problem::new("panic", "out of cheese"));
        assert_eq!((dead.attempts, panics.load(Ordering::SeqCst)), (4, 4), "one and three retries");
        reaches(&engine, "a", "fine", JobState::Completed).await;
        pool.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_panic_before_the_first_await_or_in_a_drop_is_a_retryable_failure() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("too late");
        }
    }
    let engine = embedded().await;
    enqueue(&engine, vec![job("a", "early", "early", ""), job("a", "late", "late", "")]).await;
    let options = TypeOptions { timeout: Some(Duration::from_millis(5)), ..TypeOptions::default() };
    let pool = Worker::new(engine.clone())
        .settings(quick())
        .process("early", |(): (), _| -> std::future::Ready<()> { panic!("too early") })
        .processor_with("late", options, |_: Context| async {
            let _guard = PanicsInDrop;
            std::future::pending::<()>().await
        })
        .start()
        .unwrap();
    for id in ["early", "late"] {
        let dead = reaches(&engine, "a", id, JobState::Failed).await;
        assert_eq!((problem(&dead), dead.attempts), (Problem::new("panic", format!("too {id}")), 4));
    }
    assert_eq!(pool.stop().await.left, 0);
}

#[tokio::test]
async fn a_processor_that_hangs_is_dropped_after_its_timeout() {
    on_both_engines(|engine| async move {
        struct Dropped(Arc<AtomicUsize>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = drops.clone();
        enqueue(&engine, vec![job("a", "1", "hang", "")]).await;
        let options = TypeOptions { timeout: Some(Duration::from_millis(30)), ..TypeOptions::default() };
        let pool = Worker::new(engine.clone())
            .settings(quick())
            .processor_with("hang", options, move |_: Context| {
                let guard = Dropped(counted.clone());
                async move {
                    let _guard = guard;
                    std::future::pending::<()>().await
                }
            })
            .start()
            .unwrap();
        let dead = reaches(&engine, "a", "1", JobState::Failed).await;
        assert_eq!(problem(&dead), Problem::new("timeout", "it took longer than 30 ms"));
        assert_eq!((dead.attempts, drops.load(Ordering::SeqCst)), (4, 4));
        assert_eq!(pool.stop().await.left, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_processor_that_blocks_its_thread_keeps_its_slot_but_not_its_job() {
    let engine = embedded().await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let events = RecordedEvents::default();
    enqueue(&engine, vec![job("a", "stuck", "block", "")]).await;
    let options = TypeOptions { timeout: Some(Duration::from_millis(20)), ..TypeOptions::default() };
    let held = blocked.clone();
    let pool = Worker::new(engine.clone())
        .settings(WorkerSettings { worker_count: 2, ..quick() })
        .on_event(events.hook())
        .processor_with("block", options, move |job: Context| {
            let held = held.clone();
            async move {
                if job.attempt() == 1 {
                    let _ = held.lock().unwrap().recv();
                }
            }
        })
        .process("good", |(): (), _| async {})
        .start()
        .unwrap();
    reaches(&engine, "a", "stuck", JobState::Completed).await;
    assert!(events.any(|event| matches!(event, Event::Ignoring { .. })));
    enqueue(&engine, (0..20).map(|n| job("a", &format!("g{n}"), "good", "")).collect()).await;
    drained(&engine).await;
    drop(release);
    assert_eq!(pool.stop().await.left, 0);
}

#[tokio::test]
async fn blocking_code_that_outlasts_a_stop_is_not_handed_back_while_it_runs() {
    let engine = embedded().await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let settings = WorkerSettings { shutdown_grace_period: Duration::from_millis(20), ..quick() };
    enqueue(&engine, vec![job("a", "1", "block", ""), job("a", "2", "quick", "3")]).await;
    let pool = Worker::new(engine.clone())
        .settings(settings)
        .processor("block", blocking(move |(): (), _| blocked.lock().unwrap().recv().unwrap_or(())))
        .processor("quick", blocking(|number: u64, _| Outcome::done(&(number * 2))))
        .start()
        .unwrap();
    reaches(&engine, "a", "1", JobState::Processing).await;
    assert_eq!(&*reaches(&engine, "a", "2", JobState::Completed).await.note, b"6");
    assert_eq!(pool.stop().await.left, 1);
    assert_eq!(view(&engine, "a", "1").await.state, JobState::Processing, "its lease will run out");
    drop(release);
}

#[tokio::test]
async fn blocking_code_that_outlasts_its_timeout_frees_its_slot_when_it_returns() {
    let engine = embedded().await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let events = RecordedEvents::default();
    enqueue(&engine, vec![job("a", "1", "block", "")]).await;
    let options = TypeOptions { timeout: Some(Duration::from_millis(20)), ..TypeOptions::default() };
    let block = blocking(move |(): (), job: Context| {
        if job.attempt() == 1 {
            let _ = blocked.lock().unwrap().recv();
        }
    });
    let pool = Worker::new(engine.clone())
        .settings(WorkerSettings { worker_count: 1, ..quick() })
        .on_event(events.hook())
        .processor_with("block", options, block)
        .start()
        .unwrap();
    until("it ignores its stop request", || events.any(|event| matches!(event, Event::Ignoring { .. })))
        .await;
    drop(release);
    let done = reaches(&engine, "a", "1", JobState::Completed).await;
    assert_eq!(done.attempts, 2, "the only slot was free again for the second attempt");
    assert_eq!(pool.stop().await.left, 0);
}

#[tokio::test]
async fn a_long_error_is_truncated_and_stored() {
    let engine = embedded().await;
    enqueue(&engine, vec![job("a", "1", "long", "")]).await;
    let pool = Worker::new(engine.clone())
        .settings(quick())
        .process("long", |(): (), _| async {
            Outcome::Failed(Problem { code: "c".repeat(1000), message: "m".repeat(1_000_000) })
        })
        .start()
        .unwrap();
    let dead = reaches(&engine, "a", "1", JobState::Failed).await;
    assert!(problem(&dead).message.starts_with("mmm") && dead.note.len() < 5000);
    pool.stop().await;
}

#[tokio::test]
async fn a_result_that_is_too_large_fails_with_its_size() {
    on_both_engines(|engine| async move {
        enqueue(&engine, vec![job("a", "1", "large", "")]).await;
        let pool = Worker::new(engine.clone())
            .settings(quick())
            .process("large", |(): (), _| async { Outcome::done_bytes(vec![b'x'; 50_000_000]) })
            .start()
            .unwrap();
        let dead = reaches(&engine, "a", "1", JobState::Failed).await;
        assert_eq!((problem(&dead).code.as_str(), dead.attempts), ("result_too_large", 1));
        assert!(problem(&dead).message.contains("50000000 bytes"), "{}", problem(&dead));
        pool.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_running_job_is_stopped_when_it_is_cancelled() {
    on_both_engines(|engine| async move {
        enqueue(&engine, vec![job("a", "polite", "wait", ""), job("a", "hanging", "hang", "")]).await;
        let settings = WorkerSettings { lease: Duration::from_millis(300), ..quick() };
        let events = RecordedEvents::default();
        let pool = Worker::new(engine.clone())
            .settings(settings)
            .on_event(events.hook())
            .process("wait", |(): (), job: Context| async move {
                let reason = job.cancelled().await;
                Outcome::cancelled(format!("stopped in order, {}", reason.as_str()))
            })
            .process("hang", |(): (), _| std::future::pending::<()>())
            .start()
            .unwrap();
        for id in ["polite", "hanging"] {
            reaches(&engine, "a", id, JobState::Processing).await;
        }
        let jobs = vec![job_ref("a", "polite"), job_ref("a", "hanging")];
        engine.call(CancelJob { jobs }).await.unwrap();
        let polite = reaches(&engine, "a", "polite", JobState::Cancelled).await;
        assert_eq!(problem(&polite).message, "stopped in order, cancelled");
        let hanging = reaches(&engine, "a", "hanging", JobState::Cancelled).await;
        assert_eq!(problem(&hanging).message, "it was cancelled while it ran");
        assert_eq!(events.count(|event| matches!(event, Event::Cancelling { .. })), 2);
        assert_eq!(pool.stop().await.left, 0);
    })
    .await;
}

#[tokio::test]
async fn a_job_abandoned_because_the_worker_stops_is_handed_back() {
    let engine = embedded().await;
    enqueue(&engine, vec![job("a", "1", "wait", "")]).await;
    let settings = WorkerSettings { shutdown_grace_period: Duration::from_millis(50), ..quick() };
    let pool = Worker::new(engine.clone())
        .settings(settings)
        .process("wait", |(): (), job: Context| async move {
            Outcome::cancelled(format!("abandoned: {}", job.cancelled().await.as_str()))
        })
        .start()
        .unwrap();
    reaches(&engine, "a", "1", JobState::Processing).await;
    assert_eq!(pool.stop().await, StopReport { finished: 0, handed_back: 1, left: 0 });
    assert_eq!(view(&engine, "a", "1").await.state, JobState::Pending);
}

#[tokio::test]
async fn a_throttled_job_uses_up_no_attempt_and_closes_the_gate_of_its_type_only() {
    on_both_engines(|engine| async move {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        enqueue(&engine, vec![job("a", "1", "busy", ""), job("a", "2", "free", "")]).await;
        let pool = Worker::new(engine.clone())
            .settings(quick())
            .process("busy", move |(): (), _| {
                let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
                async move {
                    if first {
                        Outcome::throttled(Some(Duration::from_secs(3600)))
                    } else {
                        Outcome::done(&1)
                    }
                }
            })
            .process("free", |(): (), _| async {})
            .start()
            .unwrap();
        reaches(&engine, "a", "2", JobState::Completed).await;
        let waiting = reaches(&engine, "a", "1", JobState::Waiting).await;
        assert_eq!((waiting.attempts, waiting.throttles), (0, 1));
        let busy = engine.call(InspectType { type_id: type_of("busy") }).await.unwrap();
        let busy = busy.expect("the type is known");
        assert!(busy.closed_until.is_some(), "Retry-After closes the gate");
        pool.stop().await;
    })
    .await;
}

#[tokio::test]
async fn middleware_wraps_attempts_in_the_order_it_was_added() {
    let engine = embedded().await;
    enqueue(&engine, vec![job("a", "1", "word", "\"b\"")]).await;
    let around = |text: &'static str| {
        move |job: Context, next: Next| async move {
            match next.run(job).await {
                Outcome::Done { result } => {
                    let inner: String = serde_json::from_slice(&result).unwrap();
                    Outcome::done(&format!("{text}{inner}{text}"))
                }
                other => other,
            }
        }
    };
    let pool = Worker::new(engine.clone())
        .settings(quick())
        .middleware(around("1"))
        .middleware(around("2"))
        .process("word", |word: String, _| async move { Outcome::done(&word) })
        .start()
        .unwrap();
    let done = reaches(&engine, "a", "1", JobState::Completed).await;
    assert_eq!(&*done.note, b"\"12b21\"");
    pool.stop().await;
}

#[tokio::test]
async fn a_job_of_a_type_without_a_processor_stays_and_is_reported() {
    let engine = embedded().await;
    enqueue(&engine, vec![job("a", "1", "unknown", "")]).await;
    let mut settings = quick();
    settings.loops.watch_interval = Duration::from_millis(20);
    let events = RecordedEvents::default();
    let worker = Worker::new(engine.clone()).settings(settings).on_event(events.hook());
    let pool = worker.process("known", |(): (), _| async {}).start().unwrap();
    until("it is reported", || {
        events
            .any(|event| matches!(event, Event::Unattended { types } if types == &[(type_of("unknown"), 1)]))
    })
    .await;
    assert_eq!(view(&engine, "a", "1").await.state, JobState::Pending);
    enqueue(&engine, vec![job("a", "2", "another", "")]).await;
    let reported = |event: &Event| match event {
        Event::Unattended { types } => Some(types.len()),
        _ => None,
    };
    until("the second type is reported", || events.any(|event| reported(event) == Some(2))).await;
    let times = [1, 2].map(|types| events.count(|event| reported(event) == Some(types)));
    assert_eq!(times, [1, 1], "each set of types is reported once");
    pool.stop().await;
}

#[tokio::test]
async fn invalid_settings_are_rejected_with_the_allowed_range() {
    let engine = embedded().await;
    let settings = WorkerSettings { worker_count: 0, ..WorkerSettings::default() };
    let error = Worker::new(engine.clone()).settings(settings).start().err().unwrap();
    assert_eq!(error.to_string(), "worker_count is 0; it must be from 1 to 100000");
    let twice = Worker::new(engine.clone())
        .process("a", |(): (), _| async {})
        .process("a", |(): (), _| async {})
        .start();
    assert_eq!(twice.err().unwrap().to_string(), "type a has two processors; it can have one");
    let options = TypeOptions { concurrency: Some(0), ..TypeOptions::default() };
    let none = Worker::new(engine).processor_with("a", options, |_: Context| async {}).start();
    assert!(none.err().unwrap().to_string().starts_with("type a: concurrency is 0"));
}

#[tokio::test]
async fn reported_progress_is_stored_until_the_attempt_ends() {
    on_both_engines(|engine| async move {
        enqueue(&engine, vec![job("a", "1", "render", ""), job("a", "2", "render", "")]).await;
        let go = Arc::new(tokio::sync::Notify::new());
        let may_end = go.clone();
        let worker =
            Worker::new(engine.clone()).settings(quick()).process("render", move |(): (), job: Context| {
                let may_end = may_end.clone();
                async move {
                    for done in 0..=30 {
                        job.progress(done, 20);
                    }
                    may_end.notified().await;
                }
            });
        let pool = worker.start().unwrap();
        for id in ["1", "2"] {
            until_async("the last report is stored, within its range", async || {
                view(&engine, "a", id).await.progress == Some(Progress { done: 20, total: 20 })
            })
            .await;
        }
        go.notify_waiters();
        let ended = reaches(&engine, "a", "1", JobState::Completed).await;
        assert_eq!(ended.progress, None);
        pool.stop().await;
    })
    .await;
}
