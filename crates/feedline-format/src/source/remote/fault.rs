//! Classifies a store's errors: whether to retry, and what to show the user.

use std::io;
use std::time::Duration;

use super::address::Scheme;
use super::store::{Identity, Opened};
use crate::error::{Error, Location, redacted};
use crate::source::changed;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum RequestError {
    /// No bytes arrived for this long.
    Stalled(Duration),
    /// The body ended early.
    Cut { received: u64, wanted: u64 },
    /// The object is not the one that was opened; this is its length now.
    Changed(u64),
    /// The store or the network returned an error.
    Refused(Fault),
}

/// A store's error, classified.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The store's own message, shortened.
    pub(super) words: String,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Overload, a broken connection, a server's own failure: likely to be temporary.
    Passing,
    /// The credentials have expired.
    Expired,
    /// The credentials lack the permission.
    Denied,
    /// The credentials were refused, or there are none.
    Unknown,
    /// No such bucket.
    NoBucket,
    /// No such object.
    Missing,
    /// The bucket is in another region.
    Elsewhere,
    /// No server under this name, or none that answers.
    Unreachable,
    /// The server's certificate is not trusted.
    Untrusted(CertificateFault),
    /// An https address redirects to one without encryption.
    Unencrypted,
    /// The server does not use TLS.
    NoTls,
    /// The server lacks a feature that we need.
    Unable,
    /// Anything else.
    Other,
}

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateFault {
    /// No known authority has signed it.
    Issuer,
    /// It is the certificate of an authority.
    Authority,
    /// It is for another name.
    Name,
    /// It has expired, or is not valid yet.
    Time,
    /// Anything else.
    Other,
}

/// Maximum length of the store's own message.
const WORDS: usize = 300;

impl Fault {
    /// Classifies an error of `object_store`, which gives status and code only in its text.
    pub(super) fn new(error: &object_store::Error) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            let more = inner.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = inner.source();
        }
        Fault { kind: kind(error, &text), words: shorten(&redacted(&text)) }
    }
}

/// Errors before the first byte of http, for which a retry does not help.
fn handshake(text: &str) -> Option<Kind> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["URL scheme is not allowed"]) {
        return Some(Kind::Unencrypted);
    }
    if has(&["InvalidContentType", "corrupt message", "tls handshake eof"]) {
        return Some(Kind::NoTls);
    }
    if !has(&["invalid peer certificate", "certificate verify failed", "InvalidCertificate"]) {
        return None;
    }
    Some(Kind::Untrusted(if has(&["CaUsedAsEndEntity"]) {
        CertificateFault::Authority
    } else if has(&["NotValidForName", "not valid for name"]) {
        CertificateFault::Name
    } else if has(&["Expired", "expired", "NotValidYet", "not valid yet"]) {
        CertificateFault::Time
    } else if has(&["UnknownIssuer", "self-signed", "unknown issuer", "not trusted"]) {
        CertificateFault::Issuer
    } else {
        CertificateFault::Other
    }))
}

/// What stores write into the bodies of their errors; `object_store` passes it on as text only.
const STORE_CODES: &[(Kind, &[&str])] = &[
    (
        Kind::Expired,
        &[
            "ExpiredToken",
            "TokenRefreshRequired",
            "RequestExpired",
            "token has expired",
            "RequestTimeTooSkewed",
        ],
    ),
    (Kind::NoBucket, &["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]),
    (
        Kind::Elsewhere,
        &[
            "redirect without LOCATION",
            "PermanentRedirect",
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraint",
        ],
    ),
    (
        Kind::Unknown,
        &[
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidToken",
            "InvalidAuthenticationInfo",
            "AuthenticationFailed",
            "CredentialsNotLoaded",
            "169.254.169.254",
            "metadata.google.internal",
        ],
    ),
];

fn kind(error: &object_store::Error, text: &str) -> Kind {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if let Some(kind) = handshake(text) {
        return kind;
    }
    if let Some((kind, _)) = STORE_CODES.iter().find(|(_, words)| has(words)) {
        return *kind;
    }
    match error {
        object_store::Error::NotFound { .. } => Kind::Missing,
        object_store::Error::PermissionDenied { .. } => Kind::Denied,
        object_store::Error::Unauthenticated { .. } => Kind::Unknown,
        object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => Kind::Unable,
        _ if has(&[
            "dns error",
            "failed to lookup",
            "error trying to connect",
            "Connection refused",
            "tcp connect error",
        ]) =>
        {
            Kind::Unreachable
        }
        _ => from_status(text),
    }
}

/// Classifies by the status code in the text, if there is one.
fn from_status(text: &str) -> Kind {
    let Some((_, after)) = text.split_once("status code: ") else {
        return if text.contains("Server returned error response")
            || text.contains("HTTP error")
            || text.contains("error decoding")
            || text.contains("Content-Range")
            || text.contains("header")
        {
            Kind::Passing
        } else {
            Kind::Other
        };
    };
    match after.get(..3).and_then(|digits| digits.parse::<u16>().ok()) {
        Some(501 | 505) => Kind::Unable,
        Some(408 | 425 | 429 | 500..=599) => Kind::Passing,
        Some(400) if text.contains("RequestTimeout") => Kind::Passing,
        Some(301 | 302 | 307 | 308) => Kind::Elsewhere,
        Some(401) => Kind::Unknown,
        Some(403) => Kind::Denied,
        Some(404) => Kind::Missing,
        _ => Kind::Other,
    }
}

/// One line, without markup, not too long.
fn shorten(text: &str) -> String {
    let mut words = String::new();
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                words.push(' ');
            }
            _ if inside => {}
            c if c.is_whitespace() => words.push(' '),
            c => words.push(c),
        }
    }
    let mut short: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if short.chars().count() > WORDS {
        short = short.chars().take(WORDS).collect::<String>() + " …";
    }
    short
}

