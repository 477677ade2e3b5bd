//! Every text that Hustings parses: any input gives a value or an error, every printed value parses as the same value, and
//! versions have one order.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::cmp::Ordering;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use bolero::{TypeGenerator, check};
use hustings::base::duration;
use hustings::cli::{self, Cli, Mistakes, Task, UnparsedArgument};
use hustings::serve::http::ListenAddress;
use hustings::serve::logging::LogLevel;
use hustings_client::Fence;
use hustings_client::api::MicroTime;
use hustings_client::api::names::is_dns_subdomain;
use hustings_client::api::read_leader_label;
use hustings_client::lease_of_group;
use hustings_core::assist::AssistOptions;
use hustings_core::model::{History, Hold, PastTerm, SessionMark, SessionStamp, Strategy, Version, WireTime};

/// The text of a version, in most cases.
#[derive(Clone, Debug, TypeGenerator)]
struct VersionText {
    v: bool,
    zeros: bool,
    numbers: [u64; 3],
    missing: u8,
    pre_release: Vec<PreRelease>,
    build: Option<u8>,
    tail: Option<String>,
}

#[derive(Clone, Debug, TypeGenerator)]
enum PreRelease {
    Number(u64),
    Hyphens(u8),
    Word(u8),
}

impl std::fmt::Display for VersionText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let zeros = if self.zeros { "00" } else { "" };
        write!(f, "{}{zeros}{}", if self.v { "v" } else { "" }, self.numbers[0])?;
        let missing = if self.pre_release.is_empty() && self.build.is_none() { self.missing % 3 } else { 0 };
        for number in &self.numbers[1..3 - usize::from(missing)] {
            write!(f, ".{zeros}{}", number % 4)?;
        }
        for (index, part) in self.pre_release.iter().take(5).enumerate() {
            let separator = if index == 0 { '-' } else { '.' };
            match part {
                PreRelease::Number(number) => write!(f, "{separator}{number}")?,
                PreRelease::Hyphens(count) => write!(f, "{separator}{}", "-".repeat(usize::from(count % 4) + 1))?,
                PreRelease::Word(number) => write!(f, "{separator}w{}", number % 4)?,
            }
        }
        if let Some(build) = self.build {
            write!(f, "+b{build}")?;
        }
        f.write_str(self.tail.as_deref().unwrap_or_default())
    }
}

#[test]
fn a_version_that_is_written_is_read_as_the_same() {
    check!().with_type::<VersionText>().for_each(|text| {
        let text = text.to_string();
        let Ok(version) = text.parse::<Version>() else { return };
        assert!(text.len() <= 256);
        assert_eq!(version.to_string().parse::<Version>().unwrap(), version, "{text:?}");
        assert_eq!(format!(" v{version} ").parse::<Version>().unwrap(), version, "{text:?}");
    });
}

#[test]
fn versions_have_one_order() {
    check!().with_type::<[VersionText; 3]>().for_each(|texts| {
        let [Ok(a), Ok(b), Ok(c)] = texts.each_ref().map(|text| text.to_string().parse::<Version>()) else { return };
        assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        assert_eq!(a.cmp(&b) == Ordering::Equal, a == b, "{a} and {b}");
        let state = RandomState::new();
        assert!(a != b || state.hash_one(&a) == state.hash_one(&b));
        let mut sorted = [&a, &b, &c];
        sorted.sort();
        assert!(sorted[0] <= sorted[1] && sorted[1] <= sorted[2] && sorted[0] <= sorted[2], "{sorted:?}");
    });
}

#[test]
fn any_text_is_read_or_refused() {
    check!().for_each(|bytes: &[u8]| {
        let text = &*String::from_utf8_lossy(bytes);
        if let Ok(version) = text.parse::<Version>() {
            assert!(version.to_string().len() <= 256 + ".0.0".len());
        }
        let _ = Strategy::read(Some(text));
        if let Some(hold) = Hold::read(Some(text)) {
            assert_eq!(Hold::read(Some(&hold.to_string())), Some(hold));
        }
        let mark = SessionMark::read(Some(text));
        assert_eq!(SessionMark::read(Some(&mark.to_string())), mark);
        assert_eq!(mark == SessionMark::Open, text == "open", "nothing else is open");
        let _ = SessionStamp::place(text);
        let history = History::read(text);
        let terms: Vec<PastTerm> = history.terms().collect();
        let rewritten: Vec<PastTerm> = history.without_running().terms().collect();
        assert!(terms.starts_with(&rewritten), "a rewrite drops only old terms");
        assert!(history.without_running().as_str().len() <= History::LONGEST);
        if let Ok(fence) = text.parse::<Fence>() {
            assert_eq!(fence.to_string().parse::<Fence>().unwrap(), fence);
        }
        if let Ok(options) = AssistOptions::read(text) {
            assert_eq!(AssistOptions::read(&options.to_string()), Ok(options));
        }
        if let Ok(address) = ListenAddress::read(text) {
            assert_eq!(ListenAddress::read(&address.to_string()), Ok(address));
        }
        if let Ok(label) = read_leader_label(text) {
            assert_eq!(read_leader_label(&label.to_string()), Ok(label));
        }
        let _ = LogLevel::read(text);
        if is_dns_subdomain(text) {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            assert!(!text.is_empty() && text.len() <= 253 && text.bytes().all(fits), "{text:?}");
        }
        assert!(text.is_empty() || lease_of_group("l", text).ends_with(text));
    });
}

