//! Refusals of requests without a valid key, which are delayed when an address sends many.
//!
//! No client is locked out: a request with a valid key never gets here, whatever other clients of
//! the same address send.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::response::{IntoResponse, Response};

use super::RETRY_AFTER;
use super::refusal_pacer::RefusalPacer;
use crate::problem::Problem;
use crate::serve::{Peer, block};

/// Consecutive refusals that are not delayed, so that a mistyped key is reported at once.
const UNDELAYED_MAX: u32 = 16;
/// An address is forgotten after this long without a refusal.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// How often a full table is swept for addresses to forget.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Most addresses in the table; while it is full, refusals of any other address are delayed.
const ADDRESSES_MAX: usize = 4096;

/// Addresses that were refused recently.
#[derive(Default)]
pub(super) struct AuthThrottle {
    table: Mutex<Table>,
    pacer: RefusalPacer,
}

#[derive(Default)]
struct Table {
    addresses: HashMap<IpAddr, Refusals>,
    swept: Option<Instant>,
}

struct Refusals {
    count: u32,
    last: Instant,
}

impl AuthThrottle {
    /// The response to a request without a valid key, delayed if its address sends many.
    pub async fn refuse(&self, peer: Option<&Peer>, problem: Problem) -> Response {
        let is_delayed =
            peer.is_none_or(|peer| self.count(block(peer.address), Instant::now()) > UNDELAYED_MAX);
        tracing::debug!(target: "fairlane", peer = ?peer.map(|peer| peer.address), is_delayed, "no valid key");
        if is_delayed {
            self.pacer.wait(RETRY_AFTER).await;
        }
        problem.into_response()
    }

    /// Counts a refusal of an address, and returns how many there were.
    fn count(&self, address: IpAddr, now: Instant) -> u32 {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.addresses.len() >= ADDRESSES_MAX && !table.addresses.contains_key(&address) {
            table.sweep(now);
            if table.addresses.len() >= ADDRESSES_MAX {
                return u32::MAX;
            }
        }
        let refusals = table.addresses.entry(address).or_insert(Refusals { count: 0, last: now });
        let is_over = now.duration_since(refusals.last) >= FORGET_AFTER;
        refusals.count = if is_over { 1 } else { refusals.count.saturating_add(1) };
        refusals.last = now;
        refusals.count
    }
}

impl Table {
    /// Removes addresses that are due to be forgotten. Sweeps are rare, so that many new addresses
    /// do not make each refusal expensive.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.addresses.retain(|_, refusals| now.duration_since(refusals.last) < FORGET_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn refusals_of_an_address_are_counted_until_it_is_forgotten() {
        let (throttle, start) = (AuthThrottle::default(), Instant::now());
        let counts: Vec<u32> = (0..3).map(|_| throttle.count(address(1), start)).collect();
        assert_eq!((counts, throttle.count(address(2), start)), (vec![1, 2, 3], 1));
        assert_eq!(throttle.count(address(1), start + FORGET_AFTER), 1);
    }

    #[test]
    fn the_number_of_addresses_in_memory_is_bounded() {
        let (throttle, start) = (AuthThrottle::default(), Instant::now());
        for number in 0..2 * ADDRESSES_MAX as u32 {
            throttle.count(address(number), start);
        }
        assert_eq!(throttle.table.lock().unwrap().addresses.len(), ADDRESSES_MAX);
        assert_eq!(throttle.count(address(u32::MAX), start), u32::MAX);
        assert_eq!(throttle.count(address(u32::MAX), start + FORGET_AFTER), 1);
        assert_eq!(throttle.table.lock().unwrap().addresses.len(), 1);
    }

    #[test]
    fn addresses_of_one_ipv6_block_are_counted_as_one() {
        let of = |text: &str| block(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::5"), of("2001:db8:1:2:ffff::1"));
        assert_ne!(of("2001:db8:1:2::5"), of("2001:db8:1:3::5"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
