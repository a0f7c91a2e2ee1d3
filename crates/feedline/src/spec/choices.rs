//! Settings that are one of a few words.

use serde::{Deserialize, Serialize};

/// Order of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Shuffle {
    /// As stored.
    #[default]
    Off,
    /// Every order equally likely.
    Full,
    /// Quasi-random: shuffles blocks of neighbours, and the samples inside a window of blocks. Reads storage in large
    /// pieces.
    Block,
}

/// Whether bytes are read before they are needed. As JSON: `"auto"`, `"off"` or a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ReadAheadJson", into = "ReadAheadJson")]
pub enum ReadAhead {
    /// Remote data always; local data while reads make their threads wait for storage.
    #[default]
    Auto,
    /// Never: every worker waits for its own reads.
    Off,
    /// Always; so many reads of local data may wait for storage at once.
    Reads(u32),
}

/// [`ReadAhead`] as JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ReadAheadJson {
    Named(String),
    Reads(u32),
}

impl TryFrom<ReadAheadJson> for ReadAhead {
    type Error = String;

    fn try_from(json: ReadAheadJson) -> Result<Self, String> {
        match json {
            ReadAheadJson::Named(name) if name == "auto" => Ok(ReadAhead::Auto),
            ReadAheadJson::Named(name) if name == "off" => Ok(ReadAhead::Off),
            ReadAheadJson::Named(name) => {
                Err(format!("read_ahead: '{name}' is not one of auto, off or a number"))
            }
            ReadAheadJson::Reads(count) => Ok(ReadAhead::Reads(count)),
        }
    }
}

impl From<ReadAhead> for ReadAheadJson {
    fn from(ahead: ReadAhead) -> Self {
        match ahead {
            ReadAhead::Auto => ReadAheadJson::Named("auto".to_owned()),
            ReadAhead::Off => ReadAheadJson::Named("off".to_owned()),
            ReadAhead::Reads(count) => ReadAheadJson::Reads(count),
        }
    }
}

/// What to do with a sample that cannot be read or decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The batch becomes an error that names the sample.
    #[default]
    Raise,
    /// The batch is delivered without the sample.
    Skip,
    /// Another sample, chosen by (seed, epoch, index), takes its place.
    Replace,
}

/// How images are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecodeMode {
    /// The pixels libjpeg-turbo and Pillow give.
    #[default]
    Exact,
    /// JPEGs may be decoded at half, quarter or eighth size when the result is smaller still.
    Fast,
    /// Images are not decoded: batches contain the encoded bytes.
    None,
}

/// Whether JPEGs that are stored without a seek index get one, which is kept in the user's cache folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexMode {
    /// Checkpoints are collected from the rows that are decoded anyway, and used from the next decode on.
    #[default]
    Auto,
    /// None are used or collected.
    Off,
    /// Every image is indexed to its end when it is first decoded: that costs more once.
    Build,
}

/// What to store for a number that is missing in a sample, in fields that may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// 0 (NaN for floats), plus a column `NAME.valid` that says which samples have a value.
    #[default]
    Mask,
    /// NaN; integers become floats.
    Nan,
    /// The sample is bad.
    Error,
}
