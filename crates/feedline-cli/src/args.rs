//! The command line's arguments, as plain data: nothing here has an effect.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use feedline::field::ImageEncoding;
use feedline::sample::DType;
use feedline::{Kind, VideoEncoding};

use crate::units;

/// Turns stored samples into batches of tensors for training
#[derive(Debug, Parser)]
#[command(
    name = "feedline",
    bin_name = "feedline",
    version,
    propagate_version = true,
    after_help = "\
Exit codes: 0 all is well, 1 a problem with the data, 2 a mistake on the command line.
Start with 'feedline demo'; it needs no data."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Pack(PackArgs),
    Convert(ConvertArgs),
    Merge(MergeArgs),
    Inspect(InspectArgs),
    View(ViewArgs),
    Verify(VerifyArgs),
    Index(IndexArgs),
    Bench(BenchArgs),
    Cache(CacheArgs),
    Doctor(DoctorArgs),
    Demo(DemoArgs),
    Completions(CompletionsArgs),
    /// Print the manual page, in the language of man(7)
    Man,
}

impl Command {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Command::Pack(args) => args.json,
            Command::Convert(args) => args.json,
            Command::Merge(args) => args.json,
            Command::Inspect(args) => args.json,
            Command::Verify(args) => args.json,
            Command::Index(args) => args.json,
            Command::Bench(args) => args.json,
            Command::Cache(args) => args.json,
            Command::Doctor(args) => args.json,
            Command::Demo(_) | Command::View(_) | Command::Completions(_) | Command::Man => false,
        }
    }
}

/// Write a data set as a pack: a folder of a few large files, fast to read in any order
///
/// Packing is parallel and crash-safe. After an interruption at any moment, the same command resumes, and the result is
/// the same to the byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline pack /data/imagenet/train /data/train.pack
  feedline pack 'train-{000..146}.tar' /data/train.pack --field image=jpg --field label=cls
  feedline pack photos/ photos.pack --on-error skip --workers 8
  feedline pack s3://old/train s3://new/train --source-storage anon=true --storage profile=work
  feedline pack photos/ photos.pack --split train=0.9,val=0.1
  feedline pack more-photos/ photos.pack --append

By many processes, on one machine or on many (a SLURM array of 64: srun this, then --commit once):
  feedline pack SRC DST --part auto --of 64
  feedline pack SRC DST --commit")]
pub(crate) struct PackArgs {
    /// A folder or zip of images, a table, a pack, tar files, or a pattern such as 'train-{000..146}.tar'; several are
    /// joined
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    pub(crate) sources: Vec<String>,
    /// Folder to write, or a prefix such as s3://bucket/train; must be new, empty, or left by an interrupted run
    #[arg(value_name = "DST", required = true)]
    pub(crate) destination: String,
    /// How images are stored
    #[arg(long, value_parser = image_parser(), default_value = ImageEncoding::Jpeg.name())]
    pub(crate) image: ImageEncoding,
    /// Write nothing; measure size and speed of every encoding on a part of the data, and show them side by side
    #[arg(long)]
    pub(crate) compare: bool,
    /// Shrink images so that the shorter side has at most this many pixels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shorter_side: Option<u32>,
    /// Shrink images so that the longer side has at most this many pixels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) longer_side: Option<u32>,
    /// JPEG quality of re-encoded images
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) quality: Option<u8>,
    /// Rewrite progressive JPEGs as baseline ones, without loss: about a tenth larger, and faster to decode in part
    #[arg(long)]
    pub(crate) baseline: bool,
    /// How videos are stored: keep, or gop=N to encode them once more with a key frame every N frames (needs the ffmpeg
    /// program)
    #[arg(long, value_name = "HOW", default_value = "keep")]
    pub(crate) video: VideoEncoding,
    /// Approximate size of each file of the pack, such as 256M [default: by the size of the data, at most 256M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) part_bytes: Option<u64>,
    /// Number of threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    /// What to do with a sample that cannot be read
    #[arg(long, value_enum, default_value_t = OnErrorChoice::Raise)]
    pub(crate) on_error: OnErrorChoice,
    /// How thoroughly images are checked before they are packed
    #[arg(long, value_enum, default_value_t = CheckChoice::Decode)]
    pub(crate) check: CheckChoice,
    /// Start again instead of resuming an unfinished pack
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Replace an existing pack at the destination
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Add the samples to the finished pack at the destination, as new parts; the old parts are not changed
    #[arg(long, conflicts_with_all = ["overwrite", "no_resume", "part", "of", "commit"])]
    pub(crate) append: bool,
    /// With --split NAME=SHARE,...: the field whose hash decides the part [default: key or path]
    #[arg(long, value_name = "FIELD")]
    pub(crate) split_by: Option<String>,
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Show errors only, no progress and no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a data set as another system's files
///
/// Stored bytes and values are not changed. Converting is parallel and crash-safe: after an interruption at any moment,
/// the same command resumes, and the result is the same to the byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline convert /data/train.pack /data/train-wds --to webdataset
  feedline convert 'train-{000..146}.tar' /data/train-mds --to mds --shard-bytes 64M
  feedline convert /data/train.pack /data/train.beton --to beton
  feedline convert train.beton /data/train.pack --to pack")]
