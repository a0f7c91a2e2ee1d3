//! Resampling by a windowed sinc, one filter for each phase: the sums that `torchaudio.functional.resample` makes.

use std::f64::consts::PI;

use crate::clip::Clip;
use crate::error::{Error, Result, zeros};

/// The filter's shape; the defaults are torchaudio's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResampleOptions {
    /// Zero crossings on each side. More make a sharper filter and cost time.
    pub lowpass_filter_width: u32,
    /// The filter's edge, as a share of the lower of both Nyquist frequencies.
    pub rolloff: f64,
}

impl Default for ResampleOptions {
    fn default() -> Self {
        ResampleOptions { lowpass_filter_width: 6, rolloff: 0.99 }
    }
}

/// Filters from one rate to another.
#[derive(Clone, Debug)]
pub struct Resampler {
    from: u32,
    to: u32,
    options: ResampleOptions,
    /// Rates without their common divisor.
    step: usize,
    phases: usize,
    width: usize,
    /// One filter for each phase, `2 * width + 1` long: torchaudio's without the zeros at both ends, which are nine tenths
    /// of it from 44.1 to 16 kHz.
    filters: Vec<f32>,
}

/// The most filter taps: rates without a common divisor need `from * to` of them.
const MOST_TAPS: u64 = 1 << 26;

impl Resampler {
    /// Filters from rate `from` to rate `to`.
    pub fn new(from: u32, to: u32, options: ResampleOptions) -> Result<Self> {
        let bad = |reason: String| Error::Malformed(reason);
        let zeros_count = f64::from(options.lowpass_filter_width);
        if from == 0
            || to == 0
            || options.lowpass_filter_width == 0
            || !(options.rolloff > 0.0 && options.rolloff <= 1.0)
        {
            return Err(bad(format!("resampling from {from} to {to} Hz with {options:?}")));
        }
        let divisor = gcd(from, to);
        let (step, phases) = (from / divisor, to / divisor);
        let edge = f64::from(step.min(phases)) * options.rolloff;
        let width = (zeros_count * f64::from(step) / edge).ceil();
        let taps = 2 * width as u64 + 1;
        if taps.saturating_mul(u64::from(phases)) > MOST_TAPS {
            return Err(bad(format!(
                "resampling from {from} to {to} Hz takes too many filters: the rates have no common divisor"
            )));
        }
        let tap = |phase: u32, tap: u64| {
            let first = u64::from(step) * u64::from(phase) / u64::from(phases);
            let at = ((first + tap) as f64 - width) / f64::from(step) - f64::from(phase) / f64::from(phases);
            let t = (at * edge).clamp(-zeros_count, zeros_count);
            let window = (t * PI / zeros_count / 2.0).cos().powi(2);
            let sinc = if t == 0.0 { 1.0 } else { (t * PI).sin() / (t * PI) };
            (sinc * window * edge / f64::from(step)) as f32
        };
        let filters = (0..phases).flat_map(|phase| (0..taps).map(move |at| tap(phase, at))).collect();
        Ok(Resampler {
            from,
            to,
            options,
            step: step as usize,
            phases: phases as usize,
            width: width as usize,
            filters,
        })
    }

    /// Whether it has these rates and options.
    pub fn fits(&self, from: u32, to: u32, options: ResampleOptions) -> bool {
        (self.from, self.to, self.options) == (from, to, options)
    }

    /// Number of frames that `frames` frames become.
    pub fn length(&self, frames: usize) -> usize {
        ((frames as u128 * self.phases as u128).div_ceil(self.step as u128)) as usize
    }

    /// Resamples every channel of a clip of rate `from`.
    pub fn run(&self, clip: &mut Clip) -> Result<()> {
        let (frames, length) = (clip.frames(), self.length(clip.frames()));
        let mut out = Vec::new();
        zeros(&mut out, length * clip.channels)?;
        let mut padded = Vec::new();
        zeros(&mut padded, frames + 2 * self.width + self.step)?;
        if length > 0 {
            for (from, to) in clip.planes().zip(out.chunks_exact_mut(length)) {
                padded[self.width..self.width + frames].copy_from_slice(from);
                self.plane(&padded, to);
            }
        }
        (clip.data, clip.rate) = (out, self.to);
        Ok(())
    }

    fn plane(&self, padded: &[f32], out: &mut [f32]) {
        let taps = 2 * self.width + 1;
        for (at, out) in out.iter_mut().enumerate() {
            let phase = at % self.phases;
            let start = at / self.phases * self.step + self.step * phase / self.phases;
            let filter = &self.filters[phase * taps..][..taps];
            *out = dot(&padded[start..start + taps], filter);
        }
    }
}

/// Sum of products, in eight sums so that it can be vectorised; the order of additions is fixed.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a8.zip(b8) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, hertz: f64, frames: usize) -> Clip {
        let at = |n: usize| (2.0 * PI * hertz * n as f64 / f64::from(rate)).sin() as f32;
        Clip { rate, channels: 1, data: (0..frames).map(at).collect() }
    }

    #[test]
    fn a_tone_stays_a_tone() {
        for (from, to, least) in [(44_100, 16_000, 45.0), (8000, 16_000, 45.0), (48_000, 44_100, 45.0)] {
            let options = ResampleOptions { lowpass_filter_width: 64, ..ResampleOptions::default() };
            let mut clip = tone(from, 1000.0, from as usize);
            Resampler::new(from, to, options).unwrap().run(&mut clip).unwrap();
            let expected = tone(to, 1000.0, to as usize);
            assert_eq!((clip.rate, clip.frames()), (to, to as usize));
            // The ends see silence beyond the clip.
            let inner = 2000..to as usize - 2000;
            let noise: f64 = inner.clone().map(|n| f64::from(clip.data[n] - expected.data[n]).powi(2)).sum();
            let signal: f64 = inner.map(|n| f64::from(expected.data[n]).powi(2)).sum();
            let decibels = 10.0 * (signal / noise).log10();
            assert!(decibels > least, "{from} to {to}: {decibels} dB");
        }
    }

    #[test]
    fn what_is_above_the_new_limit_is_removed() {
        let options = ResampleOptions { lowpass_filter_width: 32, ..ResampleOptions::default() };
        let mut clip = tone(44_100, 12_000.0, 44_100);
        Resampler::new(44_100, 16_000, options).unwrap().run(&mut clip).unwrap();
        assert!(clip.data[200..15_800].iter().all(|sample| sample.abs() < 1e-3));
    }

    #[test]
    fn impossible_rates_are_refused() {
        assert!(Resampler::new(0, 8000, ResampleOptions::default()).is_err());
        assert!(Resampler::new(u32::MAX, u32::MAX - 1, ResampleOptions::default()).is_err());
    }
}
