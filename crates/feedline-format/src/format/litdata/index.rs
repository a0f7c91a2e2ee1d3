//! `index.json`: the chunks, their order, and how to read their items.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::spec;
use crate::sample::Kind;

/// The checked content of `index.json`.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) chunks: Vec<ChunkEntry>,
    pub(super) loader: Loader,
    /// `data_format`: the serializer of each leaf, in the order of `names`.
    pub(super) serializers: Vec<String>,
    /// Dotted names of the leaves.
    pub(super) names: Vec<String>,
    /// Whether each item is a zstd frame of its own.
    pub(super) zstd_items: bool,
    pub(super) encryption: Option<Level>,
    /// `types` (litdata 0.2.6x and later): field → type, if dictionaries were written.
    pub(super) types: Option<serde_json::Map<String, Value>>,
    pub(super) temporal: Option<Value>,
    /// What feedline's own writer adds.
    pub(super) ours: Ours,
}

/// What serializers cannot express.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ours {
    pub(super) kinds: HashMap<String, Kind>,
    pub(super) classes: Option<Vec<String>>,
}

/// One chunk, as the index describes it.
#[derive(Debug, Deserialize)]
pub(super) struct ChunkEntry {
    /// Length before whole-file compression. Until litdata 0.2.39, without the chunk's header.
    chunk_bytes: u64,
    /// Number of items.
    pub(super) chunk_size: u64,
    pub(super) filename: String,
    /// Number of tokens, if the items are token sequences.
    dim: Option<u64>,
}

impl ChunkEntry {
    /// Whether a chunk of this many bytes has the length in the index, with or without its header.
    pub(super) fn is_length(&self, bytes: u64) -> bool {
        bytes == self.chunk_bytes || bytes == self.most_bytes()
    }

    /// The longer of the two possible lengths: items, their number and their offsets.
    pub(super) fn most_bytes(&self) -> u64 {
        let head = self.chunk_size.saturating_add(2).saturating_mul(4);
        self.chunk_bytes.saturating_add(head)
    }

    /// The length in the index, for messages.
    pub(super) fn listed_bytes(&self) -> u64 {
        self.chunk_bytes
    }
}

/// The layout of items in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loader {
    /// Sizes, then leaves.
    Tree,
    /// One token sequence per item.
    Tokens,
    /// Frame count, then groups of rows.
    Temporal,
}

/// What is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Item,
    Chunk,
}

#[derive(Deserialize)]
struct Raw {
    chunks: Vec<ChunkEntry>,
    config: RawConfig,
    #[serde(default)]
    feedline: Ours,
}

#[derive(Deserialize)]
struct RawConfig {
    compression: Option<String>,
    compression_level: Option<String>,
    data_format: Option<Vec<String>>,
    data_spec: Option<String>,
    encryption: Option<RawEncryption>,
    item_loader: Option<String>,
    temporal_schema: Option<Value>,
    types: Option<Value>,
}

#[derive(Deserialize)]
struct RawEncryption {
    algorithm: String,
    level: String,
}

/// Just enough of an index to recognise it.
#[derive(Deserialize)]
pub(super) struct IndexPreview {
    chunks: Option<serde::de::IgnoredAny>,
    config: Option<SketchConfig>,
}

#[derive(Deserialize)]
struct SketchConfig {
    item_loader: Option<String>,
}

impl IndexPreview {
    /// Whether this is LitData's own layout. An index over Parquet files is not: those files are read as Parquet.
    pub(super) fn is_litdata(bytes: &[u8]) -> bool {
        let Ok(sketch) = serde_json::from_slice::<IndexPreview>(bytes) else { return false };
        let (Some(_), Some(config)) = (&sketch.chunks, &sketch.config) else { return false };
        config.item_loader.as_deref() != Some("ParquetLoader")
    }
}

/// What is wrong, and what to do about it.
pub(super) type Refusal = (String, &'static str);

impl Index {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let raw: Raw = serde_json::from_slice(bytes).map_err(|e| {
            (format!("not an index of LitData chunks: {e}"), "the file may be cut off or foreign")
        })?;
        let loader = match raw.config.item_loader.as_deref() {
            None if is_run_of_tokens(&raw) => Loader::Tokens,
            named => loader(named)?,
        };
        let (serializers, names) = leaves(&raw.config, loader)?;
        for chunk in &raw.chunks {
            check_name(&chunk.filename)?;
        }
        Ok(Index {
            chunks: raw.chunks,
            loader,
            serializers,
            names,
            zstd_items: zstd_items(&raw.config)?,
            encryption: raw.config.encryption.as_ref().map(encryption).transpose()?,
            types: match raw.config.types {
                Some(Value::Object(types)) => Some(types),
                _ => None,
            },
            temporal: raw.config.temporal_schema,
            ours: raw.feedline,
        })
    }

    /// Whether `types` says that samples may lack this field (or a field that contains it).
    pub(super) fn is_optional(&self, name: &str) -> bool {
        let Some(types) = &self.types else { return false };
        let mut fields = Some(types);
        for part in name.split('.') {
            let Some(kind) = fields.and_then(|f| f.get(part)) else { return false };
            if kind.get("optional").and_then(Value::as_bool) == Some(true) {
                return true;
            }
            fields = kind.get("fields").and_then(Value::as_object);
        }
        false
    }
}

/// Before litdata 0.2.9 no loader was named: items of one flat tensor were tokens, and their number was stored.
fn is_run_of_tokens(raw: &Raw) -> bool {
    let formats = raw.config.data_format.as_deref().unwrap_or_default();
    let flat = matches!(formats, [only] if only.starts_with("no_header_tensor:"));
    flat && !raw.chunks.is_empty() && raw.chunks.iter().all(|chunk| chunk.dim.is_some())
}

