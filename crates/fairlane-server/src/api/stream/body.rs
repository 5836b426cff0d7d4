//! A request's body as it comes, to be read line by line.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// How long what a client goes on sending after the answer is thrown away, so that it comes to read the answer.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// A body of which one piece is in memory at a time. A pause that is too long is an error.
pub struct BodyReader {
    body: Body,
    piece: Bytes,
    idle: Pin<Box<Sleep>>,
    idle_max: Duration,
    is_waiting: bool,
}

impl BodyReader {
    /// A reader of this body.
    pub fn new(body: Body, idle_max: Duration) -> Self {
        Self { body, piece: Bytes::new(), idle: Box::pin(sleep(idle_max)), idle_max, is_waiting: false }
    }

    /// Throws away what still comes. A connection that is closed while its client sends may take the answer with it.
    pub fn discard(self, stopping: CancellationToken) {
        let mut body = self.body;
        let reading = async move { while let Some(Ok(_)) = body.frame().await {} };
        tokio::spawn(stopping.run_until_cancelled_owned(tokio::time::timeout(DISCARD_TIME, reading)));
    }

    /// The next piece; none at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if !self.is_waiting {
                // Only a pause costs a timer.
                self.is_waiting = true;
                self.idle.as_mut().reset(Instant::now() + self.idle_max);
            }
            ready!(self.idle.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        self.is_waiting = false;
        Poll::Ready(match frame {
            None => Ok(None),
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
            Some(Err(error)) => Err(io::Error::other(error)),
        })
    }
}

impl AsyncBufRead for BodyReader {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let reader = self.get_mut();
        while reader.piece.is_empty() {
            match ready!(reader.poll_piece(context))? {
                Some(piece) => reader.piece = piece,
                None => break,
            }
        }
        Poll::Ready(Ok(&reader.piece))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().piece.advance(bytes);
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
