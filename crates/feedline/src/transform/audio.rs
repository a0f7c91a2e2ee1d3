//! Operations on audio: windows, rates, channels, loudness, spectrograms and their masks. They are used in the list of a
//! field of encoded audio and run in the order of the list, in `loader/audio`.

use feedline_audio::{MelNorm, MelOptions, MelScale, ResampleOptions};
use serde::{Deserialize, Serialize};

use super::op::{Form, Op};
use super::params::{Params, Place};

/// Where a window lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AudioPolicy {
    /// Anywhere, drawn for every sample and epoch.
    #[default]
    Random,
    /// At the beginning.
    Start,
    /// In the middle.
    Center,
}

/// What a window has past the end of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AudioPad {
    /// Silence.
    #[default]
    Zeros,
    /// The file again, from its beginning.
    Repeat,
    /// The sample is bad.
    Error,
}

/// A window of `seconds` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioWindow {
    /// Length.
    pub seconds: f64,
    /// Where it lies.
    #[serde(default)]
    pub policy: AudioPolicy,
    /// What is past the end.
    #[serde(default)]
    pub pad: AudioPad,
}

/// Another rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resample {
    /// Frames per second of the result.
    pub hz: u32,
    /// Zero crossings on each side of the filter.
    #[serde(default = "width")]
    pub lowpass_filter_width: u32,
    /// The filter's edge, as a share of the lower Nyquist frequency.
    #[serde(default = "rolloff")]
    pub rolloff: f64,
}

fn width() -> u32 {
    6
}

fn rolloff() -> f64 {
    0.99
}

impl Resample {
    /// To this rate, with the usual filter.
    pub(crate) fn to(hz: u32) -> Self {
        Resample { hz, lowpass_filter_width: width(), rolloff: rolloff() }
    }

    pub(crate) fn options(&self) -> ResampleOptions {
        ResampleOptions { lowpass_filter_width: self.lowpass_filter_width, rolloff: self.rolloff }
    }
}

/// The mean of all channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mono {}

/// Louder or softer by a random number of decibels, with probability `p`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomGain {
    /// Least and most decibels.
    pub gain: (f64, f64),
    /// Probability.
    #[serde(default = "always")]
    pub p: f64,
}

/// Normal noise at a random ratio of signal to noise, with probability `p`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomNoise {
    /// Least and most decibels of the signal above the noise.
    pub snr: (f64, f64),
    /// Probability.
    #[serde(default = "always")]
    pub p: f64,
}

/// Noise from recordings at a random ratio of signal to noise, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundNoise {
    /// A data set of recordings: a folder of audio files, a pack, tar shards.
    pub noise: String,
    /// Least and most decibels of the signal above the noise.
    pub snr: (f64, f64),
    /// Probability.
    #[serde(default = "always")]
    pub p: f64,
}

fn always() -> f64 {
    1.0
}

/// How mels are spaced, by torchaudio's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MelScaleName {
    /// HTK's formula.
    #[default]
    Htk,
    /// Slaney's.
    Slaney,
}

/// A spectrogram on the mel scale, as torchaudio's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MelSpectrogram {
    /// Frames per second of the waves; they must have this rate.
    pub sample_rate: u32,
    /// Samples of a transform.
    pub n_fft: usize,
    /// Samples of a window; `n_fft` if `None`.
    #[serde(default)]
    pub win_length: Option<usize>,
    /// Samples from one window to the next; half a window if `None`.
    #[serde(default)]
    pub hop_length: Option<usize>,
    /// Lowest frequency.
    #[serde(default)]
    pub f_min: f64,
    /// Highest frequency; half the rate if `None`.
    #[serde(default)]
    pub f_max: Option<f64>,
    /// Number of filters.
    pub n_mels: usize,
    /// Exponent of the magnitudes.
    pub power: f64,
    /// Whether windows are centred on their sample.
    pub center: bool,
    /// How mels are spaced.
    #[serde(default)]
    pub mel_scale: MelScaleName,
    /// Whether filters are scaled to equal areas.
    #[serde(default)]
    pub slaney_norm: bool,
}

impl MelSpectrogram {
    pub(crate) fn options(&self) -> MelOptions {
        let win_length = self.win_length.unwrap_or(self.n_fft);
        MelOptions {
            rate: self.sample_rate,
            n_fft: self.n_fft,
            win_length,
            hop_length: self.hop_length.unwrap_or(win_length / 2),
            f_min: self.f_min,
            f_max: self.f_max.unwrap_or(f64::from(self.sample_rate / 2)),
            n_mels: self.n_mels,
            power: self.power,
            center: self.center,
            scale: if self.mel_scale == MelScaleName::Htk { MelScale::Htk } else { MelScale::Slaney },
            norm: if self.slaney_norm { MelNorm::Slaney } else { MelNorm::None },
        }
    }
}

/// Values as decibels, as torchaudio's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmplitudeToDB {
    /// Whether values are powers, not magnitudes.
    pub power: bool,
    /// The most decibels below the loudest value of the clip; `None` for no limit.
    #[serde(default)]
    pub top_db: Option<f64>,
}

/// Sets a random band of a spectrogram to zero, as torchaudio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyMasking {
    /// The most bands.
    pub freq_mask_param: u32,
}

/// Sets a random stretch of time of a spectrogram to zero, as torchaudio's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeMasking {
    /// The most windows.
    pub time_mask_param: u32,
    /// The most windows, as a share of all.
    #[serde(default = "always")]
    pub p: f64,
}

/// Implements `Op` for operations that images refuse.
macro_rules! only_for_audio {
    ($($op:ident: $check:expr;)*) => {
        $(impl Op for $op {
            fn check(&self) -> Result<(), String> {
                let check: fn(&$op) -> Result<(), String> = $check;
                check(self)
            }

            fn output(&self, _before: Form) -> Result<Form, String> {
                Err("is for a field of audio, not for images".to_owned())
            }

            fn draw(&self, _place: &Place, _into: &mut Params) -> Result<(), String> {
                Err("is not for images".to_owned())
            }
        })*
    };
}

only_for_audio! {
    AudioWindow: |op| if op.seconds > 0.0 && op.seconds <= 86_400.0 {
        Ok(())
    } else {
        Err(format!("a window of {} seconds; more than 0 and at most a day", op.seconds))
    };
    Resample: |op| match feedline_audio::Resampler::new(op.hz, op.hz, op.options()) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    Mono: |_| Ok(());
    RandomGain: |op| range(op.gain, op.p);
    RandomNoise: |op| range(op.snr, op.p);
    BackgroundNoise: |op| if op.noise.is_empty() {
        Err("noise is the path of a data set of recordings".to_owned())
    } else {
        range(op.snr, op.p)
    };
    MelSpectrogram: |op| feedline_audio::Mel::new(op.options()).map(|_| ()).map_err(|error| error.to_string());
    AmplitudeToDB: |op| match op.top_db {
        Some(most) if most <= 0.0 => Err(format!("top_db is {most}; it is above 0")),
        _ => Ok(()),
    };
    FrequencyMasking: |_| Ok(());
    TimeMasking: |op| range((0.0, 0.0), op.p);
}

fn range((low, high): (f64, f64), p: f64) -> Result<(), String> {
    if low <= high && low.is_finite() && high.is_finite() && (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(format!("from {low} to {high} with probability {p}"))
}
