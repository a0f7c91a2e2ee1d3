//! Writing packs: the same bytes whoever writes, what is refused, and what damage is found.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline::format::{
    EncodedImage, ImageEncoder, ImageInput, OnPackError, PackOptions, PackWriter, Progress, commit_pack,
    plan_pack, verify, write_part,
};
use feedline::owned::OwnedValue;
use feedline::{Dataset, Error, Sample, pack};

struct Photos {
    root: tempfile::TempDir,
}

impl Photos {
    fn new(count: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        for number in 0..count {
            let path = root.path().join(format!("photos/c{}/{number:03}.jpg", number % 3));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, (0..900 + number * 13).map(|i| (i * number) as u8).collect::<Vec<_>>())
                .unwrap();
        }
        Photos { root }
    }

    fn open(&self) -> Dataset {
        Dataset::open(self.path("photos").display().to_string()).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn pack(&self, name: &str, options: &PackOptions) -> feedline::Result<feedline::format::PackReport> {
        pack(&**self.open().format(), self.path(name), options, &())
    }
}

fn small() -> PackOptions {
    PackOptions { part_bytes: Some(8000), workers: 2, ..PackOptions::default() }
}

fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries.map(|p| (p.file_name().unwrap().display().to_string(), std::fs::read(&p).unwrap())).collect()
}

#[test]
fn the_number_of_workers_changes_no_byte_and_samples_round_trip() {
    let photos = Photos::new(40);
    for workers in 1..=4 {
        photos.pack(&format!("p{workers}"), &PackOptions { workers, ..small() }).unwrap();
        assert!(content(&photos.path("p1")) == content(&photos.path(&format!("p{workers}"))));
    }
    let (source, packed) = (photos.open(), Dataset::open(photos.path("p1").display().to_string()).unwrap());
    assert_eq!(source.classes(), packed.classes());
    for sample in 0..source.len() {
        let (a, b) = (source.get(sample).unwrap(), packed.get(sample).unwrap());
        assert_eq!((a.get("label"), a.get("path")), (b.get("label"), b.get("path")));
        let bytes = |s: &Sample| match s.get("image") {
            Some(OwnedValue::Image { bytes, .. }) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes(&a), bytes(&b));
    }
}

#[test]
fn the_fingerprint_depends_on_the_content_only() {
    let photos = Photos::new(20);
    let one = photos.pack("one", &small()).unwrap();
    let other = photos.pack("other", &PackOptions { part_bytes: Some(3000), ..small() }).unwrap();
    assert_ne!(one.parts, other.parts);
    assert_eq!(one.fingerprint, other.fingerprint);
    let changed = photos.path("photos/c1/001.jpg");
    let mut bytes = std::fs::read(&changed).unwrap();
    bytes[5] ^= 1;
    std::fs::write(changed, bytes).unwrap();
    assert_ne!(photos.pack("third", &small()).unwrap().fingerprint, one.fingerprint);
}

#[test]
fn plan_parts_and_commit_equal_one_call() {
    let photos = Photos::new(20);
    photos.pack("driver", &small()).unwrap();
    let (source, options) = (photos.open(), small());
    let plan = plan_pack(&**source.format(), &options).unwrap();
    // As it would travel to another machine.
    let plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    let folder = photos.path("steps");
    std::fs::create_dir(&folder).unwrap();
    let early = commit_pack(&plan, &folder).unwrap_err().to_string();
    assert!(early.contains("part-000000.fl"), "{early}");
    for part in (0..plan.parts()).rev().chain([0]) {
        write_part(&plan, &**source.format(), &options, part, &folder, &()).unwrap();
    }
    commit_pack(&plan, &folder).unwrap();
    assert!(content(&folder) == content(&photos.path("driver")));
}

#[test]
fn a_damaged_finished_part_is_written_again_on_resume() {
    let photos = Photos::new(20);
    photos.pack("good", &small()).unwrap();
    let expected = content(&photos.path("good"));
    let (source, options, folder) = (photos.open(), small(), photos.path("resumed"));
    let plan = plan_pack(&**source.format(), &options).unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("feedline-plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
    std::fs::write(folder.join("part-000001.fl"), &expected["part-000001.fl"][..5000]).unwrap();
    std::fs::write(folder.join(".part-000002.fl.99-1.tmp"), b"half").unwrap();
    photos.pack("resumed", &options).unwrap();
    assert!(content(&folder) == expected);
}

#[test]
fn folders_that_are_not_packs_are_not_touched() {
    let photos = Photos::new(12);
    let foreign = photos.path("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.tex"), b"do not lose").unwrap();
    for overwrite in [false, true] {
        let error = photos.pack("foreign", &PackOptions { overwrite, ..small() }).unwrap_err().to_string();
        assert!(error.contains("thesis.tex"), "{error}");
    }
    assert_eq!(content(&foreign).len(), 1);

    photos.pack("done", &small()).unwrap();
    let before = content(&photos.path("done"));
    let again = photos.pack("done", &small()).unwrap();
    assert_eq!((again.samples, content(&photos.path("done")) == before), (12, true));
    let different = PackOptions { part_bytes: Some(2000), ..small() };
    let error = photos.pack("done", &different).unwrap_err().to_string();
    assert!(error.contains("finished pack") && error.contains("overwrite"), "{error}");
    assert!(content(&photos.path("done")) == before);
    photos.pack("done", &PackOptions { overwrite: true, ..different }).unwrap();
    assert!(content(&photos.path("done")).len() > before.len());
}

