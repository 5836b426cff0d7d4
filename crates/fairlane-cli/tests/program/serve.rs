//! `fairlane serve`.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlane_testkit::redis::{RedisServer, free_port};
use tempfile::TempDir;

use super::running::{fairlane, fairlane_in};
use super::served::{Served, ask};
use super::work::until;

fn job(id: &str) -> String {
    format!("{{\"group\":\"customer-7\",\"id\":\"{id}\",\"type\":\"mail\",\"payload\":{{\"to\":\"ada\"}}}}")
}

#[test]
fn jobs_are_accepted_over_http_and_survive_a_clean_stop() {
    let served = Served::start();
    let (status, body) = served.ask("POST", "/api/jobs", &job("a")).unwrap();
    assert_eq!(status, 201, "{body}");
    assert_eq!(served.ask("GET", "/api/jobs/customer-7/a", "").unwrap().0, 200);
    let (_, metrics) = served.ask("GET", "/metrics", "").unwrap();
    assert!(
        metrics.contains("fairlane_commands_total") || metrics.contains("operation=\"enqueue\""),
        "{metrics}"
    );
    let engine = format!("dir:{}", served.path("queue").display());
    served.signal("-TERM");
    let (ended, _folder) = served.ended();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(ended.stdout.lines().chain(ended.stderr.lines()).all(is_json), "{}", ended.stderr);
    let last: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "stopped");
    assert!(
        ended.stderr.contains("the worker has stopped"),
        "an empty FAIRLANE_LOG does not disable the log: {}",
        ended.stderr
    );
    assert_eq!(
        fairlane(&["job", "show", "customer-7", "a", "--json", "--engine", &engine]).json()["id"],
        "a"
    );
}

#[test]
fn acknowledged_jobs_survive_a_stop_under_load() {
    let served = Served::start();
    let engine = format!("dir:{}", served.path("queue").display());
    let (stopped, address) = (AtomicBool::new(false), served.address.clone());
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let client = |client: usize| {
            let (stopped, address) = (&stopped, &address);
            scope.spawn(move || {
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    let id = format!("{client}-{number}");
                    match ask(address, "POST", "/api/jobs", &job(&id)) {
                        Some((201, _)) => acknowledged.push(id),
                        // Without a response, or with a rejection, the job may or may not be
                        // stored.
                        _ if stopped.load(Ordering::SeqCst) => return acknowledged,
                        other => panic!("{other:?}"),
                    }
                    if number == 50 && client == 0 {
                        stopped.store(true, Ordering::SeqCst);
                    }
                }
                acknowledged
            })
        };
        let clients: Vec<_> = (0..4).map(client).collect();
        until("there is load", || stopped.load(Ordering::SeqCst));
        served.signal("-TERM");
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let (ended, _folder) = served.ended();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(acknowledged.len() > 50);
    let counts = fairlane(&["status", "--json", "--engine", &engine]).json();
    assert!(counts["backlog"].as_u64().unwrap() >= acknowledged.len() as u64, "{counts}");
    for id in acknowledged.iter().rev().take(5).chain(acknowledged.iter().take(5)) {
        let shown = fairlane(&["job", "show", "customer-7", id, "--json", "--engine", &engine]).json();
        assert_eq!(shown["state"], "pending");
    }
}

#[test]
fn the_start_message_contains_the_address_and_the_next_steps() {
    let folder = TempDir::new().unwrap();
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(["serve", "--listen", &listen])
        .current_dir(folder.path())
        .env_remove("FAIRLANE_ENGINE")
        .stderr(std::fs::File::create(folder.path().join("stderr")).unwrap())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let messages = || std::fs::read_to_string(folder.path().join("stderr")).unwrap();
    until("the start message is printed", || messages().contains("Ctrl-C"));
    let words = messages();
    for expected in [
        format!("serving dir:./fairlane-data at http://{listen}"),
        "only this machine can reach the server".to_owned(),
        "fairlane key create".to_owned(),
        format!("dashboard http://{listen}/\n"),
        format!("http://{listen}/docs"),
        format!("http://{listen}/metrics"),
    ] {
        assert!(words.contains(&expected), "{expected} is missing in {words}");
    }
    // Other commands find the same queue without an address.
    let enqueued =
        fairlane_in(&folder, &[], &["enqueue", "customer-7", "mail", "1", "--id", "a", "--json"]).json();
    assert_eq!(enqueued["created"], true);
    assert_eq!(ask(&format!("http://{listen}"), "GET", "/api/jobs/customer-7/a", "").unwrap().0, 200);
    let _ = program.kill();
    let _ = program.wait();
}

