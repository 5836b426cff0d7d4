//! `fairlane top`: the queue, live in the terminal.
//!
//! - `top/frame.rs`: one frame, as text. `top/screen.rs`: takes over the terminal and restores it.

mod frame;
mod screen;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use fairlane::Fairlane;
use tokio::signal::unix::{SignalKind, signal};

use super::status::StatusView;
use super::work::Signals;
use crate::failure::Failure;
use crate::output;
use crate::overview::Overview;
use crate::target::QueueTarget;
use frame::{Frame, Size};
use screen::Screen;

const EXAMPLES: &str = "\
Examples:
  fairlane top
  fairlane top --engine http://127.0.0.1:8080
  fairlane top | head -20

Shows the groups with the most unfinished jobs. The share of a group is its part of all jobs done \
since the previous refresh. A data directory needs a running server (fairlane serve). Press q or \
Ctrl-C to quit. Without a terminal, top prints one frame and exits. NO_COLOR=1 turns colours off.
Exit codes: 0 success; 1 failure; 2 bad input.";

/// The pause between two refreshes.
const REFRESH_PAUSE: Duration = Duration::from_secs(1);
/// Groups in a frame at most; a terminal hardly has more lines.
const GROUPS_MAX: usize = 50;
/// The size of a frame without a terminal.
const PRINTED: Size = Size { width: 100, height: usize::MAX };

/// Shows the queue live: throughput, types, and groups by backlog with share, rate and congestion
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: QueueTarget,
}

/// Refreshes once a second until the user quits.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let target = arguments.target;
    let fairlane = target.attach().await?;
    let first = Overview::take(&fairlane, GROUPS_MAX, false).await?;
    if target.json {
        return output::print_json(&StatusView::new(&target, &first));
    }
    let mut frame = Frame::new(format!("{} ({})", target.address(), fairlane.engine().name()), first);
    if !std::io::stdout().is_terminal() {
        tokio::time::sleep(REFRESH_PAUSE).await;
        frame.next(Overview::take(&fairlane, GROUPS_MAX, false).await?);
        return output::print(frame.text(PRINTED, false).trim_end());
    }
    target.refuse_to_block(&fairlane, "run fairlane status from time to time")?;
    live(&fairlane, &mut frame).await
}

async fn live(fairlane: &Fairlane, frame: &mut Frame) -> Result<(), Failure> {
    let broken = |error| Failure::broken(format!("the terminal cannot be used: {error}"));
    let mut signals = Signals::listen()?;
    let mut resized = signal(SignalKind::window_change()).map_err(broken)?;
    let mut screen = Screen::enter().map_err(broken)?;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + REFRESH_PAUSE, REFRESH_PAUSE);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        screen.draw(frame).map_err(broken)?;
        tokio::select! {
            () = signals.next() => return Ok(()),
            () = screen.quit() => return Ok(()),
            _ = resized.recv() => {}
            _ = ticks.tick() => tokio::select! {
                // Keys must work while the queue does not respond.
                () = signals.next() => return Ok(()),
                () = screen.quit() => return Ok(()),
                taken = Overview::take(fairlane, GROUPS_MAX, false) => match taken {
                    Ok(overview) => frame.next(overview),
                    Err(error) => frame.failed(error.to_string()),
                },
            },
        }
    }
}
