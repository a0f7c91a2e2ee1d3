//! Single videos: an index of their frames, and frames by number.

pub use feedline_video::*;
