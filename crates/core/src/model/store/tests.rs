use super::super::{Pod, Purpose, RecordedStatus, SessionMark, Set};
use super::*;

const WALL: WireTime = WireTime::from_micros(7_900_000);

fn lease_name() -> String {
    "l".to_owned()
}

fn nomination(name: &str) -> Nomination {
    Nomination {
        name: name.to_owned(),
        lease_name: lease_name(),
        binary_version: "1.32".to_owned(),
        emulation_version: Some("1.31".to_owned()),
        priority: Some(3),
        lease_duration_seconds: 15,
        session: "s".to_owned(),
        ..Nomination::default()
    }
}

fn create(name: &str) -> Request {
    Request::CreateCandidate { nomination: Box::new(nomination(name)), renew_time: WireTime::from_micros(1) }
}

fn patch(uid: &str, patch: CandidatePatch) -> Request {
    Request::patch_candidate("a", uid, patch)
}

fn delete(uid: &str, resource_version: Option<u64>) -> Request {
    Request::DeleteCandidate { candidate: CandidateKey::hustings("a"), uid: uid.to_owned(), resource_version }
}

fn write(write: LeaseWrite) -> Request {
    Request::WriteLease { name: lease_name(), write: Box::new(write) }
}

fn lease(reply: Reply) -> LeaseRecord {
    let Reply::Landed(Object::Lease(record)) = reply else { panic!("no Lease: {reply:?}") };
    record
}

fn candidate(reply: Reply) -> CandidateRecord {
    let Reply::Landed(Object::Candidate(record)) = reply else { panic!("no candidate: {reply:?}") };
    record
}

#[test]
fn the_read_after_a_conflict_reads_the_same_candidate() {
    for candidate in [CandidateKey::hustings("a"), CandidateKey::native("a")] {
        let read = Request::ReadCandidate { candidate: candidate.clone() };
        let patched = Request::patch_candidate(candidate.clone(), "u", CandidatePatch::Ping(WALL));
        let deleted = Request::DeleteCandidate { candidate, uid: "u".to_owned(), resource_version: None };
        assert_eq!([patched, deleted].map(|request| request.read_back()), [read.clone(), read]);
    }
}

#[test]
fn a_lease_is_created_once_and_written_on_its_current_version_only() {
    let mut store = ReferenceStore::new();
    let creation = Request::CreateLease { name: lease_name() };
    assert_eq!(store.execute(&creation.read_back(), WALL), Reply::Missing);
    let created = lease(store.execute(&creation, WALL));
    assert_eq!((created.duration_seconds, created.enrolled, &created.session), (15, true, &SessionMark::Absent));
    assert_eq!(store.execute(&creation, WALL), Reply::Conflict);

    let claim = LeaseWrite { holder: Set::To("a".to_owned()), ..LeaseWrite::new(Purpose::Claim, &created) };
    let claimed = lease(store.execute(&write(claim.clone()), WALL));
    assert_eq!((claimed.holder.as_deref(), &claimed.uid), (Some("a"), &created.uid));
    assert!(claimed.resource_version > created.resource_version);
    assert_eq!(store.execute(&write(claim.clone()), WALL), Reply::Conflict, "the version is outdated");
    assert_eq!(lease(store.execute(&creation.read_back(), WALL)), claimed);

    assert_eq!(store.delete_lease("l"), Some(claimed.clone()));
    assert_eq!(store.execute(&write(claim), WALL), Reply::Missing, "a write creates nothing");
    let again = lease(store.execute(&creation, WALL));
    assert!(again.resource_version > claimed.resource_version, "versions grow across the deletion");
    assert_ne!(again.uid, claimed.uid);
}

#[test]
fn a_request_that_changes_nothing_makes_no_version() {
    let mut store = ReferenceStore::new();
    let created = lease(store.execute(&Request::CreateLease { name: lease_name() }, WALL));
    assert_eq!(lease(store.execute(&write(LeaseWrite::new(Purpose::Renew, &created)), WALL)), created);
    let candidate = candidate(store.execute(&create("a"), WALL));
    let renewal = patch(&candidate.uid, CandidatePatch::Renew(WireTime::from_micros(1)));
    assert_eq!(store.execute(&renewal, WALL), Reply::Landed(Object::Candidate(candidate)));
}

#[test]
fn a_candidate_is_created_from_its_nomination_at_a_whole_second() {
    let mut store = ReferenceStore::new();
    let created = candidate(store.execute(&create("a"), WALL));
    let expected = CandidateRecord {
        name: "a".to_owned(),
        uid: created.uid.clone(),
        resource_version: 1,
        creation_time: WireTime::from_micros(7_000_000),
        lease_name: lease_name(),
        binary_version: "1.32".to_owned(),
        emulation_version: Some("1.31".to_owned()),
        priority: 3,
        renew_time: Some(WireTime::from_micros(1)),
        lease_duration_seconds: Some(15),
        session: Some("s".to_owned()),
        ..CandidateRecord::default()
    };
    assert_eq!(created, expected);
    assert_eq!(store.execute(&create("a"), WALL), Reply::Conflict);
}

