//! `fairlane bulk`: bulk actions from the shell.
//!
//! - `bulk/load.rs`: streams a file in. `bulk/export.rs`: streams results out. `bulk/watch.rs`: waits for the end.
//! - `bulk/shown.rs`: a bulk action as a row, a paragraph or JSON. `bulk/summary.rs`: its summary in words.

mod export;
mod load;
mod shown;
mod summary;
mod watch;

use clap::{Args, Subcommand};
use fairlane::{Bulk, BulkView};
use fairlane_worker::callback_id;
use serde::Serialize;

use crate::failure::Failure;
use crate::place::{Place, list_length};
use crate::tables;
use shown::Shown;

const EXAMPLES: &str = "\
Examples:
  fairlane bulk load customer-7 newsletter mails.ndjson --type mail
  fairlane bulk watch customer-7 newsletter
  fairlane bulk show customer-7 newsletter --json
  fairlane bulk list customer-7
  fairlane bulk hold customer-7 newsletter
  fairlane bulk resume customer-7 newsletter
  fairlane bulk cancel customer-7 newsletter
  fairlane bulk seal customer-7 newsletter --expected 100000
  fairlane bulk export customer-7 newsletter --failed > failed.ndjson

Holding and cancelling a million jobs is one small write; workers do the rest.
Exit codes: 0 done; 1 it failed; 2 there is no such bulk action, or bad input; 3 watch: it ended otherwise than
completed; 130 stopped by Ctrl-C.";

/// Loads, watches and ends bulk actions: many jobs that finish together
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    Load(load::Arguments),
    /// Says how a bulk action stands
    #[command(after_help = "Example:\n  fairlane bulk show customer-7 newsletter")]
    Show(Which),
    /// Lists a group's bulk actions in the order they were opened
    #[command(after_help = "Example:\n  fairlane bulk list customer-7 --limit 20")]
    List(List),
    Watch(watch::Arguments),
    /// Says that no more jobs come
    #[command(after_help = "Example:\n  fairlane bulk seal customer-7 newsletter --expected 100000")]
    Seal {
        #[command(flatten)]
        which: Which,
        /// How many jobs there must be; with any other number it stays open
        #[arg(long, value_name = "N", value_parser = crate::limit::count, allow_negative_numbers = true)]
        expected: Option<u64>,
    },
    /// Sets its jobs aside; those that run go on
    #[command(after_help = "Example:\n  fairlane bulk hold customer-7 newsletter")]
    Hold(Which),
    /// Lets its jobs run again
    #[command(after_help = "Example:\n  fairlane bulk resume customer-7 newsletter")]
    Resume(Which),
    /// Ends it: what has not started is dropped, what runs is told
    #[command(after_help = "Example:\n  fairlane bulk cancel customer-7 newsletter")]
    Cancel(Which),
    Export(export::Arguments),
}

/// Names a bulk action.
#[derive(Args)]
struct Which {
    /// Whose
    group: String,
    /// Which of theirs
    bulk: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct List {
    /// Whose
    group: String,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = list_length, allow_negative_numbers = true)]
    limit: usize,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Listed {
    bulks: Vec<Shown>,
    /// Whether there are more than are shown.
    more: bool,
}

/// Does what was asked.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::Load(arguments) => load::run(arguments).await,
        Deed::Show(which) => show(which).await,
        Deed::List(list) => run_list(list).await,
        Deed::Watch(arguments) => watch::run(arguments).await,
        Deed::Seal { which, expected } => which.tell(which.find().await?.seal(expected).await?),
        Deed::Hold(which) => which.tell(unended(which.find().await?.hold().await?, "hold")?),
        Deed::Resume(which) => which.tell(unended(which.find().await?.resume().await?, "resume")?),
        Deed::Cancel(which) => which.tell(which.find().await?.cancel().await?),
        Deed::Export(arguments) => export::run(arguments).await,
    }
}

impl Which {
    async fn find(&self) -> Result<Bulk, Failure> {
        Ok(self.place.attach().await?.bulk(&self.group, &self.bulk).opened_before()?)
    }

    fn tell(&self, view: BulkView) -> Result<(), Failure> {
        let shown = Shown::new(&view);
        self.place.tell(&shown, || shown.paragraph())
    }
}

/// Only here somebody waits for the callback, which is a job of its own.
async fn show(which: Which) -> Result<(), Failure> {
    let fairlane = which.place.attach().await?;
    let view = fairlane.bulk(&which.group, &which.bulk).opened_before()?.view().await?;
    let callback = fairlane.job(&which.group, callback_id(&view)).view().await?;
    let shown = Shown::new(&view).with_callback(callback.map(|job| job.state));
    which.place.tell(&shown, || shown.paragraph())
}

/// Holding or resuming what has ended changes nothing, and must not look as if it did.
fn unended(view: BulkView, deed: &str) -> Result<BulkView, Failure> {
    if !view.state.is_final() {
        return Ok(view);
    }
    let (bulk, state) = (&view.bulk.id, view.state.as_str());
    Err(Failure::bad_input(format!(
        "bulk action {bulk} is {state}: it has ended, and there is nothing to {deed}"
    )))
}

async fn run_list(list: List) -> Result<(), Failure> {
    let fairlane = list.place.attach().await?;
    let (mut bulks, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after
        && bulks.len() < list.limit
    {
        let page;
        (page, after) = fairlane.group(&list.group).bulks(from, (list.limit - bulks.len()).min(500)).await?;
        bulks.extend(page.iter().map(Shown::new));
    }
    let listed = Listed { bulks, more: after.is_some() };
    list.place.tell(&listed, || {
        if listed.bulks.is_empty() {
            return format!("{} has no bulk actions.", list.group);
        }
        let table = tables::texts(&Shown::HEADINGS, listed.bulks.iter().map(Shown::row));
        if listed.more { format!("{table}\nThere are more; raise --limit.") } else { table }
    })
}
