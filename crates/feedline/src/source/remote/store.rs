//! A uri and its options → a connection to a store, and in whose name it asks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{Certificate, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};

use super::options::Options;
use super::profile;
use crate::error::{Error, Result};

/// What kind of store a uri names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Gs,
    Az,
    Http,
}

impl Scheme {
    /// The kind a uri names, if it is a remote one.
    pub(crate) fn of(uri: &str) -> Option<Self> {
        match uri.split_once("://")?.0.to_lowercase().as_str() {
            "s3" | "s3a" => Some(Scheme::S3),
            "gs" | "gcs" => Some(Scheme::Gs),
            "az" | "azure" | "abfs" | "abfss" | "adl" => Some(Scheme::Az),
            "http" | "https" => Some(Scheme::Http),
            _ => None,
        }
    }

    /// As it is written in a uri.
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::S3 => "s3",
            Scheme::Gs => "gs",
            Scheme::Az => "az",
            Scheme::Http => "http",
        }
    }
}

/// A uri, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    /// Scheme and bucket, container or host: `s3://bucket`.
    pub(crate) root: String,
    /// What comes after it, without slashes at either end.
    pub(crate) key: String,
    /// Whether the uri ended in a slash, or names nothing but the root: a folder for certain.
    pub(crate) folder: bool,
    /// The query of an http address, with its question mark.
    query: String,
}

impl Address {
    /// Takes a remote uri apart.
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
        let folder = key.is_empty() || key.ends_with('/');
        let key = key.trim_matches('/');
        let key = match scheme {
            // What a browser shows as %20 is a space for everybody else.
            Scheme::Http => Path::from_url_path(key).map_err(|e| wrong(&e.to_string()))?.to_string(),
            _ => Path::parse(key).map_err(|e| wrong(&e.to_string()))?.to_string(),
        };
        Ok(Address { scheme, root: format!("{head}://{bucket}"), key, folder, query })
    }

    /// The same address with another key.
    pub(crate) fn with_key(&self, key: impl Into<String>) -> Self {
        Address { key: key.into(), ..self.clone() }
    }

    /// Whether both lie in the same store and can be asked for over one connection.
    pub(crate) fn same_root(&self, other: &Address) -> bool {
        self.root == other.root && self.query == other.query
    }

    /// As a user would write it, without what may be secret.
    pub(crate) fn uri(&self) -> String {
        if self.key.is_empty() { self.root.clone() } else { format!("{}/{}", self.root, self.key) }
    }
}

/// In whose name requests are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Options,
    Environment,
    Profile(String),
    Platform,
    Anonymous,
}

impl Identity {
    /// Whether credentials may become valid again without the user's doing anything here.
    pub(super) fn may_renew(&self) -> bool {
        matches!(self, Identity::Profile(_) | Identity::Platform)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Options => f.write_str("with the credentials in storage_options"),
            Identity::Environment => f.write_str("with the credentials in the environment"),
            Identity::Profile(name) => write!(f, "with the credentials of profile '{name}'"),
            Identity::Platform => f.write_str("with the machine's own credentials"),
            Identity::Anonymous => f.write_str("without credentials"),
        }
    }
}

