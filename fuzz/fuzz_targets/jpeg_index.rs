//! A hostile index beside a good or bad file: the first two bytes say where the index ends.
#![no_main]

use feedline_pixels::jpeg::{Decoder, Scale, probe};
use feedline_pixels::{ImageMut, PixelLayout, Region};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 1 << 18;

fuzz_target!(|input: &[u8]| {
    let Some((length, rest)) = input.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (patch, bytes) = rest.split_at(length);
    let Ok(header) = probe(bytes) else { return };
    if header.size.area() > LIMIT {
        return;
    }
    let mut decoder = Decoder::new().with_pixel_limit(LIMIT);
    // The patch is laid over a true index behind its identity, or stands alone if there is none.
    let mut index = decoder.build_index(bytes).unwrap_or_else(|| patch.to_vec());
    for (to, from) in index.iter_mut().skip(20).zip(patch) {
        *to ^= from;
    }
    let region = Region::whole(header.size);
    let stride = header.size.width as usize * 4;
    let mut pixels = vec![0; stride * header.size.height as usize];
    let mut out = ImageMut::new(&mut pixels, header.size, stride, PixelLayout::Rgbx).expect("room");
    decoder.decode_into(bytes, Some(&index), region, Scale::Full, &mut out).ok();
});
