//! A program: passes over pixels.

use std::ops::Range;

use crate::random::Draw;
use feedline_pixels::{Filter, Geometry, Opponent, Region, RowOp, Size, Warp, WholeOp};

/// Separates noise from all other uses of a seed.
const NOISE: u64 = 0x6e_6f69_7365; // "noise"

/// One pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Segment {
    /// Crop, resize, window, flips. A program begins with one: it determines which part of the image is decoded.
    Resample { geometry: Geometry, filter: Filter },
    /// Moves pixels.
    Warp(Warp),
    /// Operations on single pixels, applied while rows are in the cache: positions in [`Program::rows`].
    Rows(Range<usize>),
    /// An operation that needs the whole image.
    Whole(WholeOp),
    /// A weighted sum of the image and the results of chains of passes; none changes its size.
    Mix { own: f32, chains: Vec<Chain> },
}

/// One chain of a mixture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chain {
    pub(crate) weight: f32,
    pub(crate) program: Program,
}

/// A box to erase in the finished tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Erasure {
    pub(crate) region: Region,
    pub(crate) value: ErasureValue,
}

/// Content of an erased box, in units of the tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ErasureValue {
    /// One number per channel.
    Channels([f32; 3]),
    /// Normal noise of mean 0 and standard deviation 1, from this seed.
    Noise(u64),
}

impl ErasureValue {
    /// The next value of a channel.
    pub(crate) fn values(self) -> impl FnMut(usize) -> f32 {
        let mut noise = match self {
            ErasureValue::Noise(seed) => Some(Draw::new(&[NOISE, seed])),
            ErasureValue::Channels(_) => None,
        };
        move |channel| match (self, &mut noise) {
            (ErasureValue::Channels(values), _) => values[channel],
            (_, Some(draw)) => draw.normal() as f32,
            (ErasureValue::Noise(_), None) => unreachable!("noise has a source"),
        }
    }
}

/// Passes for one sample; reused for the next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) segments: Vec<Segment>,
    pub(crate) rows: Vec<RowOp>,
    /// Applied last, on tensor elements.
    pub(crate) erasures: Vec<Erasure>,
    /// Opponent channels, if colours become these instead of tensor elements.
    pub(crate) opponent: Option<Opponent>,
    /// Numbers of the sample's boxes that stay; all of them if `None`.
    pub(crate) boxes: Option<Vec<u32>>,
    /// Size of the result.
    pub(crate) output: Size,
}

impl Default for Program {
    fn default() -> Self {
        Program {
            segments: Vec::new(),
            rows: Vec::new(),
            erasures: Vec::new(),
            opponent: None,
            boxes: None,
            output: Size::new(0, 0),
        }
    }
}

impl Program {
    /// The unchanged image.
    pub(crate) fn identity(size: Size) -> Self {
        let whole = Segment::Resample { geometry: Geometry::identity(size), filter: Filter::Bilinear };
        Program { segments: vec![whole], output: size, ..Program::default() }
    }

    pub(super) fn clear(&mut self) {
        self.segments.clear();
        self.rows.clear();
        self.erasures.clear();
        self.opponent = None;
        self.boxes = None;
    }

    /// Size of each pass's result, first to last.
    pub(crate) fn results(&self) -> impl Iterator<Item = Size> {
        self.segments.iter().scan(self.output, |size, segment| {
            *size = match segment {
                Segment::Resample { geometry, .. } => geometry.output(),
                Segment::Warp(warp) => warp.output,
                Segment::Whole(op) => op.output(*size),
                Segment::Rows(_) | Segment::Mix { .. } => *size,
            };
            Some(*size)
        })
    }

    /// Whether there is nothing but the first pass, and pixels stay as they are.
    pub(crate) fn only_crops(&self) -> bool {
        self.segments.len() == 1 && self.erasures.is_empty() && self.opponent.is_none()
    }

    /// The first pass, which reads the encoded image.
    pub(crate) fn first(&self) -> Option<(&Geometry, Filter)> {
        match self.segments.first() {
            Some(Segment::Resample { geometry, filter }) => Some((geometry, *filter)),
            _ => None,
        }
    }
}
