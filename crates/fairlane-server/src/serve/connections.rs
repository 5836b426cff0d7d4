//! Open connections: how many there may be in total and per client address, and which are closed
//! when slots run out.
//!
//! Invariant: one address holds at most its share of the slots, and at most a third of that with
//! connections without a valid key. A client that waits for a slot gets one as soon as a connection
//! has been idle for [`IDLE_MIN`]; connections without a key are closed first, then those idle
//! longest.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A connection that was used within this time is not closed for another one.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// How often idle connections are closed while a client waits for a slot.
const CLOSE_EVERY: Duration = Duration::from_millis(100);
/// The part of the slots that is freed at a time.
const FREED_PART: usize = 64;
/// The share of one address, unless it is configured: three quarters of the slots.
const ADDRESS_PART: (usize, usize) = (3, 4);
/// The part of an address's share that connections without a valid key may hold.
const ANONYMOUS_PART: usize = 3;
/// How often an address that has used up its share is logged.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// `idle_since_ms` of a connection that serves a request.
const BUSY: u64 = 0;

/// All open connections.
pub(super) struct Connections {
    slots: Arc<Semaphore>,
    slots_max: usize,
    address_max: usize,
    created: Instant,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Arc<Connection>>,
    addresses: HashMap<IpAddr, Counts>,
    closed_idle: Option<Instant>,
    warned: Option<Instant>,
}

/// Connections of one address.
#[derive(Default)]
struct Counts {
    all: usize,
    anonymous: usize,
}

/// One connection.
pub(crate) struct Connection {
    all: Arc<Connections>,
    id: u64,
    address: IpAddr,
    has_key: AtomicBool,
    /// In milliseconds since the server started; [`BUSY`] while it serves a request.
    idle_since_ms: AtomicU64,
    is_closing: AtomicBool,
    close: Notify,
}

impl Connection {
    /// Marks the connection as one with a valid key, or of a server that requires none. From now on
    /// it is kept alive.
    pub fn set_has_key(&self) {
        if !self.has_key.load(Ordering::Relaxed) && !self.has_key.swap(true, Ordering::Relaxed) {
            self.all.table().counts(self.address, |counts| counts.anonymous -= 1);
        }
    }

    /// Whether a request with a valid key came on it.
    pub fn has_key(&self) -> bool {
        self.has_key.load(Ordering::Relaxed)
    }

    /// Marks the connection as busy.
    pub(super) fn begin(&self) {
        self.idle_since_ms.store(BUSY, Ordering::Relaxed);
    }

    /// Marks the connection as idle.
    pub(super) fn end(&self) {
        self.idle_since_ms.store(self.all.now_ms(), Ordering::Relaxed);
    }

    /// Waits until the connection is to be closed for another one.
    pub(super) async fn closing(&self) {
        self.close.notified().await;
    }
}

/// The slot of a connection, released when it is dropped.
pub(super) struct ConnectionSlot {
    pub connection: Arc<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let connection = &self.connection;
        let mut table = connection.all.table();
        table.open.remove(&connection.id);
        let is_anonymous = !connection.has_key();
        table.counts(connection.address, |counts| {
            counts.all -= 1;
            counts.anonymous -= usize::from(is_anonymous);
        });
    }
}

impl Table {
    fn counts(&mut self, address: IpAddr, change: impl FnOnce(&mut Counts)) {
        let counts = self.addresses.entry(address).or_default();
        change(counts);
        if counts.all == 0 {
            self.addresses.remove(&address);
        }
    }

    /// Connections that are idle since `latest_ms` or longer, in the order in which they are
    /// closed.
    fn longest_idle(&self, address: Option<IpAddr>, latest_ms: u64, most: usize) -> Vec<&Arc<Connection>> {
        let idle_since = |connection: &Connection| connection.idle_since_ms.load(Ordering::Relaxed);
        let open = self.open.values();
        let own = open.filter(|connection| address.is_none_or(|address| connection.address == address));
        let mut idle: Vec<(bool, u64, &Arc<Connection>)> = own
            .filter(|connection| !connection.is_closing.load(Ordering::Relaxed))
            .map(|connection| (connection.has_key(), idle_since(connection), connection))
            .filter(|(_, since_ms, _)| *since_ms != BUSY && *since_ms <= latest_ms)
            .collect();
        idle.sort_unstable_by_key(|(has_key, since_ms, _)| (*has_key, *since_ms));
        idle.into_iter().map(|(_, _, connection)| connection).take(most).collect()
    }
}

impl Connections {
    /// No open connections. Without `address_max` an address may have three quarters of the slots.
    pub fn new(slots_max: usize, address_max: Option<usize>) -> Self {
        let (part, of) = ADDRESS_PART;
        let share = slots_max.saturating_mul(part) / of;
        Self {
            slots: Arc::new(Semaphore::new(slots_max.min(Semaphore::MAX_PERMITS))),
            slots_max,
            address_max: address_max.unwrap_or(share).max(1),
            created: Instant::now(),
            table: Mutex::default(),
        }
    }

