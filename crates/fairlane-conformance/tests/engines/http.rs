//! What must hold for a queue behind a server, beyond the suite that every engine passes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::served::{Served, connect, serve};
use fairlane::{Context, Event, Fairlane, Job, TypeOptions};
use fairlane_conformance::dice::Dice;
use fairlane_conformance::differential::{compare_forwarded, other_samples, samples};
use fairlane_conformance::subject::{
    EXISTS, LEASE_MS, Subject, exclusive, group_id, job, jobs, process_id, signalled, succeeded, type_id,
};
use fairlane_core::queue::{
    BulkState, Enqueue, InspectQueue, JobState, LeasedJob, Promote, SetType, Settings, Settle, Settlement,
    TypePatch, Verdict,
};
use fairlane_core::{Command, ProcessId, Reply, TypeId, WorkerId};
use fairlane_engine::http::Key;
use fairlane_engine::wire::{self, Frames, ScanStep, WireError};
use fairlane_engine::{
    Admin, BoxFuture, EmbeddedEngine, Engine, EngineError, EngineInfo, Hooks, HttpEngine, HttpOptions,
    Leaser, Signals, attach, layer,
};
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use fairlane_server::{Server, ServerSettings};
use fairlane_testkit::proxy::Proxy;
use fairlane_testkit::wait::until;
use tokio::sync::Semaphore;

/// How long a test waits for a condition that must hold.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_commands_give_the_same_in_core_and_behind_a_server() {
    for seed in [31, 32] {
        let served = Served::start().await;
        let engine = served.connect().await;
        let compared = compare_forwarded(&*engine, &served.embedded, &served.us, seed, 2500).await;
        compared.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// Commands of every capability, with their replies.
fn all_samples(seed: u64, steps: usize) -> Vec<(Command, Reply)> {
    let queue = samples(seed, steps).into_iter().map(|(command, reply)| (command.into(), reply.into()));
    queue.chain(other_samples(seed, steps)).collect()
}

#[test]
fn every_command_and_reply_is_the_same_on_the_other_side() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 1..=4 {
        for (command, reply) in all_samples(seed, 2000) {
            kinds.insert(command.stem());
            let bytes = wire::encode(&command);
            assert!(bytes.len() <= wire::COMMAND_BYTES_MAX);
            assert_eq!(wire::decode::<Command>(&bytes), Ok(command));
            let response: Result<Reply, WireError> = Ok(reply);
            assert_eq!(wire::decode::<Result<Reply, WireError>>(&wire::encode(&response)), Ok(response));
        }
    }
    assert_eq!(kinds.len(), Command::stems().count(), "every operation occurs");
}

/// Decodes the bytes as every type of the wire; a value that is decoded can be encoded again.
fn read_as_everything(bytes: &[u8]) -> usize {
    let mut values = 0;
    if let Ok(command) = wire::decode::<Command>(bytes) {
        // Every engine validates what the types alone cannot guarantee.
        let _ = command.validate();
        assert_eq!(wire::decode::<Command>(&wire::encode(&command)), Ok(command));
        values += 1;
    }
    if let Ok(response) = wire::decode::<Result<Reply, WireError>>(bytes) {
        assert_eq!(wire::decode::<Result<Reply, WireError>>(&wire::encode(&response)), Ok(response));
        values += 1;
    }
    values += usize::from(wire::decode::<wire::Wait>(bytes).is_ok());
    values += usize::from(wire::decode::<wire::ServerInfo>(bytes).is_ok());
    values += usize::from(wire::decode::<ScanStep>(bytes).is_ok());
    let mut frames = Frames::default();
    frames.push(bytes);
    while let Ok(Some(_)) = frames.next_step::<ScanStep>() {
        values += 1;
    }
    values
}

#[test]
fn no_bytes_make_the_wire_panic() {
    let mut dice = Dice::new(77);
    let mut read = 0;
    for _ in 0..40_000 {
        let random: Vec<u8> = (0..dice.below(60)).map(|_| dice.below(256) as u8).collect();
        read += read_as_everything(&random);
    }
    let samples = all_samples(5, 3000);
    for case in 0..60_000 {
        let (command, reply) = &samples[case % samples.len()];
        let mut bytes = match case % 2 {
            0 => wire::encode(command),
            _ => wire::encode(&Ok::<&Reply, WireError>(reply)),
        };
        match dice.below(3) {
            0 => bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize),
            1 => bytes.insert(dice.below(bytes.len() as u64 + 1) as usize, dice.below(256) as u8),
            _ => {}
        }
        for _ in 0..dice.below(4) {
            if !bytes.is_empty() {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = [0, 0x7f, 0x80, 0xff, dice.below(256) as u8][dice.below(5) as usize];
            }
        }
        read += read_as_everything(&bytes);
    }
    assert!(read > 10_000, "most mutations still mean something: {read}");
}

