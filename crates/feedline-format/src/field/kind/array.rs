//! Arrays of any number of dimensions.

use super::{Carrier, Meaning, Row, anything};

pub(super) const ROW: Row = Row {
    name: "array",
    code: 6,
    carrier: Carrier::Array,
    meaning: Meaning::Numbers,
    check: anything,
    tar: "npy",
    litdata: "numpy",
    mds: "ndarray",
};
