//! `fairlane ranking`: boards from the shell.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::running::{Ended, PROGRAM, fairlane};
use super::served::Served;

const DOCUMENT: &str = include_str!("../../../../docs/rankings.md");

fn ranking(served: &Served, words: &[&str]) -> Ended {
    fairlane(&[&["ranking"], words, &["--engine", &served.address]].concat())
}

#[test]
fn board_is_made_filled_read_and_removed() {
    let served = Served::start();
    ranking(&served, &["top", "popular"]).failed(2, &["there is no board", "create it first"]);
    ranking(&served, &["show", "popular"]).failed(2, &["fairlane ranking set popular"]);
    let made = ranking(&served, &["set", "popular", "--windows", "day,week", "--json"]).json();
    assert_eq!((&made["created"], &made["windows"]), (&true.into(), &serde_json::json!(["day", "week"])));
    ranking(&served, &["set", "popular", "--rule", "sum"]).failed(2, &["other settings"]);
    let record =
        |id: &str, member: &str| ranking(&served, &["record", "popular", id, member, "--json"]).json();
    assert_eq!(record("r1", "a")["outcome"], "applied");
    assert_eq!(record("r1", "a")["outcome"], "repeated");
    assert_eq!(record("r2", "b")["outcome"], "applied");
    assert_eq!(ranking(&served, &["record", "popular", "r3", "b"]).stdout, "r3: applied\n");
    let old = ["record", "popular", "r4", "a", "--at", "2020-01-01T00:00:00Z"];
    ranking(&served, &old).failed(2, &["older than the board's horizon", "rebuild"]);
    ranking(&served, &["record", "popular", "r5", "a", "--at", "noon"]).failed(2, &["noon"]);
    let top = ranking(&served, &["top", "popular", "--window", "day", "--json"]).json();
    assert_eq!((&top["entries"][0]["member"], &top["members"]), (&"b".into(), &2.into()));
    let hour = ["top", "popular", "--window", "hour"];
    ranking(&served, &hour).failed(2, &["no window hour", "its windows are day and week"]);
    let text = ranking(&served, &["top", "popular", "--limit", "1"]).stdout;
    assert!(text.contains("b") && text.contains("of 2 members"), "{text}");
    let rank = ranking(&served, &["rank", "popular", "a", "--json"]).json();
    assert_eq!((&rank["rank"], &rank["percentile"]), (&2.into(), &50.0.into()));
    ranking(&served, &["rank", "popular", "nobody"]).failed(2, &["not in this standing"]);
    let around = ranking(&served, &["around", "popular", "a", "--before", "1", "--json"]).json();
    assert_eq!(around["entries"].as_array().unwrap().len(), 2);
    ranking(&served, &["top", "popular", "--limit", "501"]).failed(2, &["between 1 and 500"]);
    let cancelled = ranking(&served, &["cancel", "popular", "r3", "--json"]).json();
    assert_eq!(cancelled["outcome"], "applied");
    let listed = ranking(&served, &["list"]).stdout;
    assert!(listed.contains("popular") && listed.contains("count"), "{listed}");
    let shown = ranking(&served, &["show", "popular"]).stdout;
    assert!(shown.contains("3 recorded, 1 cancelled, 1 repeated"), "{shown}");
    assert_eq!(ranking(&served, &["remove", "popular", "--json"]).json()["removed"], "popular");
    ranking(&served, &["remove", "popular"]).failed(2, &["there is no board popular"]);
}

#[test]
fn values_are_set_and_a_season_is_closed_with_its_job() {
    let served = Served::start();
    ranking(&served, &["set", "fast", "--rule", "latest", "--order", "ascending", "--decimals", "3"]);
    let set = ranking(&served, &["score", "fast", "s1", "30500", "--version", "1", "--json"]).json();
    assert_eq!(set["outcome"], "applied");
    assert_eq!(ranking(&served, &["rank", "fast", "s1", "--json"]).json()["score"], 30.5);
    ranking(&served, &["close-season", "fast", "1", "--group", "system"]).failed(2, &["--type"]);
    let close = ["close-season", "fast", "1", "--group", "system", "--type", "season-closed", "--json"];
    let (first, again) = (ranking(&served, &close).json(), ranking(&served, &close).json());
    assert_eq!((&first["announced_now"], &again["announced_now"]), (&true.into(), &false.into()));
    assert_eq!(first["entries"], again["entries"]);
    let job = fairlane(&["job", "show", "system", "season-fast-1", "--json", "--engine", &served.address]);
    assert_eq!(job.json()["type"], "season-closed");
    ranking(&served, &["close-season", "fast", "5"]).failed(2, &["season 5 has not begun"]);
}

#[test]
fn board_is_rebuilt_from_a_file_and_compared_with_it() {
    let (served, folder) = (Served::start(), TempDir::new().unwrap());
    let file = folder.path().join("source.ndjson");
    let line = |number: u32| {
        format!("{{\"id\": \"r{number}\", \"member\": \"s{}\", \"at\": 1700000000000}}\n", number % 3)
    };
    std::fs::write(&file, (0..150).map(line).collect::<String>()).unwrap();
    let path = file.to_str().unwrap();
    ranking(&served, &["set", "popular"]);
    let audit = ranking(&served, &["audit", "popular", path]);
    assert_eq!(audit.code, 3, "{}", audit.stderr);
    assert!(audit.stderr.contains("3 members differ; fairlane ranking rebuild popular"), "{}", audit.stderr);
    assert!(audit.stdout.contains("in the source"), "{}", audit.stdout);
    let rebuilt = ranking(&served, &["rebuild", "popular", path, "--id", "one", "--json"]).json();
    assert_eq!(rebuilt["members"], 3);
    let audit = ranking(&served, &["audit", "popular", path, "--json"]);
    assert_eq!((audit.code, &audit.json()["rows"]), (0, &150.into()));
    ranking(&served, &["rebuild", "popular", "no-such-file", "--id", "two"]).failed(2, &["cannot be read"]);
    std::fs::write(&file, "{\"member\": \"s1\"}\n").unwrap();
    ranking(&served, &["rebuild", "popular", path, "--id", "two"]).failed(2, &["line 1:", "at"]);
}

/// The commands in a section of the document.
fn commands(section: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("## {section}\n")).expect("the section exists");
    let (_, rest) = rest.split_once("```sh\n").expect("it has commands");
    rest.split_once("```").expect("the block ends").0
}

#[test]
fn commands_of_the_document_work() {
    let (served, folder) = (Served::start(), TempDir::new().unwrap());
    let event = "{\"id\": \"reservation-2\", \"member\": \"concert-8\", \"at\": 1700000000000}\n";
    std::fs::write(folder.path().join("reservations.ndjson"), event).unwrap();
    let programs = Path::new(PROGRAM).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let run = |section: &str| {
        let host = served.address.trim_start_matches("http://");
        let script = commands(section).replace("localhost:8080", host);
        let shell = Command::new("sh")
            .args(["-ec", &script])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("FAIRLANE_ENGINE", &served.address)
            .output()
            .unwrap();
        let [stdout, stderr] = [shell.stdout, shell.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(shell.status.success(), "{stdout}{stderr}");
        stdout
    };
    let answers = run("Over HTTP");
    for part in ["\"created\":true", "\"outcome\":\"applied\"", "\"members\":1", "\"percentile\":100.0"] {
        assert!(answers.contains(part), "{part} is not in {answers}");
    }
    let printed = run("From the shell");
    for part in [
        "reservation-1: repeated, nothing changed",
        "rank 1 of 1 member",
        "season 1 of popular is closed",
        "equals its source",
    ] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
}
