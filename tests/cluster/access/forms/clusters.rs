//! Forms of a cluster.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{ADMIN, Form, form, refused};

pub(super) fn forms() -> Vec<Form> {
    vec![
        form("empty texts", ADMIN, |c| {
            for field in ["certificate-authority-data", "proxy-url", "tls-server-name"] {
                c.cluster()[field] = json!("");
            }
        }),
        form("a CA as data", ADMIN, |c| {
            let data = STANDARD.encode(c.authority());
            *c.cluster() = json!({"server": c.cluster()["server"], "certificate-authority-data": data});
        }),
        form("a CA as data in lines", ADMIN, |c| {
            let mut data = STANDARD.encode(c.authority());
            data.insert(40, '\n');
            *c.cluster() = json!({"server": c.cluster()["server"], "certificate-authority-data": data});
        }),
        form("a relative path of a CA", ADMIN, |c| {
            let pem = c.authority();
            c.stage.write("pki/ca.crt", &pem);
            c.cluster()["certificate-authority"] = json!("pki/ca.crt");
        }),
        form("a CA twice", refused("certificate-authority and"), |c| {
            c.cluster()["certificate-authority-data"] = json!("YQ==");
        }),
        form("a missing CA", refused("certificate-authority of"), |c| {
            c.cluster()["certificate-authority"] = json!("/no/such");
        }),
        form("an empty CA", refused("certificate-authority of"), |c| {
            let path = c.stage.write("empty.crt", "");
            c.cluster()["certificate-authority"] = json!(path);
        }),
        form("a CA that is no certificate", refused("certificate-authority-data of"), |c| {
            *c.cluster() = json!({"server": c.cluster()["server"], "certificate-authority-data": "YQ=="});
        }),
        form("another CA", refused("certificate-authority of"), |c| {
            let (certificate, _) = c.stage.write_alice("other");
            c.cluster()["certificate-authority"] = json!(certificate);
        }),
        form("the certificate of the server as its CA", ADMIN, |c| {
            let path = c.stage.plane.folder().join("apiserver.crt");
            c.cluster()["certificate-authority"] = json!(path);
        }),
        form("no CA", refused("set certificate-authority"), |c| {
            *c.cluster() = json!({"server": c.cluster()["server"]});
        }),
        form("insecure", ADMIN, |c| {
            *c.cluster() = json!({"server": c.cluster()["server"], "insecure-skip-tls-verify": true});
        }),
        form("insecure, as YAML 1.1 writes it", ADMIN, |c| {
            *c.cluster() = json!({"server": c.cluster()["server"], "insecure-skip-tls-verify": true});
            c.yaml("insecure-skip-tls-verify: true", "insecure-skip-tls-verify: yes");
        }),
        form("insecure as a text", refused("cluster.insecure-skip-tls-verify"), |c| {
            c.cluster()["insecure-skip-tls-verify"] = json!("false");
        }),
        form("insecure beside a CA", refused("insecure-skip-tls-verify beside"), |c| {
            c.cluster()["insecure-skip-tls-verify"] = json!(true);
        }),
        form("another server name", ADMIN, |c| c.cluster()["tls-server-name"] = json!("kubernetes.default.svc")),
        form("a wrong server name", refused("set tls-server-name"), |c| {
            c.cluster()["tls-server-name"] = json!("example.com");
        }),
        form("compression off", ADMIN, |c| c.cluster()["disable-compression"] = json!(true)),
        form("no server", refused("server of cluster"), |c| c.cluster()["server"] = json!("")),
        form("a server without a scheme", refused("`server` of"), |c| {
            c.server(|server| server.replace("https://", ""));
        }),
        form("a server with another scheme", refused("server of"), |c| {
            c.server(|server| server.replace("https://", "ftp://"));
        }),
        form("a server in capitals", ADMIN, |c| c.server(|server| server.replace("https", "HTTPS"))),
        form("a server with a slash", ADMIN, |c| c.server(|server| format!("{server}/"))),
        form("a server with a query", ADMIN, |c| c.server(|server| format!("{server}?a=b#c"))),
        form("a server with a path that is not served", refused("`server` of"), |c| {
            c.server(|server| format!("{server}/no/such"));
        }),
        form("a server with a name", ADMIN, |c| c.server(|server| server.replace("127.0.0.1", "localhost"))),
        form("a server with a user", refused("username and password"), |c| {
            c.server(|server| server.replace("https://", "https://me:secret@"));
        }),
        form("a server with a space", refused("server of"), |c| c.server(|server| format!("{server} "))),
        form("a server with a line end", refused("server of"), |c| c.server(|server| format!("{server}\n"))),
        form("a server with a malformed port", refused("server of"), |c| c.server(|server| format!("{server}x"))),
        form("a server with a port that is too large", refused("server of"), |c| {
            c.server(|server| format!("{server}00"));
        }),
        form("a server that is half a bracket", refused("server of"), |c| c.server(|_| "https://[::1".to_owned())),
        form("a server that is only a scheme", refused("server of"), |c| c.server(|_| "https://".to_owned())),
        form("a CA as data beside an empty path", ADMIN, |c| {
            let data = STANDARD.encode(c.authority());
            c.cluster()["certificate-authority"] = json!("");
            c.cluster()["certificate-authority-data"] = json!(data);
        }),
        form("a CA among other texts", ADMIN, |c| {
            let pem =
                format!("the CA\r\n{}-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n", c.authority());
            let path = c.stage.write("texts.crt", &pem);
            c.cluster()["certificate-authority"] = json!(path);
        }),
        form("a wrong server name, insecure", ADMIN, |c| {
            let server = c.cluster()["server"].take();
            *c.cluster() = json!({ "server": server, "insecure-skip-tls-verify": true, "tls-server-name": "*.x" });
        }),
        form("a malformed server name", refused("tls-server-name"), |c| c.cluster()["tls-server-name"] = json!("a b")),
        form("compression as a text", refused("cluster.disable-compression"), |c| {
            c.cluster()["disable-compression"] = json!("true");
        }),
        form("a server with a path that leads back", ADMIN, |c| c.server(|server| format!("{server}/a/../%2e/"))),
        form("a server with a malformed path", refused("server of"), |c| c.server(|server| format!("{server}/%zz"))),
        form("a server with an IPv4 address in IPv6", ADMIN, |c| {
            c.server(|server| server.replace("127.0.0.1", "[::ffff:127.0.0.1]"));
        }),
        form("a server with a zero before its port", ADMIN, |c| {
            c.server(|server| server.replace("127.0.0.1:", "127.0.0.1:0"));
        }),
        form("a proxy with an unknown scheme", refused("proxy-url of"), |c| {
            c.cluster()["proxy-url"] = json!("ftp://127.0.0.1:1");
        }),
        form("a proxy that is malformed", refused("proxy-url of"), |c| c.cluster()["proxy-url"] = json!("http://[::1")),
        form("a proxy that is dead", refused("proxy-url of"), |c| {
            c.cluster()["proxy-url"] = json!("http://127.0.0.1:1");
        }),
    ]
}
