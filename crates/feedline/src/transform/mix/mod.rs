//! MIXING SAMPLES: MixUp, CutMix, Mosaic, CopyPaste, and soft labels.
//!
//! Partners are neighbours in the epoch's global order: positions that differ in the last bit, or the four that share
//! all but the last two. So the pairs depend only on (seed, epoch, position), whatever the number of ranks. This folder
//! describes and draws; `loader/mix` mixes, in the worker that has just made the rows.

mod draw;

use serde::{Deserialize, Serialize};

pub(crate) use draw::{MixAction, MixKey};

/// One operation on samples of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", deny_unknown_fields)]
#[non_exhaustive]
pub enum BatchTransform {
    /// Blends two samples.
    MixUp(MixUp),
    /// Copies a box of one sample into the other.
    CutMix(CutMix),
    /// Joins four samples.
    Mosaic(Mosaic),
    /// Pastes objects of one sample into the other.
    CopyPaste(CopyPaste),
    /// Smoothed labels as shares of classes.
    LabelSmoothing(LabelSmoothing),
    /// Labels as shares of classes.
    OneHot(OneHot),
    /// One of several.
    RandomChoice(MixChoice),
}

/// For how many samples one draw is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// All of a global batch.
    #[default]
    Batch,
    /// A pair (or four).
    Pair,
    /// Each sample.
    Sample,
}

/// Whose rules to use for the box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MixDialect {
    /// torchvision's.
    #[default]
    Torchvision,
    /// timm's.
    Timm,
}

fn one() -> f64 {
    1.0
}

fn label() -> String {
    "label".to_owned()
}

/// Blends two samples; the share is drawn from Beta(alpha, alpha).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixUp {
    /// Parameter of the Beta distribution.
    pub alpha: f64,
    /// Number of classes; labels become shares of them.
    pub num_classes: u64,
    /// The integer field with the class.
    #[serde(default = "label")]
    pub label: String,
    /// Probability, drawn as often as the share.
    #[serde(default = "one")]
    pub p: f64,
    /// How often the share is drawn.
    #[serde(default)]
    pub per: Per,
    /// Label smoothing.
    #[serde(default)]
    pub smoothing: f64,
}

/// Copies a box of one sample into the other; its share of the area is drawn from Beta(alpha, alpha).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutMix {
    /// Parameter of the Beta distribution.
    pub alpha: f64,
    /// Number of classes; labels become shares of them.
    pub num_classes: u64,
    /// The integer field with the class.
    #[serde(default = "label")]
    pub label: String,
    /// Probability, drawn as often as the share.
    #[serde(default = "one")]
    pub p: f64,
    /// How often the share is drawn.
    #[serde(default)]
    pub per: Per,
    /// Label smoothing.
    #[serde(default)]
    pub smoothing: f64,
    /// Whose rules to use for the box.
    #[serde(default)]
    pub like: MixDialect,
    /// Smallest and largest side of the box as shares of the image's, instead of `alpha` (timm's).
    #[serde(default)]
    pub minmax: Option<(f64, f64)>,
}

/// Joins four samples at a random point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mosaic {
    /// Probability, for each group of four.
    #[serde(default = "one")]
    pub p: f64,
    /// Range of the point, as shares of height and width.
    #[serde(default = "middle")]
    pub center: (f64, f64),
}

fn middle() -> (f64, f64) {
    (0.25, 0.75)
}

/// Pastes objects of one sample into the other, with their masks, boxes and labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyPaste {
    /// The field with the stack of masks.
    #[serde(default = "masks")]
    pub masks: String,
    /// Probability, for each sample.
    #[serde(default = "one")]
    pub p: f64,
    /// Share of the other's objects that are pasted, on average.
    #[serde(default = "half")]
    pub share: f64,
}

fn masks() -> String {
    "masks".to_owned()
}

fn half() -> f64 {
    0.5
}

/// Labels as shares: one minus `smoothing` for the right class, the rest shared by all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelSmoothing {
    /// Number of classes.
    pub num_classes: u64,
    /// Share of the smoothing.
    pub smoothing: f64,
    /// The integer field with the class.
    #[serde(default = "label")]
    pub label: String,
}

/// Labels as shares: one for the class, zero for others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneHot {
    /// Number of classes.
    pub num_classes: u64,
    /// The integer field with the class.
    #[serde(default = "label")]
    pub label: String,
}

/// One of several operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixChoice {
    /// The operations to choose from.
    pub transforms: Vec<BatchTransform>,
    /// Weights; equal if `None`.
    #[serde(default)]
    pub p: Option<Vec<f64>>,
}

