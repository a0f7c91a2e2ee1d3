//! Leaves: the values of a sample, each with its serializer in `data_format`.

use std::cell::RefCell;
use std::ops::Range;

use super::json_leaf;
use crate::format::sniff::is_image;
use crate::sample::{DType, ImageEncoding, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Value};

/// How to convert one leaf's bytes to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Leaf {
    Text,
    Bool,
    Int,
    Float,
    /// Plain bytes: files, lists of JPEGs, custom serializers.
    Bytes,
    /// An image file.
    Image,
    /// Raw pixels after size and mode, returned as RGB.
    Pixels,
    /// The same in a mode that is numbers rather than an image, returned as an array.
    PixelArray,
    Json,
    /// JSON that is stored as text.
    JsonText,
    /// Python pickles, or formats that contain some.
    Pickle,
    /// Type and shape, then elements; the header's byte order differs between numpy and torch.
    Array(DTypes),
    /// The elements of a 1-d array of this type, or why they cannot be returned.
    Elements(Result<DType, String>),
}

/// Which library's numbering of element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DTypes {
    Numpy,
    Torch,
}

impl Leaf {
    /// The leaf for a name in `data_format`. Unknown names are custom serializers: bytes.
    pub(super) fn named(name: &str) -> Leaf {
        let (serializer, rest) = name.split_once(':').unwrap_or((name, ""));
        match serializer {
            "str" | "text" => Leaf::Text,
            "bool" => Leaf::Bool,
            "int" => Leaf::Int,
            "float" => Leaf::Float,
            "jpeg" | "image" => Leaf::Image,
            "pil" => Leaf::Pixels,
            "json" => Leaf::Json,
            "pickle" | "graph" => Leaf::Pickle,
            "numpy" => Leaf::Array(DTypes::Numpy),
            "tensor" => Leaf::Array(DTypes::Torch),
            "no_header_numpy" => Leaf::Elements(DTypes::Numpy.named(rest)),
            "no_header_tensor" => Leaf::Elements(DTypes::Torch.named(rest)),
            _ => Leaf::Bytes,
        }
    }

    /// Refines the leaf by the first sample's bytes: images among plain bytes are detected, so that a set of JPEG
    /// bytes and labels can be trained on directly.
    pub(super) fn sniffed(self, name: &str, first: &[u8]) -> Leaf {
        let serializer = name.split(':').next().unwrap_or(name);
        match self {
            Leaf::Bytes if matches!(serializer, "bytes" | "file") && is_image(first) => Leaf::Image,
            Leaf::Pixels if pil_header(first).is_ok_and(|p| p.mode.is_array()) => Leaf::PixelArray,
            other => other,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Leaf::Text => Kind::Text,
            Leaf::Bool | Leaf::Int => Kind::Int,
            Leaf::Float => Kind::Float,
            Leaf::Bytes | Leaf::Pickle => Kind::Bytes,
            Leaf::Image | Leaf::Pixels => Kind::Image,
            Leaf::Json | Leaf::JsonText => Kind::Json,
            Leaf::Array(_) | Leaf::Elements(_) | Leaf::PixelArray => Kind::Array,
        }
    }

    /// Length of every value, if all have the same.
    pub(super) fn fixed_size(&self) -> Option<u64> {
        match self {
            Leaf::Bool => Some(1),
            Leaf::Int | Leaf::Float => Some(8),
            _ => None,
        }
    }

    /// Whether the value's bytes are the stored ones.
    pub(super) fn is_verbatim(&self) -> bool {
        matches!(self, Leaf::Text | Leaf::JsonText | Leaf::Bytes | Leaf::Pickle | Leaf::Image)
    }

    /// Makes a value of the stored bytes at `range` of the buffer.
    pub(super) fn value(&self, range: Range<usize>, buffer: &mut SampleBuffer) -> Result<Value, String> {
        let stored = buffer.bytes(&range);
        Ok(match self {
            Leaf::Text | Leaf::JsonText | Leaf::Bytes | Leaf::Pickle => Value::Bytes(range),
            Leaf::Image => {
                Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN }
            }
            Leaf::Bool => match stored {
                [byte] => Value::Int(i64::from(*byte != 0)),
                _ => return Err(wrong_size(1, stored.len())),
            },
            Leaf::Int => Value::Int(i64::from_le_bytes(eight(stored)?)),
            Leaf::Float => Value::Float(f64::from_le_bytes(eight(stored)?)),
            Leaf::Json if json_leaf::is_text(stored) => Value::Bytes(range),
            Leaf::Json => Value::Bytes(json_text(&range, buffer)?),
            Leaf::Pixels => pixels(&range, buffer)?,
            Leaf::PixelArray => pixel_array(&range, buffer)?,
            Leaf::Array(types) => array(*types, &range, buffer)?,
            Leaf::Elements(dtype) => elements(dtype.clone()?, range)?,
        })
    }
}

