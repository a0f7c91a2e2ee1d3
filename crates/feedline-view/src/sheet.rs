//! Everything about one sample, and a line about it for the grid.

use feedline::owned::OwnedValue;
use feedline::{Dataset, Kind};
use serde_json::{Value, json};

use crate::recording::{self, Recording};

/// Longer texts and arrays are cut.
const MOST_TEXT: usize = 4000;
const MOST_NUMBERS: usize = 4096;
const LINE_TEXT: usize = 80;

/// What the page needs to know of a data set before it asks for anything.
pub(crate) fn about(dataset: &Dataset) -> Value {
    let fields: Vec<Value> = dataset
        .schema()
        .fields
        .iter()
        .map(|field| json!({"name": field.name, "kind": field.kind.name(), "optional": field.optional}))
        .collect();
    json!({
        "uri": dataset.uri(),
        "format": dataset.format_name(),
        "samples": dataset.len(),
        "fingerprint": dataset.fingerprint().to_hex(),
        "fields": fields,
        "image": shown_field(dataset, 0),
        "classes": dataset.classes(),
        "remote": dataset.format().is_remote(),
        "problems": dataset.problems().iter().take(20).map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// The first image field; masks come second, whatever the order.
pub(crate) fn image_field(dataset: &Dataset) -> Option<usize> {
    let fields = &dataset.schema().fields;
    let images = || (0..fields.len()).filter(|n| fields[*n].kind == Kind::Image);
    images()
        .find(|n| fields[*n].name == "image")
        .or_else(|| images().find(|n| !is_mask(dataset, *n)))
        .or(images().next())
}

/// The field that stands for a sample: its image, else its video or sound.
pub(crate) fn shown_field(dataset: &Dataset, sample: u64) -> Option<usize> {
    image_field(dataset).or_else(|| recording::field(dataset, sample))
}

/// Whether a field is drawn over the image, going by its name.
pub(crate) fn is_mask(dataset: &Dataset, field: usize) -> bool {
    let name = dataset.schema().fields[field].name.to_lowercase();
    ["mask", "segm", "annotation"].iter().any(|word| name.contains(word))
}

/// The field with the class, if there is one.
pub(crate) fn label_field(dataset: &Dataset) -> Option<usize> {
    let fields = &dataset.schema().fields;
    let ints = || (0..fields.len()).filter(|n| fields[*n].kind == Kind::Int);
    ints().find(|n| fields[*n].name == "label").or(ints().next())
}

/// The class of a sample.
pub(crate) fn label(dataset: &Dataset, sample: u64) -> Option<i64> {
    let field = label_field(dataset)?;
    dataset.format().int_value(sample, field).or_else(|| match dataset.get_field(sample, field) {
        Ok(OwnedValue::Int(value)) => Some(value),
        _ => None,
    })
}

/// Height and width of the image of a sample, from the index or the image's first bytes.
pub(crate) fn size(dataset: &Dataset, sample: u64) -> Option<(u32, u32)> {
    let field = image_field(dataset)?;
    let known = dataset.format().image_meta(sample, field).and_then(|meta| meta.oriented_size());
    known.or_else(|| match dataset.get_field(sample, field) {
        Ok(OwnedValue::Image { bytes, meta, .. }) => meta.oriented_size().or_else(|| probed(&bytes)),
        _ => None,
    })
}

fn probed(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = feedline_pixels::probe(bytes).ok()?;
    Some((header.size.height, header.size.width))
}

/// A line of the grid: only what costs little.
pub(crate) fn line(dataset: &Dataset, sample: u64) -> Value {
    let class = label_field(dataset).and_then(|field| dataset.format().int_value(sample, field));
    let meta = image_field(dataset).and_then(|field| dataset.format().image_meta(sample, field));
    let size = meta.and_then(|meta| meta.oriented_size());
    json!({"index": sample, "label": class, "class": name_of(dataset, class), "size": size})
}

fn name_of(dataset: &Dataset, class: Option<i64>) -> Option<String> {
    let names = dataset.classes()?;
    names.get(usize::try_from(class?).ok()?).map(|name| name.chars().take(LINE_TEXT).collect())
}

/// The sheet of a sample; one that cannot be read says why.
pub(crate) fn sheet(dataset: &Dataset, sample: u64) -> Value {
    let place = dataset.format().locate(sample).seen_as(sample);
    let place =
        json!({"words": place.to_string(), "uri": place.uri, "shard": place.shard, "offset": place.offset});
    let code = format!("ds = fl.open({})\nds[{sample}]", python_text(dataset.uri()));
    match dataset.get(sample) {
        Err(error) => json!({"index": sample, "place": place, "code": code, "error": error.to_string()}),
        Ok(found) => {
            let fields: Vec<Value> = (0..)
                .zip(&found.fields)
                .map(|(number, (name, value))| field(dataset, number, name, value))
                .collect();
            let class = label(dataset, sample);
            json!({"index": sample, "place": place, "code": code, "fields": fields, "label": class,
                "class": name_of(dataset, class)})
        }
    }
}

fn field(dataset: &Dataset, number: usize, name: &str, value: &OwnedValue) -> Value {
    let kind = dataset.schema().fields[number].kind.name();
    let shown = match value {
        OwnedValue::Missing => json!({"missing": true}),
        OwnedValue::Int(value) => json!({"value": value}),
        OwnedValue::Float(value) => json!({"value": value}),
        OwnedValue::Text(text) => json!({"value": cut(text), "bytes": text.len()}),
        OwnedValue::Json(text) => json!({"json": parsed(text), "value": cut(text), "bytes": text.len()}),
        OwnedValue::Bytes(bytes) => {
            let player = Recording::of(bytes).map(Recording::player);
            json!({"bytes": bytes.len(), "value": head(bytes), "player": player})
        }
        OwnedValue::Array { dtype, shape, bytes } => {
            let numbers = numbers(*dtype, bytes);
            json!({"dtype": dtype.name(), "shape": shape, "bytes": bytes.len(), "numbers": numbers})
        }
        OwnedValue::Image { bytes, index, meta } => image(dataset, number, bytes, index.len(), *meta),
    };
    let mut all = json!({"name": name, "kind": kind, "field": number});
    if let (Value::Object(all), Value::Object(shown)) = (&mut all, shown) {
        all.extend(shown);
    }
    all
}

fn image(
    dataset: &Dataset,
    number: usize,
    bytes: &[u8],
    index: usize,
    meta: feedline::field::ImageMeta,
) -> Value {
    let header = feedline_pixels::probe(bytes).ok();
    let size = meta.oriented_size().or_else(|| probed(bytes));
    let is_file = matches!(meta.encoding.name(), "jpeg" | "as-is");
    let codec = header.filter(|_| is_file).map(|header| format!("{:?}", header.codec).to_lowercase());
    json!({
        "bytes": bytes.len(),
        "index_bytes": index,
        "size": size,
        "encoding": meta.encoding.found_as(),
        "codec": codec,
        "orientation": header.filter(|_| is_file).map(|header| header.orientation as u8),
        "exif": if is_file { crate::exif::exif(bytes) } else { Value::Null },
        "mask": is_mask(dataset, number),
    })
}

fn cut(text: &str) -> String {
    let short: String = text.chars().take(MOST_TEXT).collect();
    if short.len() < text.len() { format!("{short} …") } else { short }
}

fn parsed(text: &str) -> Value {
    if text.len() > 20 * MOST_TEXT { Value::Null } else { serde_json::from_str(text).unwrap_or(Value::Null) }
}

fn head(bytes: &[u8]) -> String {
    let hex: Vec<String> = bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
    format!("{}{}", hex.join(" "), if bytes.len() > 32 { " …" } else { "" })
}

fn numbers(dtype: feedline::DType, bytes: &[u8]) -> Value {
    let count = bytes.len() / dtype.size().max(1);
    if count > MOST_NUMBERS {
        return Value::Null;
    }
    feedline::apply::numbers(dtype, bytes).map_or(Value::Null, |numbers| json!(numbers))
}

/// A text as Python writes it.
pub(crate) fn python_text(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            c if c.is_control() => format!("\\x{:02x}", c as u32 & 0xff),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}
