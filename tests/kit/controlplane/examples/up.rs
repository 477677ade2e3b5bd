//! A control plane to try things on by hand, until Ctrl-C: `cargo run -p hustings-controlplane --example up`. With
//! `-- --audit` it writes an audit log, which makes each request slower.

use hustings_controlplane::{ControlPlane, Tool, Tools};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let audit = std::env::args().any(|argument| argument == "--audit");
    let plane = ControlPlane::builder().audit(audit).start().await?;
    let kubectl = tokio::task::spawn_blocking(|| Tools::from_env().path(Tool::Kubectl)).await??;
    println!("export KUBECONFIG={}", plane.kubeconfig().display());
    println!("export PATH={}:$PATH", kubectl.parent().unwrap_or(&kubectl).display());
    eprintln!("the control plane is up until Ctrl-C; the logs are in {}", plane.folder().display());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
