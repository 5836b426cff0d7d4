//! The quickstarts and the first steps of the README, copied as a reader copies them: files are saved
//! under the names that the page gives, and every block of `sh` is run in the order of the page.
//!
//! Three things differ from what a reader does: ports are free ones, the Rust project finds the
//! library in this clone, and it is built with the dependencies of this workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use fairlane_testkit::document::{blocks, page, root};
use fairlane_testkit::receiver::Receiver;
use fairlane_testkit::redis::free_port;

use super::documents::has;
use super::running::{Ended, PROGRAM};

/// Bounds of a quickstart: a page beyond them has become too long.
const COMMANDS_MAX: usize = 6;
const LINES_MAX: usize = 40;

#[derive(Debug, PartialEq)]
enum Step {
    Save { name: String, text: String },
    Run(String),
}

/// The blocks of a page: a block after a paragraph with ``Save this as `NAME` `` is a file, one of
/// `sh` is run, and others are only shown.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut name: Option<String> = None;
    let mut parts = page.split("```");
    while let Some(prose) = parts.next() {
        if let Some((_, rest)) = prose.rsplit_once("Save this as `") {
            name = rest.split('`').next().map(str::to_owned);
        }
        let Some((info, text)) = parts.next().and_then(|block| block.split_once('\n')) else { continue };
        match (name.take(), info) {
            (Some(name), _) => steps.push(Step::Save { name, text: text.to_owned() }),
            (None, "sh") => steps.push(Step::Run(text.to_owned())),
            (None, _) => {}
        }
    }
    steps
}

/// The number of commands and of lines that a reader copies.
fn size(steps: &[Step]) -> (usize, usize) {
    let lines = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count();
    let commands = |text: &str| {
        let mut is_continued = false;
        let mut quotes = 0;
        let begins = |line: &&str| {
            let is_first = !is_continued && quotes % 2 == 0;
            is_continued = line.ends_with('\\');
            quotes += line.matches('\'').count();
            is_first
        };
        text.lines().filter(begins).count()
    };
    steps.iter().fold((0, 0), |(ran, copied), step| match step {
        Step::Save { text, .. } => (ran, copied + lines(text)),
        Step::Run(text) => (ran + commands(text), copied + lines(text)),
    })
}

/// The number of times that a page is followed while another process takes one of its ports.
const TRIES: usize = 3;

/// What a page's program prints if another process has its port.
const PORT_TAKEN: &str = "already in use";

/// Repeats a command that shows a job until the job is completed. It fails at once if the job has
/// ended otherwise, and after a minute if it has not ended.
const COMPLETED: &str = r#"
completed() {
  for _ in $(seq 600); do
    shown=$("$@" 2>&1) || true
    case $shown in
      *": completed,"*) return ;;
      *": dead,"*|*": cancelled,"*) break ;;
    esac
    sleep 0.1
  done
  printf 'the job is not completed:\n%s\n' "$shown" >&2
  return 1
}
"#;

/// A script that saves and runs everything in order. A job that is shown is given the time to end,
/// which a reader needs to copy the next line.
fn script(steps: &[Step], files: &Path, replaced: &dyn Fn(&str) -> String) -> String {
    let mut script =
        format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n{COMPLETED}");
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Save { name, text } => {
                let file = files.join(number.to_string());
                std::fs::write(&file, replaced(text)).unwrap();
                script += &format!("mkdir -p \"$(dirname '{name}')\" && cp '{}' '{name}'\n", file.display());
            }
            Step::Run(text) => {
                for line in replaced(text).lines() {
                    if line.starts_with("fairlane job show ") {
                        script += &format!("completed {line}\n");
                    }
                    script += &format!("{line}\n");
                }
            }
        }
    }
    script
}

/// Runs the page in an empty directory, and returns its output.
///
/// A port is free when it is drawn; if another process takes it before the page's program does, the
/// page is followed again with other ports.
fn follow(page: &str, library: Option<&dyn Fn(&str) -> String>) -> Ended {
    let steps = steps(page);
    let (commands, lines) = size(&steps);
    println!("{commands} commands, {lines} lines");
    assert!((2..=COMMANDS_MAX).contains(&commands), "{commands} commands: {steps:?}");
    assert!((5..=LINES_MAX).contains(&lines), "{lines} lines");

    let mut ended = follow_once(&steps, library, free_port());
    for _ in 1..TRIES {
        if !ended.stderr.contains(PORT_TAKEN) {
            break;
        }
        println!("a port was taken: {}", ended.stderr);
        ended = follow_once(&steps, library, free_port());
    }
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    ended
}

