//! The reference: the crate `crc32c`, which has the processor's own instruction and tables.

pub(super) fn append(before: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(before, bytes)
}