#[test]
fn each_patch_changes_its_own_fields_of_the_object_with_its_uid() {
    let mut store = ReferenceStore::new();
    let ping = |uid: &str| patch(uid, CandidatePatch::Ping(WireTime::from_micros(2)));
    assert_eq!(store.execute(&ping("x"), WALL), Reply::Missing);
    let created = candidate(store.execute(&create("a"), WALL));
    assert_eq!(store.execute(&ping("x"), WALL), Reply::Conflict);

    let mut expected = created.clone();
    expected.ping_time = Some(WireTime::from_micros(2));
    expected.resource_version += 1;
    assert_eq!(candidate(store.execute(&ping(&created.uid), WALL)), expected);

    let status = RecordedStatus { damping_count: 4, ..RecordedStatus::default() };
    let since = [WireTime::default(); 3];
    let replaced = patch(&created.uid, CandidatePatch::Status { status: Box::new(status.clone()), since });
    expected.status = status;
    expected.resource_version += 1;
    assert_eq!(candidate(store.execute(&replaced, WALL)), expected);

    let pod = Some(Pod { name: "p".to_owned(), uid: "u".to_owned() });
    let newer = Nomination {
        priority: Some(9),
        binary_version: "1.33".to_owned(),
        session: "t".to_owned(),
        pod: pod.clone(),
        ..nomination("a")
    };
    let renew_time = WireTime::from_micros(5);
    let refresh = patch(&created.uid, CandidatePatch::Refresh { nomination: Box::new(newer), renew_time });
    expected.binary_version = "1.33".to_owned();
    expected.session = Some("t".to_owned());
    expected.owned = true;
    expected.pod = pod;
    expected.renew_time = Some(renew_time);
    expected.resource_version += 1;
    assert_eq!(candidate(store.execute(&refresh, WALL)), expected, "the priority is not written again");

    let ownerless = Nomination { binary_version: "1.33".to_owned(), session: "t".to_owned(), ..nomination("a") };
    let refresh = patch(&created.uid, CandidatePatch::Refresh { nomination: Box::new(ownerless), renew_time });
    assert_eq!(candidate(store.execute(&refresh, WALL)), expected, "an owner is never removed");
}

#[test]
fn a_deletion_is_conditional_on_the_uid_and_on_the_version_that_it_names() {
    let mut store = ReferenceStore::new();
    assert_eq!(store.execute(&delete("x", None), WALL), Reply::Missing);
    let first = candidate(store.execute(&create("a"), WALL));
    for outdated in [delete("x", None), delete(&first.uid, Some(first.resource_version + 1))] {
        assert_eq!(store.execute(&outdated, WALL), Reply::Conflict);
    }
    assert_eq!(store.execute(&delete(&first.uid, Some(first.resource_version)), WALL), Reply::Deleted);
    let second = candidate(store.execute(&create("a"), WALL));
    assert!(second.resource_version > first.resource_version + 1, "the deletion has a version, too");
    assert_eq!(store.execute(&delete(&first.uid, None), WALL), Reply::Conflict, "it is another object");
    assert_eq!(store.execute(&delete(&second.uid, None), WALL), Reply::Deleted);
}

#[test]
fn a_list_contains_the_candidates_of_one_lease_by_name() {
    let mut store = ReferenceStore::new();
    for name in ["c", "a"] {
        store.execute(&create(name), WALL);
    }
    store.put_candidate(CandidateRecord {
        name: "b".to_owned(),
        lease_name: "other".to_owned(),
        ..CandidateRecord::default()
    });
    store.put_candidate(CandidateRecord {
        kind: CandidateKind::Native,
        name: "n".to_owned(),
        lease_name: lease_name(),
        ..CandidateRecord::default()
    });
    let reply = store.execute(&Request::ListCandidates { lease_name: lease_name() }, WALL);
    let Reply::Landed(Object::Candidates(listed)) = reply else { panic!("no list: {reply:?}") };
    assert_eq!(listed.iter().map(|candidate| candidate.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn a_third_partys_write_always_makes_a_version_and_without_a_uid_a_new_object() {
    let mut store = ReferenceStore::new();
    let first = store.put_lease("l", LeaseRecord::as_created()).clone();
    let second = store.edit_lease("l", |_| {}).unwrap().clone();
    assert_eq!(second, LeaseRecord { resource_version: first.resource_version + 1, ..first.clone() });
    let replaced = store.put_lease("l", LeaseRecord::as_created()).clone();
    assert_ne!(replaced.uid, first.uid);
    assert_eq!(store.edit_lease("l", |lease| lease.leaving = true).map(|lease| lease.leaving), Some(true));
    assert_eq!(store.edit_candidate("a", |_| {}), None);
}

#[test]
fn objects_may_have_version_counters_of_their_own() {
    let object = |name: &str| ObjectName::Candidate(name.into());
    let mut store = ReferenceStore::counting_apart([(object("a"), 100), (object("b"), 200)]);
    let versions = ["a", "b", "c"].map(|name| candidate(store.execute(&create(name), WALL)).resource_version);
    assert_eq!(versions, [101, 201, 1]);
    assert_eq!(store.delete_candidate("a").map(|deleted| deleted.resource_version), Some(101));
    assert_eq!(candidate(store.execute(&create("a"), WALL)).resource_version, 103);
}
