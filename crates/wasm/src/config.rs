//! The configuration of an elector, as a host passes it.

use std::time::Duration;

use hustings_core::elector::{self, Durations, ElectorMode, FailOpen, Timing};
use hustings_core::model::Pod;
use hustings_wire::instance::Place;
use hustings_wire::settings::{CandidateSettings, Settings};
use serde::Deserialize;

/// How many hexadecimal digits the random part of a session has.
const RANDOM_DIGITS: usize = 32;

/// See `docs/abi.md`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) namespace: String,
    lease_name: String,
    identity: String,
    random: String,
    place: Option<PlaceConfig>,
    coordinated: Option<Coordinated>,
    direct: Option<Direct>,
    lease_duration_seconds: Option<u32>,
    renew_deadline_us: Option<u64>,
    retry_period_us: Option<u64>,
    jitter_percent: Option<u32>,
    request_timeout_us: Option<u64>,
    stop_grace_us: Option<u64>,
    #[serde(default)]
    fail_open: FailOpenConfig,
    #[serde(default)]
    keep_on_stop: bool,
    #[serde(default)]
    pub(crate) heartbeat: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlaceConfig {
    pod_uid: String,
    container: String,
    network_namespace: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Coordinated {
    binary_version: String,
    emulation_version: Option<String>,
    strategy: Option<String>,
    priority: Option<i32>,
    pod: Option<PodConfig>,
    fallback: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PodConfig {
    name: String,
    uid: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Direct {
    key: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FailOpenConfig {
    #[default]
    Off,
    Unbounded,
    AtMostUs(u64),
}

/// A valid configuration.
#[derive(Debug)]
pub(crate) struct Valid {
    pub(crate) config: elector::Config,
    pub(crate) key: Option<i64>,
    /// The name of the instance lock, if the session promises one.
    pub(crate) lock: Option<String>,
}

impl Config {
    pub(crate) fn read(config: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(config).map_err(|error| format!("invalid configuration: {error}"))
    }

    pub(crate) fn validate(self) -> Result<Valid, String> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if self.random.len() != RANDOM_DIGITS || !self.random.bytes().all(is_digit) {
            return Err(format!("random is {:?}: use {RANDOM_DIGITS} lower-case hexadecimal digits", self.random));
        }
        let durations = self.durations();
        let (candidate, pod, key) = match (self.coordinated, self.direct) {
            (Some(coordinated), None) => {
                let (candidate, pod) = coordinated.candidate();
                (Some(candidate), pod, None)
            }
            (None, Some(Direct { key })) => (None, None, key.as_deref().map(read_key).transpose()?),
            _ => return Err("set exactly one of coordinated and direct".to_owned()),
        };
        let settings = Settings {
            namespace: &self.namespace,
            lease: &self.lease_name,
            identity: Some(&self.identity),
            candidate: candidate.as_ref(),
            durations,
        };
        let timing: Timing = settings.validate(Vec::new()).map_err(|invalid| invalid.to_string())?;
        let place = self.place.map(PlaceConfig::place).transpose()?;
        let lease = format!("{}/{}", self.namespace, self.lease_name);
        let session = place.as_ref().map_or_else(|| self.random.clone(), |place| place.session(&self.random));
        let config = elector::Config {
            identity: self.identity,
            lease_name: self.lease_name,
            session,
            mode: candidate
                .map_or(ElectorMode::Direct, |candidate| ElectorMode::Coordinated(Box::new(candidate.config(pod)))),
            timing,
            fail_open: match self.fail_open {
                FailOpenConfig::Off => FailOpen::Off,
                FailOpenConfig::Unbounded => FailOpen::Unbounded,
                FailOpenConfig::AtMostUs(most) => FailOpen::Bounded(Duration::from_micros(most)),
            },
            keeps_on_stop: self.keep_on_stop,
        };
        Ok(Valid { config, key, lock: place.map(|place| place.lock_name(&lease)) })
    }

    fn durations(&self) -> Durations {
        let default = Durations::default();
        let micros = |set: Option<u64>, default: Duration| set.map_or(default, Duration::from_micros);
        let fitting = Durations {
            lease_duration_seconds: self.lease_duration_seconds.unwrap_or(default.lease_duration_seconds),
            renew_deadline: micros(self.renew_deadline_us, default.renew_deadline),
            retry_period: micros(self.retry_period_us, default.retry_period),
            jitter_percent: self.jitter_percent.unwrap_or(default.jitter_percent),
            stop_grace: micros(self.stop_grace_us, default.stop_grace),
            ..default
        }
        .with_fitting_request_timeout();
        Durations { request_timeout: micros(self.request_timeout_us, fitting.request_timeout), ..fitting }
    }
}

impl PlaceConfig {
    fn place(self) -> Result<Place, String> {
        let Ok(network_namespace) = self.network_namespace.parse() else {
            return Err(format!("networkNamespace is {:?}: use its inode number", self.network_namespace));
        };
        Place::new(&self.pod_uid, &self.container, network_namespace).map_err(|error| error.to_string())
    }
}

impl Coordinated {
    fn candidate(self) -> (CandidateSettings, Option<Pod>) {
        let candidate = CandidateSettings {
            binary_version: self.binary_version,
            emulation_version: self.emulation_version,
            strategy: self.strategy,
            priority: self.priority,
            fallback: self.fallback.unwrap_or(true),
        };
        (candidate, self.pod.map(|PodConfig { name, uid }| Pod { name, uid }))
    }
}

/// Reads a key.
pub(crate) fn read_key(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("key is {text:?}: use a whole number of 64 bits, as a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_timeout_that_is_not_set_fits_the_renew_deadline() {
        for (set, expected) in [("", 2_500_000), (r#","requestTimeoutUs":4000000"#, 4_000_000)] {
            let random = "0".repeat(RANDOM_DIGITS);
            let text = format!(
                r#"{{"namespace":"n","leaseName":"l","identity":"a","random":"{random}","renewDeadlineUs":5000000{set}}}"#
            );
            let durations = Config::read(text.as_bytes()).unwrap().durations();
            assert_eq!(durations.request_timeout, Duration::from_micros(expected), "{text}");
        }
    }
}
