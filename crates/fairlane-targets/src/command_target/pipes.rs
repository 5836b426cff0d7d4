//! The three pipes of a program, served together so that none can block another.
//!
//! Invariant: what is kept is bounded; what is written beyond is read and thrown away, so that the program is
//! not held up, until it is a flood.

use std::collections::VecDeque;

use fairlane_core::limits::NOTE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

/// What is kept of standard error, in bytes: its end, where reasons stand.
pub(super) const STDERR_BYTES_MAX: usize = 2 * 1024;
/// A program that writes this much, in bytes, does not stop by itself.
pub(super) const FLOOD_BYTES: u64 = 64 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// The pipes, and what has come out of them.
pub(super) struct Pipes {
    payload: Vec<u8>,
    stdin: Option<ChildStdin>,
    stdout_pipe: Option<ChildStdout>,
    stderr_pipe: Option<ChildStderr>,
    pub stdout: Kept,
    pub stderr: Kept,
}

/// How the flow ended.
pub(super) struct FlowEnd {
    /// Whether the program writes without end.
    pub flooded: bool,
}

impl Pipes {
    pub fn take(child: &mut Child, payload: Vec<u8>) -> Self {
        Self {
            payload,
            stdin: child.stdin.take(),
            stdout_pipe: child.stdout.take(),
            stderr_pipe: child.stderr.take(),
            stdout: Kept::first(NOTE_BYTES_MAX),
            stderr: Kept::last(STDERR_BYTES_MAX),
        }
    }

    /// Writes the payload and reads both outputs until they are closed, or too much has come.
    pub async fn flow(&mut self) -> FlowEnd {
        let feeding = feed(self.stdin.take(), &self.payload);
        let reading = collect(self.stdout_pipe.take(), &mut self.stdout);
        let complaining = collect(self.stderr_pipe.take(), &mut self.stderr);
        let reads = async { tokio::try_join!(reading, complaining) };
        // A program that does not read its input is not waited for once it has closed its outputs.
        let mut reads = std::pin::pin!(reads);
        let ended = tokio::select! {
            ended = &mut reads => ended,
            () = feeding => reads.await,
        };
        FlowEnd { flooded: ended.is_err() }
    }
}

/// A program need not read its input: that it has closed it is no failure.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload).await;
        let _ = stdin.shutdown().await;
    }
}

struct Flood;

async fn collect(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Kept) -> Result<(), Flood> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(length) => kept.add(&buffer[..length]),
        }
        if kept.is_flood() {
            return Err(Flood);
        }
    }
}

/// The first or the last bytes of a stream.
pub(super) struct Kept {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    of_the_end: bool,
    total: u64,
}

impl Kept {
    fn first(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max, of_the_end: false, total: 0 }
    }

    fn last(bytes_max: usize) -> Self {
        Self { of_the_end: true, ..Self::first(bytes_max) }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.of_the_end {
            let newest = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
            let surplus = (self.bytes.len() + newest.len()).saturating_sub(self.bytes_max);
            self.bytes.drain(..surplus);
            self.bytes.extend(newest);
        } else {
            let room = self.bytes_max - self.bytes.len();
            self.bytes.extend(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Whether there was more than is kept.
    pub fn is_cut(&self) -> bool {
        self.total > self.bytes_max as u64
    }

    /// Whether there was so much that it would never have ended. Of a stream whose end is kept that cannot be
    /// said before the end.
    pub fn is_flood(&self) -> bool {
        !self.of_the_end && self.total > FLOOD_BYTES
    }

    pub fn kept(&self) -> Vec<u8> {
        self.bytes.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_or_the_last_bytes_are_kept_and_never_more() {
        let (mut first, mut last) = (Kept::first(4), Kept::last(4));
        for piece in [&b"ab"[..], b"cde", b"", b"fghijkl", b"m"] {
            first.add(piece);
            last.add(piece);
        }
        assert_eq!((first.kept(), last.kept()), (b"abcd".to_vec(), b"jklm".to_vec()));
        assert!(first.is_cut() && last.is_cut());
        let mut exact = Kept::first(4);
        exact.add(b"abcd");
        assert!(!exact.is_cut());
    }
}
