//! The guardian on its own: its messages, and which processes it kills.

use super::*;

#[test]
fn a_process_of_the_target_is_waited_for_even_without_the_variable() {
    let mut child = Command::new("sleep").arg("60").env_clear().stdout(Stdio::null()).spawn().unwrap();
    let target = SignalTarget::Process(Pid::from_child(&child));
    let left = kill_listed(target, b"HUSTINGS_TEST_VARIABLE=", &mut || false).unwrap();
    assert_eq!((left, child.try_wait().unwrap()), (1, None), "it is not killed again");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(kill_listed(target, b"HUSTINGS_TEST_VARIABLE=", &mut || false).unwrap(), 0);
}

#[test]
fn the_next_command_is_not_killed_for_the_former_one() {
    let mut next =
        Command::new("sleep").arg("60").env("HUSTINGS_TEST_NEXT", "1").stdout(Stdio::null()).spawn().unwrap();
    let former = SignalTarget::Process(Pid::from_raw(i32::MAX).unwrap());
    assert_eq!(kill_listed(former, b"HUSTINGS_TEST_NEXT=", &mut || true).unwrap(), 0);
    assert_eq!(next.try_wait().unwrap(), None);
    // What the former one has left is killed. A process has no environment for a moment after its start.
    let started = Instant::now();
    while next.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_mins(1) {
        drop(kill_listed(former, b"HUSTINGS_TEST_NEXT=", &mut || false));
    }
    assert_eq!(next.wait().unwrap().code(), None, "killed by a signal");
}

#[test]
fn messages_are_parsed_as_they_are_written() {
    let pid = Pid::from_raw(77).unwrap();
    for message in [
        Message::Guard(SignalTarget::Group(pid), Moment::from_micros(12)),
        Message::Guard(SignalTarget::Process(pid), Moment::from_micros(13)),
        Message::Free,
        Message::End,
    ] {
        assert_eq!(Message::read(&format!("{message}\n")), Some(message));
    }
    for broken in ["", "group", "group 0 1", "group -1 5", "group 1 5", "group 77", "kill 77 5"] {
        assert_eq!(Message::read(broken), None, "{broken:?}");
    }
}

#[test]
fn after_a_freeze_the_newest_message_is_read_at_once() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let target = SignalTarget::Group(Pid::from_raw(77).unwrap());
    let messages = (0..1_000).map(|moment| format!("{}\n", Message::Guard(target, Moment::from_micros(moment))));
    let messages: String = messages.collect();
    writer.write_all(messages.as_bytes()).unwrap();
    let mut unread = Vec::new();
    assert!(receive(&reader, None, &mut unread).unwrap());
    assert!(unread.ends_with(b"77 999\n"), "{} bytes of {}", unread.len(), messages.len());
}

#[test]
fn a_line_without_an_end_is_dropped() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut unread = vec![b'x'; LONGEST_LINE + 1];
    writer.write_all(b"free\n").unwrap();
    assert!(receive(&reader, None, &mut unread).unwrap());
    assert_eq!(unread, b"free\n");
}

#[test]
fn the_newest_message_counts_and_the_last_one_may_be_incomplete() {
    let target = SignalTarget::Group(Pid::from_raw(77).unwrap());
    let guarded = |micros| Some((target, Moment::from_micros(micros)));
    for (text, expected, ends, rest) in [
        ("", guarded(5), false, ""),
        ("group 77 6\n", guarded(6), false, ""),
        ("group 77 6\ngroup 77 7\ngroup 77 8", guarded(7), false, "group 77 8"),
        ("free\n", None, false, ""),
        ("free\ngroup 77 9\n", guarded(9), false, ""),
        ("nonsense\n", guarded(5), false, ""),
        ("fre", guarded(5), false, "fre"),
        ("free\nend\n", None, true, ""),
    ] {
        let (mut unread, mut state) = (text.as_bytes().to_vec(), guarded(5));
        let ended = obey(&mut unread, &mut state);
        assert_eq!((state, ended, &*unread), (expected, ends, rest.as_bytes()), "{text:?}");
    }
}
