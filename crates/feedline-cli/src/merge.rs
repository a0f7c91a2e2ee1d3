//! `feedline merge`: joins packs.

use feedline::format::PackOptions;
use feedline::format::merge_packs;
use serde_json::json;

use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::{Output, Table};
use crate::{ExitCode, interrupt, units};

/// Runs the command.
pub(crate) fn run(args: &MergeArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    interrupt::watch();
    let options = PackOptions { overwrite: args.overwrite, ..PackOptions::default() };
    let bar = Bar::new("merging", args.quiet);
    let result = merge_packs(&args.packs, &args.output, &options, &bar);
    bar.clear();
    let report = result?;
    let path = args.output.display().to_string();
    output.document(|| {
        json!({
            "path": path,
            "samples": report.samples,
            "parts": report.parts,
            "bytes": report.bytes,
            "fingerprint": report.fingerprint.to_hex(),
            "seconds": bar.elapsed(),
        })
    });
    if !args.quiet {
        let mut table = Table::new("l");
        table.row(["pack", &path]);
        table.row(["samples", &units::count(report.samples)]);
        let size = format!("{} in {}", units::bytes(report.bytes), units::counted(report.parts, "part"));
        table.row(["size", &size]);
        table.row(["fingerprint", &report.fingerprint.to_hex()]);
        output.table(&table);
    }
    Ok(ExitCode::Ok)
}
