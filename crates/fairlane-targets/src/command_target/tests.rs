use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use fairlane_testkit::wait::until;
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use super::*;
use crate::call::example;

/// Only a failing test waits this long.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

fn shell(script: &str) -> CommandTarget {
    CommandTarget::new(CommandSettings::new(["sh", "-c", script])).unwrap()
}

async fn run(target: &CommandTarget, payload: &[u8]) -> Outcome {
    let running = target.call(example(payload), pending());
    tokio::time::timeout(WAIT_LIMIT, running).await.expect("the program ends and its end is noticed")
}

/// Code and message of a retry.
fn retried(outcome: &Outcome) -> (&str, &str) {
    match outcome {
        Outcome::Retry { after: None, problem } => (&problem.code, &problem.message),
        other => panic!("no retry: {other:?}"),
    }
}

/// Code and message of a failure.
fn failed(outcome: &Outcome) -> (&str, &str) {
    match outcome {
        Outcome::Failed(problem) => (&problem.code, &problem.message),
        other => panic!("no failure: {other:?}"),
    }
}

#[tokio::test]
async fn the_payload_is_standard_input_and_standard_output_is_the_result() {
    let outcome = run(&shell("printf 'got: '; cat"), b"{\"a\": 1}").await;
    assert_eq!(outcome, Outcome::done_bytes("got: {\"a\": 1}"));
}

#[tokio::test]
async fn the_environment_identifies_the_job_and_the_attempt() {
    let script = "echo \"$FAIRLANE_GROUP|$FAIRLANE_JOB|$FAIRLANE_TYPE|$FAIRLANE_ATTEMPT|$FAIRLANE_FENCE|$FAIRLANE_BULK|$TRACEPARENT|$OWN\"; pwd";
    let folder = TempDir::new().unwrap();
    let directory = folder.path().canonicalize().unwrap();
    let settings = CommandSettings {
        directory: Some(directory.clone()),
        environment: vec![("OWN".into(), "s3cret".into())],
        ..CommandSettings::new(["sh", "-c", script])
    };
    let target = CommandTarget::new(settings).unwrap();
    assert!(!format!("{target:?}").contains("s3cret"));
    let trace = example(b"").trace.unwrap();
    let expected =
        format!("customer/Ä:1|invoice 4711|mail|2|77|may|{trace}|s3cret\n{}\n", directory.display());
    assert_eq!(run(&target, b"").await, Outcome::done_bytes(expected));
}

/// A worker's environment has its key, its engine's password and the values its file uses as
/// `${SECRET}`.
#[tokio::test]
async fn a_program_inherits_only_harmless_variables_of_the_worker() {
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "this test has more in its environment");
    let environment = vec![("OWN".into(), "given".into())];
    let settings = CommandSettings { environment, ..CommandSettings::new(["env"]) };
    let Outcome::Done { result } = run(&CommandTarget::new(settings).unwrap(), b"").await else {
        panic!("env succeeds");
    };
    let printed = String::from_utf8(result).unwrap();
    let names: Vec<&str> = printed.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"PATH") && names.contains(&"OWN"), "{names:?}");
    let call = ["GROUP", "JOB", "TYPE", "ATTEMPT", "FENCE", "BULK"].map(|name| format!("FAIRLANE_{name}"));
    let harmless = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "TRACEPARENT", "OWN"];
    let other = names.iter().find(|name| {
        !harmless.contains(name) && !name.starts_with("LC_") && !call.iter().any(|own| own == *name)
    });
    assert_eq!(other, None);
    for secret in ["FAIRLANE_KEY", "FAIRLANE_ENGINE", "WEBHOOK_SECRET"] {
        assert!(!is_inherited(OsStr::new(secret)), "{secret}");
    }
}

#[tokio::test]
async fn each_exit_code_has_its_outcome() {
    for code in [64, 65, 77, 78] {
        let outcome = run(&shell(&format!("echo no good >&2; exit {code}")), b"").await;
        let (found, message) = failed(&outcome);
        assert_eq!(found, format!("exit_{code}"));
        assert!(message.contains("no good"), "{message}");
    }
    for code in [1, 2, 3, 75, 70, 255] {
        let outcome = run(&shell(&format!("echo try again >&2; exit {code}")), b"").await;
        let (found, message) = retried(&outcome);
        assert_eq!(found, format!("exit_{code}"));
        assert!(message.contains("try again"), "{message}");
    }
    let outcome = run(&shell("kill -9 $$"), b"").await;
    assert_eq!(retried(&outcome).0, "signal_9");
}

