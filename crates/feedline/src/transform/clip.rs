//! `Clip`: which frames of a video. It is the first of a video field's list; operations on images follow and are done to
//! all frames alike.

use serde::{Deserialize, Serialize};

use super::op::{Form, Op};
use super::params::{Params, Place};
use crate::random::Draw;

/// Where a clip lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClipPolicy {
    /// Anywhere, drawn for every sample and epoch.
    #[default]
    Random,
    /// Frames spread over the whole video.
    Uniform,
    /// At the beginning.
    Start,
    /// Clips that begin at equal distances, the first one at the beginning, the last one as late as it fits.
    Regular,
    /// Every `stride`-th frame of the whole video.
    All,
}

/// What a clip has past the end of its video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PastEnd {
    /// The last frame, again and again.
    #[default]
    Repeat,
    /// The video again, from its beginning.
    Wrap,
    /// The sample is bad.
    Error,
}

/// Some frames of a video.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Number of frames.
    pub frames: u64,
    /// Frames from one to the next.
    #[serde(default = "one")]
    pub stride: u64,
    /// Where it lies.
    #[serde(default)]
    pub policy: ClipPolicy,
    /// Frames per second that strides count in; the video's own if `None`.
    #[serde(default)]
    pub fps: Option<f64>,
    /// What is past the end.
    #[serde(default)]
    pub past_end: PastEnd,
    /// Number of clips, one after the other.
    #[serde(default = "one")]
    pub clips: u64,
}

fn one() -> u64 {
    1
}

/// What a clip needs to know of a video: the times of its frames.
pub(crate) trait Times {
    /// Number of frames, at least one.
    fn count(&self) -> u64;
    /// When a frame is shown, in seconds.
    fn time(&self, frame: u64) -> f64;
    /// Length in seconds.
    fn duration(&self) -> f64;
}

impl Clip {
    /// The frames of a clip; the error is the reason.
    pub(crate) fn choose(&self, video: &dyn Times, draw: &mut Draw) -> Result<Vec<u64>, String> {
        match self.fps {
            Some(fps) => self.by_time(video, fps, draw),
            None => self.by_number(video.count(), draw),
        }
    }

    fn by_number(&self, count: u64, draw: &mut Draw) -> Result<Vec<u64>, String> {
        if self.policy == ClipPolicy::All {
            return Ok((0..count).step_by(self.stride as usize).collect());
        }
        if self.policy == ClipPolicy::Uniform {
            return Ok((0..self.frames).map(|at| (2 * at + 1) * count / (2 * self.frames)).collect());
        }
        let span = (self.frames - 1).saturating_mul(self.stride).saturating_add(1);
        let room = count.saturating_sub(span);
        let mut frames = Vec::new();
        for number in 0..self.clips {
            let start = match self.policy {
                ClipPolicy::Random => draw.below(room + 1),
                ClipPolicy::Regular => {
                    (u128::from(room) * self.share(number).0 / self.share(number).1) as u64
                }
                _ => 0,
            };
            for at in 0..self.frames {
                frames.push(self.within(start.saturating_add(at * self.stride), count)?);
            }
        }
        Ok(frames)
    }

    /// How far along a regular clip begins, as a fraction.
    fn share(&self, number: u64) -> (u128, u128) {
        (u128::from(number), u128::from(self.clips.max(2) - 1))
    }

    /// A frame number past the end, as the clip wants it.
    fn within(&self, frame: u64, count: u64) -> Result<u64, String> {
        match self.past_end {
            _ if frame < count => Ok(frame),
            PastEnd::Repeat => Ok(count - 1),
            PastEnd::Wrap => Ok(frame % count),
            PastEnd::Error => Err(format!(
                "{count} frames, a clip takes {}; past_end='repeat' fills it up",
                (self.frames - 1) * self.stride + 1
            )),
        }
    }

    /// The frames that are shown at regular times.
    fn by_time(&self, video: &dyn Times, fps: f64, draw: &mut Draw) -> Result<Vec<u64>, String> {
        let (first, length) = (video.time(0), video.duration().max(f64::MIN_POSITIVE));
        let step = self.stride as f64 / fps;
        let span = (self.frames - 1) as f64 * step;
        let room = (length - span).max(0.0);
        let mut frames = Vec::new();
        for number in 0..self.clips {
            let (start, step, count) = match self.policy {
                ClipPolicy::Random => (draw.unit() * room, step, self.frames),
                ClipPolicy::Start => (0.0, step, self.frames),
                ClipPolicy::Regular => {
                    let (number, last) = self.share(number);
                    (room * number as f64 / last as f64, step, self.frames)
                }
                ClipPolicy::Uniform => {
                    let each = length / self.frames as f64;
                    (each / 2.0, each, self.frames)
                }
                ClipPolicy::All => (0.0, step, ((length / step).ceil() as u64).clamp(1, 1 << 24)),
            };
            for at in 0..count {
                frames.push(self.at_time(video, first, start + at as f64 * step, length)?);
            }
        }
        Ok(frames)
    }

