//! Bytes of no known meaning.

use super::{Carrier, Meaning, Row, anything};

pub(super) const ROW: Row = Row {
    name: "bytes",
    code: 5,
    carrier: Carrier::Bytes,
    meaning: Meaning::Bytes,
    check: anything,
    tar: "bin",
    litdata: "bytes",
    mds: "bytes",
};
