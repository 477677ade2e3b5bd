//! Forms of the files themselves, of their entries, and of the flags that choose them.

use serde_json::json;

use super::{ADMIN, Form, form, refused};

pub(super) fn forms() -> Vec<Form> {
    vec![
        form("plain", ADMIN, |_| {}),
        form("JSON with tabs", ADMIN, |c| {
            c.text = Some(format!("{{\n\t{}", c.value.to_string().strip_prefix('{').unwrap()));
        }),
        form("YAML", ADMIN, |c| c.text = Some(serde_yaml::to_string(&c.value).unwrap())),
        form("UTF-8 with a byte order mark", ADMIN, |c| {
            c.text = Some(format!("\u{feff}{}", serde_yaml::to_string(&c.value).unwrap()));
        }),
        form("no kind and no apiVersion", ADMIN, |c| {
            c.value.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
        }),
        form("another kind", refused("kind is not"), |c| c.value["kind"] = json!("Pod")),
        form("another apiVersion", refused("apiVersion is not"), |c| c.value["apiVersion"] = json!("v2")),
        form("unknown fields", ADMIN, |c| {
            c.value["x"] = json!({});
            c.user()["x"] = json!(1);
        }),
        form("null lists and objects", ADMIN, |c| {
            c.value["extensions"] = json!(null);
            c.value["preferences"] = json!(null);
            c.user()["exec"] = json!(null);
        }),
        form("a list that is an object", refused("users is not a list"), |c| c.value["users"] = json!({})),
        form("two documents", ADMIN, |c| {
            c.text = Some(format!("{}---\nkind: Pod\n", serde_yaml::to_string(&c.value).unwrap()));
        }),
        form("a field twice", ADMIN, |c| c.yaml("current-context:", "current-context: other\ncurrent-context:")),
        form("a mistake in the YAML", refused("at line "), |c| c.yaml("users:", "users: [")),
        form("a plain text", refused("is not an object"), |c| c.text = Some("hello".to_owned())),
        form("an empty file", refused("current-context"), |c| c.text = Some(String::new())),
        form("two users with one name", refused("users has two entries"), |c| {
            let user = c.value["users"][0].clone();
            c.value["users"].as_array_mut().unwrap().push(user);
        }),
        form("another user with a field of a wrong type", refused("users[1].user.token"), |c| {
            c.value["users"].as_array_mut().unwrap().push(json!({"name": "x", "user": {"token": 1}}));
        }),
        form("another user with a missing file", ADMIN, |c| {
            c.value["users"].as_array_mut().unwrap().push(json!({"name": "x", "user": {"tokenFile": "/no/such"}}));
        }),
        form("another cluster with a malformed CA", refused("clusters[1].cluster.certificate-authority-data"), |c| {
            c.value["clusters"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "x", "cluster": {"certificate-authority-data": "!"}}));
        }),
        form("no current context", refused("current-context"), |c| c.value["current-context"] = json!("")),
        form("an unknown current context", refused("current-context names"), |c| {
            c.value["current-context"] = json!("nowhere");
        }),
        form("an unknown cluster", refused("`cluster` of the context"), |c| c.context()["cluster"] = json!("nowhere")),
        form("an unknown user", refused("`user` of the context"), |c| c.context()["user"] = json!("nobody")),
        form("no user", refused("`user` of the context"), |c| c.context()["user"] = json!("")),
        form("an empty namespace", ADMIN, |c| c.context()["namespace"] = json!("")),
        form("a name that is a number", refused("current-context is not"), |c| {
            c.yaml("current-context: test", "current-context: 1");
        }),
        form("a list with a missing file", ADMIN, |c| c.list = Some(format!("/no/such:{}", c.file.display()))),
        form("a list with empty entries and one file twice", ADMIN, |c| {
            c.list = Some(format!("::{0}:{0}:", c.file.display()));
        }),
        form("a list of missing files", refused("KUBECONFIG names"), |c| {
            c.list = Some("/no/such:/nor/this".to_owned());
        }),
        form("a list with a broken file", refused("broken: "), |c| {
            let broken = c.stage.write("broken", "{");
            c.list = Some(format!("{}:{}", c.file.display(), broken.display()));
        }),
        form("a list with a folder", refused("Is a directory"), |c| {
            c.list = Some(format!("{}:{}", c.file.display(), c.stage.folder.path().display()));
        }),
        form("a user in a second file", ADMIN, |c| {
            let users = json!({ "users": c.value["users"] });
            let second = c.stage.write("users", &users.to_string());
            c.value["users"] = json!([]);
            c.list = Some(format!("{}:{}", c.file.display(), second.display()));
        }),
        form("the first file wins", ADMIN, |c| {
            let users = json!([{ "name": "test", "user": { "token": c.stage.scheduler_token } }]);
            let other = json!({ "current-context": "x", "users": users });
            let second = c.stage.write("second", &other.to_string());
            c.list = Some(format!("{}:{}", c.file.display(), second.display()));
        }),
        form("line ends of Windows", ADMIN, |c| {
            c.text = Some(serde_yaml::to_string(&c.value).unwrap().replace('\n', "\r\n"));
        }),
        form("an anchor and a merge key", ADMIN, |c| {
            // Before its use in the text.
            c.value["a"] = c.value["users"][0]["user"].take();
            c.yaml("a:\n", "a: &token\n");
            c.yaml("user: null", "user:\n    <<: *token");
        }),
        form("an unknown alias", refused("at line "), |c| c.yaml("current-context: test", "current-context: *test")),
        form("a field in capitals", refused("current-context"), |c| c.yaml("current-context", "Current-Context")),
        form("a second document that is broken", ADMIN, |c| {
            c.text = Some(format!("{}---\n[", serde_yaml::to_string(&c.value).unwrap()));
        }),
        form("JSON with something behind it", ADMIN, |c| c.text = Some(format!("{}{{", c.value))),
        form("entries that are null or have no name", ADMIN, |c| {
            for list in ["users", "clusters", "contexts"] {
                c.value[list].as_array_mut().unwrap().extend([json!(null), json!({"name": "x"})]);
            }
        }),
        form("a user, a cluster and a context without a name", ADMIN, |c| {
            for (list, entry) in [("users", "user"), ("clusters", "cluster"), ("contexts", "context")] {
                c.value[list][0]["name"] = json!("");
                c.context()[entry] = json!("");
            }
            c.value["current-context"] = json!("");
        }),
        form("two clusters with one name", refused("clusters has two entries"), |c| {
            let cluster = c.value["clusters"][0].clone();
            c.value["clusters"].as_array_mut().unwrap().push(cluster);
        }),
        form("two contexts with one name", refused("contexts has two entries"), |c| {
            let context = c.value["contexts"][0].clone();
            c.value["contexts"].as_array_mut().unwrap().push(context);
        }),
        form("extensions", ADMIN, |c| {
            let extensions = json!([{"name": "x", "extension": {"y": 1}}]);
            c.value["extensions"] = extensions.clone();
            c.context()["extensions"] = extensions.clone();
            c.user()["extensions"] = extensions;
        }),
        form("extensions of the file that are an object", refused("extensions is not a list"), |c| {
            c.value["extensions"] = json!({});
        }),
        form("extensions of a context that are an object", refused("context.extensions is not a list"), |c| {
            c.context()["extensions"] = json!({});
        }),
        form("extensions of a user with one name", refused("extensions has two entries"), |c| {
            let extension = json!({ "name": "x", "extension": {} });
            c.user()["extensions"] = json!([extension, extension]);
        }),
        form("preferences that are a list", refused("preferences is not an object"), |c| {
            c.value["preferences"] = json!([]);
        }),
        form("a list with an empty file", ADMIN, |c| {
            let empty = c.stage.write("empty", "");
            c.list = Some(format!("{}:{}", c.file.display(), empty.display()));
        }),
        form("a list that begins with a file of comments", ADMIN, |c| {
            let comment = c.stage.write("comment", "# nothing\n");
            c.list = Some(format!("{}:{}", comment.display(), c.file.display()));
        }),
        form("a list with a file of another kind", refused("kind is not"), |c| {
            let other = c.stage.write("other", "kind: Pod");
            c.list = Some(format!("{}:{}", c.file.display(), other.display()));
        }),
        form("a user whose fields are in two files", refused("has no credentials"), |c| {
            let second = c.stage.write("rest", &json!({ "users": c.value["users"] }).to_string());
            *c.user() = json!({});
            c.list = Some(format!("{}:{}", c.file.display(), second.display()));
        }),
        form("the current context in a second file", ADMIN, |c| {
            let second =
                c.stage.write("current", &json!({ "current-context": c.value["current-context"] }).to_string());
            c.value["current-context"] = json!("");
            c.list = Some(format!("{}:{}", c.file.display(), second.display()));
        }),
        form("a relative path of the file", ADMIN, |c| {
            c.list = Some(c.file.file_name().unwrap().to_str().unwrap().to_owned());
        }),
        form("a path with a tilde", refused("KUBECONFIG names"), |c| c.list = Some("~/config".to_owned())),
        form("a context by its flag", ADMIN, |c| {
            c.value["current-context"] = json!("nowhere");
            c.flags = vec!["--context=test".to_owned()];
        }),
        form("an unknown context by its flag", refused("--context names"), |c| {
            c.flags = vec!["--context=nowhere".to_owned()];
        }),
        form("empty flags", ADMIN, |c| c.flags = vec!["--context=".to_owned(), "--kubeconfig=".to_owned()]),
        form("a file by its flag", ADMIN, |c| {
            c.list = Some("/no/such".to_owned());
            c.flags = vec![format!("--kubeconfig={}", c.file.display())];
        }),
        form("a missing file by its flag", refused("--kubeconfig"), |c| {
            c.flags = vec!["--kubeconfig=/no/such".to_owned()];
        }),
    ]
}
