//! Derived Huffman tables, kept between images: most files of a dataset share the standard ones, and building a set
//! takes longer than decoding a small image's first row.

use super::frame::Frame;
use super::huffman::{AcTable, DcTable, ScanTables, Slot};
use super::parse::{HuffmanSpec, NotCovered, ParsedMarkers};

/// Number of tables kept of each kind. A file needs at most four; a data set rarely has more than two or three
/// encoders.
const KEPT: usize = 12;

/// Tables by the specification that they were built from.
#[derive(Default)]
pub(crate) struct TableCache {
    dc: Vec<(HuffmanSpec, Box<DcTable>)>,
    ac: Vec<(HuffmanSpec, Box<AcTable>)>,
}

impl TableCache {
    /// Makes sure that the tables of a header's scan are cached.
    pub(crate) fn prepare(&mut self, header: &ParsedMarkers) -> Result<(), NotCovered> {
        if self.dc.len() > KEPT {
            self.dc.clear();
        }
        if self.ac.len() > KEPT {
            self.ac.clear();
        }
        for component in &header.components[..header.count] {
            let spec = header.dc[usize::from(component.dc)].as_ref().ok_or(NotCovered)?;
            if !self.dc.iter().any(|(known, _)| known == spec) {
                self.dc.push((*spec, Box::new(DcTable::new(spec)?)));
            }
            let spec = header.ac[usize::from(component.ac)].as_ref().ok_or(NotCovered)?;
            if !self.ac.iter().any(|(known, _)| known == spec) {
                self.ac.push((*spec, Box::new(AcTable::new(spec)?)));
            }
        }
        Ok(())
    }

    /// The tables of each block of an MCU, once prepared.
    pub(crate) fn scan(&self, header: &ParsedMarkers, frame: &Frame) -> Option<ScanTables<'_>> {
        let mut slots = Vec::with_capacity(frame.blocks_per_mcu);
        for (i, (component, spec)) in frame.components.iter().zip(&header.components).enumerate() {
            let dc = header.dc[usize::from(spec.dc)].as_ref()?;
            let ac = header.ac[usize::from(spec.ac)].as_ref()?;
            let (_, dc) = self.dc.iter().find(|(known, _)| known == dc)?;
            let (_, ac) = self.ac.iter().find(|(known, _)| known == ac)?;
            slots.extend((0..component.h * component.v).map(|_| Slot { component: i, dc, ac }));
        }
        Some(ScanTables { slots })
    }
}
