//! feedline's own format: a folder of part files and a manifest. `docs/formats/pack.md` is normative.

mod destination;
mod digest;
mod drive;
mod encode;
mod layout;
mod manifest;
mod merge;
mod part_writer;
mod plan;
mod reader;
mod share;
mod upload;
mod verify;

use std::sync::Arc;

use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::source::{Source, Target};

pub use drive::{PackWriter, pack};
pub use encode::{EncodedImage, ImageEncoder, ImageInput, KeepImages, ProbeImage};
pub use manifest::Skipped;
pub use merge::{append_pack, merge_packs};
pub use plan::{OnPackError, PackOptions, PackPlan, PackReport, commit_pack, plan_pack, write_part};
pub use share::{begin_pack, commit_pack_into, missing_parts, write_part_into, write_parts_into};
pub(crate) use upload::pack_and_send;
pub use verify::{Damage, VerifyReport, verify};

/// How to detect and open a pack.
pub(super) const PROBE: Probe = Probe { name: "pack", recognises, open };

fn recognises(target: &Target) -> Result<Option<String>> {
    let found = match target {
        Target::Folder(source) => {
            source.exists(manifest::MANIFEST_NAME)? || source.exists(destination::PLAN_NAME)?
        }
        Target::Objects(_, names) => matches!(names.as_slice(), [name] if name == manifest::MANIFEST_NAME),
    };
    Ok(found.then(|| "a pack's manifest".to_owned()))
}

fn open(target: &Target, _: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let source: &Arc<dyn Source> = match target {
        Target::Folder(source) | Target::Objects(source, _) => source,
    };
    if !source.exists(manifest::MANIFEST_NAME)? {
        let place = Location::new(source.uri());
        return Err(if source.exists(destination::PLAN_NAME)? {
            Error::data(place, "the pack is unfinished")
                .with_hint("run the same pack command again to complete it")
        } else {
            Error::data(place, format!("no pack here: {} is missing", manifest::MANIFEST_NAME))
        });
    }
    Ok(Arc::new(reader::Pack::open(source.clone())?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::format::conformance;
    use crate::owned::{OwnedValue, Sample};
    use crate::sample::{FieldSpec, Kind, Schema};
    use crate::source::LocalSource;

    struct SmallPack;

    impl conformance::Subject for SmallPack {
        fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
            let fields = vec![FieldSpec::new("name", Kind::Text), FieldSpec::new("image", Kind::Image)];
            let schema = Schema { fields, classes: None };
            let options = PackOptions { part_bytes: Some(200), ..PackOptions::default() };
            let mut writer = PackWriter::create(folder, schema, options).unwrap();
            for (name, bytes) in images {
                let text = OwnedValue::Text(name.clone());
                writer
                    .push(&Sample::new([("name", text), ("image", OwnedValue::image(&bytes[..]))]))
                    .unwrap();
            }
            writer.finish().unwrap();
        }

        fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
            open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default())
        }

        fn protection(&self) -> conformance::Protection {
            conformance::Protection::Everything
        }
    }

    #[test]
    fn conforms() {
        conformance::check(&SmallPack);
    }
}
