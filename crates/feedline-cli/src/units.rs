//! Numbers for people: sizes, rates, times; and sizes as typed by people.

/// `12345678` as `12.3 MB`. Powers of 1000, as disks and networks are sold.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "B";
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if unit == "B" { format!("{count} B") } else { format!("{} {unit}", significant(value)) }
}

/// Three significant digits without an exponent.
pub(crate) fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `1281167` as `1,281,167`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 image`, `2,000 images`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Seconds as `0.52 s`, `1 min 20 s`, `2 h 05 min`.
pub(crate) fn seconds(time: f64) -> String {
    if time < 99.5 {
        return format!("{} s", if time < 9.995 { format!("{time:.2}") } else { format!("{time:.0}") });
    }
    let whole = time.round() as u64;
    match whole {
        0..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// The same without fractions, for estimated times.
pub(crate) fn time_left(time: f64) -> String {
    if time < 99.5 { format!("{time:.0} s") } else { seconds(time) }
}

/// A size as typed: `4096`, `64K`, `256M`, `1G` (powers of 1024), `256MB` (powers of 1000), `256MiB`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let wrong = || format!("'{text}' is not a size; write for example 64M, 1G or 500000");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = factor(unit.trim()).ok_or_else(wrong)?;
    let bytes = number * factor as f64;
    if !(1.0..=9e18).contains(&bytes) {
        return Err(format!("'{text}' is not between 1 byte and 9 EB"));
    }
    Ok(bytes as u64)
}

fn factor(unit: &str) -> Option<u64> {
    let upper = unit.to_ascii_uppercase();
    let (prefix, base) = match upper.as_str() {
        "" | "B" => return Some(1),
        u if u.ends_with("IB") => (&upper[..upper.len() - 2], 1024u64),
        u if u.ends_with('B') => (&upper[..upper.len() - 1], 1000),
        u => (u, 1024),
    };
    let power = ["K", "M", "G", "T"].iter().position(|p| *p == prefix)?;
    Some(base.pow(power as u32 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_type_them() {
        assert_eq!(parse_bytes("256M"), Ok(256 << 20));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_bytes("2GB"), Ok(2_000_000_000));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("17"), Ok(17));
        for bad in ["", "M", "0", "-1", "1X", "1e9", "3 apples"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(44_123_456), "44.1 MB");
        assert_eq!(count(1281167), "1,281,167");
        assert_eq!(counted(1, "part"), "1 part");
        assert_eq!(seconds(0.5), "0.50 s");
        assert_eq!(seconds(80.0), "80 s");
        assert_eq!(seconds(3700.0), "1 h 01 min");
    }
}
