//! The WebAssembly module: no call of a host causes a trap, and each answer is JSON.

#![allow(clippy::unwrap_used, reason = "a test")]

use bolero::{TypeGenerator, check};
use hustings_fuzz::{CANDIDATE_FIELDS, LEASE_FIELDS, Odd, object};
use hustings_wasm::{Module, gate};
use serde_json::{Value, json};

/// The fields of a configuration that are numbers.
const NUMBERS: [&str; 6] =
    ["leaseDurationSeconds", "renewDeadlineUs", "retryPeriodUs", "jitterPercent", "requestTimeoutUs", "stopGraceUs"];

/// A call of a host.
#[derive(Clone, Debug, TypeGenerator)]
enum Call {
    /// Any bytes.
    Raw {
        head: Vec<u8>,
        body: Vec<u8>,
        moment: i64,
        wall: i64,
    },
    /// The time passes.
    Wait {
        micros: u32,
    },
    /// The clocks jump.
    Jump {
        moment: i64,
        wall: i64,
    },
    Answer {
        request: u8,
        status: u16,
        retry_after: Option<String>,
        body: Vec<u8>,
    },
    /// An answer that resembles an object.
    Object {
        request: u8,
        status: u8,
        odd: Vec<Odd>,
        kind: u8,
    },
    Line {
        request: u8,
        type_: u8,
        odd: Vec<Odd>,
    },
    Failed {
        request: u8,
        sent: bool,
    },
    End {
        request: u8,
        broken: bool,
    },
    Key(Option<i64>),
    WorkStopped,
    Resign,
    Stop(u8),
    Silence(u64),
}

/// The settings of an elector.
#[derive(Clone, Debug, TypeGenerator)]
struct Settings {
    raw: Option<Vec<u8>>,
    direct: bool,
    heartbeat: bool,
    keep: bool,
    numbers: Vec<(u8, u64)>,
    fail_open: Option<u64>,
    draws: u32,
}

impl Settings {
    fn config(&self) -> Vec<u8> {
        if let Some(raw) = self.raw.as_ref().filter(|raw| raw.len() % 8 == 1) {
            return raw.clone();
        }
        let mut config = json!({
            "namespace": "n", "leaseName": "l", "identity": "a", "random": "0123456789abcdef0123456789abcdef",
            "heartbeat": self.heartbeat, "keepOnStop": self.keep,
        });
        if self.direct {
            config["direct"] = json!({ "key": "3" });
        } else {
            config["coordinated"] = json!({ "binaryVersion": "1.0.0" });
        }
        if let Some(most) = self.fail_open {
            config["failOpen"] = json!({ "atMostUs": most });
        }
        for (field, number) in self.numbers.iter().take(3) {
            config[NUMBERS[usize::from(*field) % NUMBERS.len()]] = json!(number);
        }
        config.to_string().into_bytes()
    }
}

/// A host that sends nothing, and reports what a call says.
struct Host {
    module: Module,
    elector: u32,
    moment: i64,
    wall: i64,
    draw: u32,
    ids: Vec<u64>,
}

impl Host {
    fn step(&mut self, head: &[u8], body: &[u8]) {
        self.draw = self.draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let answer = self.module.step(self.elector, self.moment, self.wall, self.draw, head, body);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let requests = answer["requests"].as_array().into_iter().flatten();
        self.ids.extend(requests.map(|request| request["id"].as_u64().unwrap()));
    }

    fn id(&self, request: u8) -> u64 {
        let nearest = self.ids.len().saturating_sub(1 + usize::from(request % 4));
        self.ids.get(nearest).copied().unwrap_or(u64::from(request))
    }

