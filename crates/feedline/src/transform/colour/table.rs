//! `RandomInvert`, `RandomPosterize`, `RandomSolarize`: change each value independently.

use feedline_pixels::{RowOp, Size, Table};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, half};
use crate::transform::params::{Params, Place, tidy};

/// Subtracts every value from 255, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomInvert {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomInvert {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(Invert {});
        }
        Ok(())
    }
}

/// Keeps only the upper `bits` of every value, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPosterize {
    /// 0 (all black) to 8 (unchanged).
    pub bits: u32,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomPosterize {
    fn check(&self) -> Result<(), String> {
        check_bits(self.bits)?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(Posterize { bits: self.bits });
        }
        Ok(())
    }
}

fn check_bits(bits: u32) -> Result<(), String> {
    if bits <= 8 { Ok(()) } else { Err(format!("bits must be between 0 and 8, not {bits}")) }
}

/// Inverts values from a threshold on, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSolarize {
    /// Smallest value that is inverted.
    pub threshold: f64,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomSolarize {
    fn check(&self) -> Result<(), String> {
        check_threshold(self.threshold)?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(Solarize { threshold: tidy(self.threshold) });
        }
        Ok(())
    }
}

fn check_threshold(threshold: f64) -> Result<(), String> {
    if threshold.is_finite() { Ok(()) } else { Err(format!("threshold must be a number, not {threshold}")) }
}

/// Subtracts every value from 255.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Invert {}

impl Act for Invert {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.row(RowOp::Table(Table::of(|x| 255 - x)));
    }
}

/// Keeps only the upper bits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Posterize {
    pub(in crate::transform) bits: u32,
}

impl Act for Posterize {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_bits(self.bits)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let mask = (0xFF00u32 >> self.bits) as u8;
        fusion.row(RowOp::Table(Table::of(|x| x & mask)));
    }
}

/// Inverts values from a threshold on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Solarize {
    pub(in crate::transform) threshold: f64,
}

impl Act for Solarize {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_threshold(self.threshold)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let inverted = |x: u8| if f64::from(x) < self.threshold { x } else { 255 - x };
        fusion.row(RowOp::Table(Table::of(inverted)));
    }
}

/// Makes values below a threshold lighter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SolarizeAdd {
    pub(in crate::transform) add: u8,
    pub(in crate::transform) threshold: u8,
}

impl Act for SolarizeAdd {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        let lighter = |x: u8| if x < self.threshold { x.saturating_add(self.add) } else { x };
        fusion.row(RowOp::Table(Table::of(lighter)));
    }
}
