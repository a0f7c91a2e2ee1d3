//! `CircularMask`, `RandomEmbed`, `RandomBackgroundBlend`, `PowerLawNoise`: images in front of backgrounds.

use feedline_pixels::{Background, Effect, Fade, Scene, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::random::Draw;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_p, check_range, check_size};
use crate::transform::params::{Params, Place, tidy};

fn always() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// Background of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackgroundKind {
    /// Black.
    #[default]
    Zeros,
    /// One colour.
    Constant,
    /// Noise whose power falls with frequency.
    PowerLaw,
}

/// Transition from an image to its background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FadeMode {
    /// A disc with a Gaussian edge.
    Circular,
    /// Half a cosine from the centre outwards.
    Cosine,
}

/// Range of the exponent in 1/f^alpha; larger ones are flat.
const ALPHAS: (f64, f64) = (0.0, 10.0);

/// Shows a disc and makes the rest black; its edge is a Gaussian that has fallen to `tol` after `blur_span` pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CircularMask {
    /// Pixels from the disc's edge to black.
    #[serde(default = "eight")]
    pub blur_span: f64,
    /// The value that counts as black.
    #[serde(default = "default_tolerance")]
    pub tol: f64,
    /// Colour of the rest.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn eight() -> f64 {
    8.0
}

fn default_tolerance() -> f64 {
    0.0005
}

/// The standard deviation of a Gaussian that has fallen to `tolerance` after `span` pixels.
fn deviation(span: f64, tolerance: f64) -> f64 {
    (span / (-2.0 * tolerance.ln()).sqrt()).max(1e-3)
}

impl Op for CircularMask {
    fn check(&self) -> Result<(), String> {
        check_range("blur_span", (self.blur_span, self.blur_span), (0.0, 65536.0))?;
        check_range("tol", (self.tol, self.tol), (1e-9, 0.999))
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        let size = into.size();
        let radius = (f64::from(size.width.min(size.height)) / 2.0 - self.blur_span).max(0.0);
        let fade = FadeSpec::Circular { radius, sigma: tidy(deviation(self.blur_span, self.tol)) };
        let background = BackgroundSpec::Colour { colour: self.fill };
        into.push(Composed {
            size: (size.height, size.width),
            corner: (0, 0),
            background,
            fade,
            opacity: 1.0,
        });
        Ok(())
    }
}

/// Puts the image at a random place on a canvas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomEmbed {
    /// Result's height and width.
    pub canvas_size: (u32, u32),
    /// Place of the image's centre: smallest and largest share of the width.
    #[serde(default = "middle")]
    pub x_range: (f64, f64),
    /// The same for the height.
    #[serde(default = "middle")]
    pub y_range: (f64, f64),
    /// Background behind the image.
    #[serde(default)]
    pub background: BackgroundKind,
    /// Colour of a constant background.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Smallest and largest exponent of noise.
    #[serde(default = "two")]
    pub alpha_range: (f64, f64),
    /// Whether the noise is coloured.
    #[serde(default = "yes")]
    pub color_noise: bool,
    /// Start of the fade, in pixels from the image's centre; `None` for no fade.
    #[serde(default)]
    pub fade_radius: Option<f64>,
    /// Probability of the fade.
    #[serde(default = "always")]
    pub p_fade: f64,
}

fn middle() -> (f64, f64) {
    (0.5, 0.5)
}

fn two() -> (f64, f64) {
    (2.0, 2.0)
}

fn background(
    kind: BackgroundKind,
    fill: [u8; 3],
    alpha: (f64, f64),
    coloured: bool,
    (mean, spread): ([f64; 3], [f64; 3]),
    draw: &mut Draw,
) -> BackgroundSpec {
    match kind {
        BackgroundKind::Zeros => BackgroundSpec::Colour { colour: [0; 3] },
        BackgroundKind::Constant => BackgroundSpec::Colour { colour: fill },
        BackgroundKind::PowerLaw => {
            let alpha = tidy(draw.between(alpha.0, alpha.1));
            BackgroundSpec::PowerLaw { alpha, coloured, seed: draw.bits(), mean, spread }
        }
    }
}

/// All levels.
const WHOLE_RANGE: ([f64; 3], [f64; 3]) = ([127.5; 3], [127.5; 3]);

