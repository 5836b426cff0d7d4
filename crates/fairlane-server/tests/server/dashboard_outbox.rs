//! The page of the outbox, with a real PostgreSQL, a real relay and worker, and a real Chromium.

use std::future::pending;
use std::sync::Arc;

use fairlane::views::OutboxView;
use fairlane::{Context, Fairlane, Outcome};
use fairlane_engine::BoxFuture;
use fairlane_postgres::{Outbox, OutboxMonitor, Relay, RelaySettings, sqlx};
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use fairlane_server::{OutboxSource, ServerSettings};
use fairlane_testkit::browser::Browser;
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::wait::{eventually, until_async};
use fantoccini::Locator;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::dashboard_pages::show_everywhere;
use crate::running::Running;

struct Monitored(OutboxMonitor);

impl OutboxSource for Monitored {
    fn read(&self) -> BoxFuture<'_, Result<OutboxView, String>> {
        Box::pin(async { self.0.read().await.map_err(|error| error.to_string()) })
    }
}

/// A server that shows the outbox of the database at this address.
async fn over(url: &str, keys: Option<Arc<Keys>>) -> Running {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let source = Arc::new(Monitored(OutboxMonitor::new(url).unwrap()));
    Running::start_with_outbox(fairlane, keys, ServerSettings::default(), Some(source)).await
}

/// A database with an outbox and a table of an application.
async fn database() -> (PostgresServer, Outbox) {
    let postgres = PostgresServer::start();
    let outbox = Outbox::connect(&postgres.url()).await.unwrap();
    outbox.migrate().await.unwrap();
    postgres.sql("CREATE TABLE orders (id int)");
    (postgres, outbox)
}

fn commit(postgres: &PostgresServer, id: &str, to: &str) {
    postgres.sql(&format!("SELECT fairlane_enqueue('acme', 'mail', '{id}', '\"{to}\"')"));
}

/// A transaction of the application `forgetful` that has written and stays open.
async fn forget(postgres: &PostgresServer) -> sqlx::Transaction<'static, sqlx::Postgres> {
    let url = format!("{}&application_name=forgetful", postgres.url());
    let mut open = Outbox::connect(&url).await.unwrap().begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES (7)").execute(&mut *open).await.unwrap();
    open
}

