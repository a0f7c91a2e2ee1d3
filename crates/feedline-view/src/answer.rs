//! A question's words → its answer.

use feedline::Dataset;
use serde_json::{Value, json};

use crate::jobs::{self, Jobs};
use crate::query::{Query, Wrong};
use crate::{Site, images, play, recording, sheet};

/// Lines of one question for the grid.
const MOST_LINES: u64 = 500;

/// What goes back.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
    /// What the browser may keep it under.
    pub(crate) tag: Option<String>,
}

impl Answer {
    pub(crate) fn error(status: u16, reason: &str) -> Self {
        let body = json!({ "error": reason }).to_string().into_bytes();
        Answer { status, kind: "application/json", body, tag: None }
    }

    fn json(value: &Value) -> Self {
        Answer { status: 200, kind: "application/json", body: value.to_string().into_bytes(), tag: None }
    }

    fn file(kind: &'static str, body: &str) -> Self {
        Answer { status: 200, kind, body: body.as_bytes().to_vec(), tag: None }
    }

    fn image(kind: &'static str, body: Vec<u8>, tag: String) -> Self {
        Answer { status: 200, kind, body, tag: Some(tag) }
    }
}

/// Everything there is to answer from.
#[derive(Debug)]
pub(crate) struct Page {
    site: Site,
    jobs: Jobs,
}

impl Page {
    pub(crate) fn new(site: Site) -> Self {
        Page { site, jobs: Jobs::default() }
    }

    /// Answers; `sent` is what came with the question, `known` the tag of what the browser has.
    pub(crate) fn answer(
        &self,
        path: &str,
        query: &Query,
        sent: Option<&[u8]>,
        known: Option<&str>,
    ) -> Answer {
        match path {
            "/" => Answer::file("text/html; charset=utf-8", include_str!("page/index.html")),
            "/app.js" => Answer::file("text/javascript; charset=utf-8", include_str!("page/app.js")),
            "/style.css" => Answer::file("text/css; charset=utf-8", include_str!("page/style.css")),
            "/favicon.ico" => Answer { status: 204, kind: "image/x-icon", ..Answer::default() },
            "/thumb" | "/mask" | "/play" | "/playmask" | "/recording" => self.image(path, query, known),
            _ => self.data(path, query, sent).unwrap_or_else(|wrong| Answer::error(400, &wrong)),
        }
    }

    fn set(&self, query: &Query) -> Result<(usize, &Dataset), Wrong> {
        let number = query.number("set", 0)? as usize;
        let found = self.site.sets.get(number).map(|dataset| (number, dataset));
        found.ok_or_else(|| format!("set: there is no data set {number}"))
    }

    fn sample(query: &Query, dataset: &Dataset) -> Result<u64, Wrong> {
        let sample = query.number("index", 0)?;
        if sample < dataset.len() {
            Ok(sample)
        } else {
            Err(format!("index: there are {} samples", dataset.len()))
        }
    }

    fn data(&self, path: &str, query: &Query, sent: Option<&[u8]>) -> Result<Answer, Wrong> {
        let value = match path {
            "/api/live" => match sent {
                Some(sent) => {
                    self.site.live.take(query.number("rank", 0)?, sent)?;
                    json!({})
                }
                None => self.site.live.show(),
            },
            "/api/site" => self.about(),
            "/api/menu" => play::menu(),
            "/api/rows" => self.rows(query)?,
            "/api/count" => {
                let (number, _) = self.set(query)?;
                self.jobs.chosen(&self.site.sets, number, query)?.count()
            }
            "/api/jump" => self.jump(query)?,
            "/api/sample" => {
                let (_, dataset) = self.set(query)?;
                let sample = Self::sample(query, dataset)?;
                let mut sheet = sheet::sheet(dataset, sample);
                sheet["broken"] = json!(jobs::thumbnail_error(dataset, sample));
                sheet
            }
            "/api/summary" => {
                let (number, dataset) = self.set(query)?;
                (*self.jobs.summary(number, dataset)).clone()
            }
            "/api/play" => {
                let (_, dataset) = self.set(query)?;
                Self::sample(query, dataset)?;
                play::drawn(dataset, query)?
            }
            "/api/compare" => match &self.site.sets[..] {
                [one, other, ..] => jobs::compare(one, other),
                _ => return Err("there is only one data set".to_owned()),
            },
            _ => return Ok(Answer::error(404, "there is no such page")),
        };
        Ok(Answer::json(&value))
    }

