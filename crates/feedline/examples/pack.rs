//! Writes a data set as a pack, and a pack from samples that a program makes.
//!
//! `cargo run --release --example pack -- SOURCE DESTINATION`, or with a destination alone
#![expect(clippy::print_stdout, reason = "an example")]

use std::path::Path;

use feedline::field::{FieldSpec, Schema};
use feedline::format::PackWriter;
use feedline::owned::OwnedValue;
use feedline::{Dataset, Kind, PackSettings, Result, Sample};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let samples = match arguments.as_slice() {
        [destination] => write_own(Path::new(destination), 1000)?,
        [source, destination] => run(source, Path::new(destination))?,
        _ => panic!("usage: pack [SOURCE] DESTINATION"),
    };
    println!("{samples} samples");
    Ok(())
}

/// Packs whatever `source` holds: original bytes, with an index that lets the loader decode parts of an image.
pub(crate) fn run(source: &str, destination: &Path) -> Result<u64> {
    let dataset = Dataset::open(source)?;
    let options = PackSettings::default().options()?;
    let report = feedline::pack(&**dataset.format(), destination, &options, &())?;
    Ok(report.samples)
}

/// Packs samples that exist nowhere else.
pub(crate) fn write_own(destination: &Path, count: i64) -> Result<u64> {
    let fields = vec![FieldSpec::new("text", Kind::Text), FieldSpec::new("label", Kind::Int)];
    let schema = Schema { fields, classes: Some(vec!["even".to_owned(), "odd".to_owned()]) };
    let mut writer = PackWriter::create(destination, schema, PackSettings::default().options()?)?;
    for number in 0..count {
        let text = OwnedValue::Text(format!("number {number}"));
        writer.push(&Sample::new([("text", text), ("label", OwnedValue::Int(number % 2))]))?;
    }
    Ok(writer.finish()?.samples)
}
