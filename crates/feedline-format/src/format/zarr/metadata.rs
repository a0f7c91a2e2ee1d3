//! The description of an array in `zarr.json` (Zarr 3) or `.zarray` (Zarr 2). All numbers are checked here.

use serde_json::Value as Json;

use super::super::npy::element;
use super::codec::Codec;
use crate::sample::{DType, MAX_DIMENSIONS};

/// Maximum size of a chunk in memory.
const LARGEST_CHUNK: u64 = 1 << 30;

/// The type of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    Number {
        dtype: DType,
        big_endian: bool,
    },
    /// Texts or bytes of any length.
    Varying {
        text: bool,
    },
}

/// A shard: chunks in one object, with an index of their offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sharding {
    /// Number of chunks along each dimension.
    pub(super) inside: Vec<u64>,
    pub(super) index_codecs: Vec<Codec>,
    pub(super) index_first: bool,
}

/// One array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) element: Element,
    pub(super) shape: Vec<u64>,
    /// Sides of a chunk, or of the chunks inside a shard.
    pub(super) chunk: Vec<u64>,
    pub(super) sharding: Option<Sharding>,
    pub(super) codecs: Vec<Codec>,
    /// The order in which a chunk's dimensions are stored, if it is not their own.
    pub(super) order: Option<Vec<usize>>,
    /// One element in its stored form.
    pub(super) fill: Vec<u8>,
    /// Separator between the numbers of a chunk's key, and what precedes them.
    pub(super) separator: char,
    pub(super) prefix: &'static str,
}

impl Array {
    /// Bytes of one number.
    pub(super) fn size(&self) -> usize {
        match self.element {
            Element::Number { dtype, .. } => dtype.size(),
            Element::Varying { .. } => 1,
        }
    }

    /// Bytes of a chunk of numbers.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunk.iter().product::<u64>() * self.size() as u64
    }

    /// Parses `zarr.json`; `None` if it describes a group.
    pub(super) fn parse(text: &[u8]) -> Result<Option<Self>, String> {
        let json: Json = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match json.get("node_type").and_then(Json::as_str) {
            Some("array") => Array::parse_array(&json).and_then(Array::checked).map(Some),
            Some("group") => Ok(None),
            _ => Err("neither an array nor a group".to_owned()),
        }
    }

    fn parse_array(json: &Json) -> Result<Self, String> {
        let shape = sides(json, "shape")?;
        let grid = get(json, "chunk_grid")?;
        if Codec::name_of(grid)? != "regular" {
            return Err(format!("a chunk grid called '{}' is not supported", Codec::name_of(grid)?));
        }
        let chunk = sides(get(grid, "configuration")?, "chunk_shape")?;
        let keys = get(json, "chunk_key_encoding")?;
        let (prefix, usual) = match Codec::name_of(keys)? {
            "default" => ("c", '/'),
            "v2" => ("", '.'),
            other => return Err(format!("chunk keys encoded as '{other}' are not supported")),
        };
        let given = keys.pointer("/configuration/separator").and_then(Json::as_str);
        let separator = separator(given, usual)?;
        let dtype = get(json, "data_type")?;
        let transformers = json.get("storage_transformers").and_then(Json::as_array);
        if transformers.is_some_and(|list| !list.is_empty()) {
            return Err("storage transformers are not supported".to_owned());
        }
        let pipeline = Pipeline::parse(get(json, "codecs")?, &chunk)?;
        let element = pipeline.element(dtype)?;
        let fill = fill(element, json.get("fill_value").unwrap_or(&Json::Null))?;
        let Pipeline { chunk, sharding, codecs, order, .. } = pipeline;
        Ok(Array { element, shape, chunk, sharding, codecs, order, fill, separator, prefix })
    }

    /// Parses `.zarray`.
    pub(super) fn parse_2(text: &[u8]) -> Result<Self, String> {
        let json: Json = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let (shape, chunk) = (sides(&json, "shape")?, sides(&json, "chunks")?);
        let dtype = get(&json, "dtype")?.as_str().ok_or("elements of several parts are not supported")?;
        let filters = json.get("filters").and_then(Json::as_array).cloned().unwrap_or_default();
        let filters: Vec<&str> = filters_named(&filters)?;
        let element = match (dtype, filters.as_slice()) {
            ("|O", ["vlen-utf8"]) => Element::Varying { text: true },
            ("|O", ["vlen-bytes"]) => Element::Varying { text: false },
            (_, []) => {
                let (dtype, big_endian) = element(dtype)?;
                Element::Number { dtype, big_endian }
            }
            (_, several) => return Err(format!("filters {} are not supported", several.join(", "))),
        };
        let compressor = json.get("compressor").filter(|compressor| !compressor.is_null());
        let codecs = compressor.map(|one| Codec::named(Codec::name_of(one)?)).transpose()?;
        let turned = json.get("order").and_then(Json::as_str) == Some("F") && shape.len() > 1;
        let order = turned.then(|| (0..shape.len()).rev().collect());
        let separator = separator(json.get("dimension_separator").and_then(Json::as_str), '.')?;
        let fill = fill(element, json.get("fill_value").unwrap_or(&Json::Null))?;
        let codecs = codecs.into_iter().collect();
        Array { element, shape, chunk, sharding: None, codecs, order, fill, separator, prefix: "" }.checked()
    }

    /// Checks that sides fit together and chunks fit in memory.
    fn checked(self) -> Result<Self, String> {
        if self.shape.is_empty() {
            return Err("a single value has no rows".to_owned());
        }
        if self.shape.len() > MAX_DIMENSIONS + 1 || self.chunk.len() != self.shape.len() {
            return Err(format!("{} sides, and chunks of {}", self.shape.len(), self.chunk.len()));
        }
        if self.chunk.contains(&0) {
            return Err("chunks without extent".to_owned());
        }
        let size = self.size() as u64;
        let bytes = self.chunk.iter().try_fold(size, |n, side| n.checked_mul(*side));
        if bytes.is_none_or(|bytes| bytes > LARGEST_CHUNK) {
            return Err(format!("chunks of shape {:?} are larger than {LARGEST_CHUNK} bytes", self.chunk));
        }
        if matches!(self.element, Element::Varying { .. }) && self.shape.len() > 1 {
            return Err("texts in more than one dimension are not supported".to_owned());
        }
        Ok(self)
    }
}

