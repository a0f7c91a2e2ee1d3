//! `index.json`: the shards, their columns, and which of their files exist.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::compressed::Codec;
use super::encoding::Encoding;
use crate::source::Source;

/// The index of a folder.
pub(super) const INDEX_NAME: &str = "index.json";

/// Enough of an index to recognise it. LitData's, of the same name, has `chunks`.
#[derive(Deserialize)]
struct Preview {
    version: Option<u64>,
    shards: Option<Vec<IgnoredAny>>,
}

/// The number of shards, if these bytes are Mosaic's index.
pub(super) fn shard_count(bytes: &[u8]) -> Option<usize> {
    let preview: Preview = serde_json::from_slice(bytes).ok()?;
    preview.version?;
    preview.shards.map(|shards| shards.len())
}

#[derive(Deserialize)]
struct IndexText {
    version: u64,
    shards: Vec<ShardText>,
}

#[derive(Deserialize)]
struct ShardText {
    version: u64,
    format: String,
    samples: u64,
    compression: Option<String>,
    #[serde(default)]
    column_names: Vec<String>,
    #[serde(default)]
    column_encodings: Vec<String>,
    #[serde(default)]
    column_sizes: Vec<Option<u64>>,
    #[serde(default)]
    columns: serde_json::Map<String, serde_json::Value>,
    newline: Option<String>,
    separator: Option<String>,
    raw_data: FileText,
    raw_meta: Option<FileText>,
    zip_data: Option<FileText>,
    zip_meta: Option<FileText>,
}

#[derive(Deserialize)]
struct FileText {
    basename: String,
    bytes: u64,
    #[serde(default)]
    hashes: HashMap<String, String>,
}

/// The syntax of a shard's samples.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// Binary, with its offsets first.
    Mds,
    /// One JSON object per line.
    Json { newline: String },
    /// One line per sample, without quoting.
    Separated { separator: String, newline: String },
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) encoding: Encoding,
}

/// One file of a shard: the one that exists, and its expected length and hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) name: String,
    /// Stored length.
    pub(super) bytes: u64,
    pub(super) hashes: Vec<(String, String)>,
    /// How it is compressed, and its expected inflated content.
    pub(super) packed: Option<Packed>,
}

/// The expected inflated content of a compressed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) codec: Codec,
    pub(super) bytes: u64,
    pub(super) hashes: Vec<(String, String)>,
}

impl FileEntry {
    /// Length when inflated.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.packed.as_ref().map_or(self.bytes, |packed| packed.bytes)
    }
}

/// One shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShardEntry {
    pub(super) samples: u64,
    pub(super) style: Style,
    pub(super) columns: Vec<Column>,
    pub(super) data: FileEntry,
    /// File of the offsets, if they are not in the data file.
    pub(super) meta: Option<FileEntry>,
}

/// Files that exist, with length and version; `None` if the source cannot list.
pub(super) struct Present(Option<HashMap<String, (u64, u64)>>);

impl Present {
    /// Lists the files below `folder`.
    pub(super) fn list(source: &dyn Source, folder: &str) -> Self {
        let listed = source.list(folder).ok();
        Present(listed.map(|l| l.entries.into_iter().map(|e| (e.name, (e.size, e.version))).collect()))
    }

    /// A file's length and version, if they are known.
    pub(super) fn find(&self, name: &str) -> Option<(u64, u64)> {
        self.0.as_ref()?.get(name).copied()
    }

    fn may_have(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|files| files.contains_key(name))
    }
}

/// Parses the index of `folder` (a prefix that ends in `/`, or empty). An error names the shard's number.
pub(super) fn parse(bytes: &[u8], folder: &str, present: &Present) -> Result<Vec<ShardEntry>, String> {
    let index: IndexText = serde_json::from_slice(bytes).map_err(|e| format!("not an MDS index: {e}"))?;
    if index.version != 2 {
        return Err(format!("version {} of the index is unknown, only 2 is", index.version));
    }
    let shards = index.shards.into_iter().enumerate();
    shards.map(|(n, s)| shard(s, folder, present).map_err(|reason| format!("shard {n}: {reason}"))).collect()
}

