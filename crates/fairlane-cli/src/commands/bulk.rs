//! `fairlane bulk`: bulk actions from the shell.
//!
//! - `bulk/load.rs`: streams jobs in. `bulk/export.rs`: streams results out. `bulk/watch.rs`: waits
//!   for the end.
//! - `bulk/text.rs`: a bulk action as a row or a paragraph. `bulk/summary.rs`: its summary as text.

mod export;
mod load;
mod summary;
pub mod text;
mod watch;

use clap::{Args, Subcommand};
use fairlane::{Bulk, BulkView, views};
use serde::Serialize;

use crate::failure::Failure;
use crate::tables;
use crate::target::{QueueTarget, list_length};

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

Holding or cancelling a million jobs is one small write; workers do the rest.
Exit codes: 0 success; 1 failure; 2 unknown bulk action or bad input; 3 watch: the bulk action did \
not complete; 130 interrupted by Ctrl-C.";

/// Manages bulk actions: many jobs that finish together
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Load(load::Arguments),
    /// Shows a bulk action
    #[command(after_help = "Example:\n  fairlane bulk show customer-7 newsletter")]
    Show(BulkSelector),
    /// Lists the bulk actions of a group in the order in which they were opened
    #[command(after_help = "Example:\n  fairlane bulk list customer-7 --limit 20")]
    List(ListArguments),
    Watch(watch::Arguments),
    /// Closes a bulk action to new jobs
    #[command(after_help = "Example:\n  fairlane bulk seal customer-7 newsletter --expected 100000")]
    Seal {
        #[command(flatten)]
        bulk: BulkSelector,
        /// Required number of jobs; if the number differs, the bulk action stays open
        #[arg(long, value_name = "N", value_parser = crate::limit::count, allow_negative_numbers = true)]
        expected: Option<u64>,
    },
    /// Holds the jobs of a bulk action; running jobs continue
    #[command(after_help = "Example:\n  fairlane bulk hold customer-7 newsletter")]
    Hold(BulkSelector),
    /// Releases the jobs of a held bulk action
    #[command(after_help = "Example:\n  fairlane bulk resume customer-7 newsletter")]
    Resume(BulkSelector),
    /// Cancels a bulk action: waiting jobs are dropped, running jobs are asked to stop
    #[command(after_help = "Example:\n  fairlane bulk cancel customer-7 newsletter")]
    Cancel(BulkSelector),
    Export(export::Arguments),
}

/// The arguments that select a bulk action.
#[derive(Args)]
struct BulkSelector {
    /// Group of the bulk action
    group: String,
    /// Name of the bulk action
    bulk: String,
    #[command(flatten)]
    target: QueueTarget,
}

#[derive(Args)]
struct ListArguments {
    /// Group of the bulk actions
    group: String,
    /// Maximum number of bulk actions to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = list_length, allow_negative_numbers = true)]
    limit: usize,
    #[command(flatten)]
    target: QueueTarget,
}

#[derive(Serialize)]
struct BulkList {
    bulks: Vec<views::BulkView>,
    /// Whether there are more bulk actions than these.
    more: bool,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Load(arguments) => load::run(arguments).await,
        Action::Show(bulk) => show(bulk).await,
        Action::List(arguments) => list(arguments).await,
        Action::Watch(arguments) => watch::run(arguments).await,
        Action::Seal { bulk, expected } => bulk.print(bulk.find().await?.seal(expected).await?),
        Action::Hold(bulk) => bulk.print(not_ended(bulk.find().await?.hold().await?, "hold")?),
        Action::Resume(bulk) => bulk.print(not_ended(bulk.find().await?.resume().await?, "resume")?),
        Action::Cancel(bulk) => bulk.print(bulk.find().await?.cancel().await?),
        Action::Export(arguments) => export::run(arguments).await,
    }
}

impl BulkSelector {
    async fn find(&self) -> Result<Bulk, Failure> {
        Ok(self.target.attach().await?.bulk(&self.group, &self.bulk).opened_before()?)
    }

    fn print(&self, view: BulkView) -> Result<(), Failure> {
        let view = views::BulkView::from(&view);
        self.target.print(&view, || text::paragraph(&view, None))
    }
}

/// The JSON form of `bulk show`.
#[derive(Serialize)]
struct BulkWithCallback {
    #[serde(flatten)]
    bulk: views::BulkView,
    /// The state of the job that delivers the callback, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_state: Option<&'static str>,
}

/// Also shows the state of the callback, which is a job of its own.
async fn show(selector: BulkSelector) -> Result<(), Failure> {
    let fairlane = selector.target.attach().await?;
    let view = fairlane.bulk(&selector.group, &selector.bulk).opened_before()?.view().await?;
    let bulk = views::BulkView::from(&view);
    let callback = match &bulk.callback {
        Some(callback) => fairlane.job(&selector.group, &callback.job).view().await?,
        None => None,
    };
    let callback_state = callback.map(|job| job.state.as_str());
    let view = BulkWithCallback { bulk, callback_state };
    selector.target.print(&view, || text::paragraph(&view.bulk, callback_state))
}

/// Rejects a bulk action that has ended: holding or resuming it has no effect.
fn not_ended(view: BulkView, action: &str) -> Result<BulkView, Failure> {
    if !view.state.is_final() {
        return Ok(view);
    }
    let (bulk, state) = (&view.bulk.id, view.state.name());
    Err(Failure::bad_input(format!(
        "bulk action {bulk} is {state}: it has ended, and there is nothing to {action}"
    )))
}

async fn list(arguments: ListArguments) -> Result<(), Failure> {
    let ListArguments { group, limit, target } = arguments;
    let fairlane = target.attach().await?;
    let (mut bulks, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after
        && bulks.len() < limit
    {
        let page;
        (page, after) = fairlane.group(&group).bulks(from, (limit - bulks.len()).min(500)).await?;
        bulks.extend(page.iter().map(views::BulkView::from));
    }
    let list = BulkList { bulks, more: after.is_some() };
    target.print(&list, || {
        if list.bulks.is_empty() {
            return format!("{group} has no bulk actions.");
        }
        let rows = list.bulks.iter().map(text::row);
        let table = tables::texts_within(&text::HEADINGS, &text::OPTIONAL, rows);
        if list.more { format!("{table}\nThere are more; increase --limit.") } else { table }
    })
}
