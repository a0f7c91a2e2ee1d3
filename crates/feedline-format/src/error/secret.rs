//! Removes secrets from addresses. Addresses contain secrets (`user:password@`, `?sig=…`), and other libraries repeat
//! them in their messages. Everything that is shown, logged or stored passes through here when errors and locations
//! are made.

use std::borrow::Cow;

/// Parameters whose values are secret, wherever they occur.
const PARAMETERS: [&str; 12] = [
    "x-amz-signature",
    "x-amz-credential",
    "x-amz-security-token",
    "x-goog-signature",
    "x-goog-credential",
    "awsaccesskeyid",
    "signature",
    "sig",
    "token",
    "access_token",
    "api_key",
    "password",
];

/// Printed instead of a secret.
const HIDDEN: &str = "…";

/// Whether an address in a text ends before this character.
fn ends(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`')
}

/// Returns the text without the secrets of the addresses in it.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let suspicious = |word: &str| text.contains(word);
    if !["://", "=", "earer ", "asic "].iter().any(|word| suspicious(word)) {
        return Cow::Borrowed(text);
    }
    let without = hide_words(&hide_parameters(&hide_in_addresses(text)));
    if without == text { Cow::Borrowed(text) } else { Cow::Owned(without) }
}

fn hide_in_addresses(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("://") {
        let scheme = rest[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        out += &rest[..at + 3];
        rest = &rest[at + 3..];
        let address = &rest[..rest.find(ends).unwrap_or(rest.len())];
        rest = &rest[address.len()..];
        out += &plain_address(address, web);
    }
    out + rest
}

/// The part of an address after `://`, without user and query.
fn plain_address(address: &str, web: bool) -> String {
    let host_end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (host, path) = address.split_at(host_end);
    let host = match host.rsplit_once('@') {
        // Azure writes the container there too, without a colon.
        Some((user, host)) if web || user.contains(':') => host,
        _ => host,
    };
    match path.split_once('?') {
        // In other schemes a question mark may be part of a glob pattern.
        Some((path, query)) if web || query.contains('=') => format!("{host}{path}?{HIDDEN}"),
        _ => format!("{host}{path}"),
    }
}

/// Hides the values of `?name=value` and `&name=value` outside of whole addresses.
fn hide_parameters(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['?', '&', ';']) {
        out += &rest[..=at];
        rest = &rest[at + 1..];
        let name =
            &rest[..rest.find(|c: char| ends(c) || matches!(c, '=' | '&' | '?')).unwrap_or(rest.len())];
        if rest[name.len()..].starts_with('=') && PARAMETERS.contains(&name.to_ascii_lowercase().as_str()) {
            out = out + name + "=" + HIDDEN;
            rest = &rest[name.len() + 1..];
            rest = &rest[rest.find(|c: char| ends(c) || c == '&').unwrap_or(rest.len())..];
        }
    }
    out + rest
}

/// Hides the token after `Bearer ` and `Basic `.
fn hide_words(text: &str) -> String {
    let mut out = text.to_owned();
    for word in ["Bearer ", "bearer ", "Basic ", "basic "] {
        let mut from = 0;
        while let Some(at) = out[from..].find(word) {
            let start = from + at + word.len();
            let end = out[start..].find(ends).map_or(out.len(), |length| start + length);
            // Shorter strings are ordinary words.
            if end - start >= 12 {
                out.replace_range(start..end, HIDDEN);
            }
            from = start;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_addresses_are_hidden_and_the_rest_is_kept() {
        for (text, expected) in [
            ("https://me:pw@host:8/a/b.tar?sig=abc&x=1", "https://host:8/a/b.tar?…"),
            ("reading (https://host/x?X-Amz-Signature=abc) failed", "reading (https://host/x?… failed"),
            ("http://token@host", "http://host"),
            ("HTTPS://a:b@c/d, https://e:f@g/h", "HTTPS://c/d, https://g/h"),
            ("abfs://box@me.dfs.core.windows.net/x", "abfs://box@me.dfs.core.windows.net/x"),
            ("s3://bucket/part-??.tar", "s3://bucket/part-??.tar"),
            ("s3://bucket/x?sig=abc", "s3://bucket/x?…"),
            ("GET /x?a=1&X-Amz-Signature=abc&b=2 said no", "GET /x?a=1&X-Amz-Signature=…&b=2 said no"),
            ("Authorization: Bearer ya29.0123456789", "Authorization: Bearer …"),
            ("basic training, a bearer of news", "basic training, a bearer of news"),
            ("/data/sig=5/token=7", "/data/sig=5/token=7"),
            ("plain", "plain"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }
}
