//! One blocking pop for everyone in this process who waits.
//!
//! Callers register; the operator, a task that ends with the engine, pops a token of any type that someone waits
//! for and gives it to the first who waits for that type. A newcomer whose types the pop under way does not listen
//! for has it ended with `CLIENT UNBLOCK` from the other connection, which writes nothing and works alike on one
//! server and on the node of a cluster; the next pop listens for all. Where that command is not permitted, the
//! newcomer waits for the end of the pop, [`POP_MAX`] at most.
//!
//! Invariant: a pop is not dropped before it has ended, unless its connection counts as dead, so no token is lost
//! between server and waiter. A task of its own drives it, and no caller: one that is slow must not hold up others.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::redis::Value;
use fairlane_core::TypeId;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::connection::Connection;
use super::decode::text;
use super::errors::unavailable;
use super::keys::Keys;
use crate::engine::EngineError;
use crate::waiters::{Place, Waiters, Waiting, Woken};

/// Longest blocking pop; a longer wait is several of them. One that outlives its waiters listens for types that
/// nobody here wants, and must not do so for long.
const POP_MAX: Duration = Duration::from_secs(1);
/// Shortest blocking pop. Zero would have no end, and a waiter may stay a little longer than it said.
const POP_MIN: Duration = Duration::from_millis(10);
/// How much later than asked a reply may come before the connection counts as dead.
const BLOCKING_GRACE: Duration = Duration::from_secs(5);
/// The order to end a pop may overtake it; it is given again after this long, then after twice as long, and so on.
const UNBLOCK_AGAIN: Duration = Duration::from_millis(5);

/// The callers' side; dropping it ends the operator.
pub(super) struct Switchboard {
    shared: Arc<Shared>,
    operator: JoinHandle<()>,
}

impl Switchboard {
    pub fn start(commands: Connection, blocking: Connection, keys: Keys) -> Self {
        let shared = Arc::new(Shared::default());
        let operator = Operator { shared: shared.clone(), commands, blocking, keys, line: Line::Unknown };
        Self { shared, operator: tokio::spawn(operator.run()) }
    }

    /// Whether a token of one of these types came in time.
    pub async fn wait(&self, types: &[TypeId], at_most: Duration) -> Result<bool, EngineError> {
        if self.operator.is_finished() {
            return Err(EngineError::broken("nobody waits for work in Redis any more; connect again"));
        }
        let place = Place::last();
        let (woken, token) = oneshot::channel();
        self.shared.add(place, types, at_most, woken);
        let leave = |late| self.shared.board().waiters.leave(place, late);
        Waiting::new(token, leave).at_most(at_most).await
    }
}

impl Drop for Switchboard {
    fn drop(&mut self) {
        self.operator.abort();
    }
}

/// What callers and the operator share.
#[derive(Default)]
struct Shared {
    board: Mutex<Board>,
    /// Someone waits for a type that no pop listens for.
    unheard: Notify,
}

#[derive(Default)]
struct Board {
    waiters: Waiters,
    /// What the pop under way listens for; nothing between two pops.
    heard: BTreeSet<TypeId>,
    /// Until when the most patient waits, of all who came since nobody waited; none: longer than clocks go.
    until: Option<Instant>,
    /// The type of the last token. The next pop begins behind it: the server looks at the first keys first, and a
    /// busy type must not keep the tokens of others from their waiters.
    last: Option<TypeId>,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().expect("nobody panics with the board in hand")
    }

    fn add(&self, place: Place, types: &[TypeId], at_most: Duration, woken: oneshot::Sender<Woken>) {
        let mut board = self.board();
        let until = Instant::now().checked_add(at_most);
        board.until =
            if board.waiters.is_empty() { until } else { board.until.zip(until).map(|(a, b)| a.max(b)) };
        board.waiters.add(place, types.to_vec(), woken);
        if types.iter().any(|type_id| !board.heard.contains(type_id)) {
            self.unheard.notify_one();
        }
    }

    /// Until someone waits for a type that no pop listens for.
    async fn someone_unheard(&self) {
        while !self.board().is_someone_unheard() {
            self.unheard.notified().await;
        }
    }
}

impl Board {
    fn is_someone_unheard(&self) -> bool {
        self.waiters.types().any(|type_id| !self.heard.contains(type_id))
    }

    /// What the next pop listens for, and how long.
    fn begin_pop(&mut self) -> (Vec<TypeId>, Duration) {
        let mut types: Vec<TypeId> = self.waiters.types().cloned().collect();
        self.heard = types.iter().cloned().collect();
        let behind_last = types.partition_point(|type_id| Some(type_id) <= self.last.as_ref());
        types.rotate_left(behind_last);
        let patience = self.until.map_or(POP_MAX, |until| until.saturating_duration_since(Instant::now()));
        (types, patience.clamp(POP_MIN, POP_MAX))
    }

    fn end_pop(&mut self, ended: Result<Option<TypeId>, EngineError>) {
        self.heard.clear();
        match ended {
            Ok(Some(type_id)) => {
                self.waiters.give(&type_id);
                self.last = Some(type_id);
            }
            Ok(None) => {}
            Err(error) => self.waiters.fail(&error),
        }
    }
}

/// How the server knows the connection that pops.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Line {
    /// To be asked for: it may be a new one.
    Unknown,
    /// By this number.
    Number(i64),
    /// We may not know, or not use it.
    Barred,
}

struct Operator {
    shared: Arc<Shared>,
    commands: Connection,
    blocking: Connection,
    keys: Keys,
    line: Line,
}

