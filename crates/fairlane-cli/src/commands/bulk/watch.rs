//! `fairlane bulk watch`: how a bulk action comes along, until it has ended.

use std::io::IsTerminal;

use clap::Args;
use fairlane::{BulkState, BulkView};
use indicatif::{ProgressBar, ProgressStyle};

use super::Which;
use super::shown::Shown;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Example:
  fairlane bulk watch customer-7 newsletter && echo sent

It changes nothing; Ctrl-C ends the watching and not the bulk action.
Exit codes: 0 completed; 1 it failed; 2 bad input; 3 it ended otherwise than completed; 130 stopped by Ctrl-C.";

const BAR: &str = "[{wide_bar}] {msg}";

/// Shows how a bulk action comes along, until it has ended
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    which: Which,
}

/// Waits for the end.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let which = arguments.which;
    let bulk = which.find().await?;
    let bar = progress_bar(which.place.json);
    let ended = tokio::select! {
        ended = bulk.finished_with(|view| show(&bar, view)) => Some(ended?),
        _ = tokio::signal::ctrl_c() => None,
    };
    bar.finish_and_clear();
    let Some(view) = ended else {
        return Err(Failure::Stopped(format!("bulk action {} goes on", which.bulk)));
    };
    let is_completed = view.state == BulkState::Completed;
    let shown = Shown::new(&view);
    which.place.tell(&shown, || shown.line())?;
    if is_completed { Ok(()) } else { Err(Failure::Found(String::new())) }
}

fn progress_bar(silent: bool) -> ProgressBar {
    if silent || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(BAR).expect("the template is valid").progress_chars("=> ");
    ProgressBar::new(0).with_style(style)
}

fn show(bar: &ProgressBar, view: &BulkView) {
    bar.set_length(view.total);
    bar.set_position(view.succeeded + view.failed + view.cancelled);
    bar.set_message(Shown::new(view).line());
}
