//! Images in a terminal, in the ways that terminals know.

use std::fmt::Write;
use std::io::IsTerminal;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use feedline::Dataset;
use feedline::encode::decode_image;
use feedline::field::ImageMeta;

use crate::args::ImagesChoice;
use crate::report::Output;

/// Longer side of an image in pixels, and in characters where a character is a pixel.
const SIDE: u32 = 160;
const BLOCKS: u32 = 40;

/// Characters of one piece in kitty's protocol.
const PIECE: usize = 4096;

/// Shows the images of the first `samples` samples.
pub(crate) fn show(dataset: &Dataset, samples: u64, choice: ImagesChoice, output: &mut Output) {
    let way = match choice {
        ImagesChoice::Auto if !std::io::stdout().is_terminal() => ImagesChoice::None,
        ImagesChoice::Auto => guess(&|name| std::env::var(name).unwrap_or_default()),
        way => way,
    };
    let images = dataset.schema().fields.iter().position(|field| field.kind == feedline::Kind::Image);
    let (Some(field), false) = (images, way == ImagesChoice::None) else { return };
    for sample in 0..samples.min(dataset.len()) {
        output.line(format!("\nsample {sample}"));
        let side = if way == ImagesChoice::Blocks { BLOCKS } else { SIDE };
        match feedline_view::thumbnail(dataset, sample, field, side) {
            Ok(jpeg) => output.line(drawn(way, &jpeg)),
            Err(error) => output.line(format!("cannot be shown: {error}")),
        }
    }
}

/// What the terminal says of itself.
fn guess(variable: &dyn Fn(&str) -> String) -> ImagesChoice {
    let (term, program) = (variable("TERM"), variable("TERM_PROGRAM"));
    if !variable("KITTY_WINDOW_ID").is_empty()
        || term.contains("kitty")
        || ["ghostty", "WezTerm"].contains(&program.as_str())
    {
        return ImagesChoice::Kitty;
    }
    if program == "iTerm.app" {
        return ImagesChoice::Iterm2;
    }
    if ["foot", "mlterm", "sixel"].iter().any(|name| term.contains(name)) {
        return ImagesChoice::Sixel;
    }
    let colours = ["truecolor", "24bit"].contains(&variable("COLORTERM").as_str());
    if colours { ImagesChoice::Blocks } else { ImagesChoice::None }
}

fn drawn(way: ImagesChoice, jpeg: &[u8]) -> String {
    if way == ImagesChoice::Iterm2 {
        let (size, data) = (jpeg.len(), STANDARD.encode(jpeg));
        return format!("\x1b]1337;File=inline=1;size={size};preserveAspectRatio=1:{data}\x07");
    }
    let Ok((height, width, pixels)) = decode_image(jpeg, &[], ImageMeta::UNKNOWN) else {
        return String::new();
    };
    match way {
        ImagesChoice::Kitty => kitty(height, width, &pixels),
        ImagesChoice::Sixel => sixel(height, width, &pixels),
        _ => blocks(height, width, &pixels),
    }
}

/// Raw red, green and blue bytes, in pieces.
fn kitty(height: u32, width: u32, pixels: &[u8]) -> String {
    let data = STANDARD.encode(pixels);
    let pieces: Vec<&[u8]> = data.as_bytes().chunks(PIECE).collect();
    let mut out = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        let more = u8::from(number + 1 < pieces.len());
        let head = if number == 0 { format!("a=T,f=24,s={width},v={height},") } else { String::new() };
        let _ = write!(out, "\x1b_G{head}m={more};{}\x1b\\", String::from_utf8_lossy(piece));
    }
    out
}

/// Two pixels a character: the upper one is its colour, the lower one its background.
fn blocks(height: u32, width: u32, pixels: &[u8]) -> String {
    let pixel = |row: u32, column: u32| {
        let at = ((row * width + column) * 3) as usize;
        format!("{};{};{}", pixels[at], pixels[at + 1], pixels[at + 2])
    };
    let mut out = String::new();
    for row in (0..height).step_by(2) {
        for column in 0..width {
            let _ = write!(out, "\x1b[38;2;{}m", pixel(row, column));
            if row + 1 < height {
                let _ = write!(out, "\x1b[48;2;{}m", pixel(row + 1, column));
            }
            out.push('▀');
        }
        out.push_str("\x1b[0m\n");
    }
    out.truncate(out.trim_end().len());
    out
}

/// Six rows of pixels at a time, colour by colour, in a cube of 6 x 6 x 6 colours.
fn sixel(height: u32, width: u32, pixels: &[u8]) -> String {
    let level = |byte: u8| usize::from(byte) * 6 / 256;
    let colours: Vec<usize> =
        pixels.chunks_exact(3).map(|p| (level(p[0]) * 6 + level(p[1])) * 6 + level(p[2])).collect();
    let mut out = format!("\x1bPq\"1;1;{width};{height}");
    for colour in 0..216 {
        let (red, green, blue) = (colour / 36 * 20, colour / 6 % 6 * 20, colour % 6 * 20);
        let _ = write!(out, "#{colour};2;{red};{green};{blue}");
    }
    for band in (0..height).step_by(6) {
        let rows = band..height.min(band + 6);
        let at = |row: u32, column: u32| colours[(row * width + column) as usize];
        let mut used: Vec<usize> = rows.clone().flat_map(|row| (0..width).map(move |c| at(row, c))).collect();
        used.sort_unstable();
        used.dedup();
        for colour in used {
            let _ = write!(out, "#{colour}");
            for column in 0..width {
                let bits = rows.clone().map(|row| u8::from(at(row, column) == colour) << (row - band));
                out.push(char::from(63 + bits.sum::<u8>()));
            }
            out.push('$');
        }
        out.push('-');
    }
    out + "\x1b\\"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_recognised_by_their_environment() {
        let detected = |pairs: &'static [(&str, &str)]| {
            guess(&move |name| {
                pairs.iter().find(|(known, _)| *known == name).map_or(String::new(), |(_, v)| (*v).to_owned())
            })
        };
        assert_eq!(detected(&[("TERM", "xterm-kitty")]), ImagesChoice::Kitty);
        assert_eq!(detected(&[("TERM_PROGRAM", "iTerm.app")]), ImagesChoice::Iterm2);
        assert_eq!(detected(&[("TERM", "foot")]), ImagesChoice::Sixel);
        assert_eq!(detected(&[("COLORTERM", "truecolor")]), ImagesChoice::Blocks);
        assert_eq!(detected(&[("TERM", "dumb")]), ImagesChoice::None);
    }

    #[test]
    fn every_image_protocol_carries_the_pixels() {
        let pixels: Vec<u8> = (0..7 * 5 * 3).map(|n| (n * 7) as u8).collect();
        let text = kitty(7, 5, &pixels);
        let data = text.split_once(';').unwrap().1.trim_end_matches("\x1b\\");
        assert!(text.starts_with("\x1b_Ga=T,f=24,s=5,v=7,m=0;"));
        assert_eq!(STANDARD.decode(data).unwrap(), pixels);
        let lines = blocks(7, 5, &pixels);
        assert_eq!((lines.lines().count(), lines.matches('▀').count()), (4, 20));
        let text = sixel(7, 5, &pixels);
        assert!(text.starts_with("\x1bPq\"1;1;5;7") && text.ends_with("\x1b\\"));
        assert_eq!(text.matches('-').count(), 2);
    }
}