impl Operator {
    async fn run(mut self) {
        // Before the first one waits, who then need not wait for this.
        self.line = self.ask_for_line().await.unwrap_or(Line::Unknown);
        loop {
            self.shared.someone_unheard().await;
            let ended = self.serve_once().await;
            if ended.is_err() {
                self.line = Line::Unknown;
            }
            self.shared.board().end_pop(ended);
        }
    }

    /// The type of a token; none if none came.
    async fn serve_once(&mut self) -> Result<Option<TypeId>, EngineError> {
        if self.line == Line::Unknown {
            self.line = self.ask_for_line().await?;
        }
        let (types, at_most) = self.shared.board().begin_pop();
        if types.is_empty() {
            return Ok(None);
        }
        let keys: Vec<String> = types.iter().map(|type_id| self.keys.wake(type_id)).collect();
        let mut pop = ::redis::cmd("BLPOP");
        pop.arg(&keys).arg(at_most.as_secs_f64());
        let (shared, blocking) = (self.shared.clone(), self.blocking.clone());
        let mut popped = pin!(answered(&blocking, at_most, blocking.query(&pop)));
        let popped = tokio::select! {
            biased;
            popped = &mut popped => popped?,
            () = shared.someone_unheard() => self.end(popped).await?,
        };
        let key = match popped {
            Value::Nil => return Ok(None),
            Value::Array(reply) => text(reply.into_iter().next().unwrap_or(Value::Nil))?,
            other => return Err(EngineError::broken(format!("a blocking pop was answered with {other:?}"))),
        };
        let place = keys.iter().position(|asked| *asked == key);
        place.map(|place| Some(types[place].clone())).ok_or_else(|| {
            EngineError::broken(format!("a blocking pop was answered with {key:?}, which was not asked for"))
        })
    }

    /// Ends a pop; something may have been popped all the same.
    async fn end<T>(&mut self, mut popped: Pin<&mut impl Future<Output = T>>) -> T {
        let Line::Number(number) = self.line else { return popped.await };
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
                self.line = Line::Barred;
                return popped.await;
            }
            // A cluster's client connects again by itself.
            self.line = Line::Unknown;
            pause *= 2;
        }
    }

    async fn ask_for_line(&self) -> Result<Line, EngineError> {
        let mut ask = ::redis::cmd("CLIENT");
        ask.arg("ID");
        let partition = self.keys.partition();
        let asking = self.blocking.query_at(&partition, &ask);
        match answered(&self.blocking, Duration::ZERO, asking).await {
            Ok(Value::Int(number)) => Ok(Line::Number(number)),
            Err(error) if error.is_retryable() => Err(error),
            _ => Ok(Line::Barred),
        }
    }
}

/// A reply to what may block this long. The connection itself has no limit.
async fn answered(
    blocking: &Connection,
    at_most: Duration,
    reply: impl Future<Output = Result<Value, EngineError>>,
) -> Result<Value, EngineError> {
    let answered = tokio::time::timeout(at_most + BLOCKING_GRACE, reply).await;
    answered.unwrap_or_else(|_| {
        // The server may have gone without a word; the next pop looks for it anew.
        blocking.drop_link();
        Err(unavailable("no answer to a blocking pop"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(shared: &Shared, names: &[&str], at_most: Duration) -> (Place, oneshot::Receiver<Woken>) {
        let types: Vec<TypeId> = names.iter().map(|name| TypeId::new(*name).unwrap()).collect();
        let (place, (woken, token)) = (Place::last(), oneshot::channel());
        shared.add(place, &types, at_most, woken);
        (place, token)
    }

    fn popped(shared: &Shared, ended: Option<&str>) -> Vec<String> {
        shared.board().end_pop(Ok(ended.map(|name| TypeId::new(name).unwrap())));
        shared.board().begin_pop().0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_pop_looks_first_for_the_types_behind_the_one_served_last() {
        let shared = Shared::default();
        let _waiting: Vec<_> = (0..9).map(|_| wait(&shared, &["a", "b", "c"], POP_MAX)).collect();
        assert_eq!(popped(&shared, None), ["a", "b", "c"]);
        assert_eq!(popped(&shared, Some("a")), ["b", "c", "a"]);
        assert_eq!(popped(&shared, None), ["b", "c", "a"]);
        assert_eq!(popped(&shared, Some("c")), ["a", "b", "c"]);
        assert_eq!(popped(&shared, Some("gone")), ["a", "b", "c"]);
    }

    #[test]
    fn only_a_newcomer_with_a_type_that_is_not_listened_for_ends_the_pop() {
        let shared = Shared::default();
        let _first = wait(&shared, &["a", "b"], POP_MAX);
        assert!(shared.board().is_someone_unheard());
        popped(&shared, None);
        let _same = wait(&shared, &["b"], POP_MAX);
        assert!(!shared.board().is_someone_unheard());
        let (place, _token) = wait(&shared, &["b", "c"], POP_MAX);
        assert!(shared.board().is_someone_unheard());
        shared.board().waiters.leave(place, None);
        assert!(!shared.board().is_someone_unheard());
    }

    #[test]
    fn a_pop_lasts_no_longer_than_the_most_patient_waits() {
        let shared = Shared::default();
        let (place, _token) = wait(&shared, &["a"], Duration::MAX);
        assert_eq!(shared.board().begin_pop().1, POP_MAX);
        shared.board().waiters.leave(place, None);
        let _short = wait(&shared, &["a"], Duration::ZERO);
        assert_eq!(shared.board().begin_pop().1, POP_MIN);
        let _long = wait(&shared, &["a"], POP_MAX * 60);
        assert_eq!(shared.board().begin_pop().1, POP_MAX);
    }
}