impl Op for RandomEmbed {
    fn check(&self) -> Result<(), String> {
        check_range("x_range", self.x_range, (-10.0, 10.0))?;
        check_range("y_range", self.y_range, (-10.0, 10.0))?;
        check_range("alpha_range", self.alpha_range, ALPHAS)?;
        if let Some(radius) = self.fade_radius {
            check_range("fade_radius", (radius, radius), (0.0, 65536.0))?;
        }
        if !(0.0..=1.0).contains(&self.p_fade) {
            return Err(format!("p_fade must be between 0 and 1, not {}", self.p_fade));
        }
        check_size(self.canvas_size)?;
        check_noise(self.background, self.canvas_size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        let (height, width) = self.canvas_size;
        Ok(Form { size: Some(Size::new(width, height)), ..before })
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        let (height, width) = self.canvas_size;
        let corner = |range: (f64, f64), canvas: u32, image: u32, draw: &mut Draw| {
            let middle = draw.between(range.0, range.1) * f64::from(canvas);
            (middle - f64::from(image) / 2.0).round_ties_even() as i32
        };
        let x = corner(self.x_range, width, size.width, &mut draw);
        let y = corner(self.y_range, height, size.height, &mut draw);
        let behind = background(
            self.background,
            self.fill,
            self.alpha_range,
            self.color_noise,
            WHOLE_RANGE,
            &mut draw,
        );
        let fade = match self.fade_radius {
            Some(radius) if draw.chance(self.p_fade) => {
                let outer = f64::from(size.width.min(size.height)) / 2.0;
                FadeSpec::Cosine { inner: tidy(radius.min(outer)), outer: tidy(outer) }
            }
            _ => FadeSpec::None,
        };
        into.push(Composed {
            size: self.canvas_size,
            corner: (x, y),
            background: behind,
            fade,
            opacity: 1.0,
        });
        Ok(())
    }
}

/// Noise is computed on a canvas whose sides are the next powers of two.
fn check_noise(kind: BackgroundKind, (height, width): (u32, u32)) -> Result<(), String> {
    if kind == BackgroundKind::PowerLaw && height.max(width) > 8192 {
        return Err(format!("power-law noise goes up to 8192 pixels a side, not {height} x {width}"));
    }
    Ok(())
}

/// Fades the image into a background of the same size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomBackgroundBlend {
    /// Background behind the image.
    #[serde(default)]
    pub background: BackgroundKind,
    /// Colour of a constant background.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Mean of noise per channel, in units where white is 1.
    #[serde(default = "halves")]
    pub mean: [f64; 3],
    /// Largest distance of the noise from its mean.
    #[serde(default = "halves")]
    pub std: [f64; 3],
    /// Smallest and largest exponent of noise.
    #[serde(default = "two")]
    pub alpha_range: (f64, f64),
    /// Whether the noise is coloured.
    #[serde(default = "yes")]
    pub color_noise: bool,
    /// Factor on that distance.
    #[serde(default = "always")]
    pub noise_scale: f64,
    /// Transition from image to background.
    #[serde(default)]
    pub fade_mode: Option<FadeMode>,
    /// Start of the fade, as a share of half the shorter side.
    #[serde(default = "half_way")]
    pub fade_radius: f64,
    /// Pixels from the edge where the fade ends.
    #[serde(default)]
    pub inset: f64,
    /// Probability of the fade.
    #[serde(default = "always")]
    pub p_fade: f64,
    /// Probability of the background; else it is black.
    #[serde(default = "always")]
    pub p_background: f64,
}

fn halves() -> [f64; 3] {
    [0.5; 3]
}

fn half_way() -> f64 {
    0.5
}

impl Op for RandomBackgroundBlend {
    fn check(&self) -> Result<(), String> {
        for value in self.mean.iter().chain(&self.std) {
            check_range("mean and std", (*value, *value), (-10.0, 10.0))?;
        }
        check_range("alpha_range", self.alpha_range, ALPHAS)?;
        check_range("noise_scale", (self.noise_scale, self.noise_scale), (0.0, 100.0))?;
        check_range("fade_radius", (self.fade_radius, self.fade_radius), (0.0, 10.0))?;
        check_range("inset", (self.inset, self.inset), (0.0, 65536.0))?;
        for (name, p) in [("p_fade", self.p_fade), ("p_background", self.p_background)] {
            if !(0.0..=1.0).contains(&p) {
                return Err(format!("{name} must be between 0 and 1, not {p}"));
            }
        }
        Ok(())
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        before.size.map_or(Ok(()), |size| check_noise(self.background, (size.height, size.width)))?;
        Ok(before)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        check_noise(self.background, (size.height, size.width))?;
        let kind = if draw.chance(self.p_background) { self.background } else { BackgroundKind::Zeros };
        let levels = self.mean.map(|mean| tidy(mean * 255.0));
        let reach = self.std.map(|std| tidy(std * 255.0 * self.noise_scale));
        let behind =
            background(kind, self.fill, self.alpha_range, self.color_noise, (levels, reach), &mut draw);
        let outer = (f64::from(size.width.min(size.height)) / 2.0 - self.inset).max(0.0);
        let inner = (outer * self.fade_radius).min(outer);
        let fade = match self.fade_mode {
            Some(mode) if draw.chance(self.p_fade) => match mode {
                FadeMode::Cosine => FadeSpec::Cosine { inner: tidy(inner), outer: tidy(outer) },
                FadeMode::Circular => {
                    let sigma = tidy(deviation(outer - inner, default_tolerance()));
                    FadeSpec::Circular { radius: tidy(inner), sigma }
                }
            },
            _ => FadeSpec::None,
        };
        let size = (size.height, size.width);
        into.push(Composed { size, corner: (0, 0), background: behind, fade, opacity: 1.0 });
        Ok(())
    }
}