    /// Waits for a slot for a connection from this address; `None` if the address has used up its
    /// share.
    pub async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let address = block(address);
        if !self.has_share(address) {
            return None;
        }
        let permit = self.permit().await?;
        let mut table = self.table();
        let id = table.next;
        table.next += 1;
        table.counts(address, |counts| {
            counts.all += 1;
            counts.anonymous += 1;
        });
        let connection = Arc::new(Connection {
            all: self.clone(),
            id,
            address,
            has_key: AtomicBool::new(false),
            idle_since_ms: AtomicU64::new(self.now_ms()),
            is_closing: AtomicBool::new(false),
            close: Notify::new(),
        });
        table.open.insert(id, connection.clone());
        Some(ConnectionSlot { connection, _permit: permit })
    }

    /// Whether an address may have one more connection. At its share, idle connections of the same
    /// address are closed.
    fn has_share(&self, address: IpAddr) -> bool {
        let mut table = self.table();
        let is_within = table.addresses.get(&address).is_none_or(|counts| {
            counts.all < self.address_max && counts.anonymous < self.address_max.div_ceil(ANONYMOUS_PART)
        });
        if is_within || self.close_idle(&mut table, Some(address)) > 0 {
            return true;
        }
        let now = Instant::now();
        if table.warned.is_none_or(|warned| now.duration_since(warned) >= WARN_EVERY) {
            table.warned = Some(now);
            tracing::warn!(
                target: "fairlane", %address, address_connections_max = self.address_max,
                "connections were refused: this address has reached its maximum; if it is a proxy, raise \
                 address_connections_max"
            );
        }
        false
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = self.slots.clone().try_acquire_owned() {
                return Some(permit);
            }
            self.close_idle(&mut self.table(), None);
            // The semaphore is never closed.
            if let Ok(permit) = timeout(CLOSE_EVERY, self.slots.clone().acquire_owned()).await {
                return permit.ok();
            }
        }
    }

    /// Closes some idle connections, of this address or of all, and returns how many. It scans at
    /// most once per [`CLOSE_EVERY`], however many clients connect.
    fn close_idle(&self, table: &mut Table, address: Option<IpAddr>) -> usize {
        let now = Instant::now();
        if table.closed_idle.is_some_and(|closed| now.duration_since(closed) < CLOSE_EVERY) {
            return 0;
        }
        table.closed_idle = Some(now);
        let latest = self.now_ms().saturating_sub(IDLE_MIN.as_millis() as u64);
        let idle = table.longest_idle(address, latest, (self.slots_max / FREED_PART).max(1));
        for connection in &idle {
            connection.is_closing.store(true, Ordering::Relaxed);
            connection.close.notify_one();
        }
        idle.len()
    }

    fn now_ms(&self) -> u64 {
        self.created.elapsed().as_millis() as u64 + 1
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address that stands for a client: a client with one IPv6 address has its whole /64 block.
pub(crate) fn block(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into())
        }
        other => other.to_canonical(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    async fn open(connections: &Arc<Connections>, number: u32) -> ConnectionSlot {
        connections.admit(address(number)).await.unwrap()
    }

    #[tokio::test]
    async fn an_address_holds_its_share_and_a_third_of_it_without_a_key() {
        let connections = Arc::new(Connections::new(12, None));
        let mut first: Vec<ConnectionSlot> = Vec::new();
        for _ in 0..3 {
            first.push(open(&connections, 1).await);
        }
        assert!(connections.admit(address(1)).await.is_none(), "a third of three quarters is used up");
        for _ in 3..9 {
            first.iter().for_each(|slot| slot.connection.set_has_key());
            first.push(open(&connections, 1).await);
        }
        first.iter().for_each(|slot| slot.connection.set_has_key());
        assert!(connections.admit(address(1)).await.is_none(), "its share is used up");
        let other = open(&connections, 2).await;
        first.pop();
        open(&connections, 1).await;
        drop((first, other));
        let table = connections.table();
        assert!(table.open.is_empty() && table.addresses.is_empty());
    }

    #[tokio::test]
    async fn connections_without_a_key_are_closed_before_those_idle_longest() {
        let connections = Arc::new(Connections::new(100, None));
        let mut slots = Vec::new();
        for (number, has_key, since_ms) in
            [(1, true, 10), (2, true, 5), (1, false, 20), (1, true, BUSY), (1, true, 31)]
        {
            let slot = open(&connections, number).await;
            if has_key {
                slot.connection.set_has_key();
            }
            slot.connection.idle_since_ms.store(since_ms, Ordering::Relaxed);
            slots.push(slot);
        }
        let closed = |address, most| {
            let table = connections.table();
            let idle = table.longest_idle(address, 30, most);
            idle.iter().map(|connection| connection.id).collect::<Vec<_>>()
        };
        assert_eq!(closed(None, 9), [2, 1, 0]);
        assert_eq!((closed(None, 2), closed(Some(address(2)), 9)), (vec![2, 1], vec![1]));
        slots[2].connection.is_closing.store(true, Ordering::Relaxed);
        assert_eq!(closed(None, 9), [1, 0]);
    }

    #[tokio::test]
    async fn a_waiting_client_gets_the_slot_of_an_idle_connection() {
        let connections = Arc::new(Connections::new(1, None));
        let slot = open(&connections, 1).await;
        let closing = async {
            slot.connection.closing().await;
            drop(slot);
        };
        let (other, ()) = tokio::join!(connections.admit(address(2)), closing);
        assert!(other.is_some());
    }
}
