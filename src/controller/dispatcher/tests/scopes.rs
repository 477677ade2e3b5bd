//! Tests of scopes that are not listed, or that the server refuses to list.

use super::*;
use crate::controller::dispatcher::scopes::{FORGET_AFTER, Scopes};

const KINDS: [Resource; 2] = [Resource::Leases, Resource::Candidates];

#[test]
fn a_namespace_is_listed_once_all_scopes_that_cover_it_are() {
    let scope = |namespace: &str| Scope::Namespace(namespace.to_owned());
    for (whole, partial, expected) in
        [(scope("n"), scope("other"), true), (scope("other"), scope("n"), false), (scope("n"), Scope::Cluster, false)]
    {
        let mut scopes = Scopes::new(&[whole.clone(), partial.clone()], false);
        for kind in KINDS {
            scopes.note_listed(&whole, kind);
        }
        scopes.note_listed(&partial, Resource::Leases);
        assert_eq!(scopes.is_listed("n"), expected, "{whole:?} {partial:?}");
    }
}

#[test]
fn only_a_list_that_elections_waited_for_is_news() {
    let mut scopes = Scopes::new(&[Scope::Cluster], true);
    for kind in [Resource::Leases, Resource::Candidates, Resource::NativeCandidates] {
        assert_eq!([(); 2].map(|()| scopes.note_listed(&Scope::Cluster, kind)), [true, false], "{kind:?}");
    }
    // The server refuses it again and again.
    assert!(!scopes.note_listed(&Scope::Cluster, Resource::Pods));
    for kind in KINDS {
        scopes.note_refused(&Scope::Cluster, kind);
    }
    assert!(scopes.note_listed(&Scope::Cluster, Resource::Leases), "the permission is back");
}

/// As after the deletion of a namespace together with the controller's Role.
#[tokio::test(start_paused = true)]
async fn a_controller_sends_nothing_about_a_namespace_where_it_may_list_nothing_and_forgets_it() {
    for leads in [true, false] {
        let mut dispatcher = dispatcher(leads);
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), held_lease()));
        list_all(&mut dispatcher);
        let refuse = |dispatcher: &mut Dispatcher, kind| dispatcher.handle(WatchEvent::Refused(Scope::Cluster, kind));
        refuse(&mut dispatcher, Resource::Leases);
        assert!(dispatcher.scopes.is_listed("n"), "the permission to list Leases alone is missing");
        refuse(&mut dispatcher, Resource::Candidates);
        // Their deletion was reported before, and only a live read could show that they are gone for good.
        dispatcher.handle(WatchEvent::CandidateRemoved(key("a")));
        dispatcher.handle(WatchEvent::LeaseRemoved(LeaseKey::new("n", "l")));
        dispatcher.decide(LeaseKey::new("n", "l"));
        assert!(dispatcher.in_flight.is_empty(), "a request would be forbidden");
        dispatcher.handle(WatchEvent::Candidate(key("b"), candidate("l")));
        tokio::time::sleep(FORGET_AFTER / 2).await;
        dispatcher.forget_refused();
        assert_eq!((dispatcher.elections.len(), dispatcher.stands_for.len()), (1, 1), "a process may rely on a Lease");
        tokio::time::sleep(FORGET_AFTER / 2).await;
        dispatcher.forget_refused();
        assert_eq!((dispatcher.elections.len(), dispatcher.stands_for.len()), (0, 0));

        // The namespace is back.
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        dispatcher.handle(WatchEvent::Listed(Scope::Cluster, Resource::Leases));
        assert!(!dispatcher.scopes.is_listed("n"), "the candidates may have changed");
        dispatcher.handle(WatchEvent::Listed(Scope::Cluster, Resource::Candidates));
        dispatcher.decide(LeaseKey::new("n", "l"));
        assert_eq!(dispatcher.in_flight.len(), usize::from(leads));
    }
}