    fn about(&self) -> Value {
        let sets: Vec<Value> = self.site.sets.iter().map(sheet::about).collect();
        json!({"sets": sets, "live": self.site.live.is_there(), "version": env!("CARGO_PKG_VERSION")})
    }

    fn rows(&self, query: &Query) -> Result<Value, Wrong> {
        let (number, dataset) = self.set(query)?;
        let (from, count) = (query.number("from", 0)?, query.number("count", 100)?.min(MOST_LINES));
        let chosen = self.jobs.chosen(&self.site.sets, number, query)?;
        let lines: Vec<Value> =
            chosen.at(from, count).into_iter().map(|sample| sheet::line(dataset, sample)).collect();
        Ok(json!({"from": from, "rows": lines}))
    }

    /// The position of a sample, or of the first one of a class, among those that a filter chose.
    fn jump(&self, query: &Query) -> Result<Value, Wrong> {
        let (number, dataset) = self.set(query)?;
        let chosen = self.jobs.chosen(&self.site.sets, number, query)?;
        let sample = match query.get("first") {
            Some(class) => {
                let class = class.parse::<i64>().map_err(|_| "first: no number of a class".to_owned())?;
                let found = (0..dataset.len()).find(|sample| sheet::label(dataset, *sample) == Some(class));
                found.ok_or_else(|| format!("no sample is of class {class}"))?
            }
            None => query.number("to", 0)?,
        };
        Ok(json!({"position": chosen.position(sample), "index": sample}))
    }

    fn image(&self, path: &str, query: &Query, known: Option<&str>) -> Answer {
        let made = self.set(query).and_then(|(_, dataset)| {
            let sample = Self::sample(query, dataset)?;
            let tag = format!("\"{}{path}{sample}-{:016x}\"", dataset.fingerprint().to_hex(), hash(query));
            if known == Some(tag.as_str()) {
                return Ok(Answer { status: 304, kind: "image/jpeg", body: Vec::new(), tag: Some(tag) });
            }
            let (kind, body) = draw(path, dataset, sample, query)?;
            Ok(Answer::image(kind, body, tag))
        });
        made.unwrap_or_else(|wrong| Answer::error(422, &wrong))
    }
}

fn draw(path: &str, dataset: &Dataset, sample: u64, query: &Query) -> Result<(&'static str, Vec<u8>), Wrong> {
    if path == "/play" {
        return Ok(("image/jpeg", play::play(dataset, query)?.jpeg));
    }
    if path == "/playmask" {
        return Ok(("image/png", play::mask(dataset, query)?));
    }
    let field = match query.maybe::<usize>("field")? {
        Some(field) if field < dataset.schema().fields.len() => field,
        Some(field) => return Err(format!("field: there is no field {field}")),
        None => sheet::shown_field(dataset, sample).ok_or("the sample has no image, video or sound")?,
    };
    let side = query.number("side", 192)?.min(u64::from(images::MOST_SIDE)) as u32;
    if path == "/recording" {
        return recording::file(dataset, sample, field);
    }
    if path == "/mask" {
        return images::mask_png(dataset, sample, field, side).map(|png| ("image/png", png));
    }
    images::thumbnail(dataset, sample, field, side)
        .map(|jpeg| ("image/jpeg", jpeg))
        .map_err(|e| e.to_string())
}

/// FNV-1a of a question's words.
fn hash(query: &Query) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{query:?}").bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
