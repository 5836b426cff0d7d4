//! `fairlane settings`: what holds for the whole queue.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use fairlane_core::queue::{SetWhole, Settings, WholeSet};
use serde::Serialize;

use super::work::store::DISCIPLINE_IN_USE;
use crate::config::{set_whole, whole_shown};
use crate::failure::Failure;
use crate::place::Place;
use crate::tables;

const EXAMPLES: &str = "\
Examples:
  fairlane settings show
  fairlane settings set max_retry_count=5 rate=1000/s
  fairlane settings set completed_retention_ms=2h rate=none
  fairlane settings show --json

The keys are those of [whole] in fairlane.toml. They live with the queue, so every process sees the same.
Exit codes: 0 done; 1 it failed; 2 bad input, such as an unknown key or a value out of range.";

/// Shows what holds for the whole queue, and changes it
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    /// Says what holds
    #[command(after_help = "Example:\n  fairlane settings show")]
    Show(Place),
    /// Changes what is named and leaves the rest
    #[command(after_help = "Example:\n  fairlane settings set max_retry_count=5 rate='500/s burst 20'")]
    Set {
        /// Such as max_retry_count=5; fairlane settings show has all keys
        #[arg(value_name = "KEY=VALUE", required = true, value_parser = pair)]
        pairs: Vec<(String, String)>,
        #[command(flatten)]
        place: Place,
    },
}

/// What programs get.
#[derive(Serialize)]
struct Answer {
    settings: BTreeMap<&'static str, String>,
}

/// Does what was asked.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::Show(place) => {
            let whole = place.attach().await?.whole().await?;
            tell(&place, &whole.settings)
        }
        Deed::Set { pairs, place } => set(pairs, &place).await,
    }
}

async fn set(pairs: Vec<(String, String)>, place: &Place) -> Result<(), Failure> {
    // What is mistyped is found before anybody is asked.
    let mut standard = Settings::default();
    for (key, value) in &pairs {
        set_whole(&mut standard, key, value).map_err(Failure::bad_input)?;
    }
    let fairlane = place.attach_or_make().await?;
    let mut settings = fairlane.whole().await?.settings;
    for (key, value) in &pairs {
        set_whole(&mut settings, key, value).map_err(Failure::bad_input)?;
    }
    let command = SetWhole { settings: settings.clone() };
    match fairlane.engine().set_whole(command).await.map_err(fairlane::Error::from)? {
        WholeSet::Set => tell(place, &settings),
        WholeSet::DisciplineInUse => Err(Failure::bad_input(DISCIPLINE_IN_USE)),
    }
}

fn tell(place: &Place, settings: &Settings) -> Result<(), Failure> {
    let shown = whole_shown(settings);
    let answer = Answer { settings: shown.iter().cloned().collect() };
    let rows = shown.into_iter().map(|(key, value)| vec![key.to_owned(), value]);
    place.tell(&answer, || tables::texts(&["key", "value"], rows))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as max_retry_count=5")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
