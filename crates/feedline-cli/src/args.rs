//! What a user can type. Plain data: nothing here has an effect.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::units;

/// Feeds training: stored samples to batches of tensors
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
    Inspect(InspectArgs),
    Verify(VerifyArgs),
    Bench(BenchArgs),
    Cache(CacheArgs),
    Doctor(DoctorArgs),
    Demo(DemoArgs),
}

impl Command {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Command::Pack(args) => args.json,
            Command::Convert(args) => args.json,
            Command::Inspect(args) => args.json,
            Command::Verify(args) => args.json,
            Command::Bench(args) => args.json,
            Command::Cache(args) => args.json,
            Command::Doctor(args) => args.json,
            Command::Demo(_) => false,
        }
    }
}

/// Write a data set as a pack: one folder of large files, fast to read in any order
///
/// Packing is parallel and crash-safe. Interrupted or killed at any moment, it goes on where it was when the same
/// command is run again, and the result is the same to the byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline pack /data/imagenet/train /data/train.pack
  feedline pack 'train-{000..146}.tar' /data/train.pack --field image=jpg --field label=cls
  feedline pack photos/ photos.pack --on-error skip --workers 8")]
pub(crate) struct PackArgs {
    /// A folder of images, a pack, tar files, or a pattern such as 'train-{000..146}.tar'; several are joined
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    pub(crate) sources: Vec<String>,
    /// The folder to write, or a prefix such as s3://bucket/train; new, empty, or left by an interrupted run
    #[arg(value_name = "DST", required = true)]
    pub(crate) destination: String,
    /// What is stored of each image
    #[arg(long, value_enum, default_value_t = ImageChoice::Jpeg)]
    pub(crate) image: ImageChoice,
    /// Write nothing; measure size and speed of every encoding on a part of the data, and show them side by side
    #[arg(long)]
    pub(crate) compare: bool,
    /// Shrink images so that the shorter side has at most this many pixels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shorter_side: Option<u32>,
    /// Shrink images so that the longer side has at most this many pixels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) longer_side: Option<u32>,
    /// JPEG quality of images that are encoded anew
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) quality: Option<u8>,
    /// Rewrite progressive JPEGs as baseline ones, without loss: about a tenth larger, and faster to load in part
    #[arg(long)]
    pub(crate) baseline: bool,
    /// About how large each file of the pack is, such as 256M [default: by the size of the data, at most 256M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) part_bytes: Option<u64>,
    /// Threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    /// What to do with a sample that cannot be read
    #[arg(long, value_enum, default_value_t = OnErrorChoice::Raise)]
    pub(crate) on_error: OnErrorChoice,
    /// Start anew instead of going on with an unfinished pack
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Replace a pack that is at the destination already
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// No progress and no warnings, only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a data set as another system's files
///
/// Stored bytes and values are kept as they are. Converting is parallel and crash-safe: interrupted or killed at any
/// moment, it goes on where it was when the same command is run again, and the result is the same to the byte.
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
    /// The folder or prefix to write (for beton: the file); new, empty, or left by an interrupted run
    #[arg(value_name = "DST", required = true)]
    pub(crate) destination: String,
    /// The system to write for: pack, webdataset, mds, litdata, beton or parquet
    #[arg(long, value_name = "NAME")]
    pub(crate) to: String,
    /// About how large each file is, such as 64M [default: what the system itself does]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) shard_bytes: Option<u64>,
    /// Threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// No progress and no warnings, only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to open a data set.
#[derive(Debug, Clone, Args)]
pub(crate) struct OpenArgs {
    /// The format of the data, when it cannot be told by looking
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) format: String,
    /// Take only named fields, under new names: NAME=SRC, or NAME=SRC1;SRC2 where samples have one of several
    #[arg(long = "field", value_name = "NAME=SRC", value_parser = parse_field)]
    pub(crate) fields: Vec<(String, String)>,
    /// Which part of a data set that has several, such as train or test
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,
    /// Hand on fields that are Python pickles; nothing is unpickled
    #[arg(long)]
    pub(crate) allow_pickle: bool,
    /// For encrypted data: the environment variable that holds the password
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) password_from: Option<String>,
    /// Compare files with the hashes in their index, where it has any
    #[arg(long)]
    pub(crate) verify_hashes: bool,
    /// For data behind a network: region=…, endpoint_url=…, anon=true and the like; may be given several times
    #[arg(long = "storage", value_name = "NAME=VALUE", value_parser = parse_field)]
    pub(crate) storage: Vec<(String, String)>,
    /// For data behind a network: keep what was fetched in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache_dir: Option<PathBuf>,
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, source)) if !name.is_empty() && !source.is_empty() => {
            Ok((name.to_owned(), source.to_owned()))
        }
        _ => Err("expected NAME=SRC, such as image=jpg".to_owned()),
    }
}

/// How images are stored in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImageChoice {
    /// Original bytes of JPEG files, bit for bit, plus an index for reading parts of them
    Jpeg,
    /// Quantised JPEG coefficients: the same pixels, about twice the size, faster to decode
    Dct,
    /// Raw pixels with halved colour resolution
    Yuv420,
    /// Raw pixels
    Rgb,
    /// Bytes untouched, whatever the codec
    AsIs,
}

/// What packing does with a bad sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorChoice {
    /// Stop with an error that names it
    Raise,
    /// Leave it out and list it in the pack's manifest
    Skip,
}

/// Say what a data set is: format, fields, counts, sizes, classes, a few samples
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline inspect /data/train.pack
  feedline inspect 'train-*.tar' --samples 10
  feedline inspect photos/ --json | jq .samples")]
pub(crate) struct InspectArgs {
    /// A folder of images, a pack, a tar file, or a pattern
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// How many samples to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) samples: u64,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure loading: images/s, MB/s, CPU time, memory, and where the time goes
///
/// Each recipe runs several epochs: the first with these files dropped from the page cache, the others warm.
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
    /// Threads; 0 for all cores this process may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    /// Epochs of each recipe, the cold one included
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) epochs: u64,
    /// What is done with each sample
    #[arg(long, value_enum, default_value_t = RecipeChoice::All)]
    pub(crate) recipe: RecipeChoice,
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

/// Look after a cache of remote data: list it, check it, empty it
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
    /// The folder that was given as cache_dir
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheCommand {
    /// Say what is in it, by object
    Ls,
    /// Compare every block with its checksum; exit code 1 if one is damaged
    Verify,
    /// Remove every block
    Clear,
}

/// Look at this machine: what feedline can use, what limits it, what to change
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// See it work: draw a small image set, pack it, load it, show where the time goes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  feedline demo
  feedline demo --dir /tmp/feedline-demo --samples 2000")]
pub(crate) struct DemoArgs {
    /// Work in this folder and keep the data [default: a temporary folder, removed at the end]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// How many images to draw
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(8..=100_000))]
    pub(crate) samples: u64,
}
