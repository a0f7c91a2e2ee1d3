//! What several targets do with their input.
#![allow(dead_code)]

pub mod containers;
pub mod images;
