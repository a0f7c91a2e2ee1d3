//! Makes a connection to a store from a uri and its options, and finds the identity for its requests.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::{
    Certificate, ClientConfigKey, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig,
};
use rustls::crypto::{CryptoProvider, ring};

use super::address::{Address, Scheme};
use super::options::Options;
use super::profile;
use super::wire::Wire;
use crate::error::{Error, Result};

/// The identity with which requests are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Options,
    Environment,
    Profile(String),
    Platform,
    Anonymous,
}

impl Identity {
    /// Whether credentials may become valid again without the user doing anything here.
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

/// A store that is ready for requests.
pub(super) struct Opened {
    pub(super) store: Arc<dyn ObjectStore>,
    /// The same objects at other endpoints, read in turn.
    others: Vec<Arc<dyn ObjectStore>>,
    turn: AtomicUsize,
    /// The same store, for multipart uploads; `None` for a web server.
    pub(super) parts: Option<Arc<dyn MultipartStore>>,
    pub(super) identity: Identity,
    pub(super) endpoint: String,
    pub(super) scheme: Scheme,
}

impl Opened {
    fn new(store: Arc<dyn ObjectStore>, identity: Identity, endpoint: String, scheme: Scheme) -> Self {
        let turn = AtomicUsize::new(0);
        Opened { store, others: Vec::new(), turn, parts: None, identity, endpoint, scheme }
    }

