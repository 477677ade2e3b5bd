//! One table of the forms that a kubeconfig can have. kubectl runs beside Hustings on each, and both must do the same.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::stage::{ALICE, Outcome, SCHEDULER, Stage, credential};

const V1: &str = "client.authentication.k8s.io/v1";

/// A form, as whom kubectl reaches the API server with it, and the edit that makes it of the administrator's kubeconfig.
struct Form {
    name: &'static str,
    /// `None` if kubectl refuses.
    user: Option<&'static str>,
    edit: Box<dyn Fn(&mut Config<'_>)>,
}

/// The kubeconfig of a form.
struct Config<'a> {
    stage: &'a Stage,
    value: Value,
    /// What is written instead of `value`, if anything.
    text: Option<String>,
    /// `KUBECONFIG`, if it is not the file alone.
    list: Option<String>,
    file: &'a Path,
}

impl Config<'_> {
    fn cluster(&mut self) -> &mut Value {
        &mut self.value["clusters"][0]["cluster"]
    }

    fn user(&mut self) -> &mut Value {
        &mut self.value["users"][0]["user"]
    }

    fn context(&mut self) -> &mut Value {
        &mut self.value["contexts"][0]["context"]
    }

    /// Edits the URL of the server.
    fn server(&mut self, edit: impl Fn(&str) -> String) {
        let server = self.cluster()["server"].as_str().unwrap().trim_end_matches('/').to_owned();
        self.cluster()["server"] = json!(edit(&server));
    }

    fn authority(&mut self) -> String {
        std::fs::read_to_string(self.cluster()["certificate-authority"].as_str().unwrap()).unwrap()
    }

    /// Replaces the user by one with a credential program.
    fn exec(&mut self, exec: Value) {
        *self.user() = json!({ "exec": exec });
    }

    /// The same, with a program that prints the administrator's token.
    fn exec_admin(&mut self, edit: Value) {
        let status = json!({ "token": self.stage.admin_token });
        let command = self.stage.plugin("admin-plugin", &status);
        let mut exec = json!({ "apiVersion": V1, "command": command, "interactiveMode": "Never" });
        json_patch::merge(&mut exec, &edit);
        self.exec(exec);
    }

    /// Replaces a part of the YAML.
    fn yaml(&mut self, from: &str, to: &str) {
        let text = self.text.take().unwrap_or_else(|| serde_yaml::to_string(&self.value).unwrap());
        assert!(text.contains(from), "{from:?} is not in {text}");
        self.text = Some(text.replacen(from, to, 1));
    }
}

