//! A piece of audio in memory.

use crate::error::{Result, zeros};

/// Samples of some channels at one rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clip {
    /// Frames per second.
    pub rate: u32,
    /// Number of channels.
    pub channels: usize,
    /// All samples of the first channel, then of the next.
    pub data: Vec<f32>,
}

impl Clip {
    /// Number of samples of each channel.
    pub fn frames(&self) -> usize {
        self.data.len().checked_div(self.channels).unwrap_or(0)
    }

    /// The samples of each channel.
    pub fn planes(&self) -> impl Iterator<Item = &[f32]> {
        self.data.chunks_exact(self.frames().max(1)).take(self.channels)
    }

    /// Averages the channels into one, as `torch.mean` does.
    pub fn to_mono(&mut self) {
        let (frames, channels) = (self.frames(), self.channels);
        if channels < 2 {
            return;
        }
        for at in 0..frames {
            let sum: f32 = (0..channels).map(|channel| self.data[channel * frames + at]).sum();
            self.data[at] = sum / channels as f32;
        }
        self.data.truncate(frames);
        self.channels = 1;
    }

    /// Cuts `frames` frames out from `start` on; what is past the end is silence.
    pub fn cut(&mut self, start: usize, frames: usize) -> Result<()> {
        let mut cut = Vec::new();
        zeros(&mut cut, frames * self.channels)?;
        if frames > 0 {
            for (from, to) in self.planes().zip(cut.chunks_exact_mut(frames)) {
                let from = &from[start.min(from.len())..];
                let count = from.len().min(frames);
                to[..count].copy_from_slice(&from[..count]);
            }
        }
        self.data = cut;
        Ok(())
    }

    /// Makes it `frames` long, from its beginning again where it ends.
    pub fn repeat_to(&mut self, frames: usize) -> Result<()> {
        let have = self.frames();
        if have == 0 || have >= frames {
            return self.cut(0, frames);
        }
        let mut longer = Vec::new();
        zeros(&mut longer, frames * self.channels)?;
        for (from, to) in self.planes().zip(longer.chunks_exact_mut(frames)) {
            for (to, from) in to.iter_mut().zip(from.iter().cycle()) {
                *to = *from;
            }
        }
        self.data = longer;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip() -> Clip {
        Clip { rate: 8, channels: 2, data: vec![1.0, 2.0, 3.0, 5.0, 6.0, 7.0] }
    }

    #[test]
    fn cuts_are_padded_with_silence() {
        let mut cut = clip();
        cut.cut(1, 4).unwrap();
        assert_eq!(cut.data, [2.0, 3.0, 0.0, 0.0, 6.0, 7.0, 0.0, 0.0]);
        let mut none = clip();
        none.cut(9, 2).unwrap();
        assert_eq!(none.data, [0.0; 4]);
        let mut again = clip();
        again.repeat_to(5).unwrap();
        assert_eq!(again.data, [1.0, 2.0, 3.0, 1.0, 2.0, 5.0, 6.0, 7.0, 5.0, 6.0]);
    }

    #[test]
    fn mono_is_the_mean() {
        let mut mono = clip();
        mono.to_mono();
        assert_eq!((mono.channels, &mono.data[..]), (1, &[3.0, 4.0, 5.0][..]));
    }
}
