//! The commands of docs/comfyui.md and of the README, with free ports, the built program and a
//! stand-in for an engine.

use std::path::Path;
use std::time::Duration;

use fairlane_testkit::comfyui::{ComfyUi, Generation};
use fairlane_testkit::document::{blocks, page, root, run_script};
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::program::Ended;
use fairlane_testkit::redis::{RedisServer, ServerOptions, free_port};
use serde_json::Value;

use crate::support::PICTURE;

const PROGRAM: &str = env!("CARGO_BIN_EXE_comfy-service");

/// The five blocks of the page, with the program of this build.
fn commands() -> [String; 5] {
    let here = |block: String| {
        let block = block.replace("cargo run --release -p", "cargo run -p");
        block.replace("cargo run -p comfy-service --", PROGRAM)
    };
    let blocks: Vec<String> = blocks(&page("docs/comfyui.md"), "sh").into_iter().map(here).collect();
    blocks.try_into().expect("five blocks")
}

fn run(folder: &Path, script: &str) -> Ended {
    std::fs::write(folder.join("picture.png"), PICTURE).expect("the folder can be written");
    let programs = Path::new(PROGRAM).parent().expect("a folder");
    let ended = run_script(folder, programs, script, &[]);
    assert_eq!(ended.code, 0, "{script}\n{}\n{}", ended.stdout, ended.stderr);
    ended
}

/// The value with each text and number replaced by its kind.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        other => other.clone(),
    }
}

#[test]
fn the_demonstration_of_the_documents_accepts_their_job_and_sends_their_callback() {
    let [demo, submit, ..] = commands();
    let readme = blocks(&page("examples/comfy-service/README.md"), "sh");
    assert_eq!(readme, blocks(&page("docs/comfyui.md"), "sh")[..1], "the README starts it in the same way");
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let demo = format!("{} --listen 127.0.0.1:{port} > log &\n", demo.trim_end());
    let ready = "until grep -q callback_url= log; do sleep 0.05; done\n";
    let hook = "hook=$(grep -o 'callback_url=[^ ]*' log)\n";
    let submit = submit.replace("8095", &port.to_string());
    let submit = submit.replace("callback_url=https://example.com/hook", "$hook");
    let end = "until grep -q '^callback ' log; do sleep 0.05; done\ngrep '^callback ' log\n";
    let printed = run(folder.path(), &format!("{demo}{ready}{hook}{submit}{end}")).stdout;
    assert!(printed.contains("{\"job_id\":1,\"status\":\"queued\"}"), "{printed}");
    assert!(printed.contains("event: ended"), "{printed}");
    let callback = printed.lines().find(|line| line.starts_with("callback ")).expect("a callback");
    let body: Value = serde_json::from_str(&callback[callback.find('{').expect("a body")..]).expect("JSON");
    let shown: Value = serde_json::from_str(&blocks(&page("docs/comfyui.md"), "json")[0]).expect("JSON");
    assert_eq!(body["type"], shown["type"]);
    let fields = |value: &Value| {
        let mut data = shape(&value["data"]);
        data["result"] = Value::Null;
        data
    };
    assert_eq!(fields(&body), fields(&shown));
    for name in ["prompt_id", "files"] {
        assert!(body["data"]["result"].get(name).is_some(), "{name} is not in {body}");
    }
}

#[test]
fn roles_and_workers_of_the_documents_complete_a_job() {
    let [_, submit, roles, workers, _] = commands();
    let (postgres, redis) = (PostgresServer::start(), RedisServer::start(ServerOptions::default()));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let engines: Vec<ComfyUi> = (0..2)
        .map(|_| ComfyUi::start_at(([127, 0, 0, 1], 0).into(), Generation::New, Duration::ZERO, None))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let (api, server) = (free_port().to_string(), free_port().to_string());
    let here = |text: &str| {
        let text = text.replace("postgres://app@db/images", &postgres.url());
        let text = text.replace("redis://redis:6379", &redis.url());
        let text = text.replace("/shared/files", &folder.path().join("files").display().to_string());
        let text = text
            .replace("http://gpu-1:8188", &engines[0].url())
            .replace("http://gpu-2:8188", &engines[1].url());
        text.replace("0.0.0.0:8095", &format!("127.0.0.1:{api}"))
            .replace("8095", &api)
            .replace("8080", &server)
    };
    let services = root().join("examples/comfy-service/services").display().to_string();
    // The end of a job of a worker without a mirror is copied by the reconciler.
    let relay = "comfy-service relay --reconcile-every 1s";
    let roles = here(&roles).replace("./services", &services).replace("comfy-service relay", relay);
    let roles: String = roles
        .lines()
        .map(
            |line| {
                if line.starts_with("comfy-service ") { format!("{line} &\n") } else { format!("{line}\n") }
            },
        )
        .collect();
    assert_eq!(roles.matches(" &\n").count(), 3, "{roles}");
    let wait = format!("until curl -sf -o /dev/null localhost:{api}/health; do sleep 0.05; done\n");
    let submit = here(&submit).replace("-F callback_url=https://example.com/hook ", "");
    let ended = run(folder.path(), &format!("{roles}{wait}{submit}"));
    assert!(ended.stdout.contains("event: ended") && ended.stdout.contains("succeeded"), "{}", ended.stdout);
    assert_eq!(engines[0].runs().len(), 1);

    // The same without the worker in Rust: the one in Python takes the job. A server of the test
    // stands for `fairlane serve`, which is a program of another package.
    let (serve, worker) = workers.trim_end().split_once('\n').expect("two commands");
    assert_eq!(serve, "fairlane serve --engine redis://redis:6379 &");
    let any_port = ([127, 0, 0, 1], 0).into();
    let started = runtime.block_on(async {
        let fairlane = fairlane::Fairlane::open(&redis.url()).await.expect("Redis");
        fairlane_server::Server::start(fairlane, any_port, None, Default::default()).await.expect("a server")
    });
    let script = worker_path();
    let worker = worker.replace("http://127.0.0.1:8080", &format!("http://{}", started.address()));
    let worker = here(&worker).replace("./examples/comfy-service/workers/worker.py", &script);
    let roles: String = roles
        .lines()
        .filter(|line| !line.starts_with("comfy-service worker"))
        .map(|line| format!("{line}\n"))
        .collect();
    let submit = submit.replace("/jobs/1/", "/jobs/2/");
    let ended = run(folder.path(), &format!("{roles}{wait}{worker} &\n{submit}"));
    assert!(
        ended.stdout.contains("\"job_id\":2") && ended.stdout.contains("event: ended"),
        "{}",
        ended.stdout
    );
    assert_eq!(engines[1].runs().len(), 1);
    runtime.block_on(started.stop());
}

fn worker_path() -> String {
    root().join("examples/comfy-service/workers/worker.py").display().to_string()
}

#[test]
fn the_trial_of_the_documents_runs() {
    let [.., trial] = commands();
    assert!(trial.contains("--rounds 200"), "{trial}");
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &trial.replace("--rounds 200", "--rounds 2"));
}
