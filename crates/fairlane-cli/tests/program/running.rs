//! Runs the program and captures its output.

use std::path::Path;
use std::process::Command;

pub use fairlane_testkit::program::Ended;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_fairlane");

/// Runs `fairlane` with these arguments.
pub fn fairlane(words: &[&str]) -> Ended {
    Ended::of(Command::new(PROGRAM).args(words))
}

/// Runs `fairlane` in a folder without a configured queue, with these environment variables.
pub fn fairlane_in(folder: impl AsRef<Path>, variables: &[(&str, &str)], words: &[&str]) -> Ended {
    let mut command = Command::new(PROGRAM);
    command.env_remove("FAIRLANE_ENGINE").env_remove("FAIRLANE_KEYS").envs(variables.iter().copied());
    Ended::of(command.args(words).current_dir(folder))
}

/// The keys of an object, sorted.
pub fn keys(object: &serde_json::Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Asserts that the object has all these keys.
pub fn has_keys(object: &serde_json::Value, expected: &[&str]) {
    let found = keys(object);
    for key in expected {
        assert!(found.contains(key), "{key} is missing in {found:?}");
    }
}