#[test]
fn a_session_that_is_written_is_read_as_the_same() {
    check!().with_type::<(String, u64, u32)>().for_each(|(session, term, seconds)| {
        let stamp = SessionStamp { session: session.clone(), term: *term, seconds: *seconds };
        let read = SessionMark::read(Some(&stamp.to_string()));
        assert_eq!(read.stamp(), Some(&stamp).filter(|_| !session.is_empty()));
    });
}

#[test]
fn any_text_is_some_time_and_any_time_is_written_and_read() {
    check!().with_type::<(String, i64)>().for_each(|(text, micros)| {
        let read = MicroTime::read(text);
        assert!(read.0 <= WireTime::MAX);
        assert_eq!(MicroTime::read(&read.to_string()), read, "{text:?}");
        // The times that a clock can show.
        let time = MicroTime(WireTime::from_micros(micros.rem_euclid(WireTime::MAX.as_micros())));
        assert_eq!(MicroTime::read(&time.to_string()), time);
        assert!(WireTime::from_micros(*micros).later_than(Some(time.0)) > time.0);
    });
}

#[test]
fn a_duration_is_read_or_refused_and_never_negative() {
    check!().with_type::<(String, u32, u8)>().for_each(|(text, number, unit)| {
        let _ = duration::parse(text);
        let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
        let (unit, millis) = units[usize::from(*unit) % units.len()];
        let number = u64::from(*number);
        assert_eq!(duration::parse(&format!("{number}{unit}")), Ok(Duration::from_millis(number * millis)));
        assert!(number == 0 || duration::parse(&format!("-{number}{unit}")).is_err());
    });
}

#[test]
fn flags_are_read_or_rejected_by_name() {
    check!().with_type::<[String; 10]>().for_each(|texts| {
        let flags = [
            "namespace",
            "watch-namespaces",
            "admin-address",
            "leader-elect",
            "leader-elect-lease-duration",
            "leader-elect-renew-deadline",
            "leader-elect-resource-name",
            "settling",
            "candidate-validity",
        ];
        read("controller", &flags, texts, &[]);
        let flags = [
            "lease",
            "identity",
            "binary-version",
            "emulation-version",
            "strategy",
            "priority",
            "lease-duration",
            "retry-period",
            "output",
        ];
        read("campaign", &flags, texts, &[]);
        let flags =
            ["lease", "binary-version", "lease-duration", "renew-deadline", "stop-grace", "lost-grace", "restart"];
        let flags = [&flags[..], &["stop-signal"]].concat();
        read("run", &flags, texts, &["--", &texts[0]]);
        let flags = ["lease", "key", "fallback", "listen", "admin-address", "pod-label", "handover-delay"];
        read("sidecar", &flags, texts, &["--direct"]);
        read("status", &["output", "log-level", "log-format"], texts, &["--", &texts[2]]);
    });
}

#[test]
fn a_command_line_of_any_lines_is_read_or_rejected() {
    check!().for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        judge(std::iter::once("hustings").chain(text.trim_end_matches('\n').split('\n')).map(Into::into));
    });
}

/// As the shell passes them: any text may follow the equals sign.
fn read(command: &str, flags: &[&str], texts: &[String], tail: &[&str]) {
    let given = flags.iter().zip(texts).map(|(flag, text)| format!("--{flag}={text}").into());
    let tail = tail.iter().map(|text| (*text).into());
    judge(["hustings".into(), command.into()].into_iter().chain(given).chain(tail));
}

/// Every rejected value is reported by the name of its flag or operand.
fn judge(arguments: impl Iterator<Item = OsString>) {
    let rejected = match cli::parse(arguments) {
        Ok(Cli { global, task }) => {
            let log = global.log();
            Mistakes::check(|mistakes| {
                match task {
                    Task::Controller(flags) => drop(flags.read(mistakes)),
                    Task::Campaign(flags) => drop(flags.read(mistakes)),
                    Task::Run(flags) => drop(flags.read(log, mistakes)),
                    Task::Sidecar(flags) => drop(flags.read(mistakes)),
                    Task::Status(flags) => drop(flags.read(mistakes)),
                    Task::Rollout(flags) => drop(flags.read(mistakes)),
                    Task::Act(act) => drop(act.read(mistakes)),
                    Task::Crds
                    | Task::Check(_)
                    | Task::Survey(_)
                    | Task::Explain(_)
                    | Task::History(_)
                    | Task::Completion(_)
                    | Task::Complete(_)
                    | Task::CopyBinary(_)
                    | Task::Wrapped(_)
                    | Task::Guardian(_) => {}
                }
                Some(())
            })
            .err()
        }
        // clap reports it by itself.
        Err(UnparsedArgument::ByClap(_)) => None,
        Err(UnparsedArgument::Invalid(rejected)) => Some(rejected),
    };
    assert!(rejected.is_none_or(|rejected| rejected.to_string().contains(": ")));
}