/// The application of the page listens on the given port.
fn follow_once(steps: &[Step], library: Option<&dyn Fn(&str) -> String>, application: u16) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let empty = folder.path().join("empty");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::create_dir_all(&empty).unwrap();
    let (server, application) = (free_port().to_string(), application.to_string());
    let replaced = |text: &str| {
        let text = text.replace("fairlane health", &format!("fairlane health http://127.0.0.1:{server}"));
        let text = text.replace("8080", &server).replace("3000", &application);
        library.map_or(text.clone(), |library| library(&text))
    };
    let script = script(steps, &files, &replaced);
    println!("{script}");
    let programs = Path::new(PROGRAM).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).unwrap();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", "1000", "bash", "-c", &script]).current_dir(&empty).env("PATH", path);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("FAIRLANE_") || name.starts_with("CARGO_") {
            command.env_remove(&*name);
        }
    }
    command.env("FAIRLANE_SERVER_LISTEN", format!("127.0.0.1:{server}"));
    command.env("CARGO_TARGET_DIR", target_folder().join("quickstart")).env("CARGO_NET_OFFLINE", "true");
    Ended::of(&mut command)
}

/// The folder of cargo that this test was built in.
fn target_folder() -> PathBuf {
    Path::new(PROGRAM).ancestors().nth(2).unwrap().to_owned()
}

/// The output that a page shows.
fn shown(page: &str) -> String {
    let blocks = blocks(page, "text");
    let [shown] = &blocks[..] else { panic!("{blocks:?}") };
    shown.clone()
}

/// Follows a page with an application, and finds each line that the page shows in the output.
///
/// The application prints lines between them. A job whose application has not started yet has
/// another attempt.
fn follow_with_application(page: &str) -> Ended {
    let ended = follow(page, None);
    for line in shown(page).replace("1 attempt", "…").lines() {
        assert!(has(&ended.stdout, line), "shown: {line}\nprinted: {}", ended.stdout);
    }
    ended
}

#[test]
fn quickstart_for_node_ends_with_a_processed_job() {
    let ended = follow_with_application(&page("docs/quickstart-node.md"));
    assert!(ended.stdout.contains("mail to ada@example.com for customer-7"), "{}", ended.stdout);
}

#[test]
fn quickstart_for_python_ends_with_a_processed_job() {
    follow_with_application(&page("docs/quickstart-python.md"));
}

#[test]
fn quickstart_for_rust_ends_with_a_processed_job() {
    let root = root();
    let library = |text: &str| {
        let text = text.replace("../fairlane/crates", &root.join("crates").display().to_string());
        let lock = root.join("Cargo.lock");
        text.replace("cargo run", &format!("cp '{}' . && cargo run", lock.display()))
    };
    let page = page("docs/quickstart-rust.md");
    assert_eq!(follow(&page, Some(&library)).stdout, shown(&page));
}

#[test]
fn the_first_steps_of_the_readme_end_with_a_processed_job() {
    let readme = page("README.md");
    let (_, section) = readme.split_once("## Twenty seconds").unwrap();
    let ended = follow(section.split_once("\n## ").unwrap().0, None);
    for words in ["completed", "result     {\"to\": \"ada@example.com\"}"] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn a_page_whose_port_another_server_has_fails_with_the_reason() {
    let other = Receiver::responding("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let steps = steps(&page("docs/quickstart-python.md"));
    let ended = follow_once(&steps, None, other.address().port());
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    for words in ["the job is not completed", "dead, 1 attempt", PORT_TAKEN] {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
}

#[test]
fn a_page_is_read_in_the_order_of_its_blocks() {
    let page = "Save this as `a`:\n\n```js\none\n```\n\n```sh\nb \\\n  c\nd '\ne'\n```\n\n```text\nf\n```\n";
    let run = Step::Run("b \\\n  c\nd '\ne'\n".into());
    let read = steps(page);
    assert_eq!(read, [Step::Save { name: "a".into(), text: "one\n".into() }, run]);
    assert_eq!(size(&read), (2, 5));
}
