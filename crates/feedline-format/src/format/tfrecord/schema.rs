//! Finds the fields of a set's records: TFRecord has no schema, so records spread over the whole set are inspected.

use std::collections::HashMap;

use super::super::sniff;
use super::example::{Feature, ListKind};
use crate::sample::{FieldSpec, Kind};

/// The kinds of all features seen, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Survey {
    records: u64,
    features: HashMap<Vec<u8>, Seen>,
}

#[derive(Debug)]
struct Seen {
    list: ListKind,
    records: u64,
    last_record: u64,
    single: bool,
    empty: bool,
    /// Whether any record has a value: lists that are all empty do not show what they could contain.
    filled: bool,
    image: bool,
    text: bool,
}

/// One field: its name and kind, and the type of its feature's list.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Column {
    pub(super) spec: FieldSpec,
    pub(super) floats: bool,
}

impl Survey {
    /// Counts one more record.
    pub(super) fn begin_record(&mut self) {
        self.records += 1;
    }

    /// Inspects one feature of the current record.
    pub(super) fn see(&mut self, name: &[u8], feature: &Feature, record: &[u8]) -> Result<(), String> {
        let (mut count, mut image, mut text) = (0, true, true);
        if feature.kind == ListKind::Bytes {
            feature.byte_strings(record, |range| {
                count += 1;
                let bytes = &record[range];
                image &= sniff::is_image(bytes);
                text &= is_text(bytes);
            })?;
        } else {
            count = feature.count(record)?;
        }
        let seen = self.features.entry(name.to_vec()).or_insert(Seen {
            list: feature.kind,
            records: 0,
            last_record: 0,
            single: true,
            empty: false,
            filled: false,
            image: true,
            text: true,
        });
        // A name that occurs twice in a record is one feature.
        seen.records += u64::from(seen.last_record != self.records);
        seen.last_record = self.records;
        seen.single &= count <= 1;
        seen.empty |= count == 0;
        seen.filled |= count > 0;
        seen.image &= count == 0 || image;
        seen.text &= text;
        Ok(())
    }

    /// The fields, sorted by name: a protobuf map has no order of its own.
    pub(super) fn finish(self) -> Result<Vec<Column>, String> {
        let mut columns = Vec::with_capacity(self.features.len());
        for (name, seen) in self.features {
            let name = String::from_utf8(name).map_err(|_| "a feature's name is not UTF-8".to_owned())?;
            let kind = seen.kind(&name);
            let optional = seen.records < self.records || (seen.empty && kind != Kind::Array);
            columns.push(Column {
                spec: FieldSpec::new(name, kind).optional(optional),
                floats: seen.list == ListKind::Float,
            });
        }
        columns.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Ok(columns)
    }
}

impl Seen {
    fn kind(&self, name: &str) -> Kind {
        match self.list {
            ListKind::Int if self.single => Kind::Int,
            ListKind::Float if self.single => Kind::Float,
            ListKind::Int | ListKind::Float => Kind::Array,
            ListKind::Bytes if !self.single => Kind::Json,
            ListKind::Bytes if name == "image/encoded" => Kind::Image,
            ListKind::Bytes if !self.filled => Kind::Bytes,
            ListKind::Bytes if self.image => Kind::Image,
            ListKind::Bytes if self.text => Kind::Text,
            ListKind::Bytes => Kind::Bytes,
        }
    }
}

impl Column {
    /// The type of list that this column's features must have.
    pub(super) fn list(&self) -> ListKind {
        match self.spec.kind {
            Kind::Int | Kind::Float | Kind::Array if self.floats => ListKind::Float,
            Kind::Int | Kind::Float | Kind::Array => ListKind::Int,
            _ => ListKind::Bytes,
        }
    }
}

/// UTF-8 without control characters other than white space.
fn is_text(bytes: &[u8]) -> bool {
    let plain = |text: &str| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
    std::str::from_utf8(bytes).is_ok_and(plain)
}
