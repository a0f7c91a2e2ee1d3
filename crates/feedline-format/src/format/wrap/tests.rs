//! Tests that wrappers forward everything.
#![expect(clippy::missing_trait_methods, reason = "what is wrapped here has defaults")]

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::*;
use crate::error::{Location, Result};
use crate::field::{FieldSpec, Kind};
use crate::format::{Extents, Format, Index};
use crate::sample::{Extent, FieldSet, Fingerprint, SampleBuffer, Schema, Value};
use crate::source::{MemorySource, Source};

/// Texts of known lengths. The first sample has none, so `byte_length(0, 0)` is `None` although lengths are known.
#[derive(Debug)]
struct Texts {
    schema: Schema,
    source: Arc<dyn Source>,
    objects: u32,
}

fn texts(objects: u32) -> Arc<dyn Format> {
    let fields = vec![FieldSpec::new("text", Kind::Text).optional(true), FieldSpec::new("label", Kind::Int)];
    let schema = Schema { fields, classes: Some(vec!["a".to_owned(), "b".to_owned()]) };
    Arc::new(Texts { schema, source: Arc::new(MemorySource::new([("x", vec![0; 64])])), objects })
}

impl Format for Texts {
    fn name(&self) -> &'static str {
        "texts"
    }

    fn len(&self) -> u64 {
        4
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of([&b"texts"[..]])
    }

    fn read(&self, sample: u64, _: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(2);
        if sample > 0 {
            let range = into.append(&vec![b'a'; sample as usize]);
            into.set(0, Value::Bytes(range));
        }
        into.set(1, Value::Int(sample as i64 % 2));
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new("texts").with_sample(sample)
    }
}

impl Index for Texts {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        (field == 0 && sample > 0).then_some(sample)
    }

    fn knows_byte_lengths(&self, field: usize) -> bool {
        field == 0
    }

    fn read_bytes(&self, _: u64, _: usize, into: &mut [u8]) -> Result<()> {
        into.fill(b'a');
        Ok(())
    }
}

impl Extents for Texts {
    fn object_count(&self) -> u32 {
        self.objects
    }

    fn object(&self, _: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((&self.source, Cow::Borrowed("x")))
    }

    fn extents(&self, sample: u64, _: &FieldSet, out: &mut Vec<Extent>) {
        out.push(Extent { object: self.objects - 1, range: sample..sample + 1 });
    }
}

fn extents(format: &dyn Format) -> Vec<Extent> {
    let mut found = Vec::new();
    format.extents(1, &FieldSet::all(2), &mut found);
    found
}

#[test]
fn lengths_are_known_through_every_wrapper() {
    let copy = LocalCopy::default();
    let wrapped: [Arc<dyn Format>; 5] = [
        Arc::new(Renamed::new(texts(1), texts(1).schema().clone(), vec![vec![0], vec![1]])),
        Arc::new(Selected::new(texts(1), (0..4).collect()).unwrap()),
        Arc::new(Concatenated::new(vec![texts(1), texts(1)], texts(1).schema().clone())),
        Arc::new(Relabelled::new(texts(1), 1, vec![1, 0], &["b".to_owned(), "a".to_owned()])),
        Arc::new(Copied::new(texts(1), copy, Arc::new(()))),
    ];
    for format in wrapped {
        assert!(format.knows_byte_lengths(0), "{format:?}");
        assert!(!format.knows_byte_lengths(1), "{format:?}");
        assert_eq!(format.byte_length(0, 0), None, "{format:?}");
        assert_eq!(format.byte_length(2, 0), Some(2), "{format:?}");
    }
}

#[test]
fn objects_of_an_earlier_plan_stay_valid_when_a_copy_is_complete() {
    let copy: LocalCopy = Arc::new(OnceLock::new());
    let format = Copied::new(texts(3), copy.clone(), Arc::new(()));
    let before = extents(&format);
    assert_eq!((format.object_count(), before.len()), (3, 1));
    copy.set(texts(5)).unwrap();
    assert_eq!(format.object_count(), 3);
    assert!(extents(&format).is_empty(), "the copy is local: there is nothing to plan");
    assert!(format.object(before[0].object).is_some(), "a plan made before still has its object");
}

#[test]
fn the_copying_thread_is_dropped_with_the_last_reader() {
    let maker = Arc::new(());
    let format: Arc<dyn Format> = Arc::new(Copied::new(texts(1), LocalCopy::default(), maker.clone()));
    let selected = Selected::new(format.clone(), Arc::new([0])).unwrap();
    drop(format);
    assert_eq!(Arc::strong_count(&maker), 2);
    drop(selected);
    assert_eq!(Arc::strong_count(&maker), 1);
}
