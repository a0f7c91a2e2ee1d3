//! A list of transforms as people write it: Python's words there and back.
//!
//! `[T.RandomResizedCrop(224), T.RandomHorizontalFlip(p=0.5)]`, with or without `T.` and brackets, or the JSON of
//! `T.to_json`. Arguments without a name are taken in the order of the transform's own fields, which is torchvision's.

use std::fmt;

use feedline::transform::Transform;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

/// Longer texts are no lists of transforms.
const MOST_TEXT: usize = 20_000;

/// Deeper than this nobody nests.
const DEEPEST: usize = 16;

/// Reads a list of transforms.
pub fn from_text(text: &str) -> Result<Vec<Transform>, String> {
    if text.len() > MOST_TEXT {
        return Err(format!("a list of transforms has at most {MOST_TEXT} characters"));
    }
    let specs = match serde_json::from_str::<Value>(text.trim()) {
        Ok(Value::Array(specs)) if specs.iter().all(Value::is_object) => specs,
        _ => Reader { text: text.as_bytes(), at: 0, depth: 0 }.list()?,
    };
    specs.into_iter().map(transform).collect()
}

fn transform(spec: Value) -> Result<Transform, String> {
    let name = spec["op"].as_str().unwrap_or("?").to_owned();
    serde_json::from_value(spec).map_err(|error| {
        if Transform::NAMES.contains(&name.as_str()) {
            format!("{name}: {error}")
        } else {
            format!("there is no transform called {name}")
        }
    })
}

/// The same in Python's words.
pub fn to_python(transforms: &[Transform]) -> String {
    let lines: Vec<String> = transforms.iter().map(|one| format!("    {},\n", call(one))).collect();
    format!("[\n{}]", lines.concat())
}

/// A transform as JSON.
pub(crate) fn spec(transform: &Transform) -> Value {
    serde_json::to_value(transform).unwrap_or(Value::Null)
}

/// Fields and values, in their own order.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut found = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    found.push(pair);
                }
                Ok(Fields(found))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A transform's fields without its name.
fn fields(transform: &Transform) -> Vec<(String, Value)> {
    let text = serde_json::to_string(transform).unwrap_or_default();
    let all = serde_json::from_str::<Fields>(&text).map(|fields| fields.0).unwrap_or_default();
    all.into_iter().filter(|(field, _)| field != "op").collect()
}

fn call(transform: &Transform) -> String {
    let name = transform.name();
    if !spec_is_call(name) {
        return format!("*T.from_json({})", crate::sheet::python_text(&json!([spec(transform)]).to_string()));
    }
    let defaults = defaults(name).unwrap_or_default();
    let mut given = Vec::new();
    for (field, value) in &fields(transform) {
        let usual = defaults.iter().find(|(other, _)| other == field).map(|(_, value)| value);
        match (name, field.as_str()) {
            ("Resize", "shorter") if !value.is_null() => given.push(format!("size={}", literal(value))),
            ("Resize", "shorter") => {}
            ("Resize", "size") if value.is_null() => {}
            (_, "size") => given.push(format!("size={}", literal(value))),
            _ if Some(value) == usual => {}
            (_, field) => given.push(format!("{field}={}", literal(value))),
        }
    }
    format!("T.{name}({})", given.join(", "))
}

