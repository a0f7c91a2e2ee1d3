//! `feedline convert`: writes a data set as another system's files.

use feedline::Dataset;
use feedline::error::redacted;
use feedline::format::{
    ConvertOptions, ConvertReport, commit_convert_into, convert_into, convert_targets, convert_task_into,
};
use serde_json::{Value, json};

use crate::args::{CheckChoice, ConvertArgs, OnErrorChoice, PackArgs};
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::{Output, Table};
use crate::tasks::{self, Work};
use crate::{ExitCode, data, interrupt, pack, units};

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    if args.to == "pack" {
        return pack::run(&as_pack(args), output);
    }
    refuse_unknown(&args.to)?;
    let work = tasks::work(&args.task)?;
    interrupt::watch();
    let open = data::of_source(&args.sources, &args.destination, &args.open, &args.source);
    let source = data::open(&args.sources, &open)?;
    if !args.quiet {
        pack::warn_of_problems(&source);
    }
    let options =
        ConvertOptions { to: args.to.clone(), shard_bytes: args.shard_bytes, workers: args.workers };
    let destination = data::destination(&args.destination, &args.open, &args.source)?;
    let bar = Bar::new("converting", args.quiet);
    let result = match work {
        Work::Alone => convert_into(&**source.format(), &destination, &options, &bar),
        Work::Share(task) => convert_task_into(&**source.format(), &destination, &options, task, &bar),
        Work::Commit => commit_convert_into(&**source.format(), &destination, &options),
    };
    bar.clear();
    let report = match result {
        Ok(report) => report,
        Err(_) if interrupt::asked() => return Err(stopped(&bar, &source)),
        Err(error) => return Err(error.into()),
    };
    output.document(|| document(&report, &source, args, bar.elapsed()));
    if !args.quiet {
        summary(&report, args, bar.elapsed(), output);
    }
    Ok(ExitCode::Ok)
}

fn refuse_unknown(to: &str) -> Result<(), Failure> {
    if convert_targets().contains(&to) {
        return Ok(());
    }
    let reason = format!("'{to}' is not one of pack, {}", convert_targets().join(", "));
    Err(feedline::Error::option("--to", reason).into())
}

/// Arguments for a pack of unchanged bytes: converting changes no image.
fn as_pack(args: &ConvertArgs) -> PackArgs {
    PackArgs {
        sources: args.sources.clone(),
        destination: args.destination.clone(),
        image: feedline::field::ImageEncoding::File,
        compare: false,
        shorter_side: None,
        longer_side: None,
        quality: None,
        baseline: false,
        video: feedline::VideoEncoding::Keep,
        part_bytes: args.shard_bytes,
        workers: args.workers,
        on_error: OnErrorChoice::Raise,
        check: CheckChoice::None,
        no_resume: false,
        overwrite: false,
        append: false,
        split_by: None,
        task: args.task.clone(),
        open: args.open.clone(),
        source: args.source.clone(),
        quiet: args.quiet,
        json: args.json,
    }
}

fn stopped(bar: &Bar, source: &Dataset) -> Failure {
    let (samples, _) = bar.done();
    let reason = format!(
        "{} of {} were done; finished files are kept",
        units::count(samples),
        units::counted(source.len(), "sample")
    );
    Failure::interrupted(reason, "run the same command again to resume")
}

fn summary(report: &ConvertReport, args: &ConvertArgs, seconds: f64, output: &mut Output) {
    let mut table = Table::new("l");
    table.row([args.to.as_str(), &redacted(&args.destination)]);
    table.row(["samples", &units::count(report.samples)]);
    let size = format!("{} in {}", units::bytes(report.bytes), units::counted(report.shards, "file"));
    table.row(["size", &size]);
    if report.found > 0 {
        table.row(["there already", &units::counted(report.found, "file")]);
    }
    table.row(["time", &units::seconds(seconds)]);
    output.table(&table);
}

fn document(report: &ConvertReport, source: &Dataset, args: &ConvertArgs, seconds: f64) -> Value {
    json!({
        "path": redacted(&args.destination),
        "to": args.to,
        "source": source.uri(),
        "source_format": source.format_name(),
        "samples": report.samples,
        "files": report.shards,
        "files_found": report.found,
        "bytes": report.bytes,
        "seconds": seconds,
    })
}
