//! CCITT fax compression, T.4 and T.6: runs of white and black. One- and two-dimensional rows, with and without
//! end-of-line codes, and TIFF's own variant, whose rows begin at whole bytes.

use std::sync::OnceLock;

use super::CODEC;
use crate::Result;

/// Variant of the coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// TIFF compression 2: one-dimensional, each row begins at a byte, no end-of-line codes.
    Rle,
    /// Group 3: end-of-line codes; with `two_dimensional`, each row says which coding it has.
    Group3 { two_dimensional: bool },
    /// Group 4: two-dimensional throughout.
    Group4,
}

/// Decodes rows of `width` pixels into `out`, one bit each, black is 1. Rows after the end of the data stay white.
pub(super) fn decode(data: &[u8], kind: Kind, width: usize, out: &mut [u8]) -> Result<()> {
    let stride = width.div_ceil(8);
    let mut bits = Bits { data, at: 0 };
    let mut above: Vec<usize> = Vec::new();
    let mut edges: Vec<usize> = Vec::new();
    out.fill(0);
    for (number, row) in out.chunks_exact_mut(stride).enumerate() {
        edges.clear();
        let read = match kind {
            Kind::Rle => {
                bits.align();
                one_dimensional(&mut bits, width, &mut edges)
            }
            Kind::Group4 => two_dimensional(&mut bits, width, &above, &mut edges),
            Kind::Group3 { two_dimensional: both } => {
                bits.skip_end_of_line();
                if !both || bits.take(1) == 1 {
                    one_dimensional(&mut bits, width, &mut edges)
                } else {
                    two_dimensional(&mut bits, width, &above, &mut edges)
                }
            }
        };
        if read.is_none() && edges.is_empty() && number > 0 && bits.ended() {
            return Err(CODEC.truncated(format!("fax data end in row {number}")));
        }
        if read.is_none() && !recover(&mut bits, kind) {
            return Err(CODEC.corrupt(bits.at / 8, format!("no fax code in row {number}")));
        }
        paint(&edges, width, row);
        std::mem::swap(&mut above, &mut edges);
    }
    Ok(())
}

/// After a damaged row of group 3, decoding can resume at the next end-of-line code; other kinds have none.
fn recover(bits: &mut Bits<'_>, kind: Kind) -> bool {
    matches!(kind, Kind::Group3 { .. }) && bits.find_end_of_line()
}

/// Sets the pixels of every second run. `edges` are the positions where the colour changes, white first.
fn paint(edges: &[usize], width: usize, row: &mut [u8]) {
    for pair in edges.chunks(2) {
        let (start, end) = (pair[0].min(width), pair.get(1).map_or(width, |end| (*end).min(width)));
        for x in start..end {
            row[x / 8] |= 0x80 >> (x % 8);
        }
    }
}

fn one_dimensional(bits: &mut Bits<'_>, width: usize, edges: &mut Vec<usize>) -> Option<()> {
    let (mut at, mut black) = (0, false);
    while at < width {
        at += run(bits, black)?;
        edges.push(at.min(width));
        black = !black;
    }
    Some(())
}

fn two_dimensional(bits: &mut Bits<'_>, width: usize, above: &[usize], edges: &mut Vec<usize>) -> Option<()> {
    let (mut at, mut black) = (0, false);
    // There is an imaginary white pixel before the first: an edge at 0 counts for the first code.
    let mut begun = false;
    while at < width {
        let (first, second) = edges_above(above, at, begun, black, width);
        match mode(bits)? {
            Mode::Pass => at = second,
            Mode::Horizontal => {
                for colour in [black, !black] {
                    at += run(bits, colour)?;
                    edges.push(at.min(width));
                }
            }
            Mode::Vertical(shift) => {
                let next = first.checked_add_signed(shift)?;
                if next < at {
                    return None;
                }
                at = next;
                edges.push(at.min(width));
                black = !black;
            }
        }
        begun = true;
    }
    Some(())
}

/// The first edge of the row above to the right of `at` whose colour is opposite to the current one, and the next.
fn edges_above(above: &[usize], at: usize, begun: bool, black: bool, width: usize) -> (usize, usize) {
    // Edge number n of the row above changes to black if n is even.
    let right = |edge: usize| edge > at || (!begun && edge == 0 && at == 0);
    let mut number = above.partition_point(|edge| !right(*edge));
    if (number % 2 == 1) != black {
        number += 1;
    }
    let edge = |n: usize| above.get(n).copied().unwrap_or(width);
    (edge(number), edge(number + 1))
}

