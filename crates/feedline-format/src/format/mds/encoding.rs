//! The encodings of values in MDS samples, and the kinds of their fields.

use std::ops::Range;

use crate::format::sniff::is_image;
use crate::sample::{DType, ImageEncoding, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Value};

/// A column's encoding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    /// Raw bytes, or several images in one value, for which there is no kind.
    Bytes,
    Text,
    Json,
    Pickle,
    /// A JPEG or PNG file.
    Image,
    /// Width, height, mode and raw pixels of a PIL image.
    Pixels,
    Scalar(DType),
    /// Digits of an integer of any length.
    DecimalInt,
    DecimalFloat,
    Array {
        dtype: Option<DType>,
        shape: Option<Vec<u64>>,
    },
}

impl Encoding {
    /// The encoding of binary shards with this name.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        if let Some(rest) = name.strip_prefix("ndarray") {
            return array(rest).ok_or_else(|| format!("encoding '{name}' is not possible"));
        }
        Ok(match name {
            "bytes" | "jpeg_array" | "jpegarray" | "list[pil]" | "list[jpeg]" | "list[png]" => {
                Encoding::Bytes
            }
            "str" | "str_decimal" => Encoding::Text,
            "json" => Encoding::Json,
            "pkl" => Encoding::Pickle,
            "jpeg" | "png" => Encoding::Image,
            "pil" => Encoding::Pixels,
            "int" => Encoding::Scalar(DType::I64),
            "str_int" => Encoding::DecimalInt,
            "str_float" => Encoding::DecimalFloat,
            _ => match DType::from_name(name) {
                Some(dtype) if dtype.mds().is_some() => Encoding::Scalar(dtype),
                _ => return Err(format!("encoding '{name}' is unknown")),
            },
        })
    }

    /// The type of JSON and separated-value shards with this name.
    pub(super) fn of_text(name: &str) -> Result<Self, String> {
        Ok(match name {
            "str" => Encoding::Text,
            "int" => Encoding::DecimalInt,
            "float" => Encoding::DecimalFloat,
            _ => return Err(format!("type '{name}' is not one of str, int, float")),
        })
    }

    /// The length of every value, if it is the same.
    pub(super) fn fixed_size(&self) -> Option<u64> {
        match self {
            Encoding::Scalar(dtype) => Some(dtype.size() as u64),
            Encoding::Array { dtype: Some(dtype), shape: Some(shape) } => {
                shape.iter().try_fold(dtype.size() as u64, |n, side| n.checked_mul(*side))
            }
            _ => None,
        }
    }

    /// Whether the first value decides the kind.
    pub(super) fn depends_on_value(&self) -> bool {
        matches!(self, Encoding::Bytes | Encoding::Pixels | Encoding::DecimalInt)
    }

    /// The kind of the field, given the first value if there is one.
    pub(super) fn kind(&self, first: Option<&[u8]>) -> Kind {
        match self {
            Encoding::Bytes if first.is_some_and(is_image) => Kind::Image,
            Encoding::Bytes | Encoding::Pickle => Kind::Bytes,
            Encoding::Text => Kind::Text,
            Encoding::Json => Kind::Json,
            Encoding::Image => Kind::Image,
            Encoding::Pixels => match first.map(Pixels::parse) {
                Some(Ok(pixels)) if pixels.mode != b"RGB" => Kind::Array,
                _ => Kind::Image,
            },
            Encoding::Scalar(DType::F16 | DType::F32 | DType::F64) | Encoding::DecimalFloat => Kind::Float,
            // Numbers of this encoding may be larger than `i64`.
            Encoding::DecimalInt if first.is_some_and(|digits| number::<i64>(digits).is_none()) => Kind::Text,
            Encoding::DecimalInt | Encoding::Scalar(_) => Kind::Int,
            Encoding::Array { .. } => Kind::Array,
        }
    }

    /// Whether the stored bytes are the value's bytes.
    pub(super) fn is_verbatim(&self, kind: Kind) -> bool {
        let array = matches!(self, Encoding::Pixels | Encoding::Array { .. });
        !array && matches!(kind, Kind::Image | Kind::Text | Kind::Json | Kind::Bytes)
    }

    /// The value at `range` of the buffer.
    pub(super) fn decode(
        &self,
        kind: Kind,
        range: Range<usize>,
        buffer: &mut SampleBuffer,
    ) -> Result<Value, String> {
        let bytes = buffer.bytes(&range);
        match self {
            Encoding::Pixels => match Pixels::parse(bytes)?.value(kind, &range)? {
                Value::Image { bytes, meta, .. } if meta.channels == 1 => Ok(coloured(meta, &bytes, buffer)),
                value => Ok(value),
            },
            Encoding::Scalar(dtype) => scalar(*dtype, bytes),
            Encoding::DecimalInt if kind == Kind::Int => {
                number(bytes).map(Value::Int).ok_or_else(|| not_a("64-bit integer", bytes))
            }
            Encoding::DecimalFloat => number(bytes).map(Value::Float).ok_or_else(|| not_a("number", bytes)),
            Encoding::Array { dtype, shape } => decode_array(*dtype, shape.as_deref(), bytes, range.start),
            _ if kind == Kind::Image => {
                Ok(Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN })
            }
            _ => Ok(Value::Bytes(range)),
        }
    }
}

