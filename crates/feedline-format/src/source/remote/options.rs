//! `storage_options`: maps the names users know from other libraries to settings of the transfer (ours) and of the
//! store (`object_store`'s own names).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;

use super::store::Identity;
use crate::error::{Error, Result};

/// Settings of the transfer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Transfer {
    /// Maximum time to wait for an answer or the next bytes.
    pub(super) stall: Duration,
    /// Maximum time without success after which there are no more retries.
    pub(super) retry_for: Duration,
    /// Maximum number of retries.
    pub(super) retries: u32,
    /// When to send a second request if no answer has begun to arrive.
    pub(super) hedge: Hedge,
    /// Larger ranges are fetched in parts of this size.
    pub(super) part_size: u64,
    /// Number of parts fetched at once.
    pub(super) parallel_parts: usize,
}

/// When to send a second request for the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hedge {
    /// Never.
    Off,
    /// After this long.
    After(Duration),
    /// After the time within which 95 % of recent answers began.
    Auto,
}

impl Default for Transfer {
    fn default() -> Self {
        Transfer {
            stall: Duration::from_secs(10),
            retry_for: Duration::from_secs(300),
            retries: 100,
            hedge: Hedge::Off,
            part_size: 8 << 20,
            parallel_parts: 64,
        }
    }
}

/// All of `storage_options`, parsed.
#[derive(Clone, Default)]
pub(super) struct Options {
    pub(super) transfer: Transfer,
    /// Settings under `object_store`'s names.
    pub(super) store: BTreeMap<String, String>,
    /// An AWS profile.
    pub(super) profile: Option<String>,
    /// Certificates to trust besides the system's, a PEM file.
    pub(super) ca_bundle: Option<String>,
    /// The account that is part of an endpoint's name.
    pub(super) account: Option<String>,
    /// Maximum time to connect.
    pub(super) connect: Duration,
    /// Headers of every request.
    pub(super) headers: BTreeMap<String, String>,
    /// Values that must not be shown.
    secrets: Vec<String>,
}

/// Values may be secrets.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.store.keys().chain(self.headers.keys()).collect();
        f.debug_struct("Options")
            .field("transfer", &self.transfer)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// A name that contains one of these has a secret value.
const SECRET: [&str; 8] =
    ["secret", "token", "password", "sas", "key", "credential", "service_account", "header."];

/// Friendly names and `object_store`'s names, for every scheme.
const EVERYWHERE: [(&str, &str); 7] = [
    ("anon", "skip_signature"),
    ("anonymous", "skip_signature"),
    ("no_sign_request", "skip_signature"),
    ("proxy", "proxy_url"),
    ("no_proxy", "proxy_excludes"),
    ("use_ssl", "use_ssl"),
    ("verify_ssl", "verify_ssl"),
];

const S3: [(&str, &str); 18] = [
    ("key", "aws_access_key_id"),
    ("access_key", "aws_access_key_id"),
    ("secret", "aws_secret_access_key"),
    ("secret_key", "aws_secret_access_key"),
    ("token", "aws_session_token"),
    ("endpoint_url", "aws_endpoint"),
    ("endpoint", "aws_endpoint"),
    ("region_name", "aws_region"),
    ("region", "aws_region"),
    ("requester_pays", "aws_request_payer"),
    ("sse", "aws_server_side_encryption"),
    ("sse_kms_key_id", "aws_sse_kms_key_id"),
    ("sse_bucket_key", "aws_sse_bucket_key_enabled"),
    ("sse_customer_key", "aws_sse_customer_key_base64"),
    ("checksum", "aws_checksum_algorithm"),
    ("s3_express", "aws_s3_express"),
    ("addressing_style", "addressing_style"),
    ("s3_additional_kwargs", "s3_additional_kwargs"),
];

const GS: [(&str, &str); 3] = [
    ("endpoint_url", "google_base_url"),
    ("endpoint", "google_base_url"),
    ("service_account_json", "google_service_account_key"),
];

const AZ: [(&str, &str); 5] = [
    ("account", "azure_storage_account_name"),
    ("account_key", "azure_storage_account_key"),
    ("key", "azure_storage_account_key"),
    ("endpoint_url", "azure_storage_endpoint"),
    ("sas", "azure_storage_sas_token"),
];

