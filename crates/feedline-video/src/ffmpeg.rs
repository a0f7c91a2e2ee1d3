//! FFmpeg's decoders, found at run time: versions 4 to 8 of its libraries, none of them needed to build or to load this
//! crate.
//!
//! Only functions are called, and only those first members of structures are read or written that have been at the same
//! place since version 4: of `AVCodecParameters` up to the extra data, of `AVPacket` up to the size, of `AVFrame` up to the
//! time stamp. Everything else goes through `av_opt_…`, by name.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::engine::Engine;
use crate::error::{Error, Result, malformed};
use crate::index::{Codec, Index};
use crate::rgb::{Layout, Picture, Planes};

/// Major versions of libavcodec and of the libavutil that belongs to it: FFmpeg 8, 7, 6, 5, 4.
const VERSIONS: [(u32, u32, u32); 5] = [(8, 62, 60), (7, 61, 59), (6, 60, 58), (5, 59, 57), (4, 58, 56)];

/// The beginning of a decoder's context.
#[repr(C)]
struct ContextHead {
    class: *const c_void,
    log_level_offset: c_int,
}

/// Added to the level of every message, so that none is important enough to be written. Only eight bits of the sum count,
/// and levels go up to 56.
const QUIET: c_int = 150;

const EAGAIN: c_int = if cfg!(target_os = "macos") { -35 } else { -11 };
const END: c_int = -0x2046_4f45; // "EOF " as FFmpeg spells it
/// Bytes that decoders may read past the end of extra data.
const PADDING: usize = 64;

#[repr(C)]
struct Parameters {
    codec_type: c_int,
    codec_id: c_int,
    codec_tag: u32,
    extradata: *mut u8,
    extradata_size: c_int,
}

#[repr(C)]
struct AvPacket {
    buf: *mut c_void,
    pts: i64,
    dts: i64,
    data: *mut u8,
    size: c_int,
    stream_index: c_int,
    flags: c_int,
}

#[repr(C)]
struct AvFrame {
    data: [*mut u8; 8],
    linesize: [c_int; 8],
    extended_data: *mut *mut u8,
    width: c_int,
    height: c_int,
    nb_samples: c_int,
    format: c_int,
    /// Key frame and kind in versions 4 to 7, kind alone in 8; then the aspect ratio.
    unread: [c_int; 4],
    pts: i64,
}

/// Declares the functions that are looked up.
macro_rules! functions {
    ($($library:ident: $name:ident($($type:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions {
            version: u32,
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
            /// Kept open for as long as the process runs.
            #[expect(dead_code, reason = "closing them would take the functions away")]
            libraries: (Library, Library),
        }

        impl Functions {
            fn look_up(version: u32, avcodec: Library, avutil: Library) -> Option<Functions> {
                // SAFETY: the names and types are those of FFmpeg's public headers, the same in versions 4 to 8.
                unsafe {
                    $(let $name = *functions!(@library $library avcodec avutil)
                        .get::<unsafe extern "C" fn($($type),*) $(-> $result)?>(concat!(stringify!($name), "\0").as_bytes())
                        .ok()?;)*
                    Some(Functions { version, $($name,)* libraries: (avcodec, avutil) })
                }
            }
        }
    };
    (@library codec $avcodec:ident $avutil:ident) => { $avcodec };
    (@library util $avcodec:ident $avutil:ident) => { $avutil };
}

functions! {
    codec: avcodec_find_decoder_by_name(*const c_char) -> *const c_void;
    codec: avcodec_alloc_context3(*const c_void) -> *mut c_void;
    codec: avcodec_free_context(*mut *mut c_void);
    codec: avcodec_open2(*mut c_void, *const c_void, *mut *mut c_void) -> c_int;
    codec: avcodec_parameters_alloc() -> *mut Parameters;
    codec: avcodec_parameters_free(*mut *mut Parameters);
    codec: avcodec_parameters_from_context(*mut Parameters, *const c_void) -> c_int;
    codec: avcodec_parameters_to_context(*mut c_void, *const Parameters) -> c_int;
    codec: avcodec_send_packet(*mut c_void, *const AvPacket) -> c_int;
    codec: avcodec_receive_frame(*mut c_void, *mut AvFrame) -> c_int;
    codec: avcodec_flush_buffers(*mut c_void);
    codec: av_packet_alloc() -> *mut AvPacket;
    codec: av_packet_free(*mut *mut AvPacket);
    codec: av_packet_unref(*mut AvPacket);
    codec: av_new_packet(*mut AvPacket, c_int) -> c_int;
    util: av_frame_alloc() -> *mut AvFrame;
    util: av_frame_free(*mut *mut AvFrame);
    util: av_mallocz(usize) -> *mut c_void;
    util: av_get_pix_fmt_name(c_int) -> *const c_char;
    util: av_opt_set(*mut c_void, *const c_char, *const c_char, c_int) -> c_int;
    util: av_opt_get_int(*mut c_void, *const c_char, c_int, *mut i64) -> c_int;
}

/// The newest version that is there.
fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    FOUND
        .get_or_init(|| VERSIONS.iter().find_map(|(version, codec, util)| load(*version, *codec, *util)))
        .as_ref()
}

fn load(version: u32, codec: u32, util: u32) -> Option<Functions> {
    let name = |library: &str, number: u32| {
        if cfg!(target_os = "macos") {
            format!("lib{library}.{number}.dylib")
        } else if cfg!(windows) {
            format!("{library}-{number}.dll")
        } else {
            format!("lib{library}.so.{number}")
        }
    };
    // SAFETY: FFmpeg's libraries run nothing when they are loaded.
    let (avcodec, avutil) =
        unsafe { (Library::new(name("avcodec", codec)).ok()?, Library::new(name("avutil", util)).ok()?) };
    Functions::look_up(version, avcodec, avutil)
}

/// Which FFmpeg was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FfmpegVersion(pub u32);

/// The FFmpeg that decodes, if one is there.
pub fn ffmpeg_version() -> Option<FfmpegVersion> {
    functions().map(|found| FfmpegVersion(found.version))
}

/// One open decoder with its packet and frame.
pub(crate) struct Ffmpeg {
    call: &'static Functions,
    context: *mut c_void,
    packet: *mut AvPacket,
    frame: *mut AvFrame,
}

// SAFETY: a context may be used from any thread, by one at a time; `&mut` sees to that.
unsafe impl Send for Ffmpeg {}

impl std::fmt::Debug for Ffmpeg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ffmpeg").finish_non_exhaustive()
    }
}

