//! Passes every version of every object to the checkers, in order.

use std::hash::Hash;
use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease, names};
use hustings_core::model::{LeaseRecord, Step};
use tokio::time::Instant;

use super::{Act, Kubelets, World, paths};
use crate::checker::is_grant;
use crate::process::{CONTROLLERS_LEASE, CONTROLLERS_NAMESPACE, NAMESPACE};
use crate::server::{Kind, News, PERSON};

impl World {
    /// Checks all changes that were not checked yet.
    pub(super) fn read(&mut self) {
        if let Some(excess) = self.site.server.excess() {
            self.violate(None, excess);
        }
        for news in self.site.server.news(self.revision) {
            self.revision = news.revision;
            (news.revision, news.at - self.site.began, &news.caller).hash(&mut self.digest);
            match news.kind {
                Kind::Lease if news.name == CONTROLLERS_LEASE && news.namespace == CONTROLLERS_NAMESPACE => {
                    self.see_own(&news);
                }
                Kind::Lease if news.namespace != NAMESPACE => {}
                Kind::Lease => self.see_lease(&news),
                Kind::LeaseCandidate => self.see_candidate(&news),
                Kind::Event | Kind::ConfigMap | Kind::Pod | Kind::AccessReview => {}
            }
        }
    }

    fn field_of(&self, lease: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.lease == lease)
    }

    fn see_own(&mut self, news: &News) {
        let Some(object) = news.object() else { return };
        let record = ReadLease::from_json(object.clone()).record;
        if !self.own.is_renewal(&record) {
            self.trace_at(news.at, None, &line_of(&record, news));
        }
        // A policy that reverts writes affects this Lease as well.
        let is_upset = self.fields.iter().any(|field| Instant::now() < field.upset_until);
        self.own.see(record, news.at, is_upset);
        for violation in std::mem::take(&mut self.own.violations) {
            self.violate(None, violation);
        }
    }

    fn see_lease(&mut self, news: &News) {
        let Some(field) = self.field_of(&news.name) else { return };
        self.notice_field(field, news);
        let Some(object) = news.object() else {
            self.fields[field].ask_ranges();
            self.fields[field].ranges.make_void();
            self.fields[field].checker.lose();
            self.fields[field].grants.lose();
            self.fields[field].is_deleted = true;
            self.trace_at(news.at, Some(field), &format!("Lease {} gone by {}", news.name, news.caller));
            return;
        };
        self.report.versions += 1;
        let record = ReadLease::from_json(object.clone()).record;
        if self.fields[field].checker.is_renewal(&record) {
            self.fields[field].writes.renewals += 1;
        } else {
            self.fields[field].writes.lease += 1;
            self.count_path(field, &record, news);
            self.trace_at(news.at, Some(field), &line_of(&record, news));
        }
        let controller = self.controllers.iter().find(|controller| *controller.name == *news.caller);
        let well_for = controller.map(|controller| controller.machine.well_for());
        let field_now = &mut self.fields[field];
        let is_judged = Instant::now() >= field_now.unjudged_until;
        let well_for = if is_judged { well_for } else { well_for.map(|_| Duration::ZERO) };
        let token = field_now.checker.newest().and_then(|former| former.token);
        field_now.checker.holder_is_dead = match self.setup.kubelets {
            Kubelets::Unwatched => false,
            Kubelets::Truthful => !field_now.everybody().any(|process| process.lives_in_term(token)),
            // S3 does not hold then. The question is whether S1 is found broken.
            Kubelets::Lying => true,
        };
        let is_edited = *news.caller == *PERSON || Instant::now() < field_now.upset_until;
        if field_now.is_too_early(field_now.checker.given_up(&record), &news.caller) {
            let violation = format!("S1: {} gives the Lease up while the work of its term goes on", news.caller);
            field_now.checker.violations.push(violation);
        }
        if record.is_given_up() && field_now.foreign.is_some() {
            // Replace the scheduled check of the foreign elector by a new one.
            self.acts.retain(|(_, act)| *act != Act::Foreign { field });
            self.acts.push((Instant::now(), Act::Foreign { field }));
        }
        field_now.order_ranges(&record, is_edited);
        let live = field_now.dissenters.iter().filter(|process| process.is_well());
        let live: Vec<_> = live.map(|process| &*process.name).collect();
        if is_judged && field_now.processes.iter().any(|process| *process.name == *news.caller && process.is_well()) {
            field_now.grants.check_claim(&record, &news.caller, news.at, &live);
        }
        field_now.grants.see_lease(&record, &news.caller, news.at, well_for, &live);
        field_now.checker.see(record, news.at, is_edited);
        self.report_violations(field);
    }

    /// Counts which path of the product this version shows, if any.
    fn count_path(&mut self, field: usize, record: &LeaseRecord, news: &News) {
        let is_again = std::mem::take(&mut self.fields[field].is_deleted);
        let path = match self.fields[field].checker.newest() {
            None => is_again.then_some(paths::CREATED_AGAIN),
            Some(former) if Step::between(former, record, |_| None) == Step::Emptied => Some(paths::LATE_RELEASE),
            Some(_) if names_evidence(record, news) => Some(paths::GRANT_AFTER_EVIDENCE),
            Some(former) if *news.caller != *PERSON => paths::of_lease(former, record, self.setup.mode),
            Some(_) => None,
        };
        if let Some(path) = path {
            *self.report.paths.entry(path).or_default() += 1;
        }
    }

    fn see_candidate(&mut self, news: &News) {
        if news.namespace != NAMESPACE {
            return;
        }
        let Some(object) = news.object() else {
            for field in &mut self.fields {
                field.grants.lose_candidate(&news.name, news.at);
            }
            let place = self.fields.iter().position(|field| news.name.starts_with(&field.lease));
            self.trace_at(news.at, place, &format!("candidate {} gone by {}", news.name, news.caller));
            return;
        };
        let record = ReadCandidate::from_json(object.clone()).record;
        let Some(field) = self.field_of(&record.lease_name) else { return };
        self.notice_field(field, news);
        let shown = self.fields[field].grants.status(&record.name);
        let is_status = shown.is_some_and(|former| *former != record.status);
        if let Some(path) = shown.and_then(|former| paths::of_status(former, &record.status)) {
            *self.report.paths.entry(path).or_default() += 1;
        }
        self.fields[field].writes.statuses += u32::from(is_status);
        let (what, is_ping) = self.fields[field].grants.see_candidate(record, &news.caller, news.at);
        self.fields[field].writes.pings += u32::from(is_ping);
        self.trace_at(
            news.at,
            Some(field),
            &format!("candidate {} {}: {what} by {}", news.name, news.revision, news.caller),
        );
    }
}

fn line_of(record: &LeaseRecord, news: &News) -> String {
    format!(
        "Lease {} {} by {}: {} under {}, {} s, preferred {}",
        news.name,
        news.revision,
        news.caller,
        record.holder.as_deref().unwrap_or("nobody"),
        // The other parts of a session, pod and network namespace, differ from run to run.
        record.session.to_string().rsplit('.').next().unwrap_or_default(),
        record.duration_seconds,
        record.preferred_holder.as_deref().unwrap_or("nobody"),
    )
}

/// Whether this version is a grant whose reason names evidence.
fn names_evidence(record: &LeaseRecord, news: &News) -> bool {
    let reason = news.object().and_then(|object| object["metadata"]["annotations"][names::REASON].as_str());
    is_grant(record) && reason.is_some_and(|reason| reason.contains("was elected after"))
}