impl RequestError {
    /// Whether the store refused the request. Refusals are retried only a few times.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, RequestError::Refused(fault) if fault.kind != Kind::Passing)
    }

    /// Whether a retry may help. `refusals` is the number of refusals so far, `known` says that the object was seen
    /// before, `reached` that the store has answered before.
    pub(super) fn passes(&self, refusals: u32, known: bool, reached: bool, identity: &Identity) -> bool {
        match self {
            RequestError::Stalled(_) | RequestError::Cut { .. } => true,
            RequestError::Changed(_) => false,
            RequestError::Refused(fault) => match fault.kind {
                Kind::Passing => true,
                // A mistyped name should fail within seconds, and so should a port without TLS. If TLS worked before,
                // something in the network cuts connections.
                Kind::Unreachable | Kind::NoTls => reached || refusals < 3,
                Kind::Expired => identity.may_renew() || refusals < 3,
                // The object existed a moment ago: a proxy or a replica may be behind, but not for long.
                Kind::Missing => known && refusals < 3,
                _ => false,
            },
        }
    }

    /// Whether to reconnect with credentials that are read again.
    pub(super) fn wants_new_credentials(&self) -> bool {
        matches!(self, RequestError::Refused(fault) if fault.kind == Kind::Expired)
    }

    /// Converts it to an error for the user.
    pub(super) fn into_error(
        self,
        action: &'static str,
        place: Location,
        before: u64,
        opened: &Opened,
        tried: &Attempts,
    ) -> Error {
        let asked = format!("asked {} {}{tried}", opened.endpoint, opened.identity);
        let (kind, reason, hint) = match self {
            RequestError::Changed(now) => return changed(place, before, now),
            RequestError::Stalled(limit) => (
                io::ErrorKind::TimedOut,
                format!("no bytes received for {} s", limit.as_secs_f64()),
                "the server or the network is stuck; stall_timeout and retry_seconds in storage_options set the limits",
            ),
            RequestError::Cut { received, wanted } => (
                io::ErrorKind::UnexpectedEof,
                format!("the connection ended after {received} of {wanted} bytes"),
                "the server or a proxy cuts connections; retry_seconds in storage_options sets how long to try",
            ),
            RequestError::Refused(fault) => {
                let (kind, hint) = advice(fault.kind, &opened.identity, opened.scheme);
                (kind, fault.words, hint)
            }
        };
        let hint = if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") };
        Error::storage(action, place, io::Error::new(kind, format!("{reason} ({asked}){hint}")))
    }
}

/// How often and for how long a request was tried.
#[derive(Debug)]
pub(super) struct Attempts {
    pub(super) times: u32,
    pub(super) seconds: f64,
}

impl std::fmt::Display for Attempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.times > 1 {
            write!(f, ", {} times in {:.1} s", self.times, self.seconds)?;
        }
        Ok(())
    }
}

fn web_advice(identity: &Identity) -> &'static str {
    match identity {
        Identity::Anonymous => {
            "give storage_options={'username': …, 'password': …}, {'token': …} or {'headers': {…}}, or an address that carries its permission (?sig=…)"
        }
        _ => "the server does not accept this user, password, token or header",
    }
}

