//! `--part I --of N` and `--commit`: a data set written by many processes. SLURM and Kubernetes tell the number of this
//! one.

use feedline::format::{PackOptions, PackPlan, PackReport, Task};

use crate::args::TaskArgs;
use crate::failure::Failure;
use crate::progress::Bar;

/// This process's part of the whole work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// All of it.
    Alone,
    /// Its share.
    Share(Task),
    /// The last step.
    Commit,
}

/// Determines it from the command line and the environment.
pub(crate) fn work(args: &TaskArgs) -> Result<Work, Failure> {
    work_in(args, &|name| std::env::var(name).ok())
}

fn work_in(args: &TaskArgs, environment: &dyn Fn(&str) -> Option<String>) -> Result<Work, Failure> {
    if args.commit {
        return Ok(Work::Commit);
    }
    if args.part.is_none() && args.of.is_none() {
        return Ok(Work::Alone);
    }
    let number = |name: &str| environment(name).and_then(|text| text.trim().parse::<u64>().ok());
    let part = match args.part.as_deref() {
        Some("auto") | None => {
            number("SLURM_ARRAY_TASK_ID").or_else(|| number("JOB_COMPLETION_INDEX")).ok_or_else(|| {
                Failure::usage(
                    "--part: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX says which task this is",
                    "give the number: --part 0 --of 4",
                )
            })?
        }
        Some(text) => text.parse().map_err(|_| {
            Failure::usage(
                format!("--part: '{text}' is neither a number nor 'auto'"),
                "tasks are numbered from 0",
            )
        })?,
    };
    let count = match args.of {
        Some(count) => count,
        None => whole_array(&number).ok_or_else(|| {
            Failure::usage("--of: how many tasks there are is not known", "give it: --part auto --of 64")
        })?,
    };
    Ok(Work::Share(Task::new(part, count)?))
}

/// The size of a SLURM array that counts from 0 without gaps. If only a few tasks of an array are run again, its size
/// is not that of the whole.
fn whole_array(number: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    let (first, last) = (number("SLURM_ARRAY_TASK_MIN")?, number("SLURM_ARRAY_TASK_MAX")?);
    let count = number("SLURM_ARRAY_TASK_COUNT")?;
    (first == 0 && last.checked_add(1) == Some(count)).then_some(count)
}

/// Writes one task's parts of a pack, with as many threads as packing alone would use.
pub(crate) fn write_share(
    plan: &PackPlan,
    source: &dyn feedline::format::Format,
    options: &PackOptions,
    destination: &feedline::source::Destination,
    task: Task,
    bar: &Bar,
) -> feedline::Result<Option<PackReport>> {
    if let Some(report) = feedline::format::begin_pack(plan, source, options, destination)? {
        return Ok(Some(report));
    }
    feedline::format::write_parts_into(plan, source, options, task, destination, bar)?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work_of(part: Option<&str>, of: Option<u64>, environment: &[(&str, &str)]) -> Result<Work, String> {
        let args = TaskArgs { part: part.map(str::to_owned), of, commit: false };
        let find =
            |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        work_in(&args, &find).map_err(|failure| failure.message())
    }

    fn share(number: u64, count: u64) -> Work {
        Work::Share(Task { number, count })
    }

    #[test]
    fn task_numbers_come_from_the_scheduler() {
        let slurm =
            [("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_ARRAY_TASK_COUNT", "8"), ("SLURM_ARRAY_TASK_MIN", "0")];
        let whole = [&slurm[..], &[("SLURM_ARRAY_TASK_MAX", "7")]].concat();
        assert_eq!(work_of(None, None, &whole), Ok(Work::Alone));
        assert_eq!(work_of(Some("auto"), None, &whole), Ok(share(3, 8)));
        assert_eq!(work_of(None, Some(64), &whole), Ok(share(3, 64)));
        assert_eq!(work_of(Some("1"), Some(2), &whole), Ok(share(1, 2)));
        assert_eq!(work_of(None, Some(5), &[("JOB_COMPLETION_INDEX", "4")]), Ok(share(4, 5)));
    }

    #[test]
    fn a_missing_task_number_is_asked_for() {
        assert!(work_of(Some("auto"), Some(4), &[]).unwrap_err().contains("SLURM_ARRAY_TASK_ID"));
        assert!(work_of(Some("7"), Some(7), &[]).unwrap_err().contains("numbered from 0"));
        assert!(work_of(Some("x"), Some(7), &[]).unwrap_err().contains("neither a number"));
        // Three tasks of a larger array, run again.
        let few = [
            ("SLURM_ARRAY_TASK_ID", "5"),
            ("SLURM_ARRAY_TASK_COUNT", "1"),
            ("SLURM_ARRAY_TASK_MIN", "5"),
            ("SLURM_ARRAY_TASK_MAX", "5"),
        ];
        assert!(work_of(Some("auto"), None, &few).unwrap_err().contains("--of"));
    }
}
