//! H.264 with Cisco's OpenH264, built from its sources: calls of its C functions.
//!
//! It decodes 4:2:0 of 8 bits, frames only. It returns at most one frame for each call, in the order that it believes
//! is shown; frames are matched by the number that goes in with their packet, so that order does not matter.

use std::ffi::c_int;
use std::ptr;

use openh264_sys2 as open;
use openh264_sys2::source::APILoader;

use crate::engine::Engine;
use crate::error::{Error, Result, malformed};
use crate::index::Index;
use crate::rgb::{Layout, Picture};
use crate::sps::Sps;

/// A decoder and the frame that it returned last.
pub(crate) struct OpenH264 {
    decoder: *mut open::ISVCDecoder,
    calls: open::ISVCDecoderVtbl,
    /// The parameter sets, passed in ahead of the first packet.
    sets: Vec<u8>,
    sps: Sps,
    /// Bytes of the number ahead of each unit.
    length: usize,
    /// The packet with start codes.
    packet: Vec<u8>,
    ready: Option<Ready>,
    /// The packet whose end was not said yet.
    unfinished: Option<i64>,
    begun: bool,
    ended: bool,
}

/// Where a frame lies.
#[derive(Clone, Copy)]
struct Ready {
    number: i64,
    planes: [*mut u8; 3],
    width: usize,
    height: usize,
    strides: [usize; 2],
}

// SAFETY: a decoder may be used from any thread, by one at a time; `&mut` sees to that.
unsafe impl Send for OpenH264 {}

impl std::fmt::Debug for OpenH264 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenH264").finish_non_exhaustive()
    }
}

const START: [u8; 4] = [0, 0, 0, 1];

/// The parameter sets of a container, with start codes; the first of them; and the bytes of the numbers ahead of units.
fn parameter_sets(config: &[u8]) -> Result<(Vec<u8>, Sps, usize)> {
    let cut = || malformed("the description of the H.264 track ends early");
    let (Some(1), Some(length), Some(count)) = (config.first(), config.get(4), config.get(5)) else {
        return Err(malformed("the H.264 track has no description that is known here"));
    };
    let (mut sets, mut sps, mut at) = (Vec::new(), None, 6);
    let mut take = |count: u8, first: bool, at: &mut usize| {
        for _ in 0..count {
            let size = config.get(*at..*at + 2).ok_or_else(cut)?;
            let size = usize::from(u16::from_be_bytes([size[0], size[1]]));
            let unit = config.get(*at + 2..*at + 2 + size).ok_or_else(cut)?;
            if first && sps.is_none() {
                sps = Some(Sps::read(unit)?);
            }
            sets.extend_from_slice(&START);
            sets.extend_from_slice(unit);
            *at += 2 + size;
        }
        Ok(())
    };
    take(count & 31, true, &mut at)?;
    let count = *config.get(at).ok_or_else(cut)?;
    at += 1;
    take(count, false, &mut at)?;
    let sps = sps.ok_or_else(|| malformed("the H.264 track has no sequence parameter set"))?;
    Ok((sets, sps, usize::from(length & 3) + 1))
}

/// Puts start codes where the container has lengths.
fn with_start_codes(bytes: &[u8], length: usize, out: &mut Vec<u8>) -> Result<()> {
    let cut = || malformed("a unit does not fit into its packet");
    let room = bytes.len().saturating_mul(2);
    out.try_reserve(room).map_err(|_| Error::OutOfMemory { bytes: room as u64 })?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(length).ok_or_else(cut)?;
        let size = head.iter().fold(0usize, |size, byte| size << 8 | usize::from(*byte));
        let (unit, after) = after.split_at_checked(size).ok_or_else(cut)?;
        if !unit.is_empty() {
            out.extend_from_slice(&START);
            out.extend_from_slice(unit);
        }
        rest = after;
    }
    Ok(())
}

impl OpenH264 {
    /// A decoder for the track, single-threaded inside.
    pub(crate) fn open(index: &Index) -> Result<Self> {
        let (sets, sps, length) = parameter_sets(&index.config)?;
        sps.check()?;
        let stored = u64::from(index.width).saturating_mul(u64::from(index.height));
        if sps.width.saturating_mul(sps.height) > stored.saturating_add(64 * 64).saturating_mul(4) {
            return Err(malformed("frames are much larger than the container says"));
        }
        let mut decoder = ptr::null_mut();
        // SAFETY: a new decoder or an error; its table of functions lives as long as it does.
        let calls = unsafe {
            if APILoader::WelsCreateDecoder(&raw mut decoder) != 0 || decoder.is_null() {
                return Err(Error::OutOfMemory { bytes: 4096 });
            }
            **decoder
        };
        let packet = Vec::new();
        let mut made = OpenH264 {
            decoder,
            calls,
            sets,
            sps,
            length,
            packet,
            ready: None,
            unfinished: None,
            begun: false,
            ended: false,
        };
        made.initialize()?;
        Ok(made)
    }

    fn initialize(&mut self) -> Result<()> {
        // A damaged frame is an error, not a guess.
        let mut parameters =
            open::SDecodingParam { eEcActiveIdc: open::ERROR_CON_DISABLE, ..open::SDecodingParam::default() };
        parameters.sVideoProperty.eVideoBsType = open::VIDEO_BITSTREAM_AVC;
        let mut quiet = open::WELS_LOG_QUIET;
        let (Some(initialize), Some(set)) = (self.calls.Initialize, self.calls.SetOption) else {
            return Err(malformed("OpenH264 lacks a function"));
        };
        // SAFETY: the decoder is there; both arguments outlive the calls.
        let code = unsafe {
            set(self.decoder, open::DECODER_OPTION_TRACE_LEVEL, (&raw mut quiet).cast());
            initialize(self.decoder, &raw const parameters)
        };
        if code == 0 { Ok(()) } else { Err(Error::OutOfMemory { bytes: 4096 }) }
    }

