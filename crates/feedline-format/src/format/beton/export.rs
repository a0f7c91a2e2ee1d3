//! Writes data sets as `.beton`. Threads write parts, which are then joined; see `write.rs`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use feedline_pixels::{Codec, Decoder, Orientation};
use serde::{Deserialize, Serialize};

use super::header::{FieldType, Layout, NAME_LENGTH};
use super::write::{Cell, LARGEST_PAGE, LEAST_PAGE, Part, PartWriter, Summary, join};
use super::{MODE_JPEG, MODE_RAW};
use crate::error::{Error, Location, Result};
use crate::field::Carrier;
use crate::format::convert::RESULT;
use crate::format::export::{Exporter, Samples, Shard, check_has_fields, only_ours, unwritten};
use crate::format::whole_file::{Temporary, failed, put_in_place, temporary_path};
use crate::sample::{
    DType, FieldSpec, ImageEncoding, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Schema, Value,
};

/// Parts are temporary files: only large enough that there are not too many.
const PART_BYTES: u64 = 1 << 28;

/// Writes FFCV's files.
#[derive(Debug)]
pub(in crate::format) struct BetonExporter {
    part_bytes: u64,
}

impl BetonExporter {
    /// Uses parts of about this size.
    pub(in crate::format) fn make(part_bytes: Option<u64>) -> Box<dyn Exporter> {
        Box::new(BetonExporter { part_bytes: part_bytes.unwrap_or(PART_BYTES) })
    }
}

/// What is recorded about a part.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    summary: Summary,
    /// Element type and shape of each array field; every sample of a `.beton` has the same.
    arrays: Vec<Option<(DType, Vec<u64>)>>,
}

/// Element type and shape of each array field of a sample.
fn arrays(schema: &Schema, buffer: &SampleBuffer) -> Vec<Option<(DType, Vec<u64>)>> {
    let array = |field: usize| match buffer.value(field) {
        Value::Array { dtype, dimensions, shape, .. } => {
            Some((*dtype, shape[..usize::from(*dimensions)].to_vec()))
        }
        _ => None,
    };
    (0..schema.fields.len()).map(array).collect()
}

fn layout(schema: &Schema, arrays: &[Option<(DType, Vec<u64>)>], place: &Location) -> Result<Layout> {
    let field = |(field, array): (&FieldSpec, &Option<(DType, Vec<u64>)>)| {
        let bad = |reason: String| Error::data(place.clone().with_field(&field.name), reason);
        let is = match (field.kind.carrier(), array) {
            (Carrier::Int, _) => FieldType::Int,
            (Carrier::Float, _) => FieldType::Float,
            (Carrier::Image, _) => FieldType::Image,
            (Carrier::Bytes, _) if field.kind == Kind::Json => FieldType::Json,
            (Carrier::Bytes, _) => FieldType::Bytes,
            (Carrier::Array, Some((dtype, sides))) => array_type(*dtype, sides).map_err(bad)?,
            (Carrier::Array, None) => return Err(bad("its shape is not known".to_owned())),
        };
        Ok((field.name.clone(), is))
    };
    Ok(Layout::of(schema.fields.iter().zip(arrays).map(field).collect::<Result<Vec<_>>>()?))
}

fn array_type(dtype: DType, sides: &[u64]) -> Result<FieldType, String> {
    if dtype.numpy().is_none() {
        return Err(format!("FFCV has no arrays of {}", dtype.name()));
    }
    // Zeros end the shape in the file.
    if sides.is_empty() || sides.contains(&0) {
        return Err(format!("FFCV has no arrays of shape {sides:?}"));
    }
    let mut shape = [0; MAX_DIMENSIONS];
    shape[..sides.len()].copy_from_slice(sides);
    let length = sides.iter().try_fold(dtype.size() as u64, |n, side| n.checked_mul(*side));
    let length = length.ok_or("an impossible array shape")?;
    Ok(FieldType::Array { dtype, shape, dimensions: sides.len() as u8, length })
}

/// An image in one of FFCV's forms.
struct EncodedImage {
    mode: u8,
    width: u16,
    height: u16,
    /// Pixels, if the bytes themselves cannot be stored.
    pixels: Option<Vec<u8>>,
}

