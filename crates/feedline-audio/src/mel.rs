//! Mel spectrograms, as `torchaudio.transforms.MelSpectrogram` makes them.

use std::f64::consts::PI;
use std::sync::Arc;

use realfft::num_complex::Complex32;
use realfft::{RealFftPlanner, RealToComplex};

use crate::error::{Error, Result, zeros};

/// Windows that filters are applied to together, which compilers turn into vector instructions.
const LANES: usize = 8;

/// How mels are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MelScale {
    /// `2595 * log10(1 + f / 700)`.
    #[default]
    Htk,
    /// Linear below 1000 Hz, as in Slaney's toolbox and librosa.
    Slaney,
}

/// How filters are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MelNorm {
    /// Not at all.
    #[default]
    None,
    /// To equal areas.
    Slaney,
}

/// Parameters; the defaults are torchaudio's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MelOptions {
    /// Frames per second of the waves.
    pub rate: u32,
    /// Samples of a transform.
    pub n_fft: usize,
    /// Samples of a window, at most `n_fft`.
    pub win_length: usize,
    /// Samples from one window to the next.
    pub hop_length: usize,
    /// Lowest frequency.
    pub f_min: f64,
    /// Highest frequency.
    pub f_max: f64,
    /// Number of filters.
    pub n_mels: usize,
    /// Exponent of the magnitudes: 1 or 2.
    pub power: f64,
    /// Whether windows are centred on their sample, with the wave reflected at its ends.
    pub center: bool,
    /// How mels are spaced.
    pub scale: MelScale,
    /// How filters are scaled.
    pub norm: MelNorm,
}

/// Tables and filters for one set of parameters.
#[derive(Clone)]
pub struct Mel {
    options: MelOptions,
    window: Vec<f32>,
    /// First bin and weights of each filter.
    filters: Vec<(usize, Vec<f32>)>,
    fft: Arc<dyn RealToComplex<f32>>,
}

impl std::fmt::Debug for Mel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mel").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Mel {
    /// Checks the parameters and prepares filters.
    pub fn new(options: MelOptions) -> Result<Self> {
        let MelOptions { rate, n_fft, win_length, hop_length, f_min, f_max, n_mels, power, .. } = options;
        let fits = (2..=1 << 20).contains(&n_fft)
            && (1..=n_fft).contains(&win_length)
            && (1..=1 << 20).contains(&hop_length)
            && (1..=1 << 14).contains(&n_mels)
            && power > 0.0
            && f_min >= 0.0
            && f_min < f_max
            && f_max <= f64::from(rate);
        if !fits {
            return Err(Error::Malformed(format!("parameters that do not fit together: {options:?}")));
        }
        let left = (n_fft - win_length) / 2;
        let hann = |at: usize| (0.5 - 0.5 * (2.0 * PI * at as f64 / win_length as f64).cos()) as f32;
        let mut window = vec![0.0; n_fft];
        for at in 0..win_length {
            window[left + at] = hann(at);
        }
        Ok(Mel {
            window,
            filters: filters(&options),
            fft: RealFftPlanner::new().plan_fft_forward(n_fft),
            options,
        })
    }

    /// The parameters.
    pub fn options(&self) -> &MelOptions {
        &self.options
    }

    /// Number of windows of a wave of `frames` frames.
    pub fn windows(&self, frames: usize) -> usize {
        let length = if self.options.center { frames + 2 * (self.options.n_fft / 2) } else { frames };
        length.checked_sub(self.options.n_fft).map_or(0, |rest| rest / self.options.hop_length + 1)
    }

    /// The spectrogram of one channel: `n_mels` rows of one value for each window.
    pub fn run(&self, wave: &[f32], out: &mut Vec<f32>) -> Result<()> {
        let MelOptions { n_fft, center, n_mels, .. } = self.options;
        let half = n_fft / 2;
        if center && wave.len() <= half {
            let reason = format!(
                "{} samples are too few for windows of {n_fft}: reflecting takes more than {half}",
                wave.len()
            );
            return Err(Error::Malformed(reason));
        }
        let (windows, start) = (self.windows(wave.len()), out.len());
        zeros(out, windows * n_mels)?;
        let out = &mut out[start..];
        let mut scratch = Scratch::new(&*self.fft);
        let mut magnitudes = vec![[0.0f32; LANES]; half + 1];
        for first in (0..windows).step_by(LANES) {
            let count = LANES.min(windows - first);
            for lane in 0..count {
                self.transform(wave, first + lane, &mut scratch)?;
                for (to, bin) in magnitudes.iter_mut().zip(&scratch.bins) {
                    to[lane] = magnitude(*bin, self.options.power);
                }
            }
            for (mel, (bin, weights)) in self.filters.iter().enumerate() {
                let sums = filtered(weights, &magnitudes[*bin..]);
                out[mel * windows + first..][..count].copy_from_slice(&sums[..count]);
            }
        }
        Ok(())
    }

    /// Transforms a window into `scratch.bins`.
    fn transform(&self, wave: &[f32], number: usize, scratch: &mut Scratch) -> Result<()> {
        let MelOptions { n_fft, hop_length, center, .. } = self.options;
        let first = (number * hop_length) as i64 - if center { (n_fft / 2) as i64 } else { 0 };
        let inside = usize::try_from(first).ok().and_then(|first| wave.get(first..first + n_fft));
        let input = scratch.input.iter_mut().zip(&self.window);
        match inside {
            Some(wave) => {
                input.zip(wave).for_each(|((input, window), value)| *input = value * window);
            }
            None => {
                for (at, (input, window)) in input.enumerate() {
                    *input = wave[reflected(first + at as i64, wave.len())] * window;
                }
            }
        }
        let Scratch { input, bins, working } = scratch;
        let failed = |error: realfft::FftError| Error::Malformed(error.to_string());
        self.fft.process_with_scratch(input, bins, working).map_err(failed)
    }
}

