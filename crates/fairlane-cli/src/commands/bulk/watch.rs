//! `fairlane bulk watch`: the progress of a bulk action until it ends.

use std::time::{Duration, Instant};

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

Changes nothing; Ctrl-C stops watching, not the bulk action. Without a terminal, a line on standard \
error every 10 seconds shows the progress. A data directory needs a running \
server (fairlane serve), because no other process can use a directory that a command has open.
Exit codes: 0 completed; 1 failure; 2 bad input; 3 the bulk action did not complete; 130 \
interrupted by Ctrl-C.";

const BAR: &str = "[{wide_bar}] {msg}";
/// The time between two lines of progress without a terminal.
const LINE_PAUSE: Duration = Duration::from_secs(10);

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
    let is_silent = selector.target.json || !bar.is_hidden();
    let mut printed_at = Instant::now();
    let progress = |view: &BulkView| {
        show(&bar, view);
        if !is_silent && is_line_due(&mut printed_at, Instant::now()) {
            output::print_message(&text::line(&view.into()));
        }
    };
    let ended = tokio::select! {
        ended = bulk.finished_with(progress) => Some(ended?),
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

/// Whether a line is due; if so, the next one is due after a pause.
fn is_line_due(printed_at: &mut Instant, now: Instant) -> bool {
    let is_due = now.duration_since(*printed_at) >= LINE_PAUSE;
    if is_due {
        *printed_at = now;
    }
    is_due
}

fn show(bar: &ProgressBar, view: &BulkView) {
    bar.set_length(view.total);
    bar.set_position(view.succeeded + view.failed + view.cancelled);
    bar.set_message(escape::line(&text::line(&view.into())).into_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_is_due_every_ten_seconds() {
        let start = Instant::now();
        let mut printed_at = start;
        let due = (1..=25).filter(|s| is_line_due(&mut printed_at, start + Duration::from_secs(*s)));
        assert_eq!(due.collect::<Vec<_>>(), [10, 20]);
    }
}
