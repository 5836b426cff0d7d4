//! Bounded waits for a condition.

use std::time::{Duration, Instant};

/// The longest wait; only a failing test waits this long.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// The pause between two checks.
const POLL: Duration = Duration::from_millis(5);

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_async(what, async || holds()).await
}

/// Waits until an asynchronous condition holds.
pub async fn until_async(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    eventually(async || if holds().await { Ok(()) } else { Err(what) }).await
}

/// Repeats `check` until it succeeds, and returns its value. Its `Err` is the unexpected state, for
/// the error message.
pub async fn eventually<T, W: std::fmt::Debug>(mut check: impl AsyncFnMut() -> Result<T, W>) -> T {
    let deadline = Instant::now() + WAIT_LIMIT;
    loop {
        match check().await {
            Ok(found) => return found,
            Err(instead) => assert!(Instant::now() < deadline, "timed out: {instead:?}"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until a condition holds, in a test without a runtime.
pub fn until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(POLL);
    }
}
