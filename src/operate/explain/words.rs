//! Durations, lists and numbers as people write them.

use std::time::Duration;

/// A duration with at most one decimal place, such as `9 s`, `2.5 s` or `20 min`.
pub(super) fn duration(duration: Duration) -> String {
    let tenths = duration.as_millis().saturating_add(50) / 100;
    match (tenths / 10, tenths % 10) {
        (seconds, _) if seconds >= 120 => format!("{} min", seconds.saturating_add(30) / 60),
        (seconds, 0) => format!("{seconds} s"),
        (seconds, tenth) if seconds < 10 => format!("{seconds}.{tenth} s"),
        (seconds, tenth) => format!("{} s", if tenth < 5 { seconds } else { seconds.saturating_add(1) }),
    }
}

/// `a`, `a and b`, or `a, b and c`; of many, the first ones and their number.
pub(super) fn list(names: &[String]) -> String {
    const SHOWN: usize = 4;
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= SHOWN => format!("{} and {last}", first.join(", ")),
        _ => {
            let shown: Vec<_> = names.iter().take(SHOWN).cloned().collect();
            format!("{} and {} more", shown.join(", "), names.len().saturating_sub(SHOWN))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        for (millis, text) in [(0, "0 s"), (41, "0 s"), (2_500, "2.5 s"), (15_015, "15 s"), (90_600, "91 s")] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        for (seconds, text) in [(119, "119 s"), (120, "2 min"), (3_603, "60 min")] {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
        let names = |count: usize| (0..count).map(|index| format!("w{index}")).collect::<Vec<_>>();
        assert_eq!(list(&names(0)), "");
        assert_eq!(list(&names(3)), "w0, w1 and w2");
        assert_eq!(list(&names(4)), "w0, w1, w2 and w3");
        assert_eq!(list(&names(5)), "w0, w1, w2, w3 and 1 more");
        assert_eq!(list(&names(6)), "w0, w1, w2, w3 and 2 more");
    }
}
