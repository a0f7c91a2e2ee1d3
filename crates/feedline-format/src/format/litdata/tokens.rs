//! Items that are runs of tokens: lengths and parts without reading a whole item.

use std::ops::Range;

use super::LitData;
use super::chunk::Layout;
use super::item::ItemReader;
use super::leaf::Leaf;
use crate::error::Result;
use crate::sample::DType;

impl LitData {
    /// Element type, chunk and bytes of a sample's tokens, if they are stored plain.
    pub(super) fn tokens(&self, sample: u64) -> Option<(DType, usize, Range<u64>)> {
        let ItemReader::Tokens(Leaf::Elements(Ok(dtype))) = &self.items else { return None };
        let (number, item) = self.place(sample).ok()?;
        match &self.chunk(number).ok()?.layout {
            Layout::Items(items) if self.plain_items() => {
                let range = items.range(item)?;
                let whole = (range.end - range.start).is_multiple_of(dtype.size() as u64);
                whole.then_some((*dtype, number, range))
            }
            _ => None,
        }
    }

    /// The bytes of some tokens of a sample.
    pub(super) fn token_range(&self, sample: u64, elements: &Range<u64>) -> Option<(usize, Range<u64>)> {
        let (dtype, number, range) = self.tokens(sample)?;
        let at = |token: u64| token.checked_mul(dtype.size() as u64)?.checked_add(range.start);
        let (start, end) = (at(elements.start)?, at(elements.end)?);
        (end <= range.end).then_some((number, start..end))
    }

    /// Fills `into` with tokens from `first` on.
    pub(super) fn read_tokens(&self, sample: u64, first: u64, into: &mut [u8]) -> Result<()> {
        let wrong = || self.bad_item(sample, "the tokens are not as many as the chunk's table says");
        let (dtype, ..) = self.tokens(sample).ok_or_else(wrong)?;
        let end = first.saturating_add((into.len() / dtype.size()) as u64);
        let (number, range) = self.token_range(sample, &(first..end)).ok_or_else(wrong)?;
        let bytes = self.bytes(number, self.chunk(number)?.whole)?;
        if range.end > bytes.size() {
            return Err(wrong());
        }
        bytes.read_at(range.start, into)
    }
}
