//! Packs made of existing parts: several joined into one, and samples added to one. Parts are never rewritten; the
//! manifest says under which plan each was written.

use std::fs;
use std::path::{Path, PathBuf};

use super::destination::{self, DestinationState, PLAN_NAME};
use super::manifest::{MANIFEST_NAME, MAX_LISTED, Manifest, WrittenAs, part_name};
use super::plan::{
    OnPackError, PackOptions, PackPlan, PackReport, manifest_of, plan_pack, write_part_metered,
};
use super::reader::read_manifest;
use crate::error::{Error, Location, Result};
use crate::format::Format;
use crate::format::parts::{Meter, Progress, refuse_own_source, run_parts};
use crate::format::whole_file::{Temporary, failed, put_in_place, temporary_path, write_file};
use crate::sample::{Fingerprint, Schema};
use crate::source::LocalSource;

/// Joins finished local packs, in this order, into a new one at `destination`. On the same file system the parts are
/// shared (hard links); otherwise they are copied. Nothing is decoded or encoded.
pub fn merge_packs(
    packs: &[PathBuf],
    destination: &Path,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<PackReport> {
    let manifests = packs.iter().map(|p| read_manifest(&LocalSource::new(p))).collect::<Result<Vec<_>>>()?;
    let Some(first) = manifests.first() else {
        return Err(Error::option("packs", "there is nothing to merge"));
    };
    for (folder, manifest) in packs.iter().zip(&manifests) {
        refuse_itself(folder, destination)?;
        check_schema(&first.schema, &manifest.schema, folder)?;
    }
    let plan = merge_plan(&manifests);
    let _lock = match destination::prepare(destination, &plan, options.resume, options.overwrite)? {
        DestinationState::Complete(manifest) => return Ok(PackReport::of(&manifest)),
        DestinationState::Open(lock) => lock,
    };
    let meter = Meter::new(progress, plan.samples());
    let mut merged = Manifest::new(plan.id, &plan.image, &plan.schema, Vec::new());
    for (folder, manifest) in packs.iter().zip(&manifests) {
        add_parts(&mut merged, folder, manifest, destination, &meter)?;
    }
    finish(merged, destination)
}

fn refuse_itself(folder: &Path, destination: &Path) -> Result<()> {
    match (folder.canonicalize(), destination.canonicalize()) {
        (Ok(folder), Ok(destination)) if folder == destination => {
            let reason = format!("{} is one of the packs to merge", destination.display());
            Err(Error::option("destination", reason).with_hint("to add samples to a pack, append them"))
        }
        _ => Ok(()),
    }
}

fn check_schema(first: &Schema, other: &Schema, folder: &Path) -> Result<()> {
    let what = match (first.fields == other.fields, first.classes == other.classes) {
        (true, true) => return Ok(()),
        (false, _) => "its fields differ from those of the pack it is to join",
        (true, false) => "its class names differ from those of the pack it is to join",
    };
    Err(Error::data(Location::new(folder.display().to_string()), what)
        .with_hint("pack both sources again, together: that joins classes by their names"))
}

fn merge_plan(manifests: &[Manifest]) -> PackPlan {
    let ids = manifests.iter().map(|m| Fingerprint(m.plan).to_hex());
    let mut starts = vec![0];
    for part in manifests.iter().flat_map(|m| &m.parts) {
        starts.push(starts[starts.len() - 1] + part.samples);
    }
    PackPlan {
        id: [0; 16],
        source: format!("merge of {}", ids.collect::<Vec<_>>().join(" ")),
        image: joined_images(manifests.iter().map(|m| m.image.as_str())),
        on_error: OnPackError::Raise,
        schema: manifests[0].schema.clone(),
        starts,
    }
    .with_id()
}

/// A readable summary of how images are stored: each encoding once.
fn joined_images<'a>(images: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for image in images.flat_map(|image| image.split(" + ")) {
        if !all.contains(&image) {
            all.push(image);
        }
    }
    all.join(" + ")
}