#[tokio::test]
async fn exit_code_69_throttles_for_the_printed_number_of_seconds() {
    for (script, expected) in [
        ("exit 69", None),
        ("echo 30; echo more; exit 69", Some(30)),
        ("echo later; exit 69", None),
        ("echo 999999999; exit 69", Some(60)),
    ] {
        assert_eq!(
            run(&shell(script), b"").await,
            Outcome::throttled(expected.map(Duration::from_secs)),
            "{script}"
        );
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_run_fails_for_good_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let outcome = |program: &str, directory: Option<&Path>| {
        let directory = directory.map(Path::to_path_buf);
        let settings = CommandSettings { directory, ..CommandSettings::new([program]) };
        let target = CommandTarget::new(settings).unwrap();
        async move { run(&target, b"").await }
    };
    let missing = outcome("no-such-program-anywhere", None).await;
    assert_eq!(failed(&missing).0, "command_not_found");
    let plain = outcome(&file("plain.txt", "words", 0o644), None).await;
    assert_eq!(failed(&plain).0, "command_not_executable");
    let nonsense = outcome(&file("nonsense", "\u{1}words", 0o755), None).await;
    assert_eq!(failed(&nonsense).0, "command_not_executable");
    let nowhere = outcome("sh", Some(&folder.path().join("nowhere"))).await;
    assert!(failed(&nowhere).1.contains("nowhere"), "{nowhere:?}");
}

#[tokio::test]
async fn the_longest_result_is_stored_and_a_longer_one_fails_with_advice() {
    let exact = run(&shell(&format!("head -c {NOTE_BYTES_MAX} /dev/zero")), b"").await;
    assert_eq!(exact, Outcome::done_bytes(vec![0; NOTE_BYTES_MAX]));
    let longer = run(&shell(&format!("head -c {} /dev/zero", NOTE_BYTES_MAX + 1)), b"").await;
    let (code, message) = failed(&longer);
    assert!(code == "result_too_large" && message.contains("print less"), "{message}");
    let refused = run(&shell("head -c 1000000 /dev/zero; exit 3"), b"").await;
    assert_eq!(retried(&refused).0, "exit_3", "its exit code counts, however much it printed");
}

#[tokio::test]
async fn a_program_that_prints_without_end_is_killed() {
    let outcome = run(&shell("cat /dev/zero"), b"").await;
    assert_eq!(failed(&outcome).0, "result_too_large");
}

#[tokio::test]
async fn an_error_message_has_the_end_of_standard_error() {
    let script = "i=0; while [ $i -lt 5000 ]; do echo line $i >&2; i=$((i+1)); done; exit 3";
    let outcome = run(&shell(script), b"").await;
    let (_, message) = retried(&outcome);
    assert!(message.ends_with("line 4999") && !message.contains("line 100 "), "{message}");
    assert!(message.len() < pipes::STDERR_BYTES_MAX + 100);
}

#[tokio::test]
async fn a_program_need_not_read_its_payload() {
    let payload = vec![b'x'; 512 * 1024];
    assert_eq!(run(&shell("echo done"), &payload).await, Outcome::done_bytes("done\n"));
    assert_eq!(run(&shell("exec <&-; echo closed"), &payload).await, Outcome::done_bytes("closed\n"));
    assert_eq!(run(&shell("head -c 10"), &payload).await, Outcome::done_bytes("xxxxxxxxxx"));
}

#[tokio::test]
async fn a_program_that_writes_while_it_reads_does_not_block() {
    let payload = vec![b'x'; 60 * 1024];
    assert_eq!(run(&shell("cat"), &payload).await, Outcome::done_bytes(payload.clone()));
    let large = vec![b'x'; 512 * 1024];
    assert_eq!(failed(&run(&shell("cat"), &large).await).0, "result_too_large");
}

#[tokio::test]
async fn processes_that_outlive_the_program_are_killed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; echo done", file.display());
    assert_eq!(run(&shell(&script), b"").await, Outcome::done_bytes("done\n"));
    let left = written_pid(&file).expect("the file was written before the program ended");
    until("the process is gone", || is_gone(left)).await;
}

#[tokio::test]
async fn dropping_an_attempt_kills_the_process_group() {
    let folder = TempDir::new().unwrap();
    let files = [folder.path().join("first"), folder.path().join("second")];
    let script = format!(
        "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > {}; while :; do sleep 1; done' & echo $$ > {}; while :; do sleep 1; done",
        files[0].display(),
        files[1].display()
    );
    let target = Arc::new(shell(&script));
    let running = tokio::spawn({
        let target = target.clone();
        async move { target.call(example(b""), pending()).await }
    });
    until("the processes run", || files.iter().all(|file| written_pid(file).is_some())).await;
    running.abort();
    for file in &files {
        let pid = written_pid(file).unwrap();
        until("the process is gone", || is_gone(pid)).await;
    }
}

#[tokio::test]
async fn after_sigterm_a_program_can_end_in_its_own_way() {
    let folder = TempDir::new().unwrap();
    let ready = folder.path().join("ready");
    for (end, reason, expected) in [
        ("echo stopped early; exit 0", CancelReason::Cancelled, "done"),
        ("exit 1", CancelReason::Cancelled, "cancelled"),
        ("exit 1", CancelReason::Stopping, "released"),
        ("exit 1", CancelReason::Lost, "released"),
        ("exit 1", CancelReason::TimedOut, "retry"),
    ] {
        let _ = std::fs::remove_file(&ready);
        let script = format!("trap '{end}' TERM; touch {}; while :; do sleep 0.01; done", ready.display());
        let cancelled = async {
            until("the program is ready", || ready.exists()).await;
            reason
        };
        let target = shell(&script);
        let outcome = tokio::time::timeout(WAIT_LIMIT, target.call(example(b""), cancelled)).await.unwrap();
        assert_eq!(outcome.as_str(), expected, "{end} after {reason:?}");
    }
}

#[test]
fn an_invalid_command_or_environment_is_rejected() {
    for command in [vec![], vec![""], vec!["sh", "a\0b"]] {
        assert!(CommandTarget::new(CommandSettings::new(command)).is_err());
    }
    let environment = vec![("A=B".to_owned(), "s3cret".to_owned())];
    let settings = CommandSettings { environment, ..CommandSettings::new(["sh"]) };
    let refused = CommandTarget::new(settings).unwrap_err().to_string();
    assert!(refused.contains("A=B") && !refused.contains("s3cret"), "{refused}");
}

fn written_pid(file: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(file).ok()?;
    Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
}

/// Whether a process is gone, or a zombie that its new parent has not reaped yet.
fn is_gone(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_err() || status.is_ok_and(|status| status.contains(") Z "))
}
