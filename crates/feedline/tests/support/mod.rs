//! Small files that tests make for themselves.

/// An image of `side` × `side` pixels, different for every `seed`.
pub(crate) fn bitmap(side: u32, seed: u64) -> Vec<u8> {
    let row = (side * 3).next_multiple_of(4);
    let mut bytes = Vec::new();
    bytes.extend(b"BM");
    bytes.extend((54 + row * side).to_le_bytes());
    bytes.extend([0; 4]);
    for number in [54, 40, side, side] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([1, 0, 24, 0]);
    bytes.extend([0; 24]);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..row * side {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.push((state >> 56) as u8);
    }
    bytes
}

/// A tar file of these members.
pub(crate) fn tar(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend(header);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}
