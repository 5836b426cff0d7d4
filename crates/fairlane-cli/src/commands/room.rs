//! `fairlane room`: shows waiting rooms, sets their limits, and opens, closes and verifies them.
//!
//! - `room/draw.rs`: pre-queues and the verification of their draws. `room/key.rs`: the keys that sign
//!   passes.

mod draw;
mod key;

use std::time::Duration;

use clap::{Args, Subcommand};
use fairlane::views::{RoomLimitsView, RoomView};
use fairlane::{Fairlane, Rate, duration_text};
use fairlane_core::limits::LIST_ROOMS_MAX;
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{Limit, rate_or_none};
use crate::pages::read_pages;
use crate::tables::{self, counted, thousands};
use crate::target::{QueueTarget, list_length};

const EXAMPLES: &str = "\
Examples:
  fairlane room show concert
  fairlane room set concert --max-active 200 --active-ttl 10m --rate 600/min
  fairlane room pause concert --reason 'The shop is being repaired'
  fairlane room prequeue concert
  fairlane room open concert --tickets tickets.tsv
  fairlane room verify tickets.tsv --seed SEED --commitment HASH --digest HASH --user ada
  fairlane room revoke concert mallory
  fairlane room key create pass-keys.json

A user who joins makes a room; see docs/waiting-rooms.md.
Exit codes: 0 success; 1 failure; 2 unknown room or bad input; 3 a draw is not as published.";

/// Shows waiting rooms, sets their limits, and opens, closes and verifies them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Shows a room
    #[command(after_help = "Example:\n  fairlane room show concert")]
    Show(OneRoom),
    /// Lists rooms
    #[command(after_help = "Example:\n  fairlane room list --json")]
    List {
        /// Maximum number of rooms to list
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = list_length, allow_negative_numbers = true)]
        limit: usize,
        #[command(flatten)]
        target: QueueTarget,
    },
    /// Changes the limits of a room
    #[command(after_help = "Example:\n  fairlane room set concert --max-active 200 --weights 4,1")]
    Set(Box<SetArguments>),
    /// Stops admission until the room is resumed
    #[command(after_help = "Example:\n  fairlane room pause concert --reason 'Back at noon'")]
    Pause {
        #[command(flatten)]
        room: OneRoom,
        /// Reason that waiters see
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Resumes admission
    #[command(after_help = "Example:\n  fairlane room resume concert")]
    Resume(OneRoom),
    /// Lets no more users join; those who wait are admitted
    #[command(after_help = "Example:\n  fairlane room close concert")]
    Close(OneRoom),
    /// Begins a pre-queue, and prints the commitment to its seed
    #[command(after_help = "Example:\n  fairlane room prequeue concert")]
    Prequeue(OneRoom),
    /// Opens a room; the tickets of a pre-queue are written to a file for its users
    #[command(after_help = "Example:\n  fairlane room open concert --tickets tickets.tsv")]
    Open(draw::OpenArguments),
    /// Verifies a published draw, without a queue
    #[command(
        after_help = "Example:\n  fairlane room verify tickets.tsv --seed SEED --commitment HASH --digest HASH --user ada"
    )]
    Verify(draw::VerifyArguments),
    /// Creates, rotates, lists and removes the keys that sign passes
    Key(key::Arguments),
    /// Takes a user's place away
    #[command(after_help = "Example:\n  fairlane room revoke concert mallory")]
    Revoke {
        /// Name of the room
        room: String,
        /// User whose place is taken away
        user: String,
        #[command(flatten)]
        target: QueueTarget,
    },
}

#[derive(Args)]
struct OneRoom {
    /// Name of the room
    room: String,
    #[command(flatten)]
    target: QueueTarget,
}

#[derive(Args)]
struct SetArguments {
    #[command(flatten)]
    room: OneRoom,
    /// Maximum number of users that are active at once
    #[arg(long, value_name = "N")]
    max_active: Option<u32>,
    /// Time for which a user is active, such as 10m
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration)]
    active_ttl: Option<Duration>,
    /// Time for which a waiter keeps its place after a poll that it missed, such as 2m
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration)]
    retention: Option<Duration>,
    /// Maximum number of polls of all waiters in a second
    #[arg(long, value_name = "N")]
    polls_per_second: Option<u32>,
    /// Maximum rate of admissions: 10/s, 600/min, or none
    #[arg(long, value_parser = rate_or_none, allow_hyphen_values = true)]
    rate: Option<Limit<Rate>>,
    /// Weights of the priority classes, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    weights: Option<Vec<u32>>,
}

/// The JSON form of the list.
#[derive(Serialize)]
struct RoomList {
    rooms: Vec<RoomView>,
}

