//! Any bytes: our pixels are libjpeg-turbo's, or both refuse. The first eight bytes choose region, scale and CPU level.
#![no_main]

use feedline_pixels::jpeg::{Decoder, Scale, probe};
use feedline_pixels::{CpuLevel, ImageMut, PixelLayout, Region, turbo};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 1 << 18;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first_chunk::<8>() else { return };
    let Ok(header) = probe(bytes) else { return };
    if header.size.area() > LIMIT {
        return;
    }
    let (scale, eighths) = [(Scale::Full, 8), (Scale::Half, 4), (Scale::Quarter, 2), (Scale::Eighth, 1)]
        [usize::from(choice[0] & 3)];
    let size = scale.apply(header.size);
    let part = |n: u32, f: u8| n * u32::from(f) / 256;
    let (width, height) = (1 + part(size.width, choice[1]), 1 + part(size.height, choice[2]));
    let (x, y) = (part(size.width - width + 1, choice[3]), part(size.height - height + 1, choice[4]));
    let region = Region::new(x, y, width, height);
    let layout = if choice[5] & 1 == 0 { PixelLayout::Rgb } else { PixelLayout::Rgbx };
    let level = if choice[5] & 2 == 0 { CpuLevel::detect() } else { CpuLevel::Scalar };
    let stride = width as usize * layout.bytes();
    let mut decoder = Decoder::with_level(level).with_pixel_limit(LIMIT);
    let index = decoder.build_index(bytes);
    let mut expected = vec![0; stride * height as usize];
    let mut out = ImageMut::new(&mut expected, region.size(), stride, layout).expect("room");
    let by_turbo = turbo::decode_region(bytes, region, eighths, LIMIT, &mut out);
    for index in [None, index.as_deref()] {
        let mut pixels = vec![0; stride * height as usize];
        let mut out = ImageMut::new(&mut pixels, region.size(), stride, layout).expect("room");
        match decoder.decode_into(bytes, index, region, scale, &mut out) {
            Ok(_) => {
                by_turbo.as_ref().expect("libjpeg-turbo refuses what we decode");
                assert!(pixels == expected, "pixels differ");
            }
            // Without an end marker we refuse what libjpeg-turbo decodes the start of.
            Err(_) => assert!(by_turbo.is_err() || !bytes.windows(2).any(|pair| pair == [0xFF, 0xD9])),
        }
    }
});