    /// Passes `self.packet` in, or the end of packet `number`. A frame that this returns is put into `ready`.
    fn decode(&mut self, number: i64, end: bool) -> Result<()> {
        let Some(decode) = self.calls.DecodeFrame2 else {
            return Err(malformed("OpenH264 lacks a function"));
        };
        let (bytes, size) =
            if end { (ptr::null(), 0) } else { (self.packet.as_ptr(), self.packet.len() as c_int) };
        let mut planes = [ptr::null_mut(); 3];
        // SAFETY: all zeros are an empty description.
        let mut info: open::SBufferInfo = unsafe { std::mem::zeroed() };
        // 0 means "no time" to it.
        info.uiInBsTimeStamp = number.cast_unsigned() + 1;
        // SAFETY: the bytes outlive the call, which copies them; planes and description are written by it.
        let state = unsafe { decode(self.decoder, bytes, size, planes.as_mut_ptr(), &raw mut info) };
        if state & !open::dsFramePending != 0 {
            return Err(malformed(format!("frame {number} cannot be decoded (OpenH264 error {state})")));
        }
        self.keep(planes, &info);
        Ok(())
    }

    /// Remembers a frame that a call returned.
    fn keep(&mut self, planes: [*mut u8; 3], info: &open::SBufferInfo) {
        if info.iBufferStatus != 1 || planes.iter().any(|plane| plane.is_null()) {
            return;
        }
        // SAFETY: a returned frame is described by this member.
        let shape = unsafe { info.UsrData.sSystemBuffer };
        self.ready = Some(Ready {
            number: info.uiOutYuvTimeStamp.wrapping_sub(1).cast_signed(),
            planes,
            width: shape.iWidth.max(0) as usize,
            height: shape.iHeight.max(0) as usize,
            strides: shape.iStride.map(|stride| stride.max(0) as usize),
        });
    }

    /// Takes one of the frames that it still has.
    fn drain(&mut self) {
        let (Some(drain), Some(get)) = (self.calls.FlushFrame, self.calls.GetOption) else { return };
        let mut left: c_int = 0;
        let mut planes = [ptr::null_mut(); 3];
        // SAFETY: all zeros are an empty description; the results outlive the calls.
        unsafe {
            let option = open::DECODER_OPTION_NUM_OF_FRAMES_REMAINING_IN_BUFFER;
            get(self.decoder, option, (&raw mut left).cast());
            if left > 0 {
                let mut info: open::SBufferInfo = std::mem::zeroed();
                drain(self.decoder, planes.as_mut_ptr(), &raw mut info);
                self.keep(planes, &info);
            }
        }
    }

    fn picture(&self, ready: Ready) -> Result<Picture<'_>> {
        let Ready { width, height, strides, planes, .. } = ready;
        let layout = Layout::planar(1, 1, 8, false);
        let plane = |at: usize| {
            let (columns, rows) = layout.size_of(at, width, height);
            let stride = strides[usize::from(at > 0)];
            if columns == 0 || rows == 0 || stride < columns {
                return Err(malformed("a frame without pixels"));
            }
            // SAFETY: OpenH264's plane has `rows` rows, `stride` bytes apart, of `columns` bytes each; it lives until the
            // next call of the decoder, which takes `&mut self`.
            Ok((unsafe { std::slice::from_raw_parts(planes[at], stride * (rows - 1) + columns) }, stride))
        };
        let planes = [plane(0)?, plane(1)?, plane(2)?];
        Ok(Picture { width, height, layout, planes, matrix: i64::from(self.sps.matrix), full: self.sps.full })
    }
}

impl Engine for OpenH264 {
    /// Begins again from nothing: a frame that refers to one from elsewhere must not find any.
    fn flush(&mut self) -> Result<()> {
        (self.ready, self.unfinished, self.ended) = (None, None, false);
        if !std::mem::take(&mut self.begun) {
            return Ok(());
        }
        if let Some(end) = self.calls.Uninitialize {
            // SAFETY: the decoder is initialised.
            unsafe { end(self.decoder) };
        }
        self.initialize()
    }

    fn send(&mut self, number: i64, bytes: &[u8]) -> Result<()> {
        self.packet.clear();
        if !std::mem::replace(&mut self.begun, true) {
            self.packet.extend_from_slice(&self.sets);
        }
        let mut packet = std::mem::take(&mut self.packet);
        let converted = with_start_codes(bytes, self.length, &mut packet);
        self.packet = packet;
        converted?;
        c_int::try_from(self.packet.len()).map_err(|_| malformed("a frame of more than two gigabytes"))?;
        self.unfinished = Some(number);
        self.decode(number, false)
    }

    fn finish(&mut self) {
        self.ended = true;
    }

    fn receive(&mut self) -> Result<Option<(i64, Picture<'_>)>> {
        if self.ready.is_none()
            && let Some(number) = self.unfinished.take()
        {
            self.decode(number, true)?;
        }
        if self.ready.is_none() && self.ended {
            self.drain();
        }
        let Some(ready) = self.ready.take() else { return Ok(None) };
        self.picture(ready).map(|picture| Some((ready.number, picture)))
    }
}

impl Drop for OpenH264 {
    fn drop(&mut self) {
        // SAFETY: the decoder was created and is destroyed only here; it is initialised.
        unsafe {
            if let Some(end) = self.calls.Uninitialize {
                end(self.decoder);
            }
            APILoader::WelsDestroyDecoder(self.decoder);
        }
    }
}
