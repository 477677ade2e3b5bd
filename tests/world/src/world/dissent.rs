//! Candidates that want another strategy, and the third party that carries it out.
//!
//! Some of these candidates are dead objects that were left behind. Others are processes that live for a while: they
//! answer pings, take up grants of the third party, and stop gracefully or die. The third party grants a Lease to such
//! a process only if the Lease is on hold for its strategy and free by its own observation. All of them are gone before
//! the world comes to rest.

use std::time::Duration;

use hustings_client::FailOpen;
use hustings_client::api::{LeaseCandidate, LeaseCandidateSpec, MicroTime, ReadLease, names};
use hustings_core::model::{Hold, Moment};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::field::LONGEST_DRAIN;
use super::{Act, Mode, World};
use crate::machine::Machine;
use crate::process::{Habits, NAMESPACE, Process, Stands, THEIRS};
use crate::server::cache::Cache;

/// The name under which the third party's grants are counted, along with the faults.
pub const THIRD_PARTY_GRANT: &str = "grant of a third party";

/// The caller name of the third party.
const THIRD_PARTY: &str = "third-party";

/// How often the third party checks the Lease.
const PERIOD: Duration = Duration::from_secs(2);

/// How long its grants last, in seconds.
const GRANT_SECONDS: u32 = 5;

/// The longest time that a dead candidate exists.
const LONGEST_DEAD: Duration = Duration::from_mins(2);

/// The longest time that a live candidate stays. The effects of earlier trouble are over sooner.
const LONGEST_STAY: Duration = Duration::from_mins(5);

/// How soon the candidate of a dead process is collected.
const COLLECTED_WITHIN: Duration = Duration::from_mins(1);

impl World {
    /// A candidate wants another strategy. Its version determines the strategy, equals that of others, or does not
    /// matter.
    pub(super) async fn dissent(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        if !matches!(self.setup.mode, Mode::Coordinated | Mode::Alone) {
            return false;
        }
        let version = format!("1.{}.0", rng.random_range(29..36));
        let name = format!("{}-dissenter-{number}", self.fields[field].lease);
        let lives = rng.random_bool(0.5);
        let line = format!(
            "#{number} {name} of {version} wants another strategy, and {}",
            if lives { "lives" } else { "is dead" }
        );
        if lives {
            if Instant::now() < self.fields[field].no_start_before {
                return false;
            }
            self.trace(Some(field), &line);
            self.enter_dissenter(field, &name, version, rng);
            return true;
        }
        self.trace(Some(field), &line);
        let spec = LeaseCandidateSpec {
            lease_name: self.fields[field].lease.clone(),
            binary_version: version,
            strategy: Some(THEIRS.to_owned()),
            renew_time: rng.random_bool(0.7).then(|| self.wall()),
            ..LeaseCandidateSpec::default()
        };
        let gone_at = Instant::now() + rng.random_range(Duration::ZERO..LONGEST_DEAD);
        self.acts.push((gone_at, Act::Collect { field, pod: name.clone() }));
        self.candidates().create(&PostParams::default(), &LeaseCandidate::new(&name, spec)).await.is_ok()
    }

    fn enter_dissenter(&mut self, field: usize, name: &str, version: String, rng: &mut StdRng) {
        let drain = rng.random_range(Duration::ZERO..LONGEST_DRAIN);
        let machine = Machine::new(&self.site, name, rng);
        let (lease, timing) = (&self.fields[field].lease, self.fields[field].timing);
        let habits = Habits { drain, pod_uid: None, fail_open: FailOpen::Off };
        let process = Process::start(name, (lease, timing), &Stands::Theirs(version), habits, machine);
        self.listen_to(field, &process);
        let ends_at = Instant::now() + rng.random_range(Duration::from_secs(5)..LONGEST_STAY);
        let collected_at = ends_at + rng.random_range(Duration::ZERO..COLLECTED_WITHIN);
        self.acts.push((ends_at, Act::Leave { field, name: name.to_owned(), dies: rng.random_bool(0.3) }));
        self.acts.push((collected_at, Act::Collect { field, pod: name.to_owned() }));
        if !self.acts.iter().any(|(_, act)| *act == Act::Theirs { field }) {
            self.acts.push((Instant::now() + PERIOD, Act::Theirs { field }));
        }
        self.fields[field].last_start = Instant::now();
        self.fields[field].dissenters.push(process);
    }

    /// A live candidate leaves.
    pub(super) fn leave(&mut self, field: usize, name: &str, dies: bool) {
        let mut dissenters = self.fields[field].dissenters.iter_mut();
        let Some(process) = dissenters.find(|process| process.name == name && !process.has_ended()) else { return };
        if dies {
            process.kill();
        } else {
            tokio::spawn(process.stop());
        }
        self.trace(Some(field), &format!("{name} {}", if dies { "dies" } else { "leaves" }));
    }

    /// The third party grants a Lease that is free and on hold for its strategy, if one of its own candidates stands.
    pub(super) async fn go_theirs(&mut self, field: usize) {
        let Some(electee) = self.fields[field].dissenters.iter().find(|process| !process.has_ended()) else { return };
        let electee = electee.name.clone();
        self.acts.push((Instant::now() + PERIOD, Act::Theirs { field }));
        let server = self.site.server.reached_by(THIRD_PARTY, Cache::default());
        let leases = Api::<ReadLease>::namespaced(server.client(NAMESPACE), NAMESPACE);
        let lease = self.fields[field].lease.clone();
        // Its clock is exact.
        let moment = |world: &Self| Moment::from_micros(world.wall().0.as_micros());
        let sent = moment(self);
        let Some(record) = leases.get_opt(&lease).await.ok().flatten().map(|lease| lease.record) else { return };
        let now = moment(self);
        let view = &mut self.fields[field].view_of_third_party;
        view.observe(record.clone(), Some(sent), now);
        let is_free = view.free_from().is_some_and(|free_from| now >= free_from);
        let is_theirs =
            Hold::read(record.hold.as_deref()).is_some_and(|hold| hold == Hold::ThirdPartyStrategy(THEIRS.to_owned()));
        if !is_theirs || !is_free {
            return;
        }
        let now = self.wall().0;
        let renewed = record.grant_time(now);
        let patch = json!({
            "metadata": {
                "resourceVersion": record.resource_version.to_string(),
                "annotations": {
                    names::SESSION: "open", names::STRATEGY: THEIRS, names::HOLD: Value::Null,
                    names::PREFERRED_HOLDER: Value::Null, names::LEAVING: Value::Null,
                },
            },
            "spec": {
                "holderIdentity": electee, "leaseDurationSeconds": GRANT_SECONDS,
                "acquireTime": self.wall(), "renewTime": MicroTime(renewed),
                "leaseTransitions": record.transitions.saturating_add(1),
            },
        });
        if leases.patch(&lease, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
            self.count(THIRD_PARTY_GRANT);
            self.trace(Some(field), &format!("the third party grants the Lease to {electee}"));
        }
    }
}
