//! What the program says about itself. The help of every command is compared with `tests/help/` by a test of the program.

use super::running::fairlane;

#[test]
fn the_version_is_that_of_the_package() {
    let ended = fairlane(&["--version"]);
    assert_eq!(ended.stdout.trim(), concat!("fairlane ", env!("CARGO_PKG_VERSION")));
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
