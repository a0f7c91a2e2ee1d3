//! `feedline cache`: lists, checks and empties a cache folder.

use feedline::source::DiskCache;
use serde_json::json;

use crate::args::{CacheArgs, CacheCommand};
use crate::failure::Failure;
use crate::report::{Output, Table};
use crate::{ExitCode, units};

/// Runs the command.
pub(crate) fn run(args: &CacheArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let cache = DiskCache::open(&args.folder)?;
    match args.command {
        CacheCommand::Ls => list(&cache, output),
        CacheCommand::Verify => verify(&cache, output),
        CacheCommand::Clear => clear(&cache, output),
    }
}

fn list(cache: &DiskCache, output: &mut Output) -> Result<ExitCode, Failure> {
    let entries = cache.entries()?;
    output.document(|| json!({ "objects": entries }));
    let mut table = Table::new("rrl");
    for entry in &entries {
        let share = 100.0 * entry.cached as f64 / entry.size.max(1) as f64;
        table.row([
            units::bytes(entry.cached),
            format!("{share:.0} %"),
            format!("{}/{}", entry.uri, entry.name),
        ]);
    }
    output.table(&table);
    let all: u64 = entries.iter().map(|entry| entry.cached).sum();
    output.line(format!("{} of {}", units::bytes(all), units::counted(entries.len() as u64, "object")));
    Ok(ExitCode::Ok)
}

fn verify(cache: &DiskCache, output: &mut Output) -> Result<ExitCode, Failure> {
    let report = cache.verify()?;
    output.document(|| serde_json::to_value(&report).expect("a report is plain data"));
    for path in &report.damaged {
        output.line(format!("damaged: {path}"));
    }
    let whole = units::counted(report.blocks, "block");
    output.line(format!("{whole} intact, {}; {} damaged", units::bytes(report.bytes), report.damaged.len()));
    Ok(if report.damaged.is_empty() { ExitCode::Ok } else { ExitCode::Data })
}

fn clear(cache: &DiskCache, output: &mut Output) -> Result<ExitCode, Failure> {
    let (blocks, bytes) = cache.clear()?;
    output.document(|| json!({ "blocks": blocks, "bytes": bytes }));
    output.line(format!("removed {}, {}", units::counted(blocks, "block"), units::bytes(bytes)));
    Ok(ExitCode::Ok)
}
