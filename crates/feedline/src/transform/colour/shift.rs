//! `RGBShift`, `ChannelDropout`: channels changed one by one.

use feedline_pixels::{Point, RowOp, Size, Table};
use serde::{Deserialize, Serialize};

use super::jitter::permutation;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place};

type Range = (f64, f64);

/// Adds a random number of levels to each channel, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RGBShift {
    /// Smallest and largest shift of red.
    pub r_shift_limit: Range,
    /// The same for green.
    pub g_shift_limit: Range,
    /// The same for blue.
    pub b_shift_limit: Range,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RGBShift {
    fn check(&self) -> Result<(), String> {
        check_range("r_shift_limit", self.r_shift_limit, (-255.0, 255.0))?;
        check_range("g_shift_limit", self.g_shift_limit, (-255.0, 255.0))?;
        check_range("b_shift_limit", self.b_shift_limit, (-255.0, 255.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let limits = [self.r_shift_limit, self.g_shift_limit, self.b_shift_limit];
            let shift = limits.map(|(low, high)| draw.between(low, high).round() as i16);
            into.push(ShiftChannels { shift, gain: [1.0; 3] });
        }
        Ok(())
    }
}

/// Sets some channels to one value, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelDropout {
    /// Smallest and largest number of channels.
    #[serde(default = "one_channel")]
    pub channel_drop_range: (u32, u32),
    /// The value.
    #[serde(default)]
    pub fill: u8,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn one_channel() -> (u32, u32) {
    (1, 1)
}

impl Op for ChannelDropout {
    fn check(&self) -> Result<(), String> {
        let (low, high) = self.channel_drop_range;
        if low == 0 || low > high || high > 2 {
            return Err(format!(
                "channel_drop_range must be (low, high) between 1 and 2, not ({low}, {high})"
            ));
        }
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let (low, high) = self.channel_drop_range;
            let count = low + draw.below(u64::from(high - low) + 1) as u32;
            let (mut shift, mut gain) = ([0; 3], [1.0; 3]);
            for channel in permutation::<3>(&mut draw).into_iter().take(count as usize) {
                (shift[channel as usize], gain[channel as usize]) = (i16::from(self.fill), 0.0);
            }
            into.push(ShiftChannels { shift, gain });
        }
        Ok(())
    }
}

/// Multiplies every value of a channel by `gain` and adds `shift`, clamped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShiftChannels {
    shift: [i16; 3],
    gain: [f32; 3],
}

impl Act for ShiftChannels {
    fn check(&self, _before: Size) -> Result<(), String> {
        self.gain.iter().try_for_each(|g| check_range("gain", (f64::from(*g), f64::from(*g)), (0.0, 1e6)))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let table = |channel: usize| {
            let (gain, shift) = (self.gain[channel], f32::from(self.shift[channel]));
            Table::of(|x| (f32::from(x) * gain + shift).clamp(0.0, 255.0) as u8)
        };
        fusion.row(RowOp::Point(Point::Tables(Box::new([table(0), table(1), table(2)]))));
    }
}