/// Memory for one window.
struct Scratch {
    input: Vec<f32>,
    bins: Vec<Complex32>,
    working: Vec<Complex32>,
}

impl Scratch {
    fn new(fft: &dyn RealToComplex<f32>) -> Self {
        Scratch { input: fft.make_input_vec(), bins: fft.make_output_vec(), working: fft.make_scratch_vec() }
    }
}

/// A filter's sums for all lanes.
fn filtered(weights: &[f32], magnitudes: &[[f32; LANES]]) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    for (weight, magnitudes) in weights.iter().zip(magnitudes) {
        for (sum, magnitude) in sums.iter_mut().zip(magnitudes) {
            *sum += weight * magnitude;
        }
    }
    sums
}

fn magnitude(bin: Complex32, power: f64) -> f32 {
    let square = bin.norm_sqr();
    if power == 2.0 { square } else { square.sqrt().powf(power as f32) }
}

/// The place in a wave that is reflected at its ends, without repeating the last sample.
fn reflected(at: i64, length: usize) -> usize {
    let last = length as i64 - 1;
    let at = if at < 0 { -at } else { at };
    (if at > last { 2 * last - at } else { at }).clamp(0, last) as usize
}

fn to_mel(hertz: f64, scale: MelScale) -> f64 {
    match scale {
        MelScale::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
        MelScale::Slaney if hertz < 1000.0 => hertz / (200.0 / 3.0),
        MelScale::Slaney => 15.0 + (hertz / 1000.0).ln() / (6.4f64.ln() / 27.0),
    }
}

fn to_hertz(mel: f64, scale: MelScale) -> f64 {
    match scale {
        MelScale::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
        MelScale::Slaney if mel < 15.0 => mel * (200.0 / 3.0),
        MelScale::Slaney => 1000.0 * ((6.4f64.ln() / 27.0) * (mel - 15.0)).exp(),
    }
}

/// Triangles from one point of the scale to the next but one.
fn filters(options: &MelOptions) -> Vec<(usize, Vec<f32>)> {
    let MelOptions { rate, n_fft, f_min, f_max, n_mels, scale, norm, .. } = *options;
    let (low, high) = (to_mel(f_min, scale), to_mel(f_max, scale));
    let point = |at: usize| to_hertz(low + (high - low) * at as f64 / (n_mels + 1) as f64, scale);
    let bins = n_fft / 2 + 1;
    // torchaudio's bins run from 0 to half the rate, rounded down.
    let bin = |at: usize| f64::from(rate / 2) * at as f64 / (bins - 1) as f64;
    let triangle = |mel: usize| {
        let (left, centre, right) = (point(mel), point(mel + 1), point(mel + 2));
        let area = if norm == MelNorm::Slaney { 2.0 / (right - left) } else { 1.0 };
        let weight = |at: usize| {
            let rising = (bin(at) - left) / (centre - left);
            let falling = (right - bin(at)) / (right - centre);
            (rising.min(falling).max(0.0) * area) as f32
        };
        let weights: Vec<f32> = (0..bins).map(weight).collect();
        let first = weights.iter().position(|w| *w > 0.0).unwrap_or(0);
        let end = weights.iter().rposition(|w| *w > 0.0).map_or(first, |last| last + 1);
        (first, weights[first..end].to_vec())
    };
    (0..n_mels).map(triangle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> MelOptions {
        MelOptions {
            rate: 16_000,
            n_fft: 400,
            win_length: 400,
            hop_length: 200,
            f_min: 0.0,
            f_max: 8000.0,
            n_mels: 40,
            power: 2.0,
            center: true,
            scale: MelScale::Htk,
            norm: MelNorm::None,
        }
    }

    #[test]
    fn a_tone_is_one_band() {
        let wave: Vec<f32> =
            (0..16_000).map(|n| (2.0 * PI * 1000.0 * f64::from(n) / 16_000.0).sin() as f32).collect();
        let mel = Mel::new(options()).unwrap();
        let mut out = Vec::new();
        mel.run(&wave, &mut out).unwrap();
        assert_eq!((mel.windows(16_000), out.len()), (81, 81 * 40));
        let column = |window: usize| (0..40).map(|band| out[band * 81 + window]).collect::<Vec<f32>>();
        let loudest = |column: &[f32]| (0..40).max_by(|a, b| column[*a].total_cmp(&column[*b])).unwrap();
        let expected = (0..40).find(|band| {
            let point = |at: usize| to_hertz(to_mel(8000.0, MelScale::Htk) * at as f64 / 41.0, MelScale::Htk);
            (point(*band + 1) - 1000.0).abs() < (point(band + 2) - point(band + 1)) / 2.0
        });
        assert_eq!(Some(loudest(&column(40))), expected);
    }

    #[test]
    fn scales_turn_back() {
        for scale in [MelScale::Htk, MelScale::Slaney] {
            for hertz in [0.0, 10.0, 999.0, 1000.0, 1001.0, 7999.0] {
                assert!((to_hertz(to_mel(hertz, scale), scale) - hertz).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Mel::new(MelOptions { f_min: 9000.0, ..options() }).is_err());
        assert!(Mel::new(MelOptions { n_fft: 0, ..options() }).is_err());
        assert!(Mel::new(options()).unwrap().run(&[0.0; 200], &mut Vec::new()).is_err());
    }
}
