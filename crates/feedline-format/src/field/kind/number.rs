//! Single numbers.

use super::{Carrier, Meaning, Row, anything};

pub(super) const INT: Row = Row {
    name: "int",
    code: 1,
    carrier: Carrier::Int,
    meaning: Meaning::Numbers,
    check: anything,
    tar: "cls",
    litdata: "int",
    mds: "int",
};

pub(super) const FLOAT: Row = Row {
    name: "float",
    code: 2,
    carrier: Carrier::Float,
    meaning: Meaning::Numbers,
    check: anything,
    // A number is valid JSON, and webdataset decodes it to a float.
    tar: "json",
    litdata: "float",
    mds: "float64",
};