fn loader(name: Option<&str>) -> Result<Loader, Refusal> {
    match name {
        None | Some("PyTreeLoader") => Ok(Loader::Tree),
        Some("TokensLoader") => Ok(Loader::Tokens),
        Some("TemporalArrayLoader") => Ok(Loader::Temporal),
        Some("ParquetLoader") => Err((
            "this index.json lists Parquet files, not LitData chunks".to_owned(),
            "open the folder with format=\"parquet\"",
        )),
        Some(other) => Err((
            format!("the item loader '{other}' is unknown, and so is the layout of its items"),
            "write the data set with PyTreeLoader, TokensLoader or TemporalArrayLoader",
        )),
    }
}

fn leaves(config: &RawConfig, loader: Loader) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let serializers = config.data_format.clone().unwrap_or_default();
    let text = config.data_spec.as_deref().unwrap_or("null");
    let names = spec::leaf_names(text).map_err(|e| (format!("data_spec: {e}"), ""))?;
    if names.len() != serializers.len() {
        let reason = format!("data_spec has {} leaves, data_format {}", names.len(), serializers.len());
        return Err((reason, ""));
    }
    if loader == Loader::Tokens && serializers.len() != 1 {
        return Err((format!("TokensLoader items have one leaf, not {}", serializers.len()), ""));
    }
    Ok((serializers, names))
}

fn zstd_items(config: &RawConfig) -> Result<bool, Refusal> {
    let Some(name) = &config.compression else { return Ok(false) };
    if name != "zstd" && !name.starts_with("zstd:") {
        return Err((format!("the compression '{name}' is unknown; litdata has zstd"), ""));
    }
    match config.compression_level.as_deref() {
        None | Some("" | "chunk" | "batch") => Ok(false),
        Some("sample") => Ok(true),
        Some(other) => Err((format!("the compression level '{other}' is unknown"), "")),
    }
}

fn encryption(raw: &RawEncryption) -> Result<Level, Refusal> {
    match raw.algorithm.as_str() {
        "fernet" => {}
        "rsa" => {
            let reason = "encrypted with RSA, which opens with a private key, not a password, and holds at most 190 \
                          bytes an item: not supported";
            return Err((reason.to_owned(), "write the data set with FernetEncryption"));
        }
        other => return Err((format!("encrypted with '{other}', which is not supported"), "")),
    }
    match raw.level.as_str() {
        "sample" => Ok(Level::Item),
        "chunk" => Ok(Level::Chunk),
        other => Err((format!("the encryption level '{other}' is unknown"), "")),
    }
}

/// Checks that a chunk's name stays inside the data set's folder.
fn check_name(name: &str) -> Result<(), Refusal> {
    let inside = |part: &str| !part.is_empty() && part != "." && part != "..";
    if name.contains('\\') || !name.split('/').all(inside) {
        return Err((format!("the chunk name '{name}' leads out of the folder"), ""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(config: &str) -> Result<Index, Refusal> {
        let text = format!(
            r#"{{"chunks": [{{"chunk_bytes": 24, "chunk_size": 1, "dim": null, "filename": "chunk-0-0.bin"}}],
                 "config": {{"data_format": ["int"], {config}
                 "data_spec": "[1, {{\"type\": null, \"context\": null, \"children_spec\": []}}]"}}}}"#
        );
        Index::parse(text.as_bytes())
    }

    #[test]
    fn other_indexes_are_not_taken_for_litdata() {
        assert!(IndexPreview::is_litdata(br#"{"chunks": [], "config": {"item_loader": "PyTreeLoader"}}"#));
        assert!(!IndexPreview::is_litdata(br#"{"chunks": [], "config": {"item_loader": "ParquetLoader"}}"#));
        assert!(!IndexPreview::is_litdata(br#"{"shards": [], "version": 2}"#));
        assert!(!IndexPreview::is_litdata(br#"{"chunks": ["#));
    }

    #[test]
    fn settings_are_understood_or_refused() {
        let plain = index("").unwrap();
        assert_eq!((plain.loader, plain.zstd_items, plain.encryption), (Loader::Tree, false, None));
        assert!(index(r#""compression": "zstd:3", "compression_level": "sample","#).unwrap().zstd_items);
        let level = index(r#""encryption": {"algorithm": "fernet", "level": "chunk"},"#).unwrap().encryption;
        assert_eq!(level, Some(Level::Chunk));
        for (config, word) in [
            (r#""item_loader": "ParquetLoader","#, "Parquet"),
            (r#""item_loader": "Mine","#, "Mine"),
            (r#""compression": "lz4","#, "lz4"),
            (r#""compression": "zstd", "compression_level": "row","#, "row"),
            (r#""encryption": {"algorithm": "rsa", "level": "sample"},"#, "RSA"),
            (r#""encryption": {"algorithm": "fernet", "level": "file"},"#, "file"),
        ] {
            assert!(index(config).unwrap_err().0.contains(word), "{config}");
        }
    }

    #[test]
    fn chunk_names_stay_in_the_folder() {
        for name in ["../a.bin", "/etc/passwd", "a//b", "./a", "a/../../b", ""] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name("part/chunk-0-0.zstd:4.bin").is_ok());
    }

    #[test]
    fn optional_fields_are_found_by_path() {
        let types = r#""types": {"a": "int", "b": {"optional": true, "type": "str"},
            "m": {"type": "struct", "fields": {"x": "int", "y": {"optional": true, "type": "null"}}}},"#;
        let index = index(types).unwrap();
        let found: Vec<bool> =
            ["a", "b", "m.x", "m.y", "none"].iter().map(|n| index.is_optional(n)).collect();
        assert_eq!(found, [false, true, false, true, false]);
    }
}
