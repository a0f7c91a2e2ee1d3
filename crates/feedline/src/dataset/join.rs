//! Concatenates data sets.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Dataset, DatasetSpec};
use crate::error::{Error, Result};
use crate::field::Role;
use crate::format::{Concatenated, Format, Relabelled, Renamed};
use crate::sample::{FieldSpec, Schema};

impl Dataset {
    /// Concatenates data sets. The result has the fields that all of them have, in the order of the first.
    pub fn concat(pieces: &[Dataset]) -> Result<Self> {
        Dataset::in_a_row(pieces, false)
    }

    /// Like [`concat`](Self::concat), but matches classes by name if the data sets number them differently.
    pub fn join(pieces: &[Dataset]) -> Result<Self> {
        Dataset::in_a_row(pieces, true)
    }

    fn in_a_row(pieces: &[Dataset], matched: bool) -> Result<Self> {
        if pieces.is_empty() {
            return Err(Error::option("concat", "nothing to join: the list is empty"));
        }
        let mut formats: Vec<Arc<dyn Format>> = pieces.iter().map(|piece| piece.format.clone()).collect();
        if matched {
            match_classes(&mut formats)?;
        }
        let schema = common_schema(&formats)?;
        let formats = formats.iter().map(|format| reduce(format, &schema)).collect();
        let uri = pieces.iter().map(Dataset::uri).collect::<Vec<_>>().join(", ");
        let specs: Option<Vec<_>> = pieces.iter().map(|p| p.spec.as_deref().cloned()).collect();
        let spec = specs.map(|pieces| Arc::new(DatasetSpec::Concat { pieces, matched }));
        Ok(Dataset {
            format: Arc::new(Concatenated::new(formats, schema)),
            uri: uri.into(),
            spec,
            copy: None,
            problems: pieces.iter().flat_map(|piece| piece.problems().iter().cloned()).collect(),
        })
    }
}

/// Gives all data sets with class names the same list of names.
fn match_classes(formats: &mut [Arc<dyn Format>]) -> Result<()> {
    let lists: Vec<Vec<String>> = formats.iter().filter_map(|f| f.schema().classes.clone()).collect();
    let all = shared_names(&lists);
    for format in formats {
        let Some(own) = format.schema().classes.clone().filter(|own| *own != all) else { continue };
        let field = class_field(format.schema()).ok_or_else(|| {
            Error::option("uri", "the data sets name their classes differently, and no field is the label")
        })?;
        let place = |name: &String| all.iter().position(|known| known == name).unwrap_or(0) as i64;
        let numbers = own.iter().map(place).collect();
        *format = Arc::new(Relabelled::new(format.clone(), field, numbers, &all));
    }
    Ok(())
}

/// Every name once: sorted if every list is sorted, as with folders; otherwise new names are appended.
fn shared_names(lists: &[Vec<String>]) -> Vec<String> {
    if lists.iter().all(|list| list.is_sorted()) {
        let all: BTreeSet<&String> = lists.iter().flatten().collect();
        return all.into_iter().cloned().collect();
    }
    let mut seen = BTreeSet::new();
    lists.iter().flatten().filter(|name| seen.insert((*name).clone())).cloned().collect()
}

/// The field that the class names belong to.
fn class_field(schema: &Schema) -> Option<usize> {
    schema.fields.iter().position(|field| Role::Label.fits(field))
}

fn common_schema(pieces: &[Arc<dyn Format>]) -> Result<Schema> {
    let first = pieces[0].schema();
    let mut schema = Schema { fields: Vec::new(), classes: first.classes.clone() };
    'fields: for field in &first.fields {
        let mut common = field.clone();
        for piece in &pieces[1..] {
            let Some(position) = piece.schema().position(&field.name) else { continue 'fields };
            let other = &piece.schema().fields[position];
            if other.kind != field.kind {
                let reason =
                    format!("'{}' is {:?} in one and {:?} in another", field.name, field.kind, other.kind);
                return Err(Error::option("concat", reason));
            }
            common.optional |= other.optional;
        }
        schema.fields.push(common);
    }
    if schema.fields.is_empty() {
        return Err(Error::option("concat", "the data sets have no field in common; rename with fields="));
    }
    for piece in &pieces[1..] {
        match (&schema.classes, &piece.schema().classes) {
            (Some(mine), Some(other)) if mine != other => {
                let reason =
                    "the data sets number their classes differently: the same label would mean two things";
                return Err(Error::option("concat", reason));
            }
            (None, Some(other)) => schema.classes = Some(other.clone()),
            _ => {}
        }
    }
    Ok(schema)
}

/// `format` with exactly the fields of `schema`, in its order.
fn reduce(format: &Arc<dyn Format>, schema: &Schema) -> Arc<dyn Format> {
    let position = |f: &FieldSpec| format.schema().position(&f.name).expect("the field is common to all");
    let candidates: Vec<Vec<usize>> = schema.fields.iter().map(|f| vec![position(f)]).collect();
    let same = candidates.len() == format.schema().fields.len()
        && candidates.iter().enumerate().all(|(n, c)| c[..] == [n]);
    if same {
        return format.clone();
    }
    Arc::new(Renamed::new(format.clone(), schema.clone(), candidates))
}
