//! A data set in one HTML file that needs nothing else.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use feedline::Dataset;
use serde_json::Value;

use crate::jobs::Jobs;
use crate::{images, sheet};

/// Bars and dots that a report draws.
const MOST_CLASSES: usize = 40;

/// The page: facts, classes, sizes, and `samples` samples spread over the data set.
pub fn report(dataset: &Dataset, samples: u64) -> String {
    let summary = Jobs::default().summary(0, dataset);
    let mut page = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width\">");
    let _ = write!(page, "<title>{}</title><style>{STYLE}</style>", text(dataset.uri()));
    let _ = write!(page, "<h1>{}</h1>", text(dataset.uri()));
    page.push_str(&facts(dataset));
    page.push_str(&classes(dataset, &summary["classes"]));
    page.push_str(&sizes(&summary["sizes"]));
    page.push_str(&grid(dataset, samples));
    page.push_str("</html>\n");
    page
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;\
    background:Canvas;color:CanvasText;color-scheme:light dark}table{border-collapse:collapse}td,th{text-align:left;\
    padding:.2rem .8rem .2rem 0;vertical-align:top}.grid{display:grid;gap:.5rem;\
    grid-template-columns:repeat(auto-fill,minmax(9rem,1fr))}figure{margin:0}figure img{width:100%;aspect-ratio:1;\
    object-fit:cover;border-radius:4px}figcaption{font-size:12px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}\
    .bad{border:2px solid #c33;border-radius:4px;padding:.5rem;font-size:12px;overflow-wrap:anywhere}svg text{fill:currentColor}";

/// A text that means nothing but itself.
pub(crate) fn text(words: &str) -> String {
    let escaped = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        c if c.is_control() => " ".to_owned(),
        c => c.to_string(),
    };
    words.chars().map(escaped).collect()
}

fn facts(dataset: &Dataset) -> String {
    let fields: Vec<String> = dataset
        .schema()
        .fields
        .iter()
        .map(|field| format!("{} ({})", field.name, field.kind.name()))
        .collect();
    let rows = [
        ("format", dataset.format_name().to_owned()),
        ("samples", dataset.len().to_string()),
        ("fields", fields.join(", ")),
        ("classes", dataset.classes().map_or("-".to_owned(), |names| names.len().to_string())),
        ("fingerprint", dataset.fingerprint().to_hex()),
    ];
    let row = |(name, value): &(&str, String)| format!("<tr><th>{name}<td>{}", text(value));
    format!("<table>{}</table>", rows.iter().map(row).collect::<String>())
}

fn classes(dataset: &Dataset, counts: &Value) -> String {
    let mut counts: Vec<(i64, u64)> = serde_json::from_value(counts.clone()).unwrap_or_default();
    if counts.is_empty() {
        return String::new();
    }
    counts.sort_by_key(|(class, count)| (std::cmp::Reverse(*count), *class));
    let most = counts[0].1.max(1);
    let mut page =
        format!("<h2>Classes</h2><svg width=\"100%\" height=\"{}\">", 20 * counts.len().min(MOST_CLASSES));
    for (row, (class, count)) in counts.iter().take(MOST_CLASSES).enumerate() {
        let name = dataset.classes().and_then(|names| names.get(usize::try_from(*class).ok()?));
        let name = text(name.map_or(&class.to_string(), |name| name));
        let (y, width) = (20 * row, 60.0 * *count as f64 / most as f64);
        let _ = write!(page, "<text x=\"0\" y=\"{}\" font-size=\"13\">{name}</text>", y + 14);
        let _ = write!(
            page,
            "<rect x=\"25%\" y=\"{}\" width=\"{width:.2}%\" height=\"14\" fill=\"#4a7fc1\"/>",
            y + 3
        );
        let _ =
            write!(page, "<text x=\"{:.2}%\" y=\"{}\" font-size=\"12\">{count}</text>", 26.0 + width, y + 14);
    }
    page + "</svg>"
}

fn sizes(dots: &Value) -> String {
    let dots: Vec<(u64, u32, u32)> = serde_json::from_value(dots.clone()).unwrap_or_default();
    let Some(most) = dots.iter().map(|(_, height, width)| (*height).max(*width)).max() else {
        return String::new();
    };
    let mut page = format!("<h2>Sizes</h2><p>width to the right, height upwards, to {most} pixels</p>");
    page.push_str(
        "<svg width=\"320\" height=\"320\" viewBox=\"0 0 320 320\"><rect width=\"320\" height=\"320\" \
                   fill=\"none\" stroke=\"currentColor\" opacity=\".3\"/>",
    );
    let scale = 310.0 / f64::from(most.max(1));
    for (_, height, width) in dots {
        let (x, y) = (f64::from(width) * scale, 320.0 - f64::from(height) * scale);
        let _ = write!(page, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"#4a7fc1\" opacity=\".4\"/>");
    }
    page + "</svg>"
}

fn grid(dataset: &Dataset, samples: u64) -> String {
    let Some(field) = sheet::shown_field(dataset, 0) else { return String::new() };
    let step = dataset.len().div_ceil(samples.max(1)).max(1);
    let mut page = String::from("<h2>Samples</h2><div class=\"grid\">");
    for sample in (0..dataset.len()).step_by(step as usize) {
        let line = sheet::line(dataset, sample);
        let class = line["class"].as_str().map(text);
        let class = class
            .or_else(|| sheet::label(dataset, sample).map(|label| label.to_string()))
            .unwrap_or_default();
        match images::thumbnail(dataset, sample, field, 192) {
            Ok(jpeg) => {
                let data = STANDARD.encode(jpeg);
                let _ = write!(
                    page,
                    "<figure><img alt=\"sample {sample}\" src=\"data:image/jpeg;base64,{data}\">"
                );
                let _ = write!(page, "<figcaption>{sample} {class}</figcaption></figure>");
            }
            Err(error) => {
                let reason = text(&error.to_string());
                let _ = write!(page, "<figure class=\"bad\">{sample} cannot be shown: {reason}</figure>");
            }
        }
    }
    page + "</div>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(text("<b a='\"'>&\n"), "&lt;b a=&#39;&quot;&#39;&gt;&amp; ");
    }
}
