//! Version, usage and colours of the help. A unit test compares the help of every command with
//! `tests/help/`.

use super::running::fairlane;

#[test]
fn the_version_is_that_of_the_package() {
    let ended = fairlane(&["--version"]);
    assert_eq!(ended.stdout.trim(), concat!("fairlane ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_missing_or_unknown_command_prints_usage_and_exits_with_code_2() {
    fairlane(&[]).failed(2, &["Usage: fairlane", "Commands:"]);
    fairlane(&["dmeo"]).failed(2, &["unrecognized subcommand 'dmeo'", "'demo'"]);
    fairlane(&["demo", "--sizes", "many"]).failed(2, &["--sizes"]);
}

#[test]
fn help_in_a_pipe_has_no_colours() {
    let ended = fairlane(&["--help"]);
    assert!(!ended.stdout.contains('\u{1b}'));
}
