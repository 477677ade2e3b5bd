//! A marker stands in every field that can hold a secret. Each step fails in turn, and no output contains the marker.

use std::{net::SocketAddr, process::Output, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::stage::Stage;

const MARKER: &str = "m4rk3r";

const V1: &str = "client.authentication.k8s.io/v1";

/// A kubeconfig with the marker in every field that can hold a secret.
fn marked(stage: &Stage, user: Value, cluster: Value) -> String {
    let mut config = stage.base();
    config["users"][0]["user"] = user;
    config["clusters"][0]["cluster"]
        .as_object_mut()
        .unwrap()
        .extend(cluster.as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())));
    config["users"].as_array_mut().unwrap().push(json!({ "name": "other", "user": {
        "token": MARKER, "password": MARKER, "username": "x", "client-key-data": STANDARD.encode(MARKER),
        "auth-provider": { "name": "oidc", "config": { "id-token": MARKER, "refresh-token": MARKER, "client-secret": MARKER } },
    } }));
    config.to_string()
}

/// A kubeconfig with secrets that fail, and variables beside it.
struct Form {
    name: &'static str,
    kubeconfig: String,
    variables: Vec<(String, String)>,
}

/// The output that contains the marker, which it must not.
async fn leak(stage: &Stage, number: usize, form: Form) -> Option<String> {
    let Form { name, kubeconfig, variables } = form;
    let path = stage.write(&format!("kubeconfig-{number}"), &kubeconfig);
    let mut environment = vec![("KUBECONFIG".to_owned(), path.display().to_string())];
    environment.extend(variables);
    // The log at this level contains that of every other level.
    environment.push(("HUSTINGS_LOG_LEVEL".to_owned(), "trace".to_owned()));
    environment.push(("RUST_BACKTRACE".to_owned(), "1".to_owned()));
    let namespace = &*stage.namespace;
    for arguments in [
        &["status", "work", "--namespace", namespace][..],
        &["check", "--namespace", namespace],
        &["run", "--lease=work", "--identity=a", "--direct", "--namespace", namespace, "--", "true"],
    ] {
        // A wrapper that cannot reach the server retries for ever, so a limit ends it.
        let limit = Duration::from_secs(if arguments[0] == "run" { 4 } else { 30 });
        let Output { stdout, stderr, .. } = stage.run_for(limit, arguments, &environment).await;
        let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(!said.contains("panicked"), "{said}");
        let encoded = STANDARD.encode(format!("me:{MARKER}"));
        if said.contains(MARKER) || said.contains(&encoded) {
            return Some(format!("{name}: {arguments:?}: {said}"));
        }
    }
    None
}

