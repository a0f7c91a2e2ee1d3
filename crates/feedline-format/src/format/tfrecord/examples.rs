//! Records of `tf.train.Example` as fields, for any container.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use super::example::{Feature, Refusal, visit_features};
use super::schema::{Column, Survey};
use super::values;
use crate::error::{Error, Location};
use crate::sample::{FieldSet, FieldSpec, MAX_FIELDS, SampleBuffer};

/// The columns of a data set of examples.
#[derive(Debug, Default)]
pub(in super::super) struct Examples {
    pub(super) columns: Vec<Column>,
    by_name: HashMap<Vec<u8>, usize>,
}

/// Why a record cannot be read: the record itself, or one of its fields.
pub(in super::super) enum Refused {
    Record(Refusal),
    Field(usize, String),
}

/// Features of the sample that is being read, and numbers that are being collected.
struct Scratch {
    found: Vec<(usize, Feature)>,
    numbers: Vec<u8>,
}

thread_local! {
    /// Reused, so that reading allocates nothing.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { found: Vec::new(), numbers: Vec::new() }) };
}

impl Refusal {
    /// Converts it to an error at this place.
    pub(in super::super) fn at(self, place: Location) -> Error {
        match self {
            Refusal::Broken(reason) => {
                Error::data(place, format!("the record is not a tf.train.Example: {reason}"))
            }
            Refusal::Sequence => {
                let reason = "the record is a tf.train.SequenceExample; only tf.train.Example is read";
                Error::data(place, reason)
                    .with_hint("write the steps as lists of a tf.train.Example, or convert with another tool")
            }
        }
    }
}

/// Inspects the features of one record.
pub(super) fn survey_record(record: &[u8], survey: &mut Survey) -> Result<(), Refusal> {
    let mut features = Vec::new();
    visit_features(record, |name, feature| {
        features.push((name.to_vec(), feature));
        Ok(())
    })?;
    survey.begin_record();
    features.iter().try_for_each(|(name, feature)| survey.see(name, feature, record).map_err(Refusal::Broken))
}

impl Examples {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        let name = |(number, column): (usize, &Column)| (column.spec.name.clone().into_bytes(), number);
        Examples { by_name: columns.iter().enumerate().map(name).collect(), columns }
    }

    /// The columns of these records; `None` if one of them is not an example, or none has a feature.
    pub(in super::super) fn survey<'a>(records: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut survey = Survey::default();
        for record in records {
            survey_record(record, &mut survey).ok()?;
        }
        let columns = survey.finish().ok()?;
        (!columns.is_empty() && columns.len() <= MAX_FIELDS).then(|| Examples::new(columns))
    }

    pub(in super::super) fn fields(&self) -> Vec<FieldSpec> {
        self.columns.iter().map(|column| column.spec.clone()).collect()
    }

    /// Sets the wanted fields of the record at `range` of the buffer.
    pub(in super::super) fn read(
        &self,
        range: &Range<usize>,
        fields: &FieldSet,
        into: &mut SampleBuffer,
    ) -> Result<(), Refused> {
        SCRATCH.with_borrow_mut(|Scratch { found, numbers }| {
            found.clear();
            let parsed = visit_features(into.bytes(range), |name, feature| {
                if let Some(field) = self.by_name.get(name).filter(|field| fields.has(**field)) {
                    found.push((*field, feature));
                }
                Ok(())
            });
            parsed.map_err(Refused::Record)?;
            for (field, feature) in found {
                let value = values::value(&self.columns[*field], feature, range, numbers, into);
                into.set(*field, value.map_err(|reason| Refused::Field(*field, reason))?);
            }
            Ok(())
        })
    }
}
