//! A board and its source: rebuilds and audits.

use std::path::{Path, PathBuf};

use clap::Args;
use fairlane::RankingLines;
use fairlane::views::{BoardAuditView, BoardDifferenceView};
use serde::Serialize;
use tokio::io::{AsyncBufRead, BufReader};

use super::OneBoard;
use crate::failure::Failure;
use crate::tables::{self, counted};

pub(super) const REBUILD_HELP: &str = "\
Each line is an event or a value:
  {\"id\": \"r1\", \"member\": \"concert-7\", \"at\": \"2026-11-17T09:30:00Z\"}
  {\"member\": \"schedule-1\", \"value\": 30500, \"version\": 1, \"at\": \"2026-11-17T09:30:00Z\"}

Readers see the old board until the last line. Repeat an interrupted rebuild with the same id and file:
it continues where it stopped. Begin it before the file is written, so that it misses no event.

Example:
  fairlane ranking rebuild popular reservations.ndjson --id nightly-1";

pub(super) const AUDIT_HELP: &str = "\
The lines are those of ranking rebuild. Scores are printed in units of the last decimal place.
Exit codes: 0 equal; 3 some members differ.

Example:
  fairlane ranking audit popular reservations.ndjson";

#[derive(Args)]
pub(super) struct RebuildArguments {
    #[command(flatten)]
    board: OneBoard,
    /// File with the lines, or - for standard input
    file: PathBuf,
    /// Id of the rebuild, a new one for each
    #[arg(long)]
    id: String,
}

#[derive(Args)]
pub(super) struct AuditArguments {
    #[command(flatten)]
    board: OneBoard,
    /// File with the lines, or - for standard input
    file: PathBuf,
}

/// The JSON form of a rebuilt board.
#[derive(Serialize)]
struct Rebuilt {
    members: u64,
}

type Source = Box<dyn AsyncBufRead + Unpin>;

/// Rebuilds a board.
pub(super) async fn rebuild(arguments: RebuildArguments) -> Result<(), Failure> {
    let RebuildArguments { board: OneBoard { board, target }, file, id } = arguments;
    let mut lines = RankingLines::new(open(&file).await?);
    let members = target.attach().await?.ranking(&board).rebuild_from(&id, &mut lines).await?;
    target.print(&Rebuilt { members }, || {
        format!("board {board} is rebuilt with {}", counted(members, "member"))
    })
}

/// Compares a board with its source.
pub(super) async fn audit(arguments: AuditArguments) -> Result<(), Failure> {
    let AuditArguments { board: OneBoard { board, target }, file } = arguments;
    let mut lines = RankingLines::new(open(&file).await?);
    let audit = target.attach().await?.ranking(&board).audit(&mut lines).await?;
    let view = BoardAuditView::from(audit);
    target.print(&view, || text(&board, &view))?;
    match view.differing {
        0 => Ok(()),
        differing => Err(Failure::Found(format!(
            "{} differ; fairlane ranking rebuild {board} makes the board equal to its source",
            counted(differing, "member")
        ))),
    }
}

async fn open(file: &Path) -> Result<Source, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(tokio::io::stdin())));
    }
    let opened = tokio::fs::File::open(file).await.map_err(Failure::unreadable(file))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, opened)))
}

fn text(board: &str, audit: &BoardAuditView) -> String {
    let (rows, members) = (counted(audit.rows, "row"), counted(audit.members, "member"));
    if audit.differences.is_empty() {
        return format!("board {board} equals its source: {rows}, {members}");
    }
    let score = |score: Option<i64>| score.map_or_else(|| "–".to_owned(), |score| score.to_string());
    let row = |one: &BoardDifferenceView| vec![one.member.clone(), score(one.board), score(one.source)];
    tables::texts(&["member", "on the board", "in the source"], audit.differences.iter().map(row))
}
