//! Corrects answers between the network and `object_store`.
//!
//! `object_store` refuses a whole page of a listing for one key that it would not write itself (`a//b`, `./x`). Such
//! keys are legal. Each is [encoded](UnusableKey) as one plain name and decoded again by the listing code.

use std::borrow::Cow;
use std::pin::Pin;
use std::time::Duration;

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, HeaderMap};

use super::direct::Direct;
use super::options::Options;

/// Makes clients whose answers are corrected.
#[derive(Debug)]
pub(super) struct Wire {
    /// What [`ClientOptions`] do not tell: the headers of every request and the time to connect. `None` behind a
    /// proxy, which only `object_store`'s own client can use.
    direct: Option<(HeaderMap, Duration)>,
}

impl Wire {
    pub(super) fn new(headers: HeaderMap, options: &Options) -> Self {
        let proxies = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
        let proxy = options.store.contains_key("proxy_url")
            || proxies.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
        Wire { direct: (!proxy).then_some((headers, options.connect)) }
    }
}

impl HttpConnector for Wire {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let direct = self.direct.clone().map(|(headers, connect)| Direct::new(headers, connect));
        Ok(HttpClient::new(Client { inner: ReqwestConnector::default().connect(options)?, direct }))
    }
}

#[derive(Debug)]
struct Client {
    inner: HttpClient,
    direct: Option<Direct>,
}

impl Client {
    /// Ranges of objects use the direct client if possible.
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let plain = request.uri().scheme_str() == Some("http") && request.headers().contains_key("range");
        if let Some(direct) = self.direct.as_ref().filter(|_| plain && request.method().as_str() == "GET")
            && let Some(answer) = direct.get(&request).await?
        {
            return Ok(answer);
        }
        self.inner.execute(request).await
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Client {
    // Written out as `#[async_trait]` expands an `async fn`.
    fn call<'me, 'answer>(&'me self, request: HttpRequest) -> Answer<'answer>
    where
        'me: 'answer,
        Self: 'answer,
    {
        let listing = request.uri().query().is_some_and(is_listing);
        Box::pin(async move {
            let answer = self.ask(request).await?;
            if !listing || !answer.status().is_success() {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let page = body.bytes().await?;
            let body = match std::str::from_utf8(&page).map(with_plain_names) {
                Ok(Cow::Owned(changed)) => changed.into(),
                _ => page.into(),
            };
            Ok(HttpResponse::from_parts(head, body))
        })
    }
}

/// Whether this is the query of a listing: S3's and Google's, or Azure's.
fn is_listing(query: &str) -> bool {
    query.split('&').any(|pair| pair == "list-type=2" || pair == "comp=list")
}

/// Prefix of an encoded key: a character that Unicode reserves for private use.
const MARK: &str = "\u{f8f0}odd:";

/// A key that cannot be an object's name here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnusableKey(pub(super) String);

impl UnusableKey {
    /// Why this key cannot be a name; `None` if it can.
    fn reason(key: &str) -> Option<&'static str> {
        let folder = key.strip_suffix('/');
        let key = folder.unwrap_or(key);
        if key.split('/').any(str::is_empty) {
            return Some("has an empty part between slashes");
        }
        if key.split('/').any(|part| part == "." || part == "..") {
            return Some("has a part that is '.' or '..'");
        }
        if key.chars().any(|c| c.is_ascii_control()) {
            return Some("has a control character");
        }
        folder.map(|_| "ends in a slash")
    }

    /// Why it cannot be part of a data set.
    pub(super) fn why(&self) -> &'static str {
        UnusableKey::reason(&self.0).unwrap_or("is not a name")
    }

    /// Encodes it as one plain part of a path.
    fn disguise(&self) -> String {
        let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or('0');
        let hex = self.0.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        MARK.chars().chain(hex).collect()
    }

    /// Decodes a key that `disguise` encoded.
    pub(super) fn recognise(path: &str) -> Option<Self> {
        let hex = path.strip_prefix(MARK)?;
        let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
        Some(UnusableKey(String::from_utf8(bytes?).ok()?))
    }
}

/// A page of a listing with every odd key encoded.
fn with_plain_names(page: &str) -> Cow<'_, str> {
    let (mut changed, mut kept) = (String::new(), 0);
    let mut at = 0;
    while let Some(found) = next_name(page, at) {
        let key = unescaped(&page[found.text.clone()]);
        // A folder's name may end in a slash.
        let judged = if found.is_folder { key.strip_suffix('/').unwrap_or(&key) } else { &key };
        if UnusableKey::reason(judged).is_some() {
            changed += &page[kept..found.text.start];
            changed += &UnusableKey(key).disguise();
            kept = found.text.end;
        }
        at = found.text.end;
    }
    if kept == 0 {
        return Cow::Borrowed(page);
    }
    changed += &page[kept..];
    Cow::Owned(changed)
}

