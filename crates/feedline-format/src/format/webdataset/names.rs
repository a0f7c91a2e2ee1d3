//! Parses a member's name like webdataset: which sample it belongs to, and what its bytes mean.

use crate::sample::Kind;

/// Names webdataset keeps for itself: `__x__` alone, or below a first folder `__x__`.
pub(super) fn is_meta(name: &str) -> bool {
    match name.split_once('/') {
        None => name.len() >= 2 && name.starts_with("__") && name.ends_with("__"),
        Some((first, _)) => first.len() >= 4 && first.starts_with("__") && first.ends_with("__"),
    }
}

/// webdataset's `base_plus_ext`, the regular expression `^((?:.*/|)[^.]+)[.]([^/]*)$`, by hand.
pub(super) fn split_name(name: &str) -> Option<(&str, &str)> {
    let base_start = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base_start + name[base_start..].find('.')?;
    if dot == base_start {
        // `[^.]+` may then take the last folder and its slash, if that folder has no dot.
        let folder = name[..base_start].strip_suffix('/')?;
        let last = folder.rsplit('/').next().unwrap_or(folder);
        if last.contains('.') {
            return None;
        }
    }
    Some((&name[..dot], &name[dot + 1..]))
}

/// Type of a field's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Image,
    /// Digits.
    Int,
    Text,
    Json,
    /// A JSON number that is a float according to the data set's layout.
    Float,
    /// One array in numpy's format.
    Npy,
    /// One array in webdataset's own format.
    Tenbin,
    /// A NIfTI volume.
    Nifti,
    /// A Python pickle, or a file that contains one.
    Pickle,
    Bytes,
}

impl Content {
    /// The meaning of a suffix by its last part, as in webdataset's decoder. `.gz` at the end says that the member
    /// itself is compressed, and the part before it says what is inside.
    pub(super) fn of(suffix: &str) -> (Self, bool) {
        let (inner, gzipped) = match suffix.strip_suffix("gz") {
            Some(inner) if inner.is_empty() || inner.ends_with('.') => (inner.trim_end_matches('.'), true),
            _ => (suffix, false),
        };
        let content = match inner.rsplit('.').next().unwrap_or(inner) {
            "jpg" | "jpeg" | "jpe" | "jfif" | "png" | "webp" | "ppm" | "pgm" | "pbm" | "pnm" | "bmp"
            | "gif" | "tif" | "tiff" | "avif" | "jp2" => Content::Image,
            "cls" | "cls2" | "index" | "inx" | "id" => Content::Int,
            "txt" | "text" | "transcript" => Content::Text,
            "json" | "jsn" => Content::Json,
            "npy" => Content::Npy,
            "nii" => Content::Nifti,
            "ten" | "tb" => Content::Tenbin,
            "pyd" | "pkl" | "pickle" | "pth" | "pt" => Content::Pickle,
            _ => Content::Bytes,
        };
        (content, gzipped)
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Content::Image => Kind::Image,
            Content::Int => Kind::Int,
            Content::Text => Kind::Text,
            Content::Json => Kind::Json,
            Content::Float => Kind::Float,
            Content::Npy | Content::Tenbin | Content::Nifti => Kind::Array,
            Content::Pickle | Content::Bytes => Kind::Bytes,
        }
    }
}

/// Whether this is the name of a tar shard, compressed or not.
pub(super) fn is_tar_name(name: &str) -> bool {
    const ENDINGS: [&str; 10] =
        [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar.zstd", ".tar.bz2", ".tbz2", ".tar.xz", ".txz"];
    let base = name.rsplit('/').next().unwrap_or(name);
    ENDINGS.iter().any(|ending| {
        let start = base.len().wrapping_sub(ending.len());
        start > 0 && base.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(ending))
    })
}

/// A class number in the syntax of Python's `int`.
pub(super) fn integer(bytes: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(bytes).ok().map(str::trim);
    text.and_then(|t| t.parse().ok()).ok_or_else(|| {
        format!("'{}' is not an integer", String::from_utf8_lossy(&bytes[..bytes.len().min(20)]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_as_webdatasets_regular_expression_does() {
        for (name, expected) in [
            ("a.b/c.d.jpg", Some(("a.b/c", "d.jpg"))),
            (".hidden.jpg", None),
            ("a/.x.jpg", Some(("a/", "x.jpg"))),
            ("a.b/.x.jpg", None),
            ("a/b/.x", Some(("a/b/", "x"))),
            ("noext", None),
            ("dir.v1/file", None),
            ("a..jpg", Some(("a", ".jpg"))),
            ("a.", Some(("a", ""))),
            ("./a.jpg", Some(("./a", "jpg"))),
            ("/.x", Some(("/", "x"))),
        ] {
            assert_eq!(split_name(name), expected, "{name}");
        }
    }

    /// `testdata/webdataset/names.py` made the list with webdataset itself.
    #[test]
    fn names_split_as_webdataset_splits_them() {
        let text = include_str!("../../../../../testdata/webdataset/names.json");
        let golden: Vec<(String, Option<String>, Option<String>)> = serde_json::from_str(text).unwrap();
        for (name, key, suffix) in &golden {
            assert_eq!(split_name(name), key.as_deref().zip(suffix.as_deref()), "{name}");
        }
    }

    #[test]
    fn metadata_names_are_those_of_webdataset() {
        for (name, meta) in
            [("__meta__", true), ("__a__/b.jpg", true), ("x/__a__", false), ("__a.jpg", false), ("__", true)]
        {
            assert_eq!(is_meta(name), meta, "{name}");
        }
    }

    #[test]
    fn the_last_part_of_a_suffix_decides_the_content() {
        assert_eq!(Content::of("seg.png"), (Content::Image, false));
        assert_eq!(Content::of("txt.gz"), (Content::Text, true));
        assert_eq!(Content::of("gz"), (Content::Bytes, true));
        assert_eq!(Content::of("tgz"), (Content::Bytes, false));
        assert_eq!(Content::of("json.pyd"), (Content::Pickle, false));
    }

    #[test]
    fn shards_are_recognised_by_name() {
        for name in ["a.tar", "b/a.TAR", "a.tar.gz", "a.tgz", "a.tar.zst"] {
            assert!(is_tar_name(name), "{name}");
        }
        for name in [".tar", "tar", "a.gz", "a.tar/b"] {
            assert!(!is_tar_name(name), "{name}");
        }
    }
}
