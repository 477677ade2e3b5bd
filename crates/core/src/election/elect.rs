//! The elections: which candidate is granted a free Lease, which one is preferred over a live holder, and which Leases
//! are left to other electors.

use std::sync::Arc;

use super::ballot::{Aim, Ballot, Standing};
use super::builder::DecisionBuilder;
use super::decide::writes_lease;
use super::member::Member;
use super::order::{Order, determining_claims, rank_of, standing, standing_mut};
use super::{Action, Asked, Choice, Election, Event, Write, writes};
use crate::model::{Hold, Moment, Observed};
use crate::ranking::Criterion;

impl Election {
    /// The Lease will soon be free: finds out which candidate would be elected. This grants nothing yet.
    pub(super) fn find_successor(
        &mut self,
        order: &mut Order<'_>,
        holder: Option<&Arc<str>>,
        builder: &mut DecisionBuilder,
    ) {
        let ballot = Ballot::enter(&mut self.ballot, Aim::Fill, builder.now.moment, &self.config);
        let others = standing_mut(order).filter(|member| Some(&member.name) != holder);
        ballot.poll(others, None, builder, &self.config);
    }

    /// The Lease is free: elects a holder.
    pub(super) fn fill(&mut self, order: &mut Order<'_>, builder: &mut DecisionBuilder) {
        let now = builder.now.moment;
        let ballot = Ballot::enter(&mut self.ballot, Aim::Fill, now, &self.config);
        let outcome = ballot.poll(standing_mut(order), None, builder, &self.config);
        let electee = match outcome {
            Standing::Open => return,
            Standing::Closed(None) => {
                self.ballot = None;
                self.report_no_live_candidate(order, builder);
                return;
            }
            Standing::Closed(Some(electee)) => electee,
        };
        if let Some(gap) = &mut self.gap {
            gap.no_live_candidate = false;
        }
        let first =
            standing(order).filter(|(member, _)| member.failed_at.is_none()).map(|(member, _)| member.first_seen).min();
        let settled = first.map_or(now, |first| first.after(self.config.settling));
        if now < settled {
            builder.wake(settled);
            return;
        }
        match self.lease.present() {
            None => self.create_lease(builder),
            Some(observed) => {
                let why = choice(order, &electee, now);
                let (write, event) = writes::grant(observed.record(), &electee, why, builder.now, &self.config);
                self.write_lease(write, Some(event), builder);
            }
        }
    }

    /// The election found no candidate. One event reports that, until a live candidate is found or the Lease is held
    /// again. A Lease without candidates needs no report; its component may be scaled to zero.
    fn report_no_live_candidate(&mut self, order: &Order<'_>, builder: &mut DecisionBuilder) {
        let Some(gap) = &mut self.gap else { return };
        let was_reported = std::mem::replace(&mut gap.no_live_candidate, !order.is_empty());
        if gap.no_live_candidate && !was_reported {
            let silent = standing(order).count();
            let inadmissible = order.len().saturating_sub(silent);
            builder.act(Action::Event(Event::NoLiveCandidate { silent, inadmissible }));
        }
    }

    /// The holder is live: asks it to hand over to a live candidate that is better by merit. Withdraws the request when
    /// there is none.
    pub(super) fn improve(&mut self, order: &mut Order<'_>, holder: &Arc<str>, builder: &mut DecisionBuilder) {
        let now = builder.now.moment;
        let Some((holder_rank, holder_damped)) = order
            .iter()
            .find(|member| member.name == *holder)
            .and_then(|member| Some((member.standing().ok()?.rank.clone(), member.damping.until(now).is_some())))
        else {
            return;
        };
        let contends = |member: &Member| {
            let better = member.standing().is_ok_and(|claim| claim.rank.is_better_than_holder(&holder_rank));
            let damped = member.damping.until(now).is_some();
            better && (!damped || (holder_damped && !member.has_forfeited(now)))
        };
        let electee = self.find_preferred(Aim::Improve, contends, order, builder);
        if let Some(electee) = electee {
            let criterion = rank_of(order, &electee)
                .and_then(|rank| rank.criterion(&holder_rank))
                .unwrap_or(Criterion::EmulationVersion);
            self.prefer(holder, &electee, Some(criterion), builder);
        }
    }

