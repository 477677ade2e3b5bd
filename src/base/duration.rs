//! Durations in flags and requests.

use std::time::Duration;

/// Parses a duration such as `15s`, `5m` or `500ms`. It must not be negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration =
        text.parse().map_err(|_| format!("{text:?} is not a duration: use a form such as 15s, 5m or 500ms"))?;
    Duration::try_from(signed).map_err(|_| format!("{text:?} is negative: use a duration of 0s or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_people_write_them_and_are_never_negative() {
        assert_eq!(parse("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(parse("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1h 30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        for rejected in ["-1s", "1s ago", "15", "", "soon", "99999999999999999999s"] {
            assert!(parse(rejected).is_err(), "{rejected:?}");
        }
    }
}
