//! Files of every codec, cut and changed at random: an error or pixels, never a panic, and the same every time.
//! `FEEDLINE_HOSTILE_ROUNDS` makes it longer (the default takes a few seconds), `FEEDLINE_HOSTILE_SEED` another run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use feedline_pixels::{Decoder, Mode, Region, check_amount, probe};

const LIMIT: u64 = 1 << 18;

/// A small generator: a failure must be reproducible.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let found = std::fs::read_dir(folder).expect("the seeds are in the repository");
    let paths = found.map(|entry| entry.expect("a name").path());
    let mut files: Vec<_> = paths
        .map(|path| (path.display().to_string(), std::fs::read(&path).expect("a readable file")))
        .collect();
    files.sort();
    files
}

/// One to eight changes: bytes, runs, numbers that are often wrong, pieces moved, an end cut off.
fn changed(random: &mut Generator, mut bytes: Vec<u8>) -> Vec<u8> {
    const TELLING: [u8; 8] = [0, 1, 0x7F, 0x80, 0xFF, 0xFE, 8, 16];
    for _ in 0..=random.below(8) {
        if bytes.is_empty() {
            break;
        }
        // Headers are where most of the decisions are.
        let reach = if random.below(2) == 0 { bytes.len().min(64) } else { bytes.len() };
        let at = random.below(reach);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = TELLING[random.below(8)],
            2 => bytes[at] = random.next() as u8,
            3 => {
                let length = random.below(8).min(bytes.len() - at);
                bytes[at..at + length].fill(TELLING[random.below(8)]);
            }
            4 => {
                let piece: Vec<u8> = bytes[at..].iter().take(random.below(32)).copied().collect();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => bytes.truncate(at.max(bytes.len() / 2)),
        }
    }
    bytes
}

/// Decodes in every way; what came of the usual one.
fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = probe(bytes).ok()?;
    check_amount(bytes, header.size).ok();
    let mut decoder = Decoder::with_max_pixels(LIMIT);
    for mode in Mode::ALL {
        if let Ok((_, image)) = decoder.decode_as(bytes, mode) {
            assert_eq!(image.size, header.upright_size());
        }
    }
    let (_, image) = decoder.decode_upright(bytes).ok()?;
    Some(image.bytes.to_vec())
}

#[test]
fn seed_files_are_decoded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/images");
    for (name, bytes) in files(&folder) {
        if let Err(error) = Decoder::new().decode(&bytes) {
            assert!(error.to_string().starts_with("unsupported "), "{name}: {error}");
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/images");
    let (rounds, seed) = (setting("FEEDLINE_HOSTILE_ROUNDS", 300), setting("FEEDLINE_HOSTILE_SEED", 1));
    for (name, bytes) in files(&folder) {
        for round in 0..rounds {
            let mut random = Generator(((seed << 32) | (round + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let hostile = changed(&mut random, bytes.clone());
            let made = catch_unwind(AssertUnwindSafe(|| decode(&hostile)));
            let made = made.unwrap_or_else(|_| panic!("{name}, seed {seed}, round {round}"));
            assert!(made == decode(&hostile), "{name}, seed {seed}, round {round}: another result");
        }
    }
}

#[test]
fn regions_equal_the_cropped_image() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/images");
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images");
    let mut random = Generator(77);
    let (mut parts, mut smaller) = (0, 0);
    for (name, bytes) in files(&seeds).into_iter().chain(files(&images)) {
        let mut decoder = Decoder::new();
        let Ok((_, whole)) = decoder.decode_upright(&bytes) else { continue };
        let (size, pixel) = (whole.size, whole.layout.bytes());
        let expected = whole.bytes.to_vec();
        let mut other = Decoder::new();
        for _ in 0..12 {
            let (x, y) =
                (random.below(size.width as usize) as u32, random.below(size.height as usize) as u32);
            let width = 1 + random.below((size.width - x) as usize) as u32;
            let height = 1 + random.below((size.height - y) as usize) as u32;
            let (decoded, image) = other.decode_part(&bytes, Region::new(x, y, width, height)).expect(&name);
            assert!(decoded.x <= x && decoded.y <= y, "{name}");
            assert!(decoded.right() >= x + width && decoded.bottom() >= y + height, "{name}");
            parts += 1;
            smaller += usize::from(decoded.size() != size);
            for row in y..y + height {
                let from = (row as usize * size.width as usize + x as usize) * pixel;
                let wanted = &expected[from..from + width as usize * pixel];
                let step = image.layout.bytes();
                let at = (row - decoded.y) as usize * image.stride + (x - decoded.x) as usize * step;
                let found = &image.bytes[at..at + width as usize * step];
                assert!(
                    wanted.chunks(pixel).zip(found.chunks(step)).all(|(a, b)| a[..3] == b[..3]),
                    "{name}"
                );
            }
        }
    }
    assert!(parts > 300 && smaller > 50, "{parts} {smaller}");
}
