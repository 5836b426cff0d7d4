//! Readings of the outbox for a dashboard.

use fairlane::views::MirrorCounts;
use fairlane_postgres::OutboxMonitor;
use fairlane_testkit::wait::until;

use crate::support::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_has_counts_failures_and_the_transaction_that_holds_jobs_back() {
    let setup = Setup::new().await;
    let monitor = OutboxMonitor::new(&setup.postgres.url()).unwrap();
    let empty = monitor.read().await.unwrap();
    assert_eq!((empty.explanation.as_str(), empty.relays), ("No job waits in the outbox.", 0));
    setup.commit("acme", "1").await;
    setup.postgres.sql(
        "INSERT INTO fairlane_outbox (job) VALUES ('{\"group\": \"acme\", \"type\": \"mail\", \"id\": \"odd\", \
         \"level\": \"none\", \"payload\": {\"to\": \"ada\"}}')",
    );
    assert_eq!(setup.relay().drain().await.unwrap().failed, 1);
    setup.postgres.sql("BEGIN; INSERT INTO orders VALUES ('1'); PREPARE TRANSACTION 'forgotten'");
    setup.commit("acme", "2").await;
    let read = monitor.read().await.unwrap();
    assert_eq!(read.mirror, MirrorCounts { queued: 1, running: 0, succeeded: 0, failed: 1 });
    let failed = &read.failed[0];
    assert_eq!((failed.id.as_str(), failed.code.as_str(), read.failed.len()), ("odd", "invalid_job", 1));
    assert_eq!(failed.payload.as_deref(), Some("{\"to\": \"ada\"}"));
    assert_eq!((read.status.rows, read.status.ready), (1, 0));
    assert!(read.explanation.starts_with("1 job waits for the end of an older transaction"), "{read:?}");
    assert_eq!(read.holders[0].ending().as_deref(), Some("ROLLBACK PREPARED 'forgotten'"));
    assert!(read.holders[0].since.is_some());
    setup.postgres.sql("ROLLBACK PREPARED 'forgotten'");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_ended_is_replaced_within_the_next_reading() {
    let setup = Setup::new().await;
    let monitor = OutboxMonitor::new(&setup.postgres.url()).unwrap();
    monitor.read().await.unwrap();
    let own = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    setup.postgres.sql(&format!("SELECT pg_terminate_backend(pid) {own}"));
    until("the connections have ended", || setup.postgres.sql(&format!("SELECT count(*) {own}")) == "0")
        .await;
    monitor.read().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_lease_of_a_job_updates_no_index() {
    let setup = Setup::new().await;
    setup.commit("acme", "1").await;
    setup.relay().drain().await.unwrap();
    let lease = r#"[{"group_id": "acme", "id": "1", "type": "mail", "fence": 1, "attempts": 1}]"#;
    setup.postgres.sql(&format!("SELECT fairlane_mirror_begin('{lease}')"));
    assert_eq!(setup.status("acme", "1").await, "RUNNING");
    let updates =
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'fairlane_mirror'";
    until("the update is counted", || setup.postgres.sql(updates).starts_with("1|")).await;
    assert_eq!(setup.postgres.sql(updates), "1|1");
}
