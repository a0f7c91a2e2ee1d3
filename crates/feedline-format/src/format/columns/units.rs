//! Units of integers that are dates or times, in the notation of Arrow and `datasets`.

use arrow_schema::{DataType, TimeUnit};

fn word(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// The unit of a column of this type; `None` if it is not one of dates or times.
pub(in crate::format) fn unit(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", word(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp[{}, tz={zone}]", word(*unit)),
        DataType::Date32 => "date32[day]".to_owned(),
        DataType::Date64 => "date64[ms]".to_owned(),
        DataType::Time32(unit) => format!("time32[{}]", word(*unit)),
        DataType::Time64(unit) => format!("time64[{}]", word(*unit)),
        DataType::Duration(unit) => format!("duration[{}]", word(*unit)),
        DataType::Dictionary(_, values) => unit(values)?,
        _ => return None,
    })
}

/// Number of `stored` units in one `written` unit, if a writer had to use a finer unit.
pub(in crate::format) fn per(stored: &DataType, written: &DataType) -> i64 {
    use TimeUnit::{Millisecond, Second};
    match (stored, written) {
        (DataType::Timestamp(Millisecond, _), DataType::Timestamp(Second, _))
        | (DataType::Time32(Millisecond), DataType::Time32(Second)) => 1000,
        _ => 1,
    }
}