/// Whether Python's class takes the fields as they are; the others are handed over as JSON.
fn spec_is_call(name: &str) -> bool {
    !["Schedule", "Poison", "RandomErasing", "MultiCrop"].contains(&name)
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => crate::sheet::python_text(text),
        Value::Array(values) if values.iter().any(Value::is_object) => {
            format!("[{}]", values.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::Array(values) => {
            let inside: Vec<String> = values.iter().map(literal).collect();
            format!("({}{})", inside.join(", "), if inside.len() == 1 { "," } else { "" })
        }
        Value::Object(fields) if fields.contains_key("op") => {
            transform(value.clone()).map_or_else(|_| "None".to_owned(), |one| call(&one))
        }
        other => other.to_string(),
    }
}

/// A transform's fields with what they are if nobody says; `None` if something must be said.
pub(crate) fn defaults(name: &str) -> Option<Vec<(String, Value)>> {
    let sized = || serde_json::from_value::<Transform>(json!({"op": name, "size": [224, 224]}));
    let plain = || serde_json::from_value::<Transform>(json!({"op": name}));
    plain().or_else(|_| sized()).ok().map(|made| fields(&made))
}

/// The names of a transform's fields, in their order. A transform that needs an argument has no defaults to read them from;
/// then the error about a field that no transform has lists them.
fn order(name: &str) -> Vec<String> {
    if let Some(fields) = defaults(name) {
        return fields.into_iter().map(|(field, _)| field).collect();
    }
    let unknown = json!({"op": name, "no such field": null});
    let error = serde_json::from_value::<Transform>(unknown).err().map(|e| e.to_string()).unwrap_or_default();
    let listed = error.split_once("expected").map_or("", |(_, listed)| listed);
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    /// The whole text: transforms, with or without brackets around them.
    fn list(mut self) -> Result<Vec<Value>, String> {
        let found = if self.next() == Some(b'[') { vec![self.value()?] } else { self.values(None)? };
        if self.next().is_some() {
            return Err(format!("not understood at character {}", self.at + 1));
        }
        let flat = found.into_iter().flat_map(|one| match one {
            Value::Array(many) => many,
            one => vec![one],
        });
        flat.map(|one| if one.is_object() { Ok(one) } else { Err(format!("{one} is not a transform")) })
            .collect()
    }

    /// The next character that means something.
    fn next(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'#' => self.at += self.text[self.at..].iter().take_while(|b| **b != b'\n').count(),
                byte if byte.is_ascii_whitespace() => self.at += 1,
                byte => return Some(*byte),
            }
        }
        None
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let found = self.next() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// Values with commas between them, up to `end`.
    fn values(&mut self, end: Option<u8>) -> Result<Vec<Value>, String> {
        let mut found = Vec::new();
        loop {
            match (self.next(), end) {
                (None, None) => return Ok(found),
                (None, Some(end)) => return Err(format!("a {:?} is missing", char::from(end))),
                (Some(byte), Some(end)) if byte == end => {
                    self.at += 1;
                    return Ok(found);
                }
                _ => {}
            }
            found.push(self.value()?);
            if !self.eat(b',') && self.next() != end {
                return Err(format!("a comma is missing at character {}", self.at + 1));
            }
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("nested too deep".to_owned());
        }
        let value = match self.next() {
            Some(b'[') => self.group(b']'),
            Some(b'(') => self.group(b')'),
            Some(quote @ (b'"' | b'\'')) => self.string(quote),
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => self.word(),
            Some(_) => self.number(),
            None => Err("something is missing at the end".to_owned()),
        };
        self.depth -= 1;
        value
    }

    fn group(&mut self, end: u8) -> Result<Value, String> {
        self.at += 1;
        self.values(Some(end)).map(Value::Array)
    }

    fn string(&mut self, quote: u8) -> Result<Value, String> {
        let start = self.at + 1;
        let length = self.text[start..].iter().position(|b| *b == quote);
        let length = length.ok_or("a text does not end")?;
        self.at = start + length + 1;
        let text = String::from_utf8_lossy(&self.text[start..start + length]);
        if text.contains('\\') { Err("no backslashes in texts, please".to_owned()) } else { Ok(json!(text)) }
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        let part = |b: &&u8| b.is_ascii_digit() || b"+-.eE_/".contains(b);
        self.at += self.text[start..].iter().take_while(part).count();
        let text = String::from_utf8_lossy(&self.text[start..self.at]).replace('_', "");
        let wrong = || format!("not understood at character {}", start + 1);
        if let Some((above, below)) = text.split_once('/') {
            // Ratios are often written as 3/4.
            let (above, below) = (above.parse::<f64>(), below.parse::<f64>());
            return match (above, below) {
                (Ok(above), Ok(below)) => Ok(json!(above / below)),
                _ => Err(wrong()),
            };
        }
        match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => Ok(json!(number)),
            (_, Ok(number)) if number.is_finite() => Ok(json!(number)),
            _ => Err(wrong()),
        }
    }

    fn name(&mut self) -> String {
        let start = self.at;
        let part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_' || **b == b'.';
        self.at += self.text[start..].iter().take_while(part).count();
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    /// A constant, or a transform with its arguments.
    fn word(&mut self) -> Result<Value, String> {
        let word = self.name();
        match word.as_str() {
            "True" | "true" => return Ok(json!(true)),
            "False" | "false" => return Ok(json!(false)),
            "None" | "null" => return Ok(Value::Null),
            _ => {}
        }
        let name = word.strip_prefix("T.").or_else(|| word.strip_prefix("transforms.")).unwrap_or(&word);
        if name == "Normalize.imagenet" {
            self.arguments("Normalize")?;
            return Ok(spec(&Transform::normalize_imagenet()));
        }
        if !Transform::NAMES.contains(&name) {
            return Err(format!("there is no transform called {name}"));
        }
        let fields = if self.next() == Some(b'(') { self.arguments(name)? } else { Map::new() };
        let mut all = Map::from_iter([("op".to_owned(), json!(name))]);
        all.extend(fields.into_iter().map(|(field, value)| tidy(name, field, value)));
        Ok(Value::Object(all))
    }

    fn arguments(&mut self, name: &str) -> Result<Map<String, Value>, String> {
        if !self.eat(b'(') {
            return Err(format!("{name}: an opening parenthesis is missing"));
        }
        let order = order(name);
        let mut found = Map::new();
        loop {
            if self.eat(b')') {
                return Ok(found);
            }
            let start = self.at;
            let word = self.name();
            let field = if !word.is_empty() && self.eat(b'=') {
                word
            } else {
                self.at = start;
                let place = found.len();
                order.get(place).cloned().ok_or_else(|| match order.len() {
                    0 => format!("{name}: give its arguments by name"),
                    most => format!("{name}: it has {most} arguments"),
                })?
            };
            let value = self.value()?;
            found.insert(field, value);
            if !self.eat(b',') && self.next() != Some(b')') {
                return Err(format!("{name}: a comma or a closing parenthesis is missing"));
            }
        }
    }
}

