//! Parses markers up to the first scan: sizes, tables, colour rules and EXIF orientation, in one pass over the header.
//!
//! Strict on purpose: anything that libjpeg would only read with a warning or by guessing is refused here, and the
//! caller uses libjpeg-turbo instead.

use crate::{Orientation, Size, exif};

/// The file is not for this decoder. It may still be a valid JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotCovered;

/// A Huffman table as in the file: codes per length, and the symbols in order of their codes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct HuffmanSpec {
    pub(crate) counts: [u8; 16],
    pub(crate) symbols: [u8; 256],
}

/// One colour component of the frame, with the tables that the scan assigns to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ComponentSpec {
    pub(crate) id: u8,
    pub(crate) h: u8,
    pub(crate) v: u8,
    pub(crate) quant: u8,
    pub(crate) dc: u8,
    pub(crate) ac: u8,
}

/// Coding of the frame, from its SOF marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// Baseline or extended sequential Huffman.
    Sequential,
    Progressive,
    Arithmetic,
    Lossless,
}

/// A parsed header.
pub(crate) struct ParsedMarkers {
    pub(crate) size: Size,
    pub(crate) precision: u8,
    pub(crate) process: Process,
    pub(crate) components: [ComponentSpec; 4],
    pub(crate) count: usize,
    pub(crate) quant: [Option<[u16; 64]>; 4],
    pub(crate) dc: [Option<HuffmanSpec>; 4],
    pub(crate) ac: [Option<HuffmanSpec>; 4],
    pub(crate) restart_interval: u32,
    pub(crate) jfif: bool,
    pub(crate) adobe: Option<u8>,
    /// EXIF orientation, 1 to 8; 1 if absent or invalid.
    pub(crate) orientation: u8,
    /// Whether the first scan contains all components in the frame's order, whole spectrum: the only supported kind.
    pub(crate) single_scan: bool,
    /// Offset of the entropy-coded data.
    pub(crate) data_start: usize,
    /// Offset of the first scan's marker.
    pub(crate) scan_start: usize,
    /// A fingerprint of everything that decoding depends on: frame, tables, scan.
    pub(crate) fingerprint: u64,
}

/// Natural (row by row) position of each coefficient in zig-zag order.
pub(crate) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// What an XMP packet begins with.
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Reads the header.
pub(crate) fn parse(bytes: &[u8]) -> Result<ParsedMarkers, NotCovered> {
    if bytes.get(..2) != Some(&[0xFF, 0xD8]) {
        return Err(NotCovered);
    }
    let mut header = empty();
    let mut at = 2;
    let mut frame_seen = false;
    let (mut tagged, mut in_packet) = (None, None);
    loop {
        let (marker, body, next) = segment(bytes, at)?;
        match marker {
            0xC4 => header.read_huffman(body)?,
            0xC0..=0xC3 | 0xC9 | 0xCA if !frame_seen => {
                header.read_frame(marker, body)?;
                frame_seen = true;
            }
            0xDB => header.read_quant(body)?,
            0xDD if body.len() == 2 => header.restart_interval = u32::from(word(body, 0)?),
            0xDA if frame_seen => {
                header.read_scan(body)?;
                (header.scan_start, header.data_start) = (at, next);
                header.orientation = tagged.or(in_packet).unwrap_or(Orientation::Upright) as u8;
                return Ok(header);
            }
            0xE0 if body.len() >= 14 && body.starts_with(b"JFIF\0") => header.jfif = true,
            0xE1 if body.starts_with(b"Exif\0\0") => tagged = tagged.or_else(|| exif::orientation(body)),
            0xE1 if body.starts_with(XMP) => in_packet = exif::xmp_orientation(body),
            0xEE if body.len() >= 12 && body.starts_with(b"Adobe") => header.adobe = body.get(11).copied(),
            // Metadata, comments, and conditioning for arithmetic coding, which libjpeg-turbo decodes.
            0xE0..=0xEF | 0xFE | 0xCC => {}
            _ => return Err(NotCovered),
        }
        // Decoding depends on these; not on comments and metadata.
        if matches!(marker, 0xC0..=0xC4 | 0xDB | 0xDD) {
            header.fingerprint = mix(header.fingerprint ^ u64::from(marker), body);
        }
        at = next;
    }
}

