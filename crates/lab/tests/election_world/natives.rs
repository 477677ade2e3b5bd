//! The processes that use client-go, with or without a native candidate.

use std::time::Duration;

use hustings_core::model::{CandidateKey, CandidateRecord, Moment, WireTime};
use hustings_lab::client_go::{ClientGo, Stands, Step};

use super::World;

/// One process that uses client-go.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    pub(crate) elector: ClientGo,
    pub(crate) live: bool,
    pub(crate) takes_up: bool,
    /// The error of its wall clock.
    pub(crate) clock_seconds: i64,
    /// The candidate that it creates.
    pub(super) nominated: Option<CandidateRecord>,
    pub(super) answered_at: Option<Moment>,
}

impl World {
    /// Starts a process of client-go. It replaces a process of the same name.
    pub(crate) fn start_native(&mut self, name: &str, stands: Stands, lease_seconds: u32) -> &mut Native {
        let elector = ClientGo::new(name, stands, lease_seconds, self.now());
        let former = self.natives.remove(name).map(|native| (native.nominated, native.answered_at));
        let (nominated, answered_at) = former.unwrap_or_default();
        let native = Native { elector, live: true, takes_up: true, clock_seconds: 0, nominated, answered_at };
        self.natives.insert(name.to_owned(), native);
        self.natives.get_mut(name).unwrap()
    }

    /// Creates or changes a native candidate and shows it to the watch. As with client-go, a new one has a `renewTime`,
    /// just before now. A test may set another one.
    pub(crate) fn put_native_candidate(&mut self, mut record: CandidateRecord) {
        let off_seconds = self.natives.get(&record.name).map_or(0, |native| native.clock_seconds);
        if record.renew_time.is_none() && self.store.candidate(record.key()).is_none() {
            let micros = self.wall(off_seconds).as_micros();
            record.renew_time = Some(WireTime::from_micros(micros - 1000));
        }
        self.show_put(record.clone());
        if let Some(native) = self.natives.get_mut(&record.name) {
            native.nominated = Some(CandidateRecord { ping_time: None, ..record });
        }
    }

    /// Stops a process as on SIGTERM: it releases the Lease if it holds it, and exits. Its candidate stays.
    pub(crate) fn stop_native(&mut self, name: &str) {
        let lease = self.lease().cloned();
        let now = self.now_of(name);
        let Some(native) = self.natives.get_mut(name).filter(|native| native.live) else { return };
        native.live = false;
        if let Step::Release(record) = native.elector.stop(lease.as_ref(), now) {
            if self.ends_reliance(name) {
                self.relied_until = self.now;
            }
            self.put_lease(record);
        }
    }

    /// Whether nobody relies on the Lease any more once this process has released it. A late release changes nothing about
    /// a holder of Hustings. A holder of client-go has to prevent it: nobody can tell it from that holder's own release.
    fn ends_reliance(&self, name: &str) -> bool {
        let lease = self.lease();
        lease.is_some_and(|lease| lease.holder.as_deref() == Some(name) || lease.session.stamp().is_none())
    }

    /// Lets the live processes of client-go act at this instant. Returns whether one of them did.
    pub(super) fn play_natives(&mut self) -> bool {
        let names: Vec<String> = self.natives.keys().cloned().collect();
        let mut answered = Vec::new();
        let mut acted = false;
        for name in &names {
            if !self.natives[name].live {
                continue;
            }
            acted |= self.keep_candidate(name, &mut answered);
            acted |= self.play_native(name);
        }
        if !answered.is_empty() {
            self.say(&format!("ack: {}", answered.join(", ")));
        }
        acted
    }

    /// Answers a ping, renews the candidate without a ping, or creates it again. Returns whether it did one of these.
    fn keep_candidate(&mut self, name: &str, answered: &mut Vec<String>) -> bool {
        let key = CandidateKey::native(name);
        let now = self.now_of(name);
        let native = self.natives.get_mut(name).unwrap();
        let Some(record) = self.store.candidate(&key) else {
            let nominated = native.nominated.clone().filter(|_| native.elector.next_at() <= now.moment);
            let Some(nominated) = nominated else { return false };
            let is_due = native.elector.renews_candidate(&nominated, now).is_some();
            if is_due {
                let created = CandidateRecord { uid: String::new(), renew_time: None, ..nominated };
                self.put_native_candidate(created);
            }
            return is_due;
        };
        let is_pinged = record.ping_time > record.renew_time;
        let Some(renew_time) = native.elector.renews_candidate(record, now) else { return false };
        if is_pinged {
            native.answered_at = Some(now.moment);
            answered.push(name.to_owned());
        }
        self.edit_key(&key, |record| record.renew_time = Some(renew_time));
        true
    }

    fn play_native(&mut self, name: &str) -> bool {
        let lease = self.lease().cloned();
        let now = self.now_of(name);
        let after_release = if self.ends_reliance(name) { now.moment } else { self.relied_until };
        let native = self.natives.get_mut(name).unwrap();
        if !native.takes_up {
            return false;
        }
        let holder = lease.as_ref().and_then(|lease| lease.holder.as_deref());
        let (is_free, is_named) = (holder.is_none(), holder == Some(name));
        let lasts = Duration::from_secs(u64::from(native.elector.lease_seconds()));
        let relied_until = now.moment.after(lasts);
        let (record, relied_until, said) = match native.elector.poll(lease.as_ref(), now) {
            Step::Wait => return false,
            Step::Renew(record) => (Some(record), relied_until, None),
            Step::Begin(record) => {
                let said = match native.elector.stands() {
                    Stands::Coordinated => "takes up",
                    Stands::Plain if is_named => "leads by its name",
                    Stands::Plain if is_free => "claims the free Lease",
                    Stands::Plain => "claims the expired Lease",
                };
                (Some(record), relied_until, Some(said))
            }
            Step::Release(record) => {
                let said =
                    if is_named { "releases and exits" } else { "releases the Lease of its successor and exits" };
                (Some(record), after_release, Some(said))
            }
            Step::Exit => (None, now.moment, Some("exits")),
        };
        native.live = !said.is_some_and(|said| said.ends_with("exits"));
        if let Some(said) = said {
            self.say(&format!("{name} {said}"));
        }
        if let Some(record) = record {
            self.relied_until = relied_until;
            self.put_lease(record);
        }
        true
    }
}
