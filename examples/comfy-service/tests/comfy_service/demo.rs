//! The demonstration, as a user starts it.

use std::net::SocketAddr;
use std::path::Path;

use comfy_service::client::{Part, submit};
use fairlane_testkit::program::{Background, Ended};
use fairlane_testkit::wait::until;

use crate::support::PICTURE;

const PROGRAM: &str = env!("CARGO_BIN_EXE_comfy-service");

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_runs_a_job_and_stops_everything() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Background::start(Path::new(PROGRAM), folder.path(), &["--demo"]);
    until("the service is ready", || demo.stdout().contains("Ctrl-C")).await;
    let shown = demo.stdout();
    let word = |before: &str| {
        let rest = shown.split_once(before).expect("instructions").1;
        rest.split([' ', '\n']).next().unwrap().trim_end_matches('.').to_owned()
    };
    let api: SocketAddr = word("The service is at http://").parse().unwrap();
    let (hook, picture) = (word("callback_url="), word("image=@"));
    assert!(Path::new(&picture).is_file());
    let form = [
        Part::Text("service_type", "multi-style"),
        Part::Text("parameters", r#"{"gender": "female"}"#),
        Part::Text("callback_url", &hook),
        Part::File("image", PICTURE),
    ];
    assert_eq!(submit(api, None, &form).await.unwrap().status, 200);
    until("the callback has arrived", || demo.stdout().contains("job.succeeded")).await;
    demo.signal("-TERM");
    assert_eq!(demo.ended().code, 0);
    assert!(tokio::net::TcpStream::connect(api).await.is_err(), "nothing listens any more");
}

#[test]
fn missing_options_are_refused_with_the_cure() {
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        for name in ["COMFY_DATABASE", "FAIRLANE_ENGINE", "COMFY_URL", "COMFY_CALLBACK_SECRET"] {
            command.env_remove(name);
        }
        Ended::of(command.args(words))
    };
    let stores = ["worker", "--database", "postgres://a@127.0.0.1:1/a", "--engine", "memory:"];
    run(&stores).failed(1, &["--comfyui http://"]);
    run(&[stores.as_slice(), &["--comfyui", "http://127.0.0.1:1"]].concat()).failed(1, &["secret"]);
    run(&["api", "--engine", "memory:"]).failed(2, &["--database"]);
    run(&[&stores[..4], &["memory:", "--callback-secret", "short"]].concat()).failed(2, &["whsec_"]);
    assert_eq!(run(&["--help"]).code, 0);
}
