//! The three pipes of a program, served concurrently so that none can block another.
//!
//! Invariant: the buffered output is bounded. Output beyond the bound is read and discarded, so
//! that the program is not blocked, until it counts as a flood.

use std::collections::VecDeque;

use fairlane_core::limits::NOTE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

/// Bytes kept of standard error: its end, where error messages usually are.
pub(super) const STDERR_BYTES_MAX: usize = 2 * 1024;
/// A program that writes this many bytes is assumed never to stop by itself.
pub(super) const FLOOD_BYTES: u64 = 64 * 1024 * 1024;
/// The size of the read buffer, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// The pipes, and the output read from them.
pub(super) struct Pipes {
    payload: Vec<u8>,
    stdin: Option<ChildStdin>,
    stdout_pipe: Option<ChildStdout>,
    stderr_pipe: Option<ChildStderr>,
    pub stdout: BoundedBuffer,
    pub stderr: BoundedBuffer,
}

/// How the transfer ended.
pub(super) struct FlowEnd {
    /// Whether the program wrote more than [`FLOOD_BYTES`].
    pub flooded: bool,
}

impl Pipes {
    pub fn take(child: &mut Child, payload: Vec<u8>) -> Self {
        Self {
            payload,
            stdin: child.stdin.take(),
            stdout_pipe: child.stdout.take(),
            stderr_pipe: child.stderr.take(),
            stdout: BoundedBuffer::first(NOTE_BYTES_MAX),
            stderr: BoundedBuffer::last(STDERR_BYTES_MAX),
        }
    }

    /// Writes the payload and reads both outputs until they are closed, or one is a flood.
    pub async fn flow(&mut self) -> FlowEnd {
        let feeding = feed(self.stdin.take(), &self.payload);
        let reading_stdout = collect(self.stdout_pipe.take(), &mut self.stdout);
        let reading_stderr = collect(self.stderr_pipe.take(), &mut self.stderr);
        let reads = async { tokio::try_join!(reading_stdout, reading_stderr) };
        // A program that does not read its input is not waited for once it has closed its outputs.
        let mut reads = std::pin::pin!(reads);
        let ended = tokio::select! {
            ended = &mut reads => ended,
            () = feeding => reads.await,
        };
        FlowEnd { flooded: ended.is_err() }
    }
}

/// Writes the payload. A program need not read its input: a closed pipe is not an error.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload).await;
        let _ = stdin.shutdown().await;
    }
}

struct Flood;

async fn collect(pipe: Option<impl AsyncRead + Unpin>, buffer: &mut BoundedBuffer) -> Result<(), Flood> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut chunk = vec![0; READ_BYTES];
    loop {
        match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(length) => buffer.add(&chunk[..length]),
        }
        if buffer.is_flood() {
            return Err(Flood);
        }
    }
}

/// The first or the last bytes of a stream.
pub(super) struct BoundedBuffer {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    keeps_end: bool,
    total: u64,
}

impl BoundedBuffer {
    fn first(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max, keeps_end: false, total: 0 }
    }

    fn last(bytes_max: usize) -> Self {
        Self { keeps_end: true, ..Self::first(bytes_max) }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.keeps_end {
            let newest = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
            let surplus = (self.bytes.len() + newest.len()).saturating_sub(self.bytes_max);
            self.bytes.drain(..surplus);
            self.bytes.extend(newest);
        } else {
            let room = self.bytes_max - self.bytes.len();
            self.bytes.extend(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Whether the stream had more bytes than are buffered.
    pub fn is_truncated(&self) -> bool {
        self.total > self.bytes_max as u64
    }

    /// Whether the stream is too long ever to be a result. A stream whose end is kept is never a
    /// flood.
    pub fn is_flood(&self) -> bool {
        !self.keeps_end && self.total > FLOOD_BYTES
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_or_the_last_bytes_are_buffered() {
        let (mut first, mut last) = (BoundedBuffer::first(4), BoundedBuffer::last(4));
        for piece in [&b"ab"[..], b"cde", b"", b"fghijkl", b"m"] {
            first.add(piece);
            last.add(piece);
        }
        assert_eq!((first.bytes(), last.bytes()), (b"abcd".to_vec(), b"jklm".to_vec()));
        assert!(first.is_truncated() && last.is_truncated());
        let mut exact = BoundedBuffer::first(4);
        exact.add(b"abcd");
        assert!(!exact.is_truncated());
    }
}
