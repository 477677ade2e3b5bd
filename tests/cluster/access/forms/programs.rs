//! Forms of a credential program.

use serde_json::json;

use super::super::stage::{ALICE, credential};
use super::{ADMIN, Form, V1, form, refused};

pub(super) fn forms() -> Vec<Form> {
    vec![
        form("a credential program", ADMIN, |c| c.exec_admin(json!({}))),
        form("a credential program if a terminal is available", ADMIN, |c| {
            c.exec_admin(json!({"interactiveMode": "IfAvailable"}));
        }),
        form("a credential program that needs a terminal", refused("interactiveMode"), |c| {
            c.exec_admin(json!({"interactiveMode": "Always"}));
        }),
        form("a credential program with an unknown mode", refused("interactiveMode"), |c| {
            c.exec_admin(json!({"interactiveMode": "never"}));
        }),
        form("a credential program without a mode", refused("interactiveMode"), |c| {
            c.exec_admin(json!({"interactiveMode": null}));
        }),
        form("a credential program without a version", refused("apiVersion"), |c| {
            c.exec_admin(json!({"apiVersion": ""}));
        }),
        form("a credential program of an old version", refused("apiVersion"), |c| {
            c.exec_admin(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"}));
        }),
        form("a credential program that answers in another version", refused("exec.apiVersion"), |c| {
            c.exec_admin(json!({"apiVersion": "client.authentication.k8s.io/v1beta1"}));
        }),
        form("a credential program of v1beta1 without a mode", ADMIN, |c| {
            let beta = "client.authentication.k8s.io/v1beta1";
            let answer =
                c.stage.write("beta.json", &credential(beta, &json!({"token": c.stage.admin_token})).to_string());
            let command = c.stage.script("beta", &format!("cat {}", answer.display()));
            c.exec(json!({ "apiVersion": beta, "command": command }));
        }),
        form("a credential program that prints YAML", ADMIN, |c| {
            let answer = serde_yaml::to_string(&credential(V1, &json!({"token": c.stage.admin_token}))).unwrap();
            let answer = c.stage.write("answer.yaml", &answer);
            c.exec(json!({ "apiVersion": V1, "command": "cat", "args": [answer], "interactiveMode": "Never" }));
        }),
        form("a credential program with a relative path", ADMIN, |c| {
            c.stage.plugin("bin/plugin", &json!({"token": c.stage.admin_token}));
            c.exec_admin(json!({"command": "bin/plugin"}));
        }),
        form("a credential program with arguments and variables", ADMIN, |c| {
            let answer = c.stage.write("env.json", &credential(V1, &json!({"token": c.stage.admin_token})).to_string());
            let env = json!([{ "name": "ANSWER", "value": answer }, { "name": "EMPTY" }]);
            c.exec_admin(json!({ "command": "sh", "args": ["-c", "cat \"$ANSWER\""], "env": env }));
        }),
        form("a credential program that learns the cluster", ADMIN, |c| {
            let answer =
                c.stage.write("info.json", &credential(V1, &json!({"token": c.stage.admin_token})).to_string());
            let wanted = "\"audience\":\"x\"";
            let body = format!(
                "case $KUBERNETES_EXEC_INFO in *'{wanted}'*certificate-authority-data*) cat {0};; \
                 *certificate-authority-data*'{wanted}'*) cat {0};; esac",
                answer.display()
            );
            let command = c.stage.script("info", &body);
            c.cluster()["extensions"] =
                json!([{ "name": "client.authentication.k8s.io/exec", "extension": { "audience": "x" } }]);
            c.exec(
                json!({ "apiVersion": V1, "command": command, "interactiveMode": "Never", "provideClusterInfo": true }),
            );
        }),
        form("a credential program that returns a certificate", ALICE, |c| {
            let alice = c.stage.alice.clone();
            let command = c.stage.plugin(
                "alice-plugin",
                &json!({"clientCertificateData": alice.certificate, "clientKeyData": alice.key}),
            );
            c.exec_admin(json!({"command": command}));
        }),
        form("a credential program that returns an expired token", ADMIN, |c| {
            let command = c.stage.plugin(
                "expired",
                &json!({"token": c.stage.admin_token, "expirationTimestamp": "2020-01-01T00:00:00Z"}),
            );
            c.exec_admin(json!({"command": command}));
        }),
        form("a credential program that is missing", refused("exec.command"), |c| {
            c.exec_admin(json!({"command": "no-such-program"}));
        }),
        form("a credential program that fails", refused("exec of the user"), |c| {
            c.exec_admin(json!({"command": "false"}));
        }),
        form("a credential program that prints nothing", refused("exec of the user"), |c| {
            c.exec_admin(json!({"command": "true"}));
        }),
        form("a credential program without a command", refused("`command`"), |c| c.exec_admin(json!({"command": ""}))),
        form("a credential program with a variable without a name", refused("`env`"), |c| {
            c.exec_admin(json!({"env": [{"value": "x"}]}));
        }),
        form("a missing credential program beside a token", ADMIN, |c| {
            let token = c.stage.admin_token.clone();
            c.exec_admin(json!({"command": "no-such-program"}));
            c.user()["token"] = json!(token);
        }),
        form("a credential program beside an auth-provider", refused("auth-provider"), |c| {
            c.exec_admin(json!({}));
            c.user()["auth-provider"] = json!({"name": "oidc"});
        }),
        form("a credential program that prints no kind", ADMIN, |c| {
            c.prints(&json!({"apiVersion": V1, "status": {"token": c.stage.admin_token}}).to_string());
        }),
        form("a credential program that prints no version", refused("exec.apiVersion"), |c| {
            c.prints(&json!({"kind": "ExecCredential", "status": {"token": c.stage.admin_token}}).to_string());
        }),
        form("a credential program that prints more beside it", refused("ExecCredential"), |c| {
            c.prints(&format!("{} x", credential(V1, &json!({"token": c.stage.admin_token}))));
        }),
        form("a credential program that prints two documents", ADMIN, |c| {
            c.prints(&format!(
                "{}---\n[",
                serde_yaml::to_string(&credential(V1, &json!({"token": c.stage.admin_token}))).unwrap()
            ));
        }),
        form("a credential program that prints a token with a line end", refused("a line end"), |c| {
            c.prints(&credential(V1, &json!({"token": format!("{}\n", c.stage.admin_token)})).to_string());
        }),
        form("a credential program that prints a certificate alone", refused("only one of certificate and key"), |c| {
            c.prints(&credential(V1, &json!({"token": c.stage.admin_token, "clientCertificateData": "x"})).to_string());
        }),
        form("a credential program that prints neither", refused("neither a token nor"), |c| {
            c.prints(&credential(V1, &json!({})).to_string());
        }),
        form("a credential program whose token never ends", ADMIN, |c| {
            c.prints(
                &credential(V1, &json!({"token": c.stage.admin_token, "expirationTimestamp": "9999-12-31T23:59:59Z"}))
                    .to_string(),
            );
        }),
        form("a credential program whose token ends at no time", refused("expirationTimestamp"), |c| {
            c.prints(
                &credential(V1, &json!({"token": c.stage.admin_token, "expirationTimestamp": "2030-01-01 00:00:00Z"}))
                    .to_string(),
            );
        }),
        form("a credential program that leaves a child", ADMIN, |c| {
            let answer =
                c.stage.write("child.json", &credential(V1, &json!({"token": c.stage.admin_token})).to_string());
            let command = c.stage.script("child", &format!("cat {}; sleep 2 &", answer.display()));
            c.exec_admin(json!({"command": command}));
        }),
        form("a credential program that reads", ADMIN, |c| {
            let answer =
                c.stage.write("read.json", &credential(V1, &json!({"token": c.stage.admin_token})).to_string());
            let command = c.stage.script("read", &format!("read x; cat {}", answer.display()));
            c.exec_admin(json!({"command": command, "interactiveMode": "IfAvailable"}));
        }),
        form("a credential program with null fields", ADMIN, |c| {
            c.exec_admin(json!({"args": [null], "env": null, "installHint": null, "provideClusterInfo": null}));
        }),
        form("a credential program with arguments as a text", refused("exec.args"), |c| {
            c.exec_admin(json!({"args": "x"}));
        }),
        form("a credential program with variables as an object", refused("exec.env"), |c| {
            c.exec_admin(json!({"env": {"A": "b"}}));
        }),
        form("a credential program with its arguments in the command", refused("exec.command"), |c| {
            c.exec_admin(json!({}));
            let command = format!("{} x", c.user()["exec"]["command"].as_str().unwrap());
            c.user()["exec"]["command"] = json!(command);
        }),
        form("a credential program with a tilde", refused("exec.command"), |c| {
            c.exec_admin(json!({"command": "~/plugin"}));
        }),
        form("a credential program that is not executable", refused("exec.command"), |c| {
            let command = c.stage.write("text", "x");
            c.exec_admin(json!({"command": command}));
        }),
        form("a credential program that needs a terminal, beside a token", ADMIN, |c| {
            let token = c.stage.admin_token.clone();
            c.exec_admin(json!({"interactiveMode": "Always"}));
            c.user()["token"] = json!(token);
        }),
        form("a credential program of an unknown version, beside a token", refused("apiVersion"), |c| {
            let token = c.stage.admin_token.clone();
            c.exec_admin(json!({"apiVersion": "x"}));
            c.user()["token"] = json!(token);
        }),
        form("a credential program beside a password", ADMIN, |c| {
            c.exec_admin(json!({}));
            c.user()["password"] = json!("secret");
        }),
        form("another user by a credential program", "bob", |c| {
            c.exec_admin(json!({}));
            c.user()["as"] = json!("bob");
        }),
    ]
}
