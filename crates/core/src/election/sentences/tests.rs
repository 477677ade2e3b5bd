use std::sync::Arc;

use super::*;
use crate::election::{AdminAct, Event, LeaseVerdict, NoEffect, Timer, TransferRefusal, Write};
use crate::model::{
    CandidateKey, Cause, Ending, Exclusion, InvalidVersion, Malformed, Moment, Pin, Strategy, Transfer, Unheld,
    Version, WireTime,
};

fn invalid(text: &str) -> InvalidVersion {
    text.parse::<Version>().unwrap_err()
}

#[test]
fn no_message_is_longer_than_a_status_or_an_event_may_be() {
    let long = "\u{10ffff}".repeat(300_000);
    let version = || format!("1.2.3-{}", "9a".repeat(125)).parse().unwrap();
    let inadmissible = |inadmissible| Reason::Ineligible(Ineligible::Inadmissible(inadmissible));
    let reasons = [
        Reason::OnHold(Hold::ThirdPartyStrategy(long.clone())),
        Reason::HolderLeftAlone(Hold::Pause(long.clone())),
        inadmissible(Inadmissible::BinaryVersion(invalid(&long))),
        inadmissible(Inadmissible::EmulationVersion(invalid(&long))),
        inadmissible(Inadmissible::Strategy(long.clone())),
        inadmissible(Inadmissible::EmulationAboveBinary { emulation: version(), binary: version() }),
        inadmissible(Inadmissible::EmulationAboveBinary { emulation: Version::new(1, 2, 3), binary: version() }),
    ];
    for reason in reasons {
        assert!(reason.to_string().chars().count() <= 1024, "{reason}");
    }
    let name = "a".repeat(NAME);
    let ignores = Event::HolderIgnoresPreferred {
        holder: CandidateKey::hustings(&name),
        preferred: CandidateKey::hustings(&"b".repeat(9_999)),
    };
    assert!(ignores.to_string().len() <= 1024);
    let candidate = || (CandidateKey::hustings(&name), "u".into());
    let until = WireTime::from_micros(0);
    let act = |act| Event::Act { act, asked_by: Some(long.clone()) };
    let refused = |why| Event::TransferRefused { to: Transfer::To(long.clone()), why };
    for event in [
        act(AdminAct::Excluded { candidate: candidate(), exclusion: Exclusion { until, reason: long.clone() } }),
        act(AdminAct::Paused { hold: Hold::Pause(long.clone()), until: None }),
        act(AdminAct::Paused { hold: Hold::Pause(long.clone()), until: Some(until) }),
        act(AdminAct::Pinned(Pin { candidate: long.clone(), until })),
        act(AdminAct::Unpinned { candidate: long.clone(), ended: false }),
        act(AdminAct::Unpinned { candidate: long.clone(), ended: true }),
        refused(TransferRefusal::Outranked(CandidateKey::hustings(&long))),
        refused(TransferRefusal::ForeignHolder(long.as_str().into())),
        refused(TransferRefusal::OnHold(Hold::Pause(long.clone()))),
        refused(TransferRefusal::Ineligible(Ineligible::Excluded(long.clone()))),
        Event::MalformedAct {
            malformed: *Malformed::new("hustings.io/pin", long.clone(), long.clone()),
            candidate: None,
        },
        Event::OnHold(Hold::Pause(long.clone())),
        Event::Withdrawn {
            holder: name.as_str().into(),
            preferred: CandidateKey::hustings(&long),
            why: TransferRefusal::NoOther,
        },
        Event::Preferred {
            holder: name.as_str().into(),
            candidate: CandidateKey::hustings(&name),
            criterion: Some(Criterion::Pin),
            asked_by: Some(long.clone()),
        },
    ] {
        assert!(event.to_string().chars().count() <= 1024, "{}", event.as_str());
    }
}