#[test]
fn a_pack_never_replaces_its_own_source() {
    let photos = Photos::new(6);
    let inside = photos.pack("photos/packed", &small()).unwrap_err().to_string();
    assert!(inside.contains("the source itself"), "{inside}");
    assert!(!photos.path("photos/packed").exists());
    photos.pack("p", &small()).unwrap();
    let packed = Dataset::open(photos.path("p").display().to_string()).unwrap();
    let options = PackOptions { overwrite: true, part_bytes: Some(100), ..small() };
    assert!(pack(&**packed.format(), photos.path("photos/../p"), &options, &()).is_err());
    assert!(verify(photos.path("p"), 1, &()).unwrap().is_intact());
    // From pack to pack the content stays what it is.
    let copy = pack(&**packed.format(), photos.path("q"), &options, &()).unwrap();
    assert_eq!(copy.fingerprint, packed.fingerprint());
}

#[test]
fn an_unfinished_pack_with_other_options_is_refused() {
    let photos = Photos::new(12);
    photos.pack("p", &small()).unwrap();
    std::fs::remove_file(photos.path("p/feedline.json")).unwrap();
    let other = PackOptions { part_bytes: Some(2000), ..small() };
    let error = photos.pack("p", &other).unwrap_err().to_string();
    assert!(error.contains("unfinished"), "{error}");
    photos.pack("p", &PackOptions { resume: false, ..other }).unwrap();
    assert!(verify(photos.path("p"), 0, &()).unwrap().is_intact());
}

#[derive(Debug)]
struct Picky;

impl ImageEncoder for Picky {
    fn name(&self) -> String {
        "picky".to_owned()
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        *out = EncodedImage { meta: input.meta, ..EncodedImage::default() };
        if input.bytes.len().is_multiple_of(5) { Err("I do not like it".to_owned()) } else { Ok(()) }
    }
}

#[test]
fn bad_samples_stop_the_pack_or_are_listed() {
    let photos = Photos::new(30);
    let picky = PackOptions { image: Arc::new(Picky), ..small() };
    let error = photos.pack("raise", &picky).unwrap_err();
    let place = error.location().unwrap().clone();
    assert!(place.sample.is_some() && place.shard.unwrap().contains(".jpg"), "{error}");
    let skip = PackOptions { on_error: OnPackError::Skip, ..picky };
    let report = photos.pack("skip", &skip).unwrap();
    assert_eq!((report.samples, report.skipped_count), (24, 6));
    assert!(report.skipped.iter().all(|s| s.reason.contains("I do not like it")));
    photos.pack("skip2", &PackOptions { workers: 1, ..skip }).unwrap();
    assert!(content(&photos.path("skip")) == content(&photos.path("skip2")));
    assert!(verify(photos.path("skip"), 0, &()).unwrap().is_intact());
}

#[derive(Default)]
struct StopAt(AtomicU64);

impl Progress for StopAt {
    fn update(&self, samples: u64, _: u64, total: u64) -> ControlFlow<()> {
        assert_eq!(total, 30);
        self.0.fetch_max(samples, Ordering::Relaxed);
        if samples >= 15 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn progress_can_stop_and_the_rest_resumes() {
    let photos = Photos::new(30);
    let source = photos.open();
    let watcher = StopAt::default();
    let stopped = pack(&**source.format(), photos.path("p"), &small(), &watcher);
    assert!(matches!(stopped, Err(Error::Closed(_))), "{stopped:?}");
    assert!(watcher.0.load(Ordering::Relaxed) >= 15);
    photos.pack("p", &small()).unwrap();
    photos.pack("q", &small()).unwrap();
    assert!(content(&photos.path("p")) == content(&photos.path("q")));
}

#[test]
fn verify_and_loading_name_the_damage() {
    let photos = Photos::new(30);
    photos.pack("p", &small()).unwrap();
    let folder = photos.path("p");
    let intact = content(&folder);
    let names: Vec<_> = intact.keys().filter(|n| n.starts_with("part-")).cloned().collect();
    let damage = || verify(&folder, 2, &()).unwrap().damage;
    assert!(damage().is_empty());
    let restore = |name: &str| std::fs::write(folder.join(name), &intact[name]).unwrap();

    // One flipped bit in a sample: that sample, that field, that place.
    let mut bytes = intact[&names[1]].clone();
    bytes[1500] ^= 4;
    std::fs::write(folder.join(&names[1]), &bytes).unwrap();
    let found = damage();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].file.as_str(), found[0].field.as_deref()), (names[1].as_str(), Some("image")));
    let sample = found[0].sample.unwrap();
    let dataset = Dataset::open(folder.display().to_string()).unwrap();
    let error = dataset.get(sample).unwrap_err().to_string();
    assert!(error.contains(&names[1]) && error.contains("checksum"), "{error}");
    assert!((0..dataset.len()).filter(|s| *s != sample).all(|s| dataset.get(s).is_ok()));
    restore(&names[1]);

    // Truncated, missing, extra.
    std::fs::write(folder.join(&names[0]), &intact[&names[0]][..3000]).unwrap();
    let found = damage();
    assert!(found.iter().all(|d| d.file == names[0]) && found[0].reason.contains("bytes long"), "{found:?}");
    let error = Dataset::open(folder.display().to_string()).unwrap().get(0).unwrap_err().to_string();
    assert!(error.contains(&names[0]) && error.contains("truncated"), "{error}");
    std::fs::remove_file(folder.join(&names[0])).unwrap();
    assert_eq!(damage().len(), 1);
    restore(&names[0]);
    std::fs::write(folder.join("part-000999.fl"), b"").unwrap();
    assert!(damage()[0].file == "part-000999.fl");
    std::fs::remove_file(folder.join("part-000999.fl")).unwrap();

    // Two parts that changed places are both wrong.
    std::fs::write(folder.join(&names[0]), &intact[&names[1]]).unwrap();
    std::fs::write(folder.join(&names[1]), &intact[&names[0]]).unwrap();
    let found = damage();
    assert!(names[..2].iter().all(|n| found.iter().any(|d| d.file == *n)), "{found:?}");
}