    fn call(&mut self, call: &Call) {
        let event = |name: &str| json!({ "event": name });
        let of = |name: &str, id: u64| json!({ "event": name, "id": id });
        let (head, body) = match call {
            Call::Raw { head, body, moment, wall } => {
                let answer = self.module.step(self.elector, *moment, *wall, 0, head, body);
                serde_json::from_str::<Value>(&answer).unwrap();
                return;
            }
            Call::Wait { micros } => {
                self.moment += i64::from(*micros);
                self.wall += i64::from(*micros);
                return self.step(b"", b"");
            }
            Call::Jump { moment, wall } => {
                (self.moment, self.wall) = (moment.rem_euclid(1 << 53), wall.rem_euclid(1 << 53));
                return self.step(b"", b"");
            }
            Call::Answer { request, status, retry_after, body } => {
                let mut head = of("answer", self.id(*request));
                head["status"] = json!(status);
                head["retryAfter"] = json!(retry_after);
                (head, body.clone())
            }
            Call::Object { request, status, odd, kind } => {
                let mut head = of("answer", self.id(*request));
                head["status"] = json!([200, 200, 200, 201, 404, 409, 422, 429, 500][usize::from(*status) % 9]);
                (head, any_object(*kind, odd).to_string().into_bytes())
            }
            Call::Line { request, type_, odd } => {
                let type_name = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"][usize::from(*type_) % 5];
                let line = json!({ "type": type_name, "object": any_object(*type_ / 5, odd) });
                (of("line", self.id(*request)), line.to_string().into_bytes())
            }
            Call::Failed { request, sent } => {
                let mut head = of("failed", self.id(*request));
                head["sent"] = json!(sent);
                (head, Vec::new())
            }
            Call::End { request, broken } => {
                let mut head = of("end", self.id(*request));
                head["text"] = json!(broken.then_some("reset"));
                (head, Vec::new())
            }
            Call::Key(key) => (json!({ "event": "key", "key": key.map(|key| key.to_string()) }), Vec::new()),
            Call::WorkStopped => (event("work-stopped"), Vec::new()),
            Call::Resign => (event("resign"), Vec::new()),
            Call::Stop(cause) => {
                let cause = ["stopped", "panicked", "work-ended", "connection-closed"][usize::from(*cause) % 4];
                (json!({ "event": "stop", "cause": cause }), Vec::new())
            }
            Call::Silence(micros) => (json!({ "silenceUs": micros }), Vec::new()),
        };
        self.step(head.to_string().as_bytes(), &body);
    }
}

/// A Lease, a candidate or a Status, as the request expects them, with something odd.
fn any_object(kind: u8, odd: &[Odd]) -> Value {
    let (name, kind, api_version, fields): (_, _, _, &[&str]) = match kind % 3 {
        0 => ("l", "Lease", "coordination.k8s.io/v1", &LEASE_FIELDS),
        1 => ("a", "LeaseCandidate", "hustings.io/v1alpha1", &CANDIDATE_FIELDS),
        _ => ("l", "Status", "v1", &CANDIDATE_FIELDS),
    };
    let mut object = object(name, fields, odd);
    (object["kind"], object["apiVersion"]) = (json!(kind), json!(api_version));
    object
}

#[test]
fn no_call_of_a_host_causes_a_trap() {
    check!().with_type::<(Settings, Vec<Call>)>().for_each(|(settings, calls)| {
        let mut module = Module::default();
        let created = module.create(0, 1_800_000_000_000_000, &settings.config());
        let created: Value = serde_json::from_str(&created).unwrap();
        let elector = u32::try_from(created["elector"].as_u64().unwrap_or(7)).unwrap();
        let (moment, wall, draw) = (1, 1_800_000_000_000_000, settings.draws);
        let mut host = Host { module, elector, moment, wall, draw, ids: Vec::new() };
        host.step(b"", b"");
        for call in calls {
            host.call(call);
        }
        host.module.forget(elector);
    });
}

#[test]
fn any_bytes_are_a_request_of_some_class() {
    check!().with_type::<(Vec<u8>, Vec<u8>, Vec<u8>, u32)>().for_each(|(method, target, body, flags)| {
        assert!(gate(method, target, body, *flags) <= 3);
    });
}