/// Blends power-law noise over the image, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerLawNoise {
    /// Smallest and largest exponent: 0 is white noise, 2 is as in natural images.
    #[serde(default = "two")]
    pub alpha_range: (f64, f64),
    /// Smallest and largest share of the noise in the result.
    #[serde(default = "some")]
    pub strength: (f64, f64),
    /// Whether the noise is coloured.
    #[serde(default = "yes")]
    pub color_noise: bool,
    /// Probability.
    #[serde(default = "half_way")]
    pub p: f64,
}

fn some() -> (f64, f64) {
    (0.1, 0.5)
}

impl Op for PowerLawNoise {
    fn check(&self) -> Result<(), String> {
        check_range("alpha_range", self.alpha_range, ALPHAS)?;
        check_range("strength", self.strength, (0.0, 1.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        check_noise(BackgroundKind::PowerLaw, (size.height, size.width))?;
        if draw.chance(self.p) {
            let opacity = tidy(1.0 - draw.between(self.strength.0, self.strength.1));
            let kind = BackgroundKind::PowerLaw;
            let behind = background(kind, [0; 3], self.alpha_range, self.color_noise, WHOLE_RANGE, &mut draw);
            let (size, fade) = ((size.height, size.width), FadeSpec::None);
            into.push(Composed { size, corner: (0, 0), background: behind, fade, opacity });
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
enum BackgroundSpec {
    Colour { colour: [u8; 3] },
    PowerLaw { alpha: f64, coloured: bool, seed: u64, mean: [f64; 3], spread: [f64; 3] },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
enum FadeSpec {
    None,
    Circular { radius: f64, sigma: f64 },
    Cosine { inner: f64, outer: f64 },
}

/// An image on a canvas of (height, width), its corner at (column, row), faded into a background.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Composed {
    size: (u32, u32),
    corner: (i32, i32),
    background: BackgroundSpec,
    fade: FadeSpec,
    opacity: f64,
}

impl Act for Composed {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("opacity", (self.opacity, self.opacity), (0.0, 1.0))?;
        if let BackgroundSpec::PowerLaw { alpha, .. } = self.background {
            check_range("alpha", (alpha, alpha), ALPHAS)?;
            check_noise(BackgroundKind::PowerLaw, self.size)?;
        }
        if self.corner.0.unsigned_abs().max(self.corner.1.unsigned_abs()) > 1 << 20 {
            return Err(format!("a corner at {:?} is too far outside", self.corner));
        }
        check_size(self.size)
    }

    fn output(&self, _before: Size) -> Size {
        Size::new(self.size.1, self.size.0)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let background = match self.background {
            BackgroundSpec::Colour { colour } => Background::Colour(colour),
            BackgroundSpec::PowerLaw { alpha, coloured, seed, mean, spread } => Background::PowerLaw {
                alpha: alpha as f32,
                coloured,
                seed,
                mean: mean.map(|v| v as f32),
                spread: spread.map(|v| v as f32),
            },
        };
        let fade = match self.fade {
            FadeSpec::None => Fade::None,
            FadeSpec::Circular { radius, sigma } => {
                Fade::Gaussian { radius: radius as f32, sigma: sigma as f32 }
            }
            FadeSpec::Cosine { inner, outer } => Fade::Cosine { inner: inner as f32, outer: outer as f32 },
        };
        let canvas = Size::new(self.size.1, self.size.0);
        let scene = Scene { canvas, corner: self.corner, background, fade, opacity: self.opacity as f32 };
        fusion.whole_placed(WholeOp::Effect(Box::new(Effect::Scene(scene))), canvas);
    }
}
