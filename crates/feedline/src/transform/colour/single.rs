//! `RandomBrightness`, `RandomContrast`, `RandomSaturation`, `RandomHue`, `RandomGamma`: one change of colour, with
//! probability `p`.

use feedline_pixels::{RowOp, Size, Table};
use serde::{Deserialize, Serialize};

use super::{Brightness, Contrast, Hue, Saturation};
use crate::transform::Like;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place, tidy};

type Range = (f64, f64);

/// An operation that draws one number and, with probability `p`, makes an action of it.
macro_rules! one_number {
    ($(#[$doc:meta])* $name:ident, $field:ident, $bounds:expr, |$value:ident| $action:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Smallest and largest value.
            pub $field: Range,
            /// Probability.
            #[serde(default = "half")]
            pub p: f64,
        }

        impl Op for $name {
            fn check(&self) -> Result<(), String> {
                check_range(stringify!($field), self.$field, $bounds)?;
                check_p(self.p)
            }

            fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
                let mut draw = place.draw();
                if draw.chance(self.p) {
                    let $value = tidy(draw.between(self.$field.0, self.$field.1));
                    into.push($action);
                }
                Ok(())
            }
        }
    };
}

one_number! {
    /// Multiplies every value by a random factor.
    RandomBrightness, magnitude, (0.0, 1e6), |factor| Brightness { factor: factor as f32 }
}
one_number! {
    /// Moves values away from the mean grey, or towards it.
    RandomContrast, magnitude, (0.0, 1e6), |factor| Contrast { factor: factor as f32, like: Like::Pil }
}
one_number! {
    /// Moves values away from each pixel's grey, or towards it.
    RandomSaturation, magnitude, (0.0, 1e6), |factor| Saturation { factor: factor as f32, like: Like::Pil }
}
one_number! {
    /// Rotates the hue.
    RandomHue, hue, (-0.5, 0.5), |turn| Hue { turn, like: Like::Pil }
}
one_number! {
    /// `255 (x / 255)^gamma`.
    RandomGamma, gamma, (0.0, 1e3), |gamma| Gamma { gamma, gain: 1.0 }
}

/// `255 gain (x / 255)^gamma`, truncated as torchvision does for PIL images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gamma {
    gamma: f64,
    gain: f64,
}

impl Act for Gamma {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("gamma", (self.gamma, self.gamma), (0.0, 1e3))?;
        check_range("gain", (self.gain, self.gain), (0.0, 1e6))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        // Just below 256, so that white stays white: the table that torchvision passes to Pillow.
        let level = |x: u8| (255.0 + 1.0 - 1e-3) * self.gain * (f64::from(x) / 255.0).powf(self.gamma);
        fusion.row(RowOp::Table(Table::of(|x| level(x).clamp(0.0, 255.0) as u8)));
    }
}
