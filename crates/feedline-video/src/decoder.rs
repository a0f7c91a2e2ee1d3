//! Frames by number.

use std::cell::Cell;

use crate::bytes::Packets;
use crate::disposable::is_disposable;
use crate::engine::{self, Engine};
use crate::error::{Error, Result, malformed};
use crate::index::Index;
use crate::rgb::turned;

/// A decoded frame: rows of red, green and blue, turned as the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Three bytes for each pixel.
    pub rgb: Vec<u8>,
}

/// A decoder that is kept from file to file: opening one takes longer than many a clip.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The open decoder, and the description of the track that it was opened for.
    open: Option<(Box<dyn Engine>, Index)>,
    scratch: Vec<u8>,
    frame: Frame,
}

/// A place in the packets while frames are looked for.
struct Walk {
    /// The packet where decoding began.
    began: u32,
    /// The next packet to pass in.
    next: u32,
    /// Set when all packets were passed in that are there.
    ended: bool,
    /// A packet that is in the file but not in memory.
    unread: Option<u32>,
}

impl Decoder {
    /// A decoder without a file.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Decodes these frames of a file and passes each to `emit`, with its place in `frames`; in the order in which they are
    /// shown. A frame that is wanted several times is decoded once.
    pub fn frames(
        &mut self,
        file: &dyn Packets,
        index: &Index,
        frames: &[usize],
        emit: &mut dyn FnMut(usize, &Frame) -> Result<()>,
    ) -> Result<()> {
        if let Some(past) = frames.iter().find(|frame| **frame >= index.len()) {
            return Err(malformed(format!("frame {past} of a video with {}", index.len())));
        }
        let mut wanted: Vec<(u32, usize)> =
            frames.iter().enumerate().map(|(place, frame)| (index.shown[*frame], place)).collect();
        wanted.sort_unstable();
        let Decoder { open, scratch, frame } = self;
        let decoder = reopened(open, index)?;
        let result = decode(decoder, file, index, &wanted, Room { scratch, frame }, emit);
        if result.is_err() {
            // Whatever state it is in, the next file must not see it.
            self.open = None;
        }
        result
    }
}

/// The decoder that is open, if it fits the track; otherwise a new one.
fn reopened<'a>(open: &'a mut Option<(Box<dyn Engine>, Index)>, index: &Index) -> Result<&'a mut dyn Engine> {
    let same = |known: &Index| {
        (known.codec, known.width, known.height, &known.config)
            == (index.codec, index.width, index.height, &index.config)
    };
    if !open.as_ref().is_some_and(|(_, known)| same(known)) {
        *open = None;
        let described = Index { packets: Vec::new(), shown: Vec::new(), ..index.clone() };
        *open = Some((engine::open(index)?, described));
    }
    Ok(&mut *open.as_mut().expect("it was opened just now").0)
}

fn decode(
    decoder: &mut dyn Engine,
    file: &dyn Packets,
    index: &Index,
    wanted: &[(u32, usize)],
    mut room: Room<'_>,
    emit: &mut dyn FnMut(usize, &Frame) -> Result<()>,
) -> Result<()> {
    let begins_later = wanted.first().is_some_and(|(frame, _)| index.start_of(*frame) > 0);
    if begins_later && index.needs_first_packet() {
        show_first_packet(decoder, file, index)?;
    }
    // A caller that refuses a frame is not a damaged packet: decoding it once more would not help.
    let refused = Cell::new(false);
    let emit = &mut |place: usize, frame: &Frame| {
        let taken = emit(place, frame);
        refused.set(taken.is_err());
        taken
    };
    let mut search = Search { decoder, file, index, wanted, missing: vec![true; wanted.len()] };
    let mut walk: Option<Walk> = None;
    for (at, (frame, _)) in wanted.iter().enumerate() {
        let mut start = index.start_of(*frame);
        while search.missing[at] {
            if walk.as_ref().is_none_or(|walk| walk.ended || walk.began > start || walk.next < start) {
                search.decoder.flush()?;
                walk = Some(Walk { began: start, next: start, ended: false, unread: None });
            }
            let walk = walk.as_mut().expect("it was set just now");
            match search.go_on(walk, at, &mut room, emit) {
                // Not every key frame stands alone: frames after it may build on what came before it.
                Err(Error::Malformed(_)) if walk.began > 0 && !refused.get() => {
                    start =
                        if start == index.start_of(*frame) { index.key_before(walk.began - 1) } else { 0 };
                    walk.ended = true;
                }
                found => found?,
            }
        }
    }
    Ok(())
}

