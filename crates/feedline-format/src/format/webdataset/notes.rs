//! Warnings about a shard: members that are in no sample, or in another sample than webdataset puts them in.

use super::index::LeftOut;
use crate::error::{Error, Location};

/// One note for each kind of problem.
pub(super) fn of(place: &Location, out: &LeftOut) -> Vec<Error> {
    let mut notes = Vec::new();
    let mut note = |reason: String, hint: &str| {
        notes.push(Error::data(place.clone(), reason).with_hint(hint));
    };
    if out.nameless > 0 {
        let reason = format!("{} members are in no sample: their names have no extension", out.nameless);
        note(format!("{reason} ('{}' is the first)", out.first_nameless), "name members key.extension");
    }
    if out.links > 0 {
        let reason = format!("{} hard links do not refer to an earlier member of a sample", out.links);
        note(
            format!("{reason} ('{}' is the first)", out.first_link),
            "pack files, not links (tar --hard-dereference)",
        );
    }
    if out.special > 0 {
        let reason = format!("{} symbolic links or devices are in no sample", out.special);
        note(reason, "pack their targets (tar --dereference)");
    }
    if out.joined > 0 {
        let reason = format!(
            "{} parts of samples came after other keys and were joined with the rest of their samples",
            out.joined
        );
        note(reason, "webdataset makes separate samples of them; sort members by name (tar --sort=name)");
    }
    if out.repeated > 0 {
        let reason = format!(
            "{} samples have the key and the suffixes of an earlier one; they were kept separate",
            out.repeated
        );
        note(reason, "give every sample its own key");
    }
    if out.appended > 0 {
        let reason =
            format!("{} more tars follow the end mark of the first; they were read too", out.appended);
        note(reason, "webdataset ends at the first; join tars with tar --concatenate");
    }
    if let Some(at) = out.trailing {
        let place = place.clone().with_offset(at);
        notes.push(Error::data(place, "what follows the end mark is not a tar and was skipped"));
    }
    notes
}
