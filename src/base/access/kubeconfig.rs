//! Kubeconfig files and their merger, as kubectl reads them.
//!
//! kube's own types take an empty text for a value and ignore wrong types elsewhere in the file. These types hold what
//! kubectl holds: an empty text is an absent one, and every entry of every file is checked.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use serde_json::Value;

use super::document::{self, Node};

/// The extension of a cluster that a credential program receives.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The merged content of kubeconfig files.
#[derive(Clone, Default)]
pub(super) struct Kubeconfig {
    pub(super) clusters: BTreeMap<String, KubeconfigCluster>,
    pub(super) users: BTreeMap<String, User>,
    pub(super) contexts: BTreeMap<String, Context>,
    pub(super) current_context: Option<String>,
    /// The files that were read.
    pub(super) files: Vec<PathBuf>,
}

#[derive(Clone, Default)]
pub(super) struct KubeconfigCluster {
    pub(super) server: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure: bool,
    pub(super) authority: Option<PathBuf>,
    pub(super) authority_data: Option<Vec<u8>>,
    pub(super) proxy_url: Option<String>,
    pub(super) exec_extension: Option<Value>,
}

#[derive(Clone, Default)]
pub(super) struct User {
    pub(super) certificate: Option<PathBuf>,
    pub(super) certificate_data: Option<Vec<u8>>,
    pub(super) key: Option<PathBuf>,
    pub(super) key_data: Option<Vec<u8>>,
    pub(super) token: Option<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) act_as: Option<String>,
    pub(super) act_as_uid: Option<String>,
    pub(super) act_as_groups: Vec<String>,
    pub(super) act_as_extra: Vec<(String, Vec<String>)>,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
}

/// The former kind of a credential program, of which kubectl supports only `oidc`.
#[derive(Clone, Default)]
pub(super) struct AuthProvider {
    pub(super) name: String,
    /// The values that are not empty.
    pub(super) config: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
pub(super) struct Exec {
    pub(super) command: Option<String>,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) api_version: Option<String>,
    pub(super) install_hint: Option<String>,
    pub(super) provide_cluster_info: bool,
    pub(super) interactive_mode: Option<String>,
}

#[derive(Clone, Default)]
pub(super) struct Context {
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
}

impl Kubeconfig {
    /// Reads one file, which must exist.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        Self::read_all([path.to_owned()], true)
    }

    /// Reads and merges a list of files as in `KUBECONFIG`. The first file that sets a value wins. Missing files are
    /// skipped.
    pub(super) fn read_list(paths: &OsStr) -> Result<Self, String> {
        Self::read_all(std::env::split_paths(paths), false)
    }

    fn read_all(paths: impl IntoIterator<Item = PathBuf>, must_exist: bool) -> Result<Self, String> {
        let mut merged = Self::default();
        let mut seen = HashSet::new();
        for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
            if !seen.insert(path.clone()) {
                continue;
            }
            let bytes = match std::fs::read(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => continue,
                read => read.map_err(|error| format!("cannot read {}: {error}", path.display()))?,
            };
            let own = document::parse(&bytes).and_then(|value| Self::from_value(&value));
            let mut own = own.map_err(|mistake| format!("{}: {mistake}", path.display()))?;
            own.resolve(&path);
            merged.add(own);
            merged.files.push(path);
        }
        Ok(merged)
    }

    /// Whether no file set anything.
    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.users.is_empty() && self.contexts.is_empty() && self.current_context.is_none()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let root = Node::root(value);
        for (name, expected) in [("kind", "Config"), ("apiVersion", "v1")] {
            if root.text(name)?.is_some_and(|text| text != expected) {
                return Err(format!("{name} is not {expected}"));
            }
        }
        root.field("preferences", |node| extensions(node).and_then(|_| node.switch("colors")))?;
        extensions(root)?;
        Ok(Self {
            clusters: named(root, "clusters", "cluster", cluster)?,
            users: named(root, "users", "user", user)?,
            contexts: named(root, "contexts", "context", context)?,
            current_context: root.text("current-context")?,
            files: Vec::new(),
        })
    }

    /// Makes paths relative to the folder of their file.
    fn resolve(&mut self, file: &Path) {
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let folder = std::path::absolute(folder).unwrap_or_else(|_| {
            // An empty path is the folder of this process.
            std::env::current_dir().unwrap_or_else(|_| folder.to_owned())
        });
        let paths_of_users = self
            .users
            .values_mut()
            .flat_map(|user| [&mut user.certificate, &mut user.key, &mut user.token_file].into_iter().flatten());
        let paths_of_clusters = self.clusters.values_mut().filter_map(|cluster| cluster.authority.as_mut());
        for path in paths_of_users.chain(paths_of_clusters) {
            *path = folder.join(&path);
        }
        for exec in self.users.values_mut().filter_map(|user| user.exec.as_mut()) {
            // A bare name is looked up in PATH.
            if let Some(command) = exec.command.as_mut().filter(|command| command.contains(MAIN_SEPARATOR)) {
                *command = folder.join(&command).to_string_lossy().into_owned();
            }
        }
    }

    fn add(&mut self, next: Self) {
        for (name, cluster) in next.clusters {
            self.clusters.entry(name).or_insert(cluster);
        }
        for (name, user) in next.users {
            self.users.entry(name).or_insert(user);
        }
        for (name, context) in next.contexts {
            self.contexts.entry(name).or_insert(context);
        }
        self.current_context = self.current_context.take().or(next.current_context);
    }
}

