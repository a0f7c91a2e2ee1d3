//! Memory into which the bytes of a range are received, and in which they stay. Bytes that arrive another way (over
//! TLS) are copied there.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::net::TcpStream;

use crate::source::cells::{CELL, Cell};

/// Memory for a range: cells, which are handed on when they are full, and a buffer for the rest, of which pieces are split
/// off as they come.
#[derive(Debug, Default)]
pub(super) struct Room {
    cells: VecDeque<Cell>,
    /// Bytes in the first cell.
    filled: usize,
    rest: BytesMut,
}

impl Room {
    pub(super) fn new(cells: Vec<Cell>, rest: BytesMut) -> Self {
        Room { cells: cells.into(), filled: 0, rest }
    }

    /// So many bytes fit.
    fn free(&self) -> usize {
        self.cells.len() * CELL - self.filled + self.rest.capacity() - self.rest.len()
    }

    /// So many bytes were received and not handed on.
    pub(super) fn waiting(&self) -> usize {
        self.filled
    }

    /// Room for `length` bytes where there is none.
    pub(super) fn make_room(&mut self, length: usize) {
        if self.free() == 0 {
            self.rest.reserve(length);
        }
    }

    /// Receives what has come, at most `most` bytes; 0 at the end of the stream.
    pub(super) fn receive(&mut self, stream: &TcpStream, most: usize) -> io::Result<usize> {
        let Some(cell) = self.cells.front_mut() else {
            let most = most.min(self.rest.capacity() - self.rest.len());
            return stream.try_read_buf(&mut (&mut self.rest).limit(most));
        };
        let end = CELL.min(self.filled.saturating_add(most));
        let count = stream.try_read(&mut cell[self.filled..end])?;
        self.filled += count;
        Ok(count)
    }

    /// Copies as many of `bytes` as fit into the piece that is being filled.
    pub(super) fn add(&mut self, bytes: &[u8]) -> usize {
        let Some(cell) = self.cells.front_mut() else {
            let count = bytes.len().min(self.rest.capacity() - self.rest.len());
            self.rest.extend_from_slice(&bytes[..count]);
            return count;
        };
        let count = bytes.len().min(CELL - self.filled);
        cell[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        count
    }

    /// What can be handed on: a full cell, any bytes behind the cells; at the `end` also a cell that is not full.
    pub(super) fn ready(&mut self, end: bool) -> Option<Bytes> {
        if self.cells.is_empty() {
            return (!self.rest.is_empty()).then(|| self.rest.split().freeze());
        }
        if self.filled < CELL && (self.filled == 0 || !end) {
            return None;
        }
        let cell = self.cells.pop_front()?;
        Some(Bytes::from_owner(cell).split_to(std::mem::take(&mut self.filled)))
    }

    /// Bytes that were not handed on are as good as not received.
    fn undo(&mut self) {
        self.filled = 0;
    }

    /// Gives the buffer behind the cells back.
    pub(super) fn into_rest(self) -> BytesMut {
        self.rest
    }
}

/// A room that is lent to whoever receives.
#[derive(Clone, Debug)]
pub(super) struct Landing {
    room: Arc<Mutex<Option<Room>>>,
    /// Where in memory it is.
    places: Arc<[Range<usize>]>,
}

impl Landing {
    pub(super) fn new(room: Room) -> Self {
        let place = |bytes: *const u8, length| bytes.addr()..bytes.addr() + length;
        let cells = room.cells.iter().map(|cell| place(cell.as_ptr(), CELL));
        let places = cells.chain([place(room.rest.as_ptr(), room.rest.capacity())]).collect();
        Landing { places, room: Arc::new(Mutex::new(Some(room))) }
    }