fn wrong_size(expected: usize, found: usize) -> String {
    format!("{found} bytes stored, {expected} expected")
}

fn eight(stored: &[u8]) -> Result<[u8; 8], String> {
    stored.try_into().map_err(|_| wrong_size(8, stored.len()))
}

thread_local! {
    /// Scratch for JSON text, which is written before its length is known.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `write` with an empty text and copies what it wrote into the buffer.
pub(super) fn with_text(
    buffer: &mut SampleBuffer,
    write: impl FnOnce(&SampleBuffer, &mut Vec<u8>) -> Result<(), String>,
) -> Result<Range<usize>, String> {
    TEXT.with_borrow_mut(|text| {
        text.clear();
        write(buffer, text)?;
        Ok(buffer.append(text))
    })
}

fn json_text(range: &Range<usize>, buffer: &mut SampleBuffer) -> Result<Range<usize>, String> {
    with_text(buffer, |buffer, text| json_leaf::to_text(buffer.bytes(range), text))
}

/// The pixel layout of a PIL image's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Red, green, blue, and other bytes up to this many per pixel.
    Rgb(usize),
    /// One grey value (or palette index: the palette is not stored), and other bytes up to this many per pixel.
    Grey(usize),
    /// Eight pixels per byte, rows padded.
    Bits,
    Numbers(DType),
}

impl Mode {
    fn named(name: &[u8]) -> Result<Mode, String> {
        Ok(match name {
            b"RGB" => Mode::Rgb(3),
            b"RGBA" | b"RGBX" => Mode::Rgb(4),
            b"L" | b"P" => Mode::Grey(1),
            b"LA" | b"PA" => Mode::Grey(2),
            b"1" => Mode::Bits,
            b"I;16" => Mode::Numbers(DType::U16),
            b"I" => Mode::Numbers(DType::I32),
            b"F" => Mode::Numbers(DType::F32),
            other => {
                let name = String::from_utf8_lossy(&other[..other.len().min(20)]).into_owned();
                return Err(format!(
                    "raw pixels of mode '{name}' are not supported; RGB, RGBA, L, P, 1, I, F are"
                ));
            }
        })
    }

    fn is_array(self) -> bool {
        matches!(self, Mode::Numbers(_))
    }

    fn length(self, width: u64, height: u64) -> Option<u64> {
        let row = match self {
            Mode::Rgb(size) | Mode::Grey(size) => width.checked_mul(size as u64)?,
            Mode::Bits => width.div_ceil(8),
            Mode::Numbers(dtype) => width.checked_mul(dtype.size() as u64)?,
        };
        row.checked_mul(height)
    }
}

struct Pil {
    width: u32,
    height: u32,
    mode: Mode,
    /// Offset of the pixels.
    data: usize,
}

fn pil_header(stored: &[u8]) -> Result<Pil, String> {
    let number = |at: usize| u32_le(stored, at).ok_or("the pixels' header is cut off");
    let (width, height, name_length) = (number(0)?, number(4)?, number(8)? as usize);
    let name =
        stored.get(12..).and_then(|rest| rest.get(..name_length)).ok_or("the pixels' mode is cut off")?;
    let mode = Mode::named(name)?;
    let data = 12 + name_length;
    let found = (stored.len() - data) as u64;
    if mode.length(u64::from(width), u64::from(height)) != Some(found) || width == 0 || height == 0 {
        let name = String::from_utf8_lossy(name).into_owned();
        return Err(format!("{found} bytes are not {width} x {height} pixels of mode {name}"));
    }
    Ok(Pil { width, height, mode, data })
}

fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Raw pixels as an image: RGB in place, everything else converted to RGB.
fn pixels(range: &Range<usize>, buffer: &mut SampleBuffer) -> Result<Value, String> {
    let pil = pil_header(buffer.bytes(range))?;
    let data = range.start + pil.data..range.end;
    let bytes = match pil.mode {
        Mode::Rgb(3) => data,
        Mode::Rgb(step) => expand(buffer, &data, &pil, |row, x| {
            let at = x * step;
            [row[at], row[at + 1], row[at + 2]]
        })?,
        Mode::Grey(step) => expand(buffer, &data, &pil, |row, x| [row[x * step]; 3])?,
        Mode::Bits => expand(buffer, &data, &pil, |row, x| [(row[x / 8] >> (7 - x % 8) & 1) * 255; 3])?,
        Mode::Numbers(_) => {
            return Err("this image's pixels are numbers (mode I or F), the first one's are not".to_owned());
        }
    };
    let meta = ImageMeta {
        encoding: ImageEncoding::Rgb,
        width: pil.width,
        height: pil.height,
        channels: 3,
        orientation: 1,
    };
    Ok(Value::Image { index: bytes.end..bytes.end, bytes, meta })
}

/// New RGB pixels, each made by `pixel` from its row and column.
fn expand(
    buffer: &mut SampleBuffer,
    data: &Range<usize>,
    pil: &Pil,
    pixel: impl Fn(&[u8], usize) -> [u8; 3],
) -> Result<Range<usize>, String> {
    with_text(buffer, |buffer, rgb| {
        let stored = buffer.bytes(data);
        for row in stored.chunks_exact(stored.len() / pil.height as usize) {
            (0..pil.width as usize).for_each(|x| rgb.extend_from_slice(&pixel(row, x)));
        }
        Ok(())
    })
}

fn pixel_array(range: &Range<usize>, buffer: &SampleBuffer) -> Result<Value, String> {
    let pil = pil_header(buffer.bytes(range))?;
    let Mode::Numbers(dtype) = pil.mode else {
        return Err("this image's pixels are colours, the first one's are numbers (mode I or F)".to_owned());
    };
    let mut shape = [0; MAX_DIMENSIONS];
    shape[..2].copy_from_slice(&[u64::from(pil.height), u64::from(pil.width)]);
    Ok(Value::Array { dtype, dimensions: 2, shape, bytes: range.start + pil.data..range.end })
}

impl DTypes {
    /// The type with this number, written as in `no_header_tensor:16`.
    fn named(self, number: &str) -> Result<DType, String> {
        self.get(number.parse().map_err(|_| format!("'{number}' is not the number of an element type"))?)
    }

    fn get(self, number: u32) -> Result<DType, String> {
        let known = DType::ALL.into_iter().find(|dtype| self.numbers(*dtype).contains(&number));
        known.ok_or_else(|| match (self, number) {
            (DTypes::Numpy, 11 | 12) => "arrays of complex numbers are not supported".to_owned(),
            (DTypes::Numpy, 14 | 16 | 17) => {
                "arrays of Python objects, strings or records are not supported".to_owned()
            }
            (DTypes::Torch, 4..=7) => "tensors of complex numbers are not supported".to_owned(),
            (DTypes::Numpy, other) => format!("numpy element type {other} is unknown"),
            (DTypes::Torch, other) => format!("torch element type {other} is unknown"),
        })
    }

    fn numbers(self, dtype: DType) -> &'static [u32] {
        match self {
            DTypes::Numpy => dtype.litdata().0,
            DTypes::Torch => dtype.litdata().1,
        }
    }

    /// litdata's own number for this type.
    pub(super) fn number(self, dtype: DType) -> Option<u32> {
        self.numbers(dtype).last().copied()
    }
}

fn elements(dtype: DType, bytes: Range<usize>) -> Result<Value, String> {
    if !bytes.len().is_multiple_of(dtype.size()) {
        return Err(format!("{} bytes are not a whole number of {} elements", bytes.len(), dtype.name()));
    }
    let mut shape = [0; MAX_DIMENSIONS];
    shape[0] = (bytes.len() / dtype.size()) as u64;
    Ok(Value::Array { dtype, dimensions: 1, shape, bytes })
}

/// Numpy headers are little-endian, torch headers big-endian in all known versions; the length shows which it is.
fn array(types: DTypes, range: &Range<usize>, buffer: &SampleBuffer) -> Result<Value, String> {
    let stored = buffer.bytes(range);
    let (first, second): (ByteOrder, ByteOrder) = match types {
        DTypes::Numpy => (u32::from_le_bytes, u32::from_be_bytes),
        DTypes::Torch => (u32::from_be_bytes, u32::from_le_bytes),
    };
    let (dtype, shape, dimensions) =
        header(types, stored, first).or_else(|reason| header(types, stored, second).map_err(|_| reason))?;
    let data = range.start + 8 + 4 * dimensions;
    Ok(Value::Array { dtype, dimensions: dimensions as u8, shape, bytes: data..range.end })
}