pub(crate) struct ConvertArgs {
    /// A data set of any format, or a pattern such as 'train-{000..146}.tar'; several are joined
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    pub(crate) sources: Vec<String>,
    /// Folder or prefix to write (for beton: the file); must be new, empty, or left by an earlier run of the same
    /// command
    #[arg(value_name = "DST", required = true)]
    pub(crate) destination: String,
    /// The system to write for: pack, webdataset, mds, litdata, beton or parquet
    #[arg(long, value_name = "NAME")]
    pub(crate) to: String,
    /// Approximate size of each file, such as 64M [default: that of the system itself]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) shard_bytes: Option<u64>,
    /// Number of threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Show errors only, no progress and no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// The share of one of several processes that write the same data set.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TaskArgs {
    /// Write only the parts of this task: a number from 0, or auto to read it from SLURM or Kubernetes
    #[arg(long, value_name = "I|auto", conflicts_with = "commit")]
    pub(crate) part: Option<String>,
    /// Number of tasks [default: the size of the SLURM array]
    #[arg(long, value_name = "N", conflicts_with = "commit", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) of: Option<u64>,
    /// Check that all parts are written, and complete the data set
    #[arg(long)]
    pub(crate) commit: bool,
}

/// Join packs into one, without reading or rewriting their samples
///
/// The packs must have the same fields and classes. On one file system the new pack shares their files (hard links);
/// otherwise the files are copied. Nothing is decoded.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline merge monday.pack tuesday.pack -o week.pack")]
pub(crate) struct MergeArgs {
    /// Folders of finished packs, in the order of their samples
    #[arg(value_name = "PACK", required = true, num_args = 1..)]
    pub(crate) packs: Vec<PathBuf>,
    /// Folder to write; must be new, empty, or left by an interrupted run
    #[arg(long, short, value_name = "DST")]
    pub(crate) output: PathBuf,
    /// Replace an existing pack at the destination
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Show errors only, no progress and no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Storage settings of the source, if they differ from the destination's.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    /// Like --storage, but only for the source; --storage is then only for the destination
    #[arg(long = "source-storage", value_name = "NAME=VALUE", value_parser = parse_field)]
    pub(crate) source_storage: Vec<(String, String)>,
}

