//! Gathering: tasks that are about to end are let run before a command is sent, so that one command carries
//! what would otherwise be two, a small one and the rest.

use std::future::poll_fn;
use std::task::Poll;

/// Turns that other tasks have each time. One is not enough: the end of an attempt passes through two tasks.
const TURNS: usize = 2;
/// Most times it goes on because more came.
const TIMES_MAX: usize = 8;

/// Lets other tasks run as long as `count` grows by it. There is no timer: with nothing else to run it ends at once.
pub(crate) async fn gather(count: impl Fn() -> usize) {
    let mut before = count();
    for _ in 0..TIMES_MAX {
        for _ in 0..TURNS {
            give_way().await;
        }
        let now = count();
        if now <= before {
            return;
        }
        before = now;
    }
}

/// Goes to the end of the runtime's line. `tokio::task::yield_now` would wait until this thread has nothing to do,
/// and a processor that blocks the thread would stop the worker.
async fn give_way() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
