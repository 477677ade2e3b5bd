//! `hustings status` on a terminal.

use std::process::Command;

use super::said;
use crate::controller::support::World;
use crate::replica::{Replica, campaign, hustings};

const TERMINAL: &str = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_gets_colors_unless_the_user_wants_none() {
    let world = World::new("status-colors").await;
    let kubeconfig = world.plane.kubeconfig();
    let command = campaign(&kubeconfig, &world.namespace, "work", "one", &["--direct"]);
    let one = Replica::start(&world.plane, &world.namespace, "one", command);
    one.says("leading", 0).await;
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL]).arg(hustings().get_program());
        command.args(["status", "--namespace", &world.namespace, "--kubeconfig"]).arg(&kubeconfig);
        // Each of these overrides what the terminal says of itself.
        for name in ["CI", "CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color").envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let colored = on_terminal(&[]);
    assert!(colored.contains("held") && colored.contains('\u{1b}'), "{colored:?}");
    assert!(!on_terminal(&[("NO_COLOR", "1")]).contains('\u{1b}'));
    assert!(!on_terminal(&[("TERM", "dumb")]).contains('\u{1b}'));
}
