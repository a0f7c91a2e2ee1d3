//! Random numbers as a pure function of what they are for.
//!
//! A [`Draw`] is keyed by the things that may influence it — seed, epoch, sample, place in the pipeline — and by
//! nothing else: no thread, rank, batch or time. Two draws with different keys are independent streams.

/// A stream of random numbers for one purpose. Creating one costs two multiplications per key part.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    state: u64,
}

/// Step of the state. It is odd, so the period is 2^64 (SplitMix64's constant).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draw {
    /// The stream for this key.
    pub(crate) fn new(key: &[u64]) -> Self {
        // Each part is mixed into the running state, so that [a, b] and [b, a] differ, as do [a] and [a, 0].
        let state =
            key.iter().fold(STEP, |state, part| mix(state.wrapping_add(STEP) ^ mix(part.wrapping_add(STEP))));
        Draw { state }
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Uniform in [0, 1), 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in 0..bound, without bias. `bound` must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "an empty range has no member");
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            // Lemire: reject the few low products that would make some results more likely than others.
            if (wide as u64) >= bound.wrapping_neg() % bound {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Normal with mean 0 and standard deviation 1 (Box-Muller, one of its two results).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// SplitMix64's finaliser: every input bit reaches every output bit.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_its_value_and_its_position_matter() {
        let first = |key: &[u64]| Draw::new(key).bits();
        let keys: [&[u64]; 6] = [&[], &[0], &[0, 0], &[1, 2], &[2, 1], &[1, 2, 0]];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[i + 1..] {
                assert_ne!(first(a), first(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn random_streams_never_change() {
        // Changing these values changes every user's epochs, so it needs a new major version.
        let mut draw = Draw::new(&[0, 1, 2]);
        assert_eq!([draw.bits(), draw.bits()], STREAM);
    }
    const STREAM: [u64; 2] = [3674488746756069460, 15881775793368634571];

    #[test]
    fn below_is_uniform() {
        let mut counts = [0u32; 7];
        let mut draw = Draw::new(&[42]);
        for _ in 0..70_000 {
            counts[draw.below(7) as usize] += 1;
        }
        // 6 standard deviations of a binomial with p = 1/7.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 560), "{counts:?}");
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let mut draw = Draw::new(&[5]);
        let values: Vec<f64> = (0..50_000).map(|_| draw.normal()).collect();
        let mean = values.iter().sum::<f64>() / 50_000.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 50_000.0;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn neighbouring_keys_are_uncorrelated() {
        let mean = (0..10_000u64).map(|i| Draw::new(&[7, i]).unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
