//! Draws for mixing samples.

use feedline_pixels::{Region, Size};

use super::{BatchTransform, CutMix, MixChoice, MixDialect, Per};
use crate::random::Draw;
use crate::transform::policy::gamma;

/// Separates these draws from all other uses of the seed.
const PURPOSE: u64 = 0x006d_6978_6564; // "mixed"

/// Key of a draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MixKey {
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    /// Position of the sample in the epoch's global order.
    pub(crate) position: u64,
    /// Number of samples in a global batch.
    pub(crate) global_batch: u64,
    /// The place in the list of operations.
    pub(crate) place: u64,
}

impl MixKey {
    /// The random numbers of this sample, its group of `group`, or its batch.
    fn draw(&self, per: Per, group: u64) -> Draw {
        let (kind, number) = match per {
            Per::Batch => (0, self.position / self.global_batch.max(1)),
            Per::Pair => (1, self.position / group),
            Per::Sample => (2, self.position),
        };
        Draw::new(&[PURPOSE, self.seed, self.epoch, self.place, kind, number])
    }
}

/// What to do to one sample with its partner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MixAction {
    /// Nothing.
    Nothing,
    /// Blend: this share of itself, the rest is the partner.
    Blend { own: f64 },
    /// Copy a box of the partner.
    Cut(Cut),
    /// Part of a mosaic whose point is at these shares of width and height.
    Mosaic { center: (f64, f64) },
    /// Paste each of the partner's objects with this probability, from this seed.
    Paste { share: f64, seed: u64 },
}

/// A box as shares, before the image's size is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cut {
    /// Centre, as shares of width and height.
    middle: (f64, f64),
    /// Sides, as shares of width and height.
    sides: (f64, f64),
    like: MixDialect,
}

impl Cut {
    /// The box in an image of this size.
    pub(crate) fn region(&self, size: Size) -> Region {
        let along = |middle: f64, side: f64, length: u32| {
            let at = (middle * f64::from(length)) as i64;
            let (low, high) = match self.like {
                MixDialect::Torchvision => {
                    let half = (0.5 * side * f64::from(length)) as i64;
                    (at - half, at + half)
                }
                MixDialect::Timm => {
                    let cut = (side * f64::from(length)) as i64;
                    (at - cut / 2, at + (cut + 1) / 2)
                }
            };
            let (low, high) = (low.clamp(0, i64::from(length)), high.clamp(0, i64::from(length)));
            (low as u32, (high - low) as u32)
        };
        let (x, width) = along(self.middle.0, self.sides.0, size.width);
        let (y, height) = along(self.middle.1, self.sides.1, size.height);
        if width == 0 || height == 0 { Region::new(0, 0, 0, 0) } else { Region::new(x, y, width, height) }
    }

    /// The share of the image that the box leaves uncovered.
    pub(crate) fn own(&self, size: Size) -> f64 {
        1.0 - self.region(size).size().area() as f64 / size.area() as f64
    }
}

/// Beta(alpha, alpha).
fn beta(alpha: f64, draw: &mut Draw) -> f64 {
    let (a, b) = (gamma(alpha, draw), gamma(alpha, draw));
    if a + b > 0.0 { a / (a + b) } else { 0.5 }
}

impl BatchTransform {
    /// What to do to the sample with this key.
    pub(crate) fn action(&self, key: MixKey) -> MixAction {
        match self {
            BatchTransform::MixUp(op) => {
                let mut draw = key.draw(op.per, 2);
                if draw.chance(op.p) {
                    MixAction::Blend { own: beta(op.alpha, &mut draw) }
                } else {
                    MixAction::Nothing
                }
            }
            BatchTransform::CutMix(op) => {
                let mut draw = key.draw(op.per, 2);
                if draw.chance(op.p) { MixAction::Cut(cut(op, &mut draw)) } else { MixAction::Nothing }
            }
            BatchTransform::Mosaic(op) => {
                let mut draw = key.draw(Per::Pair, 4);
                if !draw.chance(op.p) {
                    return MixAction::Nothing;
                }
                let mut own = key.draw(Per::Sample, 4);
                let (low, high) = op.center;
                MixAction::Mosaic { center: (own.between(low, high), own.between(low, high)) }
            }
            BatchTransform::CopyPaste(op) => {
                let mut draw = key.draw(Per::Sample, 2);
                if draw.chance(op.p) {
                    MixAction::Paste { share: op.share, seed: draw.bits() }
                } else {
                    MixAction::Nothing
                }
            }
            BatchTransform::LabelSmoothing(_) | BatchTransform::OneHot(_) => MixAction::Nothing,
            BatchTransform::RandomChoice(of) => {
                choose(of, key).action(MixKey { place: key.place | 1 << 32, ..key })
            }
        }
    }

