//! `Normalize`. It is not an action: the conversion to tensor elements is fixed for all samples and done when writing.

use feedline_pixels::Channels;
use serde::{Deserialize, Serialize};

use crate::transform::op::{Form, Op};
use crate::transform::params::{Params, Place};

/// Subtracts `mean` and divides by `std`, channel by channel, in units where white is 1. Must come last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalize {
    /// Mean per channel.
    pub mean: [f32; 3],
    /// Standard deviation per channel, not 0.
    pub std: [f32; 3],
}

impl Op for Normalize {
    fn check(&self) -> Result<(), String> {
        if self.std.iter().any(|s| !s.is_normal()) || self.mean.iter().any(|m| !m.is_finite()) {
            return Err("mean must be finite, std finite and not 0".to_owned());
        }
        Ok(())
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        let alike = |values: [f32; 3]| values.iter().all(|value| *value == values[0]);
        if before.channels == Channels::Grey && !(alike(self.mean) && alike(self.std)) {
            return Err("has three means or stds, but the image has one channel".to_owned());
        }
        Ok(Form { normalised: true, ..before })
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        into.normalize(self);
        Ok(())
    }
}