/// A store, ready to be asked.
pub(super) struct Opened {
    pub(super) store: Arc<dyn ObjectStore>,
    /// The same store, for objects that are put in parts; a web server takes none.
    pub(super) parts: Option<Arc<dyn MultipartStore>>,
    pub(super) identity: Identity,
    pub(super) endpoint: String,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("store", &self.store)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Connects (nothing is sent yet). Reads environment and profiles anew each time.
pub(super) fn open(address: &Address, options: &Options) -> Result<Opened> {
    match address.scheme {
        Scheme::S3 => s3(address, options),
        Scheme::Gs => gs(address, options),
        Scheme::Az => az(address, options),
        Scheme::Http => http(address, options),
    }
}

/// Retries are ours: they know what was received, and what the stall limit is.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

fn client(options: &Options) -> Result<ClientOptions> {
    let mut client = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(Duration::from_secs(5))
        .with_pool_idle_timeout(Duration::from_secs(30))
        .with_user_agent(object_store::HeaderValue::from_static(concat!(
            "feedline/",
            env!("CARGO_PKG_VERSION")
        )));
    let from_environment = || std::env::var("AWS_CA_BUNDLE").ok();
    if let Some(path) = options.ca_bundle.clone().or_else(from_environment) {
        let bad = |reason: String| Error::option("storage_options", format!("ca_bundle {path}: {reason}"));
        let pem = std::fs::read(&path).map_err(|e| bad(e.to_string()))?;
        for certificate in Certificate::from_pem_bundle(&pem).map_err(|e| bad(e.to_string()))? {
            client = client.with_root_certificate(certificate);
        }
    }
    Ok(client)
}

/// Feeds settings to a builder through `put`; a name that is no `Key` is an error.
fn configure<Key: FromStr, Builder>(
    scheme: Scheme,
    options: &Options,
    builder: Builder,
    put: impl Fn(Builder, Key, &str) -> Builder,
) -> Result<Builder> {
    let mut builder = builder;
    for (name, value) in &options.store {
        let key = name.parse().map_err(|_| {
            let reason =
                format!("there is no '{name}' for {}://; docs/remote.md lists what there is", scheme.name());
            Error::option("storage_options", reason)
        })?;
        builder = put(builder, key, value);
    }
    Ok(builder)
}

fn failed(error: object_store::Error) -> Error {
    Error::option("storage_options", error.to_string())
}

fn plain_http(endpoint: &str) -> bool {
    endpoint.starts_with("http://")
}

fn s3(address: &Address, options: &Options) -> Result<Opened> {
    let mut builder = AmazonS3Builder::from_env().with_client_options(client(options)?);
    let given = options.store.contains_key("aws_access_key_id");
    let from_environment = std::env::var_os("AWS_ACCESS_KEY_ID").is_some();
    let identity = if options.anonymous() {
        Identity::Anonymous
    } else if given {
        Identity::Options
    } else if options.profile.is_none() && from_environment {
        Identity::Environment
    } else {
        let (identity, changed) = with_profile(builder, options)?;
        builder = changed;
        identity
    };
    let key = |b: AmazonS3Builder, key: AmazonS3ConfigKey, value: &str| b.with_config(key, value);
    builder = configure(Scheme::S3, options, builder, key)?;
    let set = builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint);
    let endpoint = set.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
    if endpoint.as_deref().is_some_and(plain_http) {
        builder = builder.with_allow_http(true);
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let shown = endpoint.unwrap_or_else(|| {
        format!("AWS region {}", region.unwrap_or_else(|| "us-east-1 (none was set)".to_owned()))
    });
    let bucket = address.root.rsplit('/').next().unwrap_or_default();
    let store = builder.with_bucket_name(bucket).with_retry(no_retries()).build().map_err(failed)?;
    let store = Arc::new(store);
    Ok(Opened { store: store.clone(), parts: Some(store), identity, endpoint: shown })
}

/// The profile's settings, if there is one; otherwise the machine's own identity.
fn with_profile(builder: AmazonS3Builder, options: &Options) -> Result<(Identity, AmazonS3Builder)> {
    let named = options.profile.clone().or_else(|| std::env::var("AWS_PROFILE").ok());
    let name = named.clone().unwrap_or_else(|| "default".to_owned());
    let Some(settings) = profile::read(&name) else {
        if named.is_some() {
            let reason = format!("there is no profile '{name}' in ~/.aws/credentials or ~/.aws/config");
            return Err(Error::option("storage_options", reason));
        }
        return Ok((Identity::Platform, builder));
    };
    profile::check(&name, &settings)?;
    let mut builder = builder;
    let names = [
        ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
        ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
        ("aws_session_token", AmazonS3ConfigKey::Token),
        ("region", AmazonS3ConfigKey::Region),
        ("endpoint_url", AmazonS3ConfigKey::Endpoint),
    ];
    for (setting, key) in names {
        if let Some(value) = settings.get(setting)
            && (builder.get_config_value(&key).is_none() || options.profile.is_some())
        {
            builder = builder.with_config(key, value);
        }
    }
    let own = settings.contains_key("aws_access_key_id");
    Ok((if own { Identity::Profile(name) } else { Identity::Platform }, builder))
}

fn gs(address: &Address, options: &Options) -> Result<Opened> {
    let key = |b: GoogleCloudStorageBuilder, key: GoogleConfigKey, value: &str| b.with_config(key, value);
    let builder = GoogleCloudStorageBuilder::from_env().with_client_options(client(options)?);
    let mut builder = configure(Scheme::Gs, options, builder, key)?;
    let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    if endpoint.as_deref().is_some_and(plain_http) {
        builder = builder.with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    let said = |name: &str| options.store.keys().any(|key| key.contains(name));
    let identity = if options.anonymous() {
        Identity::Anonymous
    } else if said("service_account") || said("credentials") || said("bearer_token") {
        Identity::Options
    } else if [
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SERVICE_ACCOUNT",
    ]
    .iter()
    .any(|name| std::env::var_os(name).is_some())
    {
        Identity::Environment
    } else {
        Identity::Platform
    };
    let bucket = address.root.rsplit('/').next().unwrap_or_default();
    let store = builder.with_bucket_name(bucket).with_retry(no_retries()).build().map_err(failed)?;
    let endpoint = endpoint.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
    let store = Arc::new(store);
    Ok(Opened { store: store.clone(), parts: Some(store), identity, endpoint })
}

fn az(address: &Address, options: &Options) -> Result<Opened> {
    let key = |b: MicrosoftAzureBuilder, key: AzureConfigKey, value: &str| b.with_config(key, value);
    let builder =
        MicrosoftAzureBuilder::from_env().with_url(&address.root).with_client_options(client(options)?);
    let mut builder = configure(Scheme::Az, options, builder, key)?;
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    if endpoint.as_deref().is_some_and(plain_http) {
        builder = builder.with_allow_http(true);
    }
    let said = |name: &str| options.store.keys().any(|key| key.contains(name));
    let in_environment = std::env::vars_os().any(|(name, _)| {
        name.to_str().is_some_and(|n| n.starts_with("AZURE_") && !n.contains("ACCOUNT_NAME"))
    });
    let identity = if options.anonymous() {
        Identity::Anonymous
    } else if said("key") || said("token") || said("secret") || said("sas") {
        Identity::Options
    } else if in_environment {
        Identity::Environment
    } else {
        Identity::Platform
    };
    let account = builder.get_config_value(&AzureConfigKey::AccountName);
    let store = builder.with_retry(no_retries()).build().map_err(failed)?;
    let usual = || format!("https://{}.blob.core.windows.net", account.unwrap_or_default());
    let store = Arc::new(store);
    Ok(Opened {
        store: store.clone(),
        parts: Some(store),
        identity,
        endpoint: endpoint.unwrap_or_else(usual),
    })
}

fn http(address: &Address, options: &Options) -> Result<Opened> {
    // Plain http is what the user typed.
    let allowed = client(options)?.with_allow_http(plain_http(&address.root));
    let key = |b: HttpBuilder, key: ClientConfigKey, value: &str| b.with_config(key, value);
    let builder = HttpBuilder::new().with_url(format!("{}/{}", address.root, address.query));
    let builder = configure(Scheme::Http, options, builder.with_client_options(allowed), key)?;
    let store = builder.with_retry(no_retries()).build().map_err(failed)?;
    Ok(Opened {
        store: Arc::new(store),
        parts: None,
        identity: Identity::Anonymous,
        endpoint: address.root.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_taken_apart() {
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

    fn options(scheme: &str, given: &[(&str, &str)]) -> Options {
        let given = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Options::parse(scheme, &given).unwrap()
    }

    #[test]
    fn identity_and_endpoint_are_known_before_anything_is_sent() {
        let address = Address::parse("s3://bucket/x").unwrap();
        let given = options("s3", &[("key", "a"), ("secret", "b"), ("endpoint_url", "http://127.0.0.1:1")]);
        let opened = open(&address, &given).unwrap();
        assert_eq!((opened.identity, opened.endpoint.as_str()), (Identity::Options, "http://127.0.0.1:1"));
        let anonymous = open(&address, &options("s3", &[("anon", "true")])).unwrap();
        assert_eq!(anonymous.identity, Identity::Anonymous);
        let gs =
            open(&Address::parse("gs://bucket/x").unwrap(), &options("gs", &[("token", "anon")])).unwrap();
        assert_eq!(gs.identity, Identity::Anonymous);
        let azure = options("az", &[("account", "me"), ("key", "a2V5")]);
        let azure = open(&Address::parse("az://box/x").unwrap(), &azure).unwrap();
        assert_eq!(
            (azure.identity, azure.endpoint.as_str()),
            (Identity::Options, "https://me.blob.core.windows.net")
        );
    }

    #[test]
    fn a_name_nobody_knows_is_an_error() {
        let address = Address::parse("s3://bucket/x").unwrap();
        let message = open(&address, &options("s3", &[("regoin", "x")])).unwrap_err().to_string();
        assert!(message.contains("regoin") && message.contains("docs/remote.md"), "{message}");
    }
}
