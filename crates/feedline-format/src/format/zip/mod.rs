//! A zip file of images, read like a folder without unpacking it. Supports stored and deflated members, and zip64. A
//! folder that contains everything else is removed from the names, so that the folders in it are the classes.

mod archive;
mod members;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::folder::{Folder, is_image_name};
use super::sniff::has_ending;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::source::{Source, Target};

pub(super) use archive::{Member, Method};
pub(super) use members::Members;

/// How to detect and open a zip of images.
pub(super) const PROBE: Probe = Probe { name: "zip", recognises, open };

fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Objects(source, names) = target else { return Ok(None) };
    let [name] = names.as_slice() else { return Ok(None) };
    if has_ending(name, ".npz") {
        return Ok(None);
    }
    let object = source.open(name)?;
    let mut magic = [0; 4];
    if object.size() < 22 || object.read_at(0, &mut magic).is_err() {
        return Ok(None);
    }
    let zip = matches!(&magic, b"PK\x03\x04" | b"PK\x05\x06") || has_ending(name, ".zip");
    Ok(zip.then(|| "a zip file".to_owned()))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, name) = match target {
        Target::Objects(source, names) if names.len() == 1 => (source, &names[0]),
        _ => {
            let reason = "one zip file was expected; several are opened one by one and joined";
            return Err(Error::data(Location::new(target.uri()), reason));
        }
    };
    let members = Members::open(source, name, belongs)?;
    if let Some(reason) = members.all().iter().filter(|m| is_image_name(&m.name)).find_map(Member::refusal) {
        let place = Location::new(source.uri()).with_shard(name);
        return Err(Error::data(place, reason).with_hint("unpack it and open the folder"));
    }
    let top = shared_folder(members.all());
    Ok(Arc::new(Folder::in_archive(Arc::new(members.below(top)) as Arc<dyn Source>, options, "zip")?))
}

/// Whether the member is the user's: macOS adds files of its own to zips.
fn belongs(name: &str) -> bool {
    !name.starts_with("__MACOSX/") && !name.rsplit('/').next().is_some_and(|last| last.starts_with("._"))
}

/// Length of the folder that contains all images, as long as there are folders inside it.
fn shared_folder(members: &[Member]) -> usize {
    let names: Vec<&str> =
        members.iter().map(|m| m.name.as_str()).filter(|name| is_image_name(name)).collect();
    let mut top = 0;
    while let Some(first) = names.first().and_then(|name| name[top..].find('/')) {
        let next = top + first + 1;
        let shared = members.iter().all(|m| m.name.get(..next) == names[0].get(..next));
        if !shared || names.iter().all(|name| !name[next..].contains('/')) {
            break;
        }
        top = next;
    }
    top
}
