//! Untrusted text with control characters in the output of every command that prints jobs.

use fairlane::{Context, Fairlane, Job, Outcome};

use super::queue::Queue;
use super::running::fairlane;
use super::terminal::fairlane_on_terminal;
use super::work::WorkFolder;

/// Sets the title, writes the clipboard, clears the screen, returns to the start of the line,
/// reorders text and breaks lines.
const TEXT: &str =
    "x\u{1b}]0;t\u{7}\u{1b}]52;c;aGk=\u{7}\u{1b}[2J\r\u{9b}31m\u{7f}\u{202e}\u{2066}\u{2028}\nresult";
/// Names cannot contain control characters, but bidirectional controls.
const GROUP: &str = "customer\u{202e}-7\u{2069}";
const TYPE: &str = "mail\u{200f}";
const BULK: &str = "news\u{2067}";

/// A queue with the jobs `done`, `raw`, `dead` and `waiting`, inside and outside a bulk action, all
/// with hostile text.
fn filled() -> Queue {
    let queue = Queue::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fairlane = Fairlane::open(&queue.url()).await.unwrap();
        let bulk = fairlane.bulk(GROUP, BULK).open().await.unwrap();
        let mut ingest = bulk.ingest();
        for id in ["bulk-done", "bulk-dead"] {
            ingest.push(bulk.job(TYPE, &TEXT).id(format!("{id}\u{202e}"))).await.unwrap();
        }
        ingest.seal().await.unwrap();
        for id in ["done", "raw", "dead"] {
            let payload: Vec<u8> = if id == "raw" { TEXT.into() } else { serde_json::to_vec(TEXT).unwrap() };
            let job = Job::bytes(GROUP, TYPE, payload).id(format!("{id}\u{202e}"));
            fairlane.enqueue(job).await.unwrap().accepted().unwrap();
        }
        let process = |job: Context| async move {
            let id = job.job().id.to_string();
            match id.trim_end_matches('\u{202e}') {
                "done" | "bulk-done" => Outcome::done(&TEXT),
                "raw" => Outcome::done_bytes(TEXT),
                _ => Outcome::failed(TEXT, TEXT),
            }
        };
        let pool = fairlane.worker().processor(TYPE, process).start().unwrap();
        bulk.finished().await.unwrap();
        for id in ["done", "raw", "dead"] {
            fairlane.job(GROUP, format!("{id}\u{202e}")).finished().await.unwrap().unwrap();
        }
        pool.stop().await;
        let job = Job::new(GROUP, TYPE, &TEXT).id("waiting\u{202e}");
        fairlane.enqueue(job).await.unwrap().accepted().unwrap();
    });
    queue
}

fn is_hostile(character: char) -> bool {
    let is_bidi = "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}".contains(character)
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character);
    is_bidi || character.is_control() && !matches!(character, '\n' | '\t')
}

fn is_safe(words: &[&str], shown: &str) {
    assert!(!shown.contains(is_hostile), "{words:?}: {}", shown.escape_debug());
}

#[test]
fn no_command_prints_control_or_bidirectional_characters() {
    let queue = filled();
    let commands: [&[&str]; 20] = [
        &["job", "show", GROUP, "done\u{202e}"],
        &["job", "show", GROUP, "raw\u{202e}"],
        &["job", "show", GROUP, "dead\u{202e}"],
        &["job", "show", GROUP, "waiting\u{202e}"],
        &["job", "show", GROUP, "missing\u{202e}"],
        &["dead", "list"],
        &["why", GROUP, "dead\u{202e}"],
        &["why", GROUP, "waiting\u{202e}"],
        &["status"],
        &["top"],
        &["group", "list"],
        &["group", "show", GROUP],
        &["type", "list"],
        &["type", "show", TYPE],
        &["bulk", "list", GROUP],
        &["bulk", "show", GROUP, BULK],
        &["audit"],
        &["settings", "show"],
        &["enqueue", GROUP, TYPE, "1", "--id", "more\u{202e}"],
        &["job", "cancel", GROUP, "more\u{202e}"],
    ];
    for words in commands {
        let ended = queue.run(words);
        is_safe(words, &(ended.stdout + &ended.stderr));
        let ended = queue.run(&[words, &["--json"]].concat());
        is_safe(words, &(ended.stdout.clone() + &ended.stderr));
        let json = if ended.stdout.is_empty() { ended.stderr } else { ended.stdout };
        serde_json::from_str::<serde_json::Value>(&json).expect("the output is JSON");
    }
    let path = queue.path("queue");
    is_safe(&["data", "export"], &fairlane(&["data", "export", &path]).stdout);
}

/// A line of a payload must not look like a line of the program.
#[test]
fn lines_of_a_payload_are_indented() {
    let queue = filled();
    let shown = queue.run(&["job", "show", GROUP, "raw\u{202e}"]).stdout;
    assert_eq!(shown.lines().filter(|line| line.starts_with("  result")).count(), 1, "{shown}");
    let listed = queue.run(&["dead", "list"]).stdout;
    assert!(!listed.lines().any(|line| line.trim_start().starts_with("result")), "{listed}");
}

#[test]
fn an_export_is_escaped_on_a_terminal_and_unchanged_in_a_pipe() {
    let queue = filled();
    let words = ["bulk", "export", GROUP, BULK, "--engine", &queue.url()];
    let (code, shown) = fairlane_on_terminal(&words);
    assert_eq!(code, 0, "{shown}");
    is_safe(&words, &shown);
    let piped = fairlane(&words).stdout;
    let values = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(values(&shown).len(), 2);
    assert_eq!(values(&shown), values(&piped));
    is_safe(&["dead", "list"], &fairlane_on_terminal(&["dead", "list", "--engine", &queue.url()]).1);
}

#[test]
fn a_worker_reports_problems_without_control_characters() {
    let (folder, queue) = (WorkFolder::new(), Queue::new());
    queue.json(&["enqueue", GROUP, "mail", "1", "--id", "a\u{202e}"]);
    let file = "[types.mail]\nmax_retry_count = 0\n\
                command = [\"sh\", \"-c\", \"printf '\\\\033]0;t\\\\007\\\\342\\\\200\\\\256' >&2; exit 1\"]\n";
    let config = folder.path("work.toml");
    std::fs::write(&config, file).unwrap();
    let config = config.display().to_string();
    let ended = fairlane(&["work", "--config", &config, "--drain", "--engine", &queue.url()]);
    assert!(ended.stderr.contains("is dead"), "{}{}", ended.stdout, ended.stderr);
    is_safe(&["work"], &(ended.stdout + &ended.stderr));
}
