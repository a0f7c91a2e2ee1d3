//! Filters and summaries: they look at every sample, so they run in threads and are asked how far they are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use feedline::Dataset;
use feedline::owned::OwnedValue;
use serde_json::{Value, json};

use crate::query::{Query, Wrong};
use crate::{images, sheet};

/// Words of a question that are part of a filter.
pub(crate) const WORDS: [&str; 8] = ["class", "min", "max", "field", "text", "bad", "check", "differ"];

/// Filters kept; older ones are stopped and forgotten.
const KEPT: usize = 6;

/// Filters that run at once.
const RUNNING: usize = 2;

/// A question waits so long for a filter that is nearly done.
const LONGEST_WAIT: Duration = Duration::from_millis(120);

/// Dots in the scatter of sizes.
const DOTS: u64 = 3000;

/// Where nothing is known without reading, summaries look at this many samples.
const READ: u64 = 2000;

/// What to look for.
#[derive(Clone, Debug, Default, PartialEq)]
struct Filter {
    class: Option<i64>,
    smallest: Option<u32>,
    largest: Option<u32>,
    field: Option<usize>,
    text: Option<String>,
    bad: bool,
    /// Numbers of the two data sets to be compared.
    differ: bool,
}

impl Filter {
    fn new(query: &Query, dataset: &Dataset) -> Result<Self, Wrong> {
        let class = query.get("class").map(|text| class(dataset, text)).transpose()?;
        let named = |name: &str| {
            let found = dataset.schema().position(name);
            found.ok_or_else(|| format!("field: there is no {name:?}"))
        };
        Ok(Filter {
            class,
            smallest: query.maybe("min")?,
            largest: query.maybe("max")?,
            field: query.get("field").map(named).transpose()?,
            text: query.get("text").map(str::to_lowercase),
            bad: query.get("bad").is_some(),
            differ: query.get("differ").is_some(),
        })
    }

    fn fits(&self, dataset: &Dataset, other: Option<&Dataset>, sample: u64) -> bool {
        self.class.is_none_or(|class| sheet::label(dataset, sample) == Some(class))
            && self.fits_size(dataset, sample)
            && self.text.as_deref().is_none_or(|text| self.has_text(dataset, sample, text))
            && (!self.bad || is_bad(dataset, sample))
            && (!self.differ || other.is_some_and(|other| differ(dataset, other, sample)))
    }

    fn fits_size(&self, dataset: &Dataset, sample: u64) -> bool {
        if self.smallest.is_none() && self.largest.is_none() {
            return true;
        }
        let Some((height, width)) = sheet::size(dataset, sample) else { return false };
        let shorter = height.min(width);
        self.smallest.is_none_or(|least| shorter >= least) && self.largest.is_none_or(|most| shorter <= most)
    }

    fn has_text(&self, dataset: &Dataset, sample: u64, wanted: &str) -> bool {
        let fields = match self.field {
            Some(field) => field..field + 1,
            None => 0..dataset.schema().fields.len(),
        };
        fields.into_iter().any(|field| match dataset.get_field(sample, field) {
            Ok(OwnedValue::Text(text) | OwnedValue::Json(text)) => text.to_lowercase().contains(wanted),
            Ok(OwnedValue::Int(number)) => number.to_string() == wanted,
            Ok(OwnedValue::Float(number)) => number.to_string() == wanted,
            _ => false,
        })
    }
}

/// A class by its number or its name.
fn class(dataset: &Dataset, text: &str) -> Result<i64, Wrong> {
    let named = dataset.classes().and_then(|names| names.iter().position(|name| name == text));
    let number = named.map(|place| place as i64).or_else(|| text.parse().ok());
    number.ok_or_else(|| format!("class: there is none called {text:?}"))
}

/// Whether a sample cannot be read, or an image of it cannot be decoded.
pub(crate) fn is_bad(dataset: &Dataset, sample: u64) -> bool {
    let Ok(found) = dataset.get(sample) else { return true };
    found.fields.iter().any(|(_, value)| match value {
        OwnedValue::Image { bytes, index, meta } => {
            feedline::encode::decode_image(bytes, index, *meta).is_err()
        }
        _ => false,
    })
}

/// Whether two data sets have other values under one number. Images are compared by their pixels, so that encodings do
/// not count.
pub(crate) fn differ(one: &Dataset, other: &Dataset, sample: u64) -> bool {
    if sample >= other.len() {
        return true;
    }
    match (one.get(sample), other.get(sample)) {
        (Ok(a), Ok(b)) => {
            a.fields.len() != b.fields.len()
                || a.fields.iter().any(|(name, value)| b.get(name).is_none_or(|there| !same(value, there)))
        }
        (Err(_), Err(_)) => false,
        _ => true,
    }
}

