//! `feedline pack`: writes a data set as a pack.

use std::path::Path;

use feedline::error::{DataCause, redacted};
use feedline::format::{
    OnPackError, PackOptions, PackReport, append_pack, commit_pack_into, pack_into, plan_pack,
};
use feedline::source::Destination;
use feedline::{Dataset, Error, PackCheck, PackSettings};
use serde_json::{Value, json};

use crate::args::{CheckChoice, OnErrorChoice, PackArgs};
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::{Output, Table, message, warnings};
use crate::tasks::Work;
use crate::{ExitCode, compare, data, interrupt, split, tasks, units};

/// Runs the command.
pub(crate) fn run(args: &PackArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    if args.compare {
        return compare::run(args, output);
    }
    let options = options(args)?;
    let (work, shares) = (tasks::work(&args.task)?, split::shares(args)?);
    interrupt::watch();
    let mut open = data::of_source(&args.sources, &args.destination, &args.open, &args.source);
    open.split = open.split.filter(|_| shares.is_none());
    let source = data::open(&args.sources, &open)?;
    if let Some(shares) = shares {
        refuse_with_split(args, work)?;
        return split::run(&source, &shares, args, &options, output);
    }
    if work != Work::Alone {
        return in_tasks(&source, args, &options, work, output);
    }
    let found = parts_found(args);
    if !args.quiet {
        warn_of_problems(&source);
        if found > 0 {
            message(&format!(
                "resuming an unfinished pack: {} written already",
                units::counted(found, "part")
            ));
        }
    }
    let destination = data::destination(&args.destination, &args.open, &args.source)?;
    let bar = Bar::new("packing", args.quiet);
    let result = match (args.append, &destination) {
        (false, _) => pack_into(&**source.format(), &destination, &options, &bar),
        (true, Destination::Local(folder)) => append_pack(&**source.format(), folder, &options, &bar),
        (true, _) => Err(Error::option("--append", "only to a pack on this machine's disks")),
    };
    bar.clear();
    let seconds = bar.elapsed();
    let report = match result {
        Ok(report) => report,
        Err(_) if interrupt::asked() => return Err(stopped(&bar, &source)),
        Err(error) => return Err(explain(error)),
    };
    if !args.quiet {
        warn_of_skipped(&report);
        report_progressive(&options);
    }
    output.document(|| document(&report, &source, args, &options, seconds));
    if !args.quiet {
        let time = time_taken(seconds, bar.done(), found);
        summary(&report, args, &time, output);
    }
    Ok(ExitCode::Ok)
}

fn refuse_with_split(args: &PackArgs, work: Work) -> Result<(), Failure> {
    let other = if work == Work::Alone { "--append" } else { "--part and --commit" };
    if work == Work::Alone && !args.append {
        return Ok(());
    }
    let hint = "split first, then pack each part by itself";
    Err(Failure::usage(format!("--split: the shares are packed at once, without {other}"), hint))
}

/// Writes a share of the work, or commits it.
fn in_tasks(
    source: &Dataset,
    args: &PackArgs,
    options: &PackOptions,
    work: Work,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    if args.overwrite || args.no_resume {
        let hint = "remove the pack, then start the tasks";
        return Err(Failure::usage(
            "--part, --commit: a task removes nothing that others may have written",
            hint,
        ));
    }
    let destination = data::destination(&args.destination, &args.open, &args.source)?;
    let plan = plan_pack(&**source.format(), options)?;
    let bar = Bar::new("packing", args.quiet);
    let result = match work {
        Work::Share(task) => tasks::write_share(&plan, &**source.format(), options, &destination, task, &bar),
        _ => commit_pack_into(&plan, &destination).map(Some),
    };
    bar.clear();
    let report = match result {
        Ok(report) => report,
        Err(_) if interrupt::asked() => return Err(stopped(&bar, source)),
        Err(error) => return Err(explain(error)),
    };
    if let (Some(report), false) = (&report, args.quiet) {
        warn_of_skipped(report);
    }
    if !args.quiet {
        report_progressive(options);
    }
    match &report {
        Some(report) => output.document(|| document(report, source, args, options, bar.elapsed())),
        None => output.document(|| {
            json!({ "path": redacted(&args.destination), "plan_parts": plan.parts(),
            "samples_written": bar.done().0, "complete": false, "seconds": bar.elapsed() })
        }),
    }
    match (&report, args.quiet) {
        (Some(report), false) => summary(report, args, &units::seconds(bar.elapsed()), output),
        (None, false) => {
            message("this task's parts are written; 'feedline pack ... --commit' completes the pack");
        }
        _ => {}
    }
    Ok(ExitCode::Ok)
}

