//! AWS's shared files: what `aws configure` writes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// Settings of one profile from both files; the credentials file takes precedence.
pub(super) fn read(name: &str) -> Option<BTreeMap<String, String>> {
    let config = file("AWS_CONFIG_FILE", "config");
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    let section = if name == "default" { "default".to_owned() } else { format!("profile {name}") };
    let mut found = config.as_deref().and_then(|text| parse(text, &section));
    let secrets = credentials.as_deref().and_then(|text| parse(text, name));
    match (&mut found, secrets) {
        (Some(found), Some(secrets)) => found.extend(secrets),
        (None, secrets) => found = secrets,
        _ => {}
    }
    found
}

/// The error for a profile whose way to obtain credentials is not supported.
pub(super) fn check(name: &str, profile: &BTreeMap<String, String>) -> Result<()> {
    for (key, what) in [
        ("sso_session", "single sign-on"),
        ("sso_start_url", "single sign-on"),
        ("credential_process", "an external program"),
        ("source_profile", "another profile's role"),
    ] {
        if profile.contains_key(key) && !profile.contains_key("aws_access_key_id") {
            let reason = format!(
                "profile '{name}' gets its credentials from {what}, which is not supported; run \
                 `eval $(aws configure export-credentials --profile {name} --format env)` first"
            );
            return Err(Error::option("storage_options", reason));
        }
    }
    Ok(())
}

fn file(variable: &str, usual: &str) -> Option<String> {
    let path = std::env::var_os(variable).map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".aws").join(usual))
    })?;
    std::fs::read_to_string(path).ok()
}

/// Parses the `key = value` lines of `[section]`; nested settings (indented) are skipped.
fn parse(text: &str, section: &str) -> Option<BTreeMap<String, String>> {
    let mut found: Option<BTreeMap<String, String>> = None;
    let mut here = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || trimmed.starts_with(';') {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            here = name.split_whitespace().eq(section.split_whitespace());
            if here {
                found.get_or_insert_default();
            }
            continue;
        }
        let nested = line.starts_with([' ', '\t']);
        if let (true, false, Some((key, value))) = (here, nested, trimmed.split_once('=')) {
            found.get_or_insert_default().insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\n[default]\nregion=eu-west-1\n\n[profile work]\nAWS_ACCESS_KEY_ID = a\ns3 =\n  max_concurrent_requests = 3\naws_secret_access_key=b=c\n";

    #[test]
    fn sections_are_separate_and_nested_settings_ignored() {
        assert_eq!(parse(TEXT, "default").unwrap()["region"], "eu-west-1");
        let work = parse(TEXT, "profile work").unwrap();
        assert_eq!(
            (work["aws_access_key_id"].as_str(), work["aws_secret_access_key"].as_str()),
            ("a", "b=c")
        );
        assert!(!work.contains_key("max_concurrent_requests") && !work.contains_key("region"));
        assert!(parse(TEXT, "profile wor").is_none());
    }

    #[test]
    fn unknown_ways_to_get_credentials_are_named() {
        let profile = parse("[profile x]\nsso_session = y\n", "profile x").unwrap();
        let message = check("x", &profile).unwrap_err().to_string();
        assert!(message.contains("single sign-on") && message.contains("export-credentials"), "{message}");
    }
}
