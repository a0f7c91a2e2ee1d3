//! Draws images: soft colours, shapes and grain, of many sizes, the same on every machine.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline::error::Location;
use feedline::{Error, Result};
use feedline_pixels::{Size, turbo};

use crate::{interrupt, machine};

/// Motifs, one class each.
pub(super) const CLASSES: [&str; 4] = ["balls", "checks", "rings", "waves"];

/// Draws `samples` images into class folders below `folder`, with all threads. Returns the bytes written.
pub(super) fn draw_all(folder: &Path, samples: u64) -> Result<u64> {
    for class in CLASSES {
        let path = folder.join(class);
        std::fs::create_dir_all(&path).map_err(|e| failed("creating", &path, e))?;
    }
    let (next, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let failure: Mutex<Option<Error>> = Mutex::default();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= samples || interrupt::asked() {
                return;
            }
            match draw_one(folder, number) {
                Ok(length) => drop(bytes.fetch_add(length, Ordering::Relaxed)),
                Err(error) => {
                    next.store(samples, Ordering::Relaxed);
                    failure.lock().expect("nobody panics while noting a failure").get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..machine::threads() {
            scope.spawn(work);
        }
        work();
    });
    match failure.into_inner().expect("nobody panics while noting a failure") {
        Some(error) => Err(error),
        None => Ok(bytes.into_inner()),
    }
}

fn failed(action: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::storage(action, Location::new(path.display().to_string()), error)
}

fn draw_one(folder: &Path, number: u64) -> Result<u64> {
    let class = (number % CLASSES.len() as u64) as usize;
    let path = folder.join(CLASSES[class]).join(format!("{number:05}.jpg"));
    let picture = Drawing::new(number, class);
    let encoding = turbo::Encoding::baseline(picture.size, 3, 88, (2, 2));
    let bytes = turbo::encode(&picture.pixels(), &encoding)
        .map_err(|e| Error::data(Location::new(path.display().to_string()), e.to_string()))?;
    std::fs::write(&path, &bytes).map_err(|e| failed("writing", &path, e))?;
    Ok(bytes.len() as u64)
}

/// Parameters of one image.
struct Drawing {
    class: usize,
    size: Size,
    sky: [f32; 3],
    ground: [f32; 3],
    ink: [f32; 3],
    centre: (f32, f32),
    period: f32,
    turn: (f32, f32),
}

impl Drawing {
    fn new(number: u64, class: usize) -> Self {
        let mut random = Generator(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // About the sizes of photographs scaled down for training: the longer side is 320 to 640 pixels.
        let (long, ratio) = (320.0 + 320.0 * random.roll(), 0.6 + 0.4 * random.roll());
        let (a, b) = (long as u32, (long * ratio) as u32);
        let size = if random.roll() < 0.7 { Size::new(a, b) } else { Size::new(b, a) };
        let angle = random.roll() * std::f32::consts::TAU;
        Drawing {
            class,
            size,
            sky: random.colour(),
            ground: random.colour(),
            ink: random.colour(),
            centre: (size.width as f32 * random.roll(), size.height as f32 * random.roll()),
            period: 18.0 + 60.0 * random.roll(),
            turn: (angle.cos(), angle.sin()),
        }
    }

    fn pixels(&self) -> Vec<u8> {
        let mut grain = Generator(u64::from(self.size.width) << 32 | u64::from(self.size.height) | 1);
        let mut pixels = Vec::with_capacity(self.size.width as usize * self.size.height as usize * 3);
        for y in 0..self.size.height {
            for x in 0..self.size.width {
                let (x, y) = (x as f32, y as f32);
                let down = y / self.size.height as f32;
                let (ink, noise) = (self.ink_at(x, y), (grain.roll() - 0.5) * 18.0);
                for channel in 0..3 {
                    let paper = self.sky[channel] + (self.ground[channel] - self.sky[channel]) * down;
                    let value = paper + (self.ink[channel] - paper) * ink;
                    pixels.push((value * 255.0 + noise).clamp(0.0, 255.0) as u8);
                }
            }
        }
        pixels
    }

    /// Share of the ink's colour at this place, 0 to 1.
    fn ink_at(&self, x: f32, y: f32) -> f32 {
        let (cos, sin) = self.turn;
        let (dx, dy) = (x - self.centre.0, y - self.centre.1);
        let (u, v) = ((dx * cos + dy * sin) / self.period, (dy * cos - dx * sin) / self.period);
        match self.class {
            0 => {
                let (fu, fv) = (u - u.floor() - 0.5, v - v.floor() - 0.5);
                ((0.4 - (fu * fu + fv * fv).sqrt()) * 8.0).clamp(0.0, 1.0)
            }
            1 => f32::from((u.floor() + v.floor()).rem_euclid(2.0) < 1.0) * 0.85,
            2 => ((u * u + v * v).sqrt() * std::f32::consts::TAU).sin() * 0.5 + 0.5,
            _ => (u * std::f32::consts::TAU + (v * 2.0).sin()).sin() * 0.5 + 0.5,
        }
    }
}

/// Pseudo-random numbers (xorshift64*), the same everywhere.
struct Generator(u64);

impl Generator {
    /// A number in [0, 1).
    fn roll(&mut self) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as f32 / (1u64 << 24) as f32
    }

    fn colour(&mut self) -> [f32; 3] {
        [self.roll(), self.roll(), self.roll()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_images_differ_and_are_reproducible() {
        let one = Drawing::new(1, 0);
        assert_eq!(one.pixels(), Drawing::new(1, 0).pixels());
        assert_ne!(one.size, Drawing::new(2, 0).size);
    }
}