    /// The holder is about to stop: asks it to hand over to the best live candidate. If the holder does not wait, the
    /// same proofs of life serve the grant that follows.
    pub(super) fn relieve(&mut self, order: &mut Order<'_>, holder: &Arc<str>, builder: &mut DecisionBuilder) {
        if let Some(electee) = self.find_preferred(Aim::Fill, |member| member.name != *holder, order, builder) {
            self.prefer(holder, &electee, None, builder);
        }
    }

    fn prefer(
        &mut self,
        holder: &Arc<str>,
        electee: &Arc<str>,
        criterion: Option<Criterion>,
        builder: &mut DecisionBuilder,
    ) {
        let Some(observed) = self.lease.present() else { return };
        let (write, event) = writes::prefer(observed.record(), holder, electee, criterion);
        self.write_lease(write, Some(event), builder);
    }

    /// Runs the election of a preferred holder among the contenders. Withdraws the request when none is left. Returns
    /// the preferred holder, unless the Lease already names it.
    fn find_preferred(
        &mut self,
        aim: Aim,
        contends: impl Fn(&Member) -> bool,
        order: &mut Order<'_>,
        builder: &mut DecisionBuilder,
    ) -> Option<Arc<str>> {
        let now = builder.now.moment;
        let record = self.lease.present()?.record().clone();
        let preferred = record.preferred_holder.as_deref();
        let unchanged_since = self.request_unchanged_since(order, now);
        let mut contenders: Vec<&mut Member> =
            standing_mut(order).filter(|member| member.failed_at.is_none() && contends(member)).collect();
        let ballot = Ballot::enter(&mut self.ballot, aim, now, &self.config);
        if let Some(incumbent) = contenders.iter_mut().find(|member| Some(&*member.name) == preferred)
            && incumbent.ping.is_none()
        {
            let due = incumbent
                .last_ping_at
                .map_or(now, |at| at.after(at.since(unchanged_since).clamp(self.config.window, self.config.validity)));
            builder.wake(due);
            if due <= now && incumbent.rests_until(Write::Ping, now).is_none() {
                ballot.restart(now);
                builder.act(incumbent.ping(builder.now, &self.config));
                builder.wake(now.after(self.config.window));
            }
        }
        let outcome = ballot.poll(contenders.into_iter(), preferred, builder, &self.config);
        match outcome {
            Standing::Open => None,
            Standing::Closed(None) => {
                self.ballot = None;
                if preferred.is_some() {
                    self.write_lease(writes::unprefer(&record), None, builder);
                }
                None
            }
            Standing::Closed(Some(electee)) => (preferred != Some(&*electee)).then_some(electee),
        }
    }

    /// Since when nothing relevant to the current request to hand over has changed: the holder's term, the preferred
    /// holder, and the claims and processes of both.
    ///
    /// The preferred holder is pinged again when as much time has passed as lay between that change and its last ping.
    /// So a holder that never hands over costs few writes.
    fn request_unchanged_since(&self, order: &Order<'_>, now: Moment) -> Moment {
        let record = self.lease.present().map(Observed::record);
        let (holder, preferred) =
            record.map_or((None, None), |record| (record.holder.as_deref(), record.preferred_holder.as_deref()));
        let stands = |asked: &&Asked| (Some(&*asked.holder), Some(&*asked.preferred)) == (holder, preferred);
        let Some(asked) = self.asked.as_ref().filter(stands) else { return now };
        let term = self.tenure.as_ref().map(|tenure| tenure.since);
        order
            .iter()
            .filter(|member| member.name == asked.holder || member.name == asked.preferred)
            .map(|member| member.claim_changed_at)
            .chain(term)
            .fold(asked.preferred_since, Moment::max)
    }