/// How to open a data set.
#[derive(Debug, Clone, Args)]
pub(crate) struct OpenArgs {
    /// Format of the data, if it cannot be detected
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) format: String,
    /// Load only these fields, under new names: NAME=SRC, or NAME=SRC1;SRC2 if samples have one of several
    #[arg(long = "field", value_name = "NAME=SRC", value_parser = parse_field)]
    pub(crate) fields: Vec<(String, String)>,
    /// For tables: folder or prefix where relative paths start [default: the table's own folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<String>,
    /// For tables and arrays: kind of a column (image, int, float, text, json, bytes or array)
    #[arg(long = "kind", value_name = "COLUMN=KIND", value_parser = parse_kind)]
    pub(crate) kinds: Vec<(String, Kind)>,
    /// For files of tokens that do not say it: type of the numbers, such as uint16
    #[arg(long, value_name = "TYPE", value_parser = parse_dtype)]
    pub(crate) dtype: Option<DType>,
    /// Part of a data set with several parts, such as train or test; with 'pack' also NAME=SHARE,NAME=SHARE
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,
    /// Accept fields that are Python pickles; nothing is unpickled
    #[arg(long)]
    pub(crate) allow_pickle: bool,
    /// Read files named in a table even if a symbolic link leads outside the data set's folder
    #[arg(long)]
    pub(crate) follow_links: bool,
    /// For encrypted data: environment variable with the password
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) password_from: Option<String>,
    /// Compare files with the hashes in their index, if it has any
    #[arg(long)]
    pub(crate) verify_hashes: bool,
    /// For remote data: region=…, endpoint_url=…, anon=true and others; may be given several times
    #[arg(long = "storage", value_name = "NAME=VALUE", value_parser = parse_field)]
    pub(crate) storage: Vec<(String, String)>,
    /// For remote data: cache fetched data in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache_dir: Option<PathBuf>,
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    DType::from_name(text).ok_or_else(|| "expected a type of whole numbers, such as uint16".to_owned())
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, source)) if !name.is_empty() && !source.is_empty() => {
            Ok((name.to_owned(), source.to_owned()))
        }
        _ => Err("expected NAME=SRC, such as image=jpg".to_owned()),
    }
}

fn parse_kind(text: &str) -> Result<(String, Kind), String> {
    let (column, kind) =
        parse_field(text).map_err(|_| "expected COLUMN=KIND, such as file=image".to_owned())?;
    let kind = Kind::try_from(kind)?;
    Ok((column, kind))
}

/// The encodings of images, with a line of help for each.
fn image_parser() -> impl TypedValueParser<Value = ImageEncoding> {
    let values = ImageEncoding::ALL.map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(values).map(|name| ImageEncoding::from_name(&name).expect("one of the values"))
}

/// What packing does with a bad sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorChoice {
    /// Stop with an error that names the sample
    Raise,
    /// Leave the sample out and list it in the pack's manifest
    Skip,
}

/// How thoroughly packing checks images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckChoice {
    /// Not at all: any bytes are stored
    None,
    /// The header: a file that is not an image is a bad sample
    Header,
    /// Every pixel: an image that cannot be decoded is a bad sample
    Decode,
}

/// Describe a data set: format, fields, counts, sizes, classes, a few samples
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline inspect /data/train.pack
  feedline inspect 'train-*.tar' --samples 10
  feedline inspect photos/ --json | jq .samples
  feedline inspect photos/ --images blocks --samples 3
  feedline inspect photos/ --html photos.html")]
pub(crate) struct InspectArgs {
    /// A folder of images, a pack, a tar file, or a pattern
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Number of samples to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) samples: u64,
    /// Show their images in the terminal
    #[arg(long, value_enum, value_name = "HOW", default_value_t = ImagesChoice::Auto)]
    pub(crate) images: ImagesChoice,
    /// Write one HTML file that needs nothing else: facts, classes, sizes, 60 samples
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a terminal shows images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImagesChoice {
    /// As this terminal can, if it can; never into files and pipes
    Auto,
    /// Not at all
    None,
    /// kitty's protocol, which Ghostty and WezTerm know too
    Kitty,
    /// iTerm2's
    Iterm2,
    /// Sixel: foot, mlterm, xterm -ti vt340 and others
    Sixel,
    /// Coloured half blocks: any terminal with 24-bit colours
    Blocks,
}

/// Look at a data set in the browser: samples, classes, sizes, and what augmentation does
///
/// Serves a page on this machine alone (the loopback address, with a token) until Ctrl-C. With two data sets, the page
/// also compares them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline view /data/train.pack
  feedline view s3://bucket/train --storage anon=true
  feedline view old.pack new.pack
  ssh -L 8000:127.0.0.1:8000 cluster feedline view /data/train --port 8000 --no-open")]
