//! `feedline pack --compare`: size and speed of each encoding, measured on a part of the user's own data.

use std::path::Path;
use std::time::Instant;

use feedline::field::ImageEncoding;
use feedline::{Dataset, Kind, Loader, LoaderOptions, PackSettings, Transform};
use serde_json::{Value, json};

use crate::args::PackArgs;
use crate::failure::Failure;
use crate::report::{Output, Table, message};
use crate::{ExitCode, data, machine, units};

/// Number of samples tried; enough for a mean within a few per cent.
const TRIED: u64 = 400;

/// Number of epochs, of which the best counts.
const EPOCHS: u64 = 3;

struct Row {
    image: ImageEncoding,
    bytes: u64,
    pack_seconds: f64,
    train_milliseconds: f64,
}

/// Measures every encoding; writes nothing at the destination.
pub(crate) fn run(args: &PackArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let open = data::of_source(&args.sources, &args.destination, &args.open, &args.source);
    let source = data::open(&args.sources, &open)?;
    let Some(field) = source.schema().fields.iter().find(|f| f.kind == Kind::Image).map(|f| f.name.clone())
    else {
        return Err(Failure::usage(
            "--compare: the data have no image field",
            "it compares encodings of images",
        ));
    };
    let step = source.len().div_ceil(TRIED).max(1);
    let chosen: Vec<u64> = (0..source.len()).step_by(step as usize).collect();
    let part = source.select(&chosen)?;
    let beside = Path::new(&args.destination).parent().filter(|p| p.is_dir()).unwrap_or(Path::new("."));
    let place = tempfile::Builder::new().prefix("feedline-compare-").tempdir_in(beside).map_err(|e| {
        Failure::from(feedline::Error::storage(
            "making a folder in",
            feedline::error::Location::new(beside.display().to_string()),
            e,
        ))
    })?;
    let mut rows = Vec::new();
    let mut encodings = ImageEncoding::ALL;
    encodings.sort_by(|a, b| a.growth().total_cmp(&b.growth()));
    for image in encodings {
        if !args.quiet {
            message(&format!("trying {} on {}", image.name(), units::counted(part.len(), "sample")));
        }
        rows.push(measure(&part, image, args, &field, &place.path().join(image.name()))?);
    }
    output.document(|| document(&rows, part.len()));
    show(&rows, part.len(), output);
    Ok(ExitCode::Ok)
}

fn measure(
    part: &Dataset,
    image: ImageEncoding,
    args: &PackArgs,
    field: &str,
    place: &Path,
) -> Result<Row, Failure> {
    let resizes = image != ImageEncoding::File;
    let settings = PackSettings {
        image,
        shorter_side: args.shorter_side.filter(|_| resizes),
        longer_side: args.longer_side.filter(|_| resizes),
        quality: args.quality.filter(|_| image == ImageEncoding::Jpeg),
        workers: args.workers,
        on_error: feedline::format::OnPackError::Skip,
        // Only the encoding is measured.
        check: Some(feedline::PackCheck::None),
        ..PackSettings::default()
    };
    let begun = Instant::now();
    let report = feedline::pack(&**part.format(), place, &settings.options()?, &())?;
    let pack_seconds = begun.elapsed().as_secs_f64();
    let dataset = Dataset::open(place.to_string_lossy())?;
    let train_milliseconds = train(dataset, field)?;
    Ok(Row { image, bytes: report.bytes, pack_seconds, train_milliseconds })
}

/// CPU time per image of the train recipe, the best of a few epochs on one thread.
fn train(dataset: Dataset, field: &str) -> Result<f64, Failure> {
    let recipe = vec![
        Transform::random_resized_crop(224),
        Transform::random_horizontal_flip(),
        Transform::normalize_imagenet(),
    ];
    let samples = dataset.len().max(1);
    let options = LoaderOptions::default().with_num_workers(1).with_transforms(field, recipe);
    let loader = Loader::new(dataset, options)?;
    let mut best = f64::INFINITY;
    for epoch in 0..EPOCHS {
        let begun = machine::cpu_seconds();
        for batch in loader.epoch(epoch)? {
            batch?;
        }
        best = best.min(machine::cpu_seconds() - begun);
    }
    Ok(best / samples as f64 * 1e3)
}

fn show(rows: &[Row], samples: u64, output: &mut Output) {
    let original = rows[0].bytes.max(1) as f64;
    let mut table = Table::new("lrrrrr");
    table.row(["image", "size", "x as-is", "pack MB/s", "train ms/image", "x as-is"]);
    for row in rows {
        table.row([
            row.image.name().to_owned(),
            units::bytes(row.bytes),
            format!("{:.2}", row.bytes as f64 / original),
            format!("{:.0}", original / row.pack_seconds / 1e6),
            format!("{:.3}", row.train_milliseconds),
            format!("{:.2}", rows[0].train_milliseconds / row.train_milliseconds),
        ]);
    }
    output.table(&table);
    output.line(format!(
        "{samples} samples; train: RandomResizedCrop 224, flip, normalise, CPU time on one thread, best of {EPOCHS} epochs; \
         nothing was written"
    ));
}

fn document(rows: &[Row], samples: u64) -> Value {
    let row = |row: &Row| {
        json!({
            "image": row.image.name(),
            "bytes": row.bytes,
            "pack_seconds": row.pack_seconds,
            "train_milliseconds_per_image": row.train_milliseconds,
        })
    };
    json!({ "samples": samples, "encodings": rows.iter().map(row).collect::<Vec<_>>() })
}
