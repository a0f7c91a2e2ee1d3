//! `Compose`, `RandomApply`, `RandomChoice`, `RandomOrder`.

use serde::{Deserialize, Serialize};

use crate::transform::Transform;
use crate::transform::op::{Form, Op, check_inner, check_p, draw_checked, half};
use crate::transform::params::{Params, Place};

/// Depth of nested lists in this one.
pub(super) fn depth(transforms: &[Transform]) -> usize {
    1 + transforms.iter().map(|transform| transform.op().depth()).max().unwrap_or(0)
}

fn draw_one(transforms: &[Transform], at: usize, place: &Place, into: &mut Params) -> Result<(), String> {
    let transform = &transforms[at];
    draw_checked(transform, &place.inside(at), into).map_err(|why| format!("{}: {why}", transform.name()))
}

pub(super) fn draw_all(transforms: &[Transform], place: &Place, into: &mut Params) -> Result<(), String> {
    (0..transforms.len()).try_for_each(|at| draw_one(transforms, at, place, into))
}

/// The form of the result if either of two forms is possible.
pub(super) fn either(a: Form, b: Form) -> Result<Form, String> {
    if a.copies != b.copies {
        return Err("the number of crops would be random".to_owned());
    }
    if a.channels != b.channels {
        return Err("the number of channels would be random".to_owned());
    }
    Ok(Form { size: a.size.filter(|size| b.size == Some(*size)), ..a })
}

/// Applies several transforms, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compose {
    /// The transforms.
    pub transforms: Vec<Transform>,
}

impl Op for Compose {
    fn output(&self, before: Form) -> Result<Form, String> {
        check_inner(&self.transforms, before)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        draw_all(&self.transforms, place, into)
    }

    fn depth(&self) -> usize {
        depth(&self.transforms)
    }
}

/// Applies several transforms, one after the other, with probability `p`; else none of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomApply {
    /// The transforms.
    pub transforms: Vec<Transform>,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomApply {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        either(check_inner(&self.transforms, before)?, before)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            draw_all(&self.transforms, place, into)?;
        }
        Ok(())
    }

    fn depth(&self) -> usize {
        depth(&self.transforms)
    }
}

/// Applies one of several transforms, by weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomChoice {
    /// The transforms.
    pub transforms: Vec<Transform>,
    /// Weight of each; all equal if `None`.
    #[serde(default)]
    pub p: Option<Vec<f64>>,
}

impl Op for RandomChoice {
    fn check(&self) -> Result<(), String> {
        if self.transforms.is_empty() {
            return Err("give at least one to choose from".to_owned());
        }
        let Some(weights) = &self.p else { return Ok(()) };
        let sum: f64 = weights.iter().sum();
        let good = weights.iter().all(|w| *w >= 0.0) && sum > 0.0 && sum.is_finite();
        if good && weights.len() == self.transforms.len() {
            return Ok(());
        }
        Err(format!("p must be {} weights of at least 0, not all of them 0", self.transforms.len()))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        let mut form: Option<Form> = None;
        for transform in &self.transforms {
            let one = check_inner(std::slice::from_ref(transform), before)?;
            form = Some(form.map_or(Ok(one), |form| either(form, one))?);
        }
        Ok(form.unwrap_or(before))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let count = self.transforms.len();
        let at = match &self.p {
            None => draw.below(count as u64) as usize,
            Some(weights) => {
                let mut left = draw.unit() * weights.iter().sum::<f64>();
                let chosen = weights.iter().position(|weight| {
                    left -= weight;
                    left < 0.0
                });
                // Because of rounding nothing may be chosen: then it is the last with a positive weight.
                chosen.or(weights.iter().rposition(|w| *w > 0.0)).unwrap_or(count - 1)
            }
        };
        draw_one(&self.transforms, at, place, into)
    }

    fn depth(&self) -> usize {
        depth(&self.transforms)
    }
}

/// Applies several transforms, in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomOrder {
    /// The transforms.
    pub transforms: Vec<Transform>,
}

impl Op for RandomOrder {
    fn output(&self, before: Form) -> Result<Form, String> {
        let after = check_inner(&self.transforms, before)?;
        // Another order may give another size, unless every transform keeps it.
        let keep = |t: &Transform| t.op().output(before).is_ok_and(|form| form.size == before.size);
        let size = after.size.filter(|_| self.transforms.iter().all(keep));
        Ok(Form { size, ..after })
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let mut order: Vec<usize> = (0..self.transforms.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, draw.below(last as u64 + 1) as usize);
        }
        order.into_iter().try_for_each(|at| draw_one(&self.transforms, at, place, into))
    }

    fn depth(&self) -> usize {
        depth(&self.transforms)
    }
}

/// Applies `n` of the transforms, in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SomeOf {
    /// The transforms.
    pub transforms: Vec<Transform>,
    /// Smallest and largest number.
    pub n: (u32, u32),
    /// Whether one may be chosen more than once.
    #[serde(default)]
    pub replace: bool,
    /// Whether they keep the list's order.
    #[serde(default)]
    pub ordered: bool,
}

impl Op for SomeOf {
    fn check(&self) -> Result<(), String> {
        let (low, high) = self.n;
        let most = if self.replace { 100 } else { self.transforms.len() as u32 };
        if self.transforms.is_empty() || low > high || high > most {
            return Err(format!("n must be (low, high) between 0 and {most}, not ({low}, {high})"));
        }
        Ok(())
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        let mut form = before;
        for transform in &self.transforms {
            let one = check_inner(std::slice::from_ref(transform), before)?;
            form = either(form, one)?;
        }
        // Any of them may follow any other, so a size that one of them changes is not known.
        let keep = |t: &Transform| t.op().output(before).is_ok_and(|form| form.size == before.size);
        Ok(Form { size: form.size.filter(|_| self.transforms.iter().all(keep)), ..form })
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let (low, high) = self.n;
        let count = low + draw.below(u64::from(high - low) + 1) as u32;
        let mut left: Vec<usize> = (0..self.transforms.len()).collect();
        let mut chosen = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let at = draw.below(left.len() as u64) as usize;
            chosen.push(if self.replace { left[at] } else { left.swap_remove(at) });
        }
        if self.ordered {
            chosen.sort_unstable();
        }
        for (step, which) in chosen.into_iter().enumerate() {
            let inside = place.inside(which);
            // A transform that is chosen twice draws its parameters twice.
            let own = if self.replace { inside.inside(step) } else { inside };
            let transform = &self.transforms[which];
            draw_checked(transform, &own, into).map_err(|why| format!("{}: {why}", transform.name()))?;
        }
        Ok(())
    }

    fn depth(&self) -> usize {
        depth(&self.transforms) + usize::from(self.replace)
    }
}