fn verdict(reason: Reason, forfeited: bool) -> CandidateVerdict {
    CandidateVerdict {
        candidate: CandidateKey::hustings("a"),
        rank: None,
        state: CandidateState::Standby,
        reason,
        responsive: None,
        answered_early: false,
        unresponsive_since: None,
        damping_count: 0,
        damped_until: None,
        forfeited,
    }
}

#[test]
fn the_conditions_show_whether_a_candidate_is_admissible_and_whether_it_leads() {
    let conditions = |reason, forfeited| {
        let RecordedStatus { admissible, leading, .. } = verdict(reason, forfeited).status();
        [admissible, leading].map(|condition| (condition.status, condition.reason))
    };
    let expected = |truth, reason: &str| (truth, reason.to_owned());
    let admissible = || expected(Truth::True, "Admissible");
    assert_eq!(conditions(Reason::Leads, false), [admissible(), expected(Truth::True, "Leads")]);
    assert_eq!(conditions(Reason::Ineligible(Ineligible::Tie), false), [admissible(), expected(Truth::False, "Tie")]);
    assert_eq!(
        conditions(Reason::Ineligible(Ineligible::Tie), true),
        [admissible(), expected(Truth::False, "GrantNotTakenUp")]
    );
    let refused = Reason::Ineligible(Ineligible::Inadmissible(Inadmissible::Priority(-1)));
    assert_eq!(
        conditions(refused, false),
        [expected(Truth::False, "NegativePriority"), expected(Truth::False, "Inadmissible")]
    );
    let taken = Reason::Ineligible(Ineligible::Inadmissible(Inadmissible::Namesake));
    assert_eq!(conditions(taken, false)[0], expected(Truth::False, "NameTaken"));
}

#[test]
fn each_event_has_a_word_and_is_a_warning_if_it_needs_a_person() {
    let (a, b) = (|| CandidateKey::hustings("a"), || CandidateKey::hustings("b"));
    let candidate = || (a(), "u".into());
    let until = WireTime::from_micros(0);
    let act = |act| Event::Act { act, asked_by: None };
    let exclusion = || Exclusion { until, reason: String::new() };
    let pin = || Pin { candidate: "a".to_owned(), until };
    let unpinned = AdminAct::Unpinned { candidate: "a".to_owned(), ended: true };
    let why = || TransferRefusal::NoOther;
    for (event, word, is_warning) in [
        (Event::Elected { candidate: a(), why: Choice::Only, after: Ending::Expired }, "Elected", false),
        (
            Event::Preferred { holder: "a".into(), candidate: b(), criterion: None, asked_by: None },
            "HandOverAsked",
            false,
        ),
        (Event::Withdrawn { holder: "a".into(), preferred: b(), why: why() }, "HandOverWithdrawn", false),
        (Event::HandedOver { holder: "a".into(), candidate: b(), cause: Cause::Unknown }, "HandedOver", false),
        (Event::BecameLeader { holder: a() }, "LeaderElection", false),
        (act(AdminAct::Paused { hold: Hold::Disagreement, until: None }), "Paused", false),
        (act(AdminAct::Resumed { ended: true }), "Resumed", false),
        (act(AdminAct::Pinned(pin())), "Pinned", false),
        (act(unpinned), "Unpinned", false),
        (act(AdminAct::Excluded { candidate: candidate(), exclusion: exclusion() }), "Excluded", false),
        (act(AdminAct::Included { candidate: candidate(), ended: true }), "Included", false),
        (Event::OnHold(Hold::Disagreement), "OnHold", true),
        (Event::NoLiveCandidate { silent: 1, inadmissible: 0, excluded: 0 }, "NoLiveCandidate", true),
        (Event::TransferRefused { to: Transfer::Any, why: why() }, "TransferRefused", true),
        (
            Event::MalformedAct {
                malformed: *Malformed::new("hustings.io/pin", String::new(), String::new()),
                candidate: None,
            },
            "MalformedAct",
            true,
        ),
        (
            Event::WriteHasNoEffect { write: Write::Grant, why: NoEffect::Dropped("x"), candidate: None },
            "WriteHasNoEffect",
            true,
        ),
        (Event::SecondController, "SecondController", true),
        (Event::HolderIgnoresPreferred { holder: a(), preferred: b() }, "HolderIgnoresPreferred", true),
    ] {
        assert_eq!((event.as_str(), event.is_warning()), (word, is_warning));
    }
}

