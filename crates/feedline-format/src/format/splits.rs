//! Splits of a data set by the names of its files: `train-00000-of-00005.parquet`, `mnist-test.tfrecord-00000-of-00001`,
//! `validation.parquet`, `train/0000.parquet`.

use crate::error::{Error, Location, Result};

/// Words that name a split when they are a whole part of a file name.
const WELL_KNOWN: [&str; 10] =
    ["train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval", "evaluation"];

/// Whether this word names a split.
pub(super) fn is_well_known(word: &str) -> bool {
    WELL_KNOWN.contains(&word)
}

/// The split in a file name, if there is one.
pub(super) fn split_of(name: &str) -> Option<&str> {
    let (folder, base) = name.rsplit_once('/').unwrap_or(("", name));
    let last_folder = folder.rsplit('/').next().unwrap_or(folder);
    if let Some(head) = before_shard_number(base) {
        let head = head.split_once('.').map_or(head, |(stem, _)| stem);
        let last = head.rsplit(['-', '_']).next().unwrap_or(head);
        return Some(if is_well_known(last) { last } else { head });
    }
    let stem = base.split_once('.').map_or(base, |(stem, _)| stem);
    let first = stem.split(['-', '_']).next().unwrap_or(stem);
    [stem, first, last_folder].into_iter().find(|word| is_well_known(word))
}

/// `train` of `train-00000-of-00005...`.
fn before_shard_number(base: &str) -> Option<&str> {
    let of = base.find("-of-")?;
    let after = base[of + 4..].bytes().take_while(u8::is_ascii_digit).count();
    let head = base[..of].trim_end_matches(|c: char| c.is_ascii_digit());
    (after > 0 && head.len() < of).then(|| head.trim_end_matches('-')).filter(|head| !head.is_empty())
}

/// The files of the requested split. Without a request, all files, if they are of one split or `listed` by the user
/// one by one.
pub(super) fn choose(
    uri: &str,
    names: Vec<String>,
    wanted: Option<&str>,
    listed: bool,
) -> Result<Vec<String>> {
    let mut splits: Vec<&str> = names.iter().filter_map(|n| split_of(n)).collect();
    splits.sort_unstable();
    splits.dedup();
    let known = splits.join(", ");
    match wanted {
        Some(wanted) => {
            let found: Vec<String> = names.iter().filter(|n| split_of(n) == Some(wanted)).cloned().collect();
            if !found.is_empty() {
                return Ok(found);
            }
            let known = if known.is_empty() { "the file names contain none".to_owned() } else { known };
            Err(Error::option("split", format!("{uri} has no split '{wanted}': {known}")))
        }
        None if splits.len() > 1 && !listed => {
            let reason = format!("several splits are here: {known}");
            Err(Error::data(Location::new(uri), reason)
                .with_hint(format!("choose one with split=\"{}\", or give a pattern of files", splits[0])))
        }
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_recognised_by_name() {
        for (name, split) in [
            ("data/train-00000-of-00005.parquet", Some("train")),
            ("train-00000-of-00001-a09b74b3ef9c3b56.parquet", Some("train")),
            ("mnist-test.tfrecord-00000-of-00001", Some("test")),
            ("validation-00003-of-00128", Some("validation")),
            ("unsupervised-00000-of-00001.parquet", Some("unsupervised")),
            ("my_data-00000-of-00002.parquet", Some("my_data")),
            ("default/train/0000.parquet", Some("train")),
            ("test.parquet", Some("test")),
            ("train_1.parquet", Some("train")),
            ("0000.parquet", None),
            ("best-of-2.parquet", None),
            ("data-part1.parquet", None),
        ] {
            assert_eq!(split_of(name), split, "{name}");
        }
    }

    #[test]
    fn several_splits_need_a_choice() {
        let names =
            || vec!["test-00000-of-00001.parquet".to_owned(), "train-00000-of-00001.parquet".to_owned()];
        let message = choose("u", names(), None, false).unwrap_err().to_string();
        assert!(message.contains("test, train"), "{message}");
        assert_eq!(choose("u", names(), None, true).unwrap().len(), 2);
        assert_eq!(choose("u", names(), Some("train"), false).unwrap(), names()[1..]);
        assert!(choose("u", names(), Some("val"), false).unwrap_err().to_string().contains("test, train"));
    }
}
