//! `feedline demo`: everything from images to batches, on data that it draws itself.

mod drawing;

use std::path::{Path, PathBuf};
use std::time::Instant;

use feedline::error::Location;
use feedline::loader::Stats;
use feedline::{Dataset, Error, Loader, LoaderOptions, PackSettings, Shuffle, Transform};

use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::{Output, Table};
use crate::{ExitCode, inspect, interrupt, units};

const EPOCHS: u64 = 2;
const BATCH_SIZE: u64 = 64;

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    interrupt::watch();
    let folder = DemoFolder::new(args.dir.as_deref())?;
    output.line("feedline demo: from images on disk to batches for training");
    draw(&folder.images(), args.samples, output)?;
    write_pack(&folder, output)?;
    inspect_pack(&folder, output)?;
    load(&folder, output)?;
    step(output, 5, "Clean up");
    let result = match folder {
        DemoFolder::Temporary(folder) => {
            let path = folder.path().to_path_buf();
            folder.close().map_err(|e| failed("removing", &path, e))?;
            format!("removed {}", path.display())
        }
        DemoFolder::Kept(folder) => format!("kept {}", folder.display()),
    };
    output.line(format!("   {result}"));
    output.line("");
    output.line("With your own images:");
    output.line("   feedline pack /path/to/photos photos.pack");
    output.line("   feedline bench photos.pack");
    Ok(ExitCode::Ok)
}

/// The working folder. A temporary folder is removed when this is dropped, also after an error or Ctrl-C.
enum DemoFolder {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl DemoFolder {
    fn new(wanted: Option<&Path>) -> Result<Self, Failure> {
        let Some(folder) = wanted else {
            let made = tempfile::Builder::new().prefix("feedline-demo-").tempdir();
            return made.map(DemoFolder::Temporary).map_err(|e| failed("creating", &std::env::temp_dir(), e));
        };
        std::fs::create_dir_all(folder).map_err(|e| failed("creating", folder, e))?;
        let mut entries = std::fs::read_dir(folder).map_err(|e| failed("listing", folder, e))?;
        if entries.next().is_some() {
            let reason = format!("--dir {}: the folder is not empty", folder.display());
            return Err(Failure::usage(
                reason,
                "name a new or empty folder; the demo never touches other files",
            ));
        }
        Ok(DemoFolder::Kept(folder.to_path_buf()))
    }

    fn folder(&self) -> &Path {
        match self {
            DemoFolder::Temporary(folder) => folder.path(),
            DemoFolder::Kept(folder) => folder,
        }
    }

    fn images(&self) -> PathBuf {
        self.folder().join("images")
    }

    fn pack(&self) -> PathBuf {
        self.folder().join("images.pack")
    }
}

fn failed(action: &'static str, path: &Path, error: std::io::Error) -> Failure {
    Error::storage(action, Location::new(path.display().to_string()), error).into()
}

fn step(output: &mut Output, number: u32, title: &str) {
    output.line("");
    output.line(format!("{number}. {title}"));
}

fn check_interrupt() -> Result<(), Failure> {
    if interrupt::asked() { Err(Failure::interrupted("the demo was not finished", "")) } else { Ok(()) }
}

fn draw(folder: &Path, samples: u64, output: &mut Output) -> Result<(), Failure> {
    step(output, 1, &format!("Draw {} in class folders", units::counted(samples, "JPEG image")));
    let begun = Instant::now();
    let bytes = drawing::draw_all(folder, samples)?;
    check_interrupt()?;
    let time = units::seconds(begun.elapsed().as_secs_f64());
    let classes = drawing::CLASSES.join(",");
    output.line(format!("   {}/{{{classes}}}: {}, {time}", folder.display(), units::bytes(bytes)));
    Ok(())
}

fn write_pack(folder: &DemoFolder, output: &mut Output) -> Result<(), Failure> {
    step(output, 2, "Pack them: feedline pack images images.pack");
    let source = Dataset::open(folder.images().to_string_lossy())?;
    let options = PackSettings::default().options()?;
    let bar = Bar::new("packing", false);
    let result = feedline::pack(&**source.format(), folder.pack(), &options, &bar);
    bar.clear();
    check_interrupt()?;
    let report = result?;
    let (parts, size) = (units::counted(report.parts, "part"), units::bytes(report.bytes));
    let time = units::seconds(bar.elapsed());
    output.line(format!("   {} in {parts}, {size}, {time}", units::counted(report.samples, "sample")));
    Ok(())
}

fn inspect_pack(folder: &DemoFolder, output: &mut Output) -> Result<(), Failure> {
    step(output, 3, "Look at the pack: feedline inspect images.pack");
    output.line("");
    inspect::show(&Dataset::open(folder.pack().to_string_lossy())?, 3, output);
    check_interrupt()
}

fn load(folder: &DemoFolder, output: &mut Output) -> Result<(), Failure> {
    step(output, 4, "Load it as for training: RandomResizedCrop(224), RandomHorizontalFlip, Normalize");
    let options =
        LoaderOptions::default().with_batch_size(BATCH_SIZE).with_shuffle(Shuffle::Full).with_transforms(
            "image",
            vec![
                Transform::random_resized_crop(224),
                Transform::random_horizontal_flip(),
                Transform::normalize_imagenet(),
            ],
        );
    let loader = Loader::new(Dataset::open(folder.pack().to_string_lossy())?, options)?;
    for number in 0..EPOCHS {
        let begun = Instant::now();
        let (mut samples, mut batches) = (0, 0);
        for batch in loader.epoch(number)? {
            let batch = batch?;
            check_interrupt()?;
            if number == 0 && batches == 0 {
                let shapes: Vec<String> = batch
                    .columns()
                    .iter()
                    .map(|c| format!("{} {:?} {}", c.name, c.shape, c.dtype.name()))
                    .collect();
                output.line(format!("   a batch: {}", shapes.join("; ")));
            }
            samples += batch.rows();
            batches += 1;
        }
        let rate = samples as f64 / begun.elapsed().as_secs_f64();
        output.line(format!("   epoch {number}: {batches} batches, {} images/s", units::count(rate as u64)));
    }
    where_time_goes(&loader.stats(), output);
    Ok(())
}

fn where_time_goes(stats: &Stats, output: &mut Output) {
    let s = &stats.seconds;
    let all = s.read + s.bytes + s.decode + s.transform + s.copy + s.wait;
    output.line(format!("   where the time of {} goes:", units::counted(stats.threads as u64, "thread")));
    let mut table = Table::new("lrl").indented(6);
    for (name, part) in [
        ("read", s.read + s.bytes),
        ("decode", s.decode),
        ("transform", s.transform),
        ("copy", s.copy),
        ("idle", s.wait),
    ] {
        let share = part / all.max(f64::MIN_POSITIVE);
        let bar = "#".repeat((share * 40.0).round() as usize);
        table.row([name.to_owned(), format!("{:.0} %", share * 100.0), bar]);
    }
    output.table(&table);
    output.line(format!("   {}", stats.bottleneck));
}
