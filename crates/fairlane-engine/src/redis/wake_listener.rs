//! One blocking pop for all waiters of this process.
//!
//! Callers register as waiters. A task that ends with the engine pops a token of any type with a
//! waiter, and passes it to the first waiter for that type. If a new waiter has types that the
//! current pop does not cover, that pop is ended with `CLIENT UNBLOCK` from the other connection.
//! This writes nothing and works on a single server as on a node of a cluster. The next pop covers
//! all types. Without the permission for that command, the new waiter waits for the end of the pop,
//! at most [`POP_MAX`].
//!
//! A pop may outlive its waiters, and the server prefers the pop that began first. A token without a
//! waiter here is therefore put back, for the pops of other connections and processes. This cannot
//! go on for ever, because a pop begins only if there is a waiter.
//!
//! Invariant: a pop is not dropped before it has ended, unless its connection counts as dead, so no
//! token is lost between server and waiter. A separate task drives the pop, because a slow caller
//! must not delay others.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::redis::{Cmd, Value};
use fairlane_core::TypeId;
use fairlane_core::limits::TOKENS_MAX;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::codec::text;
use super::connection::Connection;
use super::errors::unavailable;
use super::keys::Keys;
use crate::engine::EngineError;
use crate::waiters::{Then, WaiterId, Waiters, Waiting, Woken};

/// Longest blocking pop; a longer wait consists of several. A pop that outlives its waiters covers
/// types without waiters here, which must not last.
pub(super) const POP_MAX: Duration = Duration::from_secs(1);
/// Shortest blocking pop. Zero would never end, and a waiter may stay slightly
/// longer than requested.
pub(super) const POP_MIN: Duration = Duration::from_millis(10);
/// How late a reply may be before the connection counts as dead.
const BLOCKING_GRACE: Duration = Duration::from_secs(5);
/// First delay before `CLIENT UNBLOCK` is repeated, because it may overtake the pop; each
/// further delay doubles.
const UNBLOCK_AGAIN: Duration = Duration::from_millis(5);

/// The callers' side; dropping it ends the task.
pub(super) struct WakeListener {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl WakeListener {
    pub fn start(commands: Connection, blocking: Connection, keys: Keys) -> Self {
        let shared = Arc::new(Shared::default());
        let task = PopTask { shared: shared.clone(), commands, blocking, keys, client_id: ClientId::Unknown };
        Self { shared, task: tokio::spawn(task.run()) }
    }

    /// Waits for a token of one of these types; false if none arrived in time.
    pub async fn wait(&self, types: &[TypeId], at_most: Duration) -> Result<bool, EngineError> {
        if self.task.is_finished() {
            return Err(EngineError::broken(
                "the task that waits for work in Redis has ended; connect again",
            ));
        }
        let waiter = WaiterId::next();
        let (woken, token) = oneshot::channel();
        self.shared.add(waiter, types, at_most, woken);
        let leave = |late| self.shared.leave(waiter, late);
        Ok(Waiting::new(token, leave).at_most(at_most).await?.is_some())
    }
}

impl Drop for WakeListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// State shared by the callers and the task.
#[derive(Default)]
struct Shared {
    subscriptions: Mutex<Subscriptions>,
    /// Signals work for the task.
    changed: Notify,
}

#[derive(Default)]
struct Subscriptions {
    waiters: Waiters,
    /// The types of the current pop; empty between two pops.
    listened: BTreeSet<TypeId>,
    /// The latest deadline of all waiters that registered since there were none; `None` for one
    /// beyond the clock's range.
    until: Option<Instant>,
    /// The type of the last token. The next pop starts after it: the server checks keys in order,
    /// and a busy type must not withhold the tokens of other types.
    last: Option<TypeId>,
    /// Whether a token found no waiter and was not put back yet.
    is_unclaimed: bool,
}

impl Shared {
    fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock().expect("no panic happens while the subscriptions are locked")
    }

