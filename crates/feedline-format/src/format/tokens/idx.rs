//! Megatron's `.idx` beside a `.bin`: element type and documents.

use crate::sample::DType;

/// The first bytes of an index.
pub(super) const MAGIC: &[u8; 9] = b"MMIDIDX\x00\x00";

/// Bytes before the tables: magic, version, element type, number of sequences and of document bounds.
const HEAD: usize = 9 + 8 + 1 + 8 + 8;

/// The documents of a `.bin`: (first token, number of tokens) of each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Documents {
    pub(super) dtype: DType,
    pub(super) ranges: Vec<(u64, u64)>,
}

impl Documents {
    /// Reads an index of a `.bin` with `bin_bytes` bytes.
    pub(super) fn parse(file: &[u8], bin_bytes: u64) -> Result<Self, String> {
        if file.len() < HEAD || !file.starts_with(MAGIC) {
            return Err("not an index of Megatron: its first bytes are not MMIDIDX".to_owned());
        }
        let version = number(file, 9);
        if version != 1 {
            return Err(format!("version {version} of Megatron's index; only 1 is known"));
        }
        let dtype = dtype(file[17])?;
        let (sequences, bounds) = (number(file, 18), number(file, 26));
        let tables = Tables::new(file, sequences, bounds)?;
        let ranges = tables.documents(dtype.size() as u64, bin_bytes)?;
        Ok(Documents { dtype, ranges })
    }
}

/// Where the tables of an index are.
struct Tables<'a> {
    /// Tokens of each sequence, 32 bits.
    sizes: &'a [u8],
    /// Offset of each sequence in the `.bin`, 64 bits.
    pointers: &'a [u8],
    /// First sequence of each document, and one bound more, 64 bits.
    bounds: &'a [u8],
}

impl<'a> Tables<'a> {
    fn new(file: &'a [u8], sequences: u64, bounds: u64) -> Result<Self, String> {
        let cut = || format!("{} bytes; {sequences} sequences need more: truncated?", file.len());
        let bytes = |count: u64, each: u64| count.checked_mul(each).and_then(|n| usize::try_from(n).ok());
        let (sizes, rest) =
            bytes(sequences, 4).and_then(|n| file[HEAD..].split_at_checked(n)).ok_or_else(cut)?;
        let (pointers, rest) = bytes(sequences, 8).and_then(|n| rest.split_at_checked(n)).ok_or_else(cut)?;
        let (bounds, _) = bytes(bounds, 8).and_then(|n| rest.split_at_checked(n)).ok_or_else(cut)?;
        Ok(Tables { sizes, pointers, bounds })
    }

    fn sequences(&self) -> u64 {
        (self.sizes.len() / 4) as u64
    }

    /// Offset and tokens of a sequence; an error if it is not in the `.bin`.
    fn sequence(&self, at: u64, each: u64, bin_bytes: u64) -> Result<(u64, u64), String> {
        let tokens =
            u64::from(u32::from_le_bytes(self.sizes[4 * at as usize..][..4].try_into().expect("four bytes")));
        let offset = number(self.pointers, 8 * at as usize);
        let end = tokens.checked_mul(each).and_then(|bytes| bytes.checked_add(offset));
        if tokens > i32::MAX as u64 || !offset.is_multiple_of(each) || end.is_none_or(|end| end > bin_bytes) {
            let reason =
                format!("sequence {at}: {tokens} tokens at byte {offset} are not in the .bin of {bin_bytes}");
            return Err(reason);
        }
        Ok((offset / each, tokens))
    }

    /// The first sequence of each document, and the number of sequences.
    fn starts(&self) -> Result<Vec<u64>, String> {
        let count = self.sequences();
        let mut starts: Vec<u64> = (0..self.bounds.len() / 8).map(|at| number(self.bounds, 8 * at)).collect();
        if starts.is_empty() {
            return Ok((0..=count).collect());
        }
        if starts[0] != 0 || !starts.is_sorted() || starts.last().is_some_and(|last| *last > count) {
            return Err("the documents' bounds are not ascending numbers of sequences".to_owned());
        }
        if starts.last() != Some(&count) {
            starts.push(count);
        }
        Ok(starts)
    }

    fn documents(&self, each: u64, bin_bytes: u64) -> Result<Vec<(u64, u64)>, String> {
        let starts = self.starts()?;
        let mut ranges = Vec::new();
        let count = starts.len() - 1;
        ranges.try_reserve_exact(count).map_err(|_| format!("no memory for {count} documents"))?;
        for pair in starts.windows(2) {
            let (mut first, mut tokens) = (0, 0);
            for at in pair[0]..pair[1] {
                let (start, length) = self.sequence(at, each, bin_bytes)?;
                if at == pair[0] {
                    first = start;
                } else if start != first + tokens {
                    return Err(format!("sequence {at} does not follow the one before it in its document"));
                }
                tokens += length;
            }
            ranges.push((first, tokens));
        }
        Ok(ranges)
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn dtype(code: u8) -> Result<DType, String> {
    match code {
        1 => Ok(DType::U8),
        2 => Ok(DType::I8),
        3 => Ok(DType::I16),
        4 => Ok(DType::I32),
        5 => Ok(DType::I64),
        8 => Ok(DType::U16),
        6 | 7 => Err("the elements are floats, not tokens".to_owned()),
        other => Err(format!("element type {other} is unknown")),
    }
}
