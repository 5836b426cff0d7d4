//! Failures of a command: an error message and an exit code.

use std::fmt;
use std::path::Path;

use fairlane_engine::EngineError;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The input is unusable, or the queue rejects it.
    BadInput(String),
    /// Something broke; the same input may work later.
    Broken(String),
    /// The command worked and found a problem, which has been printed.
    Found(String),
    /// The user pressed Ctrl-C.
    Stopped(String),
    /// A failure with an exit code of its own; without a message, nothing is printed.
    Exit { code: u8, message: String },
}

impl Failure {
    /// A failure that persists until the input changes.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::BadInput(message.into())
    }

    /// A file that cannot be read.
    pub fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |error| {
            let path = path.display();
            Self::BadInput(format!("{path} cannot be read: {error}; check the path and its permissions"))
        }
    }

    /// A file that cannot be written.
    pub fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |error| Self::BadInput(unwritable(path, &error))
    }

    /// A file that cannot be written, as a failure that may be temporary.
    pub fn unwritable_now(path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |error| Self::Broken(unwritable(path, &error))
    }

    /// A failure that may be temporary.
    pub fn broken(message: impl Into<String>) -> Self {
        Self::Broken(message.into())
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Broken(_) => 1,
            Self::BadInput(_) => 2,
            Self::Found(_) => 3,
            Self::Stopped(_) => 130,
            Self::Exit { code, .. } => *code,
        }
    }

    /// The message without a prefix.
    pub fn message(&self) -> &str {
        match self {
            Self::BadInput(message)
            | Self::Broken(message)
            | Self::Found(message)
            | Self::Stopped(message)
            | Self::Exit { message, .. } => message,
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> String {
    format!(
        "{} cannot be written: {error}; check the path, its permissions and the free space",
        path.display()
    )
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadInput(message) | Self::Broken(message) | Self::Exit { message, .. } => {
                write!(f, "error: {message}")
            }
            Self::Found(advice) => f.write_str(advice),
            Self::Stopped(message) => write!(f, "stopped: {message}"),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Invalid(_) | EngineError::Refused { .. } => Self::BadInput(error.to_string()),
            EngineError::Unavailable { .. } | EngineError::Broken { .. } => Self::Broken(error.to_string()),
        }
    }
}

impl From<fairlane::Error> for Failure {
    fn from(error: fairlane::Error) -> Self {
        use fairlane::Error as Of;
        match error {
            Of::Engine(error) => error.into(),
            Of::Refused { .. } | Of::GaveUp { .. } | Of::Io(_) | Of::Unreadable { .. } => {
                Self::Broken(error.to_string())
            }
            _ => Self::BadInput(error.to_string()),
        }
    }
}

impl From<redis::RedisError> for Failure {
    fn from(error: redis::RedisError) -> Self {
        Self::Broken(format!("redis: {error}"))
    }
}
