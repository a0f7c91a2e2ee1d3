//! `RGBToLGN`, `RGBToMagno`: colour-opponent channels instead of colours. They come last, instead of `Normalize`.

use feedline_pixels::{Channels, Opponent};
use serde::{Deserialize, Serialize};

use crate::transform::op::{Form, Op, check_range};
use crate::transform::params::{Params, Place};

/// Centre and surround.
type Sigmas = (f64, f64);

fn zeros() -> [f32; 5] {
    [0.0; 5]
}

fn ones() -> [f32; 5] {
    [1.0; 5]
}

fn yes() -> bool {
    true
}

/// Five channels: parvo (red on, green on), magno (light on, dark on), konio (blue on).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RGBToLGN {
    /// Standard deviations of centre and surround, in pixels.
    pub parvo: Sigmas,
    /// The same for light and dark.
    pub magno: Sigmas,
    /// The same for blue.
    pub konio: Sigmas,
    /// Whether negative values become zero.
    #[serde(default = "yes")]
    pub rectify: bool,
    /// Subtracted from each channel.
    #[serde(default = "zeros")]
    pub mean: [f32; 5],
    /// Divisor of each channel.
    #[serde(default = "ones")]
    pub std: [f32; 5],
}

/// Two channels: light on dark, and dark on light.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RGBToMagno {
    /// Standard deviations of centre and surround, in pixels.
    pub magno: Sigmas,
    /// Whether negative values become zero.
    #[serde(default = "yes")]
    pub rectify: bool,
}

fn check_sigmas(name: &str, (centre, surround): Sigmas) -> Result<(), String> {
    check_range(name, (centre, centre), (1e-3, 100.0))?;
    check_range(name, (surround, surround), (1e-3, 100.0))
}

fn output(before: Form, channels: Channels) -> Result<Form, String> {
    if before.channels != Channels::Rgb {
        return Err("needs three channels".to_owned());
    }
    Ok(Form { channels, normalised: true, ..before })
}

fn narrow((centre, surround): Sigmas) -> (f32, f32) {
    (centre as f32, surround as f32)
}

/// The action of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Opposed {
    parvo: Option<Sigmas>,
    magno: Sigmas,
    konio: Option<Sigmas>,
    rectify: bool,
    mean: [f32; 5],
    std: [f32; 5],
}

impl Opposed {
    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_sigmas("magno", self.magno)?;
        self.parvo.map_or(Ok(()), |sigmas| check_sigmas("parvo", sigmas))?;
        self.konio.map_or(Ok(()), |sigmas| check_sigmas("konio", sigmas))?;
        if self.parvo.is_some() == self.konio.is_some() {
            Ok(())
        } else {
            Err("five channels or two".to_owned())
        }
    }

    /// The channels of the result.
    pub(crate) fn channels(&self) -> Channels {
        if self.parvo.is_some() { Channels::Lgn } else { Channels::Magno }
    }

    /// The settings for the kernel.
    pub(crate) fn kernel(&self) -> Opponent {
        Opponent {
            parvo: self.parvo.map(narrow),
            magno: narrow(self.magno),
            konio: self.konio.map(narrow),
            rectify: self.rectify,
            mean: self.mean,
            std: self.std,
        }
    }
}

impl Op for RGBToLGN {
    fn check(&self) -> Result<(), String> {
        check_sigmas("parvo", self.parvo)?;
        check_sigmas("magno", self.magno)?;
        check_sigmas("konio", self.konio)?;
        if self.std.iter().any(|s| !s.is_normal()) || self.mean.iter().any(|m| !m.is_finite()) {
            return Err("mean must be finite, std finite and not 0".to_owned());
        }
        Ok(())
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        output(before, Channels::Lgn)
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        let RGBToLGN { parvo, magno, konio, rectify, mean, std } = *self;
        into.oppose(Opposed { parvo: Some(parvo), magno, konio: Some(konio), rectify, mean, std });
        Ok(())
    }
}

impl Op for RGBToMagno {
    fn check(&self) -> Result<(), String> {
        check_sigmas("magno", self.magno)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        output(before, Channels::Magno)
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        let RGBToMagno { magno, rectify } = *self;
        into.oppose(Opposed { parvo: None, magno, konio: None, rectify, mean: zeros(), std: ones() });
        Ok(())
    }
}