pub(crate) struct ViewArgs {
    /// A data set, or two to compare
    #[arg(value_name = "PATH", required = true, num_args = 1..=2)]
    pub(crate) paths: Vec<String>,
    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// Only print the address, do not start a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// Print what a shell needs to complete this command
///
/// bash: feedline completions bash > ~/.local/share/bash-completion/completions/feedline
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Read everything and name what is broken
///
/// In a pack every byte is checked against its checksum. In other formats every field of every sample is read; with
/// --decode every image is decoded too. Exit code 1 if anything is broken.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline verify /data/train.pack
  feedline verify photos/ --decode
  feedline verify /data/train.pack --json | jq .damage")]
pub(crate) struct VerifyArgs {
    /// A pack, or any other data set
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Decode every image as well
    #[arg(long)]
    pub(crate) decode: bool,
    /// Write a list of all broken samples to this file (.csv or .json)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Number of threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Index the JPEGs of a data set, so that crops of them are decoded as fast as from a pack
///
/// A loader collects these indexes by itself while its first epochs decode; this command does it ahead. They take about
/// 1.2 % of the images' size and are kept in the user's cache folder (FEEDLINE_CACHE_DIR). Packs have their own.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline index /data/imagenet/train
  feedline index 'train-{000..146}.tar' --workers 8")]
pub(crate) struct IndexArgs {
    /// A data set of any format
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Number of threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Show errors only, no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure loading: images/s, MB/s, CPU time, memory, and where the time goes
///
/// Each recipe runs several epochs: before the first, the files are dropped from the page cache; the others are warm.
#[derive(Debug, Args)]
#[command(after_help = "\
Recipes:
  raw         undecoded bytes, shuffled; compared with a plain memory copy of the same bytes
  decode      full-size uint8 pixels, shuffled
  train       RandomResizedCrop(224), RandomHorizontalFlip, Normalize; float32, shuffled
  validation  Resize(256), CenterCrop(224), Normalize; float32, in order
  all         these four, one after the other

Examples:
  feedline bench /data/train.pack
  feedline bench /data/train.pack --recipe train --batch-size 256 --workers 8
  python -m feedline bench /data/train.pack --against torch")]
pub(crate) struct BenchArgs {
    /// The data set to load
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Samples per batch
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) batch_size: u64,
    /// Number of threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    /// Number of epochs of each recipe, including the cold one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) epochs: u64,
    /// What to do with each sample
    #[arg(long, value_enum, default_value_t = RecipeChoice::All)]
    pub(crate) recipe: RecipeChoice,
    /// Write what every thread did when to this file, for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Other loaders to run side by side (only with 'python -m feedline bench')
    #[arg(long, value_name = "LOADERS", value_delimiter = ',')]
    pub(crate) against: Vec<String>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a benchmark does with each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecipeChoice {
    Raw,
    Decode,
    Train,
    Validation,
    All,
}

/// Manage a cache of remote data: list it, check it, empty it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline cache ls /scratch/cache
  feedline cache verify /scratch/cache --json
  feedline cache clear /scratch/cache")]
pub(crate) struct CacheArgs {
    /// What to do
    #[arg(value_enum)]
    pub(crate) command: CacheCommand,
    /// Folder that was given as cache_dir
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheCommand {
    /// List its content, by object
    Ls,
    /// Compare every block with its checksum; exit code 1 if one is damaged
    Verify,
    /// Remove every block
    Clear,
}

/// Check this machine: what feedline can use, what limits it, what to change
///
/// With a data set, its storage too: whether reads wait for it, and for how long.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline doctor
  feedline doctor /data/train.pack")]
pub(crate) struct DoctorArgs {
    /// A data set whose storage is tried
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run a demonstration: draw a small image set, pack it, load it, show where the time goes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline demo
  feedline demo --dir /tmp/feedline-demo --samples 2000")]
pub(crate) struct DemoArgs {
    /// Work in this folder and keep the data [default: a temporary folder, removed at the end]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Number of images to draw
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(8..=100_000))]
    pub(crate) samples: u64,
}