/// A parsed list of codecs.
struct Pipeline<'a> {
    chunk: Vec<u64>,
    sharding: Option<Sharding>,
    codecs: Vec<Codec>,
    order: Option<Vec<usize>>,
    /// The step from elements to bytes.
    serializer: &'a str,
    big_endian: bool,
}

impl<'a> Pipeline<'a> {
    fn parse(list: &'a Json, chunk: &[u64]) -> Result<Self, String> {
        let list = list.as_array().ok_or("the codecs are not a list")?;
        let (mut order, mut found): (_, Option<Pipeline>) = (None, None);
        for description in list {
            let name = Codec::name_of(description)?;
            let settings = description.get("configuration").unwrap_or(&Json::Null);
            if let Some(found) = &mut found {
                if found.sharding.is_some() {
                    return Err(format!("'{name}' around shards is not supported"));
                }
                found.codecs.push(Codec::named(name)?);
            } else if name == "transpose" {
                order = Some(permutation(settings, chunk.len())?);
            } else if name == "sharding_indexed" {
                if order.is_some() {
                    return Err("transposed shards are not supported".to_owned());
                }
                found = Some(sharded(settings, chunk)?);
            } else {
                let big_endian = settings.get("endian").and_then(Json::as_str) == Some("big");
                let (chunk, codecs) = (chunk.to_vec(), Vec::new());
                let order = order.take();
                found = Some(Pipeline { chunk, sharding: None, codecs, order, serializer: name, big_endian });
            }
        }
        found.ok_or_else(|| "no codec makes bytes of elements".to_owned())
    }

    fn element(&self, dtype: &Json) -> Result<Element, String> {
        let name = Codec::name_of(dtype)?;
        match (self.serializer, name) {
            ("vlen-utf8", "string") => Ok(Element::Varying { text: true }),
            ("vlen-bytes", "bytes" | "variable_length_bytes") => Ok(Element::Varying { text: false }),
            ("bytes", name) => {
                let dtype = DType::from_name(name)
                    .ok_or_else(|| format!("elements of type '{name}' are not supported"))?;
                Ok(Element::Number { dtype, big_endian: self.big_endian })
            }
            (serializer, name) => {
                Err(format!("elements of type '{name}' stored by '{serializer}' are not supported"))
            }
        }
    }
}

