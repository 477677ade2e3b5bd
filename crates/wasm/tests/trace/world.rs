//! A simulated world around the module: hosts, their clocks, and a network that delays and loses requests.

use std::collections::BTreeMap;

use hustings_core::model::{Moment, Now, WireTime};
use hustings_wasm::Module;
use serde_json::{Value, json};

use crate::controller::{Controller, wall};
use crate::server::{Server, line, name_of};

pub(crate) const NAMESPACE: &str = "n";
pub(crate) const CANDIDATES: &str = "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates";

pub(crate) const SECOND: i64 = 1_000_000;

/// The wall clock at the beginning.
const BEGINNING: i64 = 1_800_000_000 * SECOND;

/// Everything.
pub(crate) struct World {
    pub(crate) module: Module,
    pub(crate) server: Server,
    pub(crate) hosts: Vec<Host>,
    controller: Option<Controller>,
    /// The true time, in microseconds.
    now: i64,
    queue: BTreeMap<(i64, u64), Event>,
    sequence: u64,
    /// The requests in a hundred that the network loses or the server refuses.
    pub(crate) trouble: u64,
    random: Random,
    /// The calls and their answers.
    pub(crate) trace: Vec<Value>,
    /// How often each code of a note occurred.
    pub(crate) notes: BTreeMap<String, usize>,
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

/// A host and its elector.
pub(crate) struct Host {
    elector: u32,
    /// Its clocks are ahead by this.
    pub(crate) moment_offset: i64,
    pub(crate) wall_offset: i64,
    alive: bool,
    /// Its work shows no heartbeat since then.
    pub(crate) silent_since: Option<i64>,
    has_heartbeat: bool,
    /// How long its work takes to stop.
    pub(crate) work_takes: i64,
    leading: Option<(String, i64)>,
    pub(crate) finished: bool,
    /// Its watches: the path, and how many changes were shown.
    streams: BTreeMap<u64, (String, usize)>,
    decisions: u64,
}

enum Event {
    Wake(usize, u64),
    Report(usize, Value, String),
    Execute(usize, Value, Fate),
    Lines(usize),
    Control,
}

#[derive(Clone, Copy)]
enum Fate {
    Answered,
    AnswerLost,
    Overloaded,
    Page,
}

impl Random {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            module: Module::default(),
            server: Server::default(),
            hosts: Vec::new(),
            controller: None,
            now: SECOND,
            queue: BTreeMap::new(),
            sequence: 0,
            trouble: 0,
            random: Random(seed),
            trace: Vec::new(),
            notes: BTreeMap::new(),
        }
    }

    fn draw(&mut self) -> u64 {
        self.random.next()
    }

    fn push(&mut self, after: i64, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now + after, self.sequence), event);
    }

    /// Starts an elector with these settings beside the name, the namespace and the random part.
    pub(crate) fn start(&mut self, lease: &str, identity: &str, settings: &Value) -> usize {
        let random = format!("{:016x}{:016x}", self.draw(), self.draw());
        let mut config = json!({ "namespace": NAMESPACE, "leaseName": lease, "identity": identity, "random": random });
        for (name, value) in settings.as_object().into_iter().flatten() {
            config[name] = value.clone();
        }
        let config = config.to_string();
        let (moment, wall) = (self.now, BEGINNING + self.now);
        let answer = self.module.create(moment, wall, config.as_bytes());
        let created: Value = serde_json::from_str(&answer).unwrap();
        let elector = u32::try_from(created["elector"].as_u64().expect("a valid configuration")).unwrap();
        self.trace
            .push(json!({ "call": "new", "momentUs": moment, "wallUs": wall, "config": config, "answer": answer }));
        self.hosts.push(Host {
            elector,
            moment_offset: 0,
            wall_offset: 0,
            alive: true,
            silent_since: None,
            has_heartbeat: settings["heartbeat"] == true,
            work_takes: SECOND / 5,
            leading: None,
            finished: false,
            streams: BTreeMap::new(),
            decisions: 0,
        });
        let host = self.hosts.len() - 1;
        self.push(0, Event::Wake(host, 0));
        host
    }

    /// Starts or ends the controller of this Lease.
    pub(crate) fn control(&mut self, lease: Option<&str>) {
        self.controller = lease.map(Controller::new);
        self.push(0, Event::Control);
    }

    /// Kills a host.
    pub(crate) fn crash(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        (host.alive, host.leading) = (false, None);
        self.module.forget(host.elector);
        self.trace.push(json!({ "call": "drop", "elector": host.elector }));
    }

    /// Reports an event to an elector.
    pub(crate) fn report(&mut self, host: usize, head: Value) {
        self.push(0, Event::Report(host, head, String::new()));
    }

    /// Changes an object as an administrator.
    pub(crate) fn edit(&mut self, path: &str, change: &Value) {
        self.server.handle("PATCH", path, &change.to_string(), WireTime::from_micros(BEGINNING + self.now));
        self.changed();
    }

    /// Deletes an object as an administrator.
    pub(crate) fn delete(&mut self, path: &str) {
        self.server.handle("DELETE", path, "", WireTime::from_micros(BEGINNING + self.now));
        self.changed();
    }

    /// The host that leads this Lease.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads =
            |host: &Host| host.leading.as_ref().is_some_and(|(_, until)| self.now + host.moment_offset < *until);
        self.hosts.iter().position(leads)
    }

    /// Runs for this many seconds.
    pub(crate) fn run(&mut self, seconds: i64) {
        let until = self.now + seconds * SECOND;
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.happen(event);
        }
        self.now = until;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(host, decision) if self.hosts[host].decisions == decision => self.step(host, None, ""),
            Event::Wake(..) => {}
            Event::Report(host, head, body) => self.step(host, Some(head), &body),
            Event::Execute(host, request, fate) => self.execute(host, &request, fate),
            Event::Lines(host) => self.show(host),
            Event::Control => {
                let now = Now { moment: Moment::from_micros(self.now), wall: wall(BEGINNING + self.now) };
                let Some(mut controller) = self.controller.take() else { return };
                let before = self.server.revision();
                let next = controller.act(&mut self.server, now);
                self.controller = Some(controller);
                if self.server.revision() != before {
                    self.changed();
                }
                self.push((next - self.now).max(1_000), Event::Control);
            }
        }
    }

    /// The watches show the change a little later.
    fn changed(&mut self) {
        for host in 0..self.hosts.len() {
            let delay = 1_000 + i64::try_from(self.draw() % 20_000).unwrap();
            self.push(delay, Event::Lines(host));
        }
        if self.controller.is_some() {
            self.push(2_000, Event::Control);
        }
    }

    fn show(&mut self, host: usize) {
        let streams: Vec<u64> = self.hosts[host].streams.keys().copied().collect();
        for id in streams {
            while let Some((path, shown)) = self.hosts[host].streams.get(&id).cloned() {
                let Some((type_, changed, object)) = self.server.changes.get(shown) else { break };
                let text = (*changed == path).then(|| line(type_, object));
                self.hosts[host].streams.insert(id, (path, shown + 1));
                if let Some(text) = text {
                    self.step(host, Some(json!({ "event": "line", "id": id })), &text);
                }
            }
        }
    }

    fn step(&mut self, host: usize, head: Option<Value>, body: &str) {
        if !self.hosts[host].alive || self.hosts[host].finished {
            return;
        }
        let draw = u32::try_from(self.draw() >> 32).unwrap();
        let now = self.now;
        let it = &mut self.hosts[host];
        let (moment, wall) = (now + it.moment_offset, BEGINNING + now + it.wall_offset);
        let mut head = head.unwrap_or_else(|| json!({}));
        if it.has_heartbeat {
            head["silenceUs"] = json!(it.silent_since.map_or(0, |since| now - since));
        }
        let head = if head == json!({}) { String::new() } else { head.to_string() };
        let answer = self.module.step(it.elector, moment, wall, draw, head.as_bytes(), body.as_bytes());
        let decision: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(decision.get("error"), None, "{head}");
        self.trace.push(json!({
            "call": "step", "elector": it.elector, "momentUs": moment, "wallUs": wall, "draw": draw, "head": head,
            "body": body, "answer": answer,
        }));
        self.carry_out(host, &decision);
    }

    fn carry_out(&mut self, host: usize, decision: &Value) {
        let now = self.now;
        let it = &mut self.hosts[host];
        it.decisions += 1;
        it.leading = decision["leading"]["token"]
            .as_str()
            .map(|token| (token.to_owned(), decision["leading"]["validUntilUs"].as_i64().unwrap()));
        it.finished = decision["finished"] == true;
        let (decisions, work_takes) = (it.decisions, it.work_takes);
        for cancelled in decision["cancel"].as_array().into_iter().flatten() {
            it.streams.remove(&cancelled.as_u64().unwrap());
        }
        let wake = decision["deadlineUs"].as_i64().map(|deadline| (deadline - it.moment_offset - now).max(0));
        for note in decision["notes"].as_array().into_iter().flatten() {
            *self.notes.entry(note["code"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        if let Some(wake) = wake {
            self.push(wake, Event::Wake(host, decisions));
        }
        if decision["stopWork"] == true {
            self.push(work_takes, Event::Report(host, json!({ "event": "work-stopped" }), String::new()));
        }
        for request in decision["requests"].as_array().into_iter().flatten() {
            self.send(host, request.clone());
        }
    }

    fn send(&mut self, host: usize, request: Value) {
        let latency = 2_000 + i64::try_from(self.draw() % 60_000).unwrap();
        let chance = self.draw() % 100;
        if request["stream"] != true && chance < self.trouble {
            match self.draw() % 6 {
                // Lost on its way: nothing is ever reported.
                0 => {}
                1 => self.push(latency, Event::Execute(host, request, Fate::AnswerLost)),
                2 => self.push(latency, Event::Execute(host, request, Fate::Overloaded)),
                3 => self.push(latency, Event::Execute(host, request, Fate::Page)),
                other => {
                    let failed = json!({
                        "event": "failed", "id": request["id"], "sent": other == 4, "text": "connection reset by peer",
                    });
                    self.push(latency, Event::Report(host, failed, String::new()));
                }
            }
        } else {
            self.push(latency, Event::Execute(host, request, Fate::Answered));
        }
    }

    fn execute(&mut self, host: usize, request: &Value, fate: Fate) {
        if request["stream"] == true {
            return self.open(host, request);
        }
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let answer = |status: u16| json!({ "event": "answer", "id": request["id"], "status": status });
        let (head, body) = match fate {
            Fate::Overloaded => {
                let mut head = answer(429);
                head["retryAfter"] = json!("1");
                (head, "slow down".to_owned())
            }
            Fate::Page => (answer(200), "<html>please sign in</html>".to_owned()),
            Fate::Answered | Fate::AnswerLost => {
                let before = self.server.revision();
                let wall = WireTime::from_micros(BEGINNING + self.now);
                let (code, body) = self.server.handle(text("method"), text("path"), text("body"), wall);
                if self.server.revision() != before {
                    self.changed();
                }
                (answer(code), body)
            }
        };
        let latency = 1_000 + i64::try_from(self.draw() % 30_000).unwrap();
        if matches!(fate, Fate::AnswerLost) {
            let failed = json!({ "event": "failed", "id": request["id"], "sent": true, "text": "unexpected EOF" });
            self.push(latency, Event::Report(host, failed, String::new()));
        } else {
            self.push(latency, Event::Report(host, head, body));
        }
    }

    /// Begins a watch: the present object, a bookmark, and later an end, an error or silence.
    fn open(&mut self, host: usize, request: &Value) {
        let (id, target) = (request["id"].as_u64().unwrap(), request["path"].as_str().unwrap());
        let (collection, query) = target.split_once('?').unwrap();
        let name = query.split('&').find_map(|pair| pair.strip_prefix("fieldSelector=metadata.name%3D")).unwrap();
        let path = format!("{collection}/{name}");
        let (group, kind) = if collection == CANDIDATES {
            ("hustings.io/v1alpha1", "LeaseCandidate")
        } else {
            ("coordination.k8s.io/v1", "Lease")
        };
        let bookmark = json!({
            "kind": kind, "apiVersion": group,
            "metadata": {
                "resourceVersion": self.server.revision().max(1).to_string(),
                "annotations": { "k8s.io/initial-events-end": "true" },
            },
        });
        let head = json!({ "event": "line", "id": id });
        if let Some(object) = self.server.object(&path) {
            debug_assert_eq!(name_of(&path), name);
            let added = line("ADDED", object);
            self.push(0, Event::Report(host, head.clone(), added));
        }
        self.push(0, Event::Report(host, head.clone(), line("BOOKMARK", &bookmark)));
        let shown = self.server.changes.len();
        self.hosts[host].streams.insert(id, (path, shown));
        let (head, body) = match self.draw() % 8 {
            0 => (
                head,
                line("ERROR", &json!({ "kind": "Status", "code": 410, "message": "too old", "reason": "Expired" })),
            ),
            1 => (json!({ "event": "end", "id": id, "text": "connection reset by peer" }), String::new()),
            _ => (json!({ "event": "end", "id": id }), String::new()),
        };
        self.push(60 * SECOND, Event::Report(host, head, body));
    }
}