#[test]
fn an_event_names_the_end_of_the_term_before_only_if_nobody_asked_for_it() {
    let (holder, candidate) = ("a".into(), CandidateKey::hustings("b"));
    for (cause, after) in [
        (Cause::Unknown, ""),
        (Cause::Stopped, ""),
        (Cause::Resigned, ""),
        (Cause::ConnectionClosed, " after the connection of the holder's program closed"),
        (Cause::Panicked, " after the work of the holder panicked"),
        (Cause::WorkEnded, " after the work of the holder ended"),
        (Cause::BetterCandidate, ""),
        (Cause::Transfer, ""),
        (Cause::Pin, ""),
        (Cause::Exclusion, ""),
    ] {
        let ending = Ending::Released(cause);
        let elected = Event::Elected { candidate: candidate.clone(), why: Choice::Only, after: ending };
        assert_eq!(elected.to_string(), format!("b was elected{after}: it is the only admissible candidate."));
        let handed_over = Event::HandedOver { holder: Arc::clone(&holder), candidate: candidate.clone(), cause };
        assert_eq!(handed_over.to_string(), format!("a handed over to b{after}."));
    }
}

/// Status conditions, events, metrics and the text of `hustings status` contain these words, and people match them.
#[test]
fn the_words_of_reasons_are_these() {
    let hold = || Hold::Disagreement;
    for (reason, word) in [
        (Reason::Leads, "Leads"),
        (Reason::Granted, "Granted"),
        (Reason::Preferred, "Preferred"),
        (Reason::Asked, "Asked"),
        (Reason::BehindPreferred, "BehindPreferred"),
        (Reason::HolderLeftAlone(hold()), "HolderLeftAlone"),
        (Reason::Election, "NoHolder"),
        (Reason::RanksLast, "Damped"),
        (Reason::ForeignHolder, "ForeignHolder"),
        (Reason::Reserved, "Reserved"),
        (Reason::OnHold(hold()), "OnHold"),
        (Reason::Ineligible(Ineligible::Inadmissible(Inadmissible::Priority(-1))), "Inadmissible"),
        (Reason::Ineligible(Ineligible::Unresponsive), "Unresponsive"),
        (Reason::Ineligible(Ineligible::Holder), "Holder"),
        (Reason::Ineligible(Ineligible::Excluded(String::new())), "Excluded"),
        (Reason::Ineligible(Ineligible::Forfeited), "Damped"),
        (Reason::Ineligible(Ineligible::Damped), "Damped"),
        (Reason::Ineligible(Ineligible::OnHold(hold())), "OnHold"),
        (Reason::Ineligible(Ineligible::HolderPinned), "HolderPinned"),
        (Reason::Ineligible(Ineligible::Outranked(Criterion::Priority)), "Outranked"),
        (Reason::Ineligible(Ineligible::Tie), "Tie"),
        (Reason::Ineligible(Ineligible::HolderStays), "HolderStays"),
    ] {
        assert_eq!(reason.as_str(), word);
    }
    let text = || "x".to_owned();
    for (inadmissible, word) in [
        (Inadmissible::BinaryVersion(invalid("x")), "InvalidBinaryVersion"),
        (Inadmissible::EmulationVersion(invalid("x")), "InvalidEmulationVersion"),
        (Inadmissible::EmulationVersionMissing(Strategy::OldestEmulationVersion), "EmulationVersionMissing"),
        (Inadmissible::Strategy(text()), "InvalidStrategy"),
        (Inadmissible::Priority(-1), "NegativePriority"),
        (Inadmissible::Namesake, "NameTaken"),
        (Inadmissible::RenewTimeMissing, "RenewTimeMissing"),
    ] {
        let event = Event::Inadmissible { candidate: (CandidateKey::hustings("a"), "u".into()), why: inadmissible };
        assert_eq!((event.as_str(), event.is_warning()), (word, true));
    }
    for (responsive, word) in [(Some(true), "Answered"), (Some(false), "DidNotAnswer"), (None, "NotAsked")] {
        let status = CandidateVerdict { responsive, ..verdict(Reason::Election, false) }.status();
        assert_eq!(status.responsive.reason, word);
    }
    let unresponsive_since = Some(WireTime::from_micros(7));
    for (state, shown) in [(CandidateState::Holder, None), (CandidateState::Unresponsive, unresponsive_since)] {
        let status = CandidateVerdict { state, unresponsive_since, ..verdict(Reason::Election, false) }.status();
        assert_eq!(status.unresponsive_since, shown, "{state:?}");
    }
}

