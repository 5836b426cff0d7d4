//! The relay: order, several relays, full groups, long transactions, outages.

use std::time::Duration;

use fairlane::{Context, Fairlane, Job, Outcome, Settings};
use fairlane_postgres::{Order, Outbox, Relay, RelaySettings, enqueue_in};
use fairlane_testkit::proxy::Proxy;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async;

use crate::support::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn no_job_overtakes_one_that_was_written_before_it() {
    let setup = Setup::new().await;
    let mut slow = setup.outbox.begin().await.unwrap();
    enqueue_in(&mut slow, Job::new("a", "mail", &1).id("first")).await.unwrap();
    setup.commit("a", "second").await;
    let relayed = setup.relay().drain().await.unwrap();
    assert_eq!((relayed.passed, relayed.held), (0, true));
    let status = setup.outbox.status().await.unwrap();
    assert_eq!((status.rows, status.ready), (1, 0));
    setup.outbox.commit(slow).await.unwrap();
    setup.passes(2).await;
    let numbers = setup.postgres.sql("SELECT id FROM fairlane_mirror ORDER BY number");
    assert_eq!(numbers, "first\nsecond");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_left_open_is_named_and_holds_up_only_ordered_relays() {
    let setup = Setup::new().await;
    let url = format!("{}&application_name=forgetful", setup.postgres.url());
    let other = fairlane_postgres::Outbox::connect(&url).await.unwrap();
    let mut open = other.begin().await.unwrap();
    fairlane_postgres::sqlx::query("INSERT INTO orders VALUES ('1')").execute(&mut *open).await.unwrap();
    setup.commit("a", "1").await;
    setup.commit("b", "2").await;
    setup.passes(0).await;
    let holders = setup.outbox.horizon_holders().await.unwrap();
    let holder = &holders[0];
    assert_eq!((holder.application.as_str(), holder.state.as_str()), ("forgetful", "idle in transaction"));
    assert!(holder.pid.is_some() && holder.query.starts_with("INSERT INTO orders"), "{holder:?}");
    let settings = RelaySettings { order: Order::None, ..RelaySettings::default() };
    let unordered = Relay::new(&setup.outbox, &setup.fairlane, settings);
    assert_eq!(unordered.drain().await.unwrap().passed, 2);
    open.rollback().await.unwrap();
    setup.postgres.sql("BEGIN; INSERT INTO orders VALUES ('2'); PREPARE TRANSACTION 'forgotten'");
    setup.commit("a", "3").await;
    setup.passes(0).await;
    let holders = setup.outbox.horizon_holders().await.unwrap();
    assert_eq!(holders[0].prepared.as_deref(), Some("forgotten"));
    setup.postgres.sql("ROLLBACK PREPARED 'forgotten'");
    setup.passes(1).await;
}

/// Erratum Q35. With many producers and relays, each producer's jobs arrive in the order of its
/// commits.
#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_each_producer_arrive_in_the_order_of_its_commits() {
    const PRODUCERS: usize = 16;
    const JOBS: usize = 40;
    let setup = Setup::new().await;
    let pool = fairlane_postgres::sqlx::postgres::PgPoolOptions::new().max_connections(PRODUCERS as u32);
    let pool = pool.connect(&setup.postgres.url()).await.unwrap();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let outbox = fairlane_postgres::Outbox::from_pool(pool.clone());
            tokio::spawn(async move {
                for number in 0..JOBS {
                    let mut transaction = outbox.begin().await.unwrap();
                    let job = Job::new("one", "mail", &number).id(format!("{producer}-{number}"));
                    enqueue_in(&mut transaction, job).await.unwrap();
                    outbox.commit(transaction).await.unwrap();
                }
            })
        })
        .collect();
    let relays: Vec<_> = (0..4).map(|_| setup.relay()).collect();
    let relays: Vec<_> = relays
        .into_iter()
        .map(|relay| tokio::spawn(async move { relay.run(std::future::pending()).await }))
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    let total = (PRODUCERS * JOBS).to_string();
    until_async("every job has been passed on", async || {
        setup.postgres.sql("SELECT count(*) FROM fairlane_mirror") == total
    })
    .await;
    relays.iter().for_each(tokio::task::JoinHandle::abort);
    let worker = fairlane_core::WorkerId::new("test").unwrap();
    let mut leaser = fairlane_engine::Leaser::new(setup.fairlane.engine().clone(), worker);
    let mut next = [0_usize; PRODUCERS];
    for _ in 0..PRODUCERS * JOBS {
        let batch = leaser.lease(&[fairlane::TypeId::new("mail").unwrap()], 1, 60_000).await.unwrap();
        let id = batch.jobs[0].job.id.to_string();
        let (producer, number) = id.split_once('-').unwrap();
        let next = &mut next[producer.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *next, "{id}");
        *next += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_group_waits_in_order_and_holds_up_no_other() {
    let limited = Settings { group_backlog_max: 2, ..Settings::default() };
    let setup = Setup::with_queue(Fairlane::open_with("memory:", limited).await.unwrap()).await;
    // Groups that share a shard, with names that need escapes in a statement.
    let shared = r#"SELECT g FROM (SELECT 'g''"\,}' || n AS g FROM generate_series(1, 200) AS n) AS names
                  WHERE hashtext(g) & 15 = 0 LIMIT 2"#;
    let groups = setup.postgres.sql(shared);
    let (full, other) = groups.split_once('\n').unwrap();
    for number in 0..4 {
        setup.commit(full, &number.to_string()).await;
    }
    setup.commit(other, "0").await;
    let relay = setup.relay();
    let relayed = relay.drain().await.unwrap();
    assert_eq!(relayed.passed, 3, "{relayed:?}");
    assert!(setup.is_queued(full, "1").await && !setup.is_queued(full, "2").await);
    assert!(setup.is_queued(other, "0").await);
    assert_eq!(setup.status(full, "3").await, "QUEUED");
    let roomy = Settings { group_backlog_max: 100, ..Settings::default() };
    setup.fairlane.set_queue(roomy).await.unwrap();
    until_async("the full group is passed on", async || {
        relay.drain().await.unwrap();
        setup.is_queued(full, "3").await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_the_id_of_another_is_kept_as_failed() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.commit("a", "1").await;
    let mut transaction = setup.outbox.begin().await.unwrap();
    enqueue_in(&mut transaction, Job::new("a", "mail", &"other").id("1")).await.unwrap();
    setup.outbox.commit(transaction).await.unwrap();
    let relayed = setup.relay().drain().await.unwrap();
    assert_eq!((relayed.passed, relayed.failed), (2, 1), "the same job twice is one job");
    let failed =
        setup.postgres.sql("SELECT job->>'id', error->>'code' FROM fairlane_mirror WHERE status = 'FAILED'");
    assert_eq!(failed, "1|conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_reaches_a_waiting_relay_by_a_message() {
    let setup = Setup::new().await;
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    let relay = setup.relay();
    let running = tokio::spawn(async move { relay.run(std::future::pending()).await });
    until_async("the relay listens", async || setup.postgres.sql(listening) == "1").await;
    for number in 0..20 {
        setup.commit("a", &number.to_string()).await;
        until_async("the job is in the queue", async || setup.is_queued("a", &number.to_string()).await)
            .await;
    }
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_resumes_by_itself_after_outages_of_the_database_and_the_queue() {
    let mut redis = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
    let mut setup = Setup::with_queue(Fairlane::open(&redis.url()).await.unwrap()).await;
    let relay = setup.relay();
    let running = tokio::spawn(async move { relay.run(std::future::pending()).await });
    setup.commit("a", "before").await;
    until_async("the first job arrives", async || setup.is_queued("a", "before").await).await;
    redis.kill();
    setup.commit("a", "without redis").await;
    redis.restart();
    let is_queued = async |id: &str| matches!(setup.fairlane.job("a", id).view().await, Ok(Some(_)));
    until_async("the second job arrives", async || is_queued("without redis").await).await;
    setup.postgres.kill();
    tokio::time::timeout(Duration::from_secs(20), setup.outbox.begin()).await.unwrap().map(drop).unwrap_err();
    setup.postgres.restart();
    until_async("a transaction commits", async || {
        let Ok(mut transaction) = setup.outbox.begin().await else { return false };
        let job = Job::new("a", "mail", &1).id("after");
        enqueue_in(&mut transaction, job).await.is_ok() && setup.outbox.commit(transaction).await.is_ok()
    })
    .await;
    let is_queued = async |id: &str| matches!(setup.fairlane.job("a", id).view().await, Ok(Some(_)));
    until_async("the third job arrives", async || is_queued("after").await).await;
    running.abort();
}

/// The plan is made while statistics say that the outbox is empty, and kept by the connection.
#[tokio::test(flavor = "multi_thread")]
async fn moving_a_batch_reads_no_other_rows_of_a_large_shard() {
    let setup = Setup::new().await;
    setup.postgres.sql("VACUUM ANALYZE fairlane_outbox");
    let read = setup.postgres.sql(
        "SELECT fairlane_outbox_move(0::smallint, '[]'); \
         INSERT INTO fairlane_outbox (job) SELECT jsonb_build_object('group', 'a', 'type', 't', 'id', number) \
             FROM generate_series(1, 5000) AS number; \
         BEGIN; \
         SELECT fairlane_outbox_move(shard, jsonb_agg(jsonb_build_object('xid', xid::text, 'id', id))) \
             FROM (SELECT * FROM fairlane_outbox ORDER BY shard, xid, id LIMIT 100) AS batch GROUP BY shard; \
         SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'fairlane_outbox'; \
         COMMIT",
    );
    let read: u64 = read.lines().filter_map(|line| line.parse().ok()).max().expect("a count of rows");
    assert!((100..1000).contains(&read), "{read} rows were read to move 100 of 5,000");
    assert_eq!(setup.postgres.sql("SELECT count(*) FROM fairlane_outbox"), "4900");
}

/// Rows that an older version accepted, whose names no index can hold, stop no other group.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_with_a_name_of_any_length_stops_no_other_group_of_its_shard() {
    let setup = Setup::new().await;
    let long = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 200) AS n";
    let shard = setup.postgres.sql(&format!("SELECT hashtext(({long})) & 15"));
    let good = setup.postgres.sql(&format!(
        "SELECT 'g' || n FROM generate_series(1, 200) AS n WHERE hashtext('g' || n) & 15 = {shard} LIMIT 1"
    ));
    setup.postgres.sql(&format!(
        "ALTER TABLE fairlane_outbox DISABLE TRIGGER fairlane_outbox_prepare; \
         INSERT INTO fairlane_outbox (shard, job) VALUES \
         ({shard}, jsonb_build_object('group', '{good}', 'type', 'mail', 'id', ({long}), 'payload', 1)), \
         ({shard}, jsonb_build_object('group', ({long}), 'type', 'mail', 'id', 'x', 'payload', 1)); \
         ALTER TABLE fairlane_outbox ENABLE TRIGGER fairlane_outbox_prepare"
    ));
    setup.commit(&good, "good").await;
    let relay = setup.relay();
    until_async("the job of the other group is queued", async || {
        // While the fault exists, the error repeats.
        let _ = relay.drain().await;
        setup.is_queued(&good, "good").await
    })
    .await;
    let failed = "SELECT status, error->>'code', error->>'message' LIKE '%has at most 128 bytes%', \
                  job->'payload' FROM fairlane_mirror WHERE id <> 'good'";
    assert_eq!(setup.postgres.sql(failed), "FAILED|invalid_job|t|1\nFAILED|invalid_job|t|1");
    assert_eq!(setup.postgres.sql("SELECT count(*) FROM fairlane_outbox"), "0");
}

/// A host that vanishes closes no connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_and_a_mirror_go_on_after_connections_that_never_reply() {
    let setup = Setup::new().await;
    let proxy = Proxy::start(setup.postgres.port()).await;
    let url = setup.postgres.url().replace(&setup.postgres.port().to_string(), &proxy.port().to_string());
    let outbox = Outbox::connect(&url).await.unwrap().reply_timeout(Duration::from_millis(500));
    let settings =
        RelaySettings { reconcile_interval: Some(Duration::from_millis(100)), ..Default::default() };
    let relay = Relay::new(&outbox, &setup.fairlane, settings);
    let running = tokio::spawn(async move { relay.run(std::future::pending()).await });
    let worker = setup.fairlane.worker();
    let worker = worker.process("mail", |_: serde_json::Value, _: Context| async { Outcome::done(&1) });
    let pool = outbox.mirror(worker, &setup.fairlane).start().unwrap();
    setup.commit("a", "before").await;
    until_async("the first job has ended", async || setup.status("a", "before").await == "SUCCEEDED").await;
    proxy.stall_all();
    setup.commit("a", "after").await;
    until_async("the second job has ended", async || setup.status("a", "after").await == "SUCCEEDED").await;
    setup.postgres.sql("UPDATE fairlane_mirror SET ended_at = now() - interval '8 days' WHERE id = 'after'");
    until_async("a reconciler removes its row", async || setup.status("a", "after").await == "absent").await;
    assert!(outbox.status().await.is_ok());
    pool.stop().await;
    running.abort();
}

/// A relay whose host has vanished sends nothing more, and PostgreSQL learns of it hours later.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_vanishes_after_its_claim_frees_its_shard() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    let mut vanished = setup.outbox.begin().await.unwrap();
    let claim = "SELECT count(*) FROM fairlane_outbox_claim(-1, true, '{}', 500, 1000000)";
    let claim = fairlane_postgres::sqlx::query_scalar::<_, i64>(claim).fetch_one(&mut *vanished);
    assert_eq!(claim.await.unwrap(), 2, "the shard, and its row");
    let limit = fairlane_postgres::sqlx::query_scalar("SHOW idle_in_transaction_session_timeout");
    let limit: String = limit.fetch_one(&mut *vanished).await.unwrap();
    assert_eq!(limit, "5min", "the claim bounds how long its transaction may be idle");
    assert_eq!(setup.relay().drain().await.unwrap().passed, 0, "the shard is taken");
    let sooner = fairlane_postgres::sqlx::query("SET LOCAL idle_in_transaction_session_timeout = 50");
    sooner.execute(&mut *vanished).await.unwrap();
    let relay = setup.relay();
    until_async("another relay takes the shard", async || relay.drain().await.unwrap().passed == 1).await;
    assert!(setup.is_queued("a", "1").await);
}

/// A queue that fails every enqueue into the group `bad`, with an error that names a remedy or that
/// asks to repeat the command.
async fn queue_that_fails_a_group(bad: &str, error: fairlane::EngineError) -> Fairlane {
    let inner = Fairlane::open("memory:").await.expect("a queue in memory").engine().clone();
    let bad = bad.to_owned();
    let error = std::sync::Arc::new(error);
    let hooks = fairlane_engine::Hooks::default().submit(move |inner, command| {
        let is_bad = match command.queue() {
            Some(fairlane_core::queue::Command::Enqueue(enqueue)) => {
                enqueue.jobs.iter().any(|new| new.job.group.to_string() == bad)
            }
            _ => false,
        };
        let error = error.clone();
        Box::pin(async move {
            match &*error {
                _ if !is_bad => inner.submit(command).await,
                fairlane::EngineError::Unavailable { engine, reason } => {
                    Err(fairlane::EngineError::Unavailable { engine, reason: reason.clone() })
                }
                other => Err(fairlane::EngineError::Refused { reason: other.to_string() }),
            }
        })
    });
    Fairlane::from_engine(fairlane_engine::layer(inner, hooks))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_the_queue_cannot_take_holds_up_no_other_group_of_its_shard() {
    let refused = fairlane::EngineError::Refused { reason: "another key".to_owned() };
    let unavailable = fairlane::EngineError::Unavailable {
        engine: "redis",
        reason: "the group is half written".to_owned(),
    };
    for error in [refused, unavailable] {
        let setup = Setup::with_queue(queue_that_fails_a_group("g1", error).await).await;
        let other = setup.postgres.sql(
            "SELECT 'h' || n FROM generate_series(1, 200) AS n \
             WHERE hashtext('h' || n) & 15 = hashtext('g1') & 15 LIMIT 1",
        );
        setup.commit("g1", "1").await;
        setup.commit(&other, "1").await;
        setup.commit("g1", "2").await;
        let relay = setup.relay();
        until_async("the job of the other group is queued", async || {
            let _ = relay.drain().await;
            setup.is_queued(&other, "1").await
        })
        .await;
        let kept =
            "SELECT string_agg((job->>'group') || (job->>'id'), ' ' ORDER BY xid, id) FROM fairlane_outbox";
        assert_eq!(setup.postgres.sql(kept), "g11 g12");
    }
}

/// The queue forgets the ids of ended jobs sooner than the mirror does.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_an_ended_job_is_not_taken_for_another_job() {
    let setup = Setup::new().await;
    let ended = |id: &str, status: &str| {
        setup.postgres.sql(&format!(
            "INSERT INTO fairlane_mirror (group_id, id, type, status, job, result, ended_at) VALUES ('a', '{id}', \
             'mail', '{status}', '{{\"group\": \"a\", \"id\": \"{id}\", \"type\": \"mail\", \"payload\": 1}}', '7', now())"
        ));
    };
    let add = |id: &str, payload: &str| {
        let enqueue = format!("SELECT fairlane_enqueue('a', 'mail', '{id}', '{payload}')");
        setup.postgres.sql(&enqueue);
    };
    let jobs = "SELECT status, job->'payload', error->>'code' FROM fairlane_mirror \
                ORDER BY job->>'id', job->'payload', number";
    let relay = setup.relay();
    for late in [false, true] {
        ended("failed", "FAILED");
        ended("report", "SUCCEEDED");
        ended("same", "SUCCEEDED");
        add("failed", "2");
        add("report", "2");
        add("same", "1");
        add("other", "3");
        if late {
            setup.postgres.sql("UPDATE fairlane_outbox SET created_at = now() - interval '2 minutes'");
        }
        let relayed = relay.drain().await.unwrap();
        assert_eq!((relayed.passed, relayed.failed), (2, 2), "late: {late}");
        assert_eq!(
            setup.postgres.sql(jobs),
            "FAILED|1|\nFAILED|2|conflict\nQUEUED|3|\nSUCCEEDED|1|\nFAILED|2|conflict\nSUCCEEDED|1|"
        );
        let named = "SELECT count(*) FROM fairlane_mirror WHERE error->>'code' = 'conflict' AND id ~ '^[0-9]+-[0-9]+$'";
        assert_eq!(setup.postgres.sql(named), "2");
        let view = setup.fairlane.job("a", "failed").view().await.unwrap();
        assert!(view.is_none_or(|view| view.state == fairlane::JobState::Cancelled), "it does not run");
        setup.postgres.sql("TRUNCATE fairlane_mirror");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_job_gives_its_id_up_to_a_valid_one() {
    let setup = Setup::new().await;
    let add = |cost: u32, payload: u32| {
        let options = format!("{{\"cost\": {cost}}}");
        let enqueue = format!("SELECT fairlane_enqueue('a', 'mail', '1', '{payload}', '{options}')");
        setup.postgres.sql(&enqueue);
    };
    let relay = setup.relay();
    add(0, 1);
    assert_eq!(relay.drain().await.unwrap().failed, 1);
    assert_eq!(setup.status("a", "1").await, "FAILED");
    add(1, 2);
    assert_eq!(relay.drain().await.unwrap().passed, 1);
    assert_eq!(setup.status("a", "1").await, "QUEUED");
    add(0, 3);
    assert_eq!(relay.drain().await.unwrap().failed, 1);
    let jobs = "SELECT status, job->'payload', error->>'code' FROM fairlane_mirror ORDER BY number";
    assert_eq!(setup.postgres.sql(jobs), "QUEUED|2|\nFAILED|3|invalid_job");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_ends_at_its_bytes_in_either_order() {
    let setup = Setup::new().await;
    setup.postgres.sql(
        "INSERT INTO fairlane_outbox (job) SELECT jsonb_build_object('group', 'a', 'type', 'mail', \
         'payload', repeat('x', 512 * 1024)) FROM generate_series(1, 300)",
    );
    for in_order in [true, false] {
        let claimed = format!(
            "SELECT sum(octet_length(job)) / (1024 * 1024) \
             FROM fairlane_outbox_claim(-1, {in_order}, '{{}}', 500, 8 * 1024 * 1024)"
        );
        assert_eq!(setup.postgres.sql(&claimed), "8", "in order: {in_order}");
    }
}
