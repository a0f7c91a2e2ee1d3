//! Tables of pieces. The input is the form, the scale, a box, the length of a table, the table, and an image. Any table names
//! only pieces of itself, inside the image; with the image's own table, a decode of pixels from the needed pieces alone is that from
//! the whole image. Of coefficients this is true of what the encoders write (a property test in `pieces.rs` of the pixels); damaged
//! offsets may point into another piece, so here such a decode only must not crash.
#![no_main]

use feedline_pixels::jpeg::Scale;
use feedline_pixels::pieces::{Form, PieceTable, table};
use feedline_pixels::{ImageRef, PixelLayout, Region, Size, dct, yuv};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 1 << 18;
const HEADER: usize = 14;

fn decode(form: Form, bytes: &[u8], size: Size, region: Region, scale: Scale) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut take = |_: u32, strip: ImageRef<'_>| {
        (0..strip.size.height).for_each(|y| out.extend_from_slice(strip.row(y)));
    };
    match form {
        Form::Rgb => {
            let whole = ImageRef::new(bytes, size, size.width as usize * 3, PixelLayout::Rgb).ok()?;
            take(0, whole.crop(region).ok()?);
        }
        Form::Yuv420 => {
            yuv::Decoder::default().decode_region(bytes, size, region, PixelLayout::Rgb, &mut take).ok()?;
        }
        Form::Dct | Form::Compact => {
            let mut decoder = dct::Decoder::new().with_pixel_limit(LIMIT);
            decoder.decode_region(bytes, region, scale, PixelLayout::Rgb, &mut take).ok()?;
        }
    }
    Some(out)
}

fuzz_target!(|input: &[u8]| {
    let Some((header, rest)) = input.split_at_checked(HEADER) else { return };
    let form = [Form::Rgb, Form::Yuv420, Form::Dct, Form::Compact][usize::from(header[0] & 3)];
    let coefficients = matches!(form, Form::Dct | Form::Compact);
    let scales = [Scale::Full, Scale::Half, Scale::Quarter, Scale::Eighth];
    let scale = scales[if coefficients { usize::from(header[1] & 3) } else { 0 }];
    let short = |at: usize| u32::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (given, image) = rest.split_at((short(12) as usize).min(rest.len()));
    let size = match dct::probe(image) {
        Ok(header) if coefficients => header.size,
        _ => Size::new(short(2) % 1024 + 1, short(4) % 1024 + 1),
    };
    let scaled = scale.apply(size);
    if scaled.area() > LIMIT {
        return;
    }
    let (x, y) = (short(6) % scaled.width, short(8) % scaled.height);
    let (width, height) = (short(10) % (scaled.width - x) + 1, short(10) % (scaled.height - y) + 1);
    let region = Region::new(x, y, width, height);
    if let Some(parsed) = PieceTable::parse(given, image.len() as u64) {
        let runs = parsed.needed(form, size, region.y..region.bottom(), scale);
        for number in runs.into_iter().flatten().flatten() {
            assert!(parsed.piece(number).end <= image.len() as u64, "outside");
        }
    }
    let own = table(form, size, image);
    let Some(whole) = decode(form, image, size, region, scale).filter(|_| !own.is_empty()) else { return };
    let parsed = PieceTable::parse(&own, image.len() as u64).expect("own table");
    let mut sparse = vec![0xA5; image.len()];
    let Some(runs) = parsed.needed(form, size, region.y..region.bottom(), scale) else { return };
    for number in runs.into_iter().flatten() {
        let piece = parsed.piece(number).start as usize..parsed.piece(number).end as usize;
        sparse[piece.clone()].copy_from_slice(&image[piece]);
    }
    let partial = decode(form, &sparse, size, region, scale);
    assert!(coefficients || partial == Some(whole), "other pixels");
});
