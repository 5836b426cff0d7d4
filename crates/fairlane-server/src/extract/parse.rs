//! Parsing of large bodies outside the runtime's threads.
//!
//! Invariant: a body of more than [`INLINE_BYTES_MAX`] never occupies a thread that serves other
//! requests, and such bodies together occupy at most half of the processors.

use std::sync::Arc;
use std::thread::available_parallelism;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::problem::{Problem, ProblemKind};

/// Largest body that is parsed on the runtime's thread, in bytes: moving it to another thread would
/// take longer than parsing it.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Threads that parse large bodies.
pub(crate) struct Parsers(Arc<Semaphore>);

impl Default for Parsers {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new((processors / 2).max(1))))
    }
}

impl Parsers {
    /// Parses a body; a large one waits for a thread. If the request is dropped meanwhile, parsing
    /// continues to its end and occupies the thread until then.
    pub async fn parse<T, F>(&self, body: Bytes, parse: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    {
        if body.len() <= INLINE_BYTES_MAX {
            return parse(&body);
        }
        // The semaphore is never closed.
        let thread = self.0.clone().acquire_owned().await.ok();
        let parsing = spawn_blocking(move || {
            let parsed = parse(&body);
            drop(thread);
            parsed
        });
        match parsing.await {
            Ok(parsed) => parsed,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {
                Err(ProblemKind::Unavailable.because("the server is stopping; send the request to another"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    /// A timeout that only a failing test reaches.
    const TIMEOUT: Duration = Duration::from_secs(30);

    fn large() -> Bytes {
        vec![b' '; INLINE_BYTES_MAX + 1].into()
    }

    fn until_sent(go_on: &Receiver<()>) -> Result<bool, Problem> {
        Ok(go_on.recv_timeout(TIMEOUT).is_ok())
    }

    /// The runtime of this test has one thread: parsing on it would block the second future.
    #[tokio::test]
    async fn other_requests_are_served_while_a_large_body_is_parsed() {
        let (send, go_on) = channel();
        let parsers = Parsers::default();
        let parsing = parsers.parse(large(), move |_| until_sent(&go_on));
        let (parsed, sent) = tokio::join!(parsing, async move { send.send(()) });
        assert!(parsed.unwrap() && sent.is_ok());
    }

    #[tokio::test]
    async fn large_bodies_are_parsed_on_a_bounded_number_of_threads() {
        let parsers = Parsers(Arc::new(Semaphore::new(2)));
        let (send, go_on) = channel();
        let go_on = Arc::new(Mutex::new(go_on));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let parse = || {
            let (go_on, now, most) = (go_on.clone(), now.clone(), most.clone());
            parsers.parse(large(), move |_| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let done = until_sent(&go_on.lock().unwrap());
                now.fetch_sub(1, Ordering::SeqCst);
                done
            })
        };
        let all = async { tokio::join!(parse(), parse(), parse(), parse(), parse()) };
        let released = async {
            while now.load(Ordering::SeqCst) < 2 {
                tokio::task::yield_now().await;
            }
            // A third large body waits for a thread, and a small one does not.
            assert!(parsers.parse(Bytes::new(), |_| Ok(true)).await.unwrap());
            (0..5).for_each(|_| send.send(()).unwrap());
        };
        let (parsed, ()) = tokio::join!(all, released);
        assert!(parsed.0.unwrap() && parsed.4.unwrap());
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }
}
