//! 2,000 batches with early breaks, held batches and bad samples, for a leak checker. `tools/leaks.sh` runs it.

use feedline::{Dataset, Loader, LoaderOptions, OnError, Shuffle, Transform};
use feedline_pixels::{Size, turbo};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    for number in 0..24u32 {
        let size = Size::new(24 + number % 5, 20);
        let pixels: Vec<u8> = (0..size.area() * 3).map(|i| (i * u64::from(number + 3) % 251) as u8).collect();
        let mut bytes = turbo::encode(&pixels, &turbo::Encoding::baseline(size, 3, 80, (1, 1)))?;
        if number == 7 {
            bytes.truncate(40);
        }
        std::fs::write(folder.path().join(format!("{number:02}.jpg")), bytes)?;
    }
    let dataset = Dataset::open(folder.path().to_string_lossy())?;
    let (mut batches, mut epoch) = (0, 0);
    while batches < 2000 {
        let options = LoaderOptions::default()
            .with_batch_size(4)
            .with_num_workers(2)
            .with_shuffle(Shuffle::Full)
            .with_on_error(if epoch % 2 == 0 { OnError::Skip } else { OnError::Replace })
            .with_max_errors(1_000_000)
            .with_persistent_workers(epoch % 3 == 0)
            .with_transforms(
                "image",
                vec![Transform::random_resized_crop(16), Transform::normalize_imagenet()],
            );
        let loader = Loader::new(dataset.clone(), options)?;
        let mut kept = Vec::new();
        for _ in 0..20 {
            epoch += 1;
            // Break at a different place each time, now and then not at all.
            for batch in loader.epoch(epoch)?.take((epoch % 8) as usize) {
                kept.push(batch?);
                batches += 1;
            }
            kept.truncate(3);
        }
    }
    Ok(())
}
