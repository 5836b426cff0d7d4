//! Runs the program and captures its output.

use std::process::Command;

/// The exit code and output of a run.
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `fairlane` with these arguments.
pub fn fairlane(words: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_fairlane")).args(words).output().unwrap();
    Ended {
        code: output.status.code().expect("the program exits without a signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ended {
    /// The JSON on standard output; nothing else may be printed.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Asserts this exit code, an empty standard output, and messages with all these words.
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

/// Asserts that the object has all these keys.
pub fn has_keys(object: &serde_json::Value, expected: &[&str]) {
    let found = keys(object);
    for key in expected {
        assert!(found.contains(key), "{key} is missing in {found:?}");
    }
}
