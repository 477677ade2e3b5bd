//! The image of Hustings as an archive, for clusters whose users have no container runtime at hand.
//!
//! Four commands must load the archive: `kind load image-archive`, `ctr images import`, `podman load` and `docker load`.
//! It is therefore one tar with an OCI image layout and, next to it, the `manifest.json` of a Docker archive. The
//! content must be that of the Dockerfile's last stage, and must depend on the binary and the name only.

mod archive;
mod binary;
mod build;
mod image;
mod name;

pub use binary::{Binary, NotForTheImage};
pub use build::Build;
pub use image::{ENTRYPOINT, Image, USER, labels};
pub use name::{ImageName, InvalidName};