/// `""`, `":int16"` or `":float32:2,3"`.
fn array(rest: &str) -> Option<Encoding> {
    if rest.is_empty() {
        return Some(Encoding::Array { dtype: None, shape: None });
    }
    let mut parts = rest.strip_prefix(':')?.split(':');
    let dtype = DType::from_name(parts.next()?).filter(|d| d.mds().is_some())?;
    let Some(sides) = parts.next() else { return Some(Encoding::Array { dtype: Some(dtype), shape: None }) };
    let sides = sides.split(',').map(|side| side.trim().parse().ok()).collect::<Option<Vec<u64>>>()?;
    let encoding = Encoding::Array { dtype: Some(dtype), shape: Some(sides) };
    let Encoding::Array { shape: Some(sides), .. } = &encoding else { return None };
    (sides.len() <= MAX_DIMENSIONS && parts.next().is_none() && encoding.fixed_size().is_some())
        .then_some(encoding)
}

fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

fn not_a(what: &str, bytes: &[u8]) -> String {
    format!("'{}' is not a {what}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]))
}

fn scalar(dtype: DType, bytes: &[u8]) -> Result<Value, String> {
    if bytes.len() != dtype.size() {
        return Err(format!("{} bytes are not one {}", bytes.len(), dtype.name()));
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(word);
    Ok(match dtype {
        DType::F16 => Value::Float(half(unsigned as u16)),
        DType::F32 => Value::Float(f64::from(f32::from_bits(unsigned as u32))),
        DType::F64 => Value::Float(f64::from_bits(unsigned)),
        DType::I8 => Value::Int(i64::from(unsigned as u8 as i8)),
        DType::I16 => Value::Int(i64::from(unsigned as u16 as i16)),
        DType::I32 => Value::Int(i64::from(unsigned as u32 as i32)),
        DType::I64 => Value::Int(unsigned as i64),
        _ => Value::Int(
            i64::try_from(unsigned).map_err(|_| format!("{unsigned} does not fit in a signed integer"))?,
        ),
    })
}

/// An IEEE half-precision number.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    sign * match i32::from(bits >> 10 & 0x1f) {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// An array whose type and shape precede it unless the column has them. `start` is the offset of `bytes` in the
/// buffer.
fn decode_array(
    dtype: Option<DType>,
    shape: Option<&[u64]>,
    bytes: &[u8],
    start: usize,
) -> Result<Value, String> {
    let short = || "the array is truncated".to_owned();
    let mut at = 0;
    let dtype = if let Some(dtype) = dtype {
        dtype
    } else {
        let code = *bytes.first().ok_or_else(short)?;
        at = 1;
        DType::from_mds(code).ok_or_else(|| format!("element type {code} is unknown"))?
    };
    let mut sides = [0; MAX_DIMENSIONS];
    let dimensions = if let Some(shape) = shape {
        sides[..shape.len()].copy_from_slice(shape);
        shape.len()
    } else {
        let code = *bytes.get(at).ok_or_else(short)?;
        let (dimensions, width) = (usize::from(code >> 2), 1usize << (code & 3));
        if dimensions > MAX_DIMENSIONS {
            return Err(format!("{dimensions} dimensions; at most {MAX_DIMENSIONS} are possible"));
        }
        let words = bytes.get(at + 1..at + 1 + dimensions * width).ok_or_else(short)?;
        for (side, word) in sides.iter_mut().zip(words.chunks_exact(width)) {
            *side = word.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        }
        at += 1 + words.len();
        dimensions
    };
    let length = sides[..dimensions].iter().try_fold(dtype.size() as u64, |n, side| n.checked_mul(*side));
    if length != Some((bytes.len() - at) as u64) {
        let (shape, name) = (&sides[..dimensions], dtype.name());
        return Err(format!("{} bytes are not an array of {name} of shape {shape:?}", bytes.len() - at));
    }
    let data = start + at..start + bytes.len();
    Ok(Value::Array { dtype, dimensions: dimensions as u8, shape: sides, bytes: data })
}

/// A PIL image in the form of `tobytes`.
#[derive(Debug, PartialEq, Eq)]
struct Pixels<'a> {
    width: u32,
    height: u32,
    mode: &'a [u8],
    /// Offset of the pixels.
    data: usize,
    length: usize,
}

impl<'a> Pixels<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).ok_or("the raw image is truncated");
            word.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
        };
        let (width, height, length) = (word(0)?, word(4)?, word(8)?);
        // The longest mode of PIL has six letters.
        let data = 12 + length.min(64) as usize;
        let mode = bytes.get(12..data).ok_or("the raw image is truncated")?;
        Ok(Pixels { width, height, mode, data, length: bytes.len() - data })
    }

    fn value(&self, kind: Kind, range: &Range<usize>) -> Result<Value, String> {
        let (dtype, channels): (DType, u64) = match self.mode {
            b"L" | b"P" => (DType::U8, 1),
            b"LA" | b"La" | b"PA" => (DType::U8, 2),
            b"RGB" | b"YCbCr" | b"LAB" | b"HSV" => (DType::U8, 3),
            b"RGBA" | b"RGBa" | b"RGBX" | b"CMYK" => (DType::U8, 4),
            b"I" => (DType::I32, 1),
            b"F" => (DType::F32, 1),
            b"I;16" => (DType::U16, 1),
            other => {
                return Err(format!("images of mode '{}' are not supported", String::from_utf8_lossy(other)));
            }
        };
        let (width, height) = (u64::from(self.width), u64::from(self.height));
        let needed = (width * height).checked_mul(channels * dtype.size() as u64);
        if needed != Some(self.length as u64) {
            return Err(format!("{} bytes are stored, {width}x{height} pixels need others", self.length));
        }
        let bytes = range.start + self.data..range.end;
        if kind == Kind::Array {
            let dimensions = if channels == 1 { 2 } else { 3 };
            let shape = [height, width, if channels == 1 { 0 } else { channels }, 0, 0, 0, 0, 0];
            return Ok(Value::Array { dtype, dimensions, shape, bytes });
        }
        if self.mode != b"RGB" && self.mode != b"L" {
            return Err(format!("an image of mode '{}' among RGB ones", String::from_utf8_lossy(self.mode)));
        }
        let meta = ImageMeta {
            encoding: ImageEncoding::Rgb,
            width: self.width,
            height: self.height,
            channels: channels as u8,
            orientation: 1,
        };
        Ok(Value::Image { index: bytes.end..bytes.end, bytes, meta })
    }
}

