//! A request's body as it comes, to be read line by line.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use hyper::body::Body as _;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::guard::Uncounted;

/// A body of which one piece is in memory at a time. A pause that is too long is an error.
pub struct BodyReader {
    body: Body,
    piece: Bytes,
    idle: Pin<Box<Sleep>>,
    idle_max: Duration,
    is_waiting: bool,
    uncounted: Uncounted,
    /// What has come is to be paid for before more is read.
    paying: Option<Pin<Box<Sleep>>>,
}

impl BodyReader {
    /// A reader of this body.
    pub fn new(body: Body, idle_max: Duration) -> Self {
        let idle = Box::pin(sleep(idle_max));
        let (piece, uncounted) = (Bytes::new(), Uncounted::default());
        Self { body, piece, idle, idle_max, is_waiting: false, uncounted, paying: None }
    }

    /// The next piece; none at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if let Some(paying) = &mut self.paying {
            ready!(paying.as_mut().poll(context));
            self.paying = None;
        }
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
            Some(Ok(frame)) => {
                let piece = frame.into_data().unwrap_or_default();
                let wait = self.uncounted.spend(&piece).map(|owed| owed.wait).filter(|wait| !wait.is_zero());
                self.paying = wait.map(|wait| Box::pin(sleep(wait)));
                Ok(Some(piece))
            }
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
