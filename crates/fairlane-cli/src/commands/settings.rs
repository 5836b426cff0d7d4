//! `fairlane settings`: the settings of the queue.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use fairlane::duration_text;
use fairlane_core::queue::Settings;
use serde::Serialize;

use crate::config::{Field, parse_queue, queue_settings};
use crate::failure::Failure;
use crate::tables;
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane settings show
  fairlane settings set max_retry_count=5 rate=1000/s
  fairlane settings set completed_retention_ms=2h rate=none
  fairlane settings show --json

The keys are those of [queue] in fairlane.toml. The values are stored in the queue, so that every \
process uses the same ones. --json prints durations in milliseconds.
Exit codes: 0 success; 1 failure; 2 bad input, such as an unknown key or a value out of range.";

/// Shows and changes the settings of the queue
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Shows all settings
    #[command(after_help = "Example:\n  fairlane settings show")]
    Show(QueueTarget),
    /// Changes the given settings; the others stay unchanged
    #[command(after_help = "Example:\n  fairlane settings set max_retry_count=5 rate='500/s burst 20'")]
    Set {
        /// Settings and their new values, such as max_retry_count=5; settings show lists all keys
        #[arg(value_name = "KEY=VALUE", required = true, value_parser = pair)]
        pairs: Vec<(String, String)>,
        #[command(flatten)]
        target: QueueTarget,
    },
}

/// The JSON form of the result: the exact values.
#[derive(Serialize)]
struct SettingsView {
    settings: BTreeMap<String, String>,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Show(target) => {
            let queue = target.attach().await?.queue_view().await?;
            print(&target, &queue.settings)
        }
        Action::Set { pairs, target } => set(pairs, &target).await,
    }
}

async fn set(pairs: Vec<(String, String)>, target: &QueueTarget) -> Result<(), Failure> {
    // Finds invalid keys and values before the queue is opened.
    let changes = parse_queue(pairs).map_err(Failure::bad_input)?;
    let fairlane = target.attach_or_make().await?;
    let mut settings = fairlane.queue_view().await?.settings;
    changes.apply(&mut settings);
    fairlane.set_queue(settings.clone()).await?;
    print(target, &settings)
}

fn print(target: &QueueTarget, settings: &Settings) -> Result<(), Failure> {
    let values = queue_settings(settings);
    let view = SettingsView { settings: values.iter().cloned().collect() };
    let rows = values.into_iter().map(|(key, value)| {
        let value = readable(&key, value);
        vec![key, value]
    });
    target.print(&view, || tables::texts(&["key", "value"], rows))
}

/// The value for people: a number of milliseconds becomes a duration with its unit.
pub fn readable(key: &str, value: String) -> String {
    match value.parse() {
        Ok(ms) if key.ends_with("_ms") => duration_text(Duration::from_millis(ms)),
        _ => value,
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as max_retry_count=5")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_with_their_unit() {
        let cases = [
            ("completed_retention_ms", "5400000", "1h30m"),
            ("base_backoff_ms", "0", "0s"),
            ("max_retry_count", "86400000", "86400000"),
            ("rate", "none", "none"),
        ];
        for (key, value, expected) in cases {
            assert_eq!(readable(key, value.to_owned()), expected, "{key}");
        }
    }
}
