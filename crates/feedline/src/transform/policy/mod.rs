//! Operations that contain or choose operations.

mod augmix;
mod auto_augment;
mod lists;
mod schedule;
mod space;
mod three_augment;
mod timm;
mod yoked;

pub use augmix::AugMix;
pub use auto_augment::{AutoAugment, AutoAugmentPolicy, Dialect, RandAugment, TrivialAugmentWide};
pub use lists::{Compose, RandomApply, RandomChoice, RandomOrder, SomeOf};
pub use schedule::Schedule;
pub use three_augment::ThreeAugment;
pub use yoked::Yoked;

pub(crate) use augmix::{Mixed, gamma};