#[test]
fn samples_can_come_from_a_program() {
    let root = tempfile::tempdir().unwrap();
    let sample = |n: i64| {
        Sample::new([("text", OwnedValue::Text("x".repeat(n as usize))), ("label", OwnedValue::Int(n))])
    };
    let options = PackOptions { part_bytes: Some(1000), ..PackOptions::default() };
    let path = root.path().join("p");
    // An interrupted run leaves parts and no manifest; the next one starts from the beginning.
    let mut first = PackWriter::create(&path, sample(0).schema().unwrap(), options.clone()).unwrap();
    (0..50).for_each(|n| first.push(&sample(n)).unwrap());
    let busy = PackWriter::create(&path, sample(0).schema().unwrap(), options.clone()).unwrap_err();
    assert!(busy.to_string().contains("another process"), "{busy}");
    drop(first);
    assert!(Dataset::open(path.display().to_string()).is_err());
    let mut writer = PackWriter::create(&path, sample(0).schema().unwrap(), options.clone()).unwrap();
    (0..100).for_each(|n| writer.push(&sample(n)).unwrap());
    let wrong = Sample::new([("text", OwnedValue::Int(1)), ("label", OwnedValue::Int(1))]);
    assert!(writer.push(&wrong).unwrap_err().to_string().contains("'text' is Int here but Text"));
    let lacking = Sample::new([("label", OwnedValue::Int(1))]);
    assert!(writer.push(&lacking).unwrap_err().to_string().contains("lacks it"));
    assert_eq!(writer.finish().unwrap().samples, 100);
    let dataset = Dataset::open(path.display().to_string()).unwrap();
    assert!((0..100).all(|n| dataset.get(n).unwrap() == sample(n as i64)));
    assert!(PackWriter::create(&path, sample(0).schema().unwrap(), options).is_err(), "finished packs stay");
}

const FULL: &str = "FEEDLINE_FULL_DISK";

/// Not a test of its own: runs below a limit on file size.
#[test]
fn full_disk_helper() {
    let Ok(arguments) = std::env::var(FULL) else { return };
    let (source, destination) = arguments.split_once('\n').expect("two lines");
    let dataset = Dataset::open(source).unwrap();
    let options = PackOptions { part_bytes: Some(1 << 20), workers: 1, ..PackOptions::default() };
    let error = pack(&**dataset.format(), destination, &options, &()).unwrap_err().to_string();
    assert!(error.contains("part-000000.fl"), "{error}");
}

/// A write that fails in the middle (here: over a size limit, in effect the same as a full disk) is an error, leaves
/// nothing half-written, and can be resumed.
#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let (source, destination) = (root.path().join("photos"), root.path().join("p"));
    std::fs::create_dir(&source).unwrap();
    for number in 0..4 {
        std::fs::write(source.join(format!("{number}.jpg")), vec![number; 400_000]).unwrap();
    }
    let program = std::env::current_exe().unwrap();
    let script =
        format!("trap '' XFSZ; ulimit -f 500; exec '{}' --exact pack::full_disk_helper", program.display());
    let status = Command::new("sh")
        .args(["-c", &script])
        .env(FULL, format!("{}\n{}", source.display(), destination.display()))
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    assert_eq!(content(&destination).keys().collect::<Vec<_>>(), ["feedline-plan.json"]);
    let dataset = Dataset::open(source.display().to_string()).unwrap();
    let options = PackOptions { part_bytes: Some(1 << 20), ..PackOptions::default() };
    assert_eq!(pack(&**dataset.format(), &destination, &options, &()).unwrap().samples, 4);
}
