//! `feedline inspect`: describes a data set.

use std::collections::BTreeMap;
use std::fmt::Write;

use feedline::field::{ImageEncoding, ImageMeta};
use feedline::owned::OwnedValue;
use feedline::{Dataset, Kind, Sample};
use feedline_pixels::turbo;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::manifest::{Manifest, Part, folder};
use crate::report::{Output, Table, message, warnings};
use crate::{ExitCode, data, terminal, units};

/// Sizes are taken from at most this many samples, spread over the set, so that it does not take minutes.
const MAX_EXAMINED: u64 = 1_000_000;
/// Number of class names shown to people; the JSON document has all.
const CLASSES_SHOWN: usize = 8;
const PROBLEMS_SHOWN: usize = 10;
/// Samples in an HTML report.
const REPORTED: u64 = 60;

/// Runs the command.
pub(crate) fn run(args: &InspectArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let dataset = data::open(std::slice::from_ref(&args.path), &args.open)?;
    let readable = show(&dataset, args.samples, output);
    if !args.json {
        terminal::show(&dataset, args.samples, args.images, output);
    }
    if let Some(path) = &args.html {
        let page = feedline_view::report(&dataset, REPORTED);
        let place = || feedline::error::Location::new(path.display().to_string());
        std::fs::write(path, page).map_err(|e| feedline::Error::storage("writing", place(), e))?;
        message(&format!("wrote {}", path.display()));
    }
    let whole = truncated_parts(&dataset);
    if !whole.is_empty() {
        warnings("files of the pack do not have the length they were written with:", &whole, PROBLEMS_SHOWN);
    }
    Ok(if readable && whole.is_empty() { ExitCode::Ok } else { ExitCode::Data })
}

/// Parts of a local pack whose files do not have the length in the manifest.
fn truncated_parts(dataset: &Dataset) -> Vec<String> {
    let Some(manifest) = (dataset.format_name() == "pack").then(|| Manifest::read(dataset.uri())).flatten()
    else {
        return Vec::new();
    };
    let folder = folder(dataset.uri());
    let wrong = |(number, part): (usize, &Part)| {
        let name = format!("part-{number:06}.fl");
        let reason = match std::fs::metadata(folder.join(&name)) {
            Ok(meta) if meta.len() == part.bytes => return None,
            Ok(meta) => format!("{} bytes long, {} expected", meta.len(), part.bytes),
            Err(error) => error.to_string(),
        };
        Some(format!("{name}: {reason}"))
    };
    manifest.parts.iter().enumerate().filter_map(wrong).collect()
}

/// Prints everything about `dataset`, with its first `samples` samples; returns whether they could be read.
pub(crate) fn show(dataset: &Dataset, samples: u64, output: &mut Output) -> bool {
    let manifest = (dataset.format_name() == "pack").then(|| Manifest::read(dataset.uri())).flatten();
    let fields: Vec<Field> =
        (0..dataset.schema().fields.len()).map(|n| Field::summarise(dataset, n)).collect();
    let shown: Vec<SampleSummary> =
        (0..samples.min(dataset.len())).map(|n| SampleSummary::read(dataset, n)).collect();
    output.document(|| document(dataset, manifest.as_ref(), &fields, &shown));
    let readable = shown.iter().all(|sample| sample.fields.is_ok());
    if output.is_json() {
        return readable;
    }
    overview(dataset, manifest.as_ref(), output);
    show_fields(&fields, output);
    show_samples(&shown, output);
    show_problems(dataset, output);
    readable
}

/// Statistics of one field over all samples, as far as the index has them.
#[derive(Debug, Serialize)]
struct Field {
    name: String,
    kind: Kind,
    optional: bool,
    /// Whether all samples were examined, or an even selection of them.
    exact: bool,
    /// Stored bytes, if the index has them; scaled up if not exact.
    total_bytes: Option<u64>,
    mean_bytes: Option<f64>,
    smallest_bytes: Option<u64>,
    largest_bytes: Option<u64>,
    encodings: BTreeMap<&'static str, u64>,
    smallest_size: Option<[u32; 2]>,
    largest_size: Option<[u32; 2]>,
}

impl Field {
    fn summarise(dataset: &Dataset, number: usize) -> Self {
        let spec = &dataset.schema().fields[number];
        let step = dataset.len().div_ceil(MAX_EXAMINED).max(1);
        let mut field = Field {
            name: spec.name.clone(),
            kind: spec.kind,
            optional: spec.optional,
            exact: step == 1,
            total_bytes: None,
            mean_bytes: None,
            smallest_bytes: None,
            largest_bytes: None,
            encodings: BTreeMap::new(),
            smallest_size: None,
            largest_size: None,
        };
        let (mut seen, mut total) = (0u64, 0u64);
        for sample in (0..dataset.len()).step_by(step as usize) {
            if let Some(length) = dataset.format().byte_length(sample, number) {
                seen += 1;
                total += length;
                field.smallest_bytes = Some(field.smallest_bytes.map_or(length, |s| s.min(length)));
                field.largest_bytes = Some(field.largest_bytes.map_or(length, |l| l.max(length)));
            }
            if let Some(meta) = dataset.format().image_meta(sample, number) {
                field.picture(meta);
            }
        }
        if seen > 0 {
            field.total_bytes = Some(total.saturating_mul(step));
            field.mean_bytes = Some(total as f64 / seen as f64);
        }
        field
    }

