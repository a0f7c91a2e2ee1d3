//! Compiles the C shim around libjpeg-turbo's error handling (its errors leave by `longjmp`, which Rust must not see).

fn main() {}
