//! Packs in remote stores: each part is written locally, uploaded, and removed; the manifest is uploaded last.
//!
//! An uploaded part counts as done when its index can be read back, so an interrupted upload can be resumed on any
//! machine.

use std::fs;
use std::path::Path;

use super::destination::{self, PLAN_NAME};
use super::manifest::{MANIFEST_NAME, part_name};
use super::plan::{PackOptions, PackPlan, PackReport, find_part, manifest_of, plan_pack, write_part_metered};
use super::reader::read_manifest;
use crate::error::{Error, Location, Result};
use crate::format::Format;
use crate::format::parts::{Meter, Progress, run_parts};
use crate::format::whole_file::{failed, write_file};
use crate::source::{Sink, Source, private};

/// Writes `source` as a pack at `sink`, by way of the local folder `staging`.
pub(crate) fn pack_and_send(
    source: &dyn Format,
    sink: &dyn Sink,
    staging: &Path,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<PackReport> {
    if options.overwrite {
        let reason = "a remote pack is not removed from here; remove it with the store's own tools";
        return Err(Error::option("overwrite", reason));
    }
    let plan = plan_pack(source, options)?;
    if sink.exists(MANIFEST_NAME)? {
        let manifest = read_manifest(sink)?;
        if options.resume && manifest.plan == plan.id {
            return Ok(PackReport::of(&manifest));
        }
        return Err(taken(sink, "holds a finished pack already"));
    }
    private::make_folder(staging).map_err(|e| failed("creating", staging, e))?;
    let _lock = destination::lock(staging)?;
    announce(&plan, sink, staging, options.resume)?;
    let meter = Meter::new(progress, plan.samples());
    run_parts(plan.parts(), options.workers, |part| {
        send_part(&plan, source, options, part, sink, staging, &meter)
    })?;
    let manifest = manifest_of(&plan, sink)?;
    send(sink, staging, MANIFEST_NAME, &manifest.to_bytes())?;
    sink.remove(PLAN_NAME)?;
    let _ = fs::remove_dir_all(staging);
    Ok(PackReport::of(&manifest))
}

/// Stores the plan there, unless it exists.
pub(super) fn announce(plan: &PackPlan, sink: &dyn Sink, staging: &Path, resume: bool) -> Result<()> {
    if sink.exists(PLAN_NAME)? {
        let mut text = Vec::new();
        sink.read_whole(PLAN_NAME, &mut text)?;
        let same = serde_json::from_slice::<PackPlan>(&text).is_ok_and(|there| there.id == plan.id);
        if same && resume {
            return Ok(());
        }
        if !same {
            return Err(taken(sink, "holds an unfinished pack of another source or with other options"));
        }
    }
    send(sink, staging, PLAN_NAME, &serde_json::to_vec(plan).expect("a plan is plain data"))
}

pub(super) fn send(sink: &dyn Sink, staging: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let file = staging.join(name);
    write_file(&file, bytes)?;
    sink.put(name, &file)?;
    fs::remove_file(&file).map_err(|e| failed("removing", &file, e))
}

pub(super) fn send_part(
    plan: &PackPlan,
    source: &dyn Format,
    options: &PackOptions,
    part: u64,
    sink: &dyn Sink,
    staging: &Path,
    meter: &Meter<'_>,
) -> Result<()> {
    let name = part_name(part);
    if options.resume
        && sink.exists(&name)?
        && let Ok((entry, _)) = find_part(plan, part, sink)
    {
        let samples = plan.starts[part as usize + 1] - plan.starts[part as usize];
        return meter.add(samples, entry.bytes);
    }
    write_part_metered(plan, source, options, part, staging, meter)?;
    let file = staging.join(&name);
    sink.put(&name, &file)?;
    fs::remove_file(&file).map_err(|e| failed("removing", &file, e))
}

fn taken(sink: &dyn Source, reason: &str) -> Error {
    Error::data(Location::new(sink.uri()), format!("the place {reason}"))
        .with_hint("choose another destination")
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use super::*;
    use crate::format::{ReadingOptions, pack};
    use crate::source::{FolderSink, LocalSource, Target};

    struct StopAfter(u64);

    impl Progress for StopAfter {
        fn update(&self, samples: u64, _: u64, _: u64) -> ControlFlow<()> {
            if samples > self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    fn images(root: &Path, count: usize) -> Arc<dyn Format> {
        for n in 0..count {
            fs::write(root.join(format!("{n:03}.jpg")), [n as u8; 100]).unwrap();
        }
        let target = Target::Folder(Arc::new(LocalSource::new(root)));
        crate::format::open(&target, "folder", &ReadingOptions::default()).unwrap()
    }

    fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let mut entries = LocalSource::new(folder).list("").unwrap().entries;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.into_iter().map(|e| (e.name.clone(), fs::read(folder.join(&e.name)).unwrap())).collect()
    }

    #[test]
    fn an_uploaded_pack_equals_a_local_one() {
        let (data, local, remote, here) = (
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let source = images(data.path(), 30);
        let options = PackOptions { part_bytes: Some(500), workers: 1, ..PackOptions::default() };
        pack(&*source, local.path(), &options, &()).unwrap();
        let staging = here.path().join("staging");
        let sink = FolderSink::new(remote.path());
        for stop in [4, 11, 28] {
            pack_and_send(&*source, &sink, &staging, &options, &StopAfter(stop)).unwrap_err();
            assert!(!sink.exists(MANIFEST_NAME).unwrap());
        }
        // A part that was truncated in transfer is uploaded again.
        let first = remote.path().join(part_name(0));
        let whole = fs::read(&first).unwrap();
        fs::write(&first, &whole[..whole.len() / 2]).unwrap();
        pack_and_send(&*source, &sink, &staging, &options, &()).unwrap();
        assert_eq!(files(remote.path()), files(local.path()));
        assert!(!staging.exists());
        // The same call again has nothing to do; other data are refused.
        pack_and_send(&*source, &sink, &staging, &options, &StopAfter(0)).unwrap();
        let more = images(data.path(), 31);
        let message = pack_and_send(&*more, &sink, &staging, &options, &()).unwrap_err().to_string();
        assert!(message.contains("finished pack"), "{message}");
    }
}
