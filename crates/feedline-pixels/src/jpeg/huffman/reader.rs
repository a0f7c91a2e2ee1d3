//! Reads bits from padded bytes; at least 56 are available after each refill.
//!
//! A refill must not check whether its eight bytes exist: that would be one comparison for every two coefficients. So
//! the check is made once per block. [`Reader::window`] takes a view of fixed length that is longer than any block, and
//! refills inside the block index it by a byte, which the compiler knows to stay inside.

use super::Irregular;

/// Bytes that refills of one block can reach: 63 coefficients of at most 26 bits and a DC difference of 27 are 209
/// bytes, an offset always fits a `u8`, and a refill loads 8.
pub(crate) const REACH: usize = 256 + 8;

/// Unstuffed bytes, padding included, and a position in them.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    /// Start of the current window.
    at: usize,
    /// Bytes loaded since then.
    offset: usize,
    /// The next bits, highest first.
    bits: u64,
    /// Number of valid bits, in the low six bits; the bits above are garbage and never read. So a whole table
    /// entry can be subtracted without masking its length first.
    valid: u32,
    window: &'a [u8; REACH],
}

impl<'a> Reader<'a> {
    /// Starts `skip` (less than 8) bits into `data`, which ends in at least [`REACH`] bytes of padding.
    pub(crate) fn new(data: &'a [u8], skip: u32) -> Result<Self, Irregular> {
        let window = data.first_chunk().ok_or(Irregular)?;
        let mut reader = Reader { data, at: 0, offset: 0, bits: 0, valid: 0, window };
        reader.refill();
        reader.consume(skip & 7);
        Ok(reader)
    }

    /// Prepares for the refills of one block; fails where the padding ends, far after the end of the data.
    #[inline(always)]
    pub(crate) fn begin_block(&mut self) -> Result<(), Irregular> {
        self.at += self.offset;
        self.offset = 0;
        self.window = self.data.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(Irregular)?;
        Ok(())
    }

    /// Refills to at least 56 bits.
    ///
    /// Always loads eight bytes and advances over those that fit: loading some bytes twice is cheaper than
    /// computing how many to load.
    #[inline(always)]
    pub(crate) fn refill(&mut self) {
        let offset = self.offset & 0xFF;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.window[offset..offset + 8]);
        self.bits |= u64::from_be_bytes(bytes) >> (self.valid & 63);
        self.offset = offset + ((!self.valid >> 3) & 7) as usize;
        self.valid |= 0x38;
    }

    /// The available bits, highest first.
    #[inline(always)]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// Drops as many bits as the low six bits of a table entry say.
    #[inline(always)]
    pub(crate) fn consume(&mut self, entry: u32) {
        self.bits = self.bits.wrapping_shl(entry);
        self.valid = self.valid.wrapping_sub(entry);
    }

    /// The next `count` (at most 63) bits, which must be available.
    #[inline(always)]
    pub(crate) fn take(&mut self, count: u32) -> u64 {
        // Shifting in two steps makes a count of zero give zero.
        let value = (self.bits >> 1) >> (63 - count);
        self.consume(count);
        value
    }

    /// The state to return to with [`Reader::back_to`] as long as there was no refill.
    #[inline(always)]
    pub(crate) fn here(&self) -> (u64, u32) {
        (self.bits, self.valid)
    }

    /// Returns to an earlier state.
    #[inline(always)]
    pub(crate) fn back_to(&mut self, here: (u64, u32)) {
        (self.bits, self.valid) = here;
    }

    /// Puts back as many bits as the low six bits of a table entry say.
    #[cold]
    #[inline(never)]
    pub(super) fn unread(self, entry: u32) -> Result<Self, Irregular> {
        let position = self.position() - (entry & 63) as usize;
        let at = position / 8;
        let mut reader = Reader::new(self.data.get(at..).ok_or(Irregular)?, (position % 8) as u32)?;
        reader.data = self.data;
        reader.at = at;
        Ok(reader)
    }

    /// Number of bits consumed since the start of the data.
    pub(crate) fn position(&self) -> usize {
        (self.at + self.offset) * 8 - (self.valid & 63) as usize
    }
}
