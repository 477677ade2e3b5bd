//! The control plane that the tests of components share: with the chart, as its README says, and one controller, which
//! elects in every namespace. No test changes either.

use hustings_controlplane::{ControlPlane, Process, Shared};
use tokio::sync::OnceCell;

use crate::replica::install;

/// Starts it for the first test that asks. Each test makes itself a namespace.
pub(crate) async fn installed() -> Shared {
    static INSTALLED: OnceCell<(ControlPlane, Process)> = OnceCell::const_new();
    let (plane, _controller) = INSTALLED
        .get_or_init(async || {
            let plane = ControlPlane::builder().audit(true).start().await.unwrap();
            let controller = install(&plane).await;
            (plane, controller)
        })
        .await;
    Shared::new(plane)
}
