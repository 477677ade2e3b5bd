//! Hustings through the real kubectl: `kubectl wait`, `kubectl explain`, the plugin and its completion.

mod completion;
mod explain;
mod plugin;
mod wait;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Output;

use hustings_controlplane::Tool;
use tokio::process::Command;

use crate::acts::Scene;
use crate::replica::hustings;

/// The page whose commands these tests run.
const GUIDE: &str = include_str!("../../docs/guides/kubectl.md");

/// A folder of programs, as in the `PATH` of a user.
struct Programs(PathBuf);

impl Programs {
    /// kubectl, and Hustings under both of its names.
    async fn new(scene: &Scene) -> Self {
        let folder = scene.world.plane.folder().join(format!("{}-programs", scene.world.namespace));
        fs::create_dir(&folder).unwrap();
        symlink(scene.world.plane.tool(Tool::Kubectl).await.unwrap(), folder.join("kubectl")).unwrap();
        for name in ["hustings", "kubectl-hustings"] {
            symlink(hustings().get_program(), folder.join(name)).unwrap();
        }
        Self(folder)
    }

    /// Adds a program.
    fn add(&self, name: &str, script: &[u8]) {
        let path = self.0.join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A program that finds these programs in its `PATH`, and the scene's namespace by default.
    fn command(&self, scene: &Scene, program: &str) -> Command {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(self.0.clone()).chain(std::env::split_paths(&inherited)));
        // An absolute path replaces the folder.
        let mut command = Command::new(self.0.join(program));
        command
            .env("PATH", path.unwrap())
            .env("KUBECONFIG", kubeconfig(scene))
            .env("HOME", scene.world.plane.folder().join("home"))
            .kill_on_drop(true);
        command
    }

    /// Runs kubectl.
    async fn kubectl(&self, scene: &Scene, arguments: &[&str]) -> Output {
        self.command(scene, "kubectl").args(arguments).output().await.unwrap()
    }

    /// Runs a line of the guide in a shell.
    async fn shell(&self, scene: &Scene, line: &str) -> Output {
        self.command(scene, "/bin/sh").args(["-c", line]).output().await.unwrap()
    }
}

/// A kubeconfig of the administrator whose context has the scene's namespace.
fn kubeconfig(scene: &Scene) -> PathBuf {
    let path = scene.world.plane.folder().join(format!("{}-kubeconfig", scene.world.namespace));
    if !path.exists() {
        let text = fs::read_to_string(scene.world.plane.kubeconfig()).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        config["contexts"][0]["context"]["namespace"] = scene.world.namespace.clone().into();
        fs::write(&path, config.to_string()).unwrap();
    }
    path
}

/// The standard output of a program that must succeed.
#[track_caller]
fn succeed(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}