fn form(name: &'static str, user: impl Into<Option<&'static str>>, edit: impl Fn(&mut Config<'_>) + 'static) -> Form {
    Form { name, user: user.into(), edit: Box::new(edit) }
}

const ADMIN: &str = "admin";
const REFUSED: Option<&str> = None;

#[rustfmt::skip]
fn of_files() -> Vec<Form> {
    vec![
        form("plain", ADMIN, |_| {}),
        form("JSON with tabs", ADMIN, |c| c.text = Some(format!("{{\n\t{}", c.value.to_string().strip_prefix('{').unwrap()))),
        form("YAML", ADMIN, |c| c.text = Some(serde_yaml::to_string(&c.value).unwrap())),
        form("UTF-8 with a byte order mark", ADMIN, |c| c.text = Some(format!("\u{feff}{}", serde_yaml::to_string(&c.value).unwrap()))),
        form("no kind and no apiVersion", ADMIN, |c| { c.value.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion"); }),
        form("another kind", REFUSED, |c| c.value["kind"] = json!("Pod")),
        form("another apiVersion", REFUSED, |c| c.value["apiVersion"] = json!("v2")),
        form("unknown fields", ADMIN, |c| { c.value["x"] = json!({}); c.user()["x"] = json!(1); }),
        form("null lists and objects", ADMIN, |c| { c.value["extensions"] = json!(null); c.value["preferences"] = json!(null); c.user()["exec"] = json!(null); }),
        form("a list that is an object", REFUSED, |c| c.value["users"] = json!({})),
        form("two documents", ADMIN, |c| c.text = Some(format!("{}---\nkind: Pod\n", serde_yaml::to_string(&c.value).unwrap()))),
        form("a field twice", ADMIN, |c| c.yaml("current-context:", "current-context: other\ncurrent-context:")),
        form("a mistake in the YAML", REFUSED, |c| c.yaml("users:", "users: [")),
        form("a plain text", REFUSED, |c| c.text = Some("hello".to_owned())),
        form("an empty file", REFUSED, |c| c.text = Some(String::new())),
        form("two users with one name", REFUSED, |c| { let user = c.value["users"][0].clone(); c.value["users"].as_array_mut().unwrap().push(user); }),
        form("another user with a field of a wrong type", REFUSED, |c| c.value["users"].as_array_mut().unwrap().push(json!({"name": "x", "user": {"token": 1}}))),
        form("another user with a missing file", ADMIN, |c| c.value["users"].as_array_mut().unwrap().push(json!({"name": "x", "user": {"tokenFile": "/no/such"}}))),
        form("another cluster with a malformed CA", REFUSED, |c| c.value["clusters"].as_array_mut().unwrap().push(json!({"name": "x", "cluster": {"certificate-authority-data": "!"}}))),
        form("no current context", REFUSED, |c| c.value["current-context"] = json!("")),
        form("an unknown current context", REFUSED, |c| c.value["current-context"] = json!("nowhere")),
        form("an unknown cluster", REFUSED, |c| c.context()["cluster"] = json!("nowhere")),
        form("an unknown user", REFUSED, |c| c.context()["user"] = json!("nobody")),
        form("no user", REFUSED, |c| c.context()["user"] = json!("")),
        form("an empty namespace", ADMIN, |c| c.context()["namespace"] = json!("")),
        form("a name that is a number", REFUSED, |c| c.yaml("current-context: test", "current-context: 1")),
        form("a list with a missing file", ADMIN, |c| c.list = Some(format!("/no/such:{}", c.file.display()))),
        form("a list with empty entries and one file twice", ADMIN, |c| c.list = Some(format!("::{0}:{0}:", c.file.display()))),
        form("a list of missing files", REFUSED, |c| c.list = Some("/no/such:/nor/this".to_owned())),
        form("a list with a broken file", REFUSED, |c| { let broken = c.stage.write("broken", "{"); c.list = Some(format!("{}:{}", c.file.display(), broken.display())); }),
        form("a list with a folder", REFUSED, |c| c.list = Some(format!("{}:{}", c.file.display(), c.stage.folder.path().display()))),
        form("a user in a second file", ADMIN, |c| {
            let users = json!({ "users": c.value["users"] });
            let second = c.stage.write("users", &users.to_string());
            c.value["users"] = json!([]);
            c.list = Some(format!("{}:{}", c.file.display(), second.display()));
        }),
        form("the first file wins", ADMIN, |c| {
            let other = json!({ "current-context": "x", "users": [{ "name": "test", "user": { "token": c.stage.scheduler_token } }] });
            let second = c.stage.write("second", &other.to_string());
            c.list = Some(format!("{}:{}", c.file.display(), second.display()));
        }),
    ]
}

#[rustfmt::skip]
fn of_clusters() -> Vec<Form> {
    vec![
        form("empty texts", ADMIN, |c| for field in ["certificate-authority-data", "proxy-url", "tls-server-name"] { c.cluster()[field] = json!(""); }),
        form("a CA as data", ADMIN, |c| { let data = STANDARD.encode(c.authority()); *c.cluster() = json!({"server": c.cluster()["server"], "certificate-authority-data": data}); }),
        form("a CA as data in lines", ADMIN, |c| { let mut data = STANDARD.encode(c.authority()); data.insert(40, '\n'); *c.cluster() = json!({"server": c.cluster()["server"], "certificate-authority-data": data}); }),
        form("a relative path of a CA", ADMIN, |c| { let pem = c.authority(); c.stage.write("pki/ca.crt", &pem); c.cluster()["certificate-authority"] = json!("pki/ca.crt"); }),
        form("a CA twice", REFUSED, |c| c.cluster()["certificate-authority-data"] = json!("YQ==")),
        form("a missing CA", REFUSED, |c| c.cluster()["certificate-authority"] = json!("/no/such")),
        form("an empty CA", REFUSED, |c| { let path = c.stage.write("empty.crt", ""); c.cluster()["certificate-authority"] = json!(path); }),
        form("a CA that is no certificate", REFUSED, |c| *c.cluster() = json!({"server": c.cluster()["server"], "certificate-authority-data": "YQ=="})),
        form("another CA", REFUSED, |c| { let (certificate, _) = c.stage.write_alice("other"); c.cluster()["certificate-authority"] = json!(certificate); }),
        form("the certificate of the server as its CA", ADMIN, |c| { let path = c.stage.plane.folder().join("apiserver.crt"); c.cluster()["certificate-authority"] = json!(path); }),
        form("no CA", REFUSED, |c| *c.cluster() = json!({"server": c.cluster()["server"]})),
        form("insecure", ADMIN, |c| *c.cluster() = json!({"server": c.cluster()["server"], "insecure-skip-tls-verify": true})),
        form("insecure, as YAML 1.1 writes it", ADMIN, |c| { *c.cluster() = json!({"server": c.cluster()["server"], "insecure-skip-tls-verify": true}); c.yaml("insecure-skip-tls-verify: true", "insecure-skip-tls-verify: yes"); }),
        form("insecure as a text", REFUSED, |c| c.cluster()["insecure-skip-tls-verify"] = json!("false")),
        form("insecure beside a CA", REFUSED, |c| c.cluster()["insecure-skip-tls-verify"] = json!(true)),
        form("another server name", ADMIN, |c| c.cluster()["tls-server-name"] = json!("kubernetes.default.svc")),
        form("a wrong server name", REFUSED, |c| c.cluster()["tls-server-name"] = json!("example.com")),
        form("compression off", ADMIN, |c| c.cluster()["disable-compression"] = json!(true)),
        form("no server", REFUSED, |c| c.cluster()["server"] = json!("")),
        form("a server without a scheme", REFUSED, |c| c.server(|server| server.replace("https://", ""))),
        form("a server with another scheme", REFUSED, |c| c.server(|server| server.replace("https://", "ftp://"))),
        form("a server in capitals", ADMIN, |c| c.server(|server| server.replace("https", "HTTPS"))),
        form("a server with a slash", ADMIN, |c| c.server(|server| format!("{server}/"))),
        form("a server with a query", ADMIN, |c| c.server(|server| format!("{server}?a=b#c"))),
        form("a server with a path that is not served", REFUSED, |c| c.server(|server| format!("{server}/no/such"))),
        form("a server with a name", ADMIN, |c| c.server(|server| server.replace("127.0.0.1", "localhost"))),
        form("a server with a user", REFUSED, |c| c.server(|server| server.replace("https://", "https://me:secret@"))),
        form("a server with a space", REFUSED, |c| c.server(|server| format!("{server} "))),
        form("a server with a line end", REFUSED, |c| c.server(|server| format!("{server}\n"))),
        form("a server with a malformed port", REFUSED, |c| c.server(|server| format!("{server}x"))),
        form("a server with a port that is too large", REFUSED, |c| c.server(|server| format!("{server}00"))),
        form("a server that is half a bracket", REFUSED, |c| c.server(|_| "https://[::1".to_owned())),
        form("a server that is only a scheme", REFUSED, |c| c.server(|_| "https://".to_owned())),
    ]
}

#[rustfmt::skip]
fn of_users() -> Vec<Form> {
    vec![
        form("empty fields beside a token", ADMIN, |c| for field in ["tokenFile", "username", "password", "client-certificate", "client-certificate-data", "client-key", "as", "as-uid"] { c.user()[field] = json!(""); }),
        form("nothing", REFUSED, |c| *c.user() = json!({})),
        form("a token with a line end", REFUSED, |c| { let token = format!("{}\n", c.stage.admin_token); *c.user() = json!({"token": token}); }),
        form("a token that is a number", REFUSED, |c| *c.user() = json!({"token": 1})),
        form("a wrong token", REFUSED, |c| *c.user() = json!({"token": "wrong"})),
        form("a token file", ADMIN, |c| { let path = c.stage.write("token", &c.stage.admin_token); *c.user() = json!({"tokenFile": path}); }),
        form("a relative token file with line ends", ADMIN, |c| { c.stage.write("token2", &format!("{}\r\n\n", c.stage.admin_token)); *c.user() = json!({"tokenFile": "token2"}); }),
        form("a token beside a token file", SCHEDULER, |c| { let path = c.stage.write("token3", &c.stage.scheduler_token); c.user()["tokenFile"] = json!(path); }),
        form("a token beside a missing token file", ADMIN, |c| c.user()["tokenFile"] = json!("/no/such")),
        form("a missing token file", REFUSED, |c| *c.user() = json!({"tokenFile": "/no/such"})),
        form("an empty token file", REFUSED, |c| { let path = c.stage.write("token4", ""); *c.user() = json!({"tokenFile": path}); }),
        form("a name and a password", REFUSED, |c| *c.user() = json!({"username": "me", "password": "secret"})),
        form("a token beside a name", REFUSED, |c| c.user()["username"] = json!("me")),
        form("a token file beside a name", REFUSED, |c| { let path = c.stage.write("token5", &c.stage.admin_token); *c.user() = json!({"tokenFile": path, "username": "me"}); }),
        form("a password alone", REFUSED, |c| *c.user() = json!({"password": "secret"})),
        form("a client certificate in files", ALICE, |c| { let (certificate, key) = c.stage.write_alice("alice"); *c.user() = json!({"client-certificate": certificate, "client-key": key}); }),
        form("a client certificate as data", ALICE, |c| { let alice = c.stage.alice.clone(); *c.user() = json!({"client-certificate-data": STANDARD.encode(alice.certificate), "client-key-data": STANDARD.encode(alice.key)}); }),
        form("a client certificate and its key in one file", ALICE, |c| { let path = c.stage.write("both", &format!("{}{}", c.stage.alice.key, c.stage.alice.certificate)); *c.user() = json!({"client-certificate": path, "client-key": path}); }),
        form("a client certificate beside a token", ALICE, |c| { let (certificate, key) = c.stage.write_alice("alice"); c.user()["client-certificate"] = json!(certificate); c.user()["client-key"] = json!(key); }),
        form("a client certificate without a key", REFUSED, |c| { let (certificate, _) = c.stage.write_alice("alice"); *c.user() = json!({"client-certificate": certificate}); }),
        form("a client certificate twice", REFUSED, |c| { let (certificate, key) = c.stage.write_alice("alice"); *c.user() = json!({"client-certificate": certificate, "client-certificate-data": "YQ==", "client-key": key}); }),
        form("a key of another certificate", REFUSED, |c| { let (certificate, _) = c.stage.write_alice("alice"); let key = c.stage.plane.folder().join("apiserver.key"); *c.user() = json!({"client-certificate": certificate, "client-key": key}); }),
        form("a key alone", REFUSED, |c| { let (_, key) = c.stage.write_alice("alice"); *c.user() = json!({"client-key": key}); }),
        form("a missing client certificate", REFUSED, |c| *c.user() = json!({"client-certificate": "/no/such", "client-key": "/nor/this"})),
        form("a client certificate that is none", REFUSED, |c| *c.user() = json!({"client-certificate-data": "YQ==", "client-key-data": "YQ=="})),
        form("a certificate of a server as the client's", REFUSED, |c| { let folder = c.stage.plane.folder().to_owned(); *c.user() = json!({"client-certificate": folder.join("apiserver.crt"), "client-key": folder.join("apiserver.key")}); }),
        form("another user", "bob", |c| c.user()["as"] = json!("bob")),
        form("another user with a uid, groups and more", "bob", |c| { c.user()["as"] = json!("bob"); c.user()["as-uid"] = json!("1"); c.user()["as-groups"] = json!(["system:authenticated", "b"]); c.user()["as-user-extra"] = json!({"Some/Key": ["x", "y"]}); }),
        form("another user's groups without a name", REFUSED, |c| c.user()["as-groups"] = json!(["a"])),
        form("another user's groups as a text", REFUSED, |c| { c.user()["as"] = json!("bob"); c.user()["as-groups"] = json!("a"); }),
        form("another user with a line end", REFUSED, |c| c.user()["as"] = json!("bob\n")),
        form("an auth-provider that was removed", REFUSED, |c| *c.user() = json!({"auth-provider": {"name": "gcp"}})),
        form("an unknown auth-provider", REFUSED, |c| *c.user() = json!({"auth-provider": {"name": "x", "config": {"id-token": "secret"}}})),
    ]
}

#[rustfmt::skip]
fn of_programs() -> Vec<Form> {
    vec![
        form("a credential program", ADMIN, |c| c.exec_admin(json!({}))),
        form("a credential program if a terminal is available", ADMIN, |c| c.exec_admin(json!({"interactiveMode": "IfAvailable"}))),
        form("a credential program that needs a terminal", REFUSED, |c| c.exec_admin(json!({"interactiveMode": "Always"}))),
        form("a credential program with an unknown mode", REFUSED, |c| c.exec_admin(json!({"interactiveMode": "never"}))),
        form("a credential program without a mode", REFUSED, |c| c.exec_admin(json!({"interactiveMode": null}))),
        form("a credential program without a version", REFUSED, |c| c.exec_admin(json!({"apiVersion": ""}))),
        form("a credential program of an old version", REFUSED, |c| c.exec_admin(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"}))),
        form("a credential program that answers in another version", REFUSED, |c| c.exec_admin(json!({"apiVersion": "client.authentication.k8s.io/v1beta1"}))),
        form("a credential program of v1beta1 without a mode", ADMIN, |c| {
            let beta = "client.authentication.k8s.io/v1beta1";
            let answer = c.stage.write("beta.json", &credential(beta, &json!({"token": c.stage.admin_token})).to_string());
            let command = c.stage.script("beta", &format!("cat {}", answer.display()));
            c.exec(json!({ "apiVersion": beta, "command": command }));
        }),
        form("a credential program that prints YAML", ADMIN, |c| {
            let answer = serde_yaml::to_string(&credential(V1, &json!({"token": c.stage.admin_token}))).unwrap();
            let answer = c.stage.write("answer.yaml", &answer);
            c.exec(json!({ "apiVersion": V1, "command": "cat", "args": [answer], "interactiveMode": "Never" }));
        }),
        form("a credential program with a relative path", ADMIN, |c| { c.stage.plugin("bin/plugin", &json!({"token": c.stage.admin_token})); c.exec_admin(json!({"command": "bin/plugin"})); }),
        form("a credential program with arguments and variables", ADMIN, |c| {
            let answer = c.stage.write("env.json", &credential(V1, &json!({"token": c.stage.admin_token})).to_string());
            let env = json!([{ "name": "ANSWER", "value": answer }, { "name": "EMPTY" }]);
            c.exec(json!({ "apiVersion": V1, "command": "sh", "args": ["-c", "cat \"$ANSWER\""], "env": env, "interactiveMode": "Never" }));
        }),
        form("a credential program that learns the cluster", ADMIN, |c| {
            let answer = c.stage.write("info.json", &credential(V1, &json!({"token": c.stage.admin_token})).to_string());
            let wanted = "\"audience\":\"x\"";
            let body = format!("case $KUBERNETES_EXEC_INFO in *'{wanted}'*certificate-authority-data*|*certificate-authority-data*'{wanted}'*) cat {};; esac", answer.display());
            let command = c.stage.script("info", &body);
            c.cluster()["extensions"] = json!([{ "name": "client.authentication.k8s.io/exec", "extension": { "audience": "x" } }]);
            c.exec(json!({ "apiVersion": V1, "command": command, "interactiveMode": "Never", "provideClusterInfo": true }));
        }),
        form("a credential program that returns a certificate", ALICE, |c| {
            let alice = c.stage.alice.clone();
            let command = c.stage.plugin("alice-plugin", &json!({"clientCertificateData": alice.certificate, "clientKeyData": alice.key}));
            c.exec_admin(json!({"command": command}));
        }),
        form("a credential program that returns an expired token", ADMIN, |c| {
            let command = c.stage.plugin("expired", &json!({"token": c.stage.admin_token, "expirationTimestamp": "2020-01-01T00:00:00Z"}));
            c.exec_admin(json!({"command": command}));
        }),
        form("a credential program that is missing", REFUSED, |c| c.exec_admin(json!({"command": "no-such-program"}))),
        form("a credential program that fails", REFUSED, |c| c.exec_admin(json!({"command": "false"}))),
        form("a credential program that prints nothing", REFUSED, |c| c.exec_admin(json!({"command": "true"}))),
        form("a credential program without a command", REFUSED, |c| c.exec_admin(json!({"command": ""}))),
        form("a credential program with a variable without a name", REFUSED, |c| c.exec_admin(json!({"env": [{"value": "x"}]}))),
        form("a missing credential program beside a token", ADMIN, |c| { let token = c.stage.admin_token.clone(); c.exec_admin(json!({"command": "no-such-program"})); c.user()["token"] = json!(token); }),
        form("a credential program beside an auth-provider", REFUSED, |c| { c.exec_admin(json!({})); c.user()["auth-provider"] = json!({"name": "oidc"}); }),
    ]
}

/// Fails with every form on which the two programs differ from the table.
async fn compare(stage: Arc<Stage>, forms: Vec<Form>) {
    let differences = stream::iter(forms.into_iter().enumerate()).map(|(number, form)| {
        let stage = Arc::clone(&stage);
        let file = stage.path(&format!("kubeconfig-{number}"));
        let mut config = Config { stage: &stage, value: stage.base(), text: None, list: None, file: &file };
        (form.edit)(&mut config);
        let text = config.text.unwrap_or_else(|| config.value.to_string());
        let list = config.list.unwrap_or_else(|| file.display().to_string());
        std::fs::write(&file, text).unwrap();
        async move {
            let environment = [("KUBECONFIG".to_owned(), list)];
            let expected = form.user.map_or(Outcome::Refused, |user| Outcome::User(user.to_owned()));
            let (of_kubectl, kubectl_said) = stage.kubectl(&environment).await;
            let (of_hustings, hustings_said) = stage.hustings(&environment).await;
            let is_explained = of_hustings != Outcome::Refused || hustings_said.contains("hint: ");
            let is_right = (&of_kubectl, &of_hustings) == (&expected, &expected) && is_explained;
            let both = format!(
                "{}: kubectl {of_kubectl:?}: {kubectl_said}\nhustings {of_hustings:?}: {hustings_said}",
                form.name
            );
            if std::env::var_os("SHOW_FORMS").is_some() {
                println!("{both}");
            }
            (!is_right).then_some(both)
        }
    });
    let differences: Vec<_> = differences.buffer_unordered(4).filter_map(async |it| it).collect().await;
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_make_the_same_of_the_files_of_a_kubeconfig() {
    compare(Stage::new("files").await, of_files()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_make_the_same_of_a_cluster() {
    compare(Stage::new("clusters").await, of_clusters()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_make_the_same_of_a_user() {
    compare(Stage::new("users").await, of_users()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_make_the_same_of_a_credential_program() {
    compare(Stage::new("programs").await, of_programs()).await;
}
