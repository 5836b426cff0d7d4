//! The receivers of callbacks in docs/workers.md: run as they are shown, with a real callback and a
//! forged one.

use std::path::Path;

use fairlane_testkit::document::{blocks, page, run_script};
use fairlane_testkit::redis::free_port;
use serde_json::Value;
use tempfile::TempDir;

use super::running::PROGRAM;

/// Requests that a receiver must refuse: one without a signature, and one with a wrong signature.
const FORGED: &str = "\
curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:3000/ -d '{}'
curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:3000/ -d '{}' -H 'webhook-id: 1' \\
  -H \"webhook-timestamp: $(date +%s)\" -H 'webhook-signature: v1,MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw v1,é'
";

/// A line that repeats a command until it succeeds, for a minute at most.
fn until(command: &str) -> String {
    format!("timeout 60 bash -c 'until {command}; do sleep 0.05; done'\n")
}

/// Follows the page with this receiver; returns what the receiver printed.
fn follow(file: &str, program: &str, receiver: &str) -> String {
    let folder = TempDir::new().unwrap();
    let text = page("docs/workers.md");
    let (tomls, commands) = (blocks(&text, "toml"), blocks(&text, "sh"));
    let [commands] = &commands[..] else { panic!("{commands:?}") };
    let (server, port) = (free_port().to_string(), free_port().to_string());
    std::fs::write(folder.path().join(file), receiver.replace("3000", &port)).unwrap();
    std::fs::write(folder.path().join("fairlane.toml"), tomls.last().unwrap()).unwrap();
    let started =
        format!("{program} {file} > received &\n{}", until("curl -s -o /dev/null http://127.0.0.1:3000/"));
    let (before, after) = commands.split_once("python3 receiver.py &").unwrap();
    let (comment, after) = after.split_once('\n').unwrap();
    assert_eq!(comment.trim(), "# or: node receiver.mjs &");
    let ended = until("grep -q bulk.completed received");
    let script = format!("{before}{started}{after}{ended}{FORGED}").replace("3000", &port);
    let script = script.replace("fairlane health", &format!("fairlane health http://127.0.0.1:{server}"));
    let listen = format!("127.0.0.1:{server}");
    let programs = Path::new(PROGRAM).parent().unwrap();
    let ended = run_script(folder.path(), programs, &script, &[("FAIRLANE_SERVER_LISTEN", &listen)]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("\n401\n401\n"), "forged callbacks are refused: {}", ended.stdout);
    std::fs::read_to_string(folder.path().join("received")).unwrap()
}

/// The one block of this language on the page.
fn receiver(language: &str) -> String {
    let blocks = blocks(&page("docs/workers.md"), language);
    let [receiver] = &blocks[..] else { panic!("{blocks:?}") };
    receiver.clone()
}

#[test]
fn the_receiver_in_node_accepts_a_real_callback_and_refuses_a_forged_one() {
    assert_eq!(follow("receiver.mjs", "node", &receiver("js")), "bulk.completed newsletter 1\n");
}

/// Also compares the body of the callback with the one that the page shows.
#[test]
fn the_receiver_in_python_accepts_a_real_callback_and_refuses_a_forged_one() {
    let line = "            event = json.loads(body)\n";
    let with_body = receiver("python").replace(line, &format!("            print(body.decode())\n{line}"));
    let printed = follow("receiver.py", "python3", &with_body);
    let (body, shown) = printed.split_once('\n').unwrap();
    assert_eq!(shown, "bulk.completed newsletter 1\n");
    let documented: Value = serde_json::from_str(&receiver("json")).unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(shape(&body), shape(&documented), "the page shows the fields of {body}");
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
