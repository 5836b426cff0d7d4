//! Seeded random numbers: a small generator (SplitMix64) kept here, so that a seed always gives the
//! same run.

use fairlane_core::Trace;

/// A stream of random numbers that its seed determines.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A random trace, sometimes one whose stored bytes are field separators in other formats.
    pub fn trace(&mut self) -> Trace {
        let mut packed = [self.pick(b":+0\n\x01\xff"); Trace::PACKED_BYTES];
        if !self.one_in(4) {
            packed = packed.map(|_| 1 + self.below(255) as u8);
        }
        Trace::from_packed(&packed).expect("no id is all zeros")
    }

    /// A random item of the slice.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}
