//! A foreign elector, which behaves like client-go's: it has no candidate, claims the Lease by name when it is free,
//! and ignores sessions.
//!
//! It keeps the premise for standing alongside Hustings' electors: it never claims a Lease on which a process may rely.
//! Its requests take no time and its clock is exact, so it leads for exactly its deadline.
//!
//! Its release is as blind as client-go's: it reads the Lease afresh, and decides by the record that it observed before.
//! So a foreign elector that was cut off may empty the Lease of its successor. A conflict cannot prevent that: client-go
//! repeats its release since 0.37, and here nothing happens between the read and the write.
//!
//! It ends its term if a policy reverts its renewal. client-go would continue to lead, although no other process could
//! observe that.

use std::time::Duration;

use hustings_client::WireTime;
use hustings_client::api::{MicroTime, ReadLease};
use kube::Api;
use kube::api::{Patch, PatchParams};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Act, World};
use crate::clock::EPOCH_MICROS;
use crate::process::{NAMESPACE, Process};

/// How often it renews, or checks whether the Lease is free.
const PERIOD: Duration = Duration::from_secs(2);

/// How long it leads after a renewal.
const DEADLINE: Duration = Duration::from_secs(10);

/// The duration that it writes to the Lease, in seconds.
const DURATION_SECONDS: u32 = 15;

/// How much longer it waits before it claims a Lease that was not given up.
const MARGIN: Duration = Duration::from_millis(500);

/// The longest time that it stands.
const LONGEST_STAY: Duration = Duration::from_mins(3);

/// The longest time for which it is cut off, or frozen.
const LONGEST_CUT: Duration = Duration::from_secs(40);

/// A foreign elector.
#[derive(Debug)]
pub(super) struct Foreign {
    pub(super) name: String,
    ends_at: Instant,
    /// Whether it gives the Lease up when it ends or loses it. Otherwise it dies.
    releases: bool,
    leads_until: Option<Instant>,
    /// Whether the record that it observed or wrote last names it.
    believes_to_hold: bool,
    /// From when until when it is cut off.
    cut: (Instant, Instant),
}

impl Foreign {
    pub(super) fn leads(&self) -> bool {
        self.leads_until.is_some_and(|until| Instant::now() < until)
    }
}

impl World {
    /// Starts a foreign elector for the Lease.
    pub(super) fn invite(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        let here = &mut self.fields[field];
        if here.foreign.is_some() {
            return false;
        }
        let name = format!("{}-foreign-{number}", here.lease);
        let now = Instant::now();
        let ends_at = now + rng.random_range(Duration::from_secs(10)..LONGEST_STAY);
        let line = format!("#{number} {name} stands");
        let cut_from = now + rng.random_range(Duration::from_secs(5)..LONGEST_STAY);
        let cut = (cut_from, cut_from + rng.random_range(Duration::from_secs(5)..LONGEST_CUT));
        let releases = rng.random_bool(0.7);
        here.foreign = Some(Foreign { name, ends_at, releases, leads_until: None, believes_to_hold: false, cut });
        self.trace(Some(field), &line);
        self.acts.push((Instant::now(), Act::Foreign { field }));
        true
    }

    /// Ends all processes that stay only for a while.
    pub(super) fn dismiss(&mut self) {
        let now = Instant::now();
        let ends = |act: &Act| matches!(act, Act::Leave { .. } | Act::EndReverting { .. });
        for (at, _) in self.acts.iter_mut().filter(|(_, act)| ends(act)) {
            *at = now.min(*at);
        }
        // The second controller stays until the world has been at rest.
        self.acts.retain(|(_, act)| *act != Act::EndSecond);
        self.fields.iter_mut().flat_map(|field| &mut field.dissenters).for_each(Process::mend);
        for foreign in self.fields.iter_mut().filter_map(|field| field.foreign.as_mut()) {
            foreign.ends_at = foreign.ends_at.min(now);
            foreign.cut.1 = foreign.cut.1.min(now);
        }
    }

    /// Renews, claims, releases, or waits.
    pub(super) async fn go_foreign(&mut self, field: usize) {
        let cut = self.fields[field].foreign.as_ref().map(|foreign| foreign.cut);
        if let Some((_, until)) = cut.filter(|(from, until)| (*from..*until).contains(&Instant::now())) {
            self.acts.push((until, Act::Foreign { field }));
            return;
        }
        let leases = Api::<ReadLease>::namespaced(self.site.server.client(NAMESPACE), NAMESPACE);
        let lease = self.fields[field].lease.clone();
        let record = leases.get_opt(&lease).await.ok().flatten().map(|lease| lease.record);
        let (now, wall) = (Instant::now(), self.wall());
        let here = &mut self.fields[field];
        let Some(foreign) = &mut here.foreign else { return };
        // client-go gives up once its deadline has passed, before it reads the Lease again.
        let has_lost = foreign.believes_to_hold && foreign.leads_until.is_some_and(|until| until <= now);
        let is_over = now >= foreign.ends_at || (has_lost && foreign.releases);
        let releases = is_over && foreign.releases && foreign.believes_to_hold;
        let is_mine = record.as_ref().is_some_and(|record| record.holder.as_ref() == Some(&foreign.name));
        let is_free = record.as_ref().is_some_and(|record| here.checker.is_free(record, now, MARGIN));
        let takes = is_free && !is_mine && !is_over;
        foreign.believes_to_hold = is_mine || takes;
        // It does not lead if it has died, or observes that the Lease has another holder.
        foreign.leads_until = (!is_over && (is_mine || takes)).then(|| now + DEADLINE);
        let spec = match &record {
            Some(_) if is_mine && !is_over => json!({ "leaseDurationSeconds": DURATION_SECONDS, "renewTime": wall }),
            Some(_) if releases => {
                json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": wall, "acquireTime": wall })
            }
            Some(record) if takes => json!({
                "holderIdentity": foreign.name, "leaseDurationSeconds": DURATION_SECONDS,
                "renewTime": wall, "acquireTime": wall, "leaseTransitions": record.transitions.saturating_add(1),
            }),
            _ => Value::Null,
        };
        if is_over {
            here.foreign = None;
        } else {
            self.acts.push((now + PERIOD, Act::Foreign { field }));
        }
        if let (Some(record), Value::Object(_)) = (record, &spec) {
            let version = json!({ "resourceVersion": record.resource_version.to_string() });
            let patch = Patch::Merge(json!({ "metadata": version, "spec": spec }));
            let written = leases.patch(&lease, &PatchParams::default(), &patch).await;
            let took_effect = written.is_ok_and(|lease| lease.record.renew_time == Some(wall.0));
            if let Some(foreign) = self.fields[field].foreign.as_mut().filter(|_| !took_effect) {
                foreign.leads_until = None;
                foreign.believes_to_hold = is_mine;
            }
        }
        self.look(field);
    }

    /// The time of an exact wall clock.
    pub(super) fn wall(&self) -> MicroTime {
        let elapsed = i64::try_from(self.site.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        MicroTime(WireTime::from_micros(EPOCH_MICROS.saturating_add(elapsed)))
    }
}
