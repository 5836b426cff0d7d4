//! Keyed hashing for maps whose keys come from clients: names of jobs, groups and workers.
//!
//! SipHash-1-3 with a secret seed. Producers choose their names, so with an unkeyed hash a producer
//! could send names that all collide, and every lookup would compare against all of them. SipHash
//! is designed for attackers who choose keys and measure response times. The faster keyed hashes
//! advise against long-running programs that such an attacker can observe.
//!
//! The seed is an argument of the machine, as time is. Invariant: no reply, row or dump depends on
//! it. Left out on purpose: maps with keys that the machine assigns itself, which use a plain hash.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// The secret key of a machine's hash maps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(u64, u64);

/// A map with keys that come from clients.
pub(crate) type KeyedMap<K, V> = HashMap<K, V, HashSeed>;

impl HashSeed {
    /// A fixed, public seed for tests and simulations.
    pub const FIXED: Self = Self(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

    /// A seed of 16 bytes. A process that accepts input from clients draws it at random.
    pub const fn new(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self(both as u64, (both >> 64) as u64)
    }
}

impl fmt::Debug for HashSeed {
    /// Never prints the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

impl BuildHasher for HashSeed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::names::JobId;

    /// The mix step of rustc-hash 2: a multiplication of two words with its halves folded.
    fn mixed(x: u64, y: u64) -> u64 {
        let full = u128::from(x) * u128::from(y);
        (full as u64) ^ ((full >> 64) as u64)
    }

    /// Ids of 32 printable bytes with the same unkeyed hash: the last word cancels the others.
    fn colliding_ids(count: usize) -> Vec<JobId> {
        const SEED1: u64 = 0x243f_6a88_85a3_08d3;
        const PREVENT_TRIVIAL_ZERO_COLLAPSE: u64 = 0xa409_3822_299f_31d0;
        let word = |number: u64, low: u8| {
            let digits = (0..8).map(|at| low + ((number >> (at * 5)) & 31) as u8);
            u64::from_le_bytes(digits.collect::<Vec<u8>>().try_into().expect("eight digits"))
        };
        let (wanted, u) = (u64::from_le_bytes(*b"UUUUUUUU"), u64::from_le_bytes(*b"aaaaaaaa"));
        let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'%' | b':');
        let printable = |word: u64| word.to_le_bytes().iter().all(plain);
        let mut ids = Vec::with_capacity(count);
        for number in 0.. {
            let (x, y) = (word(number, b'A'), word(number >> 3, b'A'));
            let v = mixed(SEED1 ^ x, PREVENT_TRIVIAL_ZERO_COLLAPSE ^ y) ^ wanted;
            if printable(x) && printable(y) && printable(v) {
                let bytes = [x, y, u, v].map(u64::to_le_bytes).concat();
                let id = String::from_utf8(bytes).expect("printable bytes");
                ids.push(JobId::new(id).expect("printable bytes make a name"));
                if ids.len() == count {
                    break;
                }
            }
        }
        ids
    }

    fn hashes(ids: &[JobId], hashing: &impl BuildHasher) -> usize {
        ids.iter().map(|id| hashing.hash_one(id)).collect::<HashSet<u64>>().len()
    }

    #[test]
    fn ids_that_collide_without_a_key_differ_under_a_seed() {
        let ids = colliding_ids(100);
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert_eq!(hashes(&ids, &rustc_hash::FxBuildHasher), 1, "the attack works on the unkeyed hash");
        assert_eq!(hashes(&ids, &HashSeed::FIXED), ids.len());
        assert_eq!(hashes(&ids, &HashSeed::new([7; 16])), ids.len());
    }

    #[test]
    fn two_seeds_hash_the_same_id_differently_and_show_nothing() {
        let (one, other) = (HashSeed::new([1; 16]), HashSeed::new([2; 16]));
        assert_ne!(one.hash_one("id"), other.hash_one("id"));
        assert_eq!(format!("{one:?}"), "HashSeed(..)");
    }
}