/// Converts a grey image among coloured ones to RGB.
fn coloured(meta: ImageMeta, levels: &Range<usize>, buffer: &mut SampleBuffer) -> Value {
    let pixels: Vec<u8> = buffer.bytes(levels).iter().flat_map(|level| [*level; 3]).collect();
    let bytes = buffer.append(&pixels);
    Value::Image { index: bytes.end..bytes.end, bytes, meta: ImageMeta { channels: 3, ..meta } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(name: &str, bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
        let mut buffer = SampleBuffer::new();
        buffer.reset(1);
        // Not at the start: ranges must be relative to the buffer, not to the value.
        buffer.append(b"before");
        let range = buffer.append(bytes);
        let encoding = Encoding::parse(name)?;
        let value = encoding.decode(encoding.kind(Some(bytes)), range, &mut buffer)?;
        let held = match &value {
            Value::Bytes(range) | Value::Image { bytes: range, .. } | Value::Array { bytes: range, .. } => {
                buffer.bytes(range).to_vec()
            }
            _ => Vec::new(),
        };
        Ok((value, held))
    }

    #[test]
    fn scalars_have_their_values() {
        for (name, bytes, value) in [
            ("int", &[0x63, 0, 0, 0, 0, 0, 0, 0][..], Value::Int(99)),
            ("int", &[0xb1, 0x68, 0xde, 0x3a, 0, 0, 0, 0], Value::Int(987654321)),
            ("int8", &[0xff], Value::Int(-1)),
            ("uint8", &[0xff], Value::Int(255)),
            ("int16", &[0xfd, 0xff], Value::Int(-3)),
            ("int32", &[0, 0, 0, 0x80], Value::Int(-2147483648)),
            ("uint32", &[0, 0, 0, 0x80], Value::Int(2147483648)),
            ("float16", &[0, 0x38], Value::Float(0.5)),
            ("float16", &[1, 0], Value::Float(2f64.powi(-24))),
            ("float16", &[0, 0xfc], Value::Float(f64::NEG_INFINITY)),
            ("float32", &[0, 0, 0xc0, 0x3f], Value::Float(1.5)),
            ("str_int", b"-17", Value::Int(-17)),
            ("str_float", b"1e-05", Value::Float(1e-5)),
        ] {
            assert_eq!(decoded(name, bytes).unwrap().0, value, "{name}");
        }
        assert!(decoded("uint64", &[0xff; 8]).unwrap_err().contains("18446744073709551615"));
        assert!(decoded("int", &[0; 7]).is_err());
        assert!(decoded("str_float", b"much").unwrap_err().contains("much"));
        let long = b"-123456789012345678901";
        assert_eq!(decoded("str_int", long).unwrap().1, long, "too long for an integer: its digits");
    }

    #[test]
    fn arrays_check_their_length() {
        let (value, data) = decoded("ndarray", &[16, 2 << 2, 2, 1, 5, 0, 6, 0]).unwrap();
        let Value::Array { dtype, dimensions, shape, .. } = value else { panic!("an array") };
        assert_eq!(
            (dtype, dimensions, &shape[..2], &data[..]),
            (DType::U16, 2, &[2, 1][..], &[5, 0, 6, 0][..])
        );
        let (value, _) = decoded("ndarray:int8", &[1 << 2 | 1, 3, 0, 7, 8, 9]).unwrap();
        assert!(matches!(value, Value::Array { dtype: DType::I8, dimensions: 1, shape: [3, ..], .. }));
        assert!(decoded("ndarray:uint8:2,2", &[1, 2, 3, 4]).is_ok());
        for (name, bytes) in [
            ("ndarray", &[][..]),
            ("ndarray", &[16]),
            ("ndarray", &[200, 4, 1, 1]),
            ("ndarray", &[16, 2 << 2, 2]),
            ("ndarray", &[16, 2 << 2, 2, 1, 5, 0, 6]),
            ("ndarray", &[16, 63 << 2 | 3, 2, 1, 5, 0, 6]),
            ("ndarray", &[8, 2 << 2 | 3, 255, 255, 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0, 0, 0]),
            ("ndarray:uint8:2,2", &[1, 2, 3]),
        ] {
            assert!(decoded(name, bytes).is_err(), "{name} {bytes:?}");
        }
        for name in
            ["ndarray:bool", "ndarray:", "ndarray:int8:", "ndarray:int8:1,x", "ndarray:int8:1:2", "ndarrays"]
        {
            assert!(Encoding::parse(name).is_err(), "{name}");
        }
        assert!(Encoding::parse("ndarray:int64:4294967296,4294967296").is_err());
    }

    fn pixels(width: u32, height: u32, mode: &str, data: &[u8]) -> Vec<u8> {
        let head = [width, height, mode.len() as u32].map(u32::to_le_bytes).concat();
        [&head[..], mode.as_bytes(), data].concat()
    }

    #[test]
    fn raw_pixels_are_images_if_coloured_and_arrays_otherwise() {
        let (value, data) = decoded("pil", &pixels(2, 1, "RGB", b"abcdef")).unwrap();
        let Value::Image { meta, .. } = value else { panic!("an image") };
        assert_eq!(
            (meta.width, meta.height, meta.encoding, &data[..]),
            (2, 1, ImageEncoding::Rgb, &b"abcdef"[..])
        );
        let (value, _) = decoded("pil", &pixels(2, 1, "L", b"ab")).unwrap();
        assert!(matches!(value, Value::Array { dtype: DType::U8, dimensions: 2, shape: [1, 2, ..], .. }));
        let (value, _) = decoded("pil", &pixels(1, 1, "RGBA", b"abcd")).unwrap();
        assert!(matches!(value, Value::Array { dimensions: 3, shape: [1, 1, 4, ..], .. }));
        let mut buffer = SampleBuffer::new();
        let range = buffer.append(&pixels(2, 1, "L", b"ab"));
        let value = Encoding::Pixels.decode(Kind::Image, range, &mut buffer).unwrap();
        let Value::Image { bytes, .. } = value else { panic!("an image") };
        assert_eq!(buffer.bytes(&bytes), b"aaabbb", "grey among coloured ones");
        for bad in [
            pixels(2, 1, "RGB", b"abcde"),
            pixels(1, 1, "1", b"a"),
            pixels(u32::MAX, u32::MAX, "RGBA", b""),
            vec![0; 9],
        ] {
            assert!(decoded("pil", &bad).is_err());
        }
    }

    #[test]
    fn bytes_that_are_images_become_images() {
        assert_eq!(Encoding::Bytes.kind(Some(b"\xff\xd8\xff\xe0")), Kind::Image);
        assert_eq!(Encoding::Bytes.kind(Some(b"BM is no bitmap")), Kind::Bytes);
        assert_eq!(Encoding::Bytes.kind(None), Kind::Bytes);
    }
}
