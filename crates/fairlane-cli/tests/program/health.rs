//! `fairlane health`, and the manual pages.

use std::path::Path;

use fairlane_testkit::program::Background;
use fairlane_testkit::receiver::{Receiver, response};
use fairlane_testkit::redis::{RedisServer, ServerOptions, free_port};

use super::running::{PROGRAM, fairlane, fairlane_in};
use super::served::Served;
use super::work::until;

#[test]
fn a_server_is_ready_while_it_and_its_engine_respond() {
    let redis = RedisServer::start(ServerOptions::default());
    let served = Served::in_folder(tempfile::TempDir::new().unwrap(), &["--engine", &redis.url()]);
    let ended = fairlane(&["health", &served.address]);
    assert_eq!((ended.code, ended.stdout), (0, format!("{} is ready\n", served.address)));
    let health = fairlane(&["health", &served.address, "--json"]).json();
    assert_eq!(health, serde_json::json!({ "server": served.address, "ready": true }));
    drop(redis);
    until("the server is not ready", || fairlane(&["health", &served.address]).code == 1);
    fairlane(&["health", &served.address]).failed(1, &["is not ready", "the engine cannot be reached"]);
}

#[test]
fn an_unreachable_address_and_another_server_are_not_ready() {
    let unused = format!("http://127.0.0.1:{}", free_port());
    fairlane(&["health", &unused]).failed(1, &["is not ready", "connection refused", "fairlane serve"]);
    let web = Receiver::responding(response("200 OK", &[], "<html></html>"));
    fairlane(&["health", &web.url("")]).failed(1, &["is not ready", "Fairlane server"]);
    fairlane(&["health", "127.0.0.1:8080"]).failed(2, &["http://host:port"]);
    fairlane(&["health", "redis://127.0.0.1:6379"]).failed(2, &["http://host:port"]);
}

#[test]
fn without_an_address_the_server_of_the_file_and_of_the_environment_is_checked() {
    let (served, folder) = (Served::start(), tempfile::TempDir::new().unwrap());
    let listen = served.address.strip_prefix("http://").unwrap();
    let unused = format!("http://127.0.0.1:{}", free_port());
    let ready = (0, format!("{} is ready\n", served.address));
    let health = |variables: &[(&str, &str)]| {
        let ended = fairlane_in(&folder, variables, &["health"]);
        (ended.code, ended.stdout)
    };
    let file = folder.path().join("fairlane.toml");
    let everywhere = listen.replace("127.0.0.1", "0.0.0.0");
    for listen in [listen, &everywhere] {
        std::fs::write(&file, format!("[server]\nlisten = {listen:?}\n")).unwrap();
        assert_eq!(health(&[]), ready);
    }
    assert_eq!(health(&[("FAIRLANE_ENGINE", "redis://127.0.0.1:1")]), ready, "a Redis is no server");
    assert_eq!(health(&[("FAIRLANE_ENGINE", &unused)]).0, 1);
    std::fs::write(&file, format!("engine = {unused:?}\n")).unwrap();
    assert_eq!(health(&[]).0, 1);
    assert_eq!(health(&[("FAIRLANE_ENGINE", &served.address)]), ready);
    assert_eq!(fairlane_in(&folder, &[], &["health", &served.address]).code, 0);
}

#[test]
fn a_script_can_wait_for_a_server_that_starts() {
    let folder = tempfile::TempDir::new().unwrap();
    let (address, listen) = ("http://127.0.0.1:", "127.0.0.1:");
    let port = free_port().to_string();
    let (address, listen) = (format!("{address}{port}"), format!("{listen}{port}"));
    let waiting = std::thread::spawn({
        let address = address.clone();
        move || fairlane(&["health", &address, "--wait", "60s"])
    });
    let words = ["serve", "--engine", "memory:", "--listen", &listen];
    let server = Background::start(Path::new(PROGRAM), folder.path(), &words);
    let ended = waiting.join().unwrap();
    assert_eq!((ended.code, ended.stdout), (0, format!("{address} is ready\n")), "{}", ended.stderr);
    drop(server);
    until("the server is gone", || fairlane(&["health", &address]).code == 1);
    fairlane(&["health", &address, "--wait", "300ms"]).failed(1, &["is not ready"]);
    fairlane(&["health", &address, "--wait", "soon"]).failed(2, &["--wait"]);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::TempDir::new().unwrap();
    let pages = folder.path().join("man/man1");
    let ended = fairlane(&["man", &pages.display().to_string()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for page in ["fairlane.1", "fairlane-serve.1", "fairlane-bulk-load.1", "fairlane-lock-run.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains("fairlane"), "{page}: {text}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    fairlane(&["man", &file.display().to_string()]).failed(1, &["cannot be written"]);
}