    fn picture(&mut self, meta: ImageMeta) {
        *self.encodings.entry(meta.encoding.found_as()).or_default() += 1;
        if meta.width == 0 {
            return;
        }
        let area = |[width, height]: [u32; 2]| u64::from(width) * u64::from(height);
        let size = [meta.width, meta.height];
        if self.smallest_size.is_none_or(|s| area(size) < area(s)) {
            self.smallest_size = Some(size);
        }
        if self.largest_size.is_none_or(|s| area(size) > area(s)) {
            self.largest_size = Some(size);
        }
    }
}

fn overview(dataset: &Dataset, manifest: Option<&Manifest>, output: &mut Output) {
    let mut table = Table::new("l");
    table.row(["path", dataset.uri()]);
    let version =
        manifest.map(|m| format!(" (version {}.{})", m.version[0], m.version[1])).unwrap_or_default();
    table.row(["format", &format!("{}{version}", dataset.format_name())]);
    table.row(["fingerprint", &dataset.fingerprint().to_hex()]);
    table.row(["samples", &units::count(dataset.len())]);
    if let Some(manifest) = manifest {
        let parts = units::counted(manifest.parts.len() as u64, "part");
        table.row(["size", &format!("{} in {parts}", units::bytes(manifest.bytes()))]);
        let each = manifest.index_bytes() / dataset.len().max(1);
        table.row(["index", &format!("{} ({each} B per sample)", units::bytes(manifest.index_bytes()))]);
        table.row(["images", &manifest.image]);
        if manifest.skipped_count > 0 {
            table.row([
                "left out",
                &format!("{} when packing", units::counted(manifest.skipped_count, "sample")),
            ]);
        }
    }
    if let Some(classes) = dataset.classes() {
        let mut names = classes.iter().take(CLASSES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
        if classes.len() > CLASSES_SHOWN {
            names.push_str(", ...");
        }
        table.row(["classes", &format!("{}: {names}", units::count(classes.len() as u64))]);
    }
    output.table(&table);
}

fn show_fields(fields: &[Field], output: &mut Output) {
    output.line("");
    let mut table = Table::new("llrrrrl");
    table.row(["field", "kind", "total", "mean", "smallest", "largest", "stored as"]);
    for field in fields {
        let about = if field.exact { "" } else { "~" };
        let size = |bytes: Option<u64>| bytes.map_or("-".to_owned(), units::bytes);
        let optional = if field.optional { "?" } else { "" };
        table.row([
            field.name.clone(),
            format!("{}{optional}", field.kind.name()),
            field.total_bytes.map_or("-".to_owned(), |b| format!("{about}{}", units::bytes(b))),
            size(field.mean_bytes.map(|b| b as u64)),
            size(field.smallest_bytes),
            size(field.largest_bytes),
            stored_as(field),
        ]);
    }
    output.table(&table);
    if fields.iter().any(|f| f.optional) {
        output.line("('?': the field may be missing)");
    }
}

fn stored_as(field: &Field) -> String {
    let mut text: Vec<String> =
        field.encodings.iter().map(|(name, count)| format!("{} {name}", units::count(*count))).collect();
    if let (Some([w, h]), Some([width, height])) = (field.smallest_size, field.largest_size) {
        text.push(format!("{w}x{h} to {width}x{height}"));
    }
    if text.is_empty() { "-".to_owned() } else { text.join(", ") }
}

/// One sample, field by field.
#[derive(Debug)]
struct SampleSummary {
    number: u64,
    fields: Result<Vec<(String, Value, String)>, String>,
}

impl SampleSummary {
    fn read(dataset: &Dataset, number: u64) -> Self {
        let fields = dataset.get(number).map_err(|e| e.to_string());
        SampleSummary { number, fields: fields.map(|sample| describe_sample(&sample, dataset.classes())) }
    }
}

fn describe_sample(sample: &Sample, classes: Option<&[String]>) -> Vec<(String, Value, String)> {
    let one = |(name, value): &(String, OwnedValue)| {
        let classes = classes.filter(|_| name == "label");
        let (value, text) = describe(value, classes);
        (name.clone(), value, text)
    };
    sample.fields.iter().map(one).collect()
}

/// A value for programs and for people.
fn describe(value: &OwnedValue, classes: Option<&[String]>) -> (Value, String) {
    match value {
        OwnedValue::Missing => (Value::Null, "missing".to_owned()),
        OwnedValue::Int(number) => {
            let class = usize::try_from(*number).ok().and_then(|n| classes?.get(n));
            let text = class.map_or_else(|| number.to_string(), |class| format!("{number} ({class})"));
            (json!(number), text)
        }
        OwnedValue::Float(number) => (json!(number), number.to_string()),
        OwnedValue::Text(text) => (json!(text), format!("\"{}\"", shorten(text))),
        OwnedValue::Json(text) => (json!(text), shorten(text)),
        OwnedValue::Bytes(bytes) => (json!({ "bytes": bytes.len() }), units::bytes(bytes.len() as u64)),
        OwnedValue::Image { bytes, index, meta } => describe_image(bytes, index, *meta),
        OwnedValue::Array { dtype, shape, bytes } => {
            let text = format!("{} {shape:?}, {}", dtype.name(), units::bytes(bytes.len() as u64));
            (json!({ "dtype": dtype.name(), "shape": shape, "bytes": bytes.len() }), text)
        }
    }
}

fn describe_image(bytes: &[u8], index: &[u8], meta: ImageMeta) -> (Value, String) {
    let (width, height) = match (meta.width, turbo::header(bytes)) {
        (0, Ok(header)) => (header.size.width, header.size.height),
        _ => (meta.width, meta.height),
    };
    let encoding = match meta.encoding {
        ImageEncoding::File if bytes.starts_with(&[0xff, 0xd8, 0xff]) => "jpeg",
        other => other.found_as(),
    };
    let size = if width == 0 { "size unknown".to_owned() } else { format!("{width}x{height}") };
    let mut text = format!("{encoding} {size}, {}", units::bytes(bytes.len() as u64));
    if !index.is_empty() {
        let _ = write!(text, " + {} index", units::bytes(index.len() as u64));
    }
    let known = (width != 0).then_some(json!([width, height]));
    (json!({ "encoding": encoding, "size": known, "bytes": bytes.len(), "index_bytes": index.len() }), text)
}

fn shorten(text: &str) -> String {
    const MOST: usize = 48;
    let plain: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MOST).is_some() { format!("{plain}...") } else { plain }
}