#[test]
fn a_served_directory_and_a_used_port_are_rejected() {
    let served = Served::start();
    let engine = format!("dir:{}", served.path("queue").display());
    let again = fairlane(&["serve", "--engine", &engine, "--listen", "127.0.0.1:0"]);
    again.failed(2, &["is already served by another process", "--engine"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let other = format!("dir:{}", served.path("other").display());
    let in_use = fairlane(&["serve", "--engine", &other, "--listen", &listen]);
    in_use.failed(1, &[&listen, "is already in use", "--listen"]);
    assert!(!served.path("other").exists(), "no directory is created");
    let http = fairlane(&["serve", "--engine", &served.address]);
    http.failed(2, &["selects a server"]);
    let open = format!("dir:{}", served.path("open").display());
    fairlane(&["serve", "--engine", &open, "--listen", "0.0.0.0:0"])
        .failed(2, &["loopback", "fairlane key create"]);
    assert!(!served.path("open").exists(), "no directory is created");
    fairlane(&["serve", "--engine", &other, "--keys", "/no/such/keys.json"])
        .failed(2, &["/no/such/keys.json"]);
}

#[test]
fn an_empty_address_is_not_a_queue_in_memory() {
    let folder = TempDir::new().unwrap();
    let refused = ["\"\" is not the address of an engine", "memory:"];
    fairlane_in(&folder, &[], &["serve", "--listen", "127.0.0.1:0", "--engine", ""]).failed(2, &refused);
    std::fs::write(folder.path().join("fairlane.toml"), "engine = \"\"\n").unwrap();
    fairlane_in(&folder, &[], &["serve", "--listen", "127.0.0.1:0"]).failed(2, &refused);
}

#[test]
fn a_rejected_server_changes_nothing_in_the_directory() {
    let served = Served::start();
    let engine = format!("dir:{}", served.path("queue").display());
    fairlane(&["settings", "set", "max_retry_count=7", "--json", "--engine", &engine]).json();
    let config = served.path("other.toml").display().to_string();
    let file = "[queue]\nmax_retry_count = 9\n[types.mail]\ncommand = [\"cat\"]\nrate = \"5/s\"\n";
    std::fs::write(&config, file).unwrap();
    fairlane(&["serve", "--config", &config, "--engine", &engine, "--listen", "127.0.0.1:0"])
        .failed(2, &["is already served by another process"]);
    let settings = fairlane(&["settings", "show", "--json", "--engine", &engine]).json();
    assert_eq!(settings["settings"]["max_retry_count"], "7");
    assert_eq!(
        fairlane(&["type", "list", "--json", "--engine", &engine]).json()["types"],
        serde_json::json!([])
    );
}

#[test]
fn types_and_queue_settings_of_the_file_are_applied() {
    let folder = TempDir::new().unwrap();
    let file = "[queue]\nmax_retry_count = 7\n[types.mail]\ncommand = [\"cat\"]\nrate = \"1000/s\"\n";
    std::fs::write(folder.path().join("fairlane.toml"), file).unwrap();
    let served = Served::in_folder(folder, &[]);
    assert!(served.path("fairlane-data").is_dir(), "the queue is in the default directory");
    served.ask("POST", "/api/jobs", &job("a")).unwrap();
    until("the job is done", || {
        served.ask("GET", "/api/jobs/customer-7/a", "").unwrap().1.contains("completed")
    });
    let settings = fairlane_in(&served.folder, &[], &["settings", "show", "--json"]).json();
    assert_eq!(settings["settings"]["max_retry_count"], "7");
    assert_eq!(
        fairlane_in(&served.folder, &[], &["type", "show", "mail", "--json"]).json()["settings"]["rate"],
        "1000/s"
    );
    served.signal("-TERM");
    let (ended, _folder) = served.ended();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let last: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["attempts"]["done"], 1);
}

#[test]
fn a_second_signal_stops_at_once() {
    let folder = TempDir::new().unwrap();
    let file = "[types.wait]\ncommand = [\"sh\", \"-c\", \"touch begun; sleep 600\"]\n";
    std::fs::write(folder.path().join("fairlane.toml"), file).unwrap();
    let served = Served::in_folder(folder, &[]);
    served.ask("POST", "/api/jobs", &job("a").replace("mail", "wait")).unwrap();
    until("the job begins", || served.path("begun").exists());
    served.signal("-INT");
    until("the server is stopping", || served.events().iter().any(|event| event["event"] == "stopping"));
    served.signal("-INT");
    let (ended, _folder) = served.ended();
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(ended.stderr.contains("left running: 1 job"), "{}", ended.stderr);
    let last: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["left"]), (&"stopped".into(), &1.into()));
    let last = ended.stderr.lines().last().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(last).unwrap()["exit_code"], 130);
}

