//! Checks the lines of a source before the bulk action is opened: all lines of a file, and the first
//! lines of a source that can be read only once.
//!
//! Invariant: the source that is returned begins with the first line.

use std::io::{self, Cursor};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::time::{Instant, timeout_at};

use super::beginning::nothing_loaded;
use super::{Arguments, Source, open_source, reader};
use crate::failure::Failure;

/// Lines of standard input to check at most.
const LINES: usize = 1000;
/// Bytes of standard input to check at most; they are kept in memory.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long to wait for these lines: a slow producer must not delay the load of its first jobs.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The source and its size in bytes, if that is known; an error if one of the checked lines is
/// invalid.
pub async fn checked_source(arguments: &Arguments) -> Result<(Source, Option<u64>), Failure> {
    let (mut source, size) = open_source(&arguments.file).await?;
    if size.is_some() {
        check(source, arguments).await?;
        return open_source(&arguments.file).await;
    }
    let unreadable = |error| {
        Failure::broken(format!("the source cannot be read: {error}; write the jobs to a file and load that"))
    };
    let (read, is_all) = first_lines(&mut source).await.map_err(unreadable)?;
    let ends = read.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let ends: Vec<usize> = ends.take(LINES).collect();
    let end = if is_all && ends.len() < LINES { read.len() } else { ends.last().copied().unwrap_or(0) };
    check(Box::new(Cursor::new(read[..end].to_vec())), arguments).await?;
    Ok((Box::new(Cursor::new(read).chain(source)), None))
}

async fn check(source: Source, arguments: &Arguments) -> Result<(), Failure> {
    let mut reader = reader(source, arguments);
    // Lines that are skipped are not parsed by the load either.
    reader.skip(arguments.skip).await.map_err(nothing_loaded)?;
    reader.check().await.map_err(nothing_loaded)
}

/// The bytes that arrive in time, with enough lines to check, and whether the source has no more.
async fn first_lines(source: &mut Source) -> io::Result<(Vec<u8>, bool)> {
    let deadline = Instant::now() + WAIT_MAX;
    let (mut read, mut lines) = (Vec::new(), 0);
    while lines < LINES && read.len() < BYTES_MAX {
        let Ok(available) = timeout_at(deadline, source.fill_buf()).await else { break };
        let available = available?;
        if available.is_empty() {
            return Ok((read, true));
        }
        lines += available.iter().filter(|byte| **byte == b'\n').count();
        read.extend_from_slice(available);
        let taken = available.len();
        source.consume(taken);
    }
    Ok((read, false))
}
