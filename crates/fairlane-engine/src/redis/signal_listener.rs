//! Signals to waiters: one connection that subscribes to the channels of processes.
//!
//! The connection is opened by the first subscription and closed after the last one. When it is lost,
//! all subscriptions end, and their owners subscribe again. On a cluster the channels are sharded: they
//! have the hash tag of the partition. A user who may not subscribe is warned about once; locks work
//! without signals, and pass on a little later. Invariant: a subscription is known here before the
//! server is asked for it, so no signal after the confirmation is missed.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use ::redis::{PushInfo, PushKind, RedisError, Value};
use fairlane_core::kernel::{Grant, Signal};
use fairlane_core::{Fence, LockToken, Micros, ProcessId};
use tokio::runtime::Handle;

use super::address::{Address, Line};
use super::errors::{is_permission, unavailable};
use super::keys::Keys;
use crate::engine::EngineError;
use crate::observe;
use crate::signals::{Signals, Subscribers};

/// The subscriptions of one engine.
pub(super) struct SignalListener(Arc<Inner>);

struct Inner {
    address: Arc<Address>,
    response_timeout: Duration,
    line: tokio::sync::Mutex<Option<Line>>,
    shared: Arc<Mutex<Shared>>,
    /// The permission that the user lacks.
    denied: OnceLock<String>,
}

/// State that the connection's own task changes, too.
#[derive(Default)]
struct Shared {
    subscribers: Subscribers,
    /// The number of the current connection, counted from 1.
    connection: u64,
    is_lost: bool,
}

impl SignalListener {
    pub fn new(address: Arc<Address>, response_timeout: Duration) -> Self {
        let (line, shared, denied) = Default::default();
        Self(Arc::new(Inner { address, response_timeout, line, shared, denied }))
    }

    /// The warning about a permission that was missing.
    pub fn warning(&self) -> Option<&String> {
        self.0.denied.get()
    }

    /// Completes when the server has confirmed the subscription.
    pub async fn subscribe(&self, process: &ProcessId) -> Result<Signals, EngineError> {
        let inner = &*self.0;
        let mut line = inner.line.lock().await;
        if inner.shared().is_lost {
            *line = None;
        }
        let subscribed = match &mut *line {
            Some(line) => inner.subscribe_on(line, process).await,
            empty => match inner.connect().await {
                Ok(opened) => inner.subscribe_on(empty.insert(opened), process).await,
                Err(error) => Err(error),
            },
        };
        let subscription = Subscription {
            process: process.clone(),
            inner: Arc::downgrade(&self.0),
            runtime: Handle::current(),
        };
        match subscribed {
            Ok(signals) => Ok(signals.until_dropped(subscription)),
            Err(error) => {
                *line = None;
                inner.shared().subscribers.clear();
                Err(inner.explain(&error))
            }
        }
    }
}

impl Inner {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("nothing panics while it holds the subscriptions")
    }

    /// The meaning of an error; a missing permission is also reported, once.
    fn explain(&self, error: &RedisError) -> EngineError {
        if !is_permission(error) {
            return unavailable(format!("the signals to waiters: {error}"));
        }
        let reason = denied(&self.address.user(), error);
        if self.denied.set(reason.clone()).is_ok() {
            let engine = if self.address.is_cluster() { "redis cluster" } else { "redis" };
            observe::signals_denied(engine, &reason);
        }
        unavailable(reason)
    }

    async fn connect(&self) -> Result<Line, RedisError> {
        let number = {
            let mut shared = self.shared();
            shared.connection += 1;
            shared.is_lost = false;
            shared.connection
        };
        let shared = self.shared.clone();
        let receive =
            move |push: PushInfo| shared.lock().map(|mut shared| shared.receive(number, push)).map_err(drop);
        self.address.connect_for_messages(self.response_timeout, receive).await
    }

    async fn subscribe_on(&self, line: &mut Line, process: &ProcessId) -> Result<Signals, RedisError> {
        let signals = self.shared().subscribers.add(process.clone());
        let channel = Keys::signals_to(process);
        match line {
            Line::Single(single) => single.subscribe(channel).await?,
            Line::Cluster(cluster) => cluster.ssubscribe(channel).await?,
        }
        Ok(signals)
    }

    /// Ends a subscription, unless the process has subscribed again, and the connection after the last
    /// one.
    async fn unsubscribe(&self, process: &ProcessId) {
        let mut line = self.line.lock().await;
        let (has_ended, is_last) = {
            let subscribers = &mut self.shared().subscribers;
            (subscribers.remove_ended(process), subscribers.is_empty())
        };
        if is_last {
            *line = None;
        } else if let (true, Some(line)) = (has_ended, &mut *line) {
            let channel = Keys::signals_to(process);
            // A connection that is lost has no subscriptions.
            let _ = match line {
                Line::Single(single) => single.unsubscribe(channel).await,
                Line::Cluster(cluster) => cluster.sunsubscribe(channel).await,
            };
        }
    }
}

impl Shared {
    fn receive(&mut self, connection: u64, push: PushInfo) {
        if connection != self.connection {
            return;
        }
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                if let Some(signal) = signal(&push.data) {
                    self.subscribers.send(signal);
                }
            }
            PushKind::Disconnection => {
                self.is_lost = true;
                self.subscribers.clear();
            }
            _ => {}
        }
    }
}

/// The missing permission, and the ACL rule that grants it.
fn denied(user: &str, error: &RedisError) -> String {
    let channels = Keys::SIGNAL_CHANNELS;
    let rule = match error.to_string().contains("channel") {
        true => format!("'&{channels}'"),
        false => "+@pubsub".to_owned(),
    };
    format!(
        "the Redis user {user} may not subscribe to the channels {channels}, so a process that waits for a lock \
         asks for it three times a second; run ACL SETUSER {user} {rule} ({error})"
    )
}

/// The signal of a message; `None` for one that is not ours.
fn signal(data: &[Value]) -> Option<Signal> {
    let [Value::BulkString(channel), Value::BulkString(message)] = data else { return None };
    let process = Keys::process_of(str::from_utf8(channel).ok()?)?;
    let mut parts = str::from_utf8(message).ok()?.split(':');
    let waiter = LockToken::from_escaped(parts.next()?).ok()?;
    let mut number = || parts.next()?.parse().ok();
    let grant = number().zip(number());
    let grant = grant.map(|(fence, until)| Grant { fence: Fence(fence), until: Micros(until) });
    Some(Signal { process, waiter, grant })
}

/// Ends the subscription when the receiver of its signals is dropped.
#[derive(Debug)]
struct Subscription {
    process: ProcessId,
    inner: Weak<Inner>,
    runtime: Handle,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            let process = self.process.clone();
            self.runtime.spawn(async move { inner.unsubscribe(&process).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_permission_names_the_channels_and_the_acl_rule() {
        let answered = |line: &str| {
            let value = ::redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error");
            denied("app", &value.extract_error().expect_err("an error"))
        };
        let reason = answered("NOPERM No permissions to access a channel used as an argument");
        assert!(reason.contains("ACL SETUSER app '&lock:release:*'"), "{reason}");
        let reason = answered("NOPERM User app has no permissions to run the 'subscribe' command");
        assert!(reason.contains("lock:release:*") && reason.contains("ACL SETUSER app +@pubsub"), "{reason}");
    }
}
