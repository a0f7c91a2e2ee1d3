//! `TokenWindow`: cuts windows of a fixed length out of a stream of tokens. It is used in the list of an array field.

use serde::{Deserialize, Serialize};

use super::op::{Form, Op};
use super::params::{Params, Place};

/// Which windows an epoch has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowPolicy {
    /// One window after the other, `stride` apart; the loader's order applies to them.
    #[default]
    Sequential,
    /// Windows that begin at random tokens, different in every epoch, as many as would cover the stream once.
    Random,
}

/// Windows of `size` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenWindow {
    /// Tokens per window.
    pub size: u64,
    /// Whether batches also have each window one token later.
    #[serde(default)]
    pub targets: bool,
    /// Tokens from the start of a window to the start of the next; `size` if `None`.
    #[serde(default)]
    pub stride: Option<u64>,
    /// Which windows.
    #[serde(default)]
    pub policy: WindowPolicy,
    /// Whether windows run on from one document or file into the next.
    #[serde(default = "yes")]
    pub across: bool,
}

fn yes() -> bool {
    true
}

impl TokenWindow {
    /// Tokens that a window reads: one more if its targets are wanted.
    pub(crate) fn length(&self) -> u64 {
        self.size.saturating_add(u64::from(self.targets))
    }
}

impl Op for TokenWindow {
    fn check(&self) -> Result<(), String> {
        if self.size == 0 || self.stride == Some(0) {
            return Err("size and stride are at least 1".to_owned());
        }
        if self.size > 1 << 40 {
            return Err(format!("a window of {} tokens", self.size));
        }
        if self.policy == WindowPolicy::Random && self.stride.is_some() {
            return Err("random windows begin anywhere; leave stride out".to_owned());
        }
        Ok(())
    }

    fn output(&self, _before: Form) -> Result<Form, String> {
        Err("is for a field of tokens, not for images".to_owned())
    }

    fn draw(&self, _place: &Place, _into: &mut Params) -> Result<(), String> {
        Err("is not for images".to_owned())
    }
}
