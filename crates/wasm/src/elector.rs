//! One elector of a host: the driver, its requests as HTTP, and its watches.

use std::collections::BTreeMap;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use hustings_core::elector::{AttemptId, Draw, Observation, Source};
use hustings_core::model::{Moment, Now, Purpose, Request};
use hustings_wire::api::{NativeVersion, ObjectParts, ReadCandidate, ReadLease};
use hustings_wire::driver::{Driver, LatestTerm, Line, ObservedTerm, Sending, Step};
use hustings_wire::exchange::{Exchange, Next};
use hustings_wire::failure::{Failure, Unsent, read_status};
use hustings_wire::request::Decoded;
use hustings_wire::watch::{Shown, Watch};

use crate::answer::{Created, Decision, HolderChange, HttpRequest, instant, micros};
use crate::config::{Config, Valid};
use crate::event::{Event, Head};

/// One elector.
#[derive(Debug)]
pub(crate) struct Elector {
    namespace: String,
    driver: Driver,
    /// The requests under way.
    exchanges: BTreeMap<u64, UnderWay>,
    last_id: u64,
    lease: Watch<u64>,
    /// `None` in direct mode.
    candidate: Option<Watch<u64>>,
    latest: Option<LatestTerm>,
}

#[derive(Debug)]
struct UnderWay {
    attempt: AttemptId,
    exchange: Exchange,
    until: Moment,
}

/// What a step collects beside the decision.
#[derive(Debug, Default)]
struct Collected {
    requests: Vec<HttpRequest>,
    cancel: Vec<u64>,
    lines: Vec<Line>,
}

impl Elector {
    /// Creates an elector, and the answer to its host. The handle in the answer is 0.
    pub(crate) fn create(config: Config, now: Now) -> Result<(Self, Created), String> {
        let (namespace, heartbeat) = (config.namespace.clone(), config.heartbeat);
        let Valid { config, key, lock } = config.validate()?;
        let timing = config.timing;
        let created = Created {
            elector: 0,
            session: config.session.clone(),
            lock,
            warnings: timing.warnings().iter().map(ToString::to_string).collect(),
            longest_write_us: micros(timing.longest_write().min(timing.stop_grace())),
        };
        let lease = Watch::new::<ReadLease>(&namespace, &config.lease_name, now.moment);
        let has_candidate = config.candidate().is_some();
        let candidate = has_candidate.then(|| Watch::new::<ReadCandidate>(&namespace, &config.identity, now.moment));
        let mut driver = Driver::new(config, namespace.clone(), heartbeat, now);
        driver.observe(now, Observation::Key(key));
        let exchanges = BTreeMap::new();
        Ok((Self { namespace, driver, exchanges, last_id: 0, lease, candidate, latest: None }, created))
    }

    /// Observes an event, and decides.
    pub(crate) fn step(&mut self, now: Now, draw: Draw, head: Head, body: &[u8]) -> Decision {
        let Head { event, silence_us } = head;
        if let Some(silence) = silence_us {
            self.driver.beat(now.moment.before(Duration::from_micros(silence)));
        }
        let mut collected = Collected::default();
        self.observe(now, draw, event, body, &mut collected);
        let step = self.driver.decide(now, draw);
        self.decision(now, draw, step, collected)
    }

    fn observe(&mut self, now: Now, draw: Draw, event: Event, body: &[u8], collected: &mut Collected) {
        let chance = chance_of(draw);
        match event {
            Event::Nothing => {}
            Event::Answer { id, status, retry_after } => {
                if let Some(watch) = self.watch(id) {
                    let status = read_status(status, retry_after.as_deref(), body);
                    collected.lines.push(watch.refused(now.moment, chance, &status));
                } else if let Some(under_way) = self.exchanges.remove(&id) {
                    self.answered(now, under_way, status, retry_after.as_deref(), body, collected);
                }
            }
            Event::Failed { id, sent, text } => {
                if let Some(watch) = self.watch(id) {
                    collected.lines.push(watch.failed(now.moment, chance, text));
                } else if let Some(UnderWay { attempt, mut exchange, .. }) = self.exchanges.remove(&id) {
                    let failure =
                        if sent { Failure::Unknown(text.into()) } else { Failure::Refused(Unsent(text.into()).into()) };
                    self.driver.answered(now, attempt, Err(exchange.failed(failure)));
                }
            }
            Event::Line { id } => self.line(now, chance, id, body, collected),
            Event::End { id, text } => {
                if let Some(watch) = self.watch(id) {
                    match text {
                        Some(text) => collected.lines.push(watch.failed(now.moment, chance, text)),
                        None => watch.ended(),
                    }
                }
            }
            Event::Key(key) => self.driver.observe(now, Observation::Key(key)),
            Event::WorkStopped => self.driver.observe(now, Observation::WorkStopped),
            Event::Resign => self.driver.observe(now, Observation::Resign),
            Event::Stop(cause) => self.driver.observe(now, Observation::Stop(cause)),
        }
    }