fn same(one: &OwnedValue, other: &OwnedValue) -> bool {
    if one == other {
        return true;
    }
    let pixels = |value: &OwnedValue| match value {
        OwnedValue::Image { bytes, index, meta } => feedline::encode::decode_image(bytes, index, *meta).ok(),
        _ => None,
    };
    matches!((pixels(one), pixels(other)), (Some(a), Some(b)) if a == b)
}

/// One filter over one data set.
#[derive(Debug)]
pub(crate) struct Job {
    found: Mutex<Vec<u32>>,
    examined: AtomicU64,
    of: u64,
    stopped: AtomicBool,
    done: (Mutex<bool>, Condvar),
}

impl Job {
    fn new(of: u64) -> Self {
        Job {
            found: Mutex::default(),
            examined: AtomicU64::new(0),
            of,
            stopped: AtomicBool::new(false),
            done: (Mutex::new(false), Condvar::new()),
        }
    }

    fn run(&self, dataset: &Dataset, other: Option<&Dataset>, filter: &Filter) {
        for sample in 0..self.of {
            if self.stopped.load(Ordering::Relaxed) {
                break;
            }
            if filter.fits(dataset, other, sample) {
                lock(&self.found).push(sample as u32);
            }
            self.examined.store(sample + 1, Ordering::Relaxed);
        }
        *lock(&self.done.0) = true;
        self.done.1.notify_all();
    }