fn names(codec: Codec) -> &'static [&'static CStr] {
    match codec {
        Codec::H264 => &[c"h264"],
        Codec::Hevc => &[c"hevc"],
        Codec::Vp8 => &[c"vp8"],
        Codec::Vp9 => &[c"vp9"],
        Codec::Av1 => &[c"libdav1d", c"av1", c"libaom-av1"],
        Codec::Mpeg4 => &[c"mpeg4"],
    }
}

/// The functions, and FFmpeg's decoder for a codec.
fn find(codec: Codec) -> Option<(&'static Functions, *const c_void)> {
    let call = functions()?;
    // SAFETY: the names end with a zero; a null result is checked.
    let decoders =
        names(codec).iter().map(|name| unsafe { (call.avcodec_find_decoder_by_name)(name.as_ptr()) });
    let mut decoders = decoders.filter(|decoder| !decoder.is_null());
    decoders.next().map(|decoder| (call, decoder))
}

impl Ffmpeg {
    /// Whether there is a decoder for a codec.
    pub(crate) fn has(codec: Codec) -> bool {
        find(codec).is_some()
    }

    /// A decoder for the track, single-threaded inside.
    pub(crate) fn open(index: &Index) -> Result<Self> {
        let codec = index.codec;
        let (call, decoder) = find(codec)
            .ok_or_else(|| Error::NoDecoder(format!("FFmpeg has no decoder for {}", codec.name())))?;
        // SAFETY: each result is checked before it is used; `Drop` frees what is there.
        let mut made = unsafe {
            Ffmpeg {
                call,
                context: (call.avcodec_alloc_context3)(decoder),
                packet: (call.av_packet_alloc)(),
                frame: (call.av_frame_alloc)(),
            }
        };
        if made.context.is_null() || made.packet.is_null() || made.frame.is_null() {
            return Err(Error::OutOfMemory { bytes: 4096 });
        }
        made.be_quiet();
        made.configure(&index.config)?;
        // SAFETY: the context is that of this decoder and is not open yet.
        let opened = unsafe { (call.avcodec_open2)(made.context, decoder, std::ptr::null_mut()) };
        if opened < 0 {
            return Err(malformed(format!(
                "FFmpeg's decoder for {} does not open (error {opened})",
                codec.name()
            )));
        }
        Ok(made)
    }

    /// Keeps the decoder from writing about damaged frames to the terminal: they are errors that name the file.
    fn be_quiet(&mut self) {
        // SAFETY: this is how contexts begin, publicly, from FFmpeg 4 to 8; the context is ours alone.
        unsafe { (*self.context.cast::<ContextHead>()).log_level_offset = QUIET };
    }