fn add_parts(
    merged: &mut Manifest,
    folder: &Path,
    manifest: &Manifest,
    destination: &Path,
    meter: &Meter<'_>,
) -> Result<()> {
    for (number, part) in manifest.parts.iter().enumerate() {
        let header = part.header(manifest.plan, number as u64);
        let target = destination.join(part_name(merged.parts.len() as u64));
        share_file(&folder.join(part_name(number as u64)), &target, part.bytes)?;
        let written_as = Some(WrittenAs { plan: header.plan, part: header.part });
        merged.parts.push(super::manifest::PartEntry { written_as, ..part.clone() });
        meter.add(part.samples, part.bytes)?;
    }
    merged.skipped_count += manifest.skipped_count;
    merged.skipped.extend(manifest.skipped.iter().cloned());
    merged.skipped.truncate(MAX_LISTED);
    Ok(())
}

/// Makes a hard link to the file, or copies it if that is not possible.
fn share_file(from: &Path, to: &Path, bytes: u64) -> Result<()> {
    let length = |path: &Path| fs::metadata(path).map(|m| m.len());
    if length(from).map_err(|e| failed("reading", from, e))? != bytes {
        let place = Location::new(from.display().to_string());
        return Err(Error::data(place, format!("the part is not {bytes} bytes long, as its manifest says")));
    }
    // Files are renamed when they are complete, so one of that length is from an interrupted run of the same merge.
    if length(to).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let temporary = Temporary(temporary_path(to));
    if fs::hard_link(from, &temporary.0).is_err() {
        fs::copy(from, &temporary.0).map_err(|e| failed("copying", from, e))?;
    }
    let file = fs::File::open(&temporary.0).map_err(|e| failed("opening", &temporary.0, e))?;
    put_in_place(&file, temporary, to)
}

/// Puts the manifest in place; from then on the parts belong to the pack.
fn finish(mut manifest: Manifest, destination: &Path) -> Result<PackReport> {
    manifest.samples = manifest.parts.iter().map(|p| p.samples).sum();
    manifest.fingerprint = manifest.content().0;
    write_file(&destination.join(MANIFEST_NAME), &manifest.to_bytes())?;
    destination::clean(destination)?;
    let _ = fs::remove_file(destination.join(PLAN_NAME));
    Ok(PackReport::of(&manifest))
}

fn refuse_no_pack(destination: &Path) -> Result<()> {
    if destination.join(MANIFEST_NAME).exists() {
        return Ok(());
    }
    let reason = format!("there is no finished pack at {} to add samples to", destination.display());
    Err(Error::option("append", reason).with_hint("to write a new pack, pack without appending"))
}