/// JPEGs are stored unchanged if FFCV, which ignores EXIF and CMYK, shows them right; so are raw pixels. All others
/// are stored as upright pixels.
fn store(bytes: &[u8], meta: ImageMeta, decoder: &mut Decoder) -> Result<EncodedImage, String> {
    let small =
        |side: u32| u16::try_from(side).map_err(|_| format!("a side of {side} pixels; FFCV has 65535"));
    match meta.encoding {
        ImageEncoding::Rgb if meta.orientation <= 1 => {
            return Ok(EncodedImage {
                mode: MODE_RAW,
                width: small(meta.width)?,
                height: small(meta.height)?,
                pixels: None,
            });
        }
        ImageEncoding::Jpeg | ImageEncoding::File => {}
        other => return Err(only_ours(other)),
    }
    let header = feedline_pixels::probe(bytes).map_err(|e| e.to_string())?;
    let as_is = header.codec == Codec::Jpeg
        && header.orientation == Orientation::Upright
        && matches!(header.channels, 1 | 3);
    if as_is {
        let (width, height) = (small(header.size.width)?, small(header.size.height)?);
        return Ok(EncodedImage { mode: MODE_JPEG, width, height, pixels: None });
    }
    let (_, image) = decoder.decode_upright(bytes).map_err(|e| e.to_string())?;
    let (width, height) = (small(image.size.width)?, small(image.size.height)?);
    let step = image.layout.bytes();
    let mut pixels = Vec::with_capacity(usize::from(width) * usize::from(height) * 3);
    for y in 0..image.size.height {
        image.row(y).chunks_exact(step).for_each(|pixel| pixels.extend_from_slice(&pixel[..3]));
    }
    Ok(EncodedImage { mode: MODE_RAW, width, height, pixels: Some(pixels) })
}

/// The stored form of each image of a sample.
fn store_images(
    schema: &Schema,
    buffer: &SampleBuffer,
    decoder: &mut Decoder,
    place: &Location,
) -> Result<Vec<Option<EncodedImage>>> {
    let image = |(value, field): (&Value, &FieldSpec)| match value {
        Value::Image { bytes, meta, .. } => {
            let stored = store(buffer.bytes(bytes), *meta, decoder);
            let bad = |reason| Error::data(place.clone().with_field(&field.name), reason);
            stored.map(Some).map_err(bad)
        }
        Value::Missing => {
            let reason = "the sample lacks it; a .beton has no missing values";
            Err(Error::data(place.clone().with_field(&field.name), reason))
        }
        _ => Ok(None),
    };
    buffer.values().iter().zip(&schema.fields).map(image).collect()
}

fn cell<'a>(
    value: &Value,
    is: &FieldType,
    stored: Option<&'a EncodedImage>,
    buffer: &'a SampleBuffer,
) -> Cell<'a> {
    match value {
        Value::Int(number) => Cell::Int(*number),
        Value::Float(number) => Cell::Float(*number),
        Value::Bytes(range) if *is == FieldType::Json => Cell::Json(buffer.bytes(range)),
        Value::Bytes(range) => Cell::Bytes(buffer.bytes(range)),
        Value::Array { bytes, .. } => Cell::Array(buffer.bytes(bytes)),
        Value::Image { bytes, .. } => {
            let stored = stored.expect("every image was examined");
            let bytes = stored.pixels.as_deref().unwrap_or_else(|| buffer.bytes(bytes));
            Cell::Image { mode: stored.mode, width: stored.width, height: stored.height, bytes }
        }
        Value::Missing => unreachable!("missing values were refused"),
    }
}

/// A part on disk.
struct FilePart {
    path: PathBuf,
    summary: Summary,
}

impl Part for FilePart {
    fn summary(&self) -> Summary {
        self.summary
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(BufReader::with_capacity(1 << 18, file)))
    }
}

