//! Generators of records and observations with any content.

use hustings_core::election::{Observation, Source, Target};
use hustings_core::model::{
    CandidateKey, CandidateKind, CandidateRecord, CandidateState, ContainerEnd, ContainerRecord, History, LeaseRecord,
    Moment, NativeFields, NodeRecord, PodRecord, RecordedStatus, SessionMark, Unparsed, WireTime,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::acts;

fn version() -> impl Strategy<Value = String> {
    select(vec!["1.30", "v1.31", "1.31.0", "1.32.0-rc.1", "1.32", "0", "", "one", "99999999999.0.0"])
        .prop_map(str::to_owned)
}

pub(crate) fn wire() -> impl Strategy<Value = Option<WireTime>> {
    select(vec![None, Some(i64::MIN), Some(0), Some(1_767_225_600_000_000), Some(i64::MAX)])
        .prop_map(|micros| micros.map(WireTime::from_micros))
}

fn unparsed() -> impl Strategy<Value = Unparsed> {
    select(vec![None, None, Some("soon"), Some("later")])
        .prop_map(|text| text.map_or(Unparsed::NONE, |text| Unparsed::NONE.with("renewTime", text)))
}

fn status() -> impl Strategy<Value = RecordedStatus> {
    (proptest::option::of(select(CandidateState::ALL.to_vec())), select(vec![0, 1, 40, u32::MAX]), wire(), wire())
        .prop_map(|(state, damping_count, damped_until, unresponsive_since)| RecordedStatus {
            state,
            damping_count,
            damped_until,
            unresponsive_since,
            ..RecordedStatus::default()
        })
}

prop_compose! {
    pub(crate) fn candidate(names: Vec<&'static str>)(
        name in select(names),
        uid in select(vec!["u", "v"]),
        resource_version in select(vec![0, 1, 5, 9, u64::MAX]),
        (created, ping_time, renew_time, unparsed) in (wire(), wire(), wire(), unparsed()),
        owned in any::<bool>(),
        (binary_version, emulation_version) in (version(), proptest::option::of(version())),
        strategy in select(vec![None, None, Some("example.com/Mine"), Some("x")]),
        priority in select(vec![0, 0, 1, i32::MIN, i32::MAX]),
        lease_duration_seconds in select(vec![None, Some(0), Some(30), Some(u32::MAX)]),
        session in select(vec![None, Some("s"), Some("t")]),
        status in status(),
        acts in acts::of_candidate(),
        kind in select(vec![CandidateKind::Hustings, CandidateKind::Native]),
    ) -> CandidateRecord {
        CandidateRecord {
            kind,
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version,
            creation_time: created.unwrap_or_default(),
            owned,
            pod: None,
            lease_name: "l".to_owned(),
            binary_version,
            emulation_version,
            strategy: strategy.map(str::to_owned),
            priority,
            ping_time,
            renew_time,
            unparsed,
            lease_duration_seconds,
            session: session.map(str::to_owned),
            acts,
            status,
        }
    }
}

fn preferred() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![None, None, Some("a"), Some("stranger")])
}

prop_compose! {
    pub(crate) fn lease()(
        uid in select(vec!["u", "v"]),
        resource_version in select(vec![0, 1, 5, 9, u64::MAX]),
        holder in select(vec![None, Some("a"), Some("b"), Some("stranger")]),
        (preferred, native_preferred) in (preferred(), preferred()),
        duration_seconds in select(vec![0, 1, 5, 15, u32::MAX]),
        (acquire_time, renew_time, unparsed) in (wire(), wire(), unparsed()),
        transitions in select(vec![0, 1, u32::MAX]),
        session in select(vec![None, Some("open"), Some("s/1/15"), Some("s/2/15"), Some("s/1/4294967295"), Some("?")]),
        hold in select(vec![None, None, Some("disagreement"), Some("third-party strategy x/Y"), Some("maintenance")]),
        acts in acts::of_lease(),
        (leaving, enrolled) in any::<(bool, bool)>(),
        history in select(vec!["", "0 a from 1970-01-01T00:00:00Z: asked to hand over (pin)", "0 a from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z: released (panicked)"]),
    ) -> LeaseRecord {
        LeaseRecord {
            uid: uid.to_owned(),
            resource_version,
            holder: holder.map(str::to_owned),
            duration_seconds,
            acquire_time,
            renew_time,
            transitions,
            session: SessionMark::read(session),
            unparsed,
            token: None,
            preferred_holder: preferred.map(str::to_owned),
            strategy: None,
            hold: hold.map(str::to_owned),
            acts,
            key: None,
            leaving,
            history: History::read(history),
            enrolled,
            native: NativeFields { strategy: None, preferred_holder: native_preferred.map(str::to_owned) },
        }
    }
}

fn source() -> impl Strategy<Value = Source> {
    (0..4, any::<i64>()).prop_map(|(kind, sent)| {
        let sent = Moment::from_micros(sent);
        match kind {
            0 => Source::Watch,
            1 => Source::Read { sent },
            2 => Source::StatusWritten { sent },
            _ => Source::Written { sent },
        }
    })
}

fn key(name: &'static str) -> impl Strategy<Value = CandidateKey> {
    select(vec![CandidateKey::hustings(name), CandidateKey::native(name)])
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![Just(Target::Lease), key("b").prop_map(Target::Candidate), key("b").prop_map(Target::Status)]
}

fn pod() -> impl Strategy<Value = PodRecord> {
    let text = || select(vec!["a", "b", ""]);
    let end = (text(), proptest::option::of(any::<i64>().prop_map(WireTime::from_micros))).prop_map(
        |(container, finished_at)| {
            ContainerRecord::ended(container, [ContainerEnd { finished_at, ..ContainerEnd::default() }])
        },
    );
    (text(), text(), proptest::option::of(text()), any::<(bool, bool)>(), proptest::collection::vec(end, 0..3))
        .prop_map(|(name, uid, node, (share_process_namespace, is_over), containers)| PodRecord {
            name: name.into(),
            uid: uid.into(),
            node: node.map(Into::into),
            share_process_namespace,
            is_over,
            containers: containers.into(),
            ..PodRecord::default()
        })
}

fn node() -> impl Strategy<Value = NodeRecord> {
    (select(vec!["a", "b"]), any::<bool>(), any::<bool>()).prop_map(|(name, is_out_of_service, is_ready)| NodeRecord {
        name: name.to_owned(),
        is_out_of_service,
        is_ready,
    })
}

pub(crate) fn observation() -> impl Strategy<Value = Observation> {
    let names = vec!["a", "b", "c"];
    prop_oneof![
        3 => (lease(), source()).prop_map(|(record, source)| Observation::Lease { record, source }),
        1 => source().prop_map(|source| Observation::LeaseMissing { source }),
        4 => (candidate(names), source()).prop_map(|(record, source)| Observation::Candidate { record, source }),
        1 => (key("a"), source()).prop_map(|(candidate, source)| Observation::CandidateMissing { candidate, source }),
        1 => pod().prop_map(|record| Observation::Pod { record: record.into() }),
        1 => node().prop_map(|record| Observation::Node { record }),
        1 => target().prop_map(|target| Observation::Failed { target }),
    ]
}
