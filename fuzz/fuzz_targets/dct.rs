//! Any bytes as a `dct` or `compact` file; and JPEG bytes packed and decoded again give libjpeg-turbo's pixels, or the file.
#![no_main]

use feedline_pixels::jpeg::Scale;
use feedline_pixels::{ImageMut, PixelLayout, Region, dct, turbo};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 1 << 18;

fn decode(bytes: &[u8], scale: Scale) -> Option<Vec<u8>> {
    let size = scale.apply(dct::probe(bytes).ok()?.size);
    if size.area() > LIMIT {
        return None;
    }
    let mut pixels = vec![0; size.area() as usize * 3];
    let mut out = ImageMut::new(&mut pixels, size, size.width as usize * 3, PixelLayout::Rgb).ok()?;
    let mut decoder = dct::Decoder::new().with_pixel_limit(LIMIT);
    decoder.decode_into(bytes, Region::whole(size), scale, &mut out).ok()?;
    Some(pixels)
}

fuzz_target!(|bytes: &[u8]| {
    decode(bytes, Scale::Full);
    decode(bytes, Scale::Half);
    decode(bytes, Scale::Eighth);
    dct::compact::original(bytes, LIMIT).ok();
    let compact = dct::compact::encode(bytes, LIMIT).ok();
    if let Some(packed) = &compact {
        assert!(dct::compact::original(packed, LIMIT).expect("own file") == bytes, "another file");
    }
    for packed in dct::encode(bytes, LIMIT).into_iter().chain(compact) {
        let size = dct::probe(&packed).expect("own file").size;
        let pixels = decode(&packed, Scale::Full).expect("own file");
        let mut expected = vec![0; size.area() as usize * 3];
        let mut out =
            ImageMut::new(&mut expected, size, size.width as usize * 3, PixelLayout::Rgb).expect("room");
        if turbo::decode_region(bytes, Region::whole(size), 8, LIMIT, &mut out).is_ok() {
            assert!(pixels == expected, "pixels differ");
        }
    }
});
