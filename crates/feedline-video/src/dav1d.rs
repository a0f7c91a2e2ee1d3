//! AV1 with dav1d, the library that decodes AVIF images too: calls of its C functions.

use std::ptr;

use libdav1d_sys as dav1d;

use crate::engine::Engine;
use crate::error::{Error, Result, malformed};
use crate::index::Index;
use crate::rgb::{Layout, Picture};

/// An open decoder and the frame that it returned last.
pub(crate) struct Dav1d {
    context: *mut dav1d::Dav1dContext,
    frame: dav1d::Dav1dPicture,
    /// What was passed in and not taken yet.
    data: dav1d::Dav1dData,
}

// SAFETY: a context may be used from any thread, by one at a time; `&mut` sees to that.
unsafe impl Send for Dav1d {}

impl std::fmt::Debug for Dav1d {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dav1d").finish_non_exhaustive()
    }
}

impl Dav1d {
    /// A decoder for the track, single-threaded inside.
    pub(crate) fn open(index: &Index) -> Result<Self> {
        let mut settings = std::mem::MaybeUninit::<dav1d::Dav1dSettings>::uninit();
        let mut context = ptr::null_mut();
        // Frames that are much larger than the file says are refused before memory is allocated.
        let limit = 4 * u64::from(index.width) * u64::from(index.height);
        // SAFETY: the first call fills all settings; the second reads them and returns a context or an error.
        let code = unsafe {
            dav1d::dav1d_default_settings(settings.as_mut_ptr());
            let settings = settings.assume_init_mut();
            (settings.n_threads, settings.max_frame_delay, settings.all_layers) = (1, 1, 0);
            settings.frame_size_limit = u32::try_from(limit).unwrap_or(u32::MAX);
            // Its messages would go to the terminal.
            settings.logger.callback = None;
            dav1d::dav1d_open(&raw mut context, settings)
        };
        if code < 0 || context.is_null() {
            return Err(Error::OutOfMemory { bytes: 4096 });
        }
        // SAFETY: dav1d's own empty frame and data are all zeros: null pointers, numbers, and enums whose first value is
        // zero.
        Ok(unsafe { Dav1d { context, frame: std::mem::zeroed(), data: std::mem::zeroed() } })
    }

    fn release(&mut self) {
        // SAFETY: both are empty or dav1d's; releasing empty ones does nothing.
        unsafe {
            dav1d::dav1d_picture_unref(&raw mut self.frame);
            dav1d::dav1d_data_unref(&raw mut self.data);
        }
    }

    /// Passes in what is left of the last packet. Returns whether all of it was taken.
    fn push(&mut self) -> Result<bool> {
        if self.data.sz == 0 {
            return Ok(true);
        }
        let number = self.data.m.timestamp;
        // SAFETY: the context is open; the data are dav1d's own copy.
        match unsafe { dav1d::dav1d_send_data(self.context, &raw mut self.data) } {
            0 => Ok(self.data.sz == 0),
            code if code == dav1d::DAV1D_ERR_AGAIN => Ok(false),
            code => Err(failed(code, number)),
        }
    }

    fn picture(&self) -> Result<Picture<'_>> {
        use dav1d::Dav1dPixelLayout as Kind;
        let shape = &self.frame.p;
        let (across, down, grey) = match shape.layout {
            Kind::DAV1D_PIXEL_LAYOUT_I400 => (0, 0, true),
            Kind::DAV1D_PIXEL_LAYOUT_I420 => (1, 1, false),
            Kind::DAV1D_PIXEL_LAYOUT_I422 => (1, 0, false),
            _ => (0, 0, false),
        };
        let layout = Layout::planar(across, down, shape.bpc as u32, grey);
        let (width, height) = (shape.w.max(0) as usize, shape.h.max(0) as usize);
        let plane = |at: usize| {
            let (columns, rows) = layout.size_of(at, width, height);
            let stride = self.frame.stride[usize::from(at > 0)];
            if columns == 0 || rows == 0 {
                return Ok((&[][..], 0));
            }
            if stride < columns as isize || self.frame.data[at].is_null() {
                return Err(malformed("a frame whose rows are stored upside down"));
            }
            // SAFETY: dav1d's plane has `rows` rows, `stride` bytes apart, of `columns` bytes each; it lives until the
            // next call that takes `&mut self`.
            let bytes = unsafe {
                let start = self.frame.data[at].cast::<u8>();
                std::slice::from_raw_parts(start, stride as usize * (rows - 1) + columns)
            };
            Ok((bytes, stride as usize))
        };
        let planes = [plane(0)?, plane(1)?, plane(2)?];
        // SAFETY: a returned frame has its sequence header until it is released. The matrix may be any number, also one
        // for which the Rust enum has no name, so it is read as a number.
        let (matrix, full) = unsafe {
            let header = self.frame.seq_hdr;
            ((&raw const (*header).mtrx).cast::<u32>().read(), (*header).color_range != 0)
        };
        Ok(Picture { width, height, layout, planes, matrix: i64::from(matrix), full })
    }
}

impl Engine for Dav1d {
    fn flush(&mut self) -> Result<()> {
        self.release();
        // SAFETY: the context is open.
        unsafe { dav1d::dav1d_flush(self.context) };
        Ok(())
    }

    fn send(&mut self, number: i64, bytes: &[u8]) -> Result<()> {
        if !self.push()? {
            return Err(malformed(format!("packet {} is not taken", number - 1)));
        }
        if bytes.is_empty() {
            return Err(malformed(format!("packet {number} is empty")));
        }
        // SAFETY: the data are empty, and get room for all bytes or are refused.
        unsafe {
            let room = dav1d::dav1d_data_create(&raw mut self.data, bytes.len());
            if room.is_null() {
                return Err(Error::OutOfMemory { bytes: bytes.len() as u64 });
            }
            ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
        }
        self.data.m.timestamp = number;
        self.push().map(|_| ())
    }

    fn finish(&mut self) {}

    fn receive(&mut self) -> Result<Option<(i64, Picture<'_>)>> {
        loop {
            // SAFETY: the frame is empty or dav1d's; then the context is open and the frame empty.
            let got = unsafe {
                dav1d::dav1d_picture_unref(&raw mut self.frame);
                dav1d::dav1d_get_picture(self.context, &raw mut self.frame)
            };
            match got {
                0 => return Ok(Some((self.frame.m.timestamp, self.picture()?))),
                code if code == dav1d::DAV1D_ERR_AGAIN => {
                    let before = self.data.sz;
                    self.push()?;
                    if before == self.data.sz {
                        return Ok(None);
                    }
                }
                code => return Err(failed(code, self.data.m.timestamp)),
            }
        }
    }
}

impl Drop for Dav1d {
    fn drop(&mut self) {
        self.release();
        // SAFETY: the context is open and closed only here.
        unsafe { dav1d::dav1d_close(&raw mut self.context) }
    }
}

fn failed(code: i32, number: i64) -> Error {
    match code {
        dav1d::DAV1D_ERR_NOMEM => Error::OutOfMemory { bytes: 0 },
        dav1d::DAV1D_ERR_NOPROTOOPT => Error::Unsupported("this kind of AV1 stream".to_owned()),
        _ => malformed(format!("a frame near packet {number} cannot be decoded (dav1d error {code})")),
    }
}