/// One number for a size is a square, or, for `Resize`, the shorter side; one for a jitter is a range around 1 or 0.
fn tidy(name: &str, field: String, value: Value) -> (String, Value) {
    let number = value.as_f64();
    match (name, field.as_str(), number) {
        ("Resize", "size", Some(_)) => ("shorter".to_owned(), value),
        (_, "size", Some(_)) => (field, json!([value, value])),
        ("ColorJitter", "brightness" | "contrast" | "saturation", Some(by)) => {
            (field, json!([(1.0 - by).max(0.0), 1.0 + by]))
        }
        ("ColorJitter", "hue", Some(by)) | ("RandomRotation" | "RandomAffine", "degrees", Some(by)) => {
            (field, json!([-by, by]))
        }
        ("RandomAffine", "shear", Some(by)) => (field, json!([-by, by, 0, 0])),
        ("Pad", "padding", Some(_)) => (field, json!([value, value, value, value])),
        ("GaussianBlur" | "ElasticTransform", "kernel_size" | "sigma" | "alpha", Some(_)) => {
            (field, json!([value, value]))
        }
        (_, "fill", Some(_)) => (field, json!([value, value, value])),
        _ => (field, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_and_json_describe_the_same_transforms() {
        let list = "[T.RandomResizedCrop(224, scale=(0.25, 1)), T.RandomHorizontalFlip(), # half of them\n \
                    T.ColorJitter(0.4, hue=0.1), T.Normalize.imagenet()]";
        let read = from_text(list).unwrap();
        assert_eq!(read.len(), 4);
        let json: Vec<Value> = read.iter().map(spec).collect();
        assert_eq!(json[0]["scale"], json!([0.25, 1.0]));
        assert_eq!(json[2]["brightness"], json!([0.6, 1.4]));
        let again = from_text(&Value::Array(json.clone()).to_string()).unwrap();
        assert_eq!(again.iter().map(spec).collect::<Vec<_>>(), json);
        let python = to_python(&read);
        assert!(python.contains("T.RandomResizedCrop(size=(224, 224), scale=(0.25, 1.0))"), "{python}");
        assert_eq!(from_text(&python).unwrap().iter().map(spec).collect::<Vec<_>>(), json, "{python}");
    }

    #[test]
    fn every_transform_with_defaults_round_trips() {
        let mut tried = 0;
        for name in Transform::NAMES.iter().filter(|name| spec_is_call(name)) {
            let Some(fields) = defaults(name) else { continue };
            let mut all = Map::from_iter([("op".to_owned(), json!(name))]);
            all.extend(fields);
            let made = transform(Value::Object(all)).unwrap();
            let python = to_python(std::slice::from_ref(&made));
            let read = from_text(&python).unwrap_or_else(|e| panic!("{python}: {e}"));
            assert_eq!(read.iter().map(spec).collect::<Vec<_>>(), [spec(&made)], "{python}");
            tried += 1;
        }
        assert!(tried > 40, "{tried}");
    }

    #[test]
    fn positional_arguments_follow_python() {
        let read =
            from_text("T.RandomRotation(30, 'bilinear'), T.Pad(4), T.GaussianBlur(5, (0.1, 2))").unwrap();
        let json: Vec<Value> = read.iter().map(spec).collect();
        assert_eq!(
            (&json[0]["degrees"], &json[0]["interpolation"]),
            (&json!([-30.0, 30.0]), &json!("bilinear"))
        );
        assert_eq!(json[1]["padding"], json!([4, 4, 4, 4]));
        assert_eq!((&json[2]["kernel_size"], &json[2]["sigma"]), (&json!([5, 5]), &json!([0.1, 2.0])));
    }

    #[test]
    fn errors_name_the_mistake() {
        for (text, word) in [
            ("T.RandomResizedCrop(", "missing"),
            ("T.Nothing()", "no transform called Nothing"),
            ("T.RandomHorizontalFlip(p=0.5 q)", "comma"),
            ("T.RandomHorizontalFlip(chance=1)", "chance"),
            ("[T.RandomHorizontalFlip(]", "not understood"),
            ("T.RandomHorizontalFlip('a\\n')", "backslash"),
            ("T.Pad()", "padding"),
            ("T.RandomRotation(1, 'bilinear', False, None, 0, 'pil', 7)", "it has"),
            ("3", "not a transform"),
        ] {
            let error = from_text(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(from_text(&"[".repeat(10_000)).is_err());
        assert!(from_text("").unwrap().is_empty());
    }
}