    fn add(&self, waiter: WaiterId, types: &[TypeId], at_most: Duration, woken: oneshot::Sender<Woken>) {
        let mut subscriptions = self.subscriptions();
        let until = Instant::now().checked_add(at_most);
        subscriptions.until = if subscriptions.waiters.is_empty() {
            until
        } else {
            subscriptions.until.zip(until).map(|(a, b)| a.max(b))
        };
        subscriptions.waiters.add(waiter, types.to_vec(), Then::Wake(woken));
        if types.iter().any(|type_id| !subscriptions.listened.contains(type_id)) {
            self.changed.notify_one();
        }
    }

    fn leave(&self, waiter: WaiterId, late: Option<TypeId>) {
        let mut subscriptions = self.subscriptions();
        subscriptions.waiters.leave(waiter, None);
        if late.is_some_and(|type_id| !subscriptions.waiters.give(&type_id)) {
            subscriptions.is_unclaimed = true;
            self.changed.notify_one();
        }
    }

    /// Completes when there is a waiter for a type that no pop covers, or a token without a waiter.
    async fn work(&self) {
        while !self.subscriptions().has_work() {
            self.changed.notified().await;
        }
    }
}

impl Subscriptions {
    fn has_work(&self) -> bool {
        self.is_unclaimed || self.has_new_type()
    }

    fn has_new_type(&self) -> bool {
        self.waiters.types().any(|type_id| !self.listened.contains(type_id))
    }

    /// The types and the timeout of the next pop.
    fn begin_pop(&mut self) -> (Vec<TypeId>, Duration) {
        let mut types: Vec<TypeId> = self.waiters.types().cloned().collect();
        self.listened = types.iter().cloned().collect();
        let behind_last = types.partition_point(|type_id| Some(type_id) <= self.last.as_ref());
        types.rotate_left(behind_last);
        let patience = self.until.map_or(POP_MAX, |until| until.saturating_duration_since(Instant::now()));
        (types, patience.clamp(POP_MIN, POP_MAX))
    }

    fn end_pop(&mut self, ended: Result<Option<TypeId>, EngineError>) {
        self.listened.clear();
        match ended {
            Ok(Some(type_id)) => {
                self.is_unclaimed |= !self.waiters.give(&type_id);
                self.last = Some(type_id);
            }
            Ok(None) => {}
            Err(error) => self.waiters.fail(&error),
        }
    }

    /// Takes the tokens without a waiter, to be put back.
    fn take_unclaimed(&mut self) -> BTreeSet<TypeId> {
        match std::mem::take(&mut self.is_unclaimed) {
            true => self.waiters.take_returned(),
            false => BTreeSet::new(),
        }
    }
}

/// The server's id of the connection that pops.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ClientId {
    /// To be requested, because the connection may be new.
    Unknown,
    /// The id of the connection.
    Number(i64),
    /// The user may not read or use it.
    Barred,
}

struct PopTask {
    shared: Arc<Shared>,
    commands: Connection,
    blocking: Connection,
    keys: Keys,
    client_id: ClientId,
}

impl PopTask {
    async fn run(mut self) {
        // Before the first waiter arrives, so that it does not have to wait for this.
        self.client_id = self.fetch_client_id().await.unwrap_or(ClientId::Unknown);
        loop {
            self.shared.work().await;
            self.put_back_unclaimed().await;
            let ended = self.serve_once().await;
            if ended.is_err() {
                self.client_id = ClientId::Unknown;
            }
            self.shared.subscriptions().end_pop(ended);
        }
    }

