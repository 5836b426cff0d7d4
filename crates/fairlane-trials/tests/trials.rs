//! Short runs of the trials.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fairlane::Fairlane;
use fairlane_core::queue::Settings;
use fairlane_testkit::process::Process;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async;
use fairlane_trials::fuzz::TARGETS;
use fairlane_trials::kills::Store;
use fairlane_trials::locks::{crowd, fire, names, races, speed};
use fairlane_trials::served::{cycle, flood, idle, single};
use fairlane_trials::{dashboard, downstream, failover, hold, kills, neighbours, outbox, rankings, rooms};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trials");

async fn killed(store: Store, rounds: u64) {
    let report = kills::run(Path::new(PROGRAM), store, 7, rounds).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert_eq!(report.jobs, rounds * 40);
    assert!(report.callbacks >= rounds);
    assert!(report.ended_by_victims > 0, "the killed processes have worked too: {report:?}");
}

#[tokio::test]
async fn workers_on_a_data_directory_that_are_killed_lose_nothing() {
    killed(Store::Disk, 8).await;
}

#[tokio::test]
async fn workers_on_redis_that_are_killed_lose_nothing() {
    killed(Store::Redis, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_of_redis_drops_no_result_and_loses_no_job() {
    let report = failover::run(&failover::Plan { rounds: 2, before: Duration::from_secs(1) }).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert_eq!(report.rounds.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_the_dashboard_are_bounded_and_shared() {
    let plan =
        dashboard::Plan { groups: 300, jobs: 3000, rounds: 1, open: 10, open_for: Duration::from_secs(3) };
    let report = dashboard::run(&plan).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert!(report.pages.len() > 20 && report.pages.iter().all(|page| page.bytes > 0), "{report:?}");
    assert!(report.open_calls > 0, "{report:?}");
}

async fn crowded(url: &str) {
    let engine = fairlane_engine::open(url, Settings::default()).await.expect("the engine opens");
    let plan = rooms::crowd::Plan { schedulers: 16, users: 60, rounds: 5, max_active: 10 };
    let report = rooms::crowd::run(plan, engine).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert!(report.admitted > 0 && report.active_max == 10, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_with_a_crowd_never_exceeds_its_limit_in_memory() {
    crowded("memory:").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_with_a_crowd_never_exceeds_its_limit_on_redis() {
    crowded(&RedisServer::start(ServerOptions::default()).url()).await;
}

#[tokio::test]
async fn large_bulk_actions_beside_small_customers_complete_once_and_add_up() {
    let plan = neighbours::Plan {
        large: 5,
        large_jobs: 600,
        small: 20,
        small_jobs: 5,
        slots: 16,
        service: Duration::from_millis(1),
    };
    let report = neighbours::run(&plan, || async {
        fairlane_engine::open("memory:", Settings::default()).await.expect("the engine opens")
    })
    .await;
    assert_eq!(report.violations, Vec::<String>::new());
}

#[tokio::test]
async fn jobs_follow_holds_resumes_and_cancels_and_others_complete() {
    let plan = hold::Plan {
        jobs: 5000,
        each_second: 100,
        before: Duration::from_millis(200),
        step: Duration::from_millis(200),
        window: Duration::from_millis(100),
        slots: 16,
        service: Duration::from_millis(1),
        stuck: 40,
        resumed: 100,
    };
    let report = hold::run(&plan, || async {
        fairlane_engine::open("memory:", Settings::default()).await.expect("the engine opens")
    })
    .await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert_eq!(report.steps.len(), 5, "{report:?}");
}

#[tokio::test]
async fn a_downstream_that_refuses_is_called_more_slowly_than_configured() {
    let plan = downstream::Plan {
        allowed: 20,
        configured: 500,
        latency: Duration::from_millis(20),
        length: Duration::from_secs(3),
    };
    let engine = fairlane_engine::open("memory:", Settings::default()).await.expect("the engine opens");
    let report = downstream::run(&plan, engine).await;
    // At the configured rate there would be 1500 calls.
    assert!(report.refused > 0 && report.taken + report.refused < 750, "{report:?}");
}

async fn locked_under_fire(server: fire::Server) {
    let plan = fire::Plan { seed: 5, acquisitions: 400, processes: 3 };
    let report = fire::run(Path::new(PROGRAM), server, &plan).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
}

#[tokio::test]
async fn resource_refuses_late_holders_on_a_redis_that_restarts() {
    locked_under_fire(fire::Server::Restarts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resource_refuses_late_holders_on_a_redis_that_fails_over() {
    locked_under_fire(fire::Server::FailsOver).await;
}

/// Erratum L4. The process is stopped until its lease has ended.
#[tokio::test]
async fn stopped_holder_learns_of_its_loss_from_its_first_poll() {
    let server = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&server.url()).await.expect("the server runs");
    let mut command = Command::new(PROGRAM);
    command.args(["lock-hold", &server.url(), "nightly", "2000"]).stdout(Stdio::piped());
    let mut holder = Process::start(&mut command);
    let mut lines = BufReader::new(holder.stdout.take().expect("it is piped")).lines();
    let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
    assert_eq!(line(), "held");
    holder.signal("-STOP");
    until_async("its lease has ended", async || {
        fairlane.lock("nightly").view().await.expect("the server replies").is_none()
    })
    .await;
    holder.signal("-CONT");
    assert_eq!(line(), "lost");
}

#[tokio::test]
async fn no_wake_up_is_lost_when_a_release_meets_a_registering_waiter() {
    let report = races::run(3, 400).await;
    assert_eq!(report.lost, 0, "{report:?}");
    assert!(report.woken > 0, "{report:?}");
}

#[tokio::test]
async fn release_wakes_one_of_many_waiters_in_first_come_order() {
    let report = crowd::run(&crowd::Plan { waiters: 300, processes: 2, quiet: Duration::from_secs(3) }).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert!(report.per_grant <= 3.0 && report.tries_per_grant < 1.5, "{report:?}");
    assert_eq!((report.subscribers, report.subscribers_after), (2, 0), "{report:?}");
}

#[tokio::test]
async fn locks_of_killed_processes_pass_on() {
    crowd::killed_waiters(Path::new(PROGRAM), 150).await;
    let (_, _, round_trip) = speed::killed_holder(Path::new(PROGRAM), 2, Duration::from_millis(300)).await;
    assert!(round_trip > Duration::ZERO);
}

#[tokio::test]
async fn many_locks_and_their_speed_are_measured() {
    let report = names::run(500, 20).await;
    assert!(report.costs.len() == 6, "{report:?}");
    let report = speed::run(&speed::Plan { rounds: 1, repetitions: 20 }).await;
    assert!(report.engine_us > 0.0 && report.hand_off_us > 0.0, "{report:?}");
}

#[test]
fn all_jobs_of_many_batches_pass_through_the_server() {
    let plan = cycle::Plan { rounds: 1, batches: 50, connections: 3 };
    let compared = cycle::run(Path::new(PROGRAM), &plan);
    assert_eq!(compared.violations, Vec::<String>::new());
    assert!(compared.ratio() > 0.0);
}

#[test]
fn all_single_jobs_are_added_by_the_server_with_and_without_a_key() {
    for with_key in [false, true] {
        let plan = single::Plan { rounds: 1, requests: 1000, connections: 16, with_key };
        assert_eq!(single::run(Path::new(PROGRAM), &plan).violations, Vec::<String>::new());
    }
}

fn held(held: idle::Held) {
    let plan = idle::Plan { held, count: 200, quiet: Duration::ZERO };
    let report = idle::run(Path::new(PROGRAM), &plan);
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
}

#[test]
fn one_of_many_polls_is_woken_and_the_others_end_without_a_job() {
    held(idle::Held::Polls { wait_ms: 8000 });
}

#[test]
fn many_streams_of_events_are_held_and_let_go() {
    held(idle::Held::Streams);
}

#[test]
fn a_key_that_floods_is_refused_and_a_gentle_one_is_not() {
    endured(flood::Kind::Single, 128);
}

#[test]
fn a_key_that_has_much_done_is_slowed_down_and_a_gentle_one_is_not_refused() {
    for kind in [flood::Kind::Batches, flood::Kind::Streams, flood::Kind::Lists] {
        endured(kind, 16);
    }
}

fn endured(kind: flood::Kind, flooding: usize) {
    let rate = fairlane_core::Rate::new(50, 1000, Some(50)).ok();
    let plan = flood::Plan { rounds: 1, requests: 80, each_second: 200, kind, flooding, rate };
    let report = flood::run(Path::new(PROGRAM), &plan);
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
}

/// The seeds of the target `redis` come from a real server; its kept inputs are replayed without one.
#[test]
fn no_input_of_the_fuzz_corpus_fails() {
    for target in &TARGETS {
        let kept = target.kept();
        assert!(!kept.is_empty(), "{} has no corpus", target.name);
        for input in kept {
            assert_eq!(target.try_input(&input), Ok(()), "{}: {input:?}", target.name);
        }
    }
}

async fn outbox_killed(store: Store) {
    let report = outbox::kills::run(Path::new(PROGRAM), store, 3, 12).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert!(report.orders > 0 && report.succeeded > 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_between_begin_and_settle_lose_no_commit_on_a_directory() {
    outbox_killed(Store::Disk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_between_begin_and_settle_lose_no_commit_on_redis() {
    outbox_killed(Store::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_many_producers_arrive_in_the_order_of_commits_on_redis() {
    let report = outbox::order::run(&outbox::order::Plan { jobs: 1280, producers: 64, relays: 4 }).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_resumes_by_itself_after_every_outage() {
    let report = outbox::outages::run(2).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_speed_of_the_outbox_can_be_measured() {
    let plan = outbox::speed::Plan { seconds: 1, rounds: 1, producers: 8, rows: 1000, starts: 5 };
    let report = outbox::speed::run(&plan).await;
    assert!(report.commits.iter().chain(&report.rows).chain(&report.start_ms).all(|figure| *figure > 0.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn freed_place_is_taken_by_the_first_waiter_in_the_same_step() {
    let server = RedisServer::start(ServerOptions::default());
    for url in ["memory:", &server.url()] {
        let engine = fairlane_engine::open(url, Settings::default()).await.expect("the engine opens");
        let (checked, violations) = rooms::order::run(engine, 3, 300, 4).await;
        assert_eq!(violations, Vec::<String>::new(), "{url}");
        assert!(checked > 50, "{checked}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_and_tokens_survive_killed_processes_restarts_of_redis_and_jumping_clocks() {
    let program = Path::new(env!("CARGO_BIN_EXE_trials"));
    let report = rooms::fire::run(program, 5, 12, 4).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert!(report.restarts == 2 && report.steps > 20 && report.users > 10, "{report:?}");
    assert!(report.jumps > 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draw_of_a_large_prequeue_is_verified_by_another_program() {
    let engine = fairlane_engine::open("memory:", Settings::default()).await.expect("the engine opens");
    let report = rooms::draw::run(engine, 5000, 1000, 7).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert_eq!((report.admitted, &*report.verified), (50, "1000 places of 5000 are as drawn"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_among_many_waiters_are_exact() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = fairlane_engine::open(&server.url(), Settings::default()).await.expect("Redis is there");
    let costs = rooms::scale::measure(&server, engine, &[500, 3000]).await;
    let is_measured = |cost: &rooms::scale::Cost| cost.show_us > 0.0 && cost.polls_per_core > 0.0;
    assert!(costs.iter().all(|cost| cost.wrong_positions == 0 && is_measured(cost)), "{costs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranks_among_many_members_are_exact_and_removed_boards_leave_nothing() {
    let server = RedisServer::start(ServerOptions::default());
    let (costs, removal) = rankings::scale::measure(&server, &[300, 2500]).await;
    assert!(costs.iter().all(|cost| cost.wrong_ranks == 0), "{costs:?}");
    assert!(removal.swept > 2 * 2500 && removal.keys_left == 0, "{removal:?}");
}
