//! Runs the program and holds what it said.

use std::process::Command;

/// How a run ended.
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `fairlane` with these words.
pub fn fairlane(words: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_fairlane")).args(words).output().unwrap();
    Ended {
        code: output.status.code().expect("the program ends by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ended {
    /// What it printed, which must be JSON and the only thing said.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// It failed with this code, printed nothing, and said all of these.
    pub fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is missing in: {}", self.stderr);
        }
    }
}

/// The keys of an object, sorted.
pub fn keys(object: &serde_json::Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The object has all of these keys.
pub fn has_keys(object: &serde_json::Value, expected: &[&str]) {
    let found = keys(object);
    for key in expected {
        assert!(found.contains(key), "{key} is missing in {found:?}");
    }
}
