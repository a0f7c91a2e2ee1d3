//! Progressive files with any list of scans, damaged in places: our pixels are libjpeg-turbo's, or both refuse.
//!
//! Input: twelve bytes of choices, then scans of four bytes (components, first, last, bits) up to a byte of 255, then
//! damage: position (16 bits) and the bits to flip.
#![no_main]

use feedline_pixels::jpeg::{Decoder, Scale};
use feedline_pixels::turbo::{self, Encoding, Scan};
use feedline_pixels::{CpuLevel, ImageMut, PixelLayout, Region, Size};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 1 << 16;
const SAMPLINGS: [(u8, u8); 6] = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)];

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first_chunk::<12>() else { return };
    let (scans, damage) = scans(rest);
    let size = Size::new(1 + u32::from(choice[0] % 80), 1 + u32::from(choice[1] % 80));
    let channels = if choice[2] & 1 == 0 { 3 } else { 1 };
    let sampling = SAMPLINGS[usize::from(choice[3] % 6)];
    let base = Encoding::baseline(size, channels, 1 + choice[4] % 100, sampling);
    let restart_interval = if choice[5] & 3 == 0 { u32::from(choice[5] >> 2) } else { 0 };
    let encoding = Encoding { restart_interval, progressive: true, ..base };
    let shift = choice[2] >> 4;
    let pixels: Vec<u8> =
        (0..size.area() * u64::from(channels)).map(|i| ((i * i / 7 + i * 13) >> shift) as u8).collect();
    let Ok(mut bytes) = turbo::encode_scans(&pixels, &encoding, &scans) else { return };
    for change in damage.chunks_exact(3).take(8) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[at] ^= change[2];
    }
    compare(&bytes, choice);
});

fn scans(mut rest: &[u8]) -> (Vec<Scan>, &[u8]) {
    let mut scans = Vec::new();
    while let [components, first, last, bits, after @ ..] = rest {
        if *components == 255 || scans.len() == 60 {
            break;
        }
        let used = (0..3).filter(|i| components >> i & 1 == 1).collect();
        scans.push(Scan { components: used, band: (first % 64, last % 64), bits: (bits >> 4, bits & 15) });
        rest = after;
    }
    (scans, rest.get(1..).unwrap_or(&[]))
}

fn compare(bytes: &[u8], choice: &[u8; 12]) {
    let Ok(header) = turbo::header(bytes) else { return };
    if header.size.area() > LIMIT {
        return;
    }
    let (scale, eighths) = [(Scale::Full, 8), (Scale::Half, 4), (Scale::Quarter, 2), (Scale::Eighth, 1)]
        [usize::from(choice[6] & 3)];
    let size = scale.apply(header.size);
    let part = |n: u32, f: u8| n * u32::from(f) / 256;
    let (width, height) = (1 + part(size.width, choice[7]), 1 + part(size.height, choice[8]));
    let (x, y) = (part(size.width - width + 1, choice[9]), part(size.height - height + 1, choice[10]));
    let region = Region::new(x, y, width, height);
    let level = if choice[11] & 1 == 0 { CpuLevel::detect() } else { CpuLevel::Scalar };
    let (layout, stride) = (PixelLayout::Rgb, width as usize * 3);
    let (mut ours, mut theirs) = (vec![0; stride * height as usize], vec![0; stride * height as usize]);
    let mut out = ImageMut::new(&mut theirs, region.size(), stride, layout).expect("room");
    let by_turbo = turbo::decode_region(bytes, region, eighths, LIMIT, &mut out);
    let mut out = ImageMut::new(&mut ours, region.size(), stride, layout).expect("room");
    let mut decoder = Decoder::with_level(level).with_pixel_limit(LIMIT);
    match decoder.decode_into(bytes, None, region, scale, &mut out) {
        Ok(_) => {
            by_turbo.as_ref().expect("libjpeg-turbo refuses what we decode");
            assert!(ours == theirs, "pixels differ");
        }
        Err(_) => assert!(by_turbo.is_err() || !bytes.windows(2).any(|pair| pair == [0xFF, 0xD9])),
    }
}
