//! Not written by hand yet: what the compiler makes of the reference with NEON, which every 64-bit Arm has.

pub(super) use super::scalar::full;
