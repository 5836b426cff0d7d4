//! Where a command finds its queue, and how it says what it found.

use std::path::Path;

use clap::Args;
use fairlane::{Error, Fairlane};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::own_engine::folder;

/// The options that commands on a queue have in common.
#[derive(Args, Clone)]
pub struct Place {
    /// Where the queue lives: redis://host:port, redis+cluster://host:port,host:port or dir:path
    #[arg(
        long,
        value_name = "URL",
        env = "FAIRLANE_ENGINE",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub engine: String,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

impl Place {
    /// The queue that is there, with the settings it has.
    pub async fn attach(&self) -> Result<Fairlane, Failure> {
        if matches!(self.engine.as_str(), "" | "memory" | "memory:") {
            return Err(Failure::bad_input(
                "a queue in memory begins and ends with this command; name a Redis or a directory with --engine",
            ));
        }
        Fairlane::attach(&self.engine).await.map_err(unopened)
    }

    /// The same, but a directory that is not there is made.
    pub async fn attach_or_make(&self) -> Result<Fairlane, Failure> {
        match folder(&self.engine).filter(|folder| !Path::new(folder).exists()) {
            Some(_) => Fairlane::open(&self.engine).await.map_err(unopened),
            None => self.attach().await,
        }
    }

    /// Prints what a program or a person wants.
    pub fn tell(&self, answer: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { output::print_json(answer) } else { output::print(&text()) }
    }
}

fn unopened(error: Error) -> Failure {
    match error {
        Error::Engine(error) => Failure::unopened(error),
        other => other.into(),
    }
}
