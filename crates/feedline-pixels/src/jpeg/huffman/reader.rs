//! Bits from padded bytes, at least 56 at hand after each refill.

use super::{Irregular, table};

/// Reads bits from unstuffed bytes that end in padding.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    /// Where the next refill loads from.
    at: usize,
    /// The next bits, highest first.
    bits: u64,
    /// How many of them are valid.
    valid: u32,
}

impl<'a> Reader<'a> {
    /// Starts `skip` (less than 8) bits into `data`.
    pub(crate) fn new(data: &'a [u8], skip: u32) -> Result<Self, Irregular> {
        let mut reader = Reader { data, at: 0, bits: 0, valid: 0 };
        reader.refill()?;
        reader.consume(skip & 7);
        Ok(reader)
    }

    /// Tops up to at least 56 bits; fails where the padding ends, long after the data did.
    ///
    /// Loads eight bytes whatever is needed, and advances over those that fit: loading some bytes twice is cheaper than
    /// finding out how many to load.
    #[inline(always)]
    pub(crate) fn refill(&mut self) -> Result<(), Irregular> {
        let bytes = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(Irregular)?;
        self.bits |= u64::from_be_bytes(*bytes) >> self.valid;
        self.at += ((63 - self.valid) >> 3) as usize;
        self.valid |= 56;
        Ok(())
    }

    /// The bits at hand, highest first.
    #[inline(always)]
    pub(super) fn bits(&self) -> u64 {
        self.bits
    }

    /// Drops as many bits as the low six bits of a table entry say.
    #[inline(always)]
    pub(super) fn consume(&mut self, entry: u32) {
        let length = entry & table::LENGTH;
        self.bits <<= length;
        self.valid = self.valid.wrapping_sub(length);
    }

    /// Bits consumed since the start of the data.
    pub(crate) fn position(&self) -> usize {
        self.at * 8 - self.valid as usize
    }
}