impl Options {
    /// Parses the options for a scheme. An unknown name is an error only when the store is built.
    pub(super) fn parse(scheme: &str, given: &BTreeMap<String, String>) -> Result<Self> {
        let mut options = Options { connect: Duration::from_secs(5), ..Options::default() };
        for (name, value) in given {
            let name = name.to_lowercase();
            let word = matches!(value.as_str(), "true" | "false" | "anon");
            if SECRET.iter().any(|word| name.contains(word)) && value.len() >= 4 && !word {
                options.secrets.push(value.clone());
            }
            if options.transfer.set(&name, value)? {
                continue;
            }
            match name.as_str() {
                // Options of the disk cache.
                "cache_bytes" | "cache_lock_timeout" => {}
                "profile" | "profile_name" | "aws_profile" if scheme == "s3" => {
                    options.profile = Some(value.clone());
                }
                "account_id" if scheme == "s3" => options.account = Some(value.clone()),
                "ca_bundle" | "ca_file" | "aws_ca_bundle" | "ssl_ca_cert" => {
                    options.ca_bundle = Some(value.clone());
                }
                _ => match name.strip_prefix("header.") {
                    Some(header) => drop(options.headers.insert(header.to_owned(), value.clone())),
                    None => options.set_store(scheme, &name, value)?,
                },
            }
        }
        Ok(options)
    }

