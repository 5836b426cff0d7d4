//! Resources that check fences: a table in SQLite, and a value in Redis.

use std::time::Duration;

use fairlane::fencing::{REDIS_SET, SQL_CONDITION, check_rows};
use fairlane::{Fairlane, Fence};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

/// The fences of a holder that has lost its lock, and of the next one.
async fn stale_and_current() -> (Fence, Fence) {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let lock = fairlane.lock("coupon:issue:42").ttl(Duration::from_secs(60));
    let paused = lock.lock().await.unwrap();
    lock.break_holders(None).await.unwrap();
    let next = lock.lock().await.unwrap();
    (paused.fence(), next.fence())
}

/// Erratum L5. The paused holder wakes up after the next one has written.
#[tokio::test]
async fn table_refuses_a_holder_that_has_lost_its_lock() {
    let (stale, current) = stale_and_current().await;
    let database = rusqlite::Connection::open_in_memory().unwrap();
    let create = "CREATE TABLE coupon (id INTEGER PRIMARY KEY, issued INTEGER NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
         INSERT INTO coupon (id, issued) VALUES (42, 0);";
    database.execute_batch(create).unwrap();
    let issue = |fence: Fence| {
        let update =
            format!("UPDATE coupon SET issued = issued + 1, fence = $1 WHERE id = $2 AND {SQL_CONDITION}");
        let rows = database.execute(&update, (fence.0 as i64, 42)).unwrap();
        check_rows(rows as u64, fence)
    };
    issue(current).unwrap();
    issue(current).unwrap();
    let refused = issue(stale).unwrap_err().to_string();
    assert!(refused.contains("a later holder"), "{refused}");
    let issued: i64 = database.query_row("SELECT issued FROM coupon", [], |row| row.get(0)).unwrap();
    assert_eq!(issued, 2);
}

/// Erratum L5.
#[tokio::test]
async fn redis_value_refuses_a_holder_that_has_lost_its_lock() {
    let (stale, current) = stale_and_current().await;
    let server = RedisServer::start(ServerOptions::default());
    let mut connection = fairlane_testkit::redis::connect(&server.url()).await;
    let script = redis::Script::new(REDIS_SET);
    for (fence, value, is_set) in [(current, "new", 1), (stale, "old", 0), (current, "newer", 1)] {
        let mut call = script.key("report");
        let reply: u64 = call.arg(fence.0).arg(value).invoke_async(&mut connection).await.unwrap();
        assert_eq!(reply, is_set);
        assert_eq!(check_rows(reply, fence).is_ok(), is_set == 1);
    }
    let value: String =
        redis::cmd("HGET").arg("report").arg("value").query_async(&mut connection).await.unwrap();
    assert_eq!(value, "newer");
}
