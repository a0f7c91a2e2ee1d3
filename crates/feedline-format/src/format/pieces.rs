//! Reads the pieces of an image that a decode needs, and checks each.

use std::ops::Range;

use feedline_pixels::checksum;
use feedline_pixels::pieces::PieceTable;

use super::{Format, forget_damaged};
use crate::error::{Error, Result};
use crate::sample::FieldSet;

/// Pieces are read together up to this length, and are then still in the core's cache for their checksums.
const AT_ONCE: u64 = 128 * 1024;

/// [`Index::piece_table`](super::Index::piece_table); remote bytes that are damaged are fetched a second time.
pub fn piece_table(
    format: &dyn Format,
    sample: u64,
    field: usize,
    into: &mut Vec<u8>,
) -> Result<Option<u64>> {
    again_if_damaged(format, sample, field, &mut || format.piece_table(sample, field, into))
}

/// Fills `into`, which has the length of the whole image, with the pieces of these runs; all other bytes stay as they are.
/// Returns the number of bytes read. Remote bytes that are damaged are fetched a second time.
pub fn read_pieces(
    format: &dyn Format,
    sample: u64,
    field: usize,
    table: &PieceTable<'_>,
    runs: &[Range<usize>],
    into: &mut [u8],
) -> Result<u64> {
    again_if_damaged(format, sample, field, &mut || {
        let (mut read, mut numbers) = (0, runs.iter().cloned().flatten().peekable());
        while let Some(first) = numbers.next() {
            let mut last = first;
            let fits = |next: usize| table.piece(next).end - table.piece(first).start <= AT_ONCE;
            while let Some(next) = numbers.next_if(|next| *next == last + 1 && fits(*next)) {
                last = next;
            }
            let bytes = table.piece(first).start..table.piece(last).end;
            let room = part_of(into, &bytes).ok_or_else(|| misfit(format, sample, field))?;
            format.read_part(sample, field, bytes.start, room)?;
            (first..=last).try_for_each(|number| check(format, sample, field, table, number, into))?;
            read += bytes.end - bytes.start;
        }
        Ok(read)
    })
}

fn part_of<'a>(bytes: &'a mut [u8], range: &Range<u64>) -> Option<&'a mut [u8]> {
    bytes.get_mut(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

fn misfit(format: &dyn Format, sample: u64, field: usize) -> Error {
    let place = format.locate(sample).with_field(&format.schema().fields[field].name);
    Error::data(place, "its pieces are outside the image")
}

/// Compares the checksum of a piece.
fn check(
    format: &dyn Format,
    sample: u64,
    field: usize,
    table: &PieceTable<'_>,
    number: usize,
    bytes: &mut [u8],
) -> Result<()> {
    let range = table.piece(number);
    let piece = part_of(bytes, &range).ok_or_else(|| misfit(format, sample, field))?;
    let (found, stored) = (checksum::crc32c(piece), table.checksum(number));
    if found == stored {
        return Ok(());
    }
    let Range { start, end } = range;
    let reason = format!("the checksum of its bytes {start} to {end} is {found:08x}, stored is {stored:08x}");
    let place = format.locate(sample).with_field(&format.schema().fields[field].name);
    Err(Error::data(place, reason)
        .with_hint("the part is damaged or was replaced; 'feedline verify' lists what is broken"))
}

fn again_if_damaged<T>(
    format: &dyn Format,
    sample: u64,
    field: usize,
    read: &mut dyn FnMut() -> Result<T>,
) -> Result<T> {
    match read() {
        Err(error) => {
            let only = FieldSet::only(format.schema().fields.len(), [field]);
            if forget_damaged(format, sample, &only, &error) { read() } else { Err(error) }
        }
        read => read,
    }
}