    /// Removes the secrets among these options from another library's message.
    pub(super) fn hide(&self, message: &str) -> String {
        self.secrets.iter().fold(message.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
    }

    /// For a web server: converts user and password, or a token, to a header.
    pub(super) fn authorize(&mut self, in_address: Option<&(String, String)>) -> Result<Identity> {
        let mut take = |names: [&str; 2]| names.iter().find_map(|name| self.store.remove(*name));
        let (name, password) = (take(["username", "user"]), take(["password", "passwd"]));
        let token = take(["token", "bearer_token"]);
        let basic = match (name, password) {
            (None, None) => in_address.cloned(),
            (Some(name), password) => Some((name, password.unwrap_or_default())),
            (None, Some(_)) => return Err(refused("password", "it needs a username")),
        };
        let value = match (basic, token) {
            (Some(_), Some(_)) => return Err(refused("token", "there is a user and password as well")),
            (Some((name, password)), None) => {
                let both = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
                Some(format!("Basic {both}"))
            }
            (None, Some(token)) => Some(format!("Bearer {token}")),
            (None, None) => None,
        };
        if let Some(value) = value {
            self.secrets.push(value.clone());
            self.headers.insert("authorization".to_owned(), value);
        }
        let known = ["authorization", "cookie"].iter().any(|name| self.headers.contains_key(*name));
        Ok(if known { Identity::Options } else { Identity::Anonymous })
    }

    fn set_store(&mut self, scheme: &str, name: &str, value: &str) -> Result<()> {
        let of_scheme: &[(&str, &str)] = match scheme {
            "s3" => &S3,
            "gs" => &GS,
            "az" => &AZ,
            _ => &[],
        };
        let known = of_scheme.iter().chain(&EVERYWHERE).find(|(friendly, _)| *friendly == name);
        let name = known.map_or(name, |(_, own)| own);
        match name {
            "token" if scheme == "gs" => self.set_google_token(value),
            "connect_timeout" => {
                self.connect = seconds(name, value)?;
                self.put(name, &format!("{}ms", self.connect.as_millis()));
            }
            "use_ssl" => self.put("allow_http", if truth(name, value)? { "false" } else { "true" }),
            "verify_ssl" => {
                let off = !truth(name, value)?;
                self.put("allow_invalid_certificates", if off { "true" } else { "false" });
            }
            "addressing_style" => match value {
                "virtual" => self.put("aws_virtual_hosted_style_request", "true"),
                "path" | "auto" => self.put("aws_virtual_hosted_style_request", "false"),
                _ => return Err(bad(name, value, "virtual, path or auto")),
            },
            "s3_additional_kwargs" => return Err(refused(name, "name each setting by itself")),
            _ => self.put(name, value),
        }
        Ok(())
    }

    /// gcsfs's `token`: a word, a file, the content of such a file, or a token.
    fn set_google_token(&mut self, value: &str) {
        match value {
            "anon" => self.put("skip_signature", "true"),
            // The machine's own credentials, which are the default.
            "google_default" | "cloud" => {}
            json if json.trim_start().starts_with('{') => self.put("google_service_account_key", json),
            path if path.contains('/') || path.to_lowercase().ends_with(".json") => {
                // Application credentials: everything but the key of a service account.
                let of_service = std::fs::read_to_string(path).is_ok_and(|text| text.contains("private_key"));
                let name =
                    if of_service { "google_service_account" } else { "google_application_credentials" };
                self.put(name, path);
            }
            token => self.put("google_bearer_token", token),
        }
    }

    fn put(&mut self, name: &str, value: &str) {
        self.store.insert(name.to_owned(), value.to_owned());
    }

    /// Whether the user allows connections without encryption.
    pub(super) fn allows_http(&self) -> bool {
        self.store.get("allow_http").is_some_and(|value| value == "true")
    }

    /// Whether the user asked for anonymous access.
    pub(super) fn anonymous(&self) -> bool {
        let asked = |(name, value): (&String, &String)| {
            name.ends_with("skip_signature") && matches!(value.as_str(), "true" | "True" | "1")
        };
        self.store.iter().any(asked)
    }
}

impl Transfer {
    /// Sets an option of the transfer; false if `name` is not one.
    fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "stall_timeout" => self.stall = seconds(name, value)?,
            "retry_seconds" => self.retry_for = seconds(name, value)?,
            "retries" | "max_retries" => {
                self.retries = value.parse().map_err(|_| bad(name, value, "a whole number"))?;
            }
            "hedge_after" => self.hedge = hedge(name, value)?,
            "part_size" => {
                self.part_size = bytes(name, value)?;
                if self.part_size < 64 << 10 {
                    return Err(bad(name, value, "at least 64 KiB"));
                }
            }
            "max_inflight_parts" => {
                self.parallel_parts = value.parse().map_err(|_| bad(name, value, "a whole number"))?;
                if !(1..=1024).contains(&self.parallel_parts) {
                    return Err(bad(name, value, "between 1 and 1024"));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn hedge(name: &str, value: &str) -> Result<Hedge> {
    match value {
        "off" | "0" | "false" | "False" => Ok(Hedge::Off),
        "auto" => Ok(Hedge::Auto),
        _ => {
            let milliseconds: u64 =
                value.parse().map_err(|_| bad(name, value, "milliseconds, auto or off"))?;
            Ok(Hedge::After(Duration::from_millis(milliseconds)))
        }
    }
}

/// Parses a number of seconds.
pub(crate) fn seconds(name: &str, value: &str) -> Result<Duration> {
    let number: f64 = value.parse().map_err(|_| bad(name, value, "a number of seconds"))?;
    if !(0.001..=1e6).contains(&number) {
        return Err(bad(name, value, "between 0.001 and a million seconds"));
    }
    Ok(Duration::from_secs_f64(number))
}

/// Parses a number of bytes: plain, or with KB, MB, GB, KiB, MiB, GiB, TiB.
pub(crate) fn bytes(name: &str, value: &str) -> Result<u64> {
    let text = value.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match text[end..].trim().to_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(bad(name, value, "a number of bytes, such as 8388608 or 8MiB")),
    };
    let number: Option<u64> = text[..end].parse().ok();
    number
        .and_then(|n| n.checked_mul(unit))
        .ok_or_else(|| bad(name, value, "a number of bytes, such as 8388608 or 8MiB"))
}

fn truth(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "True" | "1" => Ok(true),
        "false" | "False" | "0" => Ok(false),
        _ => Err(bad(name, value, "true or false")),
    }
}

fn bad(name: &str, value: &str, wanted: &str) -> Error {
    Error::option("storage_options", format!("{name} is '{value}'; it must be {wanted}"))
}

fn refused(name: &str, reason: &str) -> Error {
    Error::option("storage_options", format!("{name}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(scheme: &str, given: &[(&str, &str)]) -> Result<Options> {
        let given = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Options::parse(scheme, &given)
    }

    #[test]
    fn friendly_names_become_the_stores_own() {
        let s3 =
            parse("s3", &[("key", "a"), ("secret", "b"), ("endpoint_url", "http://x"), ("anon", "True")])
                .unwrap();
        assert_eq!(s3.store["aws_access_key_id"], "a");
        assert_eq!(s3.store["aws_endpoint"], "http://x");
        assert!(s3.anonymous());
        assert_eq!(parse("az", &[("account", "me")]).unwrap().store["azure_storage_account_name"], "me");
        assert!(parse("gs", &[("token", "anon")]).unwrap().anonymous());
        assert_eq!(parse("s3", &[("profile", "work")]).unwrap().profile.as_deref(), Some("work"));
    }

    #[test]
    fn transfer_settings_are_parsed() {
        let given = [
            ("stall_timeout", "2.5"),
            ("part_size", "4MiB"),
            ("max_inflight_parts", "3"),
            ("hedge_after", "150"),
        ];
        let transfer = parse("s3", &given).unwrap().transfer;
        assert_eq!(transfer.stall, Duration::from_millis(2500));
        assert_eq!((transfer.part_size, transfer.parallel_parts), (4 << 20, 3));
        assert_eq!(transfer.hedge, Hedge::After(Duration::from_millis(150)));
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        for (name, value) in [
            ("stall_timeout", "-1"),
            ("part_size", "7 apples"),
            ("part_size", "1"),
            ("retries", "x"),
            ("max_inflight_parts", "0"),
            ("addressing_style", "x"),
        ] {
            let message = parse("s3", &[(name, value)]).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
        assert!(bytes("n", "99999999999TiB").is_err());
    }
}
