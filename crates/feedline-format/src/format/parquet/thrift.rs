//! The part of Thrift's compact protocol that page headers and offset indexes use. Every length is checked against
//! the bytes left; unknown fields are skipped.

/// Maximum depth of nesting.
const MAX_DEPTH: usize = 16;

/// The bytes of one structure, and the current offset.
pub(super) struct Compact<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

/// Why reading stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed.
    Short,
    /// Not a header of this kind.
    Broken,
}

type Result<T> = std::result::Result<T, Stop>;

/// A field's number and wire type.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) id: i16,
    wire: u8,
}

pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

impl<'a> Compact<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Compact { bytes, at: 0 }
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or(Stop::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift.min(63);
            if byte & 128 == 0 {
                return Ok(value);
            }
        }
        Err(Stop::Broken)
    }

    fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The next field of a structure whose last one had number `last`; `None` at its end.
    pub(super) fn field(&mut self, last: i16) -> Result<Option<Field>> {
        let head = self.byte()?;
        let wire = head & 15;
        if wire == 0 {
            return Ok(None);
        }
        let id = match head >> 4 {
            0 => i16::try_from(self.signed()?).map_err(|_| Stop::Broken)?,
            step => last.checked_add(i16::from(step)).ok_or(Stop::Broken)?,
        };
        Ok(Some(Field { id, wire }))
    }

    /// The number in field `field`.
    pub(super) fn number(&mut self, field: Field) -> Result<i64> {
        if (4..=6).contains(&field.wire) { self.signed() } else { Err(Stop::Broken) }
    }

    /// The boolean in field `field`.
    pub(super) fn truth(field: Field) -> Result<bool> {
        match field.wire {
            TRUE => Ok(true),
            FALSE => Ok(false),
            _ => Err(Stop::Broken),
        }
    }

    /// Calls `visit` with each field of the structure in field `field` (or of the whole, without one). `visit` must
    /// [`skip`](Self::skip) what it does not read.
    pub(super) fn structure(
        &mut self,
        field: Option<Field>,
        mut visit: impl FnMut(&mut Self, Field) -> Result<()>,
    ) -> Result<()> {
        if field.is_some_and(|f| f.wire != STRUCT) {
            return Err(Stop::Broken);
        }
        let mut last = 0;
        while let Some(field) = self.field(last)? {
            visit(self, field)?;
            last = field.id;
        }
        Ok(())
    }

    /// Number of structures in the list in field `field`.
    pub(super) fn list(&mut self, field: Field) -> Result<usize> {
        if field.wire != LIST {
            return Err(Stop::Broken);
        }
        let (count, wire) = self.list_head()?;
        if wire == STRUCT { Ok(count) } else { Err(Stop::Broken) }
    }

    fn list_head(&mut self) -> Result<(usize, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        let count = usize::try_from(count).map_err(|_| Stop::Broken)?;
        // Every element takes at least a byte.
        if count > self.bytes.len() - self.at { Err(Stop::Short) } else { Ok((count, head & 15)) }
    }

    pub(super) fn skip(&mut self, field: Field) -> Result<()> {
        self.skip_value(field.wire, false, 0)
    }

    fn skip_value(&mut self, wire: u8, in_list: bool, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Stop::Broken);
        }
        match wire {
            // A field's boolean is its type; in a list it has a byte.
            TRUE | FALSE if !in_list => {}
            TRUE | FALSE | BYTE => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            DOUBLE => self.advance(8)?,
            BINARY => {
                let length = self.varint()?;
                self.advance(usize::try_from(length).map_err(|_| Stop::Broken)?)?;
            }
            LIST | SET => {
                let (count, wire) = self.list_head()?;
                for _ in 0..count {
                    self.skip_value(wire, true, depth + 1)?;
                }
            }
            MAP => {
                let count = self.varint()?;
                if count > 0 {
                    let types = self.byte()?;
                    for _ in 0..count {
                        self.skip_value(types >> 4, true, depth + 1)?;
                        self.skip_value(types & 15, true, depth + 1)?;
                    }
                }
            }
            STRUCT => {
                let mut last = 0;
                while let Some(field) = self.field(last)? {
                    self.skip_value(field.wire, false, depth + 1)?;
                    last = field.id;
                }
            }
            _ => return Err(Stop::Broken),
        }
        Ok(())
    }

    fn advance(&mut self, count: usize) -> Result<()> {
        if count > self.bytes.len() - self.at {
            return Err(Stop::Short);
        }
        self.at += count;
        Ok(())
    }
}
