//! Parses a uri into scheme, root, key, and the parts that may be secret.

use std::fmt;

use object_store::path::Path;

use super::options::Options;
use crate::error::{Error, Result};

/// The kind of store that a uri names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Gs,
    Az,
    Http,
}

impl Scheme {
    /// The kind of a uri; `None` if it is not a remote one.
    pub(crate) fn of(uri: &str) -> Option<Self> {
        match uri.split_once("://")?.0.to_lowercase().as_str() {
            "s3" | "s3a" => Some(Scheme::S3),
            name if PRESETS.iter().any(|preset| preset.scheme == name) => Some(Scheme::S3),
            "gs" | "gcs" => Some(Scheme::Gs),
            "az" | "azure" | "abfs" | "abfss" | "adl" => Some(Scheme::Az),
            "http" | "https" => Some(Scheme::Http),
            _ => None,
        }
    }

    /// Its name in a uri.
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::S3 => "s3",
            Scheme::Gs => "gs",
            Scheme::Az => "az",
            Scheme::Http => "http",
        }
    }
}

/// A parsed uri.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    /// Scheme and bucket, container or host: `s3://bucket`.
    pub(crate) root: String,
    /// The part after the root, without slashes at either end.
    pub(crate) key: String,
    /// Whether the uri ended in a slash or names only the root, and so must be a folder.
    pub(crate) folder: bool,
    /// The query of an http address, including the question mark.
    pub(super) query: String,
    /// User and password of an http address.
    pub(super) user: Option<(String, String)>,
}

/// Query and user may be secrets.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.uri())
    }
}

impl Address {
    /// Parses a remote uri.
    pub(crate) fn parse(uri: &str) -> Result<Self> {
        let wrong = |reason: &str| Error::option("uri", format!("{uri}: {reason}"));
        let scheme = Scheme::of(uri).ok_or_else(|| wrong("not a remote uri"))?;
        let (head, rest) = uri.split_once("://").ok_or_else(|| wrong("not a remote uri"))?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) if scheme == Scheme::Http => (rest, format!("?{query}")),
            _ => (rest, String::new()),
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong("names no bucket or host"));
        }
        let (user, bucket) = match bucket.rsplit_once('@') {
            Some((user, host)) if scheme == Scheme::Http => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((percent_decoded(name), percent_decoded(password))), host)
            }
            _ => (None, bucket),
        };
        let folder = key.is_empty() || key.ends_with('/');
        let key = key.trim_matches('/');
        let key = match scheme {
            // Servers know `%20` as a space.
            Scheme::Http => Path::from_url_path(key).map_err(|e| wrong(&e.to_string()))?.to_string(),
            _ => Path::parse(key).map_err(|e| wrong(&e.to_string()))?.to_string(),
        };
        Ok(Address { scheme, root: format!("{head}://{bucket}"), key, folder, query, user })
    }

    /// Returns the same address with another key.
    pub(crate) fn with_key(&self, key: impl Into<String>) -> Self {
        Address { key: key.into(), ..self.clone() }
    }

    /// Whether both are in the same store and can use one connection.
    pub(crate) fn same_root(&self, other: &Address) -> bool {
        self.root == other.root && self.query == other.query && self.user == other.user
    }

    /// As a user would write it, without anything secret.
    pub(crate) fn uri(&self) -> String {
        if self.key.is_empty() { self.root.clone() } else { format!("{}/{}", self.root, self.key) }
    }
}

/// An S3-compatible store with its own scheme.
struct Preset {
    scheme: &'static str,
    endpoint: &'static str,
    region: &'static str,
}

/// Endpoints; `{account}` and `{region}` are storage options.
const PRESETS: [Preset; 4] = [
    Preset { scheme: "r2", endpoint: "https://{account}.r2.cloudflarestorage.com", region: "auto" },
    Preset { scheme: "b2", endpoint: "https://s3.{region}.backblazeb2.com", region: "us-west-004" },
    Preset { scheme: "wasabi", endpoint: "https://s3.{region}.wasabisys.com", region: "us-east-1" },
    Preset { scheme: "spaces", endpoint: "https://{region}.digitaloceanspaces.com", region: "nyc3" },
];

impl Address {
    /// The endpoint and region that the scheme implies.
    pub(super) fn preset(
        &self,
        options: &Options,
        region: Option<String>,
    ) -> Result<Option<(String, String)>> {
        let scheme = self.root.split("://").next().unwrap_or_default().to_lowercase();
        let Some(preset) = PRESETS.iter().find(|preset| preset.scheme == scheme) else { return Ok(None) };
        let region = region.unwrap_or_else(|| preset.region.to_owned());
        let in_environment = || std::env::var("R2_ACCOUNT_ID").ok();
        let account = options.account.clone().or_else(in_environment);
        if preset.endpoint.contains("{account}") && account.is_none() {
            let reason =
                format!("{scheme}:// needs account_id (or endpoint_url): it is part of the endpoint's name");
            return Err(Error::option("storage_options", reason));
        }
        let endpoint = preset.endpoint.replace("{region}", &region);
        Ok(Some((endpoint.replace("{account}", &account.unwrap_or_default()), region)))
    }
}

fn percent_decoded(text: &str) -> String {
    let (mut plain, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_parsed() {
        let s3 = Address::parse("s3://bucket/a/b.tar").unwrap();
        assert_eq!((s3.root.as_str(), s3.key.as_str(), s3.folder), ("s3://bucket", "a/b.tar", false));
        assert!(Address::parse("s3://bucket").unwrap().folder);
        assert_eq!(Address::parse("gs://b/x/").unwrap().key, "x");
        let http = Address::parse("https://h:8/a%20b/c.tar?sig=x").unwrap();
        assert_eq!((http.key.as_str(), http.uri().as_str()), ("a b/c.tar", "https://h:8/a b/c.tar"));
        let azure = Address::parse("abfs://box@me.dfs.core.windows.net/x").unwrap();
        assert_eq!((azure.scheme, azure.key.as_str()), (Scheme::Az, "x"));
        assert!(Address::parse("s3:///x").is_err() && Address::parse("ftp://x/y").is_err());
    }

    #[test]
    fn presets_know_their_endpoints() {
        let options = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            Options::parse("s3", &given).unwrap()
        };
        let preset = |uri: &str, given: &[(&str, &str)], region: Option<&str>| {
            Address::parse(uri).unwrap().preset(&options(given), region.map(str::to_owned))
        };
        let r2 = preset("r2://bucket/x", &[("account_id", "abc")], None).unwrap().unwrap();
        assert_eq!(r2, ("https://abc.r2.cloudflarestorage.com".to_owned(), "auto".to_owned()));
        let b2 = preset("b2://bucket/x", &[], Some("eu-central-003")).unwrap().unwrap();
        assert_eq!(b2.0, "https://s3.eu-central-003.backblazeb2.com");
        assert!(preset("s3://bucket/x", &[], None).unwrap().is_none());
        if std::env::var_os("R2_ACCOUNT_ID").is_none() {
            let message = preset("r2://bucket/x", &[], None).unwrap_err().to_string();
            assert!(message.contains("account_id"), "{message}");
        }
    }
}
