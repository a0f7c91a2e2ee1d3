//! The reference.

pub(super) fn spread(source: &[u8], pixels: &mut [u8]) {
    for (pixel, source) in pixels.chunks_exact_mut(4).zip(source.chunks_exact(3)) {
        pixel[..3].copy_from_slice(source);
    }
}

pub(super) fn spread_mirrored(source: &[u8], pixels: &mut [u8]) {
    for (pixel, source) in pixels.chunks_exact_mut(4).rev().zip(source.chunks_exact(3)) {
        pixel[..3].copy_from_slice(source);
    }
}

#[inline(always)]
pub(super) fn mirror(source: &[u8], pixels: &mut [u8]) {
    let (source, _) = source.as_chunks::<4>();
    let (pixels, _) = pixels.as_chunks_mut::<4>();
    for (pixel, source) in pixels.iter_mut().rev().zip(source) {
        *pixel = *source;
    }
}

pub(super) fn mirror_rgb(source: &[u8], pixels: &mut [u8]) {
    for (pixel, source) in pixels.chunks_exact_mut(3).rev().zip(source.chunks_exact(3)) {
        pixel.copy_from_slice(source);
    }
}
