//! `feedline doctor`: examines the machine and says what limits feedline on it.

use feedline::loader::{StorageProbe, probe_storage};
use feedline::video::{Codec, decoder_of};
use feedline_pixels::{CpuLevel, turbo};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::report::{Output, Table};
use crate::{ExitCode, data, machine, units};

/// Number of samples read to try storage.
const TRIED: u64 = 64;

/// With fewer open files than this, large sets of shards are slow: each read opens its file again.
const ENOUGH_FILES: u64 = 4096;
/// Less memory than this is tight for a few batches of float32 images and the page cache.
const ENOUGH_MEMORY: u64 = 2 << 30;

/// The findings.
#[derive(Debug, Serialize)]
struct Findings {
    feedline: &'static str,
    optimised_build: bool,
    libjpeg_turbo: String,
    /// Major version of the FFmpeg that decodes video.
    ffmpeg: Option<u32>,
    /// Who decodes each codec of video; null if nobody does.
    video_decoders: Vec<(&'static str, Option<String>)>,
    formats: Vec<&'static str>,
    system: String,
    cpu: Option<String>,
    cpu_features: Vec<(&'static str, bool)>,
    kernels: &'static str,
    best_kernels: &'static str,
    threads: usize,
    processors: Option<usize>,
    affinity: Option<usize>,
    cpu_quota: Option<f64>,
    memory_bytes: Option<u64>,
    memory_available_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    huge_pages: Option<String>,
    open_files: Option<u64>,
    open_files_most: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<Storage>,
    advice: Vec<String>,
}

/// What a few reads of a data set took.
#[derive(Debug, Serialize)]
struct Storage {
    remote: bool,
    reads: u64,
    /// Reads that waited; the others found their bytes in memory.
    waited: u64,
    bytes: u64,
    median_seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let mut found = examine_machine();
    if let Some(path) = &args.path {
        found.storage = Some(try_storage(path, args)?);
    }
    found.advice = advice(&found);
    output.document(|| serde_json::to_value(&found).expect("findings are plain data"));
    if !output.is_json() {
        show(&found, output);
    }
    Ok(ExitCode::Ok)
}

fn try_storage(path: &String, args: &DoctorArgs) -> Result<Storage, Failure> {
    let dataset = data::open(std::slice::from_ref(path), &args.open)?;
    let StorageProbe { reads, waited, bytes, median } = probe_storage(&dataset, TRIED)?;
    let remote = dataset.format().is_remote();
    Ok(Storage { remote, reads, waited, bytes, median_seconds: median.as_secs_f64() })
}

/// Whether storage would be the limit of a loader that waits for each read.
fn on_storage(storage: &Storage) -> Option<String> {
    let Storage { reads, waited, median_seconds, .. } = storage;
    if storage.remote {
        return Some(format!(
            "the data are remote, {:.1} ms a read: loaders read ahead; cache_dir=... keeps received data on disk",
            median_seconds * 1e3
        ));
    }
    (waited * 2 >= *reads && *waited > 0).then(|| {
        format!(
            "storage is slow or cold: {waited} of {reads} reads waited for it, a median of {:.1} ms, {:.0} reads/s one after \
             the other; loaders notice and read ahead (read_ahead='auto'), but what is in memory is faster",
            median_seconds * 1e3,
            1.0 / median_seconds.max(1e-9)
        )
    })
}

fn examine_machine() -> Findings {
    let (open_files, open_files_most) = machine::open_files();
    let best = CpuLevel::available().last().map_or("scalar", |level| level.name());
    Findings {
        feedline: env!("CARGO_PKG_VERSION"),
        optimised_build: !cfg!(debug_assertions),
        libjpeg_turbo: turbo::version(),
        ffmpeg: feedline::video::ffmpeg_version().map(|version| version.0),
        video_decoders: Codec::ALL
            .map(|codec| (codec.name(), decoder_of(codec).map(|decoder| decoder.to_string())))
            .to_vec(),
        formats: feedline::format::format_names(),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cpu: machine::cpu_model(),
        cpu_features: machine::cpu_features(),
        kernels: CpuLevel::detect().name(),
        best_kernels: best,
        threads: machine::threads(),
        processors: machine::processors(),
        affinity: machine::affinity(),
        cpu_quota: machine::cpu_quota(),
        memory_bytes: machine::memory("MemTotal"),
        memory_available_bytes: machine::memory("MemAvailable"),
        memory_limit_bytes: machine::memory_limit(),
        huge_pages: machine::huge_pages(),
        open_files,
        open_files_most,
        storage: None,
        advice: Vec::new(),
    }
}

fn advice(found: &Findings) -> Vec<String> {
    let mut advice = Vec::new();
    let mut say = |text: String| advice.push(text);
    if !found.optimised_build {
        say("this build is not optimised and runs several times slower; build with --release".to_owned());
    }
    if found.kernels != found.best_kernels {
        say(format!(
            "FEEDLINE_CPU limits the kernels to '{}'; unset it to use '{}'",
            found.kernels, found.best_kernels
        ));
    } else if found.kernels == "scalar" {
        say("this processor lacks AVX2 (or its companions FMA, F16C, BMI2); images take the slow path"
            .to_owned());
    }
    if let Some(processors) = found.processors.filter(|all| found.threads < *all) {
        let why = match (found.cpu_quota, found.affinity) {
            (Some(quota), _) if quota < processors as f64 => "the container's CPU quota (--cpus, cpu.max)",
            (_, Some(allowed)) if allowed < processors => "CPU affinity (taskset, cpuset, a batch system)",
            _ => "the system",
        };
        say(format!("{} of {processors} processors can be used, limited by {why}", found.threads));
    }
    if found.threads == 1 {
        say("only one thread can run; loading and training will take turns".to_owned());
    }
    let memory = found.memory_limit_bytes.unwrap_or(u64::MAX).min(found.memory_bytes.unwrap_or(u64::MAX));
    if memory < ENOUGH_MEMORY {
        say(format!("{} of memory is tight; use small batches or memory_budget=...", units::bytes(memory)));
    }
    if let Some(limit) = found.open_files.filter(|limit| *limit < ENOUGH_FILES) {
        let most = found.open_files_most.map_or("unlimited".to_owned(), |most| most.to_string());
        say(format!(
            "only {limit} files may be open at once; for sets of many shards raise it: ulimit -n {most}"
        ));
    }
    if found.huge_pages.as_deref() == Some("never") {
        say("huge pages are switched off; 'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled' lets large batches use them".to_owned());
    }
    advice.extend(found.storage.as_ref().and_then(on_storage));
    advice
}

fn show(found: &Findings, output: &mut Output) {
    let mut table = Table::new("l");
    show_software(found, &mut table);
    show_machine(found, &mut table);
    output.table(&table);
    output.line("");
    if found.advice.is_empty() {
        output.line("no problems found");
    }
    for text in &found.advice {
        output.line(format!("advice: {text}"));
    }
}

fn show_software(found: &Findings, table: &mut Table) {
    table.row([
        "feedline",
        &format!("{}{}", found.feedline, if found.optimised_build { "" } else { " (not optimised)" }),
    ]);
    table.row(["libjpeg-turbo", &found.libjpeg_turbo]);
    let ffmpeg = found.ffmpeg.map_or("not found".to_owned(), |version| version.to_string());
    table.row(["FFmpeg", &ffmpeg]);
    for (codec, decoder) in &found.video_decoders {
        table.row([&format!("  {codec}"), decoder.as_deref().unwrap_or("no decoder: install FFmpeg")]);
    }
    table.row(["formats", &found.formats.join(", ")]);
}

fn show_machine(found: &Findings, table: &mut Table) {
    let unknown = || "unknown".to_owned();
    let number = |value: Option<usize>| value.map_or_else(unknown, |v| v.to_string());
    let has = |wanted: bool| {
        let names: Vec<&str> =
            found.cpu_features.iter().filter(|(_, has)| *has == wanted).map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    table.row(["system", &found.system]);
    table.row(["processor", &found.cpu.clone().unwrap_or_else(unknown)]);
    table.row(["  has", &has(true)]);
    table.row(["  lacks", &has(false)]);
    table.row(["kernels", found.kernels]);
    table.row(["threads", &found.threads.to_string()]);
    table.row(["  processors", &number(found.processors)]);
    table.row(["  affinity", &number(found.affinity)]);
    table.row([
        "  cgroup quota",
        &found.cpu_quota.map_or("none".to_owned(), |quota| format!("{quota:.1} processors")),
    ]);
    let size = |bytes: Option<u64>| bytes.map_or_else(unknown, units::bytes);
    let memory = format!("{}, {} available", size(found.memory_bytes), size(found.memory_available_bytes));
    table.row(["memory", &memory]);
    table.row(["  cgroup limit", &found.memory_limit_bytes.map_or("none".to_owned(), units::bytes)]);
    table.row(["  huge pages", &found.huge_pages.clone().unwrap_or_else(unknown)]);
    let limit = |value: Option<u64>| value.map_or("unlimited".to_owned(), |v| v.to_string());
    table.row([
        "open files",
        &format!("{} (at most {})", limit(found.open_files), limit(found.open_files_most)),
    ]);
    if let Some(storage) = &found.storage {
        let words = format!(
            "{} reads, {} waited, a median of {:.2} ms",
            storage.reads,
            storage.waited,
            storage.median_seconds * 1e3
        );
        table.row(["storage", &words]);
    }
}
