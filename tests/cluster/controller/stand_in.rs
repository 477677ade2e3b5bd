//! A shared control plane in which the feature gate is on, and Hustings elects native candidates in place of
//! kube-apiserver. One controller elects in every namespace. No test changes either.

use hustings_controlplane::{ControlPlane, NativeElection, Shared};
use tokio::sync::OnceCell;

use super::support::{Controller, World, install_crd};

/// A new namespace there, and the controller. Starts both for the first test that asks.
pub(crate) async fn standing_in(name: &str) -> (World, &'static Controller) {
    static STANDING_IN: OnceCell<(ControlPlane, Controller)> = OnceCell::const_new();
    let (plane, controller) = STANDING_IN.get_or_init(start).await;
    let namespace = plane.create_namespace(name).await.unwrap();
    (World { plane: Shared::new(plane), client: plane.admin(), namespace }, controller)
}

async fn start() -> (ControlPlane, Controller) {
    let plane = ControlPlane::builder().native_election(NativeElection::On).start().await.unwrap();
    install_crd(&plane.admin()).await;
    let flags = ["--namespace=default", "--native", "--native-stand-in"];
    let controller = Controller::start(&plane, &plane.kubeconfig(), &flags).await;
    controller.reports("this controller elects native candidates").await;
    (plane, controller)
}
