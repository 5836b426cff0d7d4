//! Signals to the waiters of processes, such as those for locks.
//!
//! A process subscribes before it registers its first waiter. Invariant: after a subscription is
//! confirmed, every signal to its process arrives, unless its buffer is full or the connection is
//! lost. Both are harmless: `attend_locks` returns what the signals were about. Left out on purpose:
//! signals that are kept for a process without a subscription.

use std::collections::HashMap;
use std::fmt::Debug;

use fairlane_core::kernel::{Grant, Signal};
use fairlane_core::{LockToken, ProcessId};
use tokio::sync::mpsc;

/// Signals that may arrive before the process receives them; more are dropped.
const BUFFERED_MAX: usize = 1024;
/// Subscriptions after which those that have ended are removed for the first time.
const REMOVE_ENDED_AT: usize = 64;

/// A waiter, and what was granted to it.
pub(crate) type Woken = (LockToken, Option<Grant>);

/// The signals to one process. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Signals {
    process: ProcessId,
    waiters: mpsc::Receiver<Woken>,
    /// Ends the subscription elsewhere when it is dropped, after the receiver.
    _guard: Option<Box<dyn Debug + Send + Sync>>,
}

impl Signals {
    /// A subscription and its sender. It ends when the sender is dropped.
    pub(crate) fn channel(process: ProcessId) -> (mpsc::Sender<Woken>, Self) {
        let (sender, waiters) = mpsc::channel(BUFFERED_MAX);
        (sender, Self { process, waiters, _guard: None })
    }

    /// Keeps a value until the subscription is dropped.
    pub(crate) fn until_dropped(self, guard: impl Debug + Send + Sync + 'static) -> Self {
        Self { _guard: Some(Box::new(guard)), ..self }
    }

    /// The next signal; `None` if the subscription has ended because its connection was lost or
    /// because the process has subscribed again. Subscribe again, and then send `attend_locks` to
    /// learn what was missed.
    pub async fn next(&mut self) -> Option<Signal> {
        let (waiter, grant) = self.waiters.recv().await?;
        Some(Signal { process: self.process.clone(), waiter, grant })
    }
}

/// The subscriptions of an engine, at most one for each process.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    by_process: HashMap<ProcessId, mpsc::Sender<Woken>>,
    remove_ended_at: usize,
}

impl Subscribers {
    /// Adds a subscription, which ends an earlier one of the same process.
    pub fn add(&mut self, process: ProcessId) -> Signals {
        if self.by_process.len() >= self.remove_ended_at.max(REMOVE_ENDED_AT) {
            self.by_process.retain(|_, sender| !sender.is_closed());
            self.remove_ended_at = 2 * self.by_process.len();
        }
        let (sender, signals) = Signals::channel(process.clone());
        self.by_process.insert(process, sender);
        signals
    }

    /// Removes the subscription of a process if it has ended; returns whether it has.
    pub fn remove_ended(&mut self, process: &ProcessId) -> bool {
        let has_ended = self.by_process.get(process).is_none_or(mpsc::Sender::is_closed);
        if has_ended {
            self.by_process.remove(process);
        }
        has_ended
    }

    /// Ends all subscriptions.
    pub fn clear(&mut self) {
        self.by_process.clear();
    }

    /// Whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.by_process.is_empty()
    }

    /// Passes a signal on, if its process has a subscription.
    pub fn send(&mut self, signal: Signal) {
        let Some(sender) = self.by_process.get(&signal.process) else { return };
        if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send((signal.waiter, signal.grant)) {
            self.by_process.remove(&signal.process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(process: &str, waiter: &str) -> Signal {
        let (process, waiter) = (ProcessId::new(process).unwrap(), LockToken::new(waiter).unwrap());
        Signal { process, waiter, grant: None }
    }

    #[tokio::test]
    async fn signal_reaches_the_latest_subscription_of_its_process_only() {
        let mut subscribers = Subscribers::default();
        let mut former = subscribers.add(ProcessId::new("p").unwrap());
        let mut other = subscribers.add(ProcessId::new("q").unwrap());
        let mut latest = subscribers.add(ProcessId::new("p").unwrap());
        for sent in [signal("p", "1"), signal("other", "2"), signal("q", "3")] {
            subscribers.send(sent);
        }
        assert_eq!(former.next().await, None);
        assert_eq!(latest.next().await, Some(signal("p", "1")));
        assert_eq!(other.next().await, Some(signal("q", "3")));
    }

    #[tokio::test]
    async fn full_buffer_drops_signals_and_keeps_the_subscription() {
        let mut subscribers = Subscribers::default();
        let mut signals = subscribers.add(ProcessId::new("p").unwrap());
        (0..=BUFFERED_MAX).for_each(|number| subscribers.send(signal("p", &number.to_string())));
        for number in 0..BUFFERED_MAX {
            assert_eq!(signals.next().await, Some(signal("p", &number.to_string())));
        }
        subscribers.send(signal("p", "after"));
        assert_eq!(signals.next().await, Some(signal("p", "after")));
    }

    #[test]
    fn ended_subscriptions_are_removed() {
        let mut subscribers = Subscribers::default();
        for number in 0..100 * REMOVE_ENDED_AT {
            drop(subscribers.add(ProcessId::new(number.to_string()).unwrap()));
        }
        assert!(subscribers.by_process.len() <= REMOVE_ENDED_AT);
    }
}