    fn at_time(&self, video: &dyn Times, first: f64, seconds: f64, length: f64) -> Result<u64, String> {
        let seconds = match self.past_end {
            _ if seconds < length => seconds,
            PastEnd::Repeat => length,
            PastEnd::Wrap => seconds % length,
            PastEnd::Error => return Err(format!("{length:.3} seconds, a clip ends at {seconds:.3}")),
        };
        // The last frame that begins by then. Times are rounded in files; a hair before a frame is that frame.
        let (mut low, mut high) = (0, video.count());
        while low < high {
            let middle = low.midpoint(high);
            if video.time(middle) <= first + seconds + 1e-6 { low = middle + 1 } else { high = middle }
        }
        Ok(low.saturating_sub(1))
    }
}

impl Op for Clip {
    fn check(&self) -> Result<(), String> {
        if self.frames == 0 || self.stride == 0 || self.frames > 1 << 20 || self.stride > 1 << 30 {
            return Err(format!("{} frames, {} apart", self.frames, self.stride));
        }
        let several = self.clips > 1;
        if self.clips == 0 || self.clips.saturating_mul(self.frames) > 1 << 20 {
            return Err(format!("{} clips of {} frames", self.clips, self.frames));
        }
        if several && !matches!(self.policy, ClipPolicy::Random | ClipPolicy::Regular) {
            return Err("several clips lie at policy='random' or 'regular' places".to_owned());
        }
        match self.fps {
            Some(fps) if !(fps > 0.0 && fps <= 10_000.0) => Err(format!("{fps} frames per second")),
            _ => Ok(()),
        }
    }

    fn output(&self, _before: Form) -> Result<Form, String> {
        Err("is for a field of videos, not for images; it comes first in its list".to_owned())
    }

    fn draw(&self, _place: &Place, _into: &mut Params) -> Result<(), String> {
        Err("is not for images".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Steady(u64);

    impl Times for Steady {
        fn count(&self) -> u64 {
            self.0
        }
        fn time(&self, frame: u64) -> f64 {
            frame as f64 / 25.0
        }
        fn duration(&self) -> f64 {
            self.0 as f64 / 25.0
        }
    }

    fn clip(frames: u64, stride: u64, policy: ClipPolicy) -> Clip {
        Clip { frames, stride, policy, fps: None, past_end: PastEnd::Repeat, clips: 1 }
    }

    fn chosen(clip: Clip, count: u64) -> Vec<u64> {
        clip.choose(&Steady(count), &mut Draw::new(&[1])).unwrap()
    }

    #[test]
    fn policies_choose_the_clips_they_describe() {
        assert_eq!(chosen(clip(4, 2, ClipPolicy::Start), 100), [0, 2, 4, 6]);
        assert_eq!(chosen(clip(4, 1, ClipPolicy::Uniform), 100), [12, 37, 62, 87]);
        assert_eq!(chosen(clip(1, 30, ClipPolicy::All), 100), [0, 30, 60, 90]);
        assert_eq!(chosen(clip(4, 2, ClipPolicy::Start), 4), [0, 2, 3, 3]);
        let wrapped = Clip { past_end: PastEnd::Wrap, ..clip(4, 2, ClipPolicy::Start) };
        assert_eq!(chosen(wrapped, 4), [0, 2, 0, 2]);
        let refused = Clip { past_end: PastEnd::Error, ..clip(4, 2, ClipPolicy::Start) };
        assert!(refused.choose(&Steady(4), &mut Draw::new(&[1])).is_err());
    }

    #[test]
    fn several_clips_follow_each_other() {
        let three = Clip { clips: 3, ..clip(2, 2, ClipPolicy::Regular) };
        assert_eq!(chosen(three, 21), [0, 2, 9, 11, 18, 20]);
        assert_eq!(chosen(Clip { clips: 1, ..three }, 21), [0, 2]);
        assert_eq!(chosen(Clip { fps: Some(25.0), ..three }, 21), [0, 2, 9, 11, 19, 20]);
        assert_eq!(chosen(three, 1), [0; 6]);
        let random = Clip { policy: ClipPolicy::Random, ..three };
        let frames = chosen(random, 1000);
        assert!(frames.as_chunks::<2>().0.iter().all(|[one, other]| one + 2 == *other));
        assert_eq!(
            chosen(clip(2, 2, ClipPolicy::Random), 1000),
            frames[..2],
            "the first is that of one clip"
        );
        assert!(Clip { policy: ClipPolicy::Uniform, ..three }.check().is_err());
        assert!(Clip { clips: 0, ..three }.check().is_err());
        assert!(Clip { clips: 1 << 20, ..three }.check().is_err());
    }

    #[test]
    fn random_clips_are_inside() {
        let mut starts = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let frames = clip(3, 2, ClipPolicy::Random).choose(&Steady(10), &mut Draw::new(&[seed])).unwrap();
            assert_eq!(frames, [frames[0], frames[0] + 2, frames[0] + 4]);
            starts.insert(frames[0]);
        }
        assert!(starts.into_iter().eq(0..6));
    }

    #[test]
    fn other_rates_choose_by_time() {
        let slow = Clip { fps: Some(5.0), ..clip(4, 1, ClipPolicy::Start) };
        assert_eq!(chosen(slow, 100), [0, 5, 10, 15]);
        let fast = Clip { fps: Some(50.0), ..clip(4, 1, ClipPolicy::Start) };
        assert_eq!(chosen(fast, 100), [0, 0, 1, 1]);
        let all = Clip { fps: Some(5.0), ..clip(1, 1, ClipPolicy::All) };
        assert_eq!(chosen(all, 20), [0, 5, 10, 15]);
    }
}
