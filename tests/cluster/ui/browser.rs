//! Debian's Chromium, driven by its chromedriver over plain HTTP. Only these few of its commands are needed: a library for
//! all of them would add forty packages.

use std::panic::AssertUnwindSafe;
use std::process::Command;

use futures::FutureExt as _;
use hustings_controlplane::{ControlPlane, PATIENCE, Process, free_port};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::controller::support::eventually;

/// How the browser shows the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) dark: bool,
}

pub(super) const DESKTOP: Screen = Screen { width: 1280, height: 800, dark: false };
pub(super) const PHONE: Screen = Screen { width: 360, height: 740, dark: true };

/// A browser with one window.
pub(super) struct Browser {
    address: String,
    session: String,
    _driver: Process,
}

/// Runs `body` in a browser, which ends with it. Without a browser it prints why, and does nothing.
pub(super) async fn with_browser(plane: &ControlPlane, screen: Screen, body: impl AsyncFnOnce(&Browser)) {
    let missing = ["chromium", "chromedriver"].into_iter().find(|program| {
        !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).exists())
    });
    if let Some(missing) = missing {
        println!("skipped: {missing} is not installed; on Debian, `apt-get install chromium chromium-driver`");
        return;
    }
    let browser = Browser::start(plane, screen).await;
    let outcome = AssertUnwindSafe(body(&browser)).catch_unwind().await;
    browser.command("DELETE", "", &Value::Null).await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

impl Browser {
    async fn start(plane: &ControlPlane, screen: Screen) -> Self {
        let address = format!("127.0.0.1:{}", free_port().unwrap());
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={}", address.rsplit(':').next().unwrap()));
        let driver = plane.spawn("chromedriver", command).unwrap();
        eventually("chromedriver answers", || async { ask(&address, "GET", "/status", &Value::Null).await }).await;
        let Screen { width, height, dark } = screen;
        // The tests run as root in containers, where Chromium's sandbox is not available.
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"];
        let capabilities =
            json!({ "alwaysMatch": { "browserName": "chrome", "goog:chromeOptions": { "args": arguments } } });
        let session = ask(&address, "POST", "/session", &json!({ "capabilities": capabilities })).await.unwrap();
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let browser = Self { address, session, _driver: driver };
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.devtools("Emulation.setDeviceMetricsOverride", &metrics).await;
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        browser.devtools("Emulation.setEmulatedMedia", &json!({ "features": [scheme] })).await;
        browser
    }

    /// Opens an address.
    pub(super) async fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url })).await;
    }

    /// Opens a tab in front of the others, and drives that one from now on.
    pub(super) async fn open_tab(&self) {
        let tab = self.command("POST", "/window/new", &json!({ "type": "tab" })).await;
        self.show_tab(&tab["handle"]).await;
    }

    /// Brings a tab to the front, and drives that one from now on.
    pub(super) async fn show_tab(&self, tab: &Value) {
        self.command("POST", "/window", &json!({ "handle": tab })).await;
    }

    /// The tab in front.
    pub(super) async fn tab(&self) -> Value {
        self.command("GET", "/window", &Value::Null).await
    }

    /// The titles of all tabs. Unlike everything else here, this also reads those in the background.
    pub(super) async fn titles(&self) -> Vec<Value> {
        let mut targets = self.devtools("Target.getTargets", &json!({})).await["targetInfos"].take();
        let mut pages: Vec<_> = targets.as_array_mut().unwrap().drain(..).collect();
        pages.retain(|target| target["type"] == "page");
        pages.iter_mut().map(|page| page["title"].take()).collect()
    }

    /// Runs the body of a function in the page, and returns its result.
    pub(super) async fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// Waits until an expression in the page is true, and fails with the page's text.
    pub(super) async fn wait(&self, what: &str, expression: &str) {
        eventually(what, || async {
            let script = format!("return [Boolean({expression}), document.body.innerText]");
            let [holds, text] = <[Value; 2]>::try_from(self.run(&script).await.as_array().unwrap().clone()).unwrap();
            if holds == true { Ok(()) } else { Err(text) }
        })
        .await;
    }

    /// Presses keys, one after the other.
    pub(super) async fn press(&self, keys: &[&str]) {
        let actions: Vec<_> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|type_| json!({ "type": type_, "value": key })))
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.command("POST", "/actions", &json!({ "actions": [keyboard] })).await;
    }

    /// The window as a PNG, in base64.
    pub(super) async fn screenshot(&self) -> Value {
        self.command("GET", "/screenshot", &Value::Null).await
    }

    async fn devtools(&self, method: &str, parameters: &Value) -> Value {
        self.command("POST", "/goog/cdp/execute", &json!({ "cmd": method, "params": parameters })).await
    }

    async fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        ask(&self.address, method, &path, body).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }
}

/// Sends a command and returns its value.
async fn ask(address: &str, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let exchange = async {
        let mut stream = BufReader::new(TcpStream::connect(address).await?);
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n");
        stream.write_all(format!("{head}Content-Type: application/json\r\n\r\n{body}").as_bytes()).await?;
        // The driver does not close the connection.
        let (mut head, mut length) = (String::new(), 0);
        while stream.read_line(&mut head).await? > 2 {
            let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
            length = line.strip_prefix("content-length:").map_or(length, |length| length.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        Ok::<_, std::io::Error>((head, body))
    };
    let answered = timeout(PATIENCE, exchange).await.map_err(|_| "no answer")?;
    let (head, body) = answered.map_err(|error| error.to_string())?;
    let mut answer: Value = serde_json::from_slice(&body).map_err(|error| format!("{error}: {head}"))?;
    if head.split(' ').nth(1) == Some("200") { Ok(answer["value"].take()) } else { Err(answer["value"].to_string()) }
}
