//! What the image holds, as the last stage of the Dockerfile describes it. A test compares both.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::archive::{self, Blob, EPOCH};
use crate::{Binary, ImageName};

/// User and group of the process, as numbers, so that the kubelet can check `runAsNonRoot` without an `/etc/passwd`.
pub const USER: &str = "65532:65532";

/// The path of the binary, which is the image's entrypoint.
pub const ENTRYPOINT: &str = "/hustings";

const LICENSE: &str = include_str!("../../../LICENSE");

/// The labels of the image.
pub fn labels() -> [(&'static str, &'static str); 4] {
    [
        ("org.opencontainers.image.title", "hustings"),
        ("org.opencontainers.image.description", "Coordinated leader election for Kubernetes"),
        ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
        ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
    ]
}

/// The image: a binary under a name.
#[derive(Clone, Debug)]
pub struct Image {
    /// The name with which container runtimes load the archive.
    pub name: ImageName,
    /// The only program of the image.
    pub binary: Binary,
}

impl Image {
    /// Writes the archive and returns the digest of the image's manifest.
    ///
    /// # Errors
    /// Fails if `out` does.
    pub fn write(&self, out: impl Write) -> io::Result<String> {
        let license = Blob::layer("LICENSE", 0o644, LICENSE.as_bytes())?;
        let binary = Blob::layer("hustings", 0o755, self.binary.content())?;
        let layers = [license, binary];
        let config = Blob::json(&self.config(&layers));
        let manifest = Blob::json(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": layers.each_ref().map(|layer| layer.descriptor("application/vnd.oci.image.layer.v1.tar")),
        }));
        let docker = json!([{
            "Config": config.path(),
            "RepoTags": [self.name.to_string()],
            "Layers": layers.each_ref().map(Blob::path),
        }]);

        let digest = manifest.digest();
        let mut files = vec![
            Blob::json(&json!({"imageLayoutVersion": "1.0.0"})).named("oci-layout"),
            Blob::json(&self.index(&manifest)).named("index.json"),
            Blob::json(&docker).named("manifest.json"),
        ];
        files.extend(layers.into_iter().chain([config, manifest]).map(Blob::file));
        archive::write(files, out)?;
        Ok(digest)
    }

    fn config(&self, layers: &[Blob]) -> Value {
        json!({
            "created": EPOCH,
            "architecture": self.binary.architecture(),
            "os": "linux",
            "config": {
                "User": USER,
                "Entrypoint": [ENTRYPOINT],
                "WorkingDir": "/",
                "Labels": labels().into_iter().collect::<BTreeMap<_, _>>(),
            },
            // The layers are not compressed, so their digests are those of their content.
            "rootfs": {"type": "layers", "diff_ids": layers.iter().map(Blob::digest).collect::<Vec<_>>()},
        })
    }

    /// containerd reads the first annotation, other readers of a layout the second.
    fn index(&self, manifest: &Blob) -> Value {
        let mut descriptor = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
        descriptor["annotations"] =
            json!({"io.containerd.image.name": self.name.full(), "org.opencontainers.image.ref.name": self.name.tag()});
        descriptor["platform"] = json!({"architecture": self.binary.architecture(), "os": "linux"});
        json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor]})
    }
}
