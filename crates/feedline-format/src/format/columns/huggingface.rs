//! Column descriptions of Hugging Face's `datasets`: a JSON text under the key `huggingface` of the schema, or
//! `features` in `dataset_info.json`.

use serde_json::Value as Json;

/// What is known about a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::format) enum Feature {
    /// Nothing beyond Arrow's type.
    #[default]
    Plain,
    /// Encoded images.
    Image,
    /// Encoded sound or video.
    Media,
    /// Class numbers with names.
    Classes(Vec<String>),
}

/// All columns' features, by name.
#[derive(Clone, Debug, Default)]
pub(in crate::format) struct Features(Vec<(String, Feature)>);

static PLAIN: Feature = Feature::Plain;

impl Features {
    /// Reads the text under `huggingface`; anything unknown is ignored.
    pub(in crate::format) fn from_metadata(text: &str) -> Self {
        let parsed: Option<Json> = serde_json::from_str(text).ok();
        parsed.map_or_else(Features::default, |json| Features::from_json(&json["info"]["features"]))
    }

    /// Reads the object `features`.
    pub(in crate::format) fn from_json(features: &Json) -> Self {
        let Some(features) = features.as_object() else { return Features::default() };
        Features(features.iter().map(|(name, json)| (name.clone(), feature(json))).collect())
    }

    /// What is known about the column `name`.
    pub(in crate::format) fn of(&self, name: &str) -> &Feature {
        self.0.iter().find(|(known, _)| known == name).map_or(&PLAIN, |(_, feature)| feature)
    }

    /// Whether nothing is known.
    pub(in crate::format) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The class names, if exactly one column has some.
    pub(in crate::format) fn classes(&self) -> Option<Vec<String>> {
        let mut named = self.0.iter().filter_map(|(_, feature)| match feature {
            Feature::Classes(names) => Some(names),
            _ => None,
        });
        let only = named.next()?;
        named.next().is_none().then(|| only.clone())
    }
}

fn feature(json: &Json) -> Feature {
    match json["_type"].as_str() {
        Some("Image") => Feature::Image,
        Some("Audio" | "Video" | "Pdf") => Feature::Media,
        Some("ClassLabel") => {
            let names = json["names"].as_array();
            let names =
                names.map(|names| names.iter().filter_map(|n| n.as_str().map(str::to_owned)).collect());
            names.map_or(Feature::Plain, Feature::Classes)
        }
        _ => Feature::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_class_names_are_found_and_nonsense_is_ignored() {
        let text = r#"{"info":{"features":{"a":{"_type":"Image"},"b":{"names":["x","y"],"_type":"ClassLabel"},
            "c":{"dtype":"int64","_type":"Value"},"d":{"_type":"Audio"}}}}"#;
        let features = Features::from_metadata(text);
        assert_eq!((features.of("a"), features.of("d")), (&Feature::Image, &Feature::Media));
        assert_eq!((features.of("c"), features.of("zzz")), (&Feature::Plain, &Feature::Plain));
        assert_eq!(features.classes().unwrap(), ["x", "y"]);
        for nonsense in ["", "{", "[]", r#"{"info":3}"#, r#"{"info":{"features":[1]}}"#] {
            assert!(Features::from_metadata(nonsense).is_empty(), "{nonsense}");
        }
    }
}
