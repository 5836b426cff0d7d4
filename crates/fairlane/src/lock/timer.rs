//! Sleeps until the lease of another holder ends. Timers of the runtime have a resolution of a
//! millisecond, which is longer than several round trips. So the kernel's timer measures the last
//! milliseconds, and at the very end the thread polls instead of sleeping.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

/// How long before the end the kernel's timer takes over.
pub(super) const PRECISE_FOR: Duration = Duration::from_millis(3);
/// How long before the end the thread begins to poll: a sleeping processor takes about as long to
/// wake up.
const AWAKE_FOR: Duration = Duration::from_micros(200);

/// Sleeps until a point in time. `precise` needs a runtime with I/O, which an engine in another
/// process needs as well.
pub(super) async fn until(at: Instant, precise: bool) {
    if !precise {
        return sleep_until(at).await;
    }
    sleep_until(at - PRECISE_FOR.min(at.saturating_duration_since(Instant::now()))).await;
    // The kernel's timer fails if no file descriptor is free, for instance.
    if kernel_timer(at - AWAKE_FOR).await.is_err() {
        return sleep_until(at).await;
    }
    while Instant::now() < at {
        yield_now().await;
    }
}

#[cfg(target_os = "linux")]
async fn kernel_timer(at: Instant) -> std::io::Result<()> {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    let remaining = at.saturating_duration_since(Instant::now());
    if remaining.is_zero() {
        return Ok(());
    }
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let it_value = Timespec { tv_sec: remaining.as_secs() as _, tv_nsec: remaining.subsec_nanos().into() };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: once, it_value })?;
    // The receiver of a pipe is used only to wait until the timer's descriptor is readable.
    Receiver::from_owned_fd_unchecked(timer)?.readable().await
}

#[cfg(not(target_os = "linux"))]
async fn kernel_timer(_: Instant) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timer_ends_at_its_time_and_not_before() {
        for ms in [0, 1, 5] {
            let at = Instant::now() + Duration::from_millis(ms);
            until(at, true).await;
            assert!(Instant::now() >= at);
        }
    }
}