    fn lend(&self, if_fit: impl FnOnce(&mut Room) -> bool) -> Option<Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).take_if(if_fit)
    }

    /// The room, if nobody has it, `length` bytes fit and none of another's wait in it.
    pub(super) fn take(&self, length: usize) -> Option<Room> {
        self.lend(|room| room.filled == 0 && room.free() >= length)
    }

    /// The room, with whatever is in it.
    pub(super) fn take_back(&self) -> Option<Room> {
        self.lend(|_| true)
    }

    /// What is left of it.
    pub(super) fn give_back(&self, mut room: Room) {
        room.undo();
        self.put(room);
    }

    fn put(&self, room: Room) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = Some(room);
    }

    /// Hands on the bytes of `piece`, and what waited before them, in this memory, or in memory of their own if there is no
    /// room; gives how many had to be copied. Some may wait until more come, or the `end`.
    pub(super) fn hold(&self, piece: Bytes, end: bool, mut sink: impl FnMut(Bytes)) -> usize {
        let length = piece.len();
        if length == 0 {
            return 0;
        }
        let at = piece.as_ptr().addr();
        if self.places.iter().any(|place| place.contains(&at)) {
            sink(piece);
            return 0;
        }
        let Some(mut room) = self.take_back() else {
            sink(Bytes::copy_from_slice(&piece));
            return length;
        };
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let added = room.add(rest);
            rest = &rest[added..];
            if added == 0 {
                sink(Bytes::copy_from_slice(std::mem::take(&mut rest)));
            } else if let Some(done) = room.ready(false) {
                sink(done);
            }
        }
        if let Some(done) = end.then(|| room.ready(true)).flatten() {
            sink(done);
        }
        self.put(room);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::cells::Cells;

    fn room(cells: usize, rest: usize) -> Room {
        Room::new(Cells::default().take(cells), BytesMut::with_capacity(rest))
    }

    /// Holds pieces of `bytes` of these lengths; gives all that was handed on, and how many bytes were copied.
    fn held(landing: &Landing, bytes: &[u8], lengths: &[usize]) -> (Vec<u8>, usize) {
        let (mut at, mut copied, mut all) = (0, 0, Vec::new());
        for length in lengths {
            let piece = Bytes::copy_from_slice(&bytes[at..at + length]);
            at += length;
            copied += landing.hold(piece, at == bytes.len(), |done| all.extend_from_slice(&done));
        }
        (all, copied)
    }

    #[test]
    fn received_pieces_stay_in_place_and_others_are_copied() {
        let landing = Landing::new(room(0, 100));
        let mut lent = landing.take(100).unwrap();
        assert!(landing.take(1).is_none(), "it is lent");
        lent.add(b"first");
        let first = lent.ready(false).unwrap();
        landing.give_back(lent);
        let mut passed = Vec::new();
        assert_eq!(landing.hold(first.clone(), false, |piece| passed.push(piece)), 0);
        assert_eq!(landing.hold(Bytes::from_static(b"second"), false, |piece| passed.push(piece)), 6);
        assert_eq!(landing.hold(Bytes::new(), false, |piece| passed.push(piece)), 0);
        assert_eq!(passed, [&b"first"[..], b"second"]);
        assert!(landing.take(90).is_none(), "so much does not fit any more");
    }

    #[test]
    fn cells_are_passed_on_when_full_and_at_the_end() {
        let bytes: Vec<u8> = (0..CELL * 2 + CELL / 2).map(|n| (n / 7) as u8).collect();
        // The last cell does not become full, a buffer behind the cells is used, and all of it is too small.
        for (cells, rest) in [(3, 0), (2, CELL / 2), (1, 100), (0, 0)] {
            let landing = Landing::new(room(cells, rest));
            let lengths = [1, CELL - 2, 3, CELL - 1, CELL / 2 - 1];
            let (found, copied) = held(&landing, &bytes, &lengths);
            assert!(found == bytes, "{cells} cells and {rest}");
            assert_eq!(copied, bytes.len());
        }
    }

    #[test]
    fn pieces_not_passed_on_are_received_again() {
        let landing = Landing::new(room(2, 0));
        let mut lent = landing.take(2 * CELL).unwrap();
        assert_eq!(lent.add(&[1; 1000]), 1000);
        assert!(lent.ready(false).is_none());
        landing.give_back(lent);
        let mut lent = landing.take(2 * CELL).expect("nothing is in it");
        assert_eq!(lent.add(&vec![2; CELL + 5]), CELL);
        assert!(lent.ready(false).unwrap().iter().all(|byte| *byte == 2));
        assert_eq!(lent.add(&[3; 5]), 5);
        assert_eq!(lent.ready(true).unwrap(), &[3; 5][..]);
    }

    #[test]
    fn nothing_is_received_behind_waiting_bytes() {
        let landing = Landing::new(room(2, 0));
        let nothing = |_: Bytes| panic!("the cell is not full");
        assert_eq!(landing.hold(Bytes::from_static(b"abc"), false, nothing), 3);
        assert!(landing.take(10).is_none());
        let mut found = Vec::new();
        landing.hold(Bytes::from_static(b"def"), true, |piece| found.extend_from_slice(&piece));
        assert_eq!(found, b"abcdef");
    }
}
