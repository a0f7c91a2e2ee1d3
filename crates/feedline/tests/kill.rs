//! `kill -9` at random moments of a pack run, then resume: the result is the same bytes as an undisturbed run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::format::{EncodedImage, ImageEncoder, ImageInput, KeepImages, PackOptions, verify};
use feedline::{Dataset, pack};

const HELPER: &str = "FEEDLINE_PACK_HELPER";
const ROUNDS: u64 = 24;

/// Slow enough that kills interrupt the work.
#[derive(Debug)]
struct Slow(KeepImages);

impl ImageEncoder for Slow {
    fn name(&self) -> String {
        "slow".to_owned()
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        std::thread::sleep(Duration::from_micros(300));
        self.0.encode(input, out)
    }
}

fn options(workers: usize) -> PackOptions {
    let image = Arc::new(Slow(KeepImages::default()));
    PackOptions { image, part_bytes: Some(60_000), workers, ..PackOptions::default() }
}

fn run(source: &str, destination: &Path, workers: usize) {
    let dataset = Dataset::open(source).unwrap();
    pack(&**dataset.format(), destination, &options(workers), &()).unwrap();
}

/// Not a test of its own: the process that the test below starts and kills.
#[test]
fn helper() {
    let Ok(arguments) = std::env::var(HELPER) else { return };
    let (source, destination) = arguments.split_once('\n').expect("two lines");
    run(source, Path::new(destination), 2);
}

fn start(source: &str, destination: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::helper", "--nocapture"])
        .env(HELPER, format!("{source}\n{}", destination.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries.map(|p| (p.file_name().unwrap().display().to_string(), std::fs::read(&p).unwrap())).collect()
}

#[test]
fn a_pack_killed_anywhere_resumes_to_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("photos");
    for number in 0..240usize {
        let path = source.join(format!("class{}/{number:03}.jpg", number % 7));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, (0..2000 + number * 37).map(|i| (i * 7 + number) as u8).collect::<Vec<_>>())
            .unwrap();
    }
    let source = source.display().to_string();
    let undisturbed = root.path().join("undisturbed");
    let began = Instant::now();
    assert!(start(&source, &undisturbed).wait().unwrap().success());
    let whole = began.elapsed();
    let expected = content(&undisturbed);
    assert!(expected.len() > 10, "several parts");

    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as f64 / f64::from(1u32 << 31)
    };
    let (mut unfinished, mut parts_kept) = (0, 0);
    for round in 0..ROUNDS {
        let destination = root.path().join(format!("round{round}"));
        // Some rounds are killed twice: a resumed run can die as well.
        for _ in 0..=round % 2 {
            let mut child = start(&source, &destination);
            std::thread::sleep(whole.mul_f64(random()));
            child.kill().unwrap();
            child.wait().unwrap();
            let left = if destination.exists() { content(&destination) } else { BTreeMap::new() };
            if left.contains_key("feedline.json") {
                let manifest = &expected["feedline.json"];
                assert!(left["feedline.json"] == *manifest, "a manifest that is there is right");
                assert!(verify(&destination, 1, &()).unwrap().is_intact());
            } else {
                unfinished += 1;
                parts_kept += left.keys().filter(|n| n.starts_with("part-")).count();
                assert!(Dataset::open(destination.display().to_string()).is_err(), "unfinished is no pack");
            }
        }
        run(&source, &destination, 1 + round as usize % 3);
        assert!(content(&destination) == expected, "round {round}: the bytes differ");
    }
    assert!(unfinished >= 5, "kills landed before the end {unfinished} times");
    assert!(parts_kept > 0, "some parts were finished when the kill came");
}
