//! Any bytes as EXIF or XMP, in each codec that has them: the header is read, and the orientation is one of eight.
#![no_main]

use feedline_pixels::probe;
use libfuzzer_sys::fuzz_target;

/// A PNG's chunk; checksums are not looked at when only headers are read.
fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_be_bytes()[..], name, data, &[0; 4]].concat()
}

fn png(name: &[u8; 4], keyword: &[u8], data: &[u8]) -> Vec<u8> {
    let header = [0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0];
    let text = [keyword, data].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunk(b"IHDR", &header), &chunk(name, &text)].concat()
}

fn jpeg(data: &[u8]) -> Vec<u8> {
    const GOOD: &[u8] = include_bytes!("../seeds/images/jpeg.jpg");
    let length = (data.len().min(65_000) as u16 + 2).to_be_bytes();
    [&GOOD[..2], &[0xFF, 0xE1], &length, &data[..data.len().min(65_000)], &GOOD[2..]].concat()
}

fuzz_target!(|input: &[u8]| {
    for bytes in [
        png(b"eXIf", b"", input),
        png(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0", input),
        png(b"tEXt", b"Raw profile type exif\0", input),
        png(b"zTXt", b"Raw profile type exif\0\0", input),
        png(b"tEXt", b"Raw profile type xmp\0", input),
        jpeg(&[&b"Exif\0\0"[..], input].concat()),
        jpeg(&[&b"http://ns.adobe.com/xap/1.0/\0"[..], input].concat()),
    ] {
        let header = probe(&bytes).expect("only the metadata are hostile");
        assert!((1..=8).contains(&(header.orientation as u8)));
    }
});