enum Mode {
    Pass,
    Horizontal,
    Vertical(isize),
}

fn mode(bits: &mut Bits<'_>) -> Option<Mode> {
    let (length, mode) = match bits.peek(7) {
        v if v >> 6 == 1 => (1, Mode::Vertical(0)),
        v if v >> 4 == 0b011 => (3, Mode::Vertical(1)),
        v if v >> 4 == 0b010 => (3, Mode::Vertical(-1)),
        v if v >> 4 == 0b001 => (3, Mode::Horizontal),
        v if v >> 3 == 0b0001 => (4, Mode::Pass),
        v if v >> 1 == 0b00_0011 => (6, Mode::Vertical(2)),
        v if v >> 1 == 0b00_0010 => (6, Mode::Vertical(-2)),
        0b000_0011 => (7, Mode::Vertical(3)),
        0b000_0010 => (7, Mode::Vertical(-3)),
        _ => return None,
    };
    bits.at += length;
    Some(mode)
}

/// Length of a run: any number of codes for multiples of 64, then one for the rest.
fn run(bits: &mut Bits<'_>, black: bool) -> Option<usize> {
    let table = &tables()[usize::from(black)];
    let mut total = 0;
    loop {
        let (length, code_bits) = table[bits.peek(LONGEST) as usize];
        if code_bits == 0 {
            return None;
        }
        bits.at += usize::from(code_bits);
        total += usize::from(length);
        if length < 64 {
            return Some(total);
        }
    }
}

/// Reads bits from the highest of each byte down; past the end they are zero.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn peek(&self, count: usize) -> u32 {
        let start = self.at / 8;
        let mut word = 0u32;
        for offset in 0..4 {
            word = word << 8 | u32::from(self.data.get(start + offset).copied().unwrap_or(0));
        }
        (word << (self.at % 8)) >> (32 - count)
    }

    fn take(&mut self, count: usize) -> u32 {
        let value = self.peek(count);
        self.at += count;
        value
    }

    fn align(&mut self) {
        self.at = self.at.div_ceil(8) * 8;
    }

    fn ended(&self) -> bool {
        self.at >= self.data.len() * 8
    }

    /// Skips fill bits and an end-of-line code, if they are next.
    fn skip_end_of_line(&mut self) {
        let start = self.at;
        while !self.ended() && self.peek(1) == 0 {
            self.at += 1;
        }
        if self.at - start >= 11 && !self.ended() {
            self.at += 1;
        } else {
            self.at = start;
        }
    }

    /// Skips to the next end-of-line code; returns false if there is none.
    fn find_end_of_line(&mut self) -> bool {
        while !self.ended() {
            if self.peek(12) == 1 {
                return true;
            }
            self.at += 1;
        }
        false
    }
}

/// Bits in the longest code.
const LONGEST: usize = 13;

/// For every 13 bits: the run they begin with, and the length of its code; 0 if there is none.
type Table = Box<[(u16, u8)]>;

fn tables() -> &'static [Table; 2] {
    static TABLES: OnceLock<[Table; 2]> = OnceLock::new();
    TABLES.get_or_init(|| {
        let table = |terminating: &str, makeup: &str| {
            let mut table = vec![(0, 0); 1 << LONGEST].into_boxed_slice();
            let short = terminating.split_whitespace().zip(0u16..);
            let long = makeup.split_whitespace().chain(MAKEUP.split_whitespace());
            for (code, run) in short.chain(long.zip((64..).step_by(64))) {
                fill(&mut table, code, run);
            }
            table
        };
        [table(WHITE, WHITE_MAKEUP), table(BLACK, BLACK_MAKEUP)]
    })
}

fn fill(table: &mut [(u16, u8)], code: &str, run: u16) {
    let value = usize::from_str_radix(code, 2).expect("codes are written in ones and zeros");
    let free = LONGEST - code.len();
    table[value << free..(value + 1) << free].fill((run, code.len() as u8));
}

