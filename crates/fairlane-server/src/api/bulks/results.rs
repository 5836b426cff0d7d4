//! The results of a bulk action as a body that is written while it is read.
//!
//! Invariant: memory does not grow with the number of jobs; who stops reading stops the writing. A body that ends early
//! is broken off, never ended as if it were whole; so is one that is not all written when the server stops.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fairlane::{Bulk, Error, Filter};
use fairlane_engine::BoxFuture;
use hyper::body::{Body, Frame};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, duplex};
use tokio_util::sync::CancellationToken;

/// Bytes that are written ahead of the reader, beside the page they come from.
const AHEAD_BYTES: usize = 64 * 1024;
/// Bytes handed on at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Lines that are written while they are read.
pub(super) struct Results {
    /// None once all is written.
    exporting: Option<BoxFuture<'static, Result<u64, Error>>>,
    lines: DuplexStream,
}

impl Results {
    pub fn new(bulk: Bulk, filter: Filter, stopping: CancellationToken) -> Self {
        let (writer, lines) = duplex(AHEAD_BYTES);
        let exporting = async move {
            let exported = stopping.run_until_cancelled(bulk.export(writer, filter)).await;
            exported.unwrap_or_else(|| Err(io::Error::other("the server stops").into()))
        };
        Self { exporting: Some(Box::pin(exporting)), lines }
    }
}

impl Body for Results {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        if let Some(exporting) = &mut this.exporting
            && let Poll::Ready(exported) = exporting.as_mut().poll(context)
        {
            this.exporting = None;
            if let Err(error) = exported {
                tracing::warn!(target: "fairlane", %error, "results broke off");
                return Poll::Ready(Some(Err(error)));
            }
        }
        let mut piece = vec![0; PIECE_BYTES];
        let mut buffer = ReadBuf::new(&mut piece);
        if let Err(error) = ready!(Pin::new(&mut this.lines).poll_read(context, &mut buffer)) {
            return Poll::Ready(Some(Err(error.into())));
        }
        let length = buffer.filled().len();
        piece.truncate(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece.into()))))
    }
}
