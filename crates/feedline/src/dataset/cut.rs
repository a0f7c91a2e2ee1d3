//! Splits a data set into named parts by a hash of each sample: a sample stays in its part when others are added.

use super::Dataset;
use crate::error::{Error, Result};
use crate::owned::OwnedValue;
use crate::sample::Kind;

/// Fields that identify a sample, if the user names none.
const NAMES: [&str; 2] = ["key", "path"];

impl Dataset {
    /// Splits into parts of about these shares, each in the order of storage. The part of a sample depends only on the
    /// content of field `by` (default: `key`, else `path`). Only the ratios of the shares matter: 0.9 and 0.1 equals 9
    /// and 1.
    pub fn cut(&self, shares: &[(String, f64)], by: Option<&str>) -> Result<Vec<Dataset>> {
        let field = self.naming_field(by)?;
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        if shares.iter().any(|(_, share)| !share.is_finite() || *share <= 0.0) || !total.is_finite() {
            return Err(Error::option("split", "every share must be a number above 0"));
        }
        let mut parts: Vec<Vec<u64>> = vec![Vec::new(); shares.len()];
        for sample in 0..self.len() {
            let at = place(&self.get_field(sample, field)?) * total;
            let mut sum = 0.0;
            let found = shares.iter().position(|(_, share)| {
                sum += share;
                at < sum
            });
            parts[found.unwrap_or(shares.len() - 1)].push(sample);
        }
        parts.iter().map(|samples| self.select(samples)).collect()
    }

    fn naming_field(&self, by: Option<&str>) -> Result<usize> {
        let position = |name: &str| self.schema().position(name);
        let names = || self.schema().fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        if let Some(name) = by {
            return position(name).ok_or_else(|| {
                Error::option("split_by", format!("there is no field '{name}'; the data have: {}", names()))
            });
        }
        let named = NAMES.iter().filter_map(|name| position(name));
        let mut text = named.filter(|at| self.schema().fields[*at].kind == Kind::Text);
        text.next().ok_or_else(|| {
            let reason = format!("no field names the samples; choose the field to split by: {}", names());
            Error::option("split_by", reason)
        })
    }
}

/// A number in [0, 1) computed from the content.
fn place(value: &OwnedValue) -> f64 {
    let hash = match value {
        OwnedValue::Missing => blake3::hash(b""),
        OwnedValue::Int(value) => blake3::hash(&value.to_le_bytes()),
        OwnedValue::Float(value) => blake3::hash(&value.to_le_bytes()),
        OwnedValue::Text(text) | OwnedValue::Json(text) => blake3::hash(text.as_bytes()),
        OwnedValue::Bytes(bytes) | OwnedValue::Image { bytes, .. } | OwnedValue::Array { bytes, .. } => {
            blake3::hash(bytes)
        }
    };
    let eight = <[u8; 8]>::try_from(&hash.as_bytes()[..8]).expect("a hash has 32 bytes");
    // 53 bits: every value is exact in a float.
    (u64::from_le_bytes(eight) >> 11) as f64 / (1u64 << 53) as f64
}
