//! AV1, with dav1d, which Pillow uses too: calls of its C functions. Each image is one frame, decoded on this thread.

use std::ffi::{c_int, c_void};
use std::ptr;

use libdav1d_sys as dav1d;

use super::CODEC;
use crate::{Error, Result, Size};

/// How chroma is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chroma {
    None,
    /// Half as many, across and down.
    Quarter,
    /// Half as many across.
    Half,
    Full,
}

/// The colours that the stream declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colours {
    /// The matrix, as numbered in CICP.
    pub(super) matrix: u32,
    pub(super) full_range: bool,
}

/// A decoded frame, whose planes are dav1d's memory.
pub(super) struct Frame(dav1d::Dav1dPicture);

impl Frame {
    /// Decodes the first frame. Frames of more pixels than `limit` has are refused before memory is allocated.
    pub(super) fn decode(bytes: &[u8], at: usize, limit: Size) -> Result<Frame> {
        let decoder = Decoder::new(limit)?;
        let mut data = Data::new(bytes)?;
        let mut frame = Frame(empty());
        loop {
            let again = dav1d::DAV1D_ERR_AGAIN;
            let sent = match data.0.sz {
                0 => again,
                // SAFETY: the context is open, and the data are those that `Data` holds.
                _ => unsafe { dav1d::dav1d_send_data(decoder.0, &raw mut data.0) },
            };
            if sent < 0 && sent != again {
                return Err(failed(sent, at));
            }
            // SAFETY: the context is open; the frame is empty, as every one but a returned one is.
            let got = unsafe { dav1d::dav1d_get_picture(decoder.0, &raw mut frame.0) };
            match got {
                0 => return Ok(frame),
                code if code == again && data.0.sz > 0 => {}
                code if code == again => {
                    return Err(CODEC.truncated("the image data end before the image does"));
                }
                code => return Err(failed(code, at)),
            }
        }
    }

    pub(super) fn size(&self) -> Size {
        Size::new(self.0.p.w.max(0) as u32, self.0.p.h.max(0) as u32)
    }

    pub(super) fn bits(&self) -> u32 {
        self.0.p.bpc as u32
    }

    pub(super) fn chroma(&self) -> Chroma {
        use dav1d::Dav1dPixelLayout as Layout;
        match self.0.p.layout {
            Layout::DAV1D_PIXEL_LAYOUT_I400 => Chroma::None,
            Layout::DAV1D_PIXEL_LAYOUT_I420 => Chroma::Quarter,
            Layout::DAV1D_PIXEL_LAYOUT_I422 => Chroma::Half,
            _ => Chroma::Full,
        }
    }

    pub(super) fn colours(&self) -> Colours {
        // SAFETY: a returned frame has its sequence header until it is released. The matrix may be any number, also
        // one for which the Rust enum has no name, so it is read as a number.
        unsafe {
            let header = self.0.seq_hdr;
            let matrix = (&raw const (*header).mtrx).cast::<u32>().read();
            Colours { matrix, full_range: (*header).color_range != 0 }
        }
    }

    /// Bytes of row `y` of a plane, `width` samples of one byte or two.
    pub(super) fn row(&self, plane: usize, y: usize, width: usize) -> &[u8] {
        let size = self.plane_size(plane);
        assert!(y < size.height as usize && width <= size.width as usize, "inside the plane");
        let stride = self.0.stride[usize::from(plane > 0)];
        let length = width * if self.bits() > 8 { 2 } else { 1 };
        // SAFETY: planes have as many rows and columns as `plane_size` says, `stride` bytes apart; the assertion keeps
        // the row inside. The memory is initialised and lives as long as the frame.
        unsafe {
            let start = self.0.data[plane].cast::<u8>().offset(stride * y as isize);
            std::slice::from_raw_parts(start, length)
        }
    }

    /// Width and height of a plane; the chroma planes of a grey image are empty.
    pub(super) fn plane_size(&self, plane: usize) -> Size {
        let Size { width, height } = self.size();
        match (plane, self.chroma()) {
            (0, _) | (_, Chroma::Full) => Size::new(width, height),
            (_, Chroma::Quarter) => Size::new(width.div_ceil(2), height.div_ceil(2)),
            (_, Chroma::Half) => Size::new(width.div_ceil(2), height),
            (_, Chroma::None) => Size::new(0, 0),
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the frame is empty or dav1d's; releasing an empty one does nothing.
        unsafe { dav1d::dav1d_picture_unref(&raw mut self.0) }
    }
}

fn empty() -> dav1d::Dav1dPicture {
    // SAFETY: dav1d's own empty frame is all zeros: null pointers, and enums whose first value is zero.
    unsafe { std::mem::zeroed() }
}

struct Decoder(*mut dav1d::Dav1dContext);

impl Decoder {
    fn new(limit: Size) -> Result<Self> {
        let mut settings = std::mem::MaybeUninit::<dav1d::Dav1dSettings>::uninit();
        let mut context = ptr::null_mut();
        // SAFETY: the first call fills all settings; the second reads them and returns a context or an error.
        let code = unsafe {
            dav1d::dav1d_default_settings(settings.as_mut_ptr());
            let settings = settings.assume_init_mut();
            (settings.n_threads, settings.max_frame_delay, settings.all_layers) = (1, 1, 0);
            settings.frame_size_limit = u32::try_from(limit.area()).unwrap_or(u32::MAX);
            // Its messages would go to the terminal.
            settings.logger.callback = None;
            dav1d::dav1d_open(&raw mut context, settings)
        };
        if code < 0 || context.is_null() {
            return Err(failed(code, 0));
        }
        Ok(Decoder(context))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the context is open and closed only here.
        unsafe { dav1d::dav1d_close(&raw mut self.0) }
    }
}

/// Bytes that dav1d reads where they are.
struct Data<'a>(dav1d::Dav1dData, std::marker::PhantomData<&'a [u8]>);

impl<'a> Data<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        unsafe extern "C" fn keep(_: *const u8, _: *mut c_void) {}
        if bytes.is_empty() {
            return Err(CODEC.truncated("no image data"));
        }
        // SAFETY: dav1d's own empty data are all zeros: null pointers and numbers.
        let mut data: dav1d::Dav1dData = unsafe { std::mem::zeroed() };
        // SAFETY: the bytes outlive the decoder, which is made and closed while they are borrowed.
        let code = unsafe {
            dav1d::dav1d_data_wrap(&raw mut data, bytes.as_ptr(), bytes.len(), Some(keep), ptr::null_mut())
        };
        if code < 0 { Err(failed(code, 0)) } else { Ok(Data(data, std::marker::PhantomData)) }
    }
}

impl Drop for Data<'_> {
    fn drop(&mut self) {
        // SAFETY: what was not sent is ours; for what was sent, the structure is empty and nothing happens.
        unsafe { dav1d::dav1d_data_unref(&raw mut self.0) }
    }
}

fn failed(code: c_int, at: usize) -> Error {
    match code {
        dav1d::DAV1D_ERR_NOMEM => Error::OutOfMemory { bytes: 0 },
        dav1d::DAV1D_ERR_NOPROTOOPT => CODEC.unsupported("this kind of AV1 stream"),
        // This includes frames that are larger than the file says.
        _ => CODEC.corrupt(at, "the image data are damaged or end early"),
    }
}
