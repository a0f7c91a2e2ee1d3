//! [`Index`]: what a data set knows about its samples without reading them.

use crate::error::{Error, Location, Result};
use crate::sample::{DType, Extent, ImageMeta};

/// Lengths, sizes of images and small numbers. With them, undecoded batches are laid out beforehand and filled
/// without an extra copy.
///
/// Answers never change while the data set is open. The default methods are for formats that know nothing.
pub trait Index {
    /// Byte length of an image, text, json or bytes field, if known without reading the sample.
    fn byte_length(&self, _sample: u64, _field: usize) -> Option<u64> {
        None
    }

    /// Whether [`byte_length`](Self::byte_length) knows the lengths of this field. The data set must not be empty.
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.byte_length(0, field).is_some()
    }

    /// Fills `into`, exactly [`byte_length`](Self::byte_length) long, with the field's bytes. Only called if
    /// `byte_length` returned a number.
    fn read_bytes(&self, sample: u64, field: usize, _into: &mut [u8]) -> Result<()> {
        let place = Location::default().with_sample(sample);
        Err(Error::data(place, format!("field {field} cannot be read in place")))
    }

    /// Where the bytes of an image or bytes field lie, as they are, in one object: empty if the sample has no value, `None`
    /// if they are not stored like that. Nothing of them is read or checked.
    fn stored_at(&self, _sample: u64, _field: usize) -> Result<Option<Extent>> {
        Ok(None)
    }

    /// The index of a video's packets that is stored beside it; `None` if there is none. Empty if there is none and only a
    /// checksum of the whole video covers its bytes: then the video must not be read in parts.
    fn stored_index(&self, _sample: u64, _field: usize) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Puts the table of pieces that is stored beside an image (see [`pieces`]) into `into`, and returns the image's length;
    /// `None` if there is no table and the image must be read whole.
    ///
    /// [`pieces`]: feedline_pixels::pieces
    fn piece_table(&self, _sample: u64, _field: usize, _into: &mut Vec<u8>) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Fills `into` with the bytes of an image from `offset` on, and does not check them: the caller compares the checksums
    /// of the table of pieces. Only called if [`piece_table`](Self::piece_table) found one.
    fn read_part(&self, sample: u64, field: usize, _offset: u64, _into: &mut [u8]) -> Result<()> {
        let place = Location::default().with_sample(sample);
        Err(Error::data(place, format!("field {field} cannot be read in parts")))
    }

    /// What is known about an image field without reading the sample.
    fn image_meta(&self, _sample: u64, _field: usize) -> Option<ImageMeta> {
        None
    }

    /// Value of an integer field, if known without reading the sample (labels, for samplers).
    fn int_value(&self, _sample: u64, _field: usize) -> Option<i64> {
        None
    }

    /// Element type and length of a one-dimensional array, if known without reading the sample.
    fn array_length(&self, _sample: u64, _field: usize) -> Option<(DType, u64)> {
        None
    }

    /// Fills `into` with elements of such an array, from element `first` on. Only called if
    /// [`array_length`](Self::array_length) knows the array.
    fn read_elements(&self, sample: u64, field: usize, _first: u64, _into: &mut [u8]) -> Result<()> {
        let place = Location::default().with_sample(sample);
        Err(Error::data(place, format!("field {field} cannot be read in parts")))
    }
}
