//! The command from the outside, as a shell runs it. One module per command; `kit` makes data and runs the binary.

mod bench;
mod cache;
mod convert;
mod demo;
mod doctor;
mod index;
mod inspect;
mod kit;
mod pack;
mod usage;
mod verify;
