//! `feedline bench`: measures loading.
//!
//! Each recipe runs its epochs with one loader. Before the first epoch the data's files are dropped from the page
//! cache, while none of them is open or mapped; the other epochs are warm.

mod copy;
mod measure;
mod recipe;
mod table;

use feedline::Kind;

use crate::args::{BenchArgs, RecipeChoice};
use crate::failure::Failure;
use crate::report::{Output, message};
use crate::{ExitCode, data, units};

use copy::CopySpeed;
use measure::{Run, Setup};
use recipe::Recipe;

/// All measurements.
#[derive(Debug)]
struct Bench {
    setup: Setup,
    runs: Vec<Run>,
    copy: Option<CopySpeed>,
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    if !args.against.is_empty() {
        return Err(Failure::usage(
            format!(
                "--against {}: other loaders are Python programs, and this command is not",
                args.against.join(",")
            ),
            "run 'python -m feedline bench PATH --against ...' in an environment that has them",
        ));
    }
    if args.trace.is_some() && args.recipe == RecipeChoice::All {
        return Err(Failure::usage("--trace: one file can hold only one recipe", "add --recipe train"));
    }
    let setup = Setup::new(args)?;
    let mut bench = Bench { runs: Vec::new(), copy: None, setup };
    for recipe in recipes(args, &bench.setup)? {
        message(&format!("{}: {} ...", recipe.name(), units::counted(args.epochs, "epoch")));
        bench.runs.push(measure::run(recipe, args, &bench.setup)?);
        if recipe == Recipe::Raw {
            message("memory copy of the same bytes ...");
            bench.copy = copy::measure(args, &bench.setup)?;
        }
    }
    output.document(|| table::document(&bench, args));
    table::show(&bench, args, output);
    Ok(ExitCode::Ok)
}

fn recipes(args: &BenchArgs, setup: &Setup) -> Result<Vec<Recipe>, Failure> {
    let all = [Recipe::Raw, Recipe::Decode, Recipe::Train, Recipe::Validation];
    let wanted = match args.recipe {
        RecipeChoice::Raw => vec![Recipe::Raw],
        RecipeChoice::Decode => vec![Recipe::Decode],
        RecipeChoice::Train => vec![Recipe::Train],
        RecipeChoice::Validation => vec![Recipe::Validation],
        RecipeChoice::All if setup.images.is_empty() => vec![Recipe::Raw],
        RecipeChoice::All => all.to_vec(),
    };
    if setup.images.is_empty() && wanted != [Recipe::Raw] {
        let reason = format!("{}: there is no image field to decode", args.path);
        return Err(Failure::usage(reason, "use --recipe raw"));
    }
    Ok(wanted)
}

impl Setup {
    fn new(args: &BenchArgs) -> Result<Self, Failure> {
        let dataset = data::open(std::slice::from_ref(&args.path), &args.open)?;
        if dataset.is_empty() {
            return Err(feedline::Error::data(
                feedline::error::Location::new(&args.path),
                "there are no samples to load",
            )
            .into());
        }
        let fields = &dataset.schema().fields;
        Ok(Setup {
            samples: dataset.len(),
            format: dataset.format_name(),
            fingerprint: dataset.fingerprint().to_hex(),
            images: fields.iter().filter(|f| f.kind == Kind::Image).map(|f| f.name.clone()).collect(),
            files: data::files(&args.path)?,
            threads: if args.workers > 0 { args.workers } else { crate::machine::threads() },
        })
    }
}
