//! WHAT A FIELD'S BYTES MEAN.
//!
//! An adapter over `feedline_pixels`: an encoded picture and the steps to take → a finished row of the batch. It knows
//! neither batches nor order, and draws nothing.

mod image;

pub(crate) use image::{ImageDecoder, Picture, Spent};