    fn answered(
        &mut self,
        now: Now,
        UnderWay { attempt, mut exchange, until }: UnderWay,
        status: u16,
        retry_after: Option<&str>,
        body: &[u8],
        collected: &mut Collected,
    ) {
        // It has timed out.
        let Some(request) = self.driver.request(attempt) else { return };
        match exchange.answered(&self.namespace, request, status, retry_after, body) {
            Next::Answered(answer) => {
                let answer = answer.map(|Decoded { object, .. }| object);
                self.driver.answered(now, attempt, answer);
            }
            Next::Ask(request) => {
                let id = self.next_id();
                collected.requests.push(http_request(id, "discover", request, until, false));
                self.exchanges.insert(id, UnderWay { attempt, exchange, until });
            }
        }
    }

    fn line(&mut self, now: Now, chance: f64, id: u64, line: &[u8], collected: &mut Collected) {
        let source = Source::Watch;
        let observation = if self.lease.id() == Some(id) {
            let lease = |lease: ReadLease| Observation::Lease { record: lease.record, source };
            read_line(&mut self.lease, now, chance, line, collected, lease, Observation::LeaseMissing { source })
        } else if let Some(watch) = self.candidate.as_mut().filter(|watch| watch.id() == Some(id)) {
            let candidate = |candidate: ReadCandidate| Observation::Candidate { record: candidate.record, source };
            read_line(watch, now, chance, line, collected, candidate, Observation::CandidateMissing { source })
        } else {
            None
        };
        if let Some(observation) = observation {
            self.driver.observe(now, observation);
        }
    }

    fn decision(&mut self, now: Now, draw: Draw, step: Step, mut collected: Collected) -> Decision {
        let Step { requests, deadline, timer, finished, .. } = step;
        let mut next = deadline.zip(timer);
        for Sending { attempt, request, until } in requests {
            match Exchange::begin(&self.namespace, &request, NativeVersion::default()) {
                Ok((exchange, sent)) => {
                    let id = self.next_id();
                    collected.requests.push(http_request(id, purpose(&request), sent, until, false));
                    self.exchanges.insert(id, UnderWay { attempt, exchange, until });
                }
                Err(error) => {
                    self.driver.answered(now, attempt, Err(Failure::Refused(error.to_string().into())));
                    next = Some((now.moment, "request-timeout"));
                }
            }
        }
        let driver = &self.driver;
        self.exchanges.retain(|_, under_way| driver.request(under_way.attempt).is_some());
        if finished {
            collected.cancel.extend(self.watches().filter_map(Watch::id));
            next = None;
        } else {
            self.begin_watches(now, draw, &mut collected);
            let watches = self.watches().map(|watch| (watch.deadline(), "watch"));
            next = next.into_iter().chain(watches).min_by_key(|(deadline, _)| *deadline);
        }
        let (deadline, timer) = next.unzip();
        collected.lines.extend(step.lines);
        Decision {
            leading: step.leading.map(Into::into),
            range: step.range.map(Into::into),
            stop_work: step.stop_work,
            abort_work: step.abort_work,
            requests: collected.requests,
            cancel: collected.cancel,
            holder: step.holder.map(Into::into),
            holder_change: step.observed_term.and_then(|term| self.change_of(term)),
            lease_uid: step.lease_uid,
            obstacle: step.obstacle.map(Into::into),
            renewal: step.renewal.map(Into::into),
            deadline_us: deadline.and_then(instant),
            timer,
            awaits_beat: step.awaits_beat,
            notes: collected.lines.into_iter().map(Into::into).collect(),
            finished,
        }
    }

