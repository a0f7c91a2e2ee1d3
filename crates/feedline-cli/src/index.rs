//! `feedline index`: builds seek indexes of JPEGs ahead of the first epoch.

use feedline::loader::{IndexReport, build_indexes};
use serde_json::json;

use crate::args::IndexArgs;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::{Output, Table};
use crate::{ExitCode, data, interrupt, units};

/// Runs the command.
pub(crate) fn run(args: &IndexArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    interrupt::watch();
    let dataset = data::open(std::slice::from_ref(&args.path), &args.open)?;
    let bar = Bar::new("indexing", args.quiet || output.is_json());
    let report = build_indexes(&dataset, args.workers, &bar);
    bar.clear();
    let report = report?;
    if interrupt::asked() {
        let reason = format!("{} were indexed", units::counted(report.indexed, "image"));
        return Err(Failure::interrupted(reason, "the same command continues"));
    }
    output.document(|| document(dataset.uri(), &report, bar.elapsed()));
    if !args.quiet {
        show(dataset.uri(), &report, output);
    }
    Ok(if report.saved && report.unreadable == 0 { ExitCode::Ok } else { ExitCode::Data })
}

fn document(path: &str, report: &IndexReport, seconds: f64) -> serde_json::Value {
    json!({
        "path": path,
        "indexed": report.indexed,
        "known": report.known,
        "without": report.without,
        "unreadable": report.unreadable,
        "bytes": report.bytes,
        "saved": report.saved,
        "seconds": seconds,
    })
}

fn show(path: &str, report: &IndexReport, output: &mut Output) {
    let mut table = Table::new("l");
    table.row(["data set", path]);
    table.row(["indexed now", &units::counted(report.indexed, "image")]);
    table.row(["indexed before", &units::counted(report.known, "image")]);
    table.row([
        "without",
        &format!("{} (no baseline JPEG, or small)", units::counted(report.without, "image")),
    ]);
    if report.unreadable > 0 {
        table.row(["unreadable", &units::counted(report.unreadable, "sample")]);
    }
    let place = if report.saved { "" } else { ", not saved: the cache folder cannot be written" };
    table.row(["size", &format!("{}{place}", units::bytes(report.bytes))]);
    output.table(&table);
}
