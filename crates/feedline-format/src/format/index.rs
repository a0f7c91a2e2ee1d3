//! [`Index`]: what a data set knows of its samples without reading them.

use crate::error::{Error, Location, Result};
use crate::sample::ImageMeta;

/// What the index knows: lengths, sizes of images, small numbers. With it, undecoded batches are laid out beforehand
/// and filled without a copy in between.
///
/// Answers never change while the data set is open. Every method has an answer for formats that know nothing.
pub trait Index {
    /// The byte length of an image, text, json or bytes field, if the index knows it without reading the sample.
    fn byte_length(&self, _sample: u64, _field: usize) -> Option<u64> {
        None
    }

    /// Whether [`byte_length`](Self::byte_length) tells lengths of this field; of one that has samples.
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.byte_length(0, field).is_some()
    }

    /// Fills `into`, exactly [`byte_length`](Self::byte_length) long, with the field's bytes. Only called where
    /// `byte_length` gave a number.
    fn read_bytes(&self, sample: u64, field: usize, _into: &mut [u8]) -> Result<()> {
        let place = Location::default().with_sample(sample);
        Err(Error::data(place, format!("field {field} cannot be read in place")))
    }

    /// What the index knows of an image field without reading the sample.
    fn image_meta(&self, _sample: u64, _field: usize) -> Option<ImageMeta> {
        None
    }

    /// One integer field's value, if the index knows it without reading the sample (labels, for samplers).
    fn int_value(&self, _sample: u64, _field: usize) -> Option<i64> {
        None
    }
}
