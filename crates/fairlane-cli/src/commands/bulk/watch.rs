//! `fairlane bulk watch`: the progress of a bulk action until it ends.

use clap::Args;
use fairlane::{BulkState, BulkView, views};
use indicatif::ProgressBar;

use super::BulkSelector;
use super::text;
use crate::escape;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Example:
  fairlane bulk watch customer-7 newsletter && echo sent

Changes nothing; Ctrl-C stops watching, not the bulk action. A data directory needs a running \
server (fairlane serve), because no other process can use a directory that a command has open.
Exit codes: 0 completed; 1 failure; 2 bad input; 3 the bulk action did not complete; 130 \
interrupted by Ctrl-C.";

const BAR: &str = "[{wide_bar}] {msg}";

/// Shows the progress of a bulk action until it ends
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    bulk: BulkSelector,
}

/// Waits for the end.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let selector = arguments.bulk;
    let fairlane = selector.target.attach().await?;
    let bulk = fairlane.bulk(&selector.group, &selector.bulk).opened_before()?;
    if !bulk.view().await?.state.is_final() {
        selector.target.refuse_to_block(&fairlane, "run fairlane bulk show from time to time")?;
    }
    let bar = output::progress_bar(selector.target.json, BAR, Some(0));
    let ended = tokio::select! {
        ended = bulk.finished_with(|view| show(&bar, view)) => Some(ended?),
        _ = tokio::signal::ctrl_c() => None,
    };
    bar.finish_and_clear();
    let Some(view) = ended else {
        return Err(Failure::Stopped(format!("bulk action {} continues", selector.bulk)));
    };
    let is_completed = view.state == BulkState::Completed;
    let view = views::BulkView::from(&view);
    selector.target.print(&view, || text::line(&view))?;
    if is_completed { Ok(()) } else { Err(Failure::Found(String::new())) }
}

fn show(bar: &ProgressBar, view: &BulkView) {
    bar.set_length(view.total);
    bar.set_position(view.succeeded + view.failed + view.cancelled);
    bar.set_message(escape::line(&text::line(&view.into())).into_owned());
}
