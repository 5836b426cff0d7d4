//! The body of a stream while it arrives, read line by line.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use hyper::body::Body as _;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::quota::StreamMeter;

/// A body of which one chunk is in memory at a time. A pause that is too long is an error.
pub struct BodyReader {
    body: Body,
    chunk: Bytes,
    idle: Pin<Box<Sleep>>,
    idle_max: Duration,
    is_waiting: bool,
    meter: StreamMeter,
    /// The wait for the quota of the last chunk, before more is read.
    quota_wait: Option<Pin<Box<Sleep>>>,
}

impl BodyReader {
    /// A reader of this body.
    pub fn new(body: Body, idle_max: Duration) -> Self {
        let idle = Box::pin(sleep(idle_max));
        let (chunk, meter) = (Bytes::new(), StreamMeter::default());
        Self { body, chunk, idle, idle_max, is_waiting: false, meter, quota_wait: None }
    }

    /// The next chunk; `None` at the end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if let Some(wait) = &mut self.quota_wait {
            ready!(wait.as_mut().poll(context));
            self.quota_wait = None;
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if !self.is_waiting {
                // The timer runs only during a pause.
                self.is_waiting = true;
                self.idle.as_mut().reset(Instant::now() + self.idle_max);
            }
            ready!(self.idle.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        self.is_waiting = false;
        Poll::Ready(match frame {
            None => Ok(None),
            Some(Ok(frame)) => {
                let chunk = frame.into_data().unwrap_or_default();
                let wait = self.meter.charge(&chunk);
                self.quota_wait = (!wait.is_zero()).then(|| Box::pin(sleep(wait)));
                Ok(Some(chunk))
            }
            Some(Err(error)) => Err(io::Error::other(error)),
        })
    }
}

impl AsyncBufRead for BodyReader {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let reader = self.get_mut();
        while reader.chunk.is_empty() {
            match ready!(reader.poll_chunk(context))? {
                Some(chunk) => reader.chunk = chunk,
                None => break,
            }
        }
        Poll::Ready(Ok(&reader.chunk))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().chunk.advance(bytes);
    }
}

impl AsyncRead for BodyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let available = ready!(self.as_mut().poll_fill_buf(context))?;
        let taken = available.len().min(buffer.remaining());
        buffer.put_slice(&available[..taken]);
        self.consume(taken);
        Poll::Ready(Ok(()))
    }
}