    /// Performs one pop. Returns the type of the token, or `None` without a token.
    async fn serve_once(&mut self) -> Result<Option<TypeId>, EngineError> {
        if self.client_id == ClientId::Unknown {
            self.client_id = self.fetch_client_id().await?;
        }
        let (types, at_most) = self.shared.subscriptions().begin_pop();
        if types.is_empty() {
            return Ok(None);
        }
        let pop = pop(&self.keys, &types, at_most);
        let (shared, blocking) = (self.shared.clone(), self.blocking.clone());
        let mut popped = pin!(answered(&blocking, at_most, blocking.query(&pop)));
        let popped = loop {
            tokio::select! {
                biased;
                popped = &mut popped => break popped?,
                () = shared.work() => {}
            }
            self.put_back_unclaimed().await;
            if shared.subscriptions().has_new_type() {
                break self.end(popped).await?;
            }
        };
        let key = match popped {
            Value::Nil => return Ok(None),
            Value::Array(reply) => text(reply.into_iter().next().unwrap_or(Value::Nil))?,
            other => return Err(EngineError::broken(format!("a blocking pop was answered with {other:?}"))),
        };
        let popped = types.into_iter().find(|type_id| self.keys.wake(type_id) == key);
        popped.map(Some).ok_or_else(|| {
            EngineError::broken(format!("a blocking pop was answered with {key:?}, which was not asked for"))
        })
    }

    /// Puts tokens without a waiter back into their lists. If that fails, they are kept for the next
    /// waiters of this process.
    async fn put_back_unclaimed(&self) {
        let unclaimed = self.shared.subscriptions().take_unclaimed();
        for type_id in unclaimed {
            if self.put_back(&type_id).await.is_err() {
                self.shared.subscriptions().waiters.give(&type_id);
            }
        }
    }

