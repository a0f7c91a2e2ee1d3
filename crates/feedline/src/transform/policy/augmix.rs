//! `AugMix`: several chains of operations, mixed with the image.

use feedline_pixels::Size;
use serde::{Deserialize, Serialize};

use super::auto_augment::check_look;
use super::space::{AUGMIX, Space, WarpSettings};
use crate::random::Draw;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_range};
use crate::transform::params::Params;
use crate::transform::params::Place;
use crate::transform::program::{Chain, Program};
use crate::transform::{Action, Interpolation, Like};

/// Number of levels, of which the first `severity` are drawn.
const BINS: u32 = 10;

/// Mixes chains of random operations with the image, as in torchvision (its tensor version, also for PIL images).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugMix {
    /// Strongest level, 1 to 10.
    #[serde(default = "three")]
    pub severity: u32,
    /// Number of chains.
    #[serde(default = "three")]
    pub mixture_width: u32,
    /// Number of operations in each; 0 or less for one to three at random.
    #[serde(default = "random_depth")]
    pub chain_depth: i32,
    /// Parameter of the Dirichlet distributions of the weights.
    #[serde(default = "one")]
    pub alpha: f64,
    /// Whether brightness, colour, contrast and sharpness are used as well.
    #[serde(default = "yes")]
    pub all_ops: bool,
    /// Nearest or bilinear.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn three() -> u32 {
    3
}

fn random_depth() -> i32 {
    -1
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl Op for AugMix {
    fn check(&self) -> Result<(), String> {
        if !(1..=BINS).contains(&self.severity) {
            return Err(format!("severity must be between 1 and {BINS}, not {}", self.severity));
        }
        if !(1..=100).contains(&self.mixture_width) || self.chain_depth > 100 {
            return Err("mixture_width must be between 1 and 100, chain_depth at most 100".to_owned());
        }
        check_range("alpha", (self.alpha, self.alpha), (1e-3, 1e3))?;
        check_look(self.interpolation)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let shares = dirichlet(&[self.alpha; 2], &mut draw);
        let weights = dirichlet(&vec![self.alpha; self.mixture_width as usize], &mut draw);
        let space = Space::mixing();
        let look = WarpSettings { interpolation: self.interpolation, fill: self.fill, like: Like::Tensor };
        let choices = if self.all_ops { &AUGMIX[..] } else { &AUGMIX[..9] };
        let mut chains = Vec::with_capacity(weights.len());
        for weight in weights {
            let depth = if self.chain_depth > 0 { self.chain_depth as u64 } else { 1 + draw.below(3) };
            let mut chain = into.branch();
            for _ in 0..depth {
                let choice = choices[draw.below(choices.len() as u64) as usize];
                let bin = draw.below(u64::from(self.severity)) as u32;
                space.push(choice, bin, look, &mut draw, &mut chain);
            }
            chains.push(((weight * shares[1]) as f32, chain.into_actions()));
        }
        into.push(Mixed { own: shares[0] as f32, chains });
        Ok(())
    }
}

/// Positive numbers that sum to one.
fn dirichlet(alphas: &[f64], draw: &mut Draw) -> Vec<f64> {
    let drawn: Vec<f64> = alphas.iter().map(|alpha| gamma(*alpha, draw)).collect();
    let sum: f64 = drawn.iter().sum();
    drawn.into_iter().map(|value| value / sum).collect()
}

/// Draws from the gamma distribution of this shape (Marsaglia and Tsang's method).
pub(crate) fn gamma(shape: f64, draw: &mut Draw) -> f64 {
    if shape < 1.0 {
        let below = (1.0 - draw.unit()).powf(1.0 / shape);
        return (gamma(shape + 1.0, draw) * below).max(f64::MIN_POSITIVE);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = draw.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - draw.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// `own` times the image, plus each chain's result times its weight; truncated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mixed {
    own: f32,
    chains: Vec<(f32, Vec<Action>)>,
}

impl Act for Mixed {
    fn check(&self, before: Size) -> Result<(), String> {
        if self.chains.len() > 100 {
            return Err(format!("{} chains; 100 at most", self.chains.len()));
        }
        for (_, actions) in &self.chains {
            let mut size = before;
            for action in actions {
                use Action as A;
                if matches!(
                    action,
                    A::Mixed(_) | A::Crop(_) | A::Resized(_) | A::HorizontalFlip(_) | A::VerticalFlip(_)
                ) {
                    return Err("chains of a mixture neither crop, resize, flip nor mix".to_owned());
                }
                action.check(size)?;
                size = action.output(size);
            }
            if size != before {
                return Err("a chain that changes the image's size cannot be mixed".to_owned());
            }
        }
        Ok(())
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let size = fusion.size();
        let planned = |(weight, actions): &(f32, Vec<Action>)| {
            let mut program = Program::default();
            let mut inner = Fusion::new(&mut program, size);
            for action in actions {
                action.plan(&mut inner);
            }
            inner.finish();
            Chain { weight: *weight, program }
        };
        let chains = self.chains.iter().map(planned).collect();
        fusion.mix(self.own, chains);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_the_mean_and_spread_of_their_distribution() {
        for alpha in [0.4, 1.0, 3.0] {
            let mut draw = Draw::new(&[1]);
            let firsts: Vec<f64> = (0..20_000).map(|_| dirichlet(&[alpha; 3], &mut draw)[0]).collect();
            let mean = firsts.iter().sum::<f64>() / 20_000.0;
            let variance = firsts.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 20_000.0;
            let expected = (2.0 / 9.0) / (3.0 * alpha + 1.0);
            assert!((mean - 1.0 / 3.0).abs() < 0.01, "{alpha} {mean}");
            assert!((variance - expected).abs() < 0.05 * expected, "{alpha} {variance} {expected}");
        }
    }
}
