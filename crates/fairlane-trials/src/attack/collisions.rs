//! Job ids that have one hash under rustc-hash without a seed, which every client can compute.
//!
//! For 32 bytes, read as four numbers x, y, u, v, that hash is `mix(SEED2 ^ u, mix(SEED1 ^ x,
//! PREVENT ^ y) ^ v)` and the length. With y and u fixed, any x has a v that gives the hash wanted;
//! one in about 4,000 of those is printable.

const SEED1: u64 = 0x243f_6a88_85a3_08d3;
const PREVENT: u64 = 0xa409_3822_299f_31d0;
/// The hash of every id; any value works.
const WANTED: u64 = 0x6161_6161_6161_6161;
const FIXED: [u8; 8] = *b"collides";
const DIGITS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/// Makes this many ids with the same hash.
pub fn colliding_ids(count: usize) -> Vec<String> {
    (0_u64..).filter_map(id).take(count).collect()
}

fn id(number: u64) -> Option<String> {
    let x: [u8; 8] = std::array::from_fn(|digit| DIGITS[(number >> (6 * digit) & 63) as usize]);
    let mixed = mix(SEED1 ^ u64::from_le_bytes(x), PREVENT ^ u64::from_le_bytes(FIXED));
    let v = (mixed ^ WANTED).to_le_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"%:\"\\".contains(byte);
    if !v.iter().all(is_plain) {
        return None;
    }
    let bytes = [x, FIXED, FIXED, v].concat();
    Some(String::from_utf8(bytes).expect("every byte is printable ASCII"))
}

fn mix(x: u64, y: u64) -> u64 {
    let full = u128::from(x) * u128::from(y);
    full as u64 ^ (full >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn ids_differ_and_have_one_hash() {
        let ids = colliding_ids(20);
        let hashes: HashSet<u64> =
            ids.iter().map(|id| rustc_hash::FxBuildHasher.hash_one(id.as_str())).collect();
        let different: HashSet<&String> = ids.iter().collect();
        assert_eq!((hashes.len(), different.len()), (1, 20));
        assert!(ids.iter().all(|id| id.len() == 32));
    }
}
