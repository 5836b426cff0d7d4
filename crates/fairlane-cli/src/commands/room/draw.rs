//! `fairlane room open` and `fairlane room verify`: pre-queues and the verification of their draws.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use fairlane::{Seed, UserId, verify_draw};
use serde::Serialize;

use super::OneRoom;
use crate::failure::Failure;
use crate::output;
use crate::tables::counted;

#[derive(Args)]
pub(super) struct OpenArguments {
    #[command(flatten)]
    room: OneRoom,
    /// File for the list of tickets of a pre-queue, to be published
    #[arg(long, value_name = "FILE")]
    tickets: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct VerifyArguments {
    /// Published list of tickets: class, ticket and user, separated by tabs
    list: PathBuf,
    /// Seed that was published when the room opened
    #[arg(long)]
    seed: String,
    /// Commitment that was published before the draw
    #[arg(long, value_name = "HASH")]
    commitment: String,
    /// Digest of the list that was published when the room opened
    #[arg(long, value_name = "HASH")]
    digest: String,
    /// User whose place is shown
    #[arg(long)]
    user: Option<String>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// The JSON form of a verified draw.
#[derive(Serialize)]
struct Verified {
    tickets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
}

/// Opens a room.
pub(super) async fn open(OpenArguments { room, tickets }: OpenArguments) -> Result<(), Failure> {
    let fairlane = room.target.attach().await?;
    let handle = fairlane.room(&room.room);
    let is_prequeue = handle.view().await?.is_some_and(|view| view.phase.is_before_opening());
    match (is_prequeue, tickets) {
        (false, None) => handle.open().await?,
        (false, Some(_)) => {
            return Err(Failure::bad_input(format!("room {} has no pre-queue and no tickets", room.room)));
        }
        (true, None) => {
            return Err(Failure::bad_input(
                "the room has a pre-queue; name a file for its list of tickets with --tickets",
            ));
        }
        (true, Some(path)) => {
            let unwritable = Failure::unwritable_now(&path);
            let mut file = BufWriter::new(File::create(&path).map_err(unwritable)?);
            handle.open_prequeue(|line| writeln!(file, "{line}")).await?;
            file.flush().map_err(unwritable)?;
        }
    }
    super::show_opened(&fairlane, &room).await
}

/// Verifies a draw.
pub(super) fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let list = File::open(&arguments.list).map_err(Failure::unreadable(&arguments.list))?;
    let list = BufReader::new(list);
    let user = arguments.user.as_ref().map(UserId::new).transpose().map_err(fairlane::Error::from)?;
    let seed = Seed::from(arguments.seed.as_str());
    let verified = verify_draw(list, &seed, &arguments.commitment, &arguments.digest, user.as_ref());
    let verified = verified.map_err(|error| Failure::Found(error.to_string()))?;
    if let (Some(user), None) = (&user, verified.place) {
        return Err(Failure::Found(format!("the draw is as published, and {user} is not in it")));
    }
    let text = || {
        let place = user.as_ref().zip(verified.place);
        let place = place.map_or(String::new(), |(user, place)| format!("; {user} has place {place}"));
        format!("the draw of {} is as published{place}", counted(verified.tickets, "ticket"))
    };
    let result = Verified { tickets: verified.tickets, place: verified.place };
    if arguments.json { output::print_json(&result) } else { output::print(&text()) }
}
