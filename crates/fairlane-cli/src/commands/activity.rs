//! `fairlane activity`: the last changes by operators.

use clap::Args;
use fairlane::views::ActivityView;
use fairlane::{ActivitySubject, Fairlane, GroupId, SubjectKind};
use fairlane_core::limits::LIST_ACTIVITY_MAX;
use serde::Serialize;

use crate::failure::Failure;
use crate::pages::read_pages;
use crate::tables::{self, counted};
use crate::target::{QueueTarget, list_length};

const EXAMPLES: &str = "\
Examples:
  fairlane activity
  fairlane activity --group customer-7
  fairlane activity --limit 1000 --json

Shows who changed settings, groups, types, bulk actions, jobs, locks, rooms and boards, and when; the \
newest change first. The queue keeps the last 1,000 changes. local is a user of the machine who needs \
no key.
Exit codes: 0 success; 1 failure; 2 bad input.";

/// Shows the last changes by operators: who changed what, and when
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Only changes of this group
    #[arg(long)]
    group: Option<String>,
    /// Maximum number of changes to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = list_length, allow_negative_numbers = true)]
    limit: usize,
    #[command(flatten)]
    target: QueueTarget,
}

/// The JSON form of the list.
#[derive(Serialize)]
struct ActivityList {
    activity: Vec<ActivityView>,
}

/// Prints the changes.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { group, limit, target } = arguments;
    let group = group.map(GroupId::new).transpose().map_err(fairlane::Error::from)?;
    let subject = group.map(|group| ActivitySubject { kind: SubjectKind::Group, name: group.to_string() });
    let list = read(&target.attach().await?, subject, limit).await?;
    target.print(&list, || list.text())
}

async fn read(
    fairlane: &Fairlane,
    subject: Option<ActivitySubject>,
    limit: usize,
) -> Result<ActivityList, Failure> {
    let read = async |before, most| {
        let page = fairlane.activity(before, subject.clone(), most).await?;
        Ok::<_, Failure>((page.entries, page.next))
    };
    let activity = read_pages(limit, LIST_ACTIVITY_MAX, read).await?;
    Ok(ActivityList { activity: activity.into_iter().map(ActivityView::from).collect() })
}

impl ActivityList {
    fn text(&self) -> String {
        if self.activity.is_empty() {
            return "No operator has changed anything.".to_owned();
        }
        let rows = self.activity.iter().map(|one| {
            let subject = match (one.kind, &one.name) {
                (Some(kind), Some(name)) => format!("{kind} {name}"),
                _ => "the queue".to_owned(),
            };
            let jobs = one.jobs.map_or(String::new(), |jobs| format!(" {}", counted(jobs, "job")));
            vec![one.at.to_string(), one.actor.clone(), subject, format!("{}{jobs}", one.text)]
        });
        tables::texts(&["when", "who", "what", "change"], rows)
    }
}