/// A name in a page.
struct Name {
    text: std::ops::Range<usize>,
    is_folder: bool,
}

/// The next key, folder or blob after `at`.
fn next_name(page: &str, at: usize) -> Option<Name> {
    const TAGS: [(&str, &str); 3] = [("<Key>", "</Key>"), ("<Prefix>", "</Prefix>"), ("<Name>", "</Name>")];
    let first = |(tag, end): &(&'static str, &'static str)| Some((at + page[at..].find(tag)?, *tag, *end));
    let (found, tag, end) = TAGS.iter().filter_map(first).min()?;
    let start = found + tag.len();
    let length = page[start..].find(end)?;
    let is_folder = tag == "<Prefix>" || page[..found].trim_end().ends_with("<BlobPrefix>");
    Some(Name { text: start..start + length, is_folder })
}

/// Decodes XML's five named characters and numeric ones.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('&') {
        plain += &rest[..at];
        let Some(end) = rest[at..].find(';') else { break };
        let character = match &rest[at + 1..at + end] {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            number => number.strip_prefix('#').and_then(numbered),
        };
        plain.extend(character);
        rest = &rest[at + end + 1..];
    }
    plain + rest
}

fn numbered(number: &str) -> Option<char> {
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_keys_are_escaped_and_restored() {
        let page = "<R><Name>b</Name><Prefix>d/</Prefix><Contents><Key>d/</Key></Contents>\
                    <Contents><Key>d/a&amp;b</Key></Contents><Contents><Key>d//&lt;x&#62;</Key></Contents>\
                    <CommonPrefixes><Prefix>d/e/</Prefix></CommonPrefixes>\
                    <CommonPrefixes><Prefix>d/../</Prefix></CommonPrefixes></R>";
        let changed = with_plain_names(page);
        let odd: Vec<UnusableKey> = changed
            .split(['<', '>'])
            .filter(|text| text.starts_with(MARK))
            .map(|text| UnusableKey::recognise(text).unwrap())
            .collect();
        let found: Vec<(&str, &str)> = odd.iter().map(|odd| (odd.0.as_str(), odd.why())).collect();
        let empty = "has an empty part between slashes";
        assert_eq!(found[..2], [("d/", "ends in a slash"), ("d//<x>", empty)]);
        assert_eq!(found[2].0, "d/../");
        assert!(changed.contains("<Key>d/a&amp;b</Key>") && changed.contains("<Prefix>d/e/</Prefix>"));
        assert!(matches!(with_plain_names("<Key>plain</Key>"), Cow::Borrowed(_)));
    }

    #[test]
    fn azure_folders_and_markers_are_distinguished() {
        let page = "<Blobs><BlobPrefix><Name>d/e/</Name></BlobPrefix><Blob><Name>d/f/</Name></Blob></Blobs>";
        let changed = with_plain_names(page);
        assert!(changed.contains("<BlobPrefix><Name>d/e/</Name>") && !changed.contains("d/f/"));
    }

    #[test]
    fn damaged_listings_never_panic() {
        for page in ["<Key>", "<Key>a//", "&", "<Key>&x</Key>", "<Key>a//&#xffffffff;</Key>"] {
            let _ = with_plain_names(page);
        }
    }
}
