//! CRC-16/MODBUS, eight bytes at a time, because every byte of a file goes through it.

const POLYNOMIAL: u16 = 0xA001;

const TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of `bytes`.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0xffffu16;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let first = [eight[0] ^ crc as u8, eight[1] ^ (crc >> 8) as u8];
        crc = TABLES[7][usize::from(first[0])] ^ TABLES[6][usize::from(first[1])];
        for (byte, table) in eight[2..].iter().zip(TABLES[..6].iter().rev()) {
            crc ^= table[usize::from(*byte)];
        }
    }
    for byte in eights.remainder() {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit_by_bit(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0xffff, |crc, byte| {
            (0..8).fold(
                crc ^ u16::from(*byte),
                |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 },
            )
        })
    }

    #[test]
    fn the_known_checksum_and_every_length_agree() {
        assert_eq!(crc16(b"123456789"), 0x4B37);
        let bytes: Vec<u8> = (0..100u32).map(|i| (i * i) as u8).collect();
        for length in 0..bytes.len() {
            assert_eq!(crc16(&bytes[..length]), bit_by_bit(&bytes[..length]));
        }
    }
}