fn shard(text: ShardText, folder: &str, present: &Present) -> Result<ShardEntry, String> {
    if text.version != 2 {
        return Err(format!("version {} is unknown, only 2 is", text.version));
    }
    let style = style(&text)?;
    let columns = columns(&text, &style)?;
    let codec = text.compression.as_deref().map(Codec::parse).transpose()?;
    let data = file(text.raw_data, text.zip_data, codec, folder, present)?;
    let meta = match (&style, text.raw_meta) {
        (Style::Mds, _) => None,
        (_, Some(raw)) => Some(file(raw, text.zip_meta, codec, folder, present)?),
        (_, None) => return Err("it has no 'raw_meta'".to_owned()),
    };
    Ok(ShardEntry { samples: text.samples, style, columns, data, meta })
}

fn style(text: &ShardText) -> Result<Style, String> {
    let newline = || text.newline.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "\n".to_owned());
    let separated =
        |separator: &str| Style::Separated { separator: separator.to_owned(), newline: newline() };
    Ok(match text.format.as_str() {
        "mds" => Style::Mds,
        "json" => Style::Json { newline: newline() },
        "csv" => separated(","),
        "tsv" => separated("\t"),
        "xsv" => match text.separator.as_deref() {
            Some(separator) if !separator.is_empty() => separated(separator),
            _ => return Err("it has no 'separator'".to_owned()),
        },
        other => return Err(format!("its format '{other}' is not one of mds, json, xsv, csv, tsv")),
    })
}

fn columns(text: &ShardText, style: &Style) -> Result<Vec<Column>, String> {
    if let Style::Json { .. } = style {
        let column = |(name, encoding): (&String, &serde_json::Value)| {
            let encoding = Encoding::of_text(encoding.as_str().unwrap_or_default());
            Ok(Column {
                name: name.clone(),
                encoding: encoding.map_err(|e| format!("column '{name}': {e}"))?,
            })
        };
        return text.columns.iter().map(column).collect();
    }
    if text.column_names.len() != text.column_encodings.len() {
        return Err("'column_names' and 'column_encodings' differ in length".to_owned());
    }
    let mut columns: Vec<Column> = Vec::with_capacity(text.column_names.len());
    for (number, (name, encoding)) in text.column_names.iter().zip(&text.column_encodings).enumerate() {
        let parse = if *style == Style::Mds { Encoding::parse } else { Encoding::of_text };
        let encoding = parse(encoding).map_err(|e| format!("column '{name}': {e}"))?;
        if columns.iter().any(|c| c.name == *name) {
            return Err(format!("two columns are called '{name}'"));
        }
        if *style == Style::Mds && text.column_sizes.get(number) != Some(&encoding.fixed_size()) {
            return Err(format!("the 'column_sizes' entry of column '{name}' does not fit its encoding"));
        }
        columns.push(Column { name: name.clone(), encoding });
    }
    Ok(columns)
}

/// The file that exists: the raw one if it does, otherwise the compressed one.
fn file(
    raw: FileText,
    zip: Option<FileText>,
    codec: Option<Codec>,
    folder: &str,
    present: &Present,
) -> Result<FileEntry, String> {
    let raw_name = join(folder, &raw.basename)?;
    let hashes = |file: FileText| {
        let mut hashes: Vec<_> = file.hashes.into_iter().collect();
        hashes.sort();
        hashes
    };
    if let Some(zip) = zip {
        let zip_name = join(folder, &zip.basename)?;
        let listed = present.find(&raw_name).is_some();
        if !listed && present.may_have(&zip_name) {
            let codec = codec.ok_or("it has 'zip_data' but no 'compression'")?;
            let packed = Packed { codec, bytes: raw.bytes, hashes: hashes(raw) };
            let bytes = zip.bytes;
            return Ok(FileEntry { name: zip_name, bytes, hashes: hashes(zip), packed: Some(packed) });
        }
        if !listed {
            return Err(format!("neither '{raw_name}' nor '{zip_name}' is there"));
        }
    }
    if !present.may_have(&raw_name) {
        return Err(format!("'{raw_name}' is not there"));
    }
    Ok(FileEntry { name: raw_name, bytes: raw.bytes, hashes: hashes(raw), packed: None })
}

