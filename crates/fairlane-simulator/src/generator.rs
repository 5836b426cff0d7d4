//! Seeded random numbers: SplitMix64, which is short and gives the same numbers on every machine.
//!
//! Each purpose has a stream of its own, so that removing one group from a scenario does not change
//! the numbers of the others.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Generator {
    state: u64,
}

impl Generator {
    /// The stream that belongs to `names` under `seed`.
    pub fn of(seed: u64, names: &[u64]) -> Self {
        let state = names.iter().fold(mix(seed), |state, name| mix(state ^ mix(*name)));
        Self { state }
    }

    /// A uniform random number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A uniform random number from `least` to `most`, both inclusive.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let width = u128::from(most - least) + 1;
        least + ((u128::from(self.number()) * width) >> 64) as u64
    }

    /// An exponentially distributed number with mean 1: an interval of a Poisson process.
    pub fn exponential(&mut self) -> f64 {
        let above_zero = (self.number() >> 11) as f64 + 1.0;
        -(above_zero / (1_u64 << 53) as f64).ln()
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_both() {
        let mut generator = Generator::of(1, &[7]);
        let draws: Vec<u64> = (0..1000).map(|_| generator.between(3, 5)).collect();
        assert_eq!(draws.iter().min(), Some(&3));
        assert_eq!(draws.iter().max(), Some(&5));
        assert_eq!(generator.between(9, 9), 9);
    }

    #[test]
    fn exponential_distances_have_mean_one() {
        let mut generator = Generator::of(1, &[8]);
        let sum: f64 = (0..100_000).map(|_| generator.exponential()).sum();
        assert!((sum / 100_000.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn streams_differ_by_seed_and_by_name() {
        let first = |seed, names: &[u64]| Generator::of(seed, names).number();
        assert_eq!(first(1, &[2, 3]), first(1, &[2, 3]));
        assert_ne!(first(1, &[2, 3]), first(1, &[3, 2]));
        assert_ne!(first(1, &[2, 3]), first(2, &[2, 3]));
    }
}
