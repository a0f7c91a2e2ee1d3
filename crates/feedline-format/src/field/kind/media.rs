//! Files of audio and video.

use super::{Carrier, Meaning, Row, anything};

pub(super) const AUDIO: Row = Row {
    name: "audio",
    code: 7,
    carrier: Carrier::Bytes,
    meaning: Meaning::Bytes,
    check: anything,
    tar: "audio",
    litdata: "bytes",
    mds: "bytes",
};

pub(super) const VIDEO: Row = Row {
    name: "video",
    code: 8,
    carrier: Carrier::Bytes,
    meaning: Meaning::Bytes,
    check: anything,
    tar: "video",
    litdata: "bytes",
    mds: "bytes",
};
