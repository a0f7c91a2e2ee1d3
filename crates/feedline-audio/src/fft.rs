//! The discrete Fourier transform of real values, for any length: one step for each prime factor. Two dozen lines of our
//! own instead of a library with seven crates; windows of speech are a few hundred samples.

use std::f64::consts::TAU;

/// A complex number: real and imaginary part.
pub(crate) type Complex = (f32, f32);

/// Tables for one length.
#[derive(Clone, Debug)]
pub(crate) struct Fft {
    length: usize,
    factors: Vec<usize>,
    /// The roots of one: e^(-2πik/length).
    roots: Vec<Complex>,
}

impl Fft {
    pub(crate) fn new(length: usize) -> Self {
        let root = |k: usize| {
            let angle = TAU * k as f64 / length as f64;
            (angle.cos() as f32, -angle.sin() as f32)
        };
        Fft { length, factors: factors(length), roots: (0..length).map(root).collect() }
    }

    /// Transforms `input` into `out`, both as long as the tables; `scratch` is as long as the largest factor.
    pub(crate) fn run(&self, input: &[f32], out: &mut [Complex], scratch: &mut Vec<Complex>) {
        scratch.clear();
        scratch.resize(self.factors.iter().copied().max().unwrap_or(1), (0.0, 0.0));
        self.step(input, 1, out, 0, scratch);
    }

    /// Transforms every `stride`-th value: splits by the next factor, transforms the parts, joins them.
    fn step(&self, input: &[f32], stride: usize, out: &mut [Complex], level: usize, scratch: &mut [Complex]) {
        let Some(factor) = self.factors.get(level).copied() else {
            out[0] = (input[0], 0.0);
            return;
        };
        let part = out.len() / factor;
        for (number, out) in out.chunks_exact_mut(part).enumerate() {
            self.step(&input[number * stride..], stride * factor, out, level + 1, scratch);
        }
        let (apart, among) = (self.length / out.len(), self.length / factor);
        for k in 0..part {
            for number in 0..factor {
                scratch[number] = times(out[number * part + k], self.roots[number * k * apart % self.length]);
            }
            for row in 0..factor {
                let sum = |sum: Complex, number: usize| {
                    let term = times(scratch[number], self.roots[number * row * among % self.length]);
                    (sum.0 + term.0, sum.1 + term.1)
                };
                out[row * part + k] = (0..factor).fold((0.0, 0.0), sum);
            }
        }
    }
}

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// Prime factors, fours first: a step of four is cheaper than two of two.
fn factors(mut length: usize) -> Vec<usize> {
    let mut found = Vec::new();
    while length.is_multiple_of(4) {
        found.push(4);
        length /= 4;
    }
    let mut factor = 2;
    while length > 1 {
        if length.is_multiple_of(factor) {
            found.push(factor);
            length /= factor;
        } else {
            factor += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_definition() {
        for length in [1, 2, 3, 4, 7, 12, 60, 97, 256, 400] {
            let input: Vec<f32> = (0..length).map(|n| ((n * n * 7 + 3) % 31) as f32 - 15.0).collect();
            let mut out = vec![(0.0, 0.0); length];
            Fft::new(length).run(&input, &mut out, &mut Vec::new());
            for (k, found) in out.iter().enumerate() {
                let (mut real, mut imaginary) = (0.0, 0.0);
                for (n, value) in input.iter().enumerate() {
                    let angle = TAU * (n * k) as f64 / length as f64;
                    real += f64::from(*value) * angle.cos();
                    imaginary -= f64::from(*value) * angle.sin();
                }
                let apart = (f64::from(found.0) - real).abs().max((f64::from(found.1) - imaginary).abs());
                assert!(apart < 1e-3 * length as f64, "{length} {k}: {found:?} {real} {imaginary}");
            }
        }
    }
}