#[test]
fn serve_waits_for_an_unreachable_redis() {
    let port = free_port();
    let folder = TempDir::new().unwrap();
    let engine = format!("redis://default:hunter2@127.0.0.1:{port}");
    let mut served = Served::spawned(folder, &["--listen", "127.0.0.1:0", "--engine", &engine]);
    until("the outage is reported", || served.events().iter().any(|event| event["event"] == "engine_down"));
    let output = served.read("stdout");
    assert!(output.contains(&format!("redis://127.0.0.1:{port}")) && !output.contains("hunter2"), "{output}");
    let _redis = RedisServer::start_at(port, &["--requirepass", "hunter2"]);
    until("the server has started", || {
        let line = served.events().into_iter().find(|event| event["event"] == "serving");
        line.inspect(|line| served.address = line["address"].as_str().unwrap().to_owned()).is_some()
    });
    assert_eq!(served.ask("POST", "/api/jobs", &job("a")).unwrap().0, 201);
    served.signal("-TERM");
    assert_eq!(served.ended().0.code, 0);
}

#[test]
fn background_loops_run_without_configured_types() {
    let folder = TempDir::new().unwrap();
    let served = Served::in_folder(folder, &["--engine", "memory:"]);
    served.ask("POST", "/api/jobs", &job("a").replace("\"type\"", "\"delay_ms\":50,\"type\"")).unwrap();
    // Only a background loop aggregates a bulk action without jobs.
    let bulk = "{\"group\":\"customer-7\",\"id\":\"may\"}";
    let (status, body) = served.ask("POST", "/api/bulks", bulk).unwrap();
    assert!(status < 300, "{body}");
    let (status, body) = served.ask("POST", "/api/bulks/customer-7/may/seal", "{}").unwrap();
    assert!(status < 300, "{body}");
    until("the bulk action is complete", || {
        std::thread::sleep(Duration::from_millis(20));
        served.ask("GET", "/api/bulks/customer-7/may", "").unwrap().1.contains("completed")
    });
}

#[test]
fn a_server_with_a_lost_store_exits_with_code_1() {
    let served = Served::start();
    assert_eq!(served.ask("POST", "/api/jobs", &job("a")).unwrap().0, 201);
    let file = rusqlite::Connection::open(served.path("queue/fairlane.db")).unwrap();
    file.busy_timeout(Duration::from_secs(30)).unwrap();
    // The background loops can no longer write a row that they change in every round.
    file.execute_batch("DROP TABLE whole").unwrap();
    let (ended, _folder) = served.ended();
    assert_eq!(ended.code, 1, "{}{}", ended.stdout, ended.stderr);
    let last: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "stopped");
    assert!(last.to_string().contains("the engine has stopped"), "{last}");
}
