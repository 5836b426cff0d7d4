//! What the program says about itself.

use super::running::fairlane;

#[test]
fn the_version_is_that_of_the_package() {
    let ended = fairlane(&["--version"]);
    assert_eq!(ended.stdout.trim(), concat!("fairlane ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_help_lists_the_commands_and_exit_codes() {
    let ended = fairlane(&["--help"]);
    assert_eq!(ended.code, 0);
    for word in [
        "Usage: fairlane",
        "demo",
        "bench",
        "simulate",
        "enqueue",
        "bulk",
        "job",
        "work",
        "dead",
        "group",
        "type",
        "why",
        "audit",
        "--version",
        "Exit codes:",
        "  130  ",
    ] {
        assert!(ended.stdout.contains(word), "{word:?} is missing in: {}", ended.stdout);
    }
}

#[test]
fn every_command_explains_itself_with_examples_and_exit_codes() {
    let options: [(&str, &[&str]); 12] = [
        ("demo", &["--engine <URL>", "--sizes <N,N,…>", "--workers <N>", "--rate <R>", "--json"]),
        ("bench", &["--engine <URL>", "--quick", "--only <NAME>", "--plot <OUT.SVG>", "--json"]),
        ("simulate", &["<SCENARIO>", "--plot <OUT.SVG>", "--json"]),
        ("enqueue", &["<GROUP>", "<TYPE>", "--id <ID>", "--delay <TIME>", "--run-at <WHEN>", "--json"]),
        ("bulk", &["load", "show", "list", "watch", "seal", "hold", "resume", "cancel", "export"]),
        ("job", &["show", "cancel"]),
        ("work", &["--config <FILE>", "--engine <URL>", "--drain", "--check", "--json"]),
        ("dead", &["list", "requeue", "discard"]),
        ("group", &["show", "set", "list"]),
        ("type", &["show", "set", "list"]),
        ("why", &["<GROUP>", "<JOB>", "--engine <URL>", "--json"]),
        ("audit", &["--engine <URL>", "--repair", "--json"]),
    ];
    for (command, words) in options {
        let ended = fairlane(&[command, "--help"]);
        assert_eq!(ended.code, 0);
        for word in words.iter().chain(&["Examples:", "Exit codes:"]) {
            assert!(ended.stdout.contains(word), "{word:?} is missing in: {}", ended.stdout);
        }
    }
}

#[test]
fn every_part_of_a_command_has_an_example() {
    let parts: [(&str, &[&str]); 5] = [
        ("bulk", &["load", "show", "list", "watch", "seal", "hold", "resume", "cancel", "export"]),
        ("job", &["show", "cancel"]),
        ("dead", &["list", "requeue", "discard"]),
        ("group", &["show", "set", "list"]),
        ("type", &["show", "set", "list"]),
    ];
    for (command, parts) in parts {
        for part in parts {
            let ended = fairlane(&[command, part, "--help"]);
            let example = format!("  fairlane {command} {part}");
            assert!(ended.stdout.contains("Example") && ended.stdout.contains(&example), "{}", ended.stdout);
        }
    }
}

#[test]
fn nothing_and_nonsense_are_answered_with_usage_and_code_2() {
    fairlane(&[]).failed(2, &["Usage: fairlane", "Commands:"]);
    fairlane(&["dmeo"]).failed(2, &["unrecognized subcommand 'dmeo'", "'demo'"]);
    fairlane(&["demo", "--sizes", "many"]).failed(2, &["--sizes"]);
}

#[test]
fn no_colour_is_written_where_nobody_sees_it() {
    let ended = fairlane(&["--help"]);
    assert!(!ended.stdout.contains('\u{1b}'));
}