impl Exporter for BetonExporter {
    fn name(&self) -> &'static str {
        "beton"
    }

    fn settings(&self) -> String {
        format!("beton 1 {}", self.part_bytes)
    }

    fn check(&self, schema: &Schema) -> Result<()> {
        let refuse = |field: &FieldSpec, reason: &str| {
            Err(Error::option("to", format!("beton: the field '{}' {reason}", field.name)))
        };
        check_has_fields(self.name(), schema)?;
        for field in &schema.fields {
            if field.name.len() > NAME_LENGTH || !field.name.is_ascii() {
                let reason = "has a name of more than 16 ASCII letters, the most FFCV has room for; rename it with fields=";
                return refuse(field, reason);
            }
        }
        Ok(())
    }

    fn shard_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn shard_name(&self, number: usize, _: usize) -> String {
        format!("part-{number:05}")
    }

    fn write_shard(&self, samples: &mut Samples<'_>, out: &mut dyn Write) -> Result<serde_json::Value> {
        let schema = samples.schema();
        let mut decoder = Decoder::new();
        let (mut writer, mut out) = (None, Some(out));
        let mut first = Vec::new();
        while let Some((sample, buffer)) = samples.next()? {
            let place = Location::default().with_sample(sample);
            let stored = store_images(schema, buffer, &mut decoder, &place)?;
            let now = arrays(schema, buffer);
            if let Some(out) = out.take() {
                writer = Some(PartWriter::new(layout(schema, &now, &place)?, out));
                first.clone_from(&now);
            }
            if let Some(field) = (0..now.len()).find(|field| now[*field] != first[*field]) {
                let reason =
                    "its array has another type or shape than the first, and a .beton has one for all";
                return Err(Error::data(place.with_field(&schema.fields[field].name), reason));
            }
            let writer: &mut PartWriter<'_> = writer.as_mut().expect("made for the first sample");
            let cells = buffer.values().iter().zip(&writer.layout.fields).zip(&stored);
            let cells: Vec<_> = cells
                .map(|((value, field), stored)| cell(value, &field.is, stored.as_ref(), buffer))
                .collect();
            writer.add(&cells).map_err(unwritten)?;
        }
        let empty = Summary { samples: 0, payload: 0, largest: 0 };
        let summary = writer.map_or(Ok(empty), |writer| writer.finish().map_err(unwritten))?;
        Ok(serde_json::to_value(Note { summary, arrays: first }).expect("plain data"))
    }

    fn finish(&self, folder: &Path, schema: &Schema, shards: &[Shard]) -> Result<()> {
        let result = folder.join(RESULT);
        let bad = |reason: &str| Error::data(Location::new(folder.display().to_string()), reason);
        let (mut parts, mut first) = (Vec::new(), None);
        for shard in shards {
            let note: Note = serde_json::from_value(shard.note.clone())
                .map_err(|_| bad("the note of a part is damaged"))?;
            if note.summary.samples == 0 {
                continue;
            }
            if note.summary.largest > LARGEST_PAGE {
                return Err(bad("a sample of more than 2 GiB, the largest page FFCV can have"));
            }
            let arrays = first.get_or_insert_with(|| note.arrays.clone());
            if let Some(field) = (0..arrays.len()).find(|field| arrays[*field] != note.arrays[*field]) {
                let reason = "arrays of different types or shapes, and a .beton has one for all";
                let place = Location::default().with_field(&schema.fields[field].name);
                return Err(Error::data(place, reason));
            }
            parts.push(FilePart { path: folder.join(&shard.name), summary: note.summary });
        }
        let arrays = first.ok_or_else(|| bad("there are no samples, and FFCV reads no empty file"))?;
        let layout = layout(schema, &arrays, &Location::default())?;
        let parts: Vec<&dyn Part> = parts.iter().map(|part| part as &dyn Part).collect();
        let temporary = Temporary(temporary_path(&result));
        let file = File::create(&temporary.0).map_err(|e| failed("creating", &result, e))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        join(&layout, &parts, LEAST_PAGE, &mut out).map_err(|e| failed("writing", &result, e))?;
        let file = out.into_inner().map_err(|e| failed("writing", &result, e.into_error()))?;
        put_in_place(&file, temporary, &result)
    }

    fn single_file(&self) -> bool {
        true
    }
}
