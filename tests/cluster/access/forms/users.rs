//! Forms of a user.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::super::stage::{ALICE, SCHEDULER};
use super::{ADMIN, Form, form, refused};

pub(super) fn forms() -> Vec<Form> {
    vec![
        form("empty fields beside a token", ADMIN, |c| {
            for field in [
                "tokenFile",
                "username",
                "password",
                "client-certificate",
                "client-certificate-data",
                "client-key",
                "as",
                "as-uid",
            ] {
                c.user()[field] = json!("");
            }
        }),
        form("nothing", refused("set token"), |c| *c.user() = json!({})),
        form("a token with a line end", refused("a token with"), |c| {
            let token = format!("{}\n", c.stage.admin_token);
            *c.user() = json!({"token": token});
        }),
        form("a token that is a number", refused("user.token"), |c| *c.user() = json!({"token": 1})),
        form("a wrong token", refused("correct token"), |c| *c.user() = json!({"token": "wrong"})),
        form("a token file", ADMIN, |c| {
            let path = c.stage.write("token", &c.stage.admin_token);
            *c.user() = json!({"tokenFile": path});
        }),
        form("a relative token file with line ends", ADMIN, |c| {
            c.stage.write("token2", &format!("{}\r\n\n", c.stage.admin_token));
            *c.user() = json!({"tokenFile": "token2"});
        }),
        form("a token beside a token file", SCHEDULER, |c| {
            let path = c.stage.write("token3", &c.stage.scheduler_token);
            c.user()["tokenFile"] = json!(path);
        }),
        form("a token beside a missing token file", ADMIN, |c| c.user()["tokenFile"] = json!("/no/such")),
        form("a missing token file", refused("tokenFile /"), |c| *c.user() = json!({"tokenFile": "/no/such"})),
        form("an empty token file", refused("tokenFile /"), |c| {
            let path = c.stage.write("token4", "");
            *c.user() = json!({"tokenFile": path});
        }),
        form("a name and a password", refused("username and password"), |c| {
            *c.user() = json!({"username": "me", "password": "secret"});
        }),
        form("a token beside a name", refused("a token and a username"), |c| c.user()["username"] = json!("me")),
        form("a token file beside a name", refused("a tokenFile and a username"), |c| {
            let path = c.stage.write("token5", &c.stage.admin_token);
            *c.user() = json!({"tokenFile": path, "username": "me"});
        }),
        form("a password alone", refused("set token"), |c| *c.user() = json!({"password": "secret"})),
        form("a client certificate in files", ALICE, |c| {
            let (certificate, key) = c.stage.write_alice("alice");
            *c.user() = json!({"client-certificate": certificate, "client-key": key});
        }),
        form("a client certificate as data", ALICE, |c| {
            let alice = c.stage.alice.clone();
            let [certificate, key] = [alice.certificate, alice.key].map(|pem| STANDARD.encode(pem));
            *c.user() = json!({ "client-certificate-data": certificate, "client-key-data": key });
        }),
        form("a client certificate and its key in one file", ALICE, |c| {
            let path = c.stage.write("both", &format!("{}{}", c.stage.alice.key, c.stage.alice.certificate));
            *c.user() = json!({"client-certificate": path, "client-key": path});
        }),
        form("a client certificate beside a token", ALICE, |c| {
            let (certificate, key) = c.stage.write_alice("alice");
            c.user()["client-certificate"] = json!(certificate);
            c.user()["client-key"] = json!(key);
        }),
        form("a client certificate without a key", refused("client-key"), |c| {
            let (certificate, _) = c.stage.write_alice("alice");
            *c.user() = json!({"client-certificate": certificate});
        }),
        form("a client certificate twice", refused("client-certificate and"), |c| {
            let (certificate, key) = c.stage.write_alice("alice");
            *c.user() =
                json!({"client-certificate": certificate, "client-certificate-data": "YQ==", "client-key": key});
        }),
        form("a key of another certificate", refused("client-key"), |c| {
            let (certificate, _) = c.stage.write_alice("alice");
            let key = c.stage.plane.folder().join("apiserver.key");
            *c.user() = json!({"client-certificate": certificate, "client-key": key});
        }),
        form("a key alone", refused("client-certificate"), |c| {
            let (_, key) = c.stage.write_alice("alice");
            *c.user() = json!({"client-key": key});
        }),
        form("a missing client certificate", refused("client-certificate of"), |c| {
            *c.user() = json!({"client-certificate": "/no/such", "client-key": "/nor/this"});
        }),
        form("a client certificate that is none", refused("client-certificate"), |c| {
            *c.user() = json!({"client-certificate-data": "YQ==", "client-key-data": "YQ=="});
        }),
        form("a certificate of a server as the client's", refused("client-certificate"), |c| {
            let folder = c.stage.plane.folder().to_owned();
            *c.user() =
                json!({"client-certificate": folder.join("apiserver.crt"), "client-key": folder.join("apiserver.key")});
        }),
        form("another user", "bob", |c| c.user()["as"] = json!("bob")),
        form("another user with a uid, groups and more", "bob", |c| {
            c.user()["as"] = json!("bob");
            c.user()["as-uid"] = json!("1");
            c.user()["as-groups"] = json!(["system:authenticated", "b"]);
            c.user()["as-user-extra"] = json!({"Some/Key": ["x", "y"]});
        }),
        form("another user's groups without a name", refused("`as`"), |c| c.user()["as-groups"] = json!(["a"])),
        form("another user's groups as a text", refused("user.as-groups"), |c| {
            c.user()["as"] = json!("bob");
            c.user()["as-groups"] = json!("a");
        }),
        form("another user with a line end", refused("`as` of"), |c| c.user()["as"] = json!("bob\n")),
        form("an auth-provider that was removed", refused("auth-provider"), |c| {
            *c.user() = json!({"auth-provider": {"name": "gcp"}});
        }),
        form("an unknown auth-provider", refused("auth-provider"), |c| {
            *c.user() = json!({"auth-provider": {"name": "x", "config": {"id-token": "secret"}}});
        }),
        form("null fields beside a token", ADMIN, |c| {
            for field in [
                "tokenFile",
                "username",
                "client-certificate",
                "as",
                "as-groups",
                "as-user-extra",
                "exec",
                "auth-provider",
            ] {
                c.user()[field] = json!(null);
            }
        }),
        form("a token with a space before it", refused("correct token"), |c| {
            let token = format!(" {}", c.stage.admin_token);
            *c.user() = json!({"token": token});
        }),
        form("a token beside a token file with two lines", refused("tokenFile"), |c| {
            let path = c.stage.write("token6", "a\nb");
            c.user()["tokenFile"] = json!(path);
        }),
        form("a token beside an empty token file", ADMIN, |c| {
            let path = c.stage.write("token7", " \n");
            c.user()["tokenFile"] = json!(path);
        }),
        form("a token file beside a password", ADMIN, |c| {
            let path = c.stage.write("token8", &c.stage.admin_token);
            *c.user() = json!({"tokenFile": path, "password": "secret"});
        }),
        form("a client certificate beside a name and a wrong token file", ALICE, |c| {
            let (certificate, key) = c.stage.write_alice("alice");
            let path = c.stage.write("token9", "wrong");
            *c.user() = json!({"client-certificate": certificate, "client-key": key, "tokenFile": path});
        }),
        form("a client certificate as data and its key in a file", ALICE, |c| {
            let (_, key) = c.stage.write_alice("alice");
            let certificate = STANDARD.encode(&c.stage.alice.certificate);
            *c.user() = json!({"client-certificate-data": certificate, "client-key": key});
        }),
        form("a client certificate among other texts", ALICE, |c| {
            let pem = |pem: &str| format!("Bag Attributes\r\n{}", pem.replace('\n', "\r\n"));
            let alice = c.stage.alice.clone();
            let (certificate, key) =
                (c.stage.write("bag.crt", &pem(&alice.certificate)), c.stage.write("bag.key", &pem(&alice.key)));
            *c.user() = json!({"client-certificate": certificate, "client-key": key});
        }),
        form("a key beside a token", ADMIN, |c| {
            c.user()["client-key"] = json!("/no/such");
            c.user()["client-key-data"] = json!("YQ==");
        }),
        form("a key that is not base64, beside a token", refused("user.client-key-data"), |c| {
            c.user()["client-key-data"] = json!("!");
        }),
        form("another user with empty lists", "bob", |c| {
            c.user()["as"] = json!("bob");
            c.user()["as-groups"] = json!([]);
            c.user()["as-user-extra"] = json!({"a": null});
        }),
        form("another user with a name beyond ASCII", "jürgen", |c| {
            c.user()["as"] = json!("jürgen");
            c.user()["as-user-extra"] = json!({"ä b": ["ö"]});
        }),
        form("another user's uid without a name", refused("`as`"), |c| c.user()["as-uid"] = json!("1")),
        form("another user's extra as a text", refused("user.as-user-extra.a"), |c| {
            c.user()["as"] = json!("bob");
            c.user()["as-user-extra"] = json!({"a": "b"});
        }),
        form("an OIDC provider without its issuer", refused("idp-issuer-url"), |c| {
            c.user()["auth-provider"] = json!({"name": "oidc", "config": {"id-token": "a.b.c"}});
        }),
        form("an OIDC provider whose token is none", refused("id-token"), |c| {
            *c.user() = json!({ "auth-provider": oidc() });
        }),
        form("an OIDC provider beside a token", ADMIN, |c| c.user()["auth-provider"] = oidc()),
    ]
}

/// An OIDC provider whose token is no JSON web token.
fn oidc() -> Value {
    let config = json!({ "id-token": "a", "client-id": "x", "idp-issuer-url": "https://127.0.0.1:1" });
    json!({ "name": "oidc", "config": config })
}
