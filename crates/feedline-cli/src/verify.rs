//! `feedline verify`: reads everything and lists what is broken.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline::format::{Damage, Progress};
use feedline::sample::{FieldSet, SampleBuffer, Value};
use feedline::{DType, Dataset, Error, Kind, Loader, LoaderOptions, OnError};
use serde_json::json;

use crate::args::VerifyArgs;
use crate::failure::{Failure, split_hint};
use crate::progress::Bar;
use crate::report::{Output, warnings};
use crate::{ExitCode, data, interrupt, manifest, units};

/// Number of broken things printed for people; the JSON document has all.
const SHOWN: usize = 100;

/// What was checked, and what was wrong.
#[derive(Debug, Default)]
struct Findings {
    samples: u64,
    bytes: u64,
    damage: Vec<Damage>,
}

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    interrupt::watch();
    let dataset = data::open(std::slice::from_ref(&args.path), &args.open)?;
    let bar = Bar::new("verifying", output.is_json());
    let found = check(&dataset, args, &bar);
    bar.clear();
    if interrupt::asked() {
        let reason = format!("{} of {} were checked", bar.done().0, units::counted(dataset.len(), "sample"));
        return Err(Failure::interrupted(reason, ""));
    }
    let found = found?;
    if let Some(path) = &args.report {
        write_report(path, &found.damage)?;
    }
    let notices = notices(&dataset);
    if !output.is_json() {
        let what = format!("{} left out of the data set:", units::counted(notices.len() as u64, "thing"));
        warnings(&what, &notices, 5);
    }
    let unchecked = not_checked(&dataset, args.decode);
    output.document(|| document(&dataset, &found, &notices, &unchecked, bar.elapsed()));
    show(&dataset, &found, bar.elapsed(), output);
    for what in &unchecked {
        output.line(format!("not checked: {what}"));
    }
    Ok(if found.damage.is_empty() { ExitCode::Ok } else { ExitCode::Data })
}

/// Writes everything broken, as a table or as JSON, by the file's extension.
fn write_report(path: &std::path::Path, damage: &[Damage]) -> Result<(), Failure> {
    let text = match path.extension().and_then(|e| e.to_str()) {
        Some("json") => {
            let list: Vec<_> = damage.iter().map(as_json).collect();
            serde_json::to_string_pretty(&list).expect("plain data") + "\n"
        }
        Some("csv") => as_csv(damage),
        _ => return Err(Failure::usage("--report: the file's name must end in .csv or .json", "")),
    };
    std::fs::write(path, text)
        .map_err(|e| Failure::usage(format!("--report: {} cannot be written: {e}", path.display()), ""))
}

fn as_csv(damage: &[Damage]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let number = |value: Option<u64>| value.map(|v| v.to_string()).unwrap_or_default();
    let mut text = "file,sample,field,offset,reason\n".to_owned();
    for each in damage {
        let field = each.field.as_deref().unwrap_or_default();
        let columns = [
            quoted(&each.file),
            number(each.sample),
            quoted(field),
            number(each.offset),
            quoted(&each.reason),
        ];
        text += &columns.join(",");
        text.push('\n');
    }
    text
}

fn as_json(d: &Damage) -> serde_json::Value {
    json!({ "file": d.file, "sample": d.sample, "field": d.field, "offset": d.offset, "reason": d.reason })
}

fn check(dataset: &Dataset, args: &VerifyArgs, bar: &Bar) -> Result<Findings, Failure> {
    let mut found = if dataset.format_name() == "pack" {
        let report = feedline::format::verify(manifest::folder(&args.path), args.workers, bar)?;
        Findings { samples: report.samples, bytes: report.bytes, damage: report.damage }
    } else {
        read_all(dataset, args.workers, bar)
    };
    let unreadable = dataset.problems().iter().filter(|p| matches!(p, Error::Storage { .. }));
    found.damage.extend(unreadable.map(damage));
    if args.decode && !interrupt::asked() {
        let decoded = decode_all(dataset, args.workers, bar)?;
        let known = |d: &Damage| found.damage.iter().any(|k| k.sample == d.sample && d.sample.is_some());
        let fresh: Vec<Damage> = decoded.into_iter().filter(|d| !known(d)).collect();
        found.damage.extend(fresh);
    }
    Ok(found)
}

/// What this run could not or did not check: "intact" must not promise more than was checked.
fn not_checked(dataset: &Dataset, decoded: bool) -> Vec<String> {
    let mut what = Vec::new();
    let images = dataset.schema().fields.iter().any(|field| field.kind == Kind::Image);
    match dataset.format_name() {
        "pack" | "zip" => {}
        "folder" | "files" | "table" => what.push(
            "whether files are what they were when they were written; single files have no checksums"
                .to_owned(),
        ),
        _ => what.push("bytes for which the format has no checksum".to_owned()),
    }
    if images && !decoded {
        what.push("whether the images can be decoded; --decode does that".to_owned());
    }
    what
}

/// Things beside the data that are neither samples nor damage.
fn notices(dataset: &Dataset) -> Vec<String> {
    let harmless = dataset.problems().iter().filter(|p| !matches!(p, Error::Storage { .. }));
    harmless.map(ToString::to_string).collect()
}