fn sharded<'a>(settings: &'a Json, shard: &[u64]) -> Result<Pipeline<'a>, String> {
    let chunk = sides(settings, "chunk_shape")?;
    let inner = Pipeline::parse(get(settings, "codecs")?, &chunk)?;
    let fits = chunk.len() == shard.len()
        && shard.iter().zip(&chunk).all(|(shard, chunk)| *chunk > 0 && shard.is_multiple_of(*chunk));
    if !fits || inner.sharding.is_some() {
        return Err("chunks that do not fit their shard, or shards in shards".to_owned());
    }
    let index = Pipeline::parse(get(settings, "index_codecs")?, &chunk)?;
    if index.serializer != "bytes" || index.big_endian || index.codecs.iter().any(|c| *c != Codec::Crc32c) {
        return Err("an index of shards that is compressed or big-endian is not supported".to_owned());
    }
    let inside = shard.iter().zip(&chunk).map(|(shard, chunk)| shard / chunk).collect();
    let index_first = settings.get("index_location").and_then(Json::as_str) == Some("start");
    let sharding = Sharding { inside, index_codecs: index.codecs, index_first };
    Ok(Pipeline { sharding: Some(sharding), ..inner })
}

fn get<'a>(json: &'a Json, name: &str) -> Result<&'a Json, String> {
    json.get(name).ok_or_else(|| format!("'{name}' is missing"))
}

fn sides(json: &Json, name: &str) -> Result<Vec<u64>, String> {
    let wrong = || format!("'{name}' is not a list of lengths");
    let list = get(json, name)?.as_array().ok_or_else(wrong)?;
    list.iter().map(|side| side.as_u64().ok_or_else(wrong)).collect()
}

fn separator(given: Option<&str>, usual: char) -> Result<char, String> {
    match given {
        None => Ok(usual),
        Some("/") => Ok('/'),
        Some(".") => Ok('.'),
        Some(other) => Err(format!("'{other}' between the numbers of a key is not supported")),
    }
}

fn permutation(settings: &Json, dimensions: usize) -> Result<Vec<usize>, String> {
    let order: Vec<usize> = sides(settings, "order")?.into_iter().map(|side| side as usize).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != (0..dimensions).collect::<Vec<_>>() {
        return Err(format!("an invalid order of dimensions: {order:?}"));
    }
    Ok(order)
}

fn filters_named(filters: &[Json]) -> Result<Vec<&str>, String> {
    filters.iter().map(Codec::name_of).collect()
}

/// One element of the chunks that do not exist.
fn fill(element: Element, value: &Json) -> Result<Vec<u8>, String> {
    let Element::Number { dtype, big_endian } = element else { return Ok(Vec::new()) };
    let wrong = || format!("a fill value of {value} is not supported");
    let mut bytes = match (dtype, value) {
        (_, Json::Null) => vec![0; dtype.size()],
        (DType::Bool, Json::Bool(truth)) => vec![u8::from(*truth)],
        (DType::F16 | DType::BF16 | DType::F32 | DType::F64, value) => {
            float(dtype, value).ok_or_else(wrong)?
        }
        (dtype, Json::Number(number)) => {
            let number =
                number.as_i64().map(i64::cast_unsigned).or_else(|| number.as_u64()).ok_or_else(wrong)?;
            number.to_le_bytes()[..dtype.size()].to_vec()
        }
        _ => return Err(wrong()),
    };
    if big_endian {
        bytes.reverse();
    }
    Ok(bytes)
}

fn float(dtype: DType, value: &Json) -> Option<Vec<u8>> {
    let number = match value {
        Json::Number(number) => number.as_f64()?,
        Json::String(name) => match name.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            hex => {
                // The bits themselves, most significant first.
                let bits = u64::from_str_radix(hex.strip_prefix("0x")?, 16).ok()?;
                return Some(bits.to_le_bytes()[..dtype.size()].to_vec());
            }
        },
        _ => return None,
    };
    Some(match dtype {
        DType::F64 => number.to_le_bytes().to_vec(),
        DType::F32 => (number as f32).to_le_bytes().to_vec(),
        // The upper half of a float.
        DType::BF16 => (number as f32).to_le_bytes()[2..].to_vec(),
        _ => half(number)?.to_le_bytes().to_vec(),
    })
}

/// The few 16-bit floats that occur as fill values.
fn half(number: f64) -> Option<u16> {
    if number == 0.0 {
        return Some(if number.is_sign_negative() { 0x8000 } else { 0 });
    }
    if number.is_nan() {
        return Some(0x7e00);
    }
    let sign = if number < 0.0 { 0x8000 } else { 0 };
    if number.is_infinite() {
        return Some(sign | 0x7c00);
    }
    // Exact ones only: eleven bits, within the range of normal 16-bit floats.
    let bits = (number.abs() as f32).to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    let exact = f64::from(f32::from_bits(bits)) == number.abs() && bits.trailing_zeros() >= 13;
    (exact && (-14..=15).contains(&exponent))
        .then(|| sign | ((exponent + 15) as u16) << 10 | ((bits >> 13) & 0x3ff) as u16)
}
