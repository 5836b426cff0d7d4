//! Runs of the `fairlane` program: to the end, or in the background.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde_json::Value;

use crate::process::Process;
use crate::wait::until_blocking;

/// The exit code and output of a run.
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// Runs the command to its end.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Self { code: code(output.status), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The JSON on standard output; nothing else may be printed.
    pub fn json(&self) -> Value {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        serde_json::from_str(&self.stdout).expect("the output is JSON")
    }

    /// Asserts this exit code, an empty standard output, and messages with all these words.
    pub fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is missing in: {}", self.stderr);
        }
    }
}

/// A program in the background, with its output in files of a folder.
#[derive(Debug)]
pub struct Background {
    process: Process,
    folder: PathBuf,
}

impl Background {
    /// Starts the program in this folder, without the variables `FAIRLANE_…` of the test.
    pub fn start(program: &Path, folder: &Path, words: &[impl AsRef<OsStr>]) -> Self {
        let file = |name: &str| File::create(folder.join(name)).expect("the folder can be written");
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FAIRLANE_") {
                command.env_remove(&name);
            }
        }
        command.args(words).current_dir(folder).stdout(file("stdout")).stderr(file("stderr"));
        Self { process: Process::start(&mut command), folder: folder.to_owned() }
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).expect("the file was created at the start")
    }

    /// The events printed so far, by a program that prints JSON lines.
    pub fn events(&self) -> Vec<Value> {
        // The last line may be incomplete.
        self.stdout().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until a server prints its address, such as `http://127.0.0.1:8080`; an error if it
    /// ends before that.
    pub fn served(&mut self) -> Result<String, String> {
        let mut served = None;
        until_blocking("the server prints its address", || {
            let ended = self.status();
            let serving = self.events().into_iter().find(|event| event["event"] == "serving");
            served = match (serving, ended) {
                (Some(event), _) => Some(Ok(event["address"].as_str().unwrap_or_default().to_owned())),
                (None, Some(status)) => Some(Err(format!("it ended with {status}: {}", self.stderr()))),
                (None, None) => None,
            };
            served.is_some()
        });
        served.expect("the wait has ended")
    }

    /// The exit status, if the program has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().expect("a child can be waited for")
    }

    /// Waits until the program ends by itself.
    pub fn ended(mut self) -> Ended {
        let mut status = None;
        until_blocking("the program ends", || {
            status = self.status();
            status.is_some()
        });
        let code = code(status.expect("the wait has ended"));
        Ended { code, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Sends a signal such as `-TERM`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// The process, to be killed or measured.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().expect("the program exits without a signal")
}