/// Whether the file can have a seek index, from its markers alone: sequential, and without restart intervals.
pub(crate) fn may_have_index(bytes: &[u8]) -> bool {
    let (mut at, mut sequential) = (2, false);
    while let Ok((marker, body, next)) = segment(bytes, at) {
        match marker {
            0xC0 | 0xC1 => sequential = true,
            0xC2 | 0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => return false,
            0xDD if body != [0, 0] => return false,
            0xDA => return sequential,
            _ => {}
        }
        at = next;
    }
    false
}

fn empty() -> ParsedMarkers {
    ParsedMarkers {
        size: Size::new(0, 0),
        precision: 0,
        process: Process::Sequential,
        components: [ComponentSpec::default(); 4],
        count: 0,
        quant: [None; 4],
        dc: [None; 4],
        ac: [None; 4],
        restart_interval: 0,
        jfif: false,
        adobe: None,
        orientation: 1,
        single_scan: false,
        data_start: 0,
        scan_start: 0,
        fingerprint: 0x9E37_79B9_7F4A_7C15,
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u16, NotCovered> {
    let pair = bytes.get(at..at + 2).ok_or(NotCovered)?;
    Ok(u16::from_be_bytes([pair[0], pair[1]]))
}

/// The marker at `at`, its body without the length, and the offset of the next segment.
fn segment(bytes: &[u8], mut at: usize) -> Result<(u8, &[u8], usize), NotCovered> {
    if bytes.get(at) != Some(&0xFF) {
        return Err(NotCovered);
    }
    // Any number of fill bytes may precede a marker.
    while bytes.get(at) == Some(&0xFF) {
        at += 1;
    }
    let marker = *bytes.get(at).ok_or(NotCovered)?;
    let length = usize::from(word(bytes, at + 1)?);
    let body = bytes.get(at + 3..at + 1 + length).ok_or(NotCovered)?;
    Ok((marker, body, at + 1 + length))
}

/// Folds bytes into a 64-bit fingerprint. Not cryptographic: it catches mistakes, not attackers, and a decoder that
/// trusts it stays memory-safe when it is wrong.
fn mix(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = seed;
    for chunk in bytes.chunks(8) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(padded)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        hash ^= hash >> 32;
    }
    hash
}

/// One scan of a progressive file: which coefficients it has, and how many of their bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) components: Vec<ScanComponent>,
    /// First and last coefficient in zig-zag order.
    pub(crate) band: (u8, u8),
    /// Number of low bits that are missing before the scan (zero: all bits are) and after it.
    pub(crate) high: u8,
    pub(crate) low: u8,
    /// Offset of the entropy-coded data.
    pub(crate) data_start: usize,
}

/// A component in a scan, and its Huffman tables there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanComponent {
    pub(crate) component: usize,
    pub(crate) dc: usize,
    pub(crate) ac: usize,
}

impl ParsedMarkers {
    /// Reads markers from `at` on, up to the next scan; `None` at the end of the image. Tables and restart interval
    /// change on the way. Quantisers may not: libjpeg takes those of a component's first scan.
    pub(crate) fn next_scan(&mut self, bytes: &[u8], mut at: usize) -> Result<Option<Scan>, NotCovered> {
        loop {
            if bytes.get(at..at + 2) == Some(&[0xFF, 0xD9]) {
                return Ok(None);
            }
            let (marker, body, next) = segment(bytes, at)?;
            match marker {
                0xC4 => self.read_huffman(body)?,
                0xDD if body.len() == 2 => self.restart_interval = u32::from(word(body, 0)?),
                0xDA => return self.scan(body, next).map(Some),
                0xE0..=0xEF | 0xFE => {}
                _ => return Err(NotCovered),
            }
            at = next;
        }
    }

    fn scan(&self, body: &[u8], data_start: usize) -> Result<Scan, NotCovered> {
        let count = usize::from(*body.first().ok_or(NotCovered)?);
        if !(1..=self.count).contains(&count) || body.len() != 4 + 2 * count {
            return Err(NotCovered);
        }
        let mut components: Vec<ScanComponent> = Vec::with_capacity(count);
        for raw in body[1..=2 * count].chunks_exact(2) {
            let known = self.components[..self.count].iter().position(|c| c.id == raw[0]);
            let (component, dc, ac) = (known.ok_or(NotCovered)?, raw[1] >> 4, raw[1] & 15);
            // Components come in the order of the frame, each once.
            if dc > 3 || ac > 3 || components.last().is_some_and(|last| last.component >= component) {
                return Err(NotCovered);
            }
            components.push(ScanComponent { component, dc: usize::from(dc), ac: usize::from(ac) });
        }
        let [start, end, bits] = body[1 + 2 * count..] else { return Err(NotCovered) };
        Ok(Scan { components, band: (start, end), high: bits >> 4, low: bits & 15, data_start })
    }

