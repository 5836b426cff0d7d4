//! `fairlane top`: the queue, live in the terminal.
//!
//! - `top/frame.rs`: one frame, as a buffer or as text. `top/choice.rs`: order, filter and selection. `top/screen.rs`: takes over the terminal and restores it.

mod choice;
mod frame;
mod screen;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use fairlane::{Error, Fairlane, GroupId, ListJobs, Listing};

use super::status::StatusView;
use super::work::Signals;
use crate::failure::Failure;
use crate::output;
use crate::overview::Overview;
use crate::target::QueueTarget;
use choice::Pressed;
use frame::{Frame, Size};
use screen::Screen;

const EXAMPLES: &str = "\
Examples:
  fairlane top
  fairlane top --engine http://127.0.0.1:8080
  fairlane top | head -20

Shows the groups with the most unfinished jobs. The share of a group is its part of all jobs done \
since the previous refresh. A data directory needs a running server (fairlane serve).
Keys: s changes the order, / filters groups by a part of their name, j and k or the arrows select a \
group, p pauses or resumes it, w says why its next job is not running, q or Ctrl-C quits. Without a \
terminal, top prints one frame and exits. NO_COLOR=1 turns colours off.
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
        return output::print(frame.text(PRINTED).trim_end());
    }
    target.refuse_to_block(&fairlane, "run fairlane status from time to time")?;
    frame.set_live();
    live(&fairlane, &mut frame).await
}

async fn live(fairlane: &Fairlane, frame: &mut Frame) -> Result<(), Failure> {
    let broken =
        |error| Failure::broken(format!("the terminal cannot be used: {error}; use fairlane status instead"));
    let mut signals = Signals::listen()?;
    let mut screen = Screen::enter().map_err(broken)?;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + REFRESH_PAUSE, REFRESH_PAUSE);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        screen.draw(frame).map_err(broken)?;
        let key = tokio::select! {
            () = signals.next() => return Ok(()),
            key = screen.key() => key,
            _ = ticks.tick() => tokio::select! {
                // Keys must work while the queue does not respond.
                () = signals.next() => return Ok(()),
                key = screen.key() => key,
                taken = Overview::take(fairlane, GROUPS_MAX, false) => {
                    match taken {
                        Ok(overview) => frame.next(overview),
                        Err(error) => frame.failed(error.to_string()),
                    }
                    None
                }
            },
        };
        let Some(key) = key else { continue };
        let answer = match frame.press(key) {
            Pressed::Nothing => continue,
            Pressed::Quit => return Ok(()),
            Pressed::Pause(group, is_paused) => tokio::select! {
                () = signals.next() => return Ok(()),
                answer = pause(fairlane, &group, is_paused) => {
                    if answer.is_ok() {
                        frame.set_paused(&group, is_paused);
                    }
                    answer
                }
            },
            Pressed::Why(group) => tokio::select! {
                () = signals.next() => return Ok(()),
                answer = why(fairlane, &group) => answer,
            },
        };
        frame.say(answer.unwrap_or_else(|error| error.to_string()));
        ticks.reset_immediately();
    }
}

async fn pause(fairlane: &Fairlane, group: &GroupId, is_paused: bool) -> Result<String, Error> {
    let handle = fairlane.group(group);
    let handle = if is_paused { handle.pause() } else { handle.resume() };
    handle.apply().await?;
    Ok(format!("{group} is {}", if is_paused { "paused" } else { "resumed" }))
}

/// Why the next job of a group is not running.
async fn why(fairlane: &Fairlane, group: &GroupId) -> Result<String, Error> {
    let listing = Listing::Pending(group.clone());
    let page = ListJobs { listing, group: None, type_id: None, cursor: 0, limit: 1 };
    let Some(job) = fairlane.jobs(page).await?.jobs.into_iter().next() else {
        return Ok(format!("{group} has no job in its lanes"));
    };
    let explanation = fairlane.job(group, &job.job.id).explain().await?;
    let sentence = explanation.map(|explanation| explanation.sentence());
    Ok(sentence
        .map_or_else(|| format!("job {} has left", job.job.id), |text| format!("job {}: {text}", job.job.id)))
}
