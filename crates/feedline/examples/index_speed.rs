//! How fast WebDataset shards are indexed. `index_speed FOLDER [SAMPLES] [BYTES] [SHARDS]` makes (once) a set of small
//! synthetic samples (`jpg` of about BYTES and `cls`), then opens it without a saved index and with one.
//!
//! Run it twice, the second time after dropping the page cache, to see the disk rather than memory.
#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use feedline::format::ReadingOptions;
use feedline::{Dataset, OpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(arguments.first().ok_or("give a folder")?);
    let number = |at: usize, usual: u64| arguments.get(at).map_or(Ok(usual), |text| text.parse());
    let (samples, bytes, shards) = (number(1, 1_000_000)?, number(2, 1000)?, number(3, 100)?);
    let data = folder.join(format!("{samples}-of-{bytes}-in-{shards}"));
    if !data.exists() {
        write(&data, samples, bytes, shards)?;
    }
    let tar: u64 =
        std::fs::read_dir(&data)?.map(|e| Ok(e?.metadata()?.len())).sum::<std::io::Result<u64>>()?;
    let index = folder.join("index");
    let _ = std::fs::remove_dir_all(&index);
    for run in ["without a saved index", "with", "with"] {
        let reading = ReadingOptions { index_dir: Some(index.clone()), ..ReadingOptions::default() };
        let options = OpenOptions { reading, ..OpenOptions::default() };
        let start = Instant::now();
        let set = Dataset::open_all(&[data.display().to_string()], &options)?;
        let took = start.elapsed();
        set.get(set.len() - 1)?;
        println!(
            "{run}: {} samples, {:.2} GB of tar in {took:?} ({:.2} GB/s), a sample after {:?}",
            set.len(),
            tar as f64 / 1e9,
            tar as f64 / 1e9 / took.as_secs_f64(),
            start.elapsed()
        );
    }
    Ok(())
}

fn write(data: &Path, samples: u64, bytes: u64, shards: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(data)?;
    let noise: Vec<u8> = (0..bytes * 2).map(|i| ((i * 2_654_435_761) >> 13) as u8).collect();
    for shard in 0..shards {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(data.join(format!("{shard:06}.tar")))?);
        for sample in (0..samples).filter(|n| n * shards / samples == shard) {
            let length = (bytes / 2 + sample * 7919 % bytes.max(1)) as usize;
            member(&mut out, &format!("{sample:09}.cls"), (sample % 1000).to_string().as_bytes())?;
            member(&mut out, &format!("{sample:09}.jpg"), &noise[..length])?;
        }
        out.write_all(&[0; 1024])?;
        // No index is saved of shards written just now, because they may still change.
        out.into_inner()?.set_modified(SystemTime::now() - Duration::from_secs(60))?;
    }
    Ok(())
}

fn member(out: &mut impl Write, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    block[148..156].copy_from_slice(b"        ");
    block[156] = b'0';
    block[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    out.write_all(&block)?;
    out.write_all(bytes)?;
    out.write_all(&[0; 512][..(512 - bytes.len() % 512) % 512])
}