    /// Gives the decoder what the container says of the track.
    fn configure(&mut self, config: &[u8]) -> Result<()> {
        let call = self.call;
        // SAFETY: the parameters are FFmpeg's own, freed below; extra data are allocated by FFmpeg with their padding and
        // belong to the parameters; the context copies them.
        let set = unsafe {
            let mut parameters = (call.avcodec_parameters_alloc)();
            if parameters.is_null() {
                return Err(Error::OutOfMemory { bytes: 4096 });
            }
            (call.avcodec_parameters_from_context)(parameters, self.context);
            if !config.is_empty() {
                let room = (call.av_mallocz)(config.len() + PADDING).cast::<u8>();
                if !room.is_null() {
                    std::ptr::copy_nonoverlapping(config.as_ptr(), room, config.len());
                    (*parameters).extradata = room;
                    (*parameters).extradata_size = config.len() as c_int;
                }
            }
            let set = (call.avcodec_parameters_to_context)(self.context, parameters);
            (call.avcodec_parameters_free)(&raw mut parameters);
            set
        };
        self.set("threads", "1");
        // A damaged frame is an error, not a guess.
        self.set("err_detect", "explode");
        if set < 0 {
            Err(malformed(format!("FFmpeg refuses the track's description (error {set})")))
        } else {
            Ok(())
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let (name, value) = (CString::new(name), CString::new(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            // SAFETY: the context has options; both texts end with a zero and outlive the call.
            unsafe { (self.call.av_opt_set)(self.context, name.as_ptr(), value.as_ptr(), 0) };
        }
    }

    fn get(&self, name: &CStr) -> i64 {
        let mut value = 0;
        // SAFETY: the context has options; the result goes into a number that outlives the call.
        unsafe { (self.call.av_opt_get_int)(self.context, name.as_ptr(), 0, &raw mut value) };
        value
    }

    /// The planes of the frame that was received.
    fn picture(&self) -> Result<Picture<'_>> {
        // SAFETY: the frame is filled; the name is a constant of FFmpeg's.
        let (frame, name) = unsafe {
            let frame = &*self.frame;
            let name = (self.call.av_get_pix_fmt_name)(frame.format);
            (frame, if name.is_null() { c"?" } else { CStr::from_ptr(name) })
        };
        let name = name.to_string_lossy();
        let layout = Layout::named(&name)
            .ok_or_else(|| Error::Unsupported(format!("frames in the layout '{name}' are not converted")))?;
        let (width, height) = (frame.width as usize, frame.height as usize);
        let plane = |at: usize| {
            let (columns, rows) = layout.size_of(at, width, height);
            let stride = frame.linesize[at];
            if columns == 0 {
                return Ok((&[][..], 0));
            }
            if stride < columns as c_int || frame.data[at].is_null() {
                return Err(malformed("a frame whose rows are stored upside down"));
            }
            let stride = stride as usize;
            // SAFETY: FFmpeg's plane has `rows` rows, `stride` bytes apart, of `columns` bytes each; it lives until the
            // next call that takes `&mut self`.
            let bytes = unsafe { std::slice::from_raw_parts(frame.data[at], stride * (rows - 1) + columns) };
            Ok((bytes, stride))
        };
        let planes: Planes<'_> = [plane(0)?, plane(1)?, plane(2)?];
        let full = layout.full || self.get(c"color_range") == 2;
        Ok(Picture { width, height, layout, planes, matrix: self.get(c"colorspace"), full })
    }
}

impl Engine for Ffmpeg {
    fn flush(&mut self) -> Result<()> {
        // SAFETY: the context is open.
        unsafe { (self.call.avcodec_flush_buffers)(self.context) };
        Ok(())
    }

    fn send(&mut self, number: i64, bytes: &[u8]) -> Result<()> {
        let call = self.call;
        let size =
            c_int::try_from(bytes.len()).map_err(|_| malformed("a frame of more than two gigabytes"))?;
        // SAFETY: `av_new_packet` gives the packet `size` bytes of its own, padded; it is unreferenced after the call.
        let sent = unsafe {
            if (call.av_new_packet)(self.packet, size) < 0 {
                return Err(Error::OutOfMemory { bytes: bytes.len() as u64 });
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (*self.packet).data, bytes.len());
            ((*self.packet).pts, (*self.packet).dts) = (number, i64::MIN);
            let sent = (call.avcodec_send_packet)(self.context, self.packet);
            (call.av_packet_unref)(self.packet);
            sent
        };
        if sent < 0 {
            Err(malformed(format!("frame {number} cannot be decoded (FFmpeg error {sent})")))
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) {
        // SAFETY: the context is open; a null packet means the end.
        unsafe { (self.call.avcodec_send_packet)(self.context, std::ptr::null()) };
    }

    fn receive(&mut self) -> Result<Option<(i64, Picture<'_>)>> {
        // SAFETY: the context is open and the frame allocated; FFmpeg unreferences what the frame had.
        let received = unsafe { (self.call.avcodec_receive_frame)(self.context, self.frame) };
        match received {
            EAGAIN | END => Ok(None),
            wrong if wrong < 0 => Err(malformed(format!("a frame cannot be decoded (FFmpeg error {wrong})"))),
            _ => {
                // SAFETY: the frame was filled just now.
                let number = unsafe { (*self.frame).pts };
                Ok(Some((number, self.picture()?)))
            }
        }
    }
}

impl Drop for Ffmpeg {
    fn drop(&mut self) {
        // SAFETY: each was allocated by its own function, or is null, which these accept.
        unsafe {
            (self.call.av_frame_free)(&raw mut self.frame);
            (self.call.av_packet_free)(&raw mut self.packet);
            (self.call.avcodec_free_context)(&raw mut self.context);
        }
    }
}
