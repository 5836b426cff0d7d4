//! A connection whose client must not be slow: a head that has begun has to end, an answer has to be read.
//!
//! Time is only looked at when the client keeps the server waiting, so a fast one pays nothing for it.
//!
//! A connection that is closed while its client still sends would take the answer with it, and a proxy would tell of a
//! broken server where a request was refused. So what still comes is thrown away for a while, and then it is closed.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::framing::Framing;
use crate::settings::ServerSettings;

/// The part of a stop's grace period that a client may not read: one of them must not take all of it.
const STOP_PATIENCE_PART: u32 = 10;
/// How long what comes behind the last answer is thrown away, and how much of it.
const REST_TIME: Duration = Duration::from_secs(5);
const REST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How much of it at a time.
const REST_PIECE_BYTES: usize = 4096;

/// The requests of one connection, as far as its reader has to know.
#[derive(Default)]
pub(super) struct Exchanges {
    begun: AtomicU64,
    /// The request, counted from 1, that has both Content-Length and Transfer-Encoding; 0: none.
    ambiguous: AtomicU64,
    open: Arc<()>,
    /// Nobody read the last body to its end.
    is_cut: AtomicBool,
}

impl Exchanges {
    /// A head has come. What is held lasts as long as body and handler do: what comes meanwhile is no head.
    pub fn begin(&self) -> Arc<()> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.is_cut.store(false, Ordering::Relaxed);
        self.open.clone()
    }

    /// Whether the request that has begun last can be taken for another than it is.
    pub fn is_ambiguous(&self) -> bool {
        self.ambiguous.load(Ordering::Relaxed) == self.begun.load(Ordering::Relaxed)
    }

    /// The rest of its body is not wanted.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn is_between(&self) -> bool {
        Arc::strong_count(&self.open) == 1
    }
}

/// A connection with bounds in time.
pub(super) struct Timed<S> {
    stream: S,
    exchanges: Arc<Exchanges>,
    framing: Framing,
    head_timeout: Duration,
    write_timeout: Duration,
    /// The head that is being read: after how many others, and until when it may take.
    head: Option<(u64, Instant)>,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Stalled>,
    /// What still comes after the end: until when, and how much.
    rest: Option<(Pin<Box<Sleep>>, usize)>,
    stopping: CancellationToken,
    stop_patience: Duration,
}

/// A client that does not read.
struct Stalled {
    until: Pin<Box<Sleep>>,
    /// None once the server stops.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl<S> Timed<S> {
    /// The first head counts as begun: who connects has something to say.
    pub fn new(
        stream: S,
        exchanges: Arc<Exchanges>,
        settings: &ServerSettings,
        stopping: CancellationToken,
    ) -> Self {
        let (head_timeout, write_timeout) = (settings.head_timeout, settings.write_timeout);
        let head = Some((0, Instant::now() + settings.first_head_timeout));
        let stop_patience = settings.shutdown_grace_period / STOP_PATIENCE_PART;
        Self {
            stream,
            exchanges,
            framing: Framing::default(),
            head_timeout,
            write_timeout,
            head,
            reading: None,
            writing: None,
            rest: None,
            stopping,
            stop_patience,
        }
    }

    fn check_head(&mut self, came: bool, context: &mut Context<'_>) -> Result<()> {
        let begun = self.exchanges.begun.load(Ordering::Relaxed);
        if !self.exchanges.is_between() || self.head.is_some_and(|(number, _)| number != begun) {
            (self.head, self.reading) = (None, None);
        }
        if came {
            if self.head.is_none() && self.exchanges.is_between() {
                self.head = Some((begun, Instant::now() + self.head_timeout));
            }
            return Ok(());
        }
        let Some((_, until)) = self.head else { return Ok(()) };
        let timer = self.reading.get_or_insert_with(|| Box::pin(sleep_until(until)));
        expired(timer, context)
    }

    /// Whether the client may be sending something that nobody will read: a body, or what did not become a request.
    fn has_rest(&self) -> bool {
        let begun = self.exchanges.begun.load(Ordering::Relaxed);
        self.exchanges.is_cut.load(Ordering::Relaxed) || self.head.is_some_and(|(number, _)| number == begun)
    }

    fn check_write<T>(&mut self, written: Poll<Result<T>>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let now = Instant::now();
        let stalled = self.writing.get_or_insert_with(|| Stalled {
            until: Box::pin(sleep_until(now + self.write_timeout)),
            stopping: Some(Box::pin(self.stopping.clone().cancelled_owned())),
        });
        if let Some(stopping) = &mut stalled.stopping
            && stopping.as_mut().poll(context).is_ready()
        {
            stalled.stopping = None;
            let until = stalled.until.deadline().min(now + self.stop_patience);
            stalled.until.as_mut().reset(until);
        }
        expired(&mut stalled.until, context)?;
        Poll::Pending
    }
}

fn expired(timer: &mut Pin<Box<Sleep>>, context: &mut Context<'_>) -> Result<()> {
    match timer.as_mut().poll(context) {
        Poll::Ready(()) => Err(Error::new(ErrorKind::TimedOut, "the client was too slow")),
        Poll::Pending => Ok(()),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(request) = self.framing.read(&buffer.filled()[before..]) {
            self.exchanges.ambiguous.store(request, Ordering::Relaxed);
        }
        self.check_head(read.is_ready(), context)?;
        read
    }
}

impl<S: AsyncRead + Unpin> Timed<S> {
    /// Throws away what comes, until the client has nothing more to say or it was enough.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (until, left) = self
            .rest
            .get_or_insert_with(|| (Box::pin(sleep_until(Instant::now() + REST_TIME)), REST_BYTES_MAX));
        loop {
            let mut piece = [0; REST_PIECE_BYTES];
            let mut buffer = ReadBuf::new(&mut piece);
            let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, &mut buffer) else {
                return until.as_mut().poll(context);
            };
            let bytes = buffer.filled().len();
            if read.is_err() || bytes == 0 || bytes > *left {
                return Poll::Ready(());
            }
            *left -= bytes;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.check_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.rest.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            if !self.has_rest() {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_rest(context).map(Ok)
    }
}
