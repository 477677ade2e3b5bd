//! Proxy variables in odd forms, beside kubectl. The name of the server is known to the proxy alone.

use std::sync::{Arc, Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use super::stage::{Outcome, Stage};

/// The host of the API server as its clients name it.
const SERVER: &str = "kubernetes.invalid";

/// An HTTP proxy that leads to the API server, for everybody or for this user with this password.
async fn proxy(server: String, login: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let login = login.map(|login| format!("proxy-authorization: basic {}\r\n", STANDARD.encode(login).to_lowercase()));
    let login = Arc::new(login);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(tunnel(stream, server.clone(), Arc::clone(&login)));
        }
    });
    address
}

async fn tunnel(stream: TcpStream, server: String, login: Arc<Option<String>>) -> std::io::Result<()> {
    let mut client = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && client.read_line(&mut head).await? > 0 {}
    if login.as_ref().as_ref().is_some_and(|login| !head.to_lowercase().contains(login)) {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    }
    if !head.starts_with(&format!("CONNECT {SERVER}:")) {
        return client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
    }
    let mut server = TcpStream::connect(server).await?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_choose_the_same_proxy() {
    let stage = Stage::new("proxies").await;
    let server = stage.plane.url().authority().unwrap().to_string();
    let open = proxy(server.clone(), None).await;
    let closed = proxy(server.clone(), Some("me:p@ss")).await;
    let dead = "http://127.0.0.1:1";

    let direct = stage.write("direct", &stage.base().to_string()).display().to_string();
    let mut config = stage.base();
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["server"] = json!(format!("https://{}", server.replace("127.0.0.1", SERVER)));
    cluster["tls-server-name"] = json!("localhost");
    let named = stage.write("named", &config.to_string()).display().to_string();
    let through = |url: &str| {
        let mut config = config.clone();
        config["clusters"][0]["cluster"]["proxy-url"] = json!(url);
        let name = format!("through-{}", url.len());
        stage.write(&name, &config.to_string()).display().to_string()
    };
    let [with_scheme, with_slash, with_login] =
        [format!("http://{open}"), format!("http://{open}/"), format!("http://me:p%40ss@{closed}")];
    let [spaced, tcp] = [format!(" {with_scheme}"), format!("tcp://{open}")];
    let wrong_login = format!("http://me:wrong@{closed}");
    let short_login = format!("me:p%40ss@{closed}");
    let of_cluster = [&with_scheme, &with_login, &open, &wrong_login].map(|url| through(url));

    let failed = Mutex::new(Vec::new());
    for (kubeconfig, variables, is_reached) in [
        (&named, &[][..], false),
        (&named, &[("HTTPS_PROXY", &*with_scheme)], true),
        (&named, &[("https_proxy", &*with_slash)], true),
        (&named, &[("HTTPS_PROXY", &*open)], true),
        (&named, &[("HTTPS_PROXY", &*spaced)], false),
        (&named, &[("HTTPS_PROXY", &*with_login)], true),
        (&named, &[("HTTPS_PROXY", &*short_login)], true),
        (&named, &[("HTTPS_PROXY", &*wrong_login)], false),
        (&named, &[("HTTPS_PROXY", dead), ("https_proxy", &*with_scheme)], false),
        (&named, &[("HTTPS_PROXY", ""), ("https_proxy", &*with_scheme)], true),
        (&named, &[("HTTP_PROXY", &*with_scheme), ("ALL_PROXY", &*with_scheme), ("all_proxy", &*with_scheme)], false),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", "other.example,")], true),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", "kubernetes.invalid/path")], true),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", "kubernetes.invalid:443")], true),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", "127.0.0.0/8,127.0.0.1")], true),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", ".invalid")], false),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", "*")], false),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", ""), ("no_proxy", "KUBERNETES.invalid")], false),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("REQUEST_METHOD", "GET")], true),
        (&named, &[("HTTPS_PROXY", "ftp://127.0.0.1:1")], false),
        (&named, &[("HTTPS_PROXY", &*tcp)], true),
        (&named, &[("HTTPS_PROXY", "x:y"), ("https_proxy", &*with_scheme)], false),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", " , kubernetes.invalid ,")], false),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", "*invalid,https://kubernetes.invalid")], true),
        (&named, &[("HTTPS_PROXY", &*with_scheme), ("NO_PROXY", "[kubernetes.invalid]:6443,0.0.0.0/0,::/0")], true),
        (&direct, &[("HTTPS_PROXY", dead), ("https_proxy", dead), ("HTTP_PROXY", dead)], true),
        (&of_cluster[0], &[("HTTPS_PROXY", dead), ("NO_PROXY", "*")], true),
        (&of_cluster[1], &[], true),
        (&of_cluster[2], &[], false),
        (&of_cluster[3], &[], false),
    ] {
        let mut environment = vec![("KUBECONFIG".to_owned(), kubeconfig.clone())];
        environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let expected = if is_reached { Outcome::User("admin".to_owned()) } else { Outcome::Refused };
        let (of_kubectl, kubectl_said) = stage.kubectl(&[], &environment).await;
        let (of_hustings, hustings_said) = stage.hustings(&[], &environment).await;
        if (&of_kubectl, &of_hustings) != (&expected, &expected) {
            let both = format!("{environment:?}: {of_kubectl:?} {kubectl_said}\n{of_hustings:?} {hustings_said}");
            failed.lock().unwrap().push(both);
        }
        assert!(!hustings_said.contains("wrong") && !hustings_said.contains("p%40ss"), "{hustings_said}");
    }
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