/// The entries of a list by name.
fn named<T>(
    node: Node<'_>,
    list: &str,
    kind: &str,
    mut read: impl FnMut(Node<'_>) -> Result<T, String>,
) -> Result<BTreeMap<String, T>, String> {
    let mut entries = BTreeMap::new();
    for (name, entry) in
        node.list(list, |entry| Ok((entry.text("name")?.unwrap_or_default(), entry.field(kind, &mut read)?)))?
    {
        if entries.insert(name.clone(), entry).is_some() {
            return Err(format!("{list} has two entries with the name {name:?}"));
        }
    }
    Ok(entries)
}

/// The extensions of other programs, which kubectl reads wherever they may stand.
fn extensions(node: Node<'_>) -> Result<BTreeMap<String, Option<Value>>, String> {
    named(node, "extensions", "extension", |extension| Ok(extension.value()))
}

fn cluster(node: Node<'_>) -> Result<KubeconfigCluster, String> {
    node.switch("disable-compression")?;
    Ok(KubeconfigCluster {
        server: node.text("server")?,
        tls_server_name: node.text("tls-server-name")?,
        insecure: node.switch("insecure-skip-tls-verify")?,
        authority: node.text("certificate-authority")?.map(PathBuf::from),
        authority_data: node.bytes("certificate-authority-data")?,
        proxy_url: node.text("proxy-url")?,
        exec_extension: extensions(node)?.remove(EXEC_EXTENSION).flatten(),
    })
}

#[allow(clippy::redundant_closure_for_method_calls, reason = "the methods are not general enough")]
fn user(node: Node<'_>) -> Result<User, String> {
    extensions(node)?;
    Ok(User {
        certificate: node.text("client-certificate")?.map(PathBuf::from),
        certificate_data: node.bytes("client-certificate-data")?,
        key: node.text("client-key")?.map(PathBuf::from),
        key_data: node.bytes("client-key-data")?,
        token: node.text("token")?,
        token_file: node.text("tokenFile")?.map(PathBuf::from),
        username: node.text("username")?,
        password: node.text("password")?,
        act_as: node.text("as")?,
        act_as_uid: node.text("as-uid")?,
        act_as_groups: node.texts("as-groups")?,
        act_as_extra: node.entries("as-user-extra", |extra, key| extra.texts(key))?,
        auth_provider: node.field("auth-provider", |provider| {
            let config = provider.entries("config", |config, key| config.text(key))?;
            let config = config.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            let name = provider.text("name")?.unwrap_or_default();
            Ok(provider.is_present().then_some(AuthProvider { name, config }))
        })?,
        exec: node.field("exec", |exec| if exec.is_present() { self::exec(exec).map(Some) } else { Ok(None) })?,
    })
}

fn exec(node: Node<'_>) -> Result<Exec, String> {
    let variable = |variable: Node<'_>| {
        Ok((variable.text("name")?.unwrap_or_default(), variable.text("value")?.unwrap_or_default()))
    };
    Ok(Exec {
        command: node.text("command")?,
        arguments: node.texts("args")?,
        environment: node.list("env", variable)?,
        api_version: node.text("apiVersion")?,
        install_hint: node.text("installHint")?,
        provide_cluster_info: node.switch("provideClusterInfo")?,
        interactive_mode: node.text("interactiveMode")?,
    })
}

fn context(node: Node<'_>) -> Result<Context, String> {
    extensions(node)?;
    Ok(Context { cluster: node.text("cluster")?, user: node.text("user")?, namespace: node.text("namespace")? })
}
