//! `fairlane top`: the queue, live in the terminal.
//!
//! - `top/frame.rs`: one picture of it, as text. `top/screen.rs`: the terminal, taken and given back.

mod frame;
mod screen;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use fairlane::Fairlane;
use tokio::signal::unix::{SignalKind, signal};

use super::status::Answer;
use super::work::Signals;
use crate::failure::Failure;
use crate::output;
use crate::overview::Overview;
use crate::place::Place;
use frame::{Frame, Size};
use screen::Screen;

const EXAMPLES: &str = "\
Examples:
  fairlane top
  fairlane top --engine http://127.0.0.1:8080
  fairlane top | head -20

Groups are those with the most unfinished jobs; their share is that of all jobs done since the last look.
A data directory has to be served meanwhile (fairlane serve). q or Ctrl-C ends it. Without a terminal it prints one look and ends. NO_COLOR=1 does without colours.
Exit codes: 0 done; 1 it failed; 2 bad input.";

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Groups that are looked at in detail; a terminal has hardly more lines.
const GROUPS_MAX: usize = 50;
/// As wide as what is printed without a terminal.
const PRINTED: Size = Size { width: 100, height: usize::MAX };

/// Shows the queue live: throughput, types, and groups by backlog with share, rate and congestion
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
}

/// Looks once a second until it is told to stop.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let place = arguments.place;
    let fairlane = place.attach().await?;
    let first = Overview::take(&fairlane, GROUPS_MAX, false).await?;
    if place.json {
        return output::print_json(&Answer::new(&place, fairlane.engine().name(), &first));
    }
    let mut frame = Frame::new(format!("{} ({})", place.address(), fairlane.engine().name()), first);
    if !std::io::stdout().is_terminal() {
        tokio::time::sleep(LOOK_PAUSE).await;
        frame.next(Overview::take(&fairlane, GROUPS_MAX, false).await?);
        return output::print(frame.text(PRINTED, false).trim_end());
    }
    place.refuse_to_wait(&fairlane, "look at it now and then (fairlane status)")?;
    live(&fairlane, &mut frame).await
}

async fn live(fairlane: &Fairlane, frame: &mut Frame) -> Result<(), Failure> {
    let broken = |error| Failure::broken(format!("the terminal cannot be used: {error}"));
    let mut signals = Signals::listen()?;
    let mut resized = signal(SignalKind::window_change()).map_err(broken)?;
    let mut screen = Screen::enter().map_err(broken)?;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + LOOK_PAUSE, LOOK_PAUSE);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        screen.draw(frame).map_err(broken)?;
        tokio::select! {
            () = signals.next() => return Ok(()),
            () = screen.quit() => return Ok(()),
            _ = resized.recv() => {}
            _ = ticks.tick() => tokio::select! {
                // A queue that does not answer must not take the keys away.
                () = signals.next() => return Ok(()),
                () = screen.quit() => return Ok(()),
                looked = Overview::take(fairlane, GROUPS_MAX, false) => match looked {
                    Ok(overview) => frame.next(overview),
                    Err(error) => frame.failed(error.to_string()),
                },
            },
        }
    }
}
