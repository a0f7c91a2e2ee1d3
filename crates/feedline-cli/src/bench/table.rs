//! Prints measurements for people and for programs.

use feedline_pixels::CpuLevel;
use serde_json::{Value, json};

use super::Bench;
use super::measure::{Cold, Epoch, Run};
use super::recipe::Recipe;
use crate::args::BenchArgs;
use crate::report::{Output, Table};
use crate::{machine, units};

/// Prints the table and its explanation.
pub(crate) fn show(bench: &Bench, args: &BenchArgs, output: &mut Output) {
    let setup = &bench.setup;
    let size = units::bytes(setup.files.iter().map(|(_, bytes)| bytes).sum());
    output.line(format!(
        "{}: {} in a {} of {size}; batch size {}, {}",
        args.path,
        units::counted(setup.samples, "sample"),
        setup.format,
        args.batch_size,
        units::counted(setup.threads as u64, "thread"),
    ));
    let cpu = machine::cpu_model().unwrap_or_else(|| "unknown processor".to_owned());
    output.line(format!(
        "{cpu}, {} kernels; feedline {}",
        CpuLevel::detect().name(),
        env!("CARGO_PKG_VERSION")
    ));
    output.line("");
    output.table(&epochs(bench));
    output.line("");
    for run in &bench.runs {
        output.line(format!("{:<10}  {}", run.recipe.name(), run.recipe.words()));
        output.line(format!("{:<10}  {}", "", run.bottleneck));
    }
    notes(bench, output);
}

fn epochs(bench: &Bench) -> Table {
    let mut table = Table::new("llr");
    table.row([
        "recipe",
        "epoch",
        "images/s",
        "MB/s",
        "CPU s/1000",
        "peak RSS",
        "first batch",
        "read",
        "decode",
        "transform",
        "copy",
        "idle",
    ]);
    for run in &bench.runs {
        for (number, epoch) in run.epochs.iter().enumerate() {
            let name = if number == 0 { run.recipe.name() } else { "" };
            let warm = if number == 0 { first_name(run.cold) } else { "warm" };
            let mut row = vec![name.to_owned(), format!("{number} {warm}")];
            row.extend(cells(epoch));
            table.row(row);
        }
    }
    table
}

fn first_name(cold: Cold) -> &'static str {
    match cold {
        Cold::Yes { .. } => "cold",
        Cold::No { .. } | Cold::Refused => "warm?",
        Cold::Unknown => "cold?",
    }
}

fn cells(epoch: &Epoch) -> Vec<String> {
    let stages = &epoch.stages;
    let all = stages.read + stages.bytes + stages.decode + stages.transform + stages.copy + stages.wait;
    let share = |part: f64| format!("{:.0} %", if all > 0.0 { part / all * 100.0 } else { 0.0 });
    vec![
        units::count(epoch.rate().round() as u64),
        units::significant(epoch.megabytes()),
        units::significant(epoch.cpu_per_thousand()),
        epoch.peak_resident_bytes.map_or("-".to_owned(), units::bytes),
        format!("{} ms", units::significant(epoch.first_batch_seconds * 1e3)),
        share(stages.read + stages.bytes),
        share(stages.decode),
        share(stages.transform),
        share(stages.copy),
        share(stages.wait),
    ]
}

fn notes(bench: &Bench, output: &mut Output) {
    if let Some(text) = copy_note(bench) {
        output.line("");
        output.line(text);
    }
    let lost: u64 = bench.runs.iter().flat_map(|r| &r.epochs).map(|e| e.failed).max().unwrap_or(0);
    if lost > 0 {
        output.line("");
        output.line(format!(
            "{} could not be read or decoded and were left out",
            units::counted(lost, "sample")
        ));
        output.line("hint: 'feedline verify --decode' names them");
    }
    output.line("");
    output.line(cache_note(bench));
}

/// Bytes per second of the fastest warm raw epoch, and of copying.
fn raw_speed(bench: &Bench) -> Option<f64> {
    let raw = bench.runs.iter().find(|run| run.recipe == Recipe::Raw)?;
    let warm = if raw.epochs.len() > 1 { &raw.epochs[1..] } else { &raw.epochs[..] };
    warm.iter().map(Epoch::megabytes).max_by(f64::total_cmp).map(|megabytes| megabytes * 1e6)
}

fn copy_note(bench: &Bench) -> Option<String> {
    let (copy, raw) = (bench.copy?, raw_speed(bench)?);
    Some(format!(
        "memory copy of the same bytes ({}): {} GB/s with 1 thread, {} GB/s with {}; raw reaches {} GB/s: {:.0} % and {:.0} %",
        units::bytes(copy.bytes),
        units::significant(copy.one_thread / 1e9),
        units::significant(copy.all_threads / 1e9),
        copy.threads,
        units::significant(raw / 1e9),
        raw / copy.one_thread * 100.0,
        raw / copy.all_threads * 100.0,
    ))
}

fn cache_note(bench: &Bench) -> String {
    let worst = bench.runs.iter().map(|run| run.cold).min_by_key(|cold| match cold {
        Cold::Refused => 0,
        Cold::No { .. } => 1,
        Cold::Unknown => 2,
        Cold::Yes { .. } => 3,
    });
    match worst {
        Some(Cold::Yes { .. }) => "cold: the files were dropped from the page cache first and came from storage",
        Some(Cold::Unknown) => {
            "cold?: the system was asked to drop the files from the page cache, but does not tell whether it did"
        }
        Some(Cold::No { .. }) => {
            "warm?: the page cache could not be emptied (the files came from memory; tmpfs, a container layer or \
             another process holds them), so no epoch was cold"
        }
        _ => "warm?: files cannot be dropped from the page cache on this system, so no epoch was cold",
    }
    .to_owned()
}

/// All measurements, for programs.
pub(crate) fn document(bench: &Bench, args: &BenchArgs) -> Value {
    let setup = &bench.setup;
    let raw = raw_speed(bench);
    json!({
        "path": args.path,
        "format": setup.format,
        "fingerprint": setup.fingerprint,
        "samples": setup.samples,
        "files": setup.files.len(),
        "bytes": setup.files.iter().map(|(_, bytes)| bytes).sum::<u64>(),
        "batch_size": args.batch_size,
        "threads": setup.threads,
        "cpu": machine::cpu_model(),
        "kernels": CpuLevel::detect().name(),
        "feedline": env!("CARGO_PKG_VERSION"),
        "recipes": bench.runs.iter().map(run_document).collect::<Vec<_>>(),
        "memory_copy": bench.copy.map(|copy| json!({
            "bytes": copy.bytes,
            "threads": copy.threads,
            "bytes_per_second_one_thread": copy.one_thread,
            "bytes_per_second_all_threads": copy.all_threads,
            "raw_share_of_one_thread": raw.map(|raw| raw / copy.one_thread),
            "raw_share_of_all_threads": raw.map(|raw| raw / copy.all_threads),
        })),
    })
}

fn run_document(run: &Run) -> Value {
    let epochs: Vec<Value> = run
        .epochs
        .iter()
        .map(|epoch| {
            let mut value = serde_json::to_value(epoch).expect("numbers are plain data");
            value["images_per_second"] = json!(epoch.rate());
            value["megabytes_per_second"] = json!(epoch.megabytes());
            value["cpu_seconds_per_1000"] = json!(epoch.cpu_per_thousand());
            value
        })
        .collect();
    json!({
        "recipe": run.recipe.name(),
        "description": run.recipe.words(),
        "open_seconds": run.open_seconds,
        "first_epoch": run.cold,
        "epochs": epochs,
        "bottleneck": run.bottleneck,
    })
}
