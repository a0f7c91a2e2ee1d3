//! Which bits of which coefficients the scans have given, by libjpeg's rules.

use super::super::huffman::Irregular;
use super::super::parse::Scan;

/// Number of low bits that are still missing, of every coefficient of every component; `None`: all are.
pub(super) struct Progression {
    missing: Vec<[Option<u8>; 64]>,
    scans: usize,
}

/// More scans are an attack, each being a pass over all blocks. The fallback has the same limit.
const MAX_SCANS: usize = 1000;

impl Progression {
    pub(super) fn new(components: usize) -> Self {
        Progression { missing: vec![[None; 64]; components], scans: 0 }
    }

    /// Adds a scan. Scans that libjpeg refuses or only accepts with a warning are irregular.
    pub(super) fn add(&mut self, scan: &Scan) -> Result<(), Irregular> {
        let (start, end) = (usize::from(scan.band.0), usize::from(scan.band.1));
        let band_ok = match start {
            0 => end == 0,
            _ => start <= end && end < 64 && scan.components.len() == 1,
        };
        let bits_ok = scan.low <= 13 && (scan.high == 0 || scan.low + 1 == scan.high);
        self.scans += 1;
        if !band_ok || !bits_ok || self.scans > MAX_SCANS {
            return Err(Irregular);
        }
        let before = if scan.high == 0 { None } else { Some(scan.high) };
        for used in &scan.components {
            let missing = &mut self.missing[used.component];
            if start > 0 && missing[0].is_none() {
                return Err(Irregular);
            }
            for known in &mut missing[start..=end] {
                if *known != before {
                    return Err(Irregular);
                }
                *known = Some(scan.low);
            }
        }
        Ok(())
    }

    /// Whether no bit is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.iter().flatten().all(|&missing| missing == Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jpeg::parse::ScanComponent;

    fn scan(components: &[usize], band: (u8, u8), high: u8, low: u8) -> Scan {
        let components = components.iter().map(|&component| ScanComponent { component, dc: 0, ac: 0 });
        Scan { components: components.collect(), band, high, low, data_start: 0 }
    }

    #[test]
    fn every_bit_comes_once_and_in_order() {
        let mut whole = Progression::new(2);
        for next in [
            scan(&[0, 1], (0, 0), 0, 1),
            scan(&[1], (1, 63), 0, 0),
            scan(&[0], (6, 63), 0, 0),
            scan(&[0], (1, 5), 0, 2),
            scan(&[0], (1, 5), 2, 1),
            scan(&[0, 1], (0, 0), 1, 0),
        ] {
            whole.add(&next).unwrap();
            assert!(!whole.is_complete());
        }
        assert!(whole.add(&scan(&[0], (1, 6), 1, 0)).is_err(), "6 is complete");
        let mut whole = Progression::new(1);
        whole.add(&scan(&[0], (0, 0), 0, 0)).unwrap();
        whole.add(&scan(&[0], (1, 63), 0, 0)).unwrap();
        assert!(whole.is_complete());
    }

    #[test]
    fn refuses_what_libjpeg_refuses() {
        let bad = [
            scan(&[0], (1, 63), 0, 0),
            scan(&[0], (0, 5), 0, 0),
            scan(&[0], (0, 0), 0, 14),
            scan(&[0], (0, 0), 3, 1),
            scan(&[0], (0, 0), 1, 0),
        ];
        for scan in bad {
            assert!(Progression::new(2).add(&scan).is_err(), "{scan:?}");
        }
        let mut both = Progression::new(2);
        both.add(&scan(&[0, 1], (0, 0), 0, 0)).unwrap();
        assert!(both.add(&scan(&[0, 1], (1, 5), 0, 0)).is_err());
        assert!(both.add(&scan(&[0], (5, 1), 0, 0)).is_err());
        assert!(both.add(&scan(&[0], (5, 64), 0, 0)).is_err());
    }
}
