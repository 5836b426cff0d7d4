//! The results of a bulk action as a response body that is produced while the client reads.
//!
//! Invariant: memory does not grow with the number of jobs; production pauses while the client does
//! not read. A body that cannot be completed, because of an error or because the server stops, is
//! aborted and never ended as if it were complete.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fairlane::{Bulk, Error, Filter};
use fairlane_engine::BoxFuture;
use hyper::body::{Body, Frame};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, duplex};
use tokio_util::sync::CancellationToken;

/// Most bytes that are produced ahead of the reader, not counting the page they come from.
const AHEAD_BYTES: usize = 64 * 1024;
/// Bytes of one frame.
const CHUNK_BYTES: usize = 16 * 1024;

/// Lines that are produced while they are read.
pub(super) struct Results {
    /// `None` once all lines are produced.
    exporting: Option<BoxFuture<'static, Result<u64, Error>>>,
    lines: DuplexStream,
}

impl Results {
    pub fn new(bulk: Bulk, filter: Filter, stopping: CancellationToken) -> Self {
        let (writer, lines) = duplex(AHEAD_BYTES);
        let exporting = async move {
            let exported = stopping.run_until_cancelled(bulk.export(writer, filter)).await;
            exported.unwrap_or_else(|| Err(io::Error::other("the server is stopping").into()))
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
                tracing::warn!(target: "fairlane", %error, "a stream of results was aborted");
                return Poll::Ready(Some(Err(error)));
            }
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut buffer = ReadBuf::new(&mut chunk);
        if let Err(error) = ready!(Pin::new(&mut this.lines).poll_read(context, &mut buffer)) {
            return Poll::Ready(Some(Err(error.into())));
        }
        let length = buffer.filled().len();
        chunk.truncate(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(chunk.into()))))
    }
}
