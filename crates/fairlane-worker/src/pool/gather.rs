//! Gathering: tasks that are about to end run before a command is sent, so that one command carries
//! what would otherwise be two, a small one and the rest.

use std::future::poll_fn;
use std::task::Poll;

/// Most rounds while the count grows.
const ROUNDS_MAX: usize = 8;

/// Lets other tasks run while `count` grows. There is no timer: with nothing else to run it returns
/// at once.
pub(crate) async fn gather(count: impl Fn() -> usize) {
    let mut before = count();
    for _ in 0..ROUNDS_MAX {
        yield_to_tasks().await;
        let now = count();
        if now <= before {
            return;
        }
        before = now;
    }
}

/// Moves this task to the end of the runtime's queue. `tokio::task::yield_now` would wait until
/// this thread is idle, and a processor that blocks the thread would stop the worker.
async fn yield_to_tasks() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
