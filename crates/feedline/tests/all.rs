//! The engine from outside. One program: each would link the whole engine again. `layering.rs` sees to it
//! that no file is forgotten.

mod cached;
mod compat;
mod dataset;
mod examples;
mod faults;
mod kill;
mod layering;
mod pack;
mod pieces;
mod places;
mod public_names;
mod read_ahead;
mod remote;
mod resume;
mod support;
mod transforms;
