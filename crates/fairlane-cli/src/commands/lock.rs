//! `fairlane lock`: runs commands under a lock, and shows and breaks locks.
//!
//! - `lock/run.rs`: a command under a lock.

mod run;

use std::time::Duration;

use clap::{Args, Subcommand};
use fairlane::views::LockView;
use fairlane::{Fence, GroupId, duration_text};
use fairlane_core::limits::LIST_LOCKS_MAX;
use serde::Serialize;

use crate::failure::Failure;
use crate::pages::read_pages;
use crate::tables::{self, counted, thousands};
use crate::target::{QueueTarget, list_length};

const EXAMPLES: &str = "\
Examples:
  fairlane lock run nightly-report -- ./report.sh
  fairlane lock run gpu --semaphore 2 --wait 10m -- ./train.sh
  fairlane lock show nightly-report
  fairlane lock list --json
  fairlane lock break nightly-report --fence 1763377200000000

A lock is a lease: it passes on when its holder has died or was cut off. See docs/locks.md.
Exit codes: 0 success; 1 failure; 2 free lock or bad input. lock run has more.";

/// Runs commands under a lock; shows and breaks locks
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(Box<run::Arguments>),
    /// Shows the holders and waiters of a lock
    #[command(after_help = "Example:\n  fairlane lock show coupon:issue:42")]
    Show {
        /// Name of the lock
        lock: String,
        #[command(flatten)]
        target: QueueTarget,
    },
    /// Lists locks that have holders or waiters
    #[command(after_help = "Example:\n  fairlane lock list --group customer-7")]
    List {
        /// Only locks of this group: those whose names begin with it and a colon
        #[arg(long)]
        group: Option<String>,
        /// Maximum number of locks to list
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = list_length, allow_negative_numbers = true)]
        limit: usize,
        #[command(flatten)]
        target: QueueTarget,
    },
    /// Takes a lock away from its holders, which find out at their next renewal
    #[command(after_help = "Example:\n  fairlane lock break nightly-report --fence 1763377200000000")]
    Break {
        /// Name of the lock
        lock: String,
        /// Only the holder with this fence, as lock show prints it
        #[arg(long, value_name = "N")]
        fence: Option<u64>,
        #[command(flatten)]
        target: QueueTarget,
    },
}

/// The JSON form of the list.
#[derive(Serialize)]
struct LockList {
    locks: Vec<LockView>,
}

/// The JSON form of a broken lock.
#[derive(Serialize)]
struct Broken {
    holders: u64,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Run(arguments) => run::run(*arguments).await,
        Action::Show { lock, target } => show(&lock, &target).await,
        Action::List { group, limit, target } => list(group.as_deref(), limit, &target).await,
        Action::Break { lock, fence, target } => break_holders(&lock, fence, &target).await,
    }
}

async fn show(name: &str, target: &QueueTarget) -> Result<(), Failure> {
    let Some(view) = target.attach().await?.lock(name).view().await? else {
        return Err(Failure::bad_input(format!("lock {name} is free and has no waiters")));
    };
    let view = LockView::from(view);
    target.print(&view, || text(&view))
}

async fn list(group: Option<&str>, limit: usize, target: &QueueTarget) -> Result<(), Failure> {
    let group = group.map(GroupId::new).transpose().map_err(fairlane::Error::from)?;
    let fairlane = target.attach().await?;
    let read = async |after, most| {
        let page = fairlane.locks(group.clone(), after, most).await?;
        Ok::<_, Failure>((page.locks, page.next))
    };
    let locks = read_pages(limit, LIST_LOCKS_MAX, read).await?;
    let list = LockList { locks: locks.into_iter().map(LockView::from).collect() };
    target.print(&list, || list.text())
}

async fn break_holders(name: &str, fence: Option<u64>, target: &QueueTarget) -> Result<(), Failure> {
    let holders = target.attach().await?.lock(name).break_holders(fence.map(Fence)).await?;
    if holders == 0 {
        let which = fence.map_or(String::new(), |fence| format!(" with fence {fence}"));
        return Err(Failure::bad_input(format!("lock {name} has no holder{which}")));
    }
    let said = format!("lock {name} was taken away from {}", counted(holders, "holder"));
    target.print(&Broken { holders }, || said)
}

fn kind(view: &LockView) -> String {
    view.permits.map_or(view.kind.to_owned(), |permits| format!("{} of {permits}", view.kind))
}

fn text(view: &LockView) -> String {
    let time = |ms: u64| duration_text(Duration::from_millis(ms));
    let mut text = format!(
        "{}: {}, {}, {}",
        view.lock,
        kind(view),
        counted(view.holders, "holder"),
        counted(view.waiters, "waiter")
    );
    if view.reserved > 0 {
        text.push_str(&format!(", reserved for {}", counted(view.reserved, "waiter")));
    }
    for holder in &view.held_by {
        text.push_str(&format!(
            "\n  {} ({}) for {}, and for {} more unless renewed; fence {}",
            holder.holder,
            holder.mode,
            time(holder.held_ms),
            time(holder.remaining_ms),
            holder.fence
        ));
    }
    if view.delay_ms > 0 {
        text.push_str(&format!("\n  in its delay for {}: its last holder died", time(view.delay_ms)));
    }
    tables::prose(&text)
}

impl LockList {
    fn text(&self) -> String {
        if self.locks.is_empty() {
            return "No lock is in use.".to_owned();
        }
        let rows = self.locks.iter().map(|view| {
            let holder = view.held_by.first().map_or("–", |holder| &holder.holder).to_owned();
            let held = view
                .held_by
                .first()
                .map_or("–".to_owned(), |holder| duration_text(Duration::from_millis(holder.held_ms)));
            let counts = [view.holders, view.waiters].map(thousands);
            [vec![view.lock.clone(), kind(view)], counts.to_vec(), vec![holder, held]].concat()
        });
        tables::texts(&["lock", "kind", "holders", "waiters", "holder", "held for"], rows)
    }
}
