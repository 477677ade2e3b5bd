//! The controllers' page, for `--page`.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use crate::show::Show;
use crate::stage::Stage;

/// How long the page stays after the last scene.
const STAYS: Duration = Duration::from_hours(1);

/// Prints the address of a controller's page, and opens it where there is a display.
pub(crate) async fn open(show: &Show, stage: &Stage, controller: &str) -> Result<()> {
    let url = stage.page(controller).await?;
    show.event("page", &url);
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_display {
        let mut command = Command::new("xdg-open");
        command.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // If this fails, the address is still on the screen. The demo does not wait for the browser.
        drop(command.spawn());
    }
    Ok(())
}

/// Keeps everything running for the page until Ctrl-C, which ends the demo.
pub(crate) async fn stay(show: &Show) {
    show.event("page", "stays until Ctrl-C, for an hour at most");
    tokio::time::sleep(STAYS).await;
}
