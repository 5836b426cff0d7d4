//! Those who come without a valid key: refused, and slowly if they come often.
//!
//! Nobody is locked out: whoever sends a valid key never gets here, from whatever address others try.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::response::{IntoResponse, Response};

use super::COME_BACK;
use super::line::Line;
use crate::problem::Problem;
use crate::serve::{Peer, block};

/// Refusals in a row that are answered at once: somebody who has mistyped is not kept waiting.
const FREE: u32 = 16;
/// How long an address has to be quiet to be forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// How often quiet addresses are looked for in a full table.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Addresses remembered at once; beyond that all are taken for old acquaintances.
const ADDRESSES_MAX: usize = 4096;

/// Who was refused lately.
#[derive(Default)]
pub(super) struct Strangers {
    refused: Mutex<Table>,
    line: Line,
}

#[derive(Default)]
struct Table {
    of: HashMap<IpAddr, Refused>,
    swept: Option<Instant>,
}

struct Refused {
    count: u32,
    last: Instant,
}

impl Strangers {
    /// The refusal, now or later.
    pub async fn refuse(&self, peer: Option<&Peer>, problem: Problem) -> Response {
        let comes_often = peer.is_none_or(|peer| self.count(block(peer.address), Instant::now()) > FREE);
        tracing::debug!(target: "fairlane", peer = ?peer.map(|peer| peer.address), comes_often, "no valid key");
        if !comes_often {
            return problem.into_response();
        }
        self.line.wait(COME_BACK).await;
        problem.into_response()
    }

    /// Counts a refusal of an address, and says how many there were.
    fn count(&self, address: IpAddr, now: Instant) -> u32 {
        let mut table = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if table.of.len() >= ADDRESSES_MAX && !table.of.contains_key(&address) {
            table.sweep(now);
            if table.of.len() >= ADDRESSES_MAX {
                return u32::MAX;
            }
        }
        let known = table.of.entry(address).or_insert(Refused { count: 0, last: now });
        let is_over = now.duration_since(known.last) >= FORGET_AFTER;
        known.count = if is_over { 1 } else { known.count.saturating_add(1) };
        known.last = now;
        known.count
    }
}

impl Table {
    /// Forgets the quiet ones; rarely, so that a crowd of strangers does not make each of them expensive.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.of.retain(|_, known| now.duration_since(known.last) < FORGET_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn an_address_is_counted_until_it_was_quiet_for_a_while() {
        let (strangers, start) = (Strangers::default(), Instant::now());
        let counts: Vec<u32> = (0..3).map(|_| strangers.count(address(1), start)).collect();
        assert_eq!((counts, strangers.count(address(2), start)), (vec![1, 2, 3], 1));
        assert_eq!(strangers.count(address(1), start + FORGET_AFTER), 1);
    }

    #[test]
    fn many_addresses_do_not_fill_the_memory() {
        let (strangers, start) = (Strangers::default(), Instant::now());
        for number in 0..2 * ADDRESSES_MAX as u32 {
            strangers.count(address(number), start);
        }
        assert_eq!(strangers.refused.lock().unwrap().of.len(), ADDRESSES_MAX);
        assert_eq!(strangers.count(address(u32::MAX), start), u32::MAX);
        assert_eq!(strangers.count(address(u32::MAX), start + FORGET_AFTER), 1);
        assert_eq!(strangers.refused.lock().unwrap().of.len(), 1);
    }

    #[test]
    fn addresses_of_one_block_are_one() {
        let of = |text: &str| block(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::5"), of("2001:db8:1:2:ffff::1"));
        assert_ne!(of("2001:db8:1:2::5"), of("2001:db8:1:3::5"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