/// The outbox by the API, once it is as expected.
async fn outbox_when(running: &Running, expected: impl Fn(&Value) -> bool) -> Value {
    eventually(async || {
        let (status, reading) = running.get("/api/outbox").await;
        assert_eq!(status, StatusCode::OK);
        if expected(&reading["outbox"]) { Ok(reading["outbox"].clone()) } else { Err(reading) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_names_what_waits_what_holds_it_back_and_what_failed() {
    let (postgres, outbox) = database().await;
    let running = over(&postgres.url(), None).await;
    let browser = Browser::start().await;
    browser.open(&running.url("/outbox")).await;
    browser.until_text("No job waits in the outbox.").await;
    browser.until_text("no relay seen").await;
    browser.until_text("No job has come through the outbox yet").await;

    let relay = Relay::new(&outbox, &running.fairlane, RelaySettings::default());
    let relaying = tokio::spawn(async move { relay.run(pending()).await });
    let worker = running.fairlane.worker().process("mail", |to: String, _: Context| async move {
        if to == "nobody" { Outcome::failed("smtp_550", "mailbox unavailable") } else { Outcome::done(&to) }
    });
    let pool = outbox.mirror(worker, &running.fairlane).start().unwrap();
    commit(&postgres, "welcome", "ada");
    commit(&postgres, "refused", "nobody");
    postgres.sql(
        "INSERT INTO fairlane_outbox (job) VALUES \
         ('{\"group\": \"acme\", \"type\": \"mail\", \"id\": \"odd\", \"level\": \"none\", \"payload\": 5}')",
    );
    let read = outbox_when(&running, |outbox| outbox["mirror"]["failed"] == 2).await;
    assert_eq!(read["mirror"], json!({"queued": 0, "running": 0, "succeeded": 1, "failed": 2}));
    let failed = read["failed"].as_array().unwrap().iter();
    let mut codes: Vec<&str> = failed.map(|job| job["code"].as_str().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["invalid_job", "smtp_550"]);
    browser.until_text("mailbox unavailable").await;
    browser.until_text("1 relay listens for commits").await;

    let open = forget(&postgres).await;
    commit(&postgres, "late", "ada");
    let held = outbox_when(&running, |outbox| outbox["rows"] == 1 && outbox["ready"] == 0).await;
    assert_eq!(held["holders"][0]["application"], "forgetful");
    assert_eq!(held["holders"][0]["query"], "INSERT INTO orders VALUES (7)");
    browser.until_text("1 job waits for the end of an older transaction").await;
    let pid = &held["holders"][0]["pid"];
    for words in ["forgetful", "idle in transaction", &format!("SELECT pg_terminate_backend({pid})")] {
        browser.until_text(words).await;
    }
    // What the reader has opened stays open.
    let summary = Locator::XPath("//li[.//code='smtp_550']//summary");
    browser.client().find(summary).await.unwrap().click().await.unwrap();
    browser.until_text("\"nobody\"").await;
    show_everywhere(&browser, "outbox-held").await;
    open.rollback().await.unwrap();
    browser.until_text("No job waits in the outbox.").await;
    browser.until_text("\"nobody\"").await;
    browser.assert_no_errors().await;
    pool.stop().await;
    relaying.abort();
    browser.until_text("no relay seen").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_down_is_an_error_that_ends_by_itself() {
    let (mut postgres, outbox) = database().await;
    outbox.close().await;
    let running = over(&postgres.url(), None).await;
    let browser = Browser::start().await;
    browser.open(&running.url("/outbox")).await;
    browser.until_text("No job waits in the outbox.").await;
    postgres.kill();
    browser.until_text("The database cannot be read").await;
    browser.until_text("check its address and whether it runs").await;
    browser.until_text("It was read last at").await;
    show_everywhere(&browser, "outbox-down").await;
    let (_, reading) = running.get("/api/outbox").await;
    assert_eq!((&reading["configured"], reading.get("outbox")), (&json!(true), None));
    assert!(reading["error"].as_str().unwrap().contains("does not reply"), "{reading}");
    postgres.restart();
    browser.until_text("No job waits in the outbox.").await;
    browser.assert_no_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_accepts_and_never_replies_does_not_hold_up_the_page() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://app@{}/shop?sslmode=disable", silent.local_addr().unwrap());
    let running = over(&url, None).await;
    let page = async || running.request(Method::GET, "/outbox").send().await.unwrap().text().await.unwrap();
    let first = page().await;
    assert!(first.contains("Reading the database") || first.contains("cannot be read"), "{first}");
    until_async("the page says that the database does not reply", async || {
        page().await.contains("The database does not reply within 4 s")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_tables_are_an_error_with_the_command_that_makes_them() {
    let postgres = PostgresServer::start();
    let running = over(&postgres.url(), None).await;
    let page = eventually(async || {
        let page = running.request(Method::GET, "/outbox").send().await.unwrap().text().await.unwrap();
        if page.contains("cannot be read") { Ok(page) } else { Err(page) }
    })
    .await;
    assert!(page.contains("run `fairlane outbox migrate` for this database"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_sees_what_waits_and_no_statements_of_others() {
    let (postgres, _outbox) = database().await;
    let _open = forget(&postgres).await;
    commit(&postgres, "late", "ada");
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let create = |role| {
        let new = NewKey { name: "k".into(), role, groups: None, rate: None, expires_in: None };
        file.create(new).unwrap().1.reveal().to_owned()
    };
    let (viewer, admin) = (create(Role::Viewer), create(Role::Admin));
    let mut running = over(&postgres.url(), Some(Arc::new(Keys::open(file.path()).unwrap()))).await;
    for (token, sees_statements) in [(viewer, false), (admin, true)] {
        running.set_token(token);
        let outbox = outbox_when(&running, |outbox| outbox["rows"] == 1).await;
        assert_eq!(outbox["holders"][0]["query"] != "", sees_statements, "{outbox}");
        let page = running.request(Method::GET, "/outbox").send().await.unwrap().text().await.unwrap();
        assert!(page.contains("1 job waits for the end") && page.contains("forgetful"), "{page}");
        assert_eq!(page.contains("INSERT INTO orders"), sees_statements, "{page}");
    }
}