/// How labels of one field become shares of classes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Soft {
    pub(crate) label: String,
    pub(crate) classes: u64,
    pub(crate) smoothing: f64,
}

/// Largest number of classes: beyond this, the labels of a batch would be larger than its images.
const MOST_CLASSES: u64 = 1 << 20;

impl BatchTransform {
    /// Number of rows that are made together for it.
    pub(crate) fn group(&self) -> u64 {
        match self {
            BatchTransform::MixUp(_) | BatchTransform::CutMix(_) | BatchTransform::CopyPaste(_) => 2,
            BatchTransform::Mosaic(_) => 4,
            BatchTransform::LabelSmoothing(_) | BatchTransform::OneHot(_) => 1,
            BatchTransform::RandomChoice(of) => of.transforms.iter().map(Self::group).max().unwrap_or(1),
        }
    }

    /// How labels become shares of classes, if they do.
    pub(crate) fn soft(&self) -> Vec<Soft> {
        let soft = |label: &str, classes: u64, smoothing: f64| {
            vec![Soft { label: label.to_owned(), classes, smoothing }]
        };
        match self {
            BatchTransform::MixUp(op) => soft(&op.label, op.num_classes, op.smoothing),
            BatchTransform::CutMix(op) => soft(&op.label, op.num_classes, op.smoothing),
            BatchTransform::LabelSmoothing(op) => soft(&op.label, op.num_classes, op.smoothing),
            BatchTransform::OneHot(op) => soft(&op.label, op.num_classes, 0.0),
            BatchTransform::Mosaic(_) | BatchTransform::CopyPaste(_) => Vec::new(),
            BatchTransform::RandomChoice(of) => of.transforms.iter().flat_map(Self::soft).collect(),
        }
    }

    /// All operations, including those inside choices.
    pub(crate) fn each(&self) -> Vec<&BatchTransform> {
        match self {
            BatchTransform::RandomChoice(of) => of.transforms.iter().flat_map(Self::each).collect(),
            other => vec![other],
        }
    }

    /// Name as users write it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            BatchTransform::MixUp(_) => "MixUp",
            BatchTransform::CutMix(_) => "CutMix",
            BatchTransform::Mosaic(_) => "Mosaic",
            BatchTransform::CopyPaste(_) => "CopyPaste",
            BatchTransform::LabelSmoothing(_) => "LabelSmoothing",
            BatchTransform::OneHot(_) => "OneHot",
            BatchTransform::RandomChoice(_) => "RandomChoice",
        }
    }

    /// Checks the settings; the error is the reason.
    pub(crate) fn check(&self) -> Result<(), String> {
        for Soft { classes, smoothing, .. } in self.soft() {
            if !(1..=MOST_CLASSES).contains(&classes) {
                return Err(format!("num_classes must be between 1 and {MOST_CLASSES}, not {classes}"));
            }
            within("smoothing", smoothing, 0.0, 1.0)?;
        }
        match self {
            BatchTransform::MixUp(op) => check_mix(op.alpha, op.p),
            BatchTransform::CutMix(op) => {
                check_mix(op.alpha, op.p)?;
                op.minmax.map_or(Ok(()), |(low, high)| {
                    within("minmax", low, 0.0, high)?;
                    within("minmax", high, low, 1.0)
                })
            }
            BatchTransform::Mosaic(op) => {
                within("p", op.p, 0.0, 1.0)?;
                within("center", op.center.0, 0.0, op.center.1)?;
                within("center", op.center.1, 0.0, 1.0)
            }
            BatchTransform::CopyPaste(op) => {
                within("p", op.p, 0.0, 1.0)?;
                within("share", op.share, 0.0, 1.0)
            }
            BatchTransform::LabelSmoothing(_) | BatchTransform::OneHot(_) => Ok(()),
            BatchTransform::RandomChoice(of) => check_choice(of),
        }
    }
}

fn check_mix(alpha: f64, p: f64) -> Result<(), String> {
    if !(alpha > 0.0 && alpha <= 1e3) {
        return Err(format!("alpha must be above 0 and at most 1000, not {alpha}"));
    }
    within("p", p, 0.0, 1.0)
}

fn check_choice(of: &MixChoice) -> Result<(), String> {
    if of.transforms.is_empty() {
        return Err("nothing to choose from".to_owned());
    }
    if let Some(p) = &of.p {
        let good = p.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if p.len() != of.transforms.len() || !good || p.iter().sum::<f64>() <= 0.0 {
            return Err(format!("p must be {} weights, not all 0", of.transforms.len()));
        }
    }
    of.transforms.iter().try_for_each(BatchTransform::check)
}

fn within(name: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} must be between {low} and {high}, not {value}"))
}