/// Reads all fields of all samples with several threads.
fn read_all(dataset: &Dataset, workers: usize, bar: &Bar) -> Findings {
    let (next, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let broken: Mutex<Vec<Damage>> = Mutex::default();
    let read = || {
        let fields = FieldSet::all(dataset.schema().fields.len());
        let mut buffer = SampleBuffer::new();
        loop {
            let sample = next.fetch_add(1, Ordering::Relaxed);
            if sample >= dataset.len() || interrupt::asked() {
                return;
            }
            let result = dataset
                .read(sample, &fields, &mut buffer)
                .and_then(|()| check_texts(dataset, sample, &buffer));
            if let Err(error) = result {
                broken
                    .lock()
                    .expect("nobody panics while noting damage")
                    .push(damage_of(dataset, sample, &error));
            }
            let read = bytes.fetch_add(buffer.used() as u64, Ordering::Relaxed) + buffer.used() as u64;
            let _ = bar.update(sample + 1, read, dataset.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads(workers) {
            scope.spawn(read);
        }
        read();
    });
    let mut damage = broken.into_inner().expect("nobody panics while noting damage");
    damage.sort_by_key(|d| d.sample);
    Findings { samples: dataset.len(), bytes: bytes.into_inner(), damage }
}

fn threads(workers: usize) -> usize {
    if workers > 0 { workers } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

/// Text and JSON fields must be what they claim to be.
fn check_texts(dataset: &Dataset, sample: u64, buffer: &SampleBuffer) -> Result<(), Error> {
    for (field, value) in dataset.schema().fields.iter().zip(buffer.values()) {
        let Value::Bytes(range) = value else { continue };
        let bytes = buffer.bytes(range);
        if let Err(reason) = field.kind.check(bytes) {
            let place = dataset.format().locate(sample).with_sample(sample).with_field(&field.name);
            return Err(Error::data(place, reason));
        }
    }
    Ok(())
}

/// Decodes all images of all samples.
fn decode_all(dataset: &Dataset, workers: usize, bar: &Bar) -> Result<Vec<Damage>, Failure> {
    let images = dataset.schema().fields.iter().filter(|f| f.kind == Kind::Image);
    let images: Vec<String> = images.map(|f| f.name.clone()).collect();
    if images.is_empty() || dataset.is_empty() {
        return Ok(Vec::new());
    }
    let options = LoaderOptions::default()
        .with_batch_size(16)
        .with_fields(images)
        .with_dtype(DType::U8)
        .with_num_workers(workers)
        .with_on_error(OnError::Skip)
        .with_max_errors(u64::MAX);
    let loader = Loader::new(dataset.clone(), options)?;
    let (mut epoch, mut done) = (loader.epoch(0)?, 0);
    loop {
        match epoch.next_batch() {
            // A batch without any good sample is an error too; its samples are listed like all others.
            Ok(Some(_)) | Err(Error::TooManyBadSamples { .. } | Error::Sample { .. }) => {}
            Ok(None) => break,
            Err(error) => return Err(error.into()),
        }
        if interrupt::asked() {
            break;
        }
        done += 16;
        let _ = bar.update(done.min(dataset.len()), loader.stats().bytes_read, dataset.len());
    }
    let mut damage: Vec<Damage> = loader.errors().iter().map(damage).collect();
    damage.sort_by_key(|d| d.sample);
    Ok(damage)
}

fn damage_of(dataset: &Dataset, sample: u64, error: &Error) -> Damage {
    let mut found = damage(error);
    found.sample = Some(sample);
    if error.location().is_none() {
        found.file = dataset.format().locate(sample).to_string();
    }
    found
}

/// An error as a piece of damage: the location separate from the reason.
fn damage(error: &Error) -> Damage {
    let text = error.to_string();
    let Some(place) = error.location() else {
        return Damage { file: String::new(), sample: None, field: None, offset: None, reason: text };
    };
    let reason = match error {
        Error::Storage { action, source, .. } => format!("{action}: {source}"),
        Error::Data { reason, .. } | Error::Sample { reason, .. } => split_hint(reason).0.to_owned(),
        _ => split_hint(&text).0.to_owned(),
    };
    Damage {
        file: place.shard.clone().unwrap_or_else(|| place.uri.clone()),
        sample: place.sample,
        field: place.field.clone(),
        offset: place.offset,
        reason,
    }
}

fn show(dataset: &Dataset, found: &Findings, seconds: f64, output: &mut Output) {
    for damage in found.damage.iter().take(SHOWN) {
        output.line(format!("broken: {damage}"));
    }
    if found.damage.len() > SHOWN {
        output.line(format!(
            "... and {} more (--json lists all)",
            units::count((found.damage.len() - SHOWN) as u64)
        ));
    }
    let read = format!(
        "{}, {} in {}",
        units::counted(found.samples, "sample"),
        units::bytes(found.bytes),
        units::seconds(seconds)
    );
    output.line(match found.damage.len() as u64 {
        0 => format!("{}: intact ({read})", dataset.uri()),
        count => format!("{}: {} ({read})", dataset.uri(), units::counted(count, "problem")),
    });
}

fn document(
    dataset: &Dataset,
    found: &Findings,
    notices: &[String],
    unchecked: &[String],
    seconds: f64,
) -> serde_json::Value {
    let damage: Vec<_> = found.damage.iter().map(as_json).collect();
    json!({
        "path": dataset.uri(),
        "format": dataset.format_name(),
        "intact": damage.is_empty(),
        "samples": found.samples,
        "bytes": found.bytes,
        "damage": damage,
        "notices": notices,
        "not_checked": unchecked,
        "seconds": seconds,
    })
}
