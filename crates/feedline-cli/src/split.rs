//! `feedline pack --split train=0.9,val=0.1`: several packs of one data set; the hash of a sample's name decides.

use feedline::Dataset;
use feedline::format::{PackOptions, pack_into};
use serde_json::json;

use crate::args::PackArgs;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::{Output, Table};
use crate::{ExitCode, data, pack, units};

/// The shares, if `--split` has any; otherwise it names a part of the source.
pub(crate) fn shares(args: &PackArgs) -> Result<Option<Vec<(String, f64)>>, Failure> {
    let Some(text) = args.open.split.as_deref().filter(|text| text.contains('=')) else {
        return match &args.split_by {
            Some(_) => Err(Failure::usage("--split-by: only with --split NAME=SHARE,...", "")),
            None => Ok(None),
        };
    };
    let one = |piece: &str| {
        let (name, share) = piece.split_once('=')?;
        let plain =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        let share: f64 = share.parse().ok()?;
        (plain && !name.starts_with('.') && share > 0.0).then(|| (name.to_owned(), share))
    };
    let shares: Option<Vec<_>> = text.split(',').map(|piece| one(piece.trim())).collect();
    shares.map(Some).ok_or_else(|| {
        Failure::usage(format!("--split: '{text}' is not understood"), "write it as train=0.9,val=0.1")
    })
}

/// Packs each part of the source into its own folder below the destination.
pub(crate) fn run(
    source: &Dataset,
    shares: &[(String, f64)],
    args: &PackArgs,
    options: &PackOptions,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let pieces = source.cut(shares, args.split_by.as_deref())?;
    let mut table = Table::new("lrrl");
    let mut documents = serde_json::Map::new();
    for ((name, _), piece) in shares.iter().zip(&pieces) {
        let path = format!("{}/{name}", args.destination.trim_end_matches('/'));
        let destination = data::destination(&path, &args.open, &args.source)?;
        let bar = Bar::new("packing", args.quiet);
        let result = pack_into(&**piece.format(), &destination, options, &bar);
        bar.clear();
        let report = result?;
        let samples = units::counted(report.samples, "sample");
        table.row([name.as_str(), &samples, &units::bytes(report.bytes), &feedline::error::redacted(&path)]);
        let document = json!({
            "path": feedline::error::redacted(&path), "samples": report.samples, "parts": report.parts,
            "bytes": report.bytes, "fingerprint": report.fingerprint.to_hex(),
            "skipped_count": report.skipped_count,
        });
        documents.insert(name.clone(), document);
    }
    output.document(|| json!({ "splits": documents }));
    if !args.quiet {
        pack::report_progressive(options);
        output.table(&table);
    }
    Ok(ExitCode::Ok)
}
