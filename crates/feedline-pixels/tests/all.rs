//! Pixels from outside. One program: each would be optimised and linked by itself.

mod compact;
mod dct;
mod decode;
mod golden;
mod hostile;
mod jpeg;
mod progressive;
mod render;
mod turbo_pixels;
