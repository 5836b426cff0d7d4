//! A stream with timeouts for slow clients: a head that has begun must end, a response must be
//! read.
//!
//! Timers run only while the server waits for the client, so a fast client costs nothing.
//!
//! If a connection is closed while its client still sends, the client's system discards the
//! response, and a proxy reports a failed server instead of a refused request. So the server drains
//! the stream for a while before it closes the connection.

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

/// The part of the shutdown grace period for which a client may not read: one client must not take
/// all of it.
const STOP_WRITE_PART: u32 = 10;
/// How long the stream is drained after the last response.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How many bytes are drained at most.
const DRAIN_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How many bytes are drained with one read.
const DRAIN_CHUNK_BYTES: usize = 4096;

/// The requests of one connection, shared by its stream and its service.
#[derive(Default)]
pub(super) struct ConnectionState {
    /// The number of requests whose head has been read.
    requests: AtomicU64,
    /// The request, counted from 1, that has both Content-Length and Transfer-Encoding; 0 if none
    /// has.
    ambiguous: AtomicU64,
    open_request: Arc<()>,
    /// Whether the last body was dropped before its end.
    is_body_abandoned: AtomicBool,
}

impl ConnectionState {
    /// Counts a request whose head has been read. The returned value is held by its body and its
    /// handler: bytes that arrive meanwhile do not begin a head.
    pub fn begin(&self) -> Arc<()> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.is_body_abandoned.store(false, Ordering::Relaxed);
        self.open_request.clone()
    }

    /// Whether the end of the last request is ambiguous.
    pub fn is_ambiguous(&self) -> bool {
        self.ambiguous.load(Ordering::Relaxed) == self.requests.load(Ordering::Relaxed)
    }

    /// Records that no handler reads the rest of the last body.
    pub fn abandon_body(&self) {
        self.is_body_abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether no request is open.
    fn is_between_requests(&self) -> bool {
        Arc::strong_count(&self.open_request) == 1
    }
}

/// A stream with timeouts.
pub(super) struct TimeoutStream<S> {
    stream: S,
    state: Arc<ConnectionState>,
    framing: Framing,
    head_timeout: Duration,
    write_timeout: Duration,
    /// The head that is being read: how many requests came before it, and when it must have ended.
    head: Option<(u64, Instant)>,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<StalledWrite>,
    /// Set while the stream is drained: the time left and the bytes left.
    draining: Option<(Pin<Box<Sleep>>, usize)>,
    stopping: CancellationToken,
    stop_write_timeout: Duration,
}

/// A write to a client that does not read.
struct StalledWrite {
    until: Pin<Box<Sleep>>,
    /// `None` once the server is stopping.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl<S> TimeoutStream<S> {
    /// The first head counts as begun when the connection is accepted.
    pub fn new(
        stream: S,
        state: Arc<ConnectionState>,
        settings: &ServerSettings,
        stopping: CancellationToken,
    ) -> Self {
        let (head_timeout, write_timeout) = (settings.head_timeout, settings.write_timeout);
        let head = Some((0, Instant::now() + settings.first_head_timeout));
        let stop_write_timeout = settings.shutdown_grace_period / STOP_WRITE_PART;
        Self {
            stream,
            state,
            framing: Framing::default(),
            head_timeout,
            write_timeout,
            head,
            reading: None,
            writing: None,
            draining: None,
            stopping,
            stop_write_timeout,
        }
    }

    fn check_head(&mut self, has_read: bool, context: &mut Context<'_>) -> Result<()> {
        let requests = self.state.requests.load(Ordering::Relaxed);
        if !self.state.is_between_requests() || self.head.is_some_and(|(number, _)| number != requests) {
            (self.head, self.reading) = (None, None);
        }
        if has_read {
            if self.head.is_none() && self.state.is_between_requests() {
                self.head = Some((requests, Instant::now() + self.head_timeout));
            }
            return Ok(());
        }
        let Some((_, until)) = self.head else { return Ok(()) };
        let timer = self.reading.get_or_insert_with(|| Box::pin(sleep_until(until)));
        check_expired(timer, context)
    }

    /// Whether the client may be sending bytes that no handler will read: a body, or an incomplete
    /// head.
    fn needs_drain(&self) -> bool {
        let requests = self.state.requests.load(Ordering::Relaxed);
        self.state.is_body_abandoned.load(Ordering::Relaxed)
            || self.head.is_some_and(|(number, _)| number == requests)
    }

    fn check_write<T>(&mut self, written: Poll<Result<T>>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let now = Instant::now();
        let stalled = self.writing.get_or_insert_with(|| StalledWrite {
            until: Box::pin(sleep_until(now + self.write_timeout)),
            stopping: Some(Box::pin(self.stopping.clone().cancelled_owned())),
        });
        if let Some(stopping) = &mut stalled.stopping
            && stopping.as_mut().poll(context).is_ready()
        {
            stalled.stopping = None;
            let until = stalled.until.deadline().min(now + self.stop_write_timeout);
            stalled.until.as_mut().reset(until);
        }
        check_expired(&mut stalled.until, context)?;
        Poll::Pending
    }
}

fn check_expired(timer: &mut Pin<Box<Sleep>>, context: &mut Context<'_>) -> Result<()> {
    match timer.as_mut().poll(context) {
        Poll::Ready(()) => Err(Error::new(ErrorKind::TimedOut, "the client was too slow")),
        Poll::Pending => Ok(()),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(request) = self.framing.read(&buffer.filled()[before..]) {
            self.state.ambiguous.store(request, Ordering::Relaxed);
        }
        self.check_head(read.is_ready(), context)?;
        read
    }
}

impl<S: AsyncRead + Unpin> TimeoutStream<S> {
    /// Discards what arrives, until the client closes its end or a limit is reached.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (until, left) = self
            .draining
            .get_or_insert_with(|| (Box::pin(sleep_until(Instant::now() + DRAIN_TIME)), DRAIN_BYTES_MAX));
        loop {
            let mut chunk = [0; DRAIN_CHUNK_BYTES];
            let mut buffer = ReadBuf::new(&mut chunk);
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
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
        if self.draining.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            if !self.needs_drain() {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_drain(context).map(Ok)
    }
}