/// A file's name relative to the source's root. Merged indexes name files in sub-folders; none may lead out of the
/// root.
fn join(folder: &str, basename: &str) -> Result<String, String> {
    let strange = basename.is_empty()
        || basename.starts_with('/')
        || basename.contains(['\\', '\0'])
        || basename.split('/').any(|part| part == "..");
    if strange {
        return Err(format!("the file name '{basename}' leads out of the data set"));
    }
    Ok(format!("{folder}{basename}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: &str = r#"{"version":2,"format":"mds","samples":1,"compression":null,"hashes":[],
        "column_names":["a"],"column_encodings":["int"],"column_sizes":[8],"size_limit":null,
        "raw_data":{"basename":"s.mds","bytes":9,"hashes":{}},"zip_data":null}"#;

    fn parsed(shard: &str) -> Result<Vec<ShardEntry>, String> {
        parse(format!(r#"{{"version":2,"shards":[{shard}]}}"#).as_bytes(), "x/", &Present(None))
    }

    #[test]
    fn unreadable_shards_are_refused_by_name() {
        assert_eq!(parsed(SHARD).unwrap()[0].data.name, "x/s.mds");
        for (from, to, word) in [
            (r#""version":2"#, r#""version":3"#, "version 3"),
            (r#""format":"mds""#, r#""format":"parquet""#, "parquet"),
            (r#"["int"]"#, r#"["quaternion"]"#, "quaternion"),
            ("[8]", "[4]", "column_sizes"),
            ("[8]", "[null]", "column_sizes"),
            (r#"["a"]"#, r#"["a","b"]"#, "differ"),
            ("s.mds", "../s.mds", "leads out"),
            ("s.mds", "/etc/passwd", "leads out"),
            (r#""compression":null"#, r#""compression":"lzma""#, "lzma"),
        ] {
            let message = parsed(&SHARD.replace(from, to)).unwrap_err();
            assert!(message.contains(word) && message.contains("shard 0"), "{message}");
        }
    }

    #[test]
    fn litdata_and_other_json_are_not_recognised() {
        assert_eq!(shard_count(br#"{"chunks":[],"config":{}}"#), None);
        assert_eq!(shard_count(br#"{"version":2,"shards":[{},{}]}"#), Some(2));
        assert_eq!(shard_count(b"[1]"), None);
    }

    #[test]
    fn the_file_that_exists_is_used() {
        let shard = SHARD
            .replace(r#""compression":null"#, r#""compression":"zstd:7""#)
            .replace(r#""zip_data":null"#, r#""zip_data":{"basename":"s.mds.zstd","bytes":4,"hashes":{}}"#);
        let text = format!(r#"{{"version":2,"shards":[{shard}]}}"#);
        let chosen = |names: &[&str]| {
            let files = names.iter().map(|n| ((*n).to_owned(), (9, 0))).collect();
            parse(text.as_bytes(), "", &Present(Some(files))).map(|shards| shards[0].data.name.clone())
        };
        assert_eq!(chosen(&["s.mds", "s.mds.zstd"]).unwrap(), "s.mds");
        assert_eq!(chosen(&["s.mds.zstd"]).unwrap(), "s.mds.zstd");
        assert!(chosen(&[]).unwrap_err().contains("neither"));
    }
}
