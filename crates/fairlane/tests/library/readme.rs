//! The README shows the examples that `examples.rs` runs on every engine, byte for byte.

const README: &str = include_str!("../../../../README.md");

/// An example without its module comment.
fn shown(example: &str) -> String {
    let lines: Vec<&str> = example.lines().filter(|line| !line.starts_with("//!")).collect();
    lines.join("\n").trim().to_owned()
}

#[test]
fn the_readme_shows_the_examples_that_are_run() {
    let blocks: Vec<&str> = README
        .split("```rust\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .map(str::trim)
        .collect();
    let examples =
        [include_str!("../../examples/enqueue_and_work.rs"), include_str!("../../examples/with_lock.rs")];
    assert_eq!(
        blocks,
        examples.map(shown),
        "copy the examples into the README, without their module comments"
    );
}