/// Adds the samples of `source` to the finished pack at `destination`, as new parts. The old parts are not touched,
/// and readers see the old pack until the new manifest is in place. If it is killed at any moment, the same call
/// completes it; after that, the same call finds the samples and adds nothing.
pub fn append_pack(
    source: &dyn Format,
    destination: &Path,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<PackReport> {
    if options.overwrite {
        return Err(Error::option("overwrite", "appending replaces nothing"));
    }
    refuse_own_source(source, destination)?;
    refuse_no_pack(destination)?;
    let _lock = destination::lock(destination)?;
    let mut manifest = read_manifest(&LocalSource::new(destination))?;
    check_schema(&manifest.schema, source.schema(), destination)?;
    let plan = plan_pack(source, options)?;
    let known = |part: &super::manifest::PartEntry| part.written_as.is_some_and(|own| own.plan == plan.id);
    if manifest.plan == plan.id || manifest.parts.iter().any(known) {
        return Ok(PackReport::of(&manifest));
    }
    let first = manifest.parts.len() as u64;
    let append_folder = destination.join(format!("part-{first:06}.append"));
    fs::create_dir_all(&append_folder).map_err(|e| failed("creating", &append_folder, e))?;
    let meter = Meter::new(progress, plan.samples());
    run_parts(plan.parts(), options.workers, |part| {
        write_part_metered(&plan, source, options, part, &append_folder, &meter)
    })?;
    let added = manifest_of(&plan, &LocalSource::new(&append_folder))?;
    let before = manifest.plan;
    for (number, part) in manifest.parts.iter_mut().enumerate() {
        let header = part.header(before, number as u64);
        part.written_as = Some(WrittenAs { plan: header.plan, part: header.part });
    }
    manifest.plan = Fingerprint::of([&b"feedline append 1"[..], &before, &plan.id]).0;
    manifest.image = joined_images([manifest.image.as_str(), plan.image.as_str()].into_iter());
    let silent = Meter::new(&(), 0);
    add_parts(&mut manifest, &append_folder, &added, destination, &silent)?;
    let report = finish(manifest, destination)?;
    fs::remove_dir_all(&append_folder).map_err(|e| failed("removing", &append_folder, e))?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::{ReadingOptions, open, pack, verify};
    use crate::owned::Sample;
    use crate::sample::{FieldSet, SampleBuffer};
    use crate::source::{Source, Target};

    fn images(root: &Path, names: std::ops::Range<usize>) -> Arc<dyn Format> {
        for n in names {
            fs::write(root.join(format!("{n:03}.jpg")), vec![n as u8; 100 + n]).unwrap();
        }
        opened(root, "folder")
    }

    fn opened(root: &Path, format: &str) -> Arc<dyn Format> {
        open(&Target::Folder(Arc::new(LocalSource::new(root))), format, &ReadingOptions::default()).unwrap()
    }

    fn samples(format: &dyn Format) -> Vec<Sample> {
        let (mut buffer, all) = (SampleBuffer::new(), FieldSet::all(format.schema().fields.len()));
        let one = |sample| {
            format.read(sample, &all, &mut buffer).unwrap();
            Sample::from_buffer(format.schema(), &buffer, Location::default).unwrap()
        };
        (0..format.len()).map(one).collect()
    }

    /// A folder below `root`, made if need be.
    fn folder(root: &Path, name: &str) -> PathBuf {
        let folder = root.join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn options() -> PackOptions {
        PackOptions { part_bytes: Some(500), workers: 1, ..PackOptions::default() }
    }

    #[test]
    fn merged_packs_are_read_one_after_the_other() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| folder(root.path(), name);
        let (a, b) = (images(&at("a"), 0..9), images(&at("b"), 20..33));
        pack(&*a, at("pa"), &options(), &()).unwrap();
        pack(&*b, at("pb"), &options(), &()).unwrap();
        merge_packs(&[at("pa"), at("pb")], &at("c"), &options(), &()).unwrap();
        let report = merge_packs(&[at("pa"), at("pb")], &at("c"), &options(), &()).unwrap();
        assert_eq!(report.samples, 22);
        assert!(verify(at("c"), 1, &()).unwrap().is_intact());
        let expected: Vec<Sample> = samples(&*a).into_iter().chain(samples(&*b)).collect();
        assert_eq!(samples(&*opened(&at("c"), "pack")), expected);
        // Merged packs can be merged, and the order of samples is that of the parts.
        merge_packs(&[at("c"), at("pa")], &at("d"), &options(), &()).unwrap();
        assert!(verify(at("d"), 1, &()).unwrap().is_intact());
        assert_eq!(opened(&at("d"), "pack").len(), 31);
        let message = merge_packs(&[at("c")], &at("c"), &options(), &()).unwrap_err().to_string();
        assert!(message.contains("one of the packs"), "{message}");
    }

    #[test]
    fn appending_adds_parts_and_keeps_the_old_ones() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| folder(root.path(), name);
        let (a, b) = (images(&at("a"), 0..9), images(&at("b"), 20..33));
        pack(&*a, at("p"), &options(), &()).unwrap();
        let times = |folder: &Path| {
            let entries = LocalSource::new(folder).list("").unwrap().entries.into_iter();
            entries.filter(|e| e.name.starts_with("part-")).map(|e| (e.name, e.version)).collect::<Vec<_>>()
        };
        let before = times(&at("p"));
        let missing = append_pack(&*b, &root.path().join("nothing"), &options(), &()).unwrap_err();
        assert!(missing.to_string().starts_with("append: there is no finished pack at "), "{missing}");
        assert!(!root.path().join("nothing").exists());
        append_pack(&*b, &at("p"), &options(), &()).unwrap();
        assert!(before.iter().all(|old| times(&at("p")).contains(old)));
        // The same call again adds nothing.
        assert_eq!(append_pack(&*b, &at("p"), &options(), &()).unwrap().samples, 22);
        assert!(verify(at("p"), 1, &()).unwrap().is_intact());
        let expected: Vec<Sample> = samples(&*a).into_iter().chain(samples(&*b)).collect();
        assert_eq!(samples(&*opened(&at("p"), "pack")), expected);
        let whole = at("whole");
        merge_packs(&[at("p")], &whole, &options(), &()).unwrap();
        assert_eq!(opened(&whole, "pack").fingerprint(), opened(&at("p"), "pack").fingerprint());
    }
}
