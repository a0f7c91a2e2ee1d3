//! A table that a program made: samples pushed one by one and kept in memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::column::Column;
use crate::owned::Sample;
use crate::sample::{FieldSpec, Schema};

/// Samples in memory, for `Dataset::open_rows`. Plain data, cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    #[serde(with = "shared")]
    pub(super) columns: Vec<Arc<Column>>,
    pub(super) classes: Option<Vec<String>>,
    count: u64,
}

impl Rows {
    /// No samples yet, of these fields. With class names, texts in a label column become their numbers.
    pub fn new(schema: &Schema) -> Self {
        let column = |field: &FieldSpec| Arc::new(Column::new(&field.name, field.kind));
        let columns = schema.fields.iter().map(column).collect();
        Rows { columns, classes: schema.classes.clone(), count: 0 }
    }

    /// Adds a sample. The error names the field that does not fit. Fields that the sample lacks are missing.
    pub fn push(&mut self, sample: &Sample) -> Result<(), String> {
        let unknown = sample.fields.iter().find(|(name, _)| self.columns.iter().all(|c| c.name != *name));
        if let Some((name, _)) = unknown {
            return Err(format!("field '{name}' is not in the schema"));
        }
        for column in &mut self.columns {
            let column = Arc::make_mut(column);
            match sample.get(&column.name) {
                None => column.push_missing(),
                Some(value) => {
                    column.push(value).map_err(|reason| format!("field '{}': {reason}", column.name))?;
                }
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether deserialised rows are consistent.
    pub(super) fn is_sound(&self) -> bool {
        self.columns.iter().all(|column| column.rows == self.count && column.is_sound())
    }
}

/// Serialises columns without their `Arc`.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Column;

    pub(super) fn serialize<S: Serializer>(columns: &[Arc<Column>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(columns.iter().map(|column| &**column))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Arc<Column>>, D::Error> {
        Ok(Vec::<Column>::deserialize(from)?.into_iter().map(Arc::new).collect())
    }
}