#[test]
fn the_words_of_verdicts_writes_and_timers_are_these() {
    let (since, cause) = (Moment::from_micros(0), Unheld::New);
    for (verdict, word) in [
        (LeaseVerdict::OutOfBounds, "out-of-bounds"),
        (LeaseVerdict::Unread, "unread"),
        (LeaseVerdict::Foreign { holder: "a".into() }, "foreign"),
        (LeaseVerdict::Assisted { holder: "a".into(), unprovable: None, hold: None }, "assisted"),
        (LeaseVerdict::Reserved { until: since }, "reserved"),
        (LeaseVerdict::Unheld { since, cause: cause.clone() }, "unheld"),
        (LeaseVerdict::NoLiveCandidate { since, cause }, "no-candidate"),
        (LeaseVerdict::OnHold { hold: Hold::Disagreement, since }, "hold"),
    ] {
        assert_eq!(verdict.as_str(), word);
    }
    let writes = [
        Write::Create,
        Write::Enrol,
        Write::Grant,
        Write::Prefer,
        Write::Hold,
        Write::Act,
        Write::Ping,
        Write::Status,
        Write::Delete,
    ];
    let words = ["create", "enrol", "grant", "prefer", "hold", "act", "ping", "status", "delete"];
    assert_eq!(writes.map(Write::as_str), words);
    let timers = [
        Timer::Expiry,
        Timer::EarlyPings,
        Timer::PingWindow,
        Timer::ElectionWindow,
        Timer::Settling,
        Timer::RepeatedPing,
        Timer::IgnoredRequest,
        Timer::UnlabelledLease,
        Timer::Validity,
        Timer::DampingEnd,
        Timer::ActEnd,
        Timer::StatusRest,
        Timer::Retry,
        Timer::Requeue,
    ];
    for timer in timers {
        // The word is the name of the variant, in kebab case.
        let name = format!("{timer:?}");
        let words = name.char_indices().fold(String::new(), |words, (index, letter)| {
            let hyphen = if index > 0 && letter.is_ascii_uppercase() { "-" } else { "" };
            format!("{words}{hyphen}{}", letter.to_ascii_lowercase())
        });
        assert_eq!(timer.as_str(), words);
    }
}

#[test]
fn each_reason_against_a_candidate_says_what_to_do() {
    for (reason, text) in [
        (Reason::Asked, "Better than the holder; waiting for its answer to a ping."),
        (Reason::Ineligible(Ineligible::Holder), "Is the holder."),
        (
            Reason::Ineligible(Ineligible::Inadmissible(Inadmissible::Strategy("y".to_owned()))),
            r#"strategy "y" is not valid: use OldestEmulationVersion or the form domain/Name."#,
        ),
        (Reason::Ineligible(Ineligible::Outranked(Criterion::Damping)), "The holder has no recent loss."),
        (Reason::Ineligible(Ineligible::Outranked(Criterion::Exclusion)), "The holder has no exclusion."),
        (Reason::Ineligible(Ineligible::Outranked(Criterion::Kind)), "The holder has an earlier kind."),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}
