//! Images.

use super::{Carrier, Meaning, Row, anything};

/// Tar members are named after the type of the file, MDS columns after all images of a shard. These names are for an
/// image of which nothing is known.
pub(super) const ROW: Row = Row {
    name: "image",
    code: 0,
    carrier: Carrier::Image,
    meaning: Meaning::Bytes,
    check: anything,
    tar: "jpg",
    // litdata looks at the bytes, whatever the name is.
    litdata: "jpeg",
    mds: "bytes",
};
