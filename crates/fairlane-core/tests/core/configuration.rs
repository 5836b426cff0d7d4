//! The document about settings matches the code.

use fairlane_core::queue::Settings;

#[test]
fn every_setting_is_documented_with_its_default() {
    let document = include_str!("../../../../docs/configuration.md");
    let settings = Settings::default().fields();
    for (name, default) in &settings {
        // The stored name of this setting is older.
        let name = if *name == "whole_backlog_max" { "queue_backlog_max" } else { name };
        let row = format!("| `{name}` | {default} |");
        assert!(document.contains(&row), "docs/configuration.md lacks {row}");
    }
    let tables = document.split("## A group").next().expect("there is a first part");
    let rows = tables.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, settings.len(), "and no others");
}