impl CertificateFault {
    fn advice(self) -> &'static str {
        match self {
            CertificateFault::Issuer => {
                "no authority that this machine trusts has signed the server's certificate: give the certificate of its authority as ca_bundle in storage_options"
            }
            CertificateFault::Authority => {
                "the server's certificate is an authority's (CA:TRUE), which cannot be a server's, in ca_bundle or not: let it sign one with CA:FALSE for the server, or make that one self-signed and give it as ca_bundle"
            }
            CertificateFault::Name => {
                "the certificate is for another server name: use the name it was made for (an IP address must be in it too)"
            }
            CertificateFault::Time => {
                "the certificate has expired or is not valid yet: renew it, or set this machine's clock"
            }
            CertificateFault::Other => "the server's certificate is not valid",
        }
    }
}

fn denied_advice(identity: &Identity) -> &'static str {
    match identity {
        Identity::Anonymous => "the bucket is not public: leave anon out and give credentials",
        _ => {
            "this identity lacks the permission to read or list here; a name that does not exist looks the same without the permission to list"
        }
    }
}

fn credentials_advice(identity: &Identity) -> &'static str {
    match identity {
        Identity::Anonymous | Identity::Platform => {
            "give credentials: storage_options={'key': …, 'secret': …}, a profile, AWS_… or the like in the environment, or anon=True for public data"
        }
        _ => {
            "the store does not accept these credentials: the key is unknown, the secret does not belong to it, or the token is wrong"
        }
    }
}

fn advice(kind: Kind, identity: &Identity, scheme: Scheme) -> (io::ErrorKind, &'static str) {
    match kind {
        Kind::Denied | Kind::Unknown if scheme == Scheme::Http => {
            (io::ErrorKind::PermissionDenied, web_advice(identity))
        }
        Kind::Elsewhere if scheme == Scheme::Http => {
            (io::ErrorKind::Other, "the server redirects without a location")
        }
        Kind::Passing => (
            io::ErrorKind::Other,
            "the store is overloaded or failing; retry_seconds in storage_options sets how long to try",
        ),
        Kind::Expired => (
            io::ErrorKind::PermissionDenied,
            "the credentials have expired (or this machine's clock is wrong); get new ones and open again",
        ),
        Kind::Denied => (io::ErrorKind::PermissionDenied, denied_advice(identity)),
        Kind::Unknown => (io::ErrorKind::PermissionDenied, credentials_advice(identity)),
        Kind::NoBucket => (io::ErrorKind::NotFound, "there is no bucket of this name at this endpoint"),
        Kind::Missing => (io::ErrorKind::NotFound, ""),
        Kind::Elsewhere => {
            (io::ErrorKind::Other, "the bucket is in another region: set storage_options={'region': …}")
        }
        Kind::Unreachable => (
            io::ErrorKind::NotConnected,
            "check the endpoint's name and port, the network and proxy settings",
        ),
        Kind::Untrusted(distrust) => (io::ErrorKind::PermissionDenied, distrust.advice()),
        Kind::Unencrypted => (
            io::ErrorKind::PermissionDenied,
            "the server redirects https:// to http://, which others on the network can read; open the http:// address itself if that is acceptable",
        ),
        Kind::NoTls => (
            io::ErrorKind::Unsupported,
            "the server does not speak TLS on this port: write http:// instead of https://, or give the port that does",
        ),
        Kind::Unable => (
            io::ErrorKind::Unsupported,
            "the server does not do what is asked; it must answer HEAD and range requests",
        ),
        Kind::Other => (io::ErrorKind::Other, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Fault {
        Fault::new(&object_store::Error::Generic { store: "S3", source: text.to_owned().into() })
    }

    #[test]
    fn refusals_are_classified_by_status_and_code() {
        for (text, kind) in [
            ("non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>", Kind::Passing),
            ("non-2xx status code: 500 Internal", Kind::Passing),
            ("non-2xx status code: 501 Not Implemented", Kind::Unable),
            ("non-2xx status code: 400 Bad: <Code>ExpiredToken</Code>", Kind::Expired),
            ("non-2xx status code: 400 Bad: <Code>AuthorizationHeaderMalformed</Code>", Kind::Elsewhere),
            ("non-2xx status code: 404 Not: <Code>NoSuchBucket</Code>", Kind::NoBucket),
            ("non-2xx status code: 403 F: <Code>InvalidAccessKeyId</Code>", Kind::Unknown),
            ("non-2xx status code: 418 teapot", Kind::Other),
            ("HTTP error: error sending request: dns error: failed to lookup address", Kind::Unreachable),
            ("HTTP error: connection reset by peer", Kind::Passing),
        ] {
            assert_eq!(generic(text).kind, kind, "{text}");
        }
    }

    #[test]
    fn error_texts_of_stores_lose_their_markup() {
        assert_eq!(shorten("a: <Error><Code>No</Code>\n<Message>x y</Message></Error>"), "a: No x y");
        assert!(shorten(&"word ".repeat(1000)).len() < 400);
    }
}
