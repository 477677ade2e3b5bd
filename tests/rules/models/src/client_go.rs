//! The control: an elector with the rule of client-go's `leaderelection`, which is in wide use and is not safe.
//!
//! A holder renews every retry period. It stops leading when no renewal was *answered* for a renew deadline. That time
//! counts from the start of the attempt to renew, which is a retry period after the last answer. The others wait for
//! the lease duration, counted from their observation of the last change. That observation may be much earlier than the
//! answer.

use std::time::Duration;

use hustings_core::elector::{Action, AttemptId, Durations, Leading, Observation, Outcome, Source};
use hustings_core::model::{LeaseRecord, LeaseWrite, Moment, Now, Purpose, Request, Set};

use crate::process::LEASE;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientGo {
    identity: String,
    durations: Durations,
    known: Option<LeaseRecord>,
    /// When this elector last observed a change of the record.
    observed_at: Moment,
    /// When a holder gives up unless it has renewed.
    leads_until: Option<Moment>,
    next_try_at: Moment,
    /// The known version was read in this round, or written in the previous one.
    may_act: bool,
    /// The request under way, and when it times out.
    under_way: Option<(AttemptId, Moment)>,
    last_attempt: u64,
}

impl ClientGo {
    pub(crate) fn new(identity: &str, durations: Durations, now: Now) -> Self {
        Self {
            identity: identity.to_owned(),
            durations,
            known: None,
            observed_at: now.moment,
            leads_until: None,
            next_try_at: now.moment,
            may_act: false,
            under_way: None,
            last_attempt: 0,
        }
    }

    pub(crate) fn observe(&mut self, now: Now, observation: Observation) {
        match observation {
            Observation::Lease { record, source: Source::Read(id) } if self.is_under_way(id) => {
                self.under_way = None;
                if self.known.as_ref() != Some(&record) {
                    self.observed_at = now.moment;
                }
                self.known = Some(record);
                self.may_act = true;
            }
            Observation::LeaseWritten { attempt, outcome } if self.is_under_way(attempt) => {
                self.under_way = None;
                self.next_try_at = now.moment.after(self.durations.retry_period);
                self.may_act = matches!(outcome, Outcome::Landed(_));
                if let Outcome::Landed(record) = outcome {
                    (self.known, self.observed_at) = (Some(record), now.moment);
                    self.leads_until = Some(self.next_try_at.after(self.durations.renew_deadline));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn decide(&mut self, now: Now) -> (Vec<Action>, Option<Leading>, Option<Moment>) {
        self.leads_until.take_if(|until| *until <= now.moment);
        if self.under_way.take_if(|(_, until)| *until <= now.moment).is_some() {
            self.may_act = false;
            self.next_try_at = now.moment.after(self.durations.retry_period);
        }
        let mut actions = Vec::new();
        if self.under_way.is_none() && now.moment >= self.next_try_at {
            actions.extend(self.next_request(now));
        }
        let leading = self.leads_until.map(|valid_until| Leading { number: 0, token: 0, valid_until });
        let next_try = self.under_way.map_or(self.next_try_at, |(_, until)| until);
        (actions, leading, Some(self.leads_until.map_or(next_try, |until| until.min(next_try))))
    }

    fn next_request(&mut self, now: Now) -> Option<Action> {
        let known = self.known.as_ref().filter(|_| self.may_act);
        let attempt = AttemptId(self.last_attempt + 1);
        let request = match known {
            None => Request::read_lease(LEASE),
            Some(record) if self.may_write(record, now.moment) => Request::write_lease(LEASE, self.write(record, now)),
            Some(_) => {
                self.may_act = false;
                self.next_try_at = now.moment.after(self.durations.retry_period);
                return None;
            }
        };
        self.last_attempt = attempt.0;
        self.under_way = Some((attempt, now.moment.after(self.durations.request_timeout)));
        Some(Action::Send { attempt, request })
    }

    fn is_under_way(&self, id: AttemptId) -> bool {
        self.under_way.is_some_and(|(under_way, _)| under_way == id)
    }

    fn may_write(&self, record: &LeaseRecord, now: Moment) -> bool {
        let lasts = Duration::from_secs(u64::from(record.duration_seconds));
        record.holder.as_ref().is_none_or(|holder| *holder == self.identity) || now >= self.observed_at.after(lasts)
    }

    fn write(&self, record: &LeaseRecord, now: Now) -> LeaseWrite {
        LeaseWrite {
            holder: Set::To(self.identity.clone()),
            duration_seconds: Set::To(self.durations.lease_duration_seconds),
            renew_time: Set::To(now.wall.later_than(record.renew_time)),
            ..LeaseWrite::new(Purpose::Renew, record)
        }
    }
}
