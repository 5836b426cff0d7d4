//! The document about settings says what the code does.

use fairlane_core::queue::Settings;

#[test]
fn every_setting_is_documented_with_its_default() {
    let document = include_str!("../../../../docs/configuration.md");
    let settings = Settings::default().fields();
    for (name, default) in &settings {
        let row = format!("| `{name}` | {default} |");
        assert!(document.contains(&row), "docs/configuration.md lacks {row}");
    }
    let whole = document.split("## A group").next().expect("there is a first part");
    let rows = whole.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, settings.len(), "and no others");
}