    /// The operation for this sample: for a choice, the drawn one.
    pub(crate) fn chosen(&self, key: MixKey) -> &BatchTransform {
        match self {
            BatchTransform::RandomChoice(of) => choose(of, key),
            other => other,
        }
    }

    /// For how many samples a choice is drawn: as many as for its members' own draws, at least a group.
    fn per(&self) -> Per {
        match self {
            BatchTransform::MixUp(op) => op.per,
            BatchTransform::CutMix(op) => op.per,
            _ => Per::Batch,
        }
    }
}

fn choose(of: &MixChoice, key: MixKey) -> &BatchTransform {
    let group = of.transforms.iter().map(BatchTransform::group).max().unwrap_or(1);
    let per = if of.transforms.iter().all(|op| op.per() == Per::Batch) { Per::Batch } else { Per::Pair };
    let mut draw = key.draw(per, group);
    let equal = vec![1.0; of.transforms.len()];
    let weights = of.p.as_ref().unwrap_or(&equal);
    let mut left = draw.unit() * weights.iter().sum::<f64>();
    for (op, weight) in of.transforms.iter().zip(weights) {
        if left < *weight {
            return op;
        }
        left -= weight;
    }
    &of.transforms[weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)]
}

fn cut(op: &CutMix, draw: &mut Draw) -> Cut {
    let sides = if let Some((low, high)) = op.minmax {
        (draw.between(low, high), draw.between(low, high))
    } else {
        let side = (1.0 - beta(op.alpha, draw)).sqrt();
        (side, side)
    };
    Cut { middle: (draw.unit(), draw.unit()), sides, like: op.like }
}

#[cfg(test)]
mod tests {
    use super::super::MixUp;
    use super::*;

    fn mixup(per: Per) -> BatchTransform {
        let label = "label".to_owned();
        BatchTransform::MixUp(MixUp { alpha: 0.4, num_classes: 3, label, p: 1.0, per, smoothing: 0.0 })
    }

    fn key(position: u64) -> MixKey {
        MixKey { seed: 1, epoch: 2, position, global_batch: 8, place: 0 }
    }

    #[test]
    fn draws_are_made_per_batch_pair_or_sample() {
        let actions = |per| (0..16).map(|at| mixup(per).action(key(at))).collect::<Vec<_>>();
        let (batch, pair, sample) = (actions(Per::Batch), actions(Per::Pair), actions(Per::Sample));
        assert!(batch[..8].iter().all(|action| *action == batch[0]) && batch[8] != batch[0]);
        assert!((0..8).all(|at| pair[2 * at] == pair[2 * at + 1]) && pair[0] != pair[2]);
        assert_ne!(sample[0], sample[1]);
    }

    #[test]
    fn shares_have_the_mean_and_spread_of_their_distribution() {
        for alpha in [0.2, 1.0, 4.0] {
            let mut draw = Draw::new(&[1]);
            let all: Vec<f64> = (0..20_000).map(|_| beta(alpha, &mut draw)).collect();
            let mean = all.iter().sum::<f64>() / 20_000.0;
            let variance = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 20_000.0;
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!((mean - 0.5).abs() < 0.01 && (variance - expected).abs() < 0.05 * expected, "{alpha}");
        }
    }

    #[test]
    fn boxes_follow_their_dialect() {
        let size = Size::new(100, 60);
        let cut = Cut { middle: (0.505, 0.5), sides: (0.33, 0.33), like: MixDialect::Torchvision };
        // int(0.5 · 0.33 · 100) = 16 to both sides of 50; int(0.5 · 0.33 · 60) = 9 of 30.
        assert_eq!(cut.region(size), Region::new(34, 21, 32, 18));
        let timm = Cut { like: MixDialect::Timm, ..cut };
        // int(33) and int(19.8), the odd pixel on the high side.
        assert_eq!(timm.region(size), Region::new(34, 21, 33, 19));
        assert!((cut.own(size) - (1.0 - 32.0 * 18.0 / 6000.0)).abs() < 1e-12);
        let corner = Cut { middle: (0.0, 0.999), ..cut };
        assert_eq!(corner.region(size), Region::new(0, 50, 16, 10));
        let none = Cut { sides: (0.0, 0.0), ..cut };
        assert_eq!((none.region(size).size().area(), none.own(size)), (0, 1.0));
    }
}