fn show_samples(samples: &[SampleSummary], output: &mut Output) {
    if samples.is_empty() {
        return;
    }
    output.line("");
    let mut table = Table::new("l");
    let names = samples.iter().find_map(|s| s.fields.as_ref().ok());
    let names = names.into_iter().flatten().map(|(name, ..)| name.clone());
    table.row(std::iter::once("sample".to_owned()).chain(names));
    for sample in samples {
        let number = sample.number.to_string();
        match &sample.fields {
            Ok(fields) => {
                table.row(std::iter::once(number).chain(fields.iter().map(|(.., text)| text.clone())));
            }
            Err(error) => table.row([number, format!("cannot be read: {error}")]),
        }
    }
    output.table(&table);
}

fn show_problems(dataset: &Dataset, output: &mut Output) {
    let problems = dataset.problems();
    if problems.is_empty() {
        return;
    }
    output.line("");
    output.line(format!("found, but not part of the data set: {}", units::count(problems.len() as u64)));
    for problem in problems.iter().take(PROBLEMS_SHOWN) {
        output.line(format!("  {problem}"));
    }
    if problems.len() > PROBLEMS_SHOWN {
        output.line(format!("  ... and {} more", units::count((problems.len() - PROBLEMS_SHOWN) as u64)));
    }
}

fn document(
    dataset: &Dataset,
    manifest: Option<&Manifest>,
    fields: &[Field],
    samples: &[SampleSummary],
) -> Value {
    let pack = manifest.map(|m| {
        json!({
            "version": m.version,
            "parts": m.parts.len(),
            "bytes": m.bytes(),
            "index_bytes": m.index_bytes(),
            "image": m.image,
            "skipped_count": m.skipped_count,
        })
    });
    let first: Vec<Value> = samples.iter().map(sample_document).collect();
    json!({
        "path": dataset.uri(),
        "format": dataset.format_name(),
        "fingerprint": dataset.fingerprint().to_hex(),
        "samples": dataset.len(),
        "fields": fields,
        "classes": dataset.classes(),
        "pack": pack,
        "problems": dataset.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "first_samples": first,
    })
}

fn sample_document(sample: &SampleSummary) -> Value {
    match &sample.fields {
        Ok(fields) => {
            let values: serde_json::Map<String, Value> =
                fields.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect();
            json!({ "sample": sample.number, "fields": values })
        }
        Err(error) => json!({ "sample": sample.number, "error": error }),
    }
}
