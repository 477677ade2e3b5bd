//! One table of the forms that a kubeconfig can have. kubectl runs beside Hustings on each, and both must do the same.

use std::{path::Path, sync::Arc};

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::stage::{Outcome, Stage};

mod clusters;
mod files;
mod programs;
mod users;

const V1: &str = "client.authentication.k8s.io/v1";

/// A form, what kubectl makes of it, and the edit that makes it of the administrator's kubeconfig.
struct Form {
    name: &'static str,
    expected: Expected,
    edit: Box<dyn Fn(&mut Config<'_>)>,
}

#[derive(Clone, Copy)]
enum Expected {
    /// kubectl reaches the API server as this user.
    User(&'static str),
    /// kubectl refuses. Hustings then names this field or variable.
    Refused(&'static str),
}

impl From<&'static str> for Expected {
    fn from(user: &'static str) -> Self {
        Self::User(user)
    }
}

/// The kubeconfig of a form.
struct Config<'a> {
    stage: &'a Stage,
    value: Value,
    /// What is written instead of `value`, if anything.
    text: Option<String>,
    /// `KUBECONFIG`, if it is not the file alone.
    list: Option<String>,
    /// Flags of both programs.
    flags: Vec<String>,
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

    /// The same, with a program that prints this text.
    fn prints(&mut self, text: &str) {
        let answer = self.stage.write(&format!("answer-{}", self.file.file_name().unwrap().display()), text);
        self.exec_admin(json!({ "command": "cat", "args": [answer] }));
    }

    /// Replaces a part of the YAML.
    fn yaml(&mut self, from: &str, to: &str) {
        let text = self.text.take().unwrap_or_else(|| serde_yaml::to_string(&self.value).unwrap());
        assert!(text.contains(from), "{from:?} is not in {text}");
        self.text = Some(text.replacen(from, to, 1));
    }
}

fn form(name: &'static str, expected: impl Into<Expected>, edit: impl Fn(&mut Config<'_>) + 'static) -> Form {
    Form { name, expected: expected.into(), edit: Box::new(edit) }
}

const ADMIN: &str = "admin";

/// kubectl refuses, and Hustings names this field or variable.
const fn refused(names: &'static str) -> Expected {
    Expected::Refused(names)
}

/// Fails with every form on which the two programs differ from the table.
async fn compare(stage: Arc<Stage>, forms: Vec<Form>) {
    let differences = stream::iter(forms.into_iter().enumerate()).map(|(number, form)| {
        let stage = Arc::clone(&stage);
        let file = stage.path(&format!("kubeconfig-{number}"));
        let (value, flags) = (stage.base(), Vec::new());
        let mut config = Config { stage: &stage, value, text: None, list: None, flags, file: &file };
        (form.edit)(&mut config);
        let text = config.text.unwrap_or_else(|| config.value.to_string());
        let list = config.list.unwrap_or_else(|| file.display().to_string());
        let flags = config.flags;
        std::fs::write(&file, text).unwrap();
        async move {
            let environment = [("KUBECONFIG".to_owned(), list)];
            let (of_kubectl, kubectl_said) = stage.kubectl(&flags, &environment).await;
            let (of_hustings, hustings_said) = stage.hustings(&flags, &environment).await;
            let (expected, is_explained) = match form.expected {
                Expected::User(user) => (Outcome::User(user.to_owned()), true),
                Expected::Refused(names) => {
                    (Outcome::Refused, hustings_said.contains("hint: ") && hustings_said.contains(names))
                }
            };
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
    compare(Stage::new("files").await, files::forms()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_make_the_same_of_a_cluster() {
    compare(Stage::new("clusters").await, clusters::forms()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_make_the_same_of_a_user() {
    compare(Stage::new("users").await, users::forms()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_and_hustings_make_the_same_of_a_credential_program() {
    compare(Stage::new("programs").await, programs::forms()).await;
}
