//! The server of a lab: the reference store, behind an admission policy, with or without the kind LeaseCandidate.

use std::collections::{BTreeMap, BTreeSet};

use hustings_core::model::{
    CandidateKey, CandidateKind, CandidatePatch, LeaseRecord, LeaseWrite, NodeRecord, Object, Outcome, PodRecord,
    ReferenceStore, Reply, Request, Set, WireTime,
};

/// The part of every write that an admission policy reverts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strips {
    /// The session of a Lease.
    Session,
    /// The renew time of a Lease or of a candidate.
    RenewTime,
    /// The whole write of a Lease, and the renew time of a candidate.
    Everything,
}

/// What goes wrong with the requests of controllers.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How many of the next requests fail.
    pub failing: usize,
    /// How many of the next writes of a status meet a conflict, although there is no newer version.
    pub conflicting: usize,
    /// The writes that succeed and have no effect: purposes of writes of the Lease, `create`, `enrol`, `ping`, `status`
    /// and `delete`.
    pub reverted: BTreeSet<String>,
    /// The candidates whose pings the server rejects.
    pub refused_pings: BTreeSet<String>,
}

/// The server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The name of the one Lease.
    pub lease_name: String,
    /// The objects.
    pub store: ReferenceStore,
    /// The part of every write that an admission policy reverts.
    pub strips: Option<Strips>,
    /// Whether the cluster lacks the kind LeaseCandidate.
    pub lacks_candidates: bool,
    /// What goes wrong with the requests of controllers.
    pub faults: Faults,
    /// The Pods.
    pub pods: BTreeMap<String, PodRecord>,
    /// The Pods whose versions no watch shows.
    pub hidden_pods: BTreeSet<String>,
    /// The Nodes.
    pub nodes: BTreeMap<String, NodeRecord>,
}

impl Faults {
    /// Whether this request fails.
    pub(crate) fn fail(&mut self) -> bool {
        let fails = self.failing > 0;
        self.failing = self.failing.saturating_sub(1);
        fails
    }
}

impl Server {
    pub(crate) fn new(lease_name: &str) -> Self {
        Self {
            lease_name: lease_name.to_owned(),
            store: ReferenceStore::new(),
            strips: None,
            lacks_candidates: false,
            faults: Faults::default(),
            pods: BTreeMap::new(),
            hidden_pods: BTreeSet::new(),
            nodes: BTreeMap::new(),
        }
    }

    /// Executes a request of a controller, unless it meets a fault.
    pub(crate) fn execute_for_controller(&mut self, request: &Request, wall: WireTime) -> Reply {
        if self.faults.fail() {
            return Outcome::Unknown;
        }
        let Faults { conflicting, reverted, refused_pings, .. } = &mut self.faults;
        match request {
            Request::PatchCandidate { candidate, uid, patch } => {
                let what = if matches!(patch, CandidatePatch::Ping(_)) { "ping" } else { "status" };
                if what == "ping"
                    && candidate.kind == CandidateKind::Hustings
                    && refused_pings.contains(&*candidate.name)
                {
                    return Outcome::Refused;
                }
                if what == "status" && *conflicting > 0 {
                    *conflicting -= 1;
                    return Outcome::Conflict;
                }
                if reverted.contains(what)
                    && let Some(reverted) = self.reverted(candidate, uid)
                {
                    return reverted;
                }
            }
            Request::DeleteCandidate { candidate, uid, .. } if reverted.contains("delete") => {
                if let Some(reverted) = self.reverted(candidate, uid) {
                    return reverted;
                }
            }
            Request::WriteLease { name, write, .. } => {
                if let Some(lease) = self.store.lease(name)
                    && lease.resource_version == write.resource_version
                {
                    let mut kept = (**write).clone();
                    if reverted.contains(write.purpose.as_str()) {
                        kept = LeaseWrite { enrol: write.enrol.clone(), ..LeaseWrite::new(write.purpose, lease) };
                    }
                    if reverted.contains("enrol") {
                        kept.enrol = Set::Keep;
                    }
                    let request = Request::WriteLease { name: name.clone(), write: Box::new(kept) };
                    return self.execute(&request, wall);
                }
            }
            _ => {}
        }
        self.execute(request, wall)
    }

    /// The reply to a write of a candidate that is reverted at once.
    fn reverted(&mut self, candidate: &CandidateKey, uid: &str) -> Option<Reply> {
        let record = self.store.candidate(candidate.clone()).filter(|record| record.uid == uid)?.clone();
        Some(Outcome::Landed(Object::Candidate(self.store.put_candidate(record).clone())))
    }

    /// Executes a request of a process.
    pub(crate) fn execute(&mut self, request: &Request, wall: WireTime) -> Reply {
        match request {
            Request::CreateCandidate { .. } | Request::ListCandidates { .. } if self.lacks_candidates => {
                Outcome::Missing
            }
            Request::WriteLease { name, write, .. } => {
                let former = self.store.lease(name).cloned();
                let mut write = write.clone();
                match self.strips {
                    None => {}
                    Some(Strips::Session) => write.session = Set::Keep,
                    Some(Strips::RenewTime) => write.renew_time = Set::Keep,
                    Some(Strips::Everything) => {
                        return match former {
                            Some(former) if former.resource_version == write.resource_version => {
                                Outcome::Landed(Object::Lease(former))
                            }
                            _ => self.store.execute(request, wall),
                        };
                    }
                }
                self.store.execute(&Request::WriteLease { name: name.clone(), write }, wall)
            }
            Request::PatchCandidate { candidate, uid, patch } if self.strips.is_some() => {
                let former = self.store.candidate(candidate).and_then(|candidate| candidate.renew_time);
                let mut patch = patch.clone();
                if let (Some(former), CandidatePatch::Renew(time) | CandidatePatch::Refresh { renew_time: time, .. }) =
                    (former, &mut patch)
                {
                    *time = former;
                }
                self.store.execute(&Request::patch_candidate(candidate, uid, patch), wall)
            }
            request => self.store.execute(request, wall),
        }
    }

    /// The current version of the Lease.
    pub fn lease(&self) -> Option<&LeaseRecord> {
        self.store.lease(&self.lease_name)
    }

    /// Edits the Lease as a third party, which creates it if it is missing.
    pub(crate) fn edit_lease(&mut self, edit: impl FnOnce(&mut LeaseRecord)) {
        let empty = || LeaseRecord { duration_seconds: 15, ..LeaseRecord::default() };
        let mut lease = self.lease().cloned().unwrap_or_else(empty);
        edit(&mut lease);
        self.store.put_lease(&self.lease_name, lease);
    }

    /// Grants the Lease to `electee` as a controller does, whatever its state is.
    pub(crate) fn grant(&mut self, electee: &str, wall: WireTime) {
        self.edit_lease(|lease| lease.grant_to(electee, wall));
    }
}
