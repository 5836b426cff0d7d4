//! `fairlane outbox`, with a real database, a relay in a process of its own, and a worker.

use std::io::{Read, Write};
use std::path::Path;

use fairlane_testkit::document::{blocks, page, run_script};
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::program::Background;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_blocking;
use tempfile::TempDir;

use super::running::{Ended, PROGRAM, fairlane, fairlane_in};
use super::served::Served;

fn outbox(postgres: &PostgresServer, words: &[&str]) -> Ended {
    fairlane(&[&["outbox"], words, &["--database", &postgres.url()]].concat())
}

#[test]
fn a_committed_job_is_relayed_run_and_mirrored_by_the_program_alone() {
    let (postgres, redis) = (PostgresServer::start(), RedisServer::start(ServerOptions::default()));
    let (relay_folder, work_folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    assert_eq!(outbox(&postgres, &["migrate", "--json"]).json()["steps"], 7);
    assert_eq!(outbox(&postgres, &["migrate"]).stdout, "The tables of the outbox are up to date.\n");
    let (database, engine) = (postgres.url(), redis.url());
    let options = ["--database", &database, "--engine", &engine, "--json"];
    let relay = [&["outbox", "relay", "--metrics", "127.0.0.1:0"], &options[..]].concat();
    let relay = Background::start(Path::new(PROGRAM), relay_folder.path(), &relay);
    std::fs::write(
        work_folder.path().join("fairlane.toml"),
        "[types.shout]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n",
    )
    .unwrap();
    let _work =
        Background::start(Path::new(PROGRAM), work_folder.path(), &[&["work"], &options[..]].concat());
    postgres.sql("BEGIN; SELECT fairlane_enqueue('acme', 'shout', '1', '\"hello\"'); COMMIT");
    postgres.sql("BEGIN; SELECT fairlane_enqueue('acme', 'shout', '2', '\"never\"'); ROLLBACK");
    let jobs = "SELECT id, status, result FROM fairlane_jobs ORDER BY id";
    until_blocking("the job has ended", || postgres.sql(jobs).starts_with("1|SUCCEEDED"));
    assert_eq!(postgres.sql(jobs), "1|SUCCEEDED|\"HELLO\"");
    until_blocking("the relay has committed", || {
        let status = outbox(&postgres, &["status", "--json"]).json();
        (&status["rows"], &status["open_jobs"]) == (&0.into(), &0.into())
    });
    let report = fairlane(&["outbox", "reconcile", "--database", &database, "--engine", &engine, "--json"]);
    assert_eq!(report.json()["refilled"], 0);
    let address = relay.events()[0]["metrics"].as_str().unwrap().to_owned();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: relay\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.contains("fairlane_outbox_relayed_total{result=\"passed\"} 1"), "{response}");
    relay.signal("-TERM");
    assert_eq!(relay.ended().code, 0);
}