    /// The Lease is free, but elections are paused or the strategy is not ours. Records that on the Lease, once the
    /// candidates that determine the strategy have proved themselves live. Returns whether the Lease already says so.
    pub(super) fn hold(&mut self, hold: &Hold, order: &mut Order<'_>, builder: &mut DecisionBuilder) -> bool {
        // An administrator wrote the pause, so the Lease already says so.
        if matches!(hold, Hold::Pause(_)) {
            self.ballot = None;
            return true;
        }
        let own_creation = self.lease.is_own_creation();
        let stands =
            self.lease.present().is_some_and(|observed| writes::hold(observed.record(), hold, own_creation).is_none());
        let known = self.ask_determining(stands, None, order, builder);
        if stands || !known {
            return stands;
        }
        match self.lease.present() {
            None => self.create_lease(builder),
            Some(observed) => {
                if let Some((write, event)) = writes::hold(observed.record(), hold, own_creation) {
                    self.write_lease(write, Some(event), builder);
                }
            }
        }
        false
    }

    /// The holder is live and left alone. Withdraws a request to hand over, because no election maintains it any more.
    /// Pings the candidates that determine the strategy. A third party may ask the holder to hand over by its own
    /// strategy, so its request stays.
    pub(super) fn leave_alone(
        &mut self,
        holder: &Arc<str>,
        hold: &Hold,
        order: &mut Order<'_>,
        builder: &mut DecisionBuilder,
    ) {
        if !matches!(hold, Hold::ThirdPartyStrategy(_))
            && let Some(record) = self.lease.present().map(Observed::record)
            && record.preferred_holder.is_some()
        {
            self.write_lease(writes::unprefer(record), None, builder);
        }
        if matches!(hold, Hold::Pause(_)) {
            self.ballot = None;
        } else if self.ask_determining(true, Some(holder), order, builder)
            && let Hold::ThirdPartyStrategy(strategy) = hold
        {
            self.name_strategy(strategy, builder);
        }
    }

    /// Pings the candidates whose versions determine the strategy, and all others that ask for another strategy. The
    /// live `holder` is not pinged. A dead candidate must not determine the strategy, and a dozen dead ones of
    /// different versions must not cost one window each. Once the answer is `settled`, they are pinged once per
    /// validity.
    ///
    /// Returns whether the answer is known, or the wait for it is over.
    fn ask_determining(
        &mut self,
        settled: bool,
        holder: Option<&Arc<str>>,
        order: &mut Order<'_>,
        builder: &mut DecisionBuilder,
    ) -> bool {
        let now = builder.now.moment;
        let determining_claims = determining_claims(order.iter().map(|member| &**member));
        let highest = determining_claims.map(|claim| &claim.standing.binary_version).max().cloned();
        let ballot = match &mut self.ballot {
            Some(ballot) if ballot.aim == Aim::Strategy => ballot,
            slot => {
                *slot = None;
                Ballot::enter(slot, Aim::Strategy, now, &self.config)
            }
        };
        let lasts = if settled { self.config.validity } else { self.config.answer_lasts() };
        if now >= ballot.started.after(lasts) {
            ballot.restart(now);
        }
        let has_a_say = |member: &Member| {
            member
                .standing()
                .is_ok_and(|claim| claim.dissents() || Some(&claim.standing.binary_version) == highest.as_ref())
        };
        let asked = standing_mut(order).filter(|member| Some(&member.name) != holder && has_a_say(member));
        ballot.poll_all(asked, builder, &self.config)
    }

    /// Writes the strategy of a held Lease that names none or another one: electors follow the strategy on the Lease.
    pub(super) fn name_strategy(&mut self, strategy: &str, builder: &mut DecisionBuilder) {
        if let Some(record) = self.lease.present().map(Observed::record)
            && record.strategy.as_deref() != Some(strategy)
            && !writes_lease(builder)
        {
            self.write_lease(writes::name_strategy(record, strategy), None, builder);
        }
    }
}

/// Why the electee was chosen, for a person.
fn choice(order: &Order<'_>, electee: &str, now: Moment) -> Choice {
    let mut others = standing(order).skip_while(|(member, _)| *member.name != *electee);
    let electee = others.next();
    let next = others.find(|(member, _)| member.responsive == Some(true));
    match (electee, next) {
        (Some((member, claim)), Some((other, next))) => {
            let damping = member.damping.until(now).is_some() != other.damping.until(now).is_some();
            let criterion = if damping { Some(Criterion::Damping) } else { claim.rank.criterion(&next.rank) };
            criterion.map_or(Choice::OnlyLive, Choice::Better)
        }
        _ if standing(order).nth(1).is_some() => Choice::OnlyLive,
        _ => Choice::Only,
    }
}
