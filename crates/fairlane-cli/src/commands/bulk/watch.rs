//! `fairlane bulk watch`: how a bulk action comes along, until it has ended.

use clap::Args;
use fairlane::{BulkState, BulkView};
use indicatif::ProgressBar;

use super::Which;
use super::shown::Shown;
use crate::escape;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Example:
  fairlane bulk watch customer-7 newsletter && echo sent

It changes nothing; Ctrl-C ends the watching and not the bulk action. A data directory has to be served meanwhile
(fairlane serve): nobody else can use one that a command has open.
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
    let fairlane = which.place.attach().await?;
    let bulk = fairlane.bulk(&which.group, &which.bulk).opened_before()?;
    if !bulk.view().await?.state.is_final() {
        which.place.refuse_to_wait(&fairlane, "look at it now and then (fairlane bulk show)")?;
    }
    let bar = output::progress_bar(which.place.json, BAR, Some(0));
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

fn show(bar: &ProgressBar, view: &BulkView) {
    bar.set_length(view.total);
    bar.set_position(view.succeeded + view.failed + view.cancelled);
    bar.set_message(escape::line(&Shown::new(view).line()).into_owned());
}
