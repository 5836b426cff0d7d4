//! Mutates valid inputs with one or a few changes each, so that most of an input stays valid.

use fairlane_conformance::dice::Dice;

/// Most changes to one input.
const CHANGES_MAX: u64 = 5;
/// Longest input; larger ones only repeat parts.
const BYTES_MAX: usize = 64 * 1024;
/// Bytes that have a meaning for a parser.
const BYTES: &[u8] = b"\x00\x01\x7f\x80\xff\n\r :;,.%+-0919{}[]\"\\*$xX";
/// Texts that have a meaning for a parser.
const TEXTS: [&[u8]; 12] = [
    b"\r\n",
    b"18446744073709551615",
    b"9223372036854775808",
    b"-1",
    b"1e999",
    b"null",
    b"\xed\xa0\x80",
    b"\\u0000",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"COMPLETED",
];

/// An input made of one of the seeds.
pub fn mutated(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = dice.pick(seeds);
    for _ in 0..1 + dice.below(CHANGES_MAX) {
        change(dice, &mut input, seeds);
    }
    input.truncate(BYTES_MAX);
    input
}

/// The input without a piece of it, unless it is empty.
pub fn without_a_piece(dice: &mut Dice, input: &[u8]) -> Option<Vec<u8>> {
    if input.is_empty() {
        return None;
    }
    let (from, to) = piece(dice, input.len());
    Some([&input[..from], &input[to..]].concat())
}

fn change(dice: &mut Dice, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = dice.below(input.len() as u64 + 1) as usize;
    match dice.below(9) {
        0 => input.truncate(at),
        1 => input.insert(at, dice.pick(BYTES)),
        2 => drop(input.splice(at..at, dice.pick(&TEXTS).iter().copied())),
        3 => input.insert(at, dice.below(256) as u8),
        4 => {
            let other = dice.pick(seeds);
            let (from, to) = piece(dice, other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
        _ if input.is_empty() => {}
        5 => {
            let at = at % input.len();
            input[at] ^= 1 << dice.below(8);
        }
        6 => {
            let at = at % input.len();
            input[at] = dice.pick(BYTES);
        }
        7 => {
            let (from, to) = piece(dice, input.len());
            input.drain(from..to);
        }
        _ => {
            let (from, to) = piece(dice, input.len());
            input.splice(at..at, input[from..to].to_vec());
        }
    }
}

/// The ends of a piece; short ones are more likely.
fn piece(dice: &mut Dice, length: usize) -> (usize, usize) {
    let from = dice.below(length as u64 + 1) as usize;
    let most = (length - from).min(1 << dice.below(12)) as u64;
    (from, from + dice.below(most + 1) as usize)
}