/// Codes for runs of 0 to 63 white pixels.
const WHITE: &str = "00110101 000111 0111 1000 1011 1100 1110 1111 10011 10100 00111 01000 001000 000011 110100 \
    110101 101010 101011 0100111 0001100 0001000 0010111 0000011 0000100 0101000 0101011 0010011 0100100 0011000 \
    00000010 00000011 00011010 00011011 00010010 00010011 00010100 00010101 00010110 00010111 00101000 00101001 \
    00101010 00101011 00101100 00101101 00000100 00000101 00001010 00001011 01010010 01010011 01010100 01010101 \
    00100100 00100101 01011000 01011001 01011010 01011011 01001010 01001011 00110010 00110011 00110100";

/// Codes for 64, 128, … 1728 white pixels.
const WHITE_MAKEUP: &str = "11011 10010 010111 0110111 00110110 00110111 01100100 01100101 01101000 01100111 \
    011001100 011001101 011010010 011010011 011010100 011010101 011010110 011010111 011011000 011011001 011011010 \
    011011011 010011000 010011001 010011010 011000 010011011";

/// Codes for runs of 0 to 63 black pixels.
const BLACK: &str = "0000110111 010 11 10 011 0011 0010 00011 000101 000100 0000100 0000101 0000111 00000100 \
    00000111 000011000 0000010111 0000011000 0000001000 00001100111 00001101000 00001101100 00000110111 00000101000 \
    00000010111 00000011000 000011001010 000011001011 000011001100 000011001101 000001101000 000001101001 \
    000001101010 000001101011 000011010010 000011010011 000011010100 000011010101 000011010110 000011010111 \
    000001101100 000001101101 000011011010 000011011011 000001010100 000001010101 000001010110 000001010111 \
    000001100100 000001100101 000001010010 000001010011 000000100100 000000110111 000000111000 000000100111 \
    000000101000 000001011000 000001011001 000000101011 000000101100 000001011010 000001100110 000001100111";

/// Codes for 64, 128, … 1728 black pixels.
const BLACK_MAKEUP: &str = "0000001111 000011001000 000011001001 000001011011 000000110011 000000110100 000000110101 \
    0000001101100 0000001101101 0000001001010 0000001001011 0000001001100 0000001001101 0000001110010 0000001110011 \
    0000001110100 0000001110101 0000001110110 0000001110111 0000001010010 0000001010011 0000001010100 0000001010101 \
    0000001011010 0000001011011 0000001100100 0000001100101";

/// Codes for 1792, 1856, … 2560 pixels of either colour.
const MAKEUP: &str = "00000001000 00000001100 00000001101 000000010010 000000010011 000000010100 000000010101 \
    000000010110 000000010111 000000011100 000000011101 000000011110 000000011111";

#[cfg(test)]
mod tests {
    use super::*;

    /// Every bit pattern begins with at most one code, and the codes cover exactly what T.4 assigns to them.
    #[test]
    fn no_code_is_a_prefix_of_another() {
        for (terminating, makeup) in [(WHITE, WHITE_MAKEUP), (BLACK, BLACK_MAKEUP)] {
            let codes: Vec<&str> = terminating
                .split_whitespace()
                .chain(makeup.split_whitespace())
                .chain(MAKEUP.split_whitespace())
                .collect();
            assert_eq!(codes.len(), 64 + 27 + 13);
            for (at, code) in codes.iter().enumerate() {
                let others = codes.iter().enumerate().filter(|(other, _)| *other != at);
                assert!(others.clone().all(|(_, other)| !other.starts_with(code)), "{code}");
            }
        }
    }

    #[test]
    fn a_row_of_each_kind() {
        // Ten pixels: three white, two black, five white.
        let one = 0b1000_1111_0000_0000u16.to_be_bytes();
        let mut out = [0; 2];
        decode(&one, Kind::Rle, 10, &mut out).unwrap();
        assert_eq!(out, [0b0001_1000, 0]);
        // Group 4: horizontal 3 white 2 black, then to the end of the white row above.
        let four = 0b0011_0001_1100_0000u16.to_be_bytes();
        decode(&four, Kind::Group4, 10, &mut out).unwrap();
        assert_eq!(out, [0b0001_1000, 0]);
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut state = 1u64;
        for length in 0..200 {
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            };
            let data: Vec<u8> = (0..length).map(|_| next()).collect();
            for kind in [Kind::Rle, Kind::Group4, Kind::Group3 { two_dimensional: true }] {
                let mut out = vec![0; 40 * 9];
                let _ = decode(&data, kind, 67, &mut out);
            }
        }
    }
}