    /// The change of the holder that this term is, if it is one.
    fn change_of(&mut self, term: ObservedTerm) -> Option<HolderChange> {
        let former = self.latest.as_ref().map(|latest| latest.term.holder.clone());
        let holder = term.holder.clone();
        LatestTerm::update(&mut self.latest, term).then_some(HolderChange { former, holder })
    }

    /// Ends silent watches, and begins those that are due.
    fn begin_watches(&mut self, now: Now, draw: Draw, collected: &mut Collected) {
        let mut last_id = self.last_id;
        let watches = [(Some(&mut self.lease), "watch-lease"), (self.candidate.as_mut(), "watch-candidate")];
        for (watch, purpose) in watches {
            let Some(watch) = watch else { continue };
            if let Some(silent) = watch.id().filter(|_| watch.deadline() <= now.moment) {
                collected.cancel.push(silent);
                let reason = "the server has not ended the watch".to_owned();
                collected.lines.push(watch.failed(now.moment, chance_of(draw), reason));
            }
            if let Some((request, until)) = watch.begin(now.moment, last_id + 1) {
                last_id += 1;
                collected.requests.push(http_request(last_id, purpose, request, until, true));
            }
        }
        self.last_id = last_id;
    }

    fn watches(&self) -> impl Iterator<Item = &Watch<u64>> {
        std::iter::once(&self.lease).chain(&self.candidate)
    }

    /// The watch with this request.
    fn watch(&mut self, id: u64) -> Option<&mut Watch<u64>> {
        let watches = std::iter::once(&mut self.lease).chain(&mut self.candidate);
        watches.into_iter().find(|watch| watch.id() == Some(id))
    }

    const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// What a line of a watch shows.
fn read_line<K: From<ObjectParts>>(
    watch: &mut Watch<u64>,
    now: Now,
    chance: f64,
    line: &[u8],
    collected: &mut Collected,
    object: impl FnOnce(K) -> Observation,
    missing: Observation,
) -> Option<Observation> {
    let id = watch.id();
    match watch.line(now.moment, chance, line) {
        Shown::Object(shown) => Some(object(shown)),
        Shown::Missing => Some(missing),
        Shown::Nothing => None,
        Shown::Ended(line) => {
            collected.cancel.extend(id);
            collected.lines.push(line);
            None
        }
    }
}

fn http_request(
    id: u64,
    purpose: &'static str,
    request: http::Request<Vec<u8>>,
    until: Moment,
    stream: bool,
) -> HttpRequest {
    let (head, body) = request.into_parts();
    HttpRequest {
        id,
        purpose,
        method: head.method.to_string(),
        path: head.uri.to_string(),
        content_type: head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned),
        body: String::from_utf8(body).ok().filter(|body| !body.is_empty()),
        until_us: instant(until),
        stream,
    }
}

/// The word for a request, for metrics and logs.
const fn purpose(request: &Request) -> &'static str {
    match request {
        Request::ReadLease { .. } => "read-lease",
        Request::CreateLease { .. } => "create-lease",
        Request::WriteLease { write, .. } => match write.purpose {
            Purpose::TakeUp => "take-up",
            Purpose::Claim => "claim",
            Purpose::Renew => "renew",
            Purpose::Prefer => "prefer",
            Purpose::HandOver => "hand-over",
            Purpose::Release => "release",
            Purpose::Grant | Purpose::Hold | Purpose::Enrol | Purpose::Act => "write-lease",
        },
        Request::ReadCandidate { .. } => "read-candidate",
        Request::ListCandidates { .. } => "list-candidates",
        Request::CreateCandidate { .. } => "create-candidate",
        Request::PatchCandidate { .. } => "patch-candidate",
        Request::DeleteCandidate { .. } => "delete-candidate",
    }
}

/// A number from 0 to 1.
fn chance_of(Draw(draw): Draw) -> f64 {
    f64::from(draw) / f64::from(u32::MAX)
}