/// See [`Index::needs_first_packet`].
fn show_first_packet(decoder: &mut dyn Engine, file: &dyn Packets, index: &Index) -> Result<()> {
    let Some(bytes) = index.packets.first().and_then(|packet| file.packet(packet.offset, packet.size)) else {
        return Ok(());
    };
    decoder.flush()?;
    // If this packet is damaged, the frames that need it say so; others do not need it.
    if decoder.send(0, bytes).is_ok() {
        let _ = decoder.receive();
    }
    Ok(())
}

/// Memory for a frame.
struct Room<'a> {
    scratch: &'a mut Vec<u8>,
    frame: &'a mut Frame,
}

/// Frames that are looked for in one file.
struct Search<'a> {
    decoder: &'a mut dyn Engine,
    file: &'a dyn Packets,
    index: &'a Index,
    /// Packet and place in the request, by packet.
    wanted: &'a [(u32, usize)],
    missing: Vec<bool>,
}

impl Search<'_> {
    /// Decodes on until the `at`-th wanted frame was found.
    fn go_on(
        &mut self,
        walk: &mut Walk,
        at: usize,
        room: &mut Room<'_>,
        emit: &mut dyn FnMut(usize, &Frame) -> Result<()>,
    ) -> Result<()> {
        while self.missing[at] {
            let Some((number, picture)) = self.decoder.receive()? else {
                if walk.ended {
                    let lost = malformed(format!("packet {} gives no frame", self.wanted[at].0));
                    return Err(walk.unread.map_or(lost, |packet| Error::NotRead { packet }));
                }
                self.feed(walk)?;
                continue;
            };
            let first = self.wanted.partition_point(|(packet, _)| i64::from(*packet) < number);
            let same =
                self.wanted[first..].iter().take_while(|(packet, _)| i64::from(*packet) == number).count();
            // What is shown before the first key frame of the walk lacks what it builds on.
            let whole = number >= 0 && self.index.start_of(number as u32) >= walk.began;
            if same == 0 || !self.missing[first] || !whole {
                continue;
            }
            to_frame(&picture, self.index.rotation, room.scratch, room.frame)?;
            for place in first..first + same {
                self.missing[place] = false;
                emit(self.wanted[place].1, room.frame)?;
            }
        }
        Ok(())
    }

    /// Passes the next packet in. Behind the last one that is wanted or there, says that this is the end: the decoder then
    /// returns what it has kept back.
    fn feed(&mut self, walk: &mut Walk) -> Result<()> {
        let number = walk.next;
        let last = self.wanted.last().map_or(0, |(packet, _)| *packet);
        let packet = self.index.packets.get(number as usize).filter(|_| number <= last);
        let bytes = packet.and_then(|packet| self.file.packet(packet.offset, packet.size));
        let Some(bytes) = bytes else {
            walk.unread = packet.map(|_| number);
            walk.ended = true;
            self.decoder.finish();
            return Ok(());
        };
        if self.index.checks.get(number as usize).is_some_and(|check| *check != crc32c::crc32c(bytes)) {
            return Err(malformed(format!("packet {number} is damaged: its checksum differs")));
        }
        let is_wanted = self.wanted.binary_search_by_key(&number, |(packet, _)| *packet).is_ok();
        if is_wanted || !is_disposable(self.index.codec, &self.index.config, bytes) {
            self.decoder.send(i64::from(number), bytes)?;
        }
        walk.next += 1;
        Ok(())
    }
}

fn to_frame(
    picture: &crate::rgb::Picture<'_>,
    rotation: u16,
    scratch: &mut Vec<u8>,
    frame: &mut Frame,
) -> Result<()> {
    let bytes = 3 * picture.width * picture.height;
    fit(&mut frame.rgb, bytes)?;
    if rotation == 0 {
        picture.write_rgb(&mut frame.rgb);
        (frame.width, frame.height) = (picture.width, picture.height);
        return Ok(());
    }
    fit(scratch, bytes)?;
    picture.write_rgb(scratch);
    (frame.width, frame.height) = turned(scratch, picture.width, picture.height, rotation, &mut frame.rgb);
    Ok(())
}

fn fit(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    let more = bytes.saturating_sub(buffer.len());
    buffer.try_reserve(more).map_err(|_| Error::OutOfMemory { bytes: bytes as u64 })?;
    buffer.resize(bytes, 0);
    Ok(())
}
