//! MessagePack as the Lua of Redis reads and writes it.
//!
//! Structs are maps and enums their names. Lua has one type for bytes and text, and no integer above
//! 2^53. Invariant: `unpack` returns an error for bytes that are not one complete value.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::EngineError;

type Unpacker<'a, 'de> = &'a mut rmp_serde::Deserializer<rmp_serde::decode::ReadReader<&'a mut &'de [u8]>>;

/// Packs a value.
pub fn pack(value: &impl Serialize) -> Vec<u8> {
    let mut packed = rmp_serde::to_vec_named(value).expect("commands and replies can be serialized");
    bytes_as_text(&mut packed);
    packed
}

/// Unpacks a value.
pub fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, EngineError> {
    unpack_with(packed, |deserializer| T::deserialize(deserializer))
}

/// Unpacks a value by a function that chooses its type.
pub(super) fn unpack_with<T>(
    mut packed: &[u8],
    read: impl FnOnce(Unpacker<'_, '_>) -> Result<T, rmp_serde::decode::Error>,
) -> Result<T, EngineError> {
    let value = read(&mut rmp_serde::Deserializer::new(&mut packed));
    match value {
        Ok(value) if packed.is_empty() => Ok(value),
        Ok(_) => Err(EngineError::broken("a script answered with more than one value")),
        Err(error) => Err(EngineError::broken(format!("a script answered with an unknown value: {error}"))),
    }
}

/// Marks byte strings as text, because Lua unpacks no byte strings. The two differ in the marker
/// only.
fn bytes_as_text(packed: &mut [u8]) {
    let mut at = 0;
    while at < packed.len() {
        let marker = packed[at];
        let number = |bytes: usize| {
            packed[at + 1..=at + bytes].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let length = match marker {
            0xa0..=0xbf => usize::from(marker & 0x1f),
            0xc4 | 0xd9 => 1 + number(1),
            0xc5 | 0xda => 2 + number(2),
            0xc6 | 0xdb => 4 + number(4),
            0xcc | 0xd0 => 1,
            0xcd | 0xd1 | 0xdc | 0xde => 2,
            0xca | 0xce | 0xd2 | 0xdd | 0xdf => 4,
            0xcb | 0xcf | 0xd3 => 8,
            _ => 0,
        };
        if (0xc4..=0xc6).contains(&marker) {
            packed[at] = marker + (0xd9 - 0xc4);
        }
        at += 1 + length;
    }
}
