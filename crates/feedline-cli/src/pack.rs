//! `feedline pack`: writes a data set as a pack.

use std::path::Path;

use feedline::{Dataset, Error, OnPackError, PackOptions, PackReport, PackSettings, StoredImage, pack_into};
use serde_json::{Value, json};

use crate::args::{ImageChoice, OnErrorChoice, PackArgs};
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::{Output, Table, message, warnings};
use crate::{ExitCode, compare, data, interrupt, units};

/// Runs the command.
pub(crate) fn run(args: &PackArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    if args.compare {
        return compare::run(args, output);
    }
    let options = options(args)?;
    interrupt::watch();
    let source = data::open(&args.sources, &args.open)?;
    let found = parts_found(args);
    if !args.quiet {
        warn_of_problems(&source);
        if found > 0 {
            message(&format!(
                "going on with an unfinished pack: {} there already",
                units::counted(found, "part")
            ));
        }
    }
    let destination = data::destination(&args.destination, &args.open)?;
    let bar = Bar::new("packing", args.quiet);
    let result = pack_into(&**source.format(), &destination, &options, &bar);
    bar.clear();
    let seconds = bar.elapsed();
    let report = match result {
        Ok(report) => report,
        Err(_) if interrupt::asked() => return Err(stopped(&bar, &source)),
        Err(error) => return Err(explain(error)),
    };
    if !args.quiet {
        warn_of_skipped(&report);
    }
    output.document(|| document(&report, &source, args, seconds));
    if !args.quiet {
        let time = time_taken(seconds, bar.done(), found);
        summary(&report, args, &time, output);
    }
    Ok(ExitCode::Ok)
}

fn options(args: &PackArgs) -> Result<PackOptions, Failure> {
    let settings = PackSettings {
        image: match args.image {
            ImageChoice::Jpeg => StoredImage::Jpeg,
            ImageChoice::Dct => StoredImage::Dct,
            ImageChoice::Yuv420 => StoredImage::Yuv420,
            ImageChoice::Rgb => StoredImage::Rgb,
            ImageChoice::AsIs => StoredImage::AsIs,
        },
        shorter_side: args.shorter_side,
        longer_side: args.longer_side,
        quality: args.quality,
        baseline: args.baseline,
        part_bytes: args.part_bytes,
        workers: args.workers,
        on_error: match args.on_error {
            OnErrorChoice::Raise => OnPackError::Raise,
            OnErrorChoice::Skip => OnPackError::Skip,
        },
        resume: !args.no_resume,
        overwrite: args.overwrite,
    };
    settings.options().map_err(Failure::from)
}

/// Names what lies at the source but is not part of the data set.
pub(crate) fn warn_of_problems(source: &Dataset) {
    let problems: Vec<String> = source.problems().iter().map(ToString::to_string).collect();
    let what = format!(
        "{} at the source are not part of the data set:",
        units::counted(problems.len() as u64, "thing")
    );
    warnings(&what, &problems, 5);
}

/// Parts of an unfinished pack at the destination that this run may go on from.
fn parts_found(args: &PackArgs) -> u64 {
    if args.no_resume || args.overwrite || Path::new(&args.destination).join("feedline.json").exists() {
        return 0;
    }
    let Ok(entries) = std::fs::read_dir(&args.destination) else { return 0 };
    let is_part = |name: &str| name.starts_with("part-") && name.strip_suffix(".fl").is_some();
    entries.flatten().filter(|e| e.file_name().to_str().is_some_and(is_part)).count() as u64
}

fn stopped(bar: &Bar, source: &Dataset) -> Failure {
    let (samples, _) = bar.done();
    let reason = format!(
        "{} of {} were done; finished parts are kept",
        units::count(samples),
        units::counted(source.len(), "sample")
    );
    Failure::interrupted(reason, "run the same command again to go on from there")
}

/// The engine's advice is about settings; the command line has names of its own for them.
fn explain(error: Error) -> Failure {
    let text = error.to_string();
    if text.contains("say overwrite") {
        return Failure::advised(error, "choose another destination, or replace it with --overwrite");
    }
    if error.location().is_some_and(|place| place.sample.is_some()) {
        return Failure::advised(error, "leave such samples out with --on-error skip");
    }
    error.into()
}

fn warn_of_skipped(report: &PackReport) {
    let reasons: Vec<String> =
        report.skipped.iter().map(|s| format!("sample {}: {}", s.sample, s.reason)).collect();
    let what = format!("{} left out:", units::counted(report.skipped_count, "sample"));
    warnings(&what, &reasons, 5);
}

fn summary(report: &PackReport, args: &PackArgs, time: &str, output: &mut Output) {
    let mut table = Table::new("l");
    table.row(["pack", &args.destination]);
    table.row(["samples", &units::count(report.samples)]);
    if report.skipped_count > 0 {
        table.row(["left out", &units::count(report.skipped_count)]);
    }
    let size = format!("{} in {}", units::bytes(report.bytes), units::counted(report.parts, "part"));
    table.row(["size", &size]);
    table.row(["fingerprint", &report.fingerprint.to_hex()]);
    table.row(["time", time]);
    output.table(&table);
}

/// Time and rates. What was there already would spoil the rates of a resumed run, so it has none.
fn time_taken(seconds: f64, (samples, bytes): (u64, u64), found: u64) -> String {
    if samples == 0 {
        return "nothing to do: the pack was complete".to_owned();
    }
    if found > 0 {
        return units::seconds(seconds);
    }
    let (rate, megabytes) = (samples as f64 / seconds, bytes as f64 / seconds / 1e6);
    let rate = units::count(rate as u64);
    format!("{} ({rate} samples/s, {} MB/s)", units::seconds(seconds), units::significant(megabytes))
}

fn document(report: &PackReport, source: &Dataset, args: &PackArgs, seconds: f64) -> Value {
    let skipped: Vec<Value> =
        report.skipped.iter().map(|s| json!({ "sample": s.sample, "reason": s.reason })).collect();
    let problems: Vec<String> = source.problems().iter().map(ToString::to_string).collect();
    json!({
        "path": args.destination,
        "source": source.uri(),
        "source_format": source.format_name(),
        "samples": report.samples,
        "parts": report.parts,
        "bytes": report.bytes,
        "fingerprint": report.fingerprint.to_hex(),
        "skipped_count": report.skipped_count,
        "skipped": skipped,
        "problems": problems,
        "seconds": seconds,
    })
}