#[test]
fn a_server_shows_the_outbox_of_its_database_and_keeps_the_address_secret() {
    let postgres = PostgresServer::start();
    let url = postgres.url().replace("postgres@", "postgres:hunter2@");
    let served = Served::in_folder(TempDir::new().unwrap(), &["--engine", "memory:", "--database", &url]);
    let read = || {
        let (status, body) = served.ask("GET", "/api/outbox", "").unwrap();
        assert_eq!(status, 200, "{body}");
        assert!(!body.contains("hunter2"), "{body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()
    };
    until_blocking("the tables are missing", || {
        read()["error"].as_str().is_some_and(|error| error.contains("run `fairlane outbox migrate`"))
    });
    assert_eq!(outbox(&postgres, &["migrate"]).code, 0);
    postgres.sql("SELECT fairlane_enqueue('acme', 'mail')");
    until_blocking("a job waits", || read()["outbox"]["ready"] == 1);
    let (status, page) = served.ask("GET", "/outbox", "").unwrap();
    assert!(status == 200 && page.contains("1 job ready") && !page.contains("hunter2"), "{page}");
    let folder = TempDir::new().unwrap();
    let shown = fairlane_in(folder.path(), &[("FAIRLANE_DATABASE", &url)], &["config"]).stdout;
    assert!(shown.contains("FAIRLANE_DATABASE") && !shown.contains("hunter2"), "{shown}");
    fairlane_in(folder.path(), &[], &["serve", "--database", "mysql://hunter2"])
        .failed(2, &["--database must be an address such as postgres://user@host/database"]);
}

#[test]
fn why_names_the_transaction_that_holds_jobs_back() {
    let postgres = PostgresServer::start();
    outbox(&postgres, &["status"]).failed(1, &["run `fairlane outbox migrate`"]);
    assert_eq!(outbox(&postgres, &["migrate"]).code, 0);
    assert!(outbox(&postgres, &["why"]).stdout.contains("No job waits"));
    postgres.sql(
        "CREATE TABLE orders (id int); BEGIN; INSERT INTO orders VALUES (1); PREPARE TRANSACTION 'forgotten'",
    );
    postgres.sql("SELECT fairlane_enqueue('acme', 'mail')");
    let why = outbox(&postgres, &["why"]).stdout;
    for words in ["1 job waits for the end of an older transaction", "forgotten", "--order none"] {
        assert!(why.contains(words), "{why}");
    }
    let json = outbox(&postgres, &["why", "--json"]).json();
    assert_eq!((&json["ready"], &json["holders"][0]["prepared"]), (&0.into(), &"forgotten".into()));
    postgres.sql("ROLLBACK PREPARED 'forgotten'");
    assert!(outbox(&postgres, &["why"]).stdout.contains("1 job ready"));
    fairlane(&["outbox", "status", "--database", "mysql://x"]).failed(2, &["postgres://user@host/database"]);
}

#[test]
fn statements_of_the_documents_add_jobs() {
    let postgres = PostgresServer::start();
    assert_eq!(outbox(&postgres, &["migrate"]).code, 0);
    postgres.sql("CREATE TABLE orders (id int PRIMARY KEY, total int)");
    let blocks = [blocks(&page("docs/outbox.md"), "sql"), blocks(&page("README.md"), "sql")].concat();
    assert_eq!(blocks.len(), 3, "{blocks:?}");
    for (number, block) in blocks.iter().enumerate() {
        postgres.sql(block);
        assert_eq!(postgres.sql("SELECT count(*) FROM fairlane_outbox"), (number + 1).to_string());
        postgres.sql("DELETE FROM orders");
    }
    assert_eq!(outbox(&postgres, &["status", "--json"]).json()["rows"], 3);
}

/// The fence of a lock in a table, as the page on locks checks it.
#[test]
fn the_statement_of_the_page_on_locks_refuses_a_smaller_fence() {
    let postgres = PostgresServer::start();
    let statements = blocks(&page("docs/locks.md"), "sql");
    let [update] = &statements[..] else { panic!("{statements:?}") };
    postgres.sql("CREATE TABLE coupon (id int, issued int, fence BIGINT NOT NULL DEFAULT 0)");
    postgres.sql("INSERT INTO coupon (id, issued) VALUES (1, 0)");
    for (fence, expected) in [(17, "1|17"), (16, "1|17"), (17, "2|17"), (18, "3|18")] {
        postgres.sql(&format!("PREPARE late (bigint, int) AS {update} EXECUTE late({fence}, 1)"));
        assert_eq!(postgres.sql("SELECT issued, fence FROM coupon"), expected, "after fence {fence}");
    }
}

#[test]
fn commands_of_the_documents_with_a_database_work() {
    let (postgres, redis) = (PostgresServer::start(), RedisServer::start(ServerOptions::default()));
    let (folder, programs) = (TempDir::new().unwrap(), Path::new(PROGRAM).parent().unwrap());
    let here = |page_name: &str, first: &str| {
        let blocks = blocks(&page(page_name), "sh");
        let block = blocks.iter().find(|block| block.starts_with(first)).unwrap();
        let block = block.replace("postgres://app@db/shop", &postgres.url());
        block.replace("redis://10.0.0.5:6379", &redis.url())
    };
    let setup = here("docs/outbox.md", "fairlane outbox migrate ");
    let enqueue = format!("psql '{}' -qtc \"SELECT fairlane_enqueue('acme', 'mail', '1')\"", postgres.url());
    let (migrate, relay) = setup.trim_end().split_once('\n').unwrap();
    let passed = format!("fairlane job show acme 1 --engine {} 2>/dev/null", redis.url());
    let script = format!("{migrate}\n{enqueue}\n{relay} &\nuntil {passed}; do sleep 0.05; done\n");
    let ended = run_script(folder.path(), programs, &script, &[]);
    assert!(
        ended.code == 0 && ended.stdout.contains("1 of acme: pending"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );

    let serve = here("docs/dashboard.md", "FAIRLANE_DATABASE=");
    let port = fairlane_testkit::redis::free_port();
    let (listen, url) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}"));
    let serve = serve.trim_end();
    let script = format!("{serve} &\nfairlane health {url} --wait 30s\ncurl -sf {url}/api/outbox\n");
    let ended = run_script(folder.path(), programs, &script, &[("FAIRLANE_SERVER_LISTEN", &listen)]);
    assert!(ended.code == 0 && ended.stdout.contains("\"rows\""), "{}{}", ended.stdout, ended.stderr);
}