    /// Adds a token to the list of a type, which keeps its bound.
    async fn put_back(&self, type_id: &TypeId) -> Result<(), EngineError> {
        let key = self.keys.wake(type_id);
        let mut push = ::redis::cmd("RPUSH");
        push.arg(&key).arg("1");
        match self.commands.query(&push).await? {
            Value::Int(tokens) if tokens > TOKENS_MAX as i64 => {
                let mut trim = ::redis::cmd("LTRIM");
                trim.arg(&key).arg(0).arg(TOKENS_MAX - 1);
                // The token is there; the next operation that adds one trims the list again.
                let _ = self.commands.query(&trim).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends a pop; it may still return a token.
    async fn end<T>(&mut self, mut popped: Pin<&mut impl Future<Output = T>>) -> T {
        let ClientId::Number(number) = self.client_id else { return popped.await };
        let mut unblock = ::redis::cmd("CLIENT");
        unblock.arg("UNBLOCK").arg(number);
        let mut pause = UNBLOCK_AGAIN;
        loop {
            let unblocked = async {
                let unblocked = self.commands.query_at(&self.keys.partition(), &unblock).await;
                tokio::time::sleep(pause).await;
                unblocked
            };
            let unblocked = tokio::select! {
                biased;
                ended = &mut popped => return ended,
                unblocked = unblocked => unblocked,
            };
            if unblocked.is_err_and(|error| !error.is_retryable()) {
                self.client_id = ClientId::Barred;
                return popped.await;
            }
            // The client of a cluster reconnects by itself.
            self.client_id = ClientId::Unknown;
            pause *= 2;
        }
    }

    async fn fetch_client_id(&self) -> Result<ClientId, EngineError> {
        let mut ask = ::redis::cmd("CLIENT");
        ask.arg("ID");
        let partition = self.keys.partition();
        let asking = self.blocking.query_at(&partition, &ask);
        match answered(&self.blocking, Duration::ZERO, asking).await {
            Ok(Value::Int(number)) => Ok(ClientId::Number(number)),
            Err(error) if error.is_retryable() => Err(error),
            _ => Ok(ClientId::Barred),
        }
    }
}

/// A blocking pop of a token of one of these types.
pub(super) fn pop(keys: &Keys, types: &[TypeId], at_most: Duration) -> Cmd {
    let mut pop = ::redis::cmd("BLPOP");
    for type_id in types {
        pop.arg(keys.wake(type_id));
    }
    pop.arg(at_most.as_secs_f64());
    pop
}

/// The reply to a command that may block this long, with a timeout, because the
/// connection has none.
pub(super) async fn answered<T>(
    blocking: &Connection,
    at_most: Duration,
    reply: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let answered = tokio::time::timeout(at_most + BLOCKING_GRACE, reply).await;
    answered.unwrap_or_else(|_| {
        // The server may have disappeared silently; the next pop connects again.
        blocking.drop_link();
        Err(unavailable("no answer to a blocking pop"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(shared: &Shared, names: &[&str], at_most: Duration) -> (WaiterId, oneshot::Receiver<Woken>) {
        let types: Vec<TypeId> = names.iter().map(|name| TypeId::new(*name).unwrap()).collect();
        let (waiter, (woken, token)) = (WaiterId::next(), oneshot::channel());
        shared.add(waiter, &types, at_most, woken);
        (waiter, token)
    }

    fn popped(shared: &Shared, ended: Option<&str>) -> Vec<String> {
        shared.subscriptions().end_pop(Ok(ended.map(|name| TypeId::new(name).unwrap())));
        shared.subscriptions().begin_pop().0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_pop_starts_after_the_type_served_last() {
        let shared = Shared::default();
        let _waiting: Vec<_> = (0..9).map(|_| wait(&shared, &["a", "b", "c"], POP_MAX)).collect();
        assert_eq!(popped(&shared, None), ["a", "b", "c"]);
        assert_eq!(popped(&shared, Some("a")), ["b", "c", "a"]);
        assert_eq!(popped(&shared, None), ["b", "c", "a"]);
        assert_eq!(popped(&shared, Some("c")), ["a", "b", "c"]);
        assert_eq!(popped(&shared, Some("gone")), ["a", "b", "c"]);
    }

    #[test]
    fn only_a_waiter_with_a_new_type_ends_the_pop() {
        let shared = Shared::default();
        let _first = wait(&shared, &["a", "b"], POP_MAX);
        assert!(shared.subscriptions().has_new_type());
        popped(&shared, None);
        let _same = wait(&shared, &["b"], POP_MAX);
        assert!(!shared.subscriptions().has_new_type());
        let (waiter, _token) = wait(&shared, &["b", "c"], POP_MAX);
        assert!(shared.subscriptions().has_new_type());
        shared.subscriptions().waiters.leave(waiter, None);
        assert!(!shared.subscriptions().has_new_type());
    }

    #[test]
    fn a_token_is_put_back_once_and_only_without_a_waiter() {
        let shared = Shared::default();
        let (waiter, mut token) = wait(&shared, &["a"], POP_MAX);
        popped(&shared, Some("a"));
        assert!(shared.subscriptions().take_unclaimed().is_empty(), "a waiter has it");
        shared.leave(waiter, token.try_recv().ok().and_then(Result::ok));
        let a = TypeId::new("a").unwrap();
        assert_eq!(shared.subscriptions().take_unclaimed(), BTreeSet::from([a.clone()]), "it came too late");
        assert!(!shared.subscriptions().has_work());
        popped(&shared, Some("a"));
        assert!(shared.subscriptions().has_work());
        assert_eq!(shared.subscriptions().take_unclaimed(), BTreeSet::from([a.clone()]));
        // The server did not take it.
        shared.subscriptions().waiters.give(&a);
        assert!(!shared.subscriptions().has_work());
        let (_, mut next) = wait(&shared, &["a"], POP_MAX);
        assert_eq!(next.try_recv(), Ok(Ok(a)));
    }

    #[test]
    fn a_pop_lasts_no_longer_than_the_longest_wait() {
        let shared = Shared::default();
        let (waiter, _token) = wait(&shared, &["a"], Duration::MAX);
        assert_eq!(shared.subscriptions().begin_pop().1, POP_MAX);
        shared.subscriptions().waiters.leave(waiter, None);
        let _short = wait(&shared, &["a"], Duration::ZERO);
        assert_eq!(shared.subscriptions().begin_pop().1, POP_MIN);
        let _long = wait(&shared, &["a"], POP_MAX * 60);
        assert_eq!(shared.subscriptions().begin_pop().1, POP_MAX);
    }
}
