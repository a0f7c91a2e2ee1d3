//! The filters, by Pillow's definitions.

/// Interpolation filters, with the names and curves of Pillow and of torchvision's `InterpolationMode`.
/// All but `Nearest` widen with the ratio when shrinking (antialiasing).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// The source pixel under the output pixel's centre.
    Nearest,
    /// The mean of the pixels under the output pixel.
    Box,
    /// Triangle; the default of nearly every training recipe.
    Bilinear,
    /// Hamming window, as sharp as bicubic at the cost of bilinear.
    Hamming,
    /// Keys' cubic with a = -0.5.
    Bicubic,
    /// Windowed sinc over three lobes.
    Lanczos,
}

impl Filter {
    /// Half the width of the curve, in source pixels when enlarging.
    pub(crate) fn support(self) -> f64 {
        match self {
            Filter::Nearest | Filter::Box => 0.5,
            Filter::Bilinear | Filter::Hamming => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    /// Height of the curve at a distance from its centre.
    pub(crate) fn weight(self, x: f64) -> f64 {
        match self {
            Filter::Nearest | Filter::Box => f64::from(x > -0.5 && x <= 0.5),
            Filter::Bilinear => (1.0 - x.abs()).max(0.0),
            Filter::Hamming => hamming(x.abs()),
            Filter::Bicubic => bicubic(x.abs()),
            Filter::Lanczos => lanczos(x),
        }
    }

    /// Whether the curve goes below zero, so that results can leave the range of their inputs.
    pub(crate) fn overshoots(self) -> bool {
        matches!(self, Filter::Bicubic | Filter::Lanczos)
    }

    /// Number of bits of a weight. Filters that overshoot need a bit of headroom, taken from the fraction.
    pub(crate) fn bits(self) -> u32 {
        if self.overshoots() { 14 } else { 15 }
    }
}

fn hamming(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    if x >= 1.0 {
        return 0.0;
    }
    let angle = x * std::f64::consts::PI;
    angle.sin() / angle * (0.54 + 0.46 * angle.cos())
}

fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

fn lanczos(x: f64) -> f64 {
    let sinc = |x: f64| {
        let angle = x * std::f64::consts::PI;
        if x == 0.0 { 1.0 } else { angle.sin() / angle }
    };
    if (-3.0..3.0).contains(&x) { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}