/// The JSON form of a place that was taken away.
#[derive(Serialize)]
struct Revoked {
    active: u64,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Show(room) => show(&room).await,
        Action::List { limit, target } => list(limit, &target).await,
        Action::Set(arguments) => set(*arguments).await,
        Action::Pause { room, reason } => {
            room.target.attach().await?.room(&room.room).pause(&reason).await?;
            show(&room).await
        }
        Action::Resume(room) => {
            room.target.attach().await?.room(&room.room).resume().await?;
            show(&room).await
        }
        Action::Close(room) => {
            room.target.attach().await?.room(&room.room).close().await?;
            show(&room).await
        }
        Action::Prequeue(room) => {
            room.target.attach().await?.room(&room.room).begin_prequeue().await?;
            show(&room).await
        }
        Action::Open(arguments) => draw::open(arguments).await,
        Action::Verify(arguments) => draw::verify(&arguments),
        Action::Key(arguments) => key::run(arguments),
        Action::Revoke { room, user, target } => {
            let active = target.attach().await?.room(&room).revoke(&user).await?;
            target.print(&Revoked { active }, || format!("{user} has no place in room {room} any more"))
        }
    }
}

async fn show(room: &OneRoom) -> Result<(), Failure> {
    show_opened(&room.target.attach().await?, room).await
}

/// Shows a room of a queue that is open: a process opens a directory once.
async fn show_opened(fairlane: &Fairlane, OneRoom { room, target }: &OneRoom) -> Result<(), Failure> {
    let view = fairlane.room(room).view().await?;
    let view =
        view.ok_or_else(|| Failure::bad_input(format!("there is no room {room}: no user joined it")))?;
    let view = RoomView::from(view);
    target.print(&view, || text(&view))
}

async fn list(limit: usize, target: &QueueTarget) -> Result<(), Failure> {
    let fairlane = target.attach().await?;
    let read = async |after, most| {
        let page = fairlane.rooms(after, most).await?;
        Ok::<_, Failure>((page.rooms, page.next))
    };
    let rooms = read_pages(limit, LIST_ROOMS_MAX, read).await?;
    let list = RoomList { rooms: rooms.into_iter().map(RoomView::from).collect() };
    target.print(&list, || list.text())
}

async fn set(arguments: SetArguments) -> Result<(), Failure> {
    let SetArguments { room: OneRoom { room, target }, .. } = &arguments;
    let milliseconds = |time: Duration| time.as_millis() as u64;
    let handle = target.attach().await?.room(room);
    let updated = handle.update(|settings| {
        settings.max_active = arguments.max_active.unwrap_or(settings.max_active);
        settings.active_ttl_ms = arguments.active_ttl.map_or(settings.active_ttl_ms, milliseconds);
        settings.retention_ms = arguments.retention.map_or(settings.retention_ms, milliseconds);
        settings.polls_per_second = arguments.polls_per_second.unwrap_or(settings.polls_per_second);
        settings.rate = arguments.rate.map_or(settings.rate, Into::into);
        settings.weights = arguments.weights.clone().unwrap_or_else(|| settings.weights.clone());
    });
    let limits = RoomLimitsView::from(&updated.await?);
    target.print(&limits, || tables::prose(&format!("{room}: {}", limits_text(&limits))))
}

fn limits_text(limits: &RoomLimitsView) -> String {
    let time = |ms: u64| duration_text(Duration::from_millis(ms));
    let rate = limits.rate.as_ref().map_or(String::new(), |rate| format!(", admits {rate}"));
    let weights: Vec<String> = limits.weights.iter().map(u32::to_string).collect();
    let classes = match weights.len() {
        1 => String::new(),
        _ => format!(", class weights {}", weights.join(":")),
    };
    format!(
        "at most {} active for {} each, waiters kept for {} of silence{rate}{classes}",
        thousands(limits.max_active.into()),
        time(limits.active_ttl_ms),
        time(limits.retention_ms)
    )
}

fn text(view: &RoomView) -> String {
    let waiting: u64 = view.waiting.iter().sum();
    let mut text = format!(
        "{}: {}, {} active, {} waiting, {} a minute admitted\n  {}",
        view.room,
        view.phase,
        thousands(view.active),
        thousands(waiting),
        thousands(view.admitted_per_minute),
        limits_text(&view.limits)
    );
    if let Some(reason) = &view.paused {
        text.push_str(&format!("\n  paused: {reason}"));
    }
    let totals = view.totals;
    text.push_str(&format!(
        "\n  so far {} joined, {} admitted, {} left, {} revoked, {} expired, {} fell silent",
        thousands(totals.joined),
        thousands(totals.admitted),
        thousands(totals.left),
        thousands(totals.revoked),
        thousands(totals.expired),
        thousands(totals.silent)
    ));
    if let Some(draw) = &view.draw {
        text.push_str(&format!("\n  commitment {}", draw.commitment));
        if let (Some(seed), Some(digest)) = (&draw.seed, &draw.digest) {
            let tickets = counted(draw.tickets, "ticket");
            text.push_str(&format!("\n  seed       {seed}\n  digest     {digest} of {tickets}"));
        }
    }
    text
}

impl RoomList {
    fn text(&self) -> String {
        if self.rooms.is_empty() {
            return "There is no waiting room.".to_owned();
        }
        let rows = self.rooms.iter().map(|view| {
            let counts =
                [view.active, view.limits.max_active.into(), view.waiting.iter().sum()].map(thousands);
            let phase = if view.paused.is_some() { "paused" } else { view.phase };
            [vec![view.room.clone(), phase.to_owned()], counts.to_vec()].concat()
        });
        tables::texts(&["room", "phase", "active", "at most", "waiting"], rows)
    }
}