fn assert_lost<T: std::fmt::Debug>(reply: Result<T, EngineError>) {
    assert!(reply.as_ref().is_err_and(EngineError::is_retryable), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_answer_was_lost_is_repeated_without_effect() {
    let served = Served::start().await;
    let proxy = Proxy::start(served.port()).await;
    let engine = connect(proxy.port()).await;
    let enqueue = Enqueue { jobs: jobs("g", 5) };
    proxy.cut_before_reply(0);
    assert_lost(engine.call(enqueue.clone()).await);
    assert_eq!(engine.call(enqueue).await.unwrap().receipts, [EXISTS; 5]);

    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    proxy.cut_before_reply(0);
    assert_lost(leaser.lease(&[type_id("t")], 4, LEASE_MS).await);
    let leased = leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs;
    assert_eq!(leased.len(), 4, "the jobs of the lost reply");

    let settlement =
        |one: &LeasedJob| Settlement { job: one.job.clone(), fence: one.fence, outcome: succeeded() };
    let settle = Settle { settlements: leased.iter().map(settlement).collect() };
    proxy.cut_before_reply(0);
    assert_lost(engine.call(settle.clone()).await);
    assert_eq!(engine.call(settle).await.unwrap().verdicts, [Verdict::Applied; 4]);
    let totals = engine.call(InspectQueue).await.unwrap();
    assert_eq!((totals.completed, totals.backlog), (4, 1), "each job completed once");
    proxy.cut_before_reply(0);
    assert_lost(engine.wait(&[type_id("none")], Duration::ZERO).await);
    assert_eq!(proxy.cuts(), 4);
}

/// Counts a caller that waits, until dropped.
struct Waiter(Arc<AtomicUsize>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An engine that counts the callers that wait.
fn counting_waiters(inner: Arc<dyn Engine>, waiting: Arc<AtomicUsize>) -> Arc<dyn Engine> {
    let hooks = Hooks::default().wait(move |inner, types, at_most| {
        waiting.fetch_add(1, Ordering::SeqCst);
        let waiter = Waiter(waiting.clone());
        Box::pin(async move {
            let woken = inner.wait(&types, at_most).await;
            drop(waiter);
            woken
        })
    });
    layer(inner, hooks)
}

/// An engine with a warning.
struct Warning(Arc<dyn Engine>);

impl Engine for Warning {
    fn info(&self) -> EngineInfo {
        EngineInfo { warnings: vec!["a warning".to_owned()], ..self.0.info() }
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        self.0.submit(command)
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.0.wait(types, at_most)
    }

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>> {
        self.0.submit_when_woken(types, at_most, command)
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        self.0.subscribe(process)
    }

    fn admin(&self) -> &dyn Admin {
        self.0.admin()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_ends_with_its_server_and_can_be_made_again() {
    let engine = EmbeddedEngine::new(Settings::default(), Default::default()).expect("a thread");
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let server = serve(engine.clone()).await;
    let locks = Subject::new(connect(server.address().port()).await, Arc::default());
    let mut former = locks.subscribe("two").await;
    let mut signals = locks.subscribe("two").await;
    assert_eq!(former.next().await, None, "the process has subscribed again");
    locks.locked(exclusive("one")).await;
    locks.queue_up(exclusive("two")).await;
    locks.release("one").await;
    assert_eq!(signalled(&mut signals, 1).await, ["two"]);
    server.stop().await;
    assert_eq!(signals.next().await, None, "the server has stopped");
    let refused = locks.engine.subscribe(&process_id("two")).await.expect_err("there is no server");
    assert!(refused.is_retryable(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_its_client_and_with_the_server() {
    let waiting = Arc::new(AtomicUsize::new(0));
    let inner = EmbeddedEngine::new(Settings::default(), Default::default()).expect("a thread");
    let counting = counting_waiters(Arc::new(inner), waiting.clone());
    let server = serve(Arc::new(Warning(counting))).await;
    let engine = connect(server.address().port()).await;
    assert_eq!(engine.info().warnings, ["a warning"]);
    let wait = |engine: Arc<dyn Engine>| {
        tokio::spawn(async move { engine.wait(&[type_id("t")], Duration::from_secs(50)).await })
    };
    let gone = wait(engine.clone());
    until("it waits", || waiting.load(Ordering::SeqCst) == 1).await;
    gone.abort();
    until("a wait ends with its client", || waiting.load(Ordering::SeqCst) == 0).await;

    let woken = wait(engine.clone());
    until("it waits", || waiting.load(Ordering::SeqCst) == 1).await;
    engine.call(Enqueue { jobs: jobs("g", 1) }).await.unwrap();
    assert_eq!(woken.await.unwrap(), Ok(true));

    let last = wait(engine);
    until("it waits", || waiting.load(Ordering::SeqCst) == 1).await;
    server.stop().await;
    assert!(matches!(last.await.unwrap(), Ok(false) | Err(EngineError::Unavailable { .. })));
}

/// A server that requires a key.
struct Guarded {
    server: Server,
    keys: Vec<String>,
}

impl Guarded {
    /// Starts a server with keys of these roles, bound to these groups if there are any.
    async fn start(folder: &Path, engine: Arc<dyn Engine>, keys: &[(Role, &[&str])]) -> Self {
        let file = KeyFile::at(folder.join("keys.json"));
        let keys = keys.iter().map(|(role, groups)| new_key(&file, *role, groups)).collect();
        let known = Arc::new(Keys::open(file.path()).expect("keys were made"));
        let address = ([127, 0, 0, 1], 0).into();
        let fairlane = Fairlane::from_engine(engine);
        let server = Server::start(fairlane, address, Some(known), ServerSettings::default()).await;
        Self { server: server.expect("a port is free"), keys }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Connects with one of the keys.
    async fn connect(&self, number: usize) -> Arc<dyn Engine> {
        let key = Some(Key::new(&self.keys[number]).expect("a key"));
        let options = HttpOptions { key, ..HttpOptions::default() };
        Arc::new(HttpEngine::connect(&self.url(), options).await.expect("the key is known"))
    }
}

fn new_key(file: &KeyFile, role: Role, groups: &[&str]) -> String {
    let groups = (!groups.is_empty()).then(|| groups.iter().map(|name| group_id(name)).collect());
    let new = NewKey { name: role.to_string(), role, groups, rate: None, expires_in: None };
    file.create(new).expect("a key is made").1.reveal().to_owned()
}

fn refusal<T: std::fmt::Debug>(reply: Result<T, EngineError>) -> String {
    match reply {
        Err(EngineError::Refused { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_may_do_what_its_role_may_and_to_its_groups() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = EmbeddedEngine::new(Settings::default(), Default::default()).expect("a thread");
    let keys: [(Role, &[&str]); 4] =
        [(Role::Producer, &["g"]), (Role::Worker, &[]), (Role::Viewer, &[]), (Role::Admin, &[])];
    let guarded = Guarded::start(folder.path(), Arc::new(inner), &keys).await;
    let without = refusal(HttpEngine::connect(&guarded.url(), HttpOptions::default()).await);
    assert!(without.contains("set FAIRLANE_KEY to a key of that server"), "{without}");

    let producer = guarded.connect(0).await;
    let new = refusal(producer.call(Enqueue { jobs: jobs("g", 2) }).await);
    assert!(new.contains("the type t does not exist"), "{new}");
    let patch = TypePatch { paused: Some(false), ..TypePatch::default() };
    guarded.connect(3).await.call(SetType { type_id: type_id("t"), patch }).await.unwrap();
    producer.call(Enqueue { jobs: jobs("g", 2) }).await.unwrap();
    let other = refusal(producer.call(Enqueue { jobs: vec![job("other", "1")] }).await);
    assert!(other.contains("bound to other groups"), "{other}");
    let mut leaser = Leaser::new(producer.clone(), WorkerId::new("p").unwrap());
    assert!(refusal(leaser.lease(&[type_id("t")], 1, LEASE_MS).await.map(drop)).contains("role producer"));
    assert!(refusal(producer.wait(&[type_id("t")], Duration::ZERO).await).contains("role producer"));
    let fairlane = Fairlane::from_engine(producer);
    fairlane.bulk("g", "b").callback("https://example.com/done").open().await.unwrap();

    let worker = guarded.connect(1).await;
    let mut leaser = Leaser::new(worker.clone(), WorkerId::new("w").unwrap());
    assert_eq!(leaser.lease(&[type_id("t")], 9, LEASE_MS).await.unwrap().jobs.len(), 2);
    assert!(refusal(worker.call(Enqueue { jobs: jobs("g", 1) }).await).contains("role worker"));
    assert!(refusal(worker.audit_all(false, |_| {}).await).contains("role worker"));

    let viewer = guarded.connect(2).await;
    viewer.call(InspectQueue).await.unwrap();
    assert!(refusal(viewer.call(Promote { jobs_max: 1 }).await).contains("role viewer"));

    let admin = guarded.connect(3).await;
    assert_eq!(admin.audit_all(true, |_| {}).await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_runs_a_bulk_action_through_a_server() {
    let inner = EmbeddedEngine::new(Settings::default(), Default::default()).expect("a thread");
    let server = serve(Arc::new(inner)).await;
    let fairlane = Fairlane::open(&format!("http://{}", server.address())).await.unwrap();
    let double = |number: u64, _: Context| async move { fairlane::Outcome::done(&(number * 2)) };
    let pool = fairlane.worker().process("t", double).start().unwrap();
    let bulk = fairlane.bulk("g", "b").open().await.unwrap();
    let mut ingest = bulk.ingest();
    for number in 0..300_u64 {
        ingest.push(Job::new("g", "t", &number)).await.unwrap();
    }
    ingest.seal().await.unwrap();
    let view = tokio::time::timeout(LIMIT, bulk.finished_with(|_| {})).await.expect("it ends").unwrap();
    assert_eq!((view.state, view.succeeded), (BulkState::Completed, 300));
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_kept_while_another_program_answers_at_the_servers_address() {
    let served = Served::start().await;
    let proxy = Proxy::start(served.port()).await;
    let fairlane = Fairlane::from_engine(connect(proxy.port()).await);
    let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (refusals, downs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (refused, down) = (refusals.clone(), downs.clone());
    let (begins, goes) = (begun.clone(), go.clone());
    let work = move |(): (), _: Context| {
        let (begins, goes) = (begins.clone(), goes.clone());
        async move {
            begins.add_permits(1);
            goes.acquire().await.expect("it is never closed").forget();
            fairlane::Outcome::done(&1)
        }
    };
    let pool = fairlane.worker().process("t", work).on_event(move |event| match event {
        Event::EngineRefuses { .. } | Event::Unsettled { .. } => drop(refused.fetch_add(1, Ordering::SeqCst)),
        Event::EngineDown { .. } => drop(down.fetch_add(1, Ordering::SeqCst)),
        _ => {}
    });
    let pool = pool.start().unwrap();
    fairlane.enqueue(Job::new("g", "t", &()).id("1")).await.unwrap().accepted().unwrap();
    begun.acquire().await.expect("it is never closed").forget();
    proxy.respond_itself(Some(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
    go.add_permits(1);
    until("the engine is down", || downs.load(Ordering::SeqCst) > 0).await;
    let before = proxy.connections();
    until("the result is sent more than once", || proxy.connections() > before + 4).await;
    assert_eq!((refusals.load(Ordering::SeqCst), pool.active_jobs()), (0, 1));
    proxy.respond_itself(None);
    until("the engine has the result", || pool.active_jobs() == 0).await;
    let view = fairlane.job("g", "1").view().await.unwrap().expect("it is there");
    assert_eq!((view.state, view.attempts), (JobState::Completed, 1));
    assert_eq!(pool.stop().await.left, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_goes_on_while_slots_of_other_types_come_and_go() {
    let served = Served::start().await;
    let proxy = Proxy::start(served.port()).await;
    let fairlane = Fairlane::from_engine(connect(proxy.port()).await);
    let one = TypeOptions { concurrency: Some(1), ..TypeOptions::default() };
    fairlane.engine().enqueue_all(jobs("g", 100)).await.unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let counted = done.clone();
    let count = move |_: Context| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(())
    };
    let idle = |_: Context| std::future::ready(());
    let pool = fairlane.worker().processor("idle", idle).processor_with("t", one, count).start().unwrap();
    until("all are done", || done.load(Ordering::SeqCst) == 100).await;
    assert!(proxy.connections() < 30, "{} connections for 100 jobs", proxy.connections());
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_changed_while_a_wait_is_held_does_not_end_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner: Arc<dyn Engine> =
        Arc::new(EmbeddedEngine::new(Settings::default(), Default::default()).expect("a thread"));
    let waiting = Arc::new(AtomicUsize::new(0));
    let counting = counting_waiters(inner.clone(), waiting.clone());
    let guarded = Guarded::start(folder.path(), counting, &[(Role::Worker, &[])]).await;
    let engine = guarded.connect(0).await;
    let wait = tokio::spawn(async move { engine.wait(&[type_id("t")], Duration::from_secs(50)).await });
    until("it waits", || waiting.load(Ordering::SeqCst) == 1).await;
    let file = KeyFile::at(folder.path().join("keys.json"));
    let id = file.list().expect("keys were made")[0].id.clone();
    let (_, new) = file.rotate(&id, Duration::from_secs(3600)).expect("it is changed");
    let options =
        || HttpOptions { key: Some(Key::new(new.reveal()).expect("a key")), ..HttpOptions::default() };
    let known = async {
        while HttpEngine::connect(&guarded.url(), options()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, known).await.expect("the server reads its keys again");
    inner.call(Enqueue { jobs: jobs("g", 1) }).await.unwrap();
    assert_eq!(wait.await.unwrap(), Ok(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_server_are_changed_by_open_with_alone() {
    let served = Served::start().await;
    let url = format!("http://127.0.0.1:{}", served.port());
    let settings = Settings { max_retry_count: 7, ..Settings::default() };
    Fairlane::open_with(&url, settings).await.unwrap();
    let opened = Fairlane::open(&url).await.unwrap();
    assert_eq!(opened.queue_view().await.unwrap().settings.max_retry_count, 7);
    assert_eq!(Fairlane::attach(&url).await.unwrap().queue_view().await.unwrap().settings.max_retry_count, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_served_is_reached_through_its_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queue");
    let owner = Arc::new(EmbeddedEngine::open(&path, Default::default()).expect("a directory of its own"));
    let url = format!("dir:{}", path.display());
    assert!(
        refusal(attach(&url).await.map(drop)).contains("this process has"),
        "the directory is open and not served"
    );

    let server = serve(owner.clone()).await;
    owner.admin().announce(format!("http://{}", server.address())).await.unwrap();
    let engine = attach(&url).await.unwrap();
    assert_eq!(engine.name(), "http");
    engine.call(Enqueue { jobs: jobs("g", 3) }).await.unwrap();
    let settings = Settings { max_retry_count: 9, ..Settings::default() };
    fairlane_engine::open(&url, settings).await.unwrap();
    let totals = Fairlane::open(&url).await.unwrap().queue_view().await.unwrap();
    assert_eq!((totals.backlog, totals.settings.max_retry_count), (3, 9));

    let address = server.address();
    server.stop().await;
    let away = attach(&url).await.err().expect("no server listens any more");
    assert!(away.is_retryable() && away.to_string().contains(&address.to_string()), "{away}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_served_elsewhere_later_is_followed_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let open =
        || Arc::new(EmbeddedEngine::open(folder.path(), Default::default()).expect("the directory is free"));
    let owner = open();
    let server = serve(owner.clone()).await;
    owner.admin().announce(format!("http://{}", server.address())).await.unwrap();
    let engine = attach(&format!("dir:{}", folder.path().display())).await.unwrap();
    engine.call(Enqueue { jobs: jobs("g", 3) }).await.unwrap();
    let old = server.address();
    server.stop().await;
    drop(owner);
    // The next server gets another port, and requests to this one get no response.
    let taken = tokio::net::TcpListener::bind(old).await.expect("the port is free");
    tokio::spawn(async move { while taken.accept().await.is_ok() {} });
    let owner = open();
    let server = serve(owner.clone()).await;
    assert_ne!(server.address(), old);
    owner.admin().announce(format!("http://{}", server.address())).await.unwrap();
    let back = async {
        loop {
            match engine.call(InspectQueue).await {
                Ok(totals) => return totals.backlog,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    assert_eq!(tokio::time::timeout(LIMIT, back).await.expect("it is found"), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_served_for_keys_says_which_to_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queue");
    let owner = Arc::new(EmbeddedEngine::open(&path, Default::default()).expect("a directory of its own"));
    let guarded = Guarded::start(folder.path(), owner.clone(), &[(Role::Viewer, &[])]).await;
    owner.admin().announce(guarded.url()).await.unwrap();
    let refused = refusal(attach(&format!("dir:{}", path.display())).await.map(drop));
    let advice =
        format!("the directory is served at {}; set FAIRLANE_KEY to a key of that server", guarded.url());
    assert!(refused.contains(&advice), "{refused}");
}