    /// Waits a little while for the end, or until there is something from position `from` on.
    fn wait(&self, enough: usize) {
        let deadline = Instant::now() + LONGEST_WAIT;
        let mut done = lock(&self.done.0);
        while !*done && lock(&self.found).len() < enough {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let turn = left.min(Duration::from_millis(10));
            done = self.done.1.wait_timeout(done, turn).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which samples a page shows: all, or those a filter found.
#[derive(Debug)]
pub(crate) enum Chosen {
    All(u64),
    Some(Arc<Job>),
}

impl Chosen {
    /// Samples at these positions.
    pub(crate) fn at(&self, from: u64, count: u64) -> Vec<u64> {
        match self {
            Chosen::All(length) => (from..from.saturating_add(count).min(*length)).collect(),
            Chosen::Some(job) => {
                job.wait((from + count) as usize);
                let found = lock(&job.found);
                found
                    .iter()
                    .skip(from as usize)
                    .take(count as usize)
                    .map(|sample| u64::from(*sample))
                    .collect()
            }
        }
    }

    /// The position of a sample, or of the next one after it.
    pub(crate) fn position(&self, sample: u64) -> u64 {
        match self {
            Chosen::All(length) => sample.min(length.saturating_sub(1)),
            Chosen::Some(job) => lock(&job.found).partition_point(|found| u64::from(*found) < sample) as u64,
        }
    }

    /// How many there are, and how many samples were examined for it.
    pub(crate) fn count(&self) -> Value {
        match self {
            Chosen::All(length) => json!({"total": length, "examined": length, "of": length, "done": true}),
            Chosen::Some(job) => {
                job.wait(usize::MAX);
                let (total, examined) = (lock(&job.found).len(), job.examined.load(Ordering::Relaxed));
                json!({"total": total, "examined": examined, "of": job.of, "done": *lock(&job.done.0)})
            }
        }
    }
}

/// All filters and summaries.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    filters: Mutex<VecDeque<(usize, Query, Arc<Job>)>>,
    summaries: Mutex<BTreeMap<usize, Arc<Value>>>,
}

impl Jobs {
    /// The samples that a question is about.
    pub(crate) fn chosen(&self, sets: &[Dataset], set: usize, query: &Query) -> Result<Chosen, Wrong> {
        let dataset = &sets[set];
        let key = query.only(&WORDS);
        if key.is_empty() {
            return Ok(Chosen::All(dataset.len()));
        }
        let mut filters = lock(&self.filters);
        if let Some((.., job)) = filters.iter().find(|(of, known, _)| (*of, known) == (set, &key)) {
            return Ok(Chosen::Some(job.clone()));
        }
        let filter = Filter::new(&key, dataset)?;
        if dataset.len() > u64::from(u32::MAX) {
            return Err("filters are for at most 4 billion samples".to_owned());
        }
        let running = filters.iter().filter(|(.., job)| !*lock(&job.done.0)).count();
        if running >= RUNNING
            && let Some(at) = filters.iter().position(|(.., job)| !*lock(&job.done.0))
        {
            stop(filters.remove(at));
        }
        if filters.len() >= KEPT {
            stop(filters.pop_front());
        }
        let job = Arc::new(Job::new(dataset.len()));
        filters.push_back((set, key, job.clone()));
        let (running, dataset, other) = (job.clone(), dataset.clone(), sets.get(1 - set.min(1)).cloned());
        let thread = std::thread::Builder::new().name("feedline-look".to_owned());
        thread.spawn(move || running.run(&dataset, other.as_ref(), &filter)).map_err(|e| e.to_string())?;
        Ok(Chosen::Some(job))
    }

    /// Classes and sizes of a data set; made once.
    pub(crate) fn summary(&self, set: usize, dataset: &Dataset) -> Arc<Value> {
        if let Some(known) = lock(&self.summaries).get(&set) {
            return known.clone();
        }
        let made = Arc::new(summary(dataset));
        lock(&self.summaries).insert(set, made.clone());
        made
    }
}

fn stop(job: Option<(usize, Query, Arc<Job>)>) {
    if let Some((.., job)) = job {
        job.stopped.store(true, Ordering::Relaxed);
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in lock(&self.filters).drain(..) {
            stop(Some(job));
        }
    }
}

fn summary(dataset: &Dataset) -> Value {
    let length = dataset.len();
    let (labels, sizes) = (sheet::label_field(dataset), sheet::image_field(dataset));
    let known = |field: Option<usize>, knows: &dyn Fn(usize) -> bool| length > 0 && field.is_some_and(knows);
    let cheap_labels = known(labels, &|field| dataset.format().int_value(0, field).is_some());
    let cheap_sizes = known(sizes, &|field| {
        dataset.format().image_meta(0, field).is_some_and(|meta| meta.oriented_size().is_some())
    });
    let step =
        |cheap: bool, most: u64| if cheap { length.div_ceil(most) } else { length.div_ceil(READ.min(most)) };
    let label_step = if cheap_labels { 1 } else { step(false, READ) }.max(1);
    let mut classes: BTreeMap<i64, u64> = BTreeMap::new();
    if labels.is_some() {
        for sample in (0..length).step_by(label_step as usize) {
            if let Some(class) = sheet::label(dataset, sample) {
                *classes.entry(class).or_default() += 1;
            }
        }
    }
    let size_step = step(cheap_sizes, DOTS).max(1);
    let dots: Vec<Value> = (0..length)
        .step_by(size_step as usize)
        .filter(|_| sizes.is_some())
        .filter_map(|sample| {
            sheet::size(dataset, sample).map(|(height, width)| json!([sample, height, width]))
        })
        .collect();
    let exact = label_step == 1;
    json!({"classes": classes.into_iter().collect::<Vec<_>>(), "classes_exact": exact, "sizes": dots})
}

/// What differs between two data sets as wholes.
pub(crate) fn compare(one: &Dataset, other: &Dataset) -> Value {
    let row = |name: &str, a: Value, b: Value| json!({"what": name, "same": a == b, "values": [a, b]});
    let fields = |dataset: &Dataset| {
        let fields = dataset.schema().fields.iter();
        json!(fields.map(|field| format!("{}: {}", field.name, field.kind.name())).collect::<Vec<_>>())
    };
    let classes = |dataset: &Dataset| json!(dataset.classes().map(<[String]>::len));
    let names = |dataset: &Dataset| json!(dataset.classes());
    let stored = |dataset: &Dataset| {
        let field = sheet::image_field(dataset).filter(|_| !dataset.is_empty());
        let meta = field.and_then(|field| dataset.format().image_meta(0, field));
        json!(meta.map(|meta| meta.encoding.found_as()))
    };
    let print = |dataset: &Dataset| json!(dataset.fingerprint().to_hex());
    json!([
        row("format", json!(one.format_name()), json!(other.format_name())),
        row("samples", json!(one.len()), json!(other.len())),
        row("fields", fields(one), fields(other)),
        row("classes", classes(one), classes(other)),
        json!({"what": "names of classes", "same": names(one) == names(other), "values": []}),
        row("images stored as", stored(one), stored(other)),
        row("fingerprint", print(one), print(other)),
    ])
}

/// Whether the thumbnail of a sample can be made; what a grid marks as broken.
pub(crate) fn thumbnail_error(dataset: &Dataset, sample: u64) -> Option<String> {
    let field = sheet::shown_field(dataset, sample)?;
    images::scaled(dataset, sample, field, 32).err().map(|error| error.to_string())
}
