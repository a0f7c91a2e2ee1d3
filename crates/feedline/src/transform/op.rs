//! The interface of an operation.

use feedline_pixels::{Channels, Size};

use super::params::Place;
use super::{Params, Transform};

/// What is known of an image before any sample is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Form {
    /// Size, if it is the same for every sample.
    pub(crate) size: Option<Size>,
    pub(crate) channels: Channels,
    /// Whether `Normalize` has converted it to floats.
    pub(crate) normalised: bool,
    /// Number of crops of one image side by side.
    pub(crate) copies: u32,
}

/// An operation. The error of every method is only the reason; callers add the operation and its
/// place.
pub(crate) trait Op {
    /// Checks the parameters, independently of the image.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The form of the result for an image of this form.
    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(before)
    }

    /// Draws the action for the image as it is after `into`.
    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String>;

    /// Depth of nested lists.
    fn depth(&self) -> usize {
        0
    }

    /// Whether it works on floats, that is, after `Normalize`.
    fn takes_floats(&self) -> bool {
        false
    }
}

/// Checks a list and determines the form of its result.
pub(crate) fn check_list(ops: &[Transform], mut form: Form) -> Result<Form, String> {
    for (at, transform) in ops.iter().enumerate() {
        let named = |reason| format!("number {} ({}): {reason}", at + 1, transform.name());
        if form.normalised && !transform.op().takes_floats() {
            let reason = "Normalize must come last (only RandomErasing may follow), and once: what follows it would \
                          see floats";
            return Err(named(reason.to_owned()));
        }
        transform.op().check().map_err(named)?;
        form = transform.op().output(form).map_err(named)?;
    }
    Ok(form)
}

/// The same for a nested list, where `Normalize` is not allowed.
pub(crate) fn check_inner(ops: &[Transform], before: Form) -> Result<Form, String> {
    let after = check_list(ops, before)?;
    if after.normalised != before.normalised {
        return Err("Normalize must stand in the outermost list".to_owned());
    }
    Ok(after)
}

/// Longest side of an image in the middle of a list, whatever window of it is used in the end: all
/// arithmetic on places stays in range.
const MOST_SIDE: u32 = 1 << 30;

pub(crate) fn check_side(size: Size) -> Result<(), String> {
    if size.width.max(size.height) <= MOST_SIDE {
        return Ok(());
    }
    Err(format!("{}x{} (height x width) is too large for any result", size.height, size.width))
}

/// Draws the action of `transform` and checks the resulting size.
pub(crate) fn draw_checked(transform: &Transform, place: &Place, into: &mut Params) -> Result<(), String> {
    transform.op().draw(place, into)?;
    check_side(into.size())
}

/// Checks a probability.
pub(crate) fn check_p(p: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(format!("p must be between 0 and 1, not {p}"))
}

/// Checks the sides of a size.
pub(crate) fn check_size((height, width): (u32, u32)) -> Result<(), String> {
    let good = |side: u32| (1..=1 << 16).contains(&side);
    if good(height) && good(width) {
        return Ok(());
    }
    Err(format!("sizes must be between 1 and 65536, not {height} x {width}"))
}

/// Checks a pair (low, high) within bounds.
pub(crate) fn check_range(
    name: &str,
    (low, high): (f64, f64),
    (least, most): (f64, f64),
) -> Result<(), String> {
    if low >= least && low <= high && high <= most && high.is_finite() {
        return Ok(());
    }
    let most = if most.is_finite() { format!(" and {most}") } else { " and any finite number".to_owned() };
    Err(format!("{name} must be (low, high) between {least}{most}, not ({low}, {high})"))
}

pub(crate) fn half() -> f64 {
    0.5
}