    fn read_frame(&mut self, marker: u8, body: &[u8]) -> Result<(), NotCovered> {
        self.process = match marker {
            0xC0 | 0xC1 => Process::Sequential,
            0xC2 => Process::Progressive,
            0xC3 => Process::Lossless,
            _ => Process::Arithmetic,
        };
        self.precision = *body.first().ok_or(NotCovered)?;
        self.size = Size::new(u32::from(word(body, 3)?), u32::from(word(body, 1)?));
        self.count = usize::from(*body.get(5).ok_or(NotCovered)?);
        if self.count == 0 || self.count > 4 || body.len() != 6 + 3 * self.count || self.size.area() == 0 {
            return Err(NotCovered);
        }
        for (component, raw) in self.components.iter_mut().zip(body[6..].chunks_exact(3)) {
            *component =
                ComponentSpec { id: raw[0], h: raw[1] >> 4, v: raw[1] & 15, quant: raw[2], dc: 0, ac: 0 };
            if !(1..=4).contains(&component.h) || !(1..=4).contains(&component.v) || raw[2] > 3 {
                return Err(NotCovered);
            }
        }
        let ids = &self.components[..self.count];
        let distinct = (0..self.count).all(|i| ids[..i].iter().all(|other| other.id != ids[i].id));
        if distinct { Ok(()) } else { Err(NotCovered) }
    }

    fn read_scan(&mut self, body: &[u8]) -> Result<(), NotCovered> {
        let count = usize::from(*body.first().ok_or(NotCovered)?);
        if body.len() != 4 + 2 * count {
            return Err(NotCovered);
        }
        let in_order = count == self.count
            && body[1..=2 * count].chunks_exact(2).zip(&self.components).all(|(raw, c)| raw[0] == c.id);
        for (component, raw) in self.components.iter_mut().zip(body[1..=2 * count].chunks_exact(2)) {
            (component.dc, component.ac) = (raw[1] >> 4, raw[1] & 15);
            if component.dc > 3 || component.ac > 3 {
                return Err(NotCovered);
            }
        }
        self.single_scan = in_order && body[1 + 2 * count..] == [0, 63, 0];
        self.fingerprint = mix(self.fingerprint, body);
        Ok(())
    }

    fn read_quant(&mut self, mut body: &[u8]) -> Result<(), NotCovered> {
        while let Some((&kind, rest)) = body.split_first() {
            let wide = kind >> 4 != 0;
            let slot = self.quant.get_mut(usize::from(kind & 15)).ok_or(NotCovered)?;
            let length = if wide { 128 } else { 64 };
            let values = rest.get(..length).ok_or(NotCovered)?;
            let mut table = [0; 64];
            for (i, &natural) in ZIGZAG.iter().enumerate() {
                table[usize::from(natural)] = if wide { word(values, 2 * i)? } else { u16::from(values[i]) };
            }
            *slot = Some(table);
            body = &rest[length..];
        }
        Ok(())
    }

    fn read_huffman(&mut self, mut body: &[u8]) -> Result<(), NotCovered> {
        while let Some((&kind, rest)) = body.split_first() {
            let tables = match kind >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return Err(NotCovered),
            };
            let slot = tables.get_mut(usize::from(kind & 15)).ok_or(NotCovered)?;
            let counts: [u8; 16] = rest.get(..16).ok_or(NotCovered)?.try_into().map_err(|_| NotCovered)?;
            let total = counts.iter().map(|&n| usize::from(n)).sum::<usize>();
            let listed = rest.get(16..16 + total).ok_or(NotCovered)?;
            let mut symbols = [0; 256];
            symbols.get_mut(..total).ok_or(NotCovered)?.copy_from_slice(listed);
            *slot = Some(HuffmanSpec { counts, symbols });
            body = &rest[16 + total..];
        }
        Ok(())
    }
}
