//! Jobs added by transactions: by the library, by the SQL function, by a plain INSERT.

use fairlane::{Job, Level};
use fairlane_postgres::sqlx::postgres::PgListener;
use fairlane_postgres::{Notify, Outbox, enqueue_all_in, enqueue_in};
use fairlane_testkit::postgres::PostgresServer;
use serde_json::json;

use crate::support::Setup;

/// Erratum Q39. A crash between the commit and the enqueue loses nothing: the row that is committed
/// is the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_queued_by_its_commit_and_fed_to_the_queue_only_after_it() {
    let setup = Setup::new().await;
    let relay = setup.relay();
    let mut transaction = setup.outbox.begin().await.unwrap();
    fairlane_postgres::sqlx::query("INSERT INTO orders VALUES ('42')")
        .execute(&mut *transaction)
        .await
        .unwrap();
    enqueue_in(&mut transaction, Job::new("a", "mail", &"ada@example.com").id("42")).await.unwrap();
    assert_eq!(relay.drain().await.unwrap().passed, 0, "nothing is passed on before the commit");
    assert_eq!(setup.status("a", "42").await, "absent");
    setup.outbox.commit(transaction).await.unwrap();
    assert_eq!(setup.status("a", "42").await, "QUEUED");
    assert!(!setup.is_queued("a", "42").await, "the row comes before the queue");
    assert_eq!(relay.drain().await.unwrap().passed, 1);
    assert!(setup.is_queued("a", "42").await);
    assert_eq!(setup.status("a", "42").await, "QUEUED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_rolled_back_never_exists() {
    let setup = Setup::new().await;
    let mut transaction = setup.outbox.begin().await.unwrap();
    enqueue_in(&mut transaction, Job::new("a", "mail", &1).id("gone")).await.unwrap();
    transaction.rollback().await.unwrap();
    setup.commit("a", "kept").await;
    setup.passes(1).await;
    assert_eq!(setup.status("a", "gone").await, "absent");
    assert!(!setup.is_queued("a", "gone").await && setup.is_queued("a", "kept").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_language_adds_jobs_by_a_function_or_a_plain_insert() {
    let setup = Setup::new().await;
    let id = setup.postgres.sql(
        "SELECT fairlane_enqueue('a', 'mail', 'f-1', '{\"to\": \"ada\"}', '{\"level\": \"high\", \"cost\": 3}')",
    );
    assert_eq!(id, "f-1");
    let drawn = setup.postgres.sql("SELECT fairlane_enqueue('a', 'mail')");
    setup.postgres.sql(
        "INSERT INTO fairlane_outbox (job) VALUES \
         ('{\"group\": \"a\", \"type\": \"mail\", \"id\": \"i-1\", \"payload\": [1, 2]}'), \
         ('{\"group\": \"a\", \"type\": \"mail\", \"payload_base64\": \"AAE=\"}')",
    );
    let unnamed = setup.postgres.sql("SELECT xid || '-' || id FROM fairlane_outbox WHERE job->>'id' IS NULL");
    setup.passes(4).await;
    let view = async |id: &str| setup.fairlane.job("a", id).view().await.unwrap().unwrap();
    let first = view("f-1").await;
    assert_eq!((&*first.payload, first.level, first.cost.get()), (&b"{\"to\": \"ada\"}"[..], Level::High, 3));
    assert_eq!(&*view(&drawn).await.payload, b"null");
    assert_eq!(&*view("i-1").await.payload, b"[1, 2]");
    assert_eq!(&*view(&unnamed).await.payload, [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_any_payloads_and_delays_arrives_in_order() {
    let setup = Setup::new().await;
    let mut transaction = setup.outbox.begin().await.unwrap();
    let jobs =
        (0..1200).map(|number| Job::bytes("a", "mail", vec![0xff, number as u8]).id(number.to_string()));
    let late = Job::new("b", "mail", &json!({ "zero": "a\0b" })).delay(std::time::Duration::from_secs(3600));
    let jobs = jobs.chain([late.id("late")]);
    let added = enqueue_all_in(&mut transaction, jobs).await.unwrap();
    setup.outbox.commit(transaction).await.unwrap();
    assert_eq!(added.len(), 1201);
    setup.passes(1201).await;
    let late = setup.fairlane.job("b", "late").view().await.unwrap().unwrap();
    assert_eq!((late.state, &*late.payload), (fairlane::JobState::Waiting, &b"{\"zero\":\"a\\u0000b\"}"[..]));
    let leaser = fairlane_core::WorkerId::new("test").unwrap();
    let mut leaser = fairlane_engine::Leaser::new(setup.fairlane.engine().clone(), leaser);
    let mut seen = Vec::new();
    while seen.len() < 1200 {
        let types = [fairlane::TypeId::new("mail").unwrap()];
        let batch = leaser.lease(&types, 500, 60_000).await.unwrap();
        assert!(!batch.jobs.is_empty(), "{} jobs", seen.len());
        seen.extend(batch.jobs.iter().map(|job| job.job.id.to_string().parse::<usize>().unwrap()));
    }
    assert!(seen.is_sorted());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_row_is_refused_at_once_or_becomes_a_failed_job_that_stops_no_other() {
    let setup = Setup::new().await;
    let insert = "INSERT INTO fairlane_outbox (job) VALUES ($1::text::jsonb)";
    for refused in [r#"{"type": "mail"}"#, r#"{"group": 7, "type": "mail"}"#, "[]"] {
        let pool = setup.outbox.pool();
        let error = fairlane_postgres::sqlx::query(insert).bind(refused).execute(pool).await.unwrap_err();
        assert!(
            error.to_string().contains("fairlane_outbox_job_names_its_group_and_type"),
            "{refused}: {error}"
        );
    }
    setup.postgres.sql(
        "INSERT INTO fairlane_outbox (job) VALUES \
         ('{\"group\": \"a\", \"type\": \"mail\", \"id\": \"bad\", \"cost\": 0}'), \
         ('{\"group\": \"a\", \"type\": \"mail\", \"id\": \"typo\", \"pyload\": 1}')",
    );
    setup.commit("a", "good").await;
    // A transaction of the server itself, such as one of autovacuum, may hold rows back for a moment.
    let (mut passed, mut failed) = (0, 0);
    while passed + failed < 3 {
        let relayed = setup.relay().drain().await.unwrap();
        (passed, failed) = (passed + relayed.passed, failed + relayed.failed);
    }
    assert_eq!((passed, failed), (1, 2));
    for (id, words) in [("bad", "a cost must be between"), ("typo", "pyload")] {
        let job = setup.outbox.job("a", id).await.unwrap().unwrap();
        let error = job.error.unwrap();
        assert_eq!((job.status.as_str(), &error["code"]), ("FAILED", &json!("invalid_job")));
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_database_names_its_cure() {
    let postgres = PostgresServer::start();
    let outbox = Outbox::connect(&postgres.url()).await.unwrap();
    let mut transaction = outbox.begin().await.unwrap();
    let error = enqueue_in(&mut transaction, Job::new("a", "mail", &1)).await.unwrap_err();
    assert!(error.to_string().contains("run `fairlane outbox migrate`"), "{error}");
    drop(transaction);
    let fairlane = fairlane::Fairlane::open("memory:").await.unwrap();
    let relay = fairlane_postgres::Relay::new(&outbox, &fairlane, Default::default());
    let error = relay.run(std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("run `fairlane outbox migrate`"), "{error}");
    let wrong = Outbox::connect(&postgres.url().replace("/postgres?", "/nothing?")).await;
    let error = wrong.map(drop).unwrap_err().to_string();
    assert!(error.contains("create the database"), "{error}");
    assert_eq!((outbox.migrate().await.unwrap(), outbox.migrate().await.unwrap()), (7, 0));
    // As an older version has left the tables.
    postgres.sql("DROP FUNCTION fairlane_outbox_claim; DELETE FROM fairlane_schema WHERE step >= 2");
    let error = relay.run(std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("run `fairlane outbox migrate`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_older_schema_are_relayed_after_its_migration() {
    let setup = Setup::with_schema(&[
        include_str!("../../src/schema/001_outbox_and_mirror.sql"),
        include_str!("../../src/schema/002_functions.sql"),
        include_str!("../../src/schema/003_failed_jobs.sql"),
    ])
    .await;
    setup.commit("a", "old").await;
    assert_eq!(setup.outbox.migrate().await.unwrap(), 4);
    setup.commit("a", "new").await;
    let shards = "SELECT count(DISTINCT shard) FROM fairlane_outbox WHERE shard = hashtext('a') & 15";
    assert_eq!(setup.postgres.sql(shards), "1");
    setup.passes(2).await;
    assert_eq!(setup.postgres.sql("SELECT id FROM fairlane_mirror ORDER BY number"), "old\nnew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_notifies_inside_its_transaction_after_it_or_never() {
    let setup = Setup::new().await;
    let mut listener = PgListener::connect(&setup.postgres.url()).await.unwrap();
    listener.listen_all(["fairlane_outbox", "end"]).await.unwrap();
    for (notify, expected) in [(Notify::AfterCommit, 1), (Notify::Transaction, 1), (Notify::Off, 0)] {
        let outbox = setup.outbox.clone().notify(notify);
        let mut transaction = outbox.begin().await.unwrap();
        enqueue_in(&mut transaction, Job::new("a", "mail", &1)).await.unwrap();
        outbox.commit(transaction).await.unwrap();
        let mut messages = 0;
        if expected > 0 {
            messages += u32::from(listener.recv().await.unwrap().channel() == "fairlane_outbox");
        }
        // Messages arrive in the order of commits, so none of this commit is left behind this one.
        setup.postgres.sql("NOTIFY \"end\"");
        while listener.recv().await.unwrap().channel() == "fairlane_outbox" {
            messages += 1;
        }
        assert_eq!(messages, expected, "{notify:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_or_id_that_no_queue_accepts_is_refused_by_the_insert() {
    let setup = Setup::new().await;
    let insert = "INSERT INTO fairlane_outbox (job) \
                  SELECT jsonb_build_object('group', $1::text, 'type', 'mail', 'id', $2::text)";
    let (longest, longer) = ("ü".repeat(64), "ü".repeat(64) + "x");
    for (group, id) in [(&longer, &longest), (&longest, &longer)] {
        let insert = fairlane_postgres::sqlx::query(insert).bind(group).bind(id);
        let error = insert.execute(setup.outbox.pool()).await.unwrap_err();
        assert!(error.to_string().contains("fairlane_outbox_job_names_are_short"), "{error}");
        let error = fairlane_postgres::Error::from(error).to_string();
        assert!(error.contains("at most 128 bytes"), "{error}");
    }
    let insert = fairlane_postgres::sqlx::query(insert).bind(&longest).bind(&longest);
    insert.execute(setup.outbox.pool()).await.unwrap();
    setup.passes(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_waits_for_a_transaction_holds_up_no_producer() {
    let setup = Setup::with_schema(&[
        include_str!("../../src/schema/001_outbox_and_mirror.sql"),
        include_str!("../../src/schema/002_functions.sql"),
        include_str!("../../src/schema/003_failed_jobs.sql"),
    ])
    .await;
    let mut open = setup.outbox.begin().await.unwrap();
    enqueue_in(&mut open, Job::new("a", "mail", &1).id("open")).await.unwrap();
    let outbox = setup.outbox.clone();
    let migration = tokio::spawn(async move { outbox.migrate().await });
    fairlane_testkit::wait::until("the migration waits for a lock", || {
        setup.postgres.sql("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IS NOT NULL") == "1"
    })
    .await;
    setup.postgres.sql(
        "SET statement_timeout = '5s'; \
         INSERT INTO fairlane_outbox (job) VALUES ('{\"group\": \"a\", \"type\": \"mail\", \"id\": \"other\"}')",
    );
    open.commit().await.unwrap();
    assert!(migration.await.unwrap().unwrap() >= 3);
    setup.passes(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_newer_than_the_tables_ends_and_asks_for_their_migration() {
    let mut steps = vec![
        include_str!("../../src/schema/001_outbox_and_mirror.sql"),
        include_str!("../../src/schema/002_functions.sql"),
        include_str!("../../src/schema/003_failed_jobs.sql"),
        include_str!("../../src/schema/004_cheaper_statements.sql"),
        include_str!("../../src/schema/005_steady_plans.sql"),
    ];
    for older in 0..2 {
        let setup = Setup::with_schema(&steps).await;
        setup.commit("a", "1").await;
        let relay = setup.relay();
        let running = relay.run(std::future::pending());
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), running).await;
        let error = ended.expect("the relay ends").unwrap_err().to_string();
        assert!(error.contains("run `fairlane outbox migrate`"), "{older}: {error}");
        setup.outbox.migrate().await.unwrap();
        assert_eq!(setup.relay().drain().await.unwrap().passed, 1, "its jobs are still there");
        steps.push(include_str!("../../src/schema/006_fewer_steps.sql"));
    }
}