/// The address of a server that reads what each client sends first, and answers this.
async fn listener_that_answers(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_printed_whatever_fails() {
    let stage = Stage::new("secrets").await;
    let failing = stage.script("failing", &format!("echo {MARKER}; echo {MARKER} >&2; exit 1"));
    let garbage = stage.script("garbage", &format!("echo {MARKER}: [{MARKER}; echo {MARKER} >&2"));
    let wrong = stage.plugin("wrong", &json!({ "token": MARKER }));
    let marked_key = json!({ "clientCertificateData": MARKER, "clientKeyData": MARKER });
    let malformed = stage.plugin("malformed", &marked_key);
    let file = stage.write("token", MARKER);
    let lines = stage.write("lines", &format!("{MARKER}\n{MARKER}"));
    let exec = |command: &std::path::Path| {
        let env = [json!({ "name": "SECRET", "value": MARKER })];
        json!({ "exec": {
            "apiVersion": V1, "command": command, "args": ["--secret", MARKER], "env": env, "interactiveMode": "Never",
        } })
    };
    let proxy = format!("http://me:{MARKER}@127.0.0.1:1");
    let none = json!({});
    let forms = [
        ("a token that is rejected", json!({ "token": MARKER }), none.clone()),
        ("a token with a line end", json!({ "token": format!("{MARKER}\n") }), none.clone()),
        ("a token file", json!({ "tokenFile": file }), none.clone()),
        ("a token file with two lines", json!({ "tokenFile": lines }), none.clone()),
        ("a password", json!({ "username": "me", "password": MARKER }), none.clone()),
        ("a token beside a password", json!({ "token": MARKER, "username": "me", "password": MARKER }), none.clone()),
        (
            "a key that is none",
            json!({ "client-certificate-data": STANDARD.encode(MARKER), "client-key-data": STANDARD.encode(MARKER) }),
            none.clone(),
        ),
        (
            "a key that is not base64",
            json!({ "client-certificate-data": "", "client-key-data": format!("{MARKER}!") }),
            none.clone(),
        ),
        ("a key as the path of a file", json!({ "client-certificate": file, "client-key": file }), none.clone()),
        ("a program that fails", exec(&failing), none.clone()),
        ("a program that prints something else", exec(&garbage), none.clone()),
        ("a program whose token is rejected", exec(&wrong), none.clone()),
        ("a program whose key is malformed", exec(&malformed), none.clone()),
        ("a program that is missing", exec("/no/such".as_ref()), none.clone()),
        (
            "an auth-provider",
            json!({ "auth-provider": { "name": "gcp", "config": { "access-token": MARKER } } }),
            none.clone(),
        ),
        ("a wrong type", json!({ "token": [MARKER] }), none.clone()),
        (
            "a wrong type of a program",
            json!({ "exec": { "apiVersion": V1, "command": "true", "args": MARKER } }),
            none.clone(),
        ),
        ("the password of a proxy", json!({ "token": MARKER }), json!({ "proxy-url": proxy })),
        (
            "the password of a proxy with another scheme",
            json!({ "token": MARKER }),
            json!({ "proxy-url": format!("ftp://me:{MARKER}@host") }),
        ),
        (
            "the password of a proxy that is malformed",
            json!({ "token": MARKER }),
            json!({ "proxy-url": format!("http://me:{MARKER}@[host") }),
        ),
        (
            "the password in the server",
            json!({ "token": "t" }),
            json!({ "server": format!("https://me:{MARKER}@127.0.0.1:1") }),
        ),
        (
            "the password in a malformed server",
            json!({ "token": "t" }),
            json!({ "server": format!("https://me:{MARKER}@127.0.0.1:x") }),
        ),
    ];
    let forms = forms.map(|(name, user, cluster)| (name, marked(&stage, user, cluster)));
    let texts = [
        ("a mistake in the YAML", format!("users:\n- name: a\n  user: {{token: {MARKER}\n   password: \"{MARKER}\n")),
        ("a mistake in the JSON", format!("{{\"users\": [{{\"user\": {{\"token\": \"{MARKER}\"")),
        ("a text", MARKER.to_owned()),
    ];
    let forms = forms.into_iter().chain(texts);
    let forms = forms.map(|(name, kubeconfig)| Form { name, kubeconfig, variables: Vec::new() });
    let strict = listener_that_answers("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    let garbled = listener_that_answers("\u{5}\u{2}garbled").await;
    let named = marked(&stage, json!({ "token": MARKER }), json!({ "server": "https://kubernetes.invalid" }));
    let proxies = [
        proxy,
        format!("me:{MARKER}@127.0.0.1:1"),
        format!("socks5://me:{MARKER}@127.0.0.1:1"),
        format!("ftp://me:{MARKER}@x"),
        format!("http://me:{MARKER}@{strict}"),
        format!("https://me:{MARKER}@{strict}"),
        format!("http://me:{MARKER}@{garbled}"),
        format!("socks5://me:{MARKER}@{garbled}"),
    ];
    let proxies = proxies.into_iter().map(|proxy| Form {
        name: "a proxy",
        kubeconfig: named.clone(),
        variables: vec![("HTTPS_PROXY".to_owned(), proxy)],
    });
    let leaks = stream::iter(forms.chain(proxies).enumerate()).map(|(number, form)| leak(&stage, number, form));
    let leaks: Vec<_> = leaks.buffer_unordered(4).filter_map(async |leak| leak).collect().await;
    assert!(leaks.is_empty(), "{}", leaks.join("\n\n"));
}