    /// The store to read from next.
    pub(super) fn in_turn(&self) -> &Arc<dyn ObjectStore> {
        let turn = if self.others.is_empty() { 0 } else { self.turn.fetch_add(1, Ordering::Relaxed) };
        match turn % (self.others.len() + 1) {
            0 => &self.store,
            other => &self.others[other - 1],
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("endpoint", &self.endpoint)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Connects (nothing is sent yet). Reads environment and profiles again each time.
pub(super) fn open(address: &Address, options: &Options) -> Result<Opened> {
    choose_tls();
    match address.scheme {
        Scheme::S3 => s3(address, options),
        Scheme::Gs => gs(address, options),
        Scheme::Az => az(address, options),
        Scheme::Http => http(address, options),
    }
}

/// The clients take the process's own TLS provider: ring, unless the program has chosen another before.
fn choose_tls() {
    if CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster.
        ring::default_provider().install_default().ok();
    }
}

/// No retries in `object_store`: ours know how much was received and what the stall limit is.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

/// The http client, with the headers of every request.
fn client(options: &Options) -> Result<(Wire, ClientOptions)> {
    let (client, headers) = (plain_client(options)?, headers(options)?);
    let client = if headers.is_empty() { client } else { client.with_default_headers(headers.clone()) };
    let mut all = headers;
    all.entry("user-agent").or_insert(USER_AGENT);
    Ok((Wire::new(all, options), client))
}

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("feedline/", env!("CARGO_PKG_VERSION")));

fn headers(options: &Options) -> Result<HeaderMap> {
    let wrong = |_| Error::option("storage_options", "headers: a name or value that http does not allow");
    let given: HashMap<String, String> = options.headers.clone().into_iter().collect();
    let mut headers: HeaderMap = HeaderMap::try_from(&given).map_err(wrong)?;
    headers.values_mut().for_each(|value| value.set_sensitive(true));
    Ok(headers)
}

fn plain_client(options: &Options) -> Result<ClientOptions> {
    let mut client = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(Duration::from_secs(5))
        .with_pool_idle_timeout(Duration::from_secs(30))
        .with_user_agent(USER_AGENT);
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

/// Passes settings to a builder through `put`; a name that is not a `Key` is an error.
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

fn failed(error: &object_store::Error, options: &Options) -> Error {
    Error::option("storage_options", options.hide(&error.to_string()))
}

fn plain_http(endpoint: &str) -> bool {
    endpoint.starts_with("http://")
}

fn s3(address: &Address, options: &Options) -> Result<Opened> {
    let (wire, client) = client(options)?;
    let mut builder = AmazonS3Builder::from_env().with_http_connector(wire).with_client_options(client);
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
    let set = set.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
    if let Some((preset, region)) =
        address.preset(options, builder.get_config_value(&AmazonS3ConfigKey::Region))?
        && set.is_none()
    {
        builder = builder.with_endpoint(preset).with_region(region);
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let endpoint = set.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
    let shown = endpoint.clone().unwrap_or_else(|| {
        format!("AWS region {}", region.unwrap_or_else(|| "us-east-1 (none was set)".to_owned()))
    });
    let bucket = address.root.rsplit('/').next().unwrap_or_default();
    builder = builder.with_bucket_name(bucket).with_retry(no_retries());
    let endpoints: Vec<&str> = endpoint.iter().flat_map(|all| all.split(',')).map(str::trim).collect();
    let make = |endpoint: Option<&str>| {
        let mut builder = builder.clone();
        if let Some(endpoint) = endpoint {
            builder = builder
                .with_endpoint(endpoint)
                .with_allow_http(plain_http(endpoint) || options.allows_http());
        }
        builder.build().map(Arc::new).map_err(|e| failed(&e, options))
    };
    let first = make(endpoints.first().copied())?;
    let mut others: Vec<Arc<dyn ObjectStore>> = Vec::new();
    for endpoint in endpoints.iter().skip(1) {
        others.push(make(Some(endpoint))?);
    }
    let opened = Opened::new(first.clone(), identity, shown, Scheme::S3);
    Ok(Opened { parts: Some(first), others, ..opened })
}

/// Uses the profile's settings, if there is one; otherwise the machine's own identity.
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
    let (wire, client) = client(options)?;
    let builder = GoogleCloudStorageBuilder::from_env().with_http_connector(wire).with_client_options(client);
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
    let store =
        builder.with_bucket_name(bucket).with_retry(no_retries()).build().map_err(|e| failed(&e, options))?;
    let endpoint = endpoint.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
    let store = Arc::new(store);
    let opened = Opened::new(store.clone(), identity, endpoint, Scheme::Gs);
    Ok(Opened { parts: Some(store), ..opened })
}

fn az(address: &Address, options: &Options) -> Result<Opened> {
    let key = |b: MicrosoftAzureBuilder, key: AzureConfigKey, value: &str| b.with_config(key, value);
    let (wire, client) = client(options)?;
    let builder = MicrosoftAzureBuilder::from_env()
        .with_http_connector(wire)
        .with_url(&address.root)
        .with_client_options(client);
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
    let store = builder.with_retry(no_retries()).build().map_err(|e| failed(&e, options))?;
    let usual = || format!("https://{}.blob.core.windows.net", account.unwrap_or_default());
    let store = Arc::new(store);
    let opened = Opened::new(store.clone(), identity, endpoint.unwrap_or_else(usual), Scheme::Az);
    Ok(Opened { parts: Some(store), ..opened })
}

fn http(address: &Address, options: &Options) -> Result<Opened> {
    let mut options = options.clone();
    let identity = options.authorize(address.user.as_ref())?;
    // The user typed a plain http address.
    let (wire, client) = client(&options)?;
    let allowed = client.with_allow_http(plain_http(&address.root));
    let key = |b: HttpBuilder, key: ClientConfigKey, value: &str| b.with_config(key, value);
    let builder =
        HttpBuilder::new().with_http_connector(wire).with_url(format!("{}/{}", address.root, address.query));
    let builder = configure(Scheme::Http, &options, builder.with_client_options(allowed), key)?;
    let store = builder.with_retry(no_retries()).build().map_err(|e| failed(&e, &options))?;
    Ok(Opened::new(Arc::new(store), identity, address.root.clone(), Scheme::Http))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_unknown_name_is_an_error() {
        let address = Address::parse("s3://bucket/x").unwrap();
        let message = open(&address, &options("s3", &[("regoin", "x")])).unwrap_err().to_string();
        assert!(message.contains("regoin") && message.contains("docs/remote.md"), "{message}");
    }
}
