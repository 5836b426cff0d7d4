//! The API against its description: schemathesis sends valid and invalid requests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use fairlane_server::ServerSettings;

use crate::keys::{one_key, start};

/// The package to install from PyPI.
const PACKAGE: &str = "schemathesis==4.32.5";
/// Requests per operation; the environment sets more for a longer run.
const EXAMPLES: &str = "6";

/// The program in a virtual environment under the target directory, which is created if it does not
/// exist.
fn schemathesis() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(PACKAGE);
    let program = folder.join("bin/st");
    if !folder.join("complete").exists() {
        let run = |program: &Path, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output();
            let output = output.expect("python3 with venv is needed: apt-get install python3-venv");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let text = folder.to_str().expect("a plain path");
        run(Path::new("python3"), &["-m", "venv", "--clear", text]);
        run(&folder.join("bin/pip"), &["install", "--quiet", "--disable-pip-version-check", PACKAGE]);
        std::fs::write(folder.join("complete"), "").unwrap();
    }
    program
}

fn check(address: &str, token: &str, examples: &str) -> Output {
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,\
                  response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                  unsupported_method,missing_required_header,use_after_free";
    Command::new(schemathesis())
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .args(["run", &format!("http://{address}/openapi.json")])
        .args(["--checks", checks, "--max-examples", examples, "--seed", "20261116", "--workers", "1"])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        // Streams that do not end by themselves, and bodies of lines, are tested on their own.
        .args([
            "--exclude-path-regex",
            "^/api/events$|^/api/(jobs|bulks|rooms)/.*/events$|^/api/jobs/stream$|^/api/rankings/.*/(rebuild|audit)$",
            "--request-timeout",
            "20",
            "--continue-on-failure",
        ])
        .args(["--generation-database", "none", "--suppress-health-check", "all", "--warnings", "off"])
        .env("NO_COLOR", "1")
        .output()
        .expect("it was just installed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_response_conforms_to_the_description() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, token) = one_key(folder.path(), "schemathesis");
    let running =
        start(&file, ServerSettings { poll_max: Duration::from_millis(50), ..ServerSettings::default() })
            .await;
    let address = running.server.address().to_string();
    let examples = std::env::var("FAIRLANE_SCHEMA_EXAMPLES").unwrap_or_else(|_| EXAMPLES.into());
    let output = tokio::task::spawn_blocking(move || check(&address, &token, &examples)).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("No issues found"), "{text}");
}