fn options(args: &PackArgs) -> Result<PackOptions, Failure> {
    let settings = PackSettings {
        image: args.image,
        shorter_side: args.shorter_side,
        longer_side: args.longer_side,
        quality: args.quality,
        baseline: args.baseline,
        video: args.video,
        part_bytes: args.part_bytes,
        workers: args.workers,
        on_error: match args.on_error {
            OnErrorChoice::Raise => OnPackError::Raise,
            OnErrorChoice::Skip => OnPackError::Skip,
        },
        check: Some(match args.check {
            CheckChoice::None => PackCheck::None,
            CheckChoice::Header => PackCheck::Header,
            CheckChoice::Decode => PackCheck::Decode,
        }),
        resume: !args.no_resume,
        overwrite: args.overwrite,
    };
    settings.options().map_err(Failure::from)
}

/// Lists things at the source that are not part of the data set.
pub(crate) fn warn_of_problems(source: &Dataset) {
    let problems: Vec<String> = source.problems().iter().map(ToString::to_string).collect();
    let what = format!(
        "{} at the source are not part of the data set:",
        units::counted(problems.len() as u64, "thing")
    );
    warnings(&what, &problems, 5);
}

/// Number of parts of an unfinished pack at the destination that this run can resume from.
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
    Failure::interrupted(reason, "run the same command again to resume")
}

/// The engine's advice is about settings; the command line has its own names for them.
fn explain(error: Error) -> Failure {
    if error.cause() == Some(DataCause::Occupied) {
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

/// Number of progressive JPEGs of this run: stored as they are, and rewritten.
fn progressive(options: &PackOptions) -> (u64, u64) {
    let met = options.image.met();
    let number = |name: &str| met.iter().find(|(known, _)| *known == name).map_or(0, |(_, number)| *number);
    (number("progressive"), number("rewritten"))
}

/// Says what `--baseline` would bring, or has brought.
pub(crate) fn report_progressive(options: &PackOptions) {
    let (kept, rewritten) = progressive(options);
    if rewritten > 0 {
        message(&format!(
            "{} rewritten as baseline, without loss",
            units::counted(rewritten, "progressive JPEG")
        ));
    }
    if kept > 0 {
        message(&format!(
            "{} stored unchanged: every crop reads all scans; with --baseline they are rewritten without loss, \
             about a tenth larger, and crops decode about two and a half times as fast",
            units::counted(kept, "progressive JPEG")
        ));
    }
}

fn summary(report: &PackReport, args: &PackArgs, time: &str, output: &mut Output) {
    let mut table = Table::new("l");
    table.row(["pack", &redacted(&args.destination)]);
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

/// Time and rates. A resumed run has no rates, because parts that existed already would distort them.
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

fn document(
    report: &PackReport,
    source: &Dataset,
    args: &PackArgs,
    options: &PackOptions,
    seconds: f64,
) -> Value {
    let (progressive, rewritten) = progressive(options);
    let skipped: Vec<Value> =
        report.skipped.iter().map(|s| json!({ "sample": s.sample, "reason": s.reason })).collect();
    let problems: Vec<String> = source.problems().iter().map(ToString::to_string).collect();
    json!({
        "path": redacted(&args.destination),
        "source": source.uri(),
        "source_format": source.format_name(),
        "samples": report.samples,
        "parts": report.parts,
        "bytes": report.bytes,
        "fingerprint": report.fingerprint.to_hex(),
        "skipped_count": report.skipped_count,
        "skipped": skipped,
        "problems": problems,
        "progressive": progressive,
        "rewritten": rewritten,
        "seconds": seconds,
    })
}