type ByteOrder = fn([u8; 4]) -> u32;

type Shape = ([u64; MAX_DIMENSIONS], usize);

fn header(
    types: DTypes,
    stored: &[u8],
    number: ByteOrder,
) -> Result<(DType, [u64; MAX_DIMENSIONS], usize), String> {
    let at = |position: usize| -> Result<u32, String> {
        let four = stored.get(position..position + 4).and_then(|four| four.try_into().ok());
        four.map(number).ok_or_else(|| "the array's header is cut off".to_owned())
    };
    let dimensions = at(4)? as usize;
    let dtype = types.get(at(0)?)?;
    if dimensions > MAX_DIMENSIONS {
        return Err(format!("{dimensions} dimensions; at most {MAX_DIMENSIONS} are supported"));
    }
    let mut shape = [0; MAX_DIMENSIONS];
    for (dimension, side) in shape[..dimensions].iter_mut().enumerate() {
        *side = u64::from(at(8 + 4 * dimension)?);
    }
    check_length(dtype, (shape, dimensions), stored.len() - 8 - 4 * dimensions)?;
    Ok((dtype, shape, dimensions))
}

fn check_length(dtype: DType, (shape, dimensions): Shape, found: usize) -> Result<(), String> {
    let sides = &shape[..dimensions];
    let count = sides.iter().try_fold(1u64, |n, side| n.checked_mul(*side));
    if count.and_then(|n| n.checked_mul(dtype.size() as u64)) == Some(found as u64) {
        return Ok(());
    }
    Err(format!("{found} bytes are not an array of shape {sides:?} of {}", dtype.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(leaf: &Leaf, stored: &[u8]) -> Result<(Value, SampleBuffer), String> {
        let mut buffer = SampleBuffer::new();
        buffer.reset(1);
        buffer.append(b"before");
        let range = buffer.append(stored);
        leaf.value(range, &mut buffer).map(|value| (value, buffer))
    }

    fn pil(width: u32, height: u32, mode: &str, pixels: &[u8]) -> Vec<u8> {
        let head = [width, height, mode.len() as u32].map(u32::to_le_bytes).concat();
        [&head[..], mode.as_bytes(), pixels].concat()
    }

    fn rgb(mode: &str, width: u32, height: u32, pixels: &[u8]) -> Result<Vec<u8>, String> {
        let (value, buffer) = read(&Leaf::Pixels, &pil(width, height, mode, pixels))?;
        let Value::Image { bytes, meta, .. } = value else { panic!("an image expected") };
        assert_eq!((meta.width, meta.height, meta.encoding), (width, height, ImageEncoding::Rgb));
        Ok(buffer.bytes(&bytes).to_vec())
    }

    #[test]
    fn pixels_of_all_modes_become_rgb() {
        assert_eq!(rgb("RGB", 1, 2, &[1, 2, 3, 4, 5, 6]).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(rgb("RGBA", 2, 1, &[1, 2, 3, 9, 4, 5, 6, 9]).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(rgb("L", 2, 1, &[7, 8]).unwrap(), [7, 7, 7, 8, 8, 8]);
        assert_eq!(rgb("LA", 1, 2, &[7, 0, 8, 0]).unwrap(), [7, 7, 7, 8, 8, 8]);
        assert_eq!(rgb("1", 9, 1, &[0x80, 0x80]).unwrap()[..6], [255, 255, 255, 0, 0, 0]);
        assert_eq!(rgb("1", 9, 1, &[0x80, 0x80]).unwrap()[24..], [255; 3]);
        assert!(rgb("CMYK", 1, 1, &[0; 4]).unwrap_err().contains("CMYK"));
        assert!(rgb("RGB", 1, 2, &[0; 5]).unwrap_err().contains("5 bytes"));
        assert!(rgb("RGB", u32::MAX, u32::MAX, &[0; 5]).is_err());
        assert!(rgb("L", 0, 0, &[]).is_err());
        let whole = pil(2, 1, "L", &[7, 8]);
        assert!((0..whole.len()).all(|n| read(&Leaf::Pixels, &whole[..n]).is_err()));
    }

    #[test]
    fn pixels_that_are_numbers_become_arrays() {
        let stored = pil(2, 1, "I;16", &[1, 0, 2, 0]);
        let leaf = Leaf::named("pil").sniffed("pil", &stored);
        assert_eq!(leaf.kind(), Kind::Array);
        let (value, _) = read(&leaf, &stored).unwrap();
        let Value::Array { dtype, dimensions: 2, shape, .. } = value else { panic!("{value:?}") };
        assert_eq!((dtype, &shape[..2]), (DType::U16, &[1, 2][..]));
        assert!(read(&leaf, &pil(1, 1, "L", &[1])).is_err());
        assert!(read(&Leaf::Pixels, &stored).is_err());
    }

    #[test]
    fn array_heads_are_read_in_the_writers_byte_order() {
        let numbers = |order: fn(u32) -> [u8; 4], head: &[u32]| head.iter().flat_map(|n| order(*n)).collect();
        let numpy: Vec<u8> = numbers(u32::to_le_bytes, &[5, 2, 1, 2]);
        let torch: Vec<u8> = numbers(u32::to_be_bytes, &[14, 2, 1, 2]);
        for (leaf, head, expected) in [("numpy", numpy, DType::U16), ("tensor", torch, DType::I16)] {
            let stored = [&head[..], &[1, 0, 2, 0]].concat();
            let (value, buffer) = read(&Leaf::named(leaf), &stored).unwrap();
            let Value::Array { dtype, dimensions: 2, shape, bytes } = value else { panic!("{value:?}") };
            assert_eq!(
                (dtype, &shape[..2], buffer.bytes(&bytes)),
                (expected, &[1, 2][..], &[1, 0, 2, 0][..])
            );
            assert!((0..stored.len()).all(|n| read(&Leaf::named(leaf), &stored[..n]).is_err()));
        }
        let empty: Vec<u8> = numbers(u32::to_be_bytes, &[1, 1, 0]);
        assert!(read(&Leaf::named("tensor"), &empty).is_ok());
        let huge: Vec<u8> = numbers(u32::to_le_bytes, &[10, 3, u32::MAX, u32::MAX, u32::MAX]);
        assert!(read(&Leaf::named("numpy"), &huge).is_err());
        let complex: Vec<u8> = numbers(u32::to_le_bytes, &[11, 1, 0]);
        assert!(read(&Leaf::named("numpy"), &complex).unwrap_err().contains("complex"));
    }

    #[test]
    fn element_types_are_named_by_number() {
        for (name, dtype) in [
            ("no_header_tensor:10", DType::BF16),
            ("no_header_tensor:17", DType::I64),
            ("no_header_tensor:18", DType::I64),
            ("no_header_tensor:20", DType::U16),
            ("no_header_numpy:13", DType::Bool),
            ("no_header_numpy:5", DType::U16),
        ] {
            assert_eq!(Leaf::named(name), Leaf::Elements(Ok(dtype)), "{name}");
        }
        for name in ["no_header_numpy:12", "no_header_tensor:99", "no_header_numpy:16", "no_header_tensor"] {
            assert!(read(&Leaf::named(name), &[0; 16]).is_err(), "{name}");
        }
        assert!(read(&Leaf::named("no_header_numpy:3"), &[0; 9]).is_err());
        assert_eq!(DTypes::Torch.number(DType::F32), Some(1));
        assert_eq!(DTypes::Numpy.number(DType::BF16), None);
        for dtype in DType::ALL {
            for types in [DTypes::Numpy, DTypes::Torch] {
                assert!(types.number(dtype).is_none_or(|n| types.get(n) == Ok(dtype)));
            }
        }
    }

    #[test]
    fn scalars_have_the_right_size_or_are_refused() {
        assert_eq!(read(&Leaf::Int, &7i64.to_le_bytes()).unwrap().0, Value::Int(7));
        assert_eq!(read(&Leaf::Float, &0.5f64.to_le_bytes()).unwrap().0, Value::Float(0.5));
        assert_eq!(read(&Leaf::Bool, &[2]).unwrap().0, Value::Int(1));
        assert!(read(&Leaf::Int, &[0; 4]).is_err() && read(&Leaf::Bool, &[]).is_err());
    }

    #[test]
    fn images_stored_as_bytes_are_found() {
        let jpeg = b"\xff\xd8\xff\xe0....";
        assert_eq!(Leaf::named("bytes").sniffed("bytes", jpeg), Leaf::Image);
        assert_eq!(Leaf::named("file:jpg").sniffed("file:jpg", jpeg), Leaf::Image);
        assert_eq!(Leaf::named("bytes").sniffed("bytes", b"BM is how a text may start, too"), Leaf::Bytes);
        assert_eq!(Leaf::named("tifffile").sniffed("tifffile", b"II*\0"), Leaf::Bytes);
    }
}
