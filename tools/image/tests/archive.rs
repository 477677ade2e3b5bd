//! The archive, as the commands that load it read it.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::{env, fs};

use hustings_image::{Binary, Image, ImageName};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A file of an archive: its mode and its content.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

#[test]
fn both_indexes_lead_to_the_same_layers_and_configuration() {
    let (archive, digest) = archive();
    let files = files(&archive);
    assert_eq!(json(&files, "oci-layout"), json!({"imageLayoutVersion": "1.0.0"}));
    let index = json(&files, "index.json");
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(index["manifests"][0]["digest"], json!(digest));
    let manifest: Value = serde_json::from_slice(blob(&files, &index["manifests"][0])).unwrap();
    let docker = json(&files, "manifest.json");

    assert_eq!(docker[0]["Config"], json!(path(&manifest["config"])));
    let layers: Vec<_> = manifest["layers"].as_array().unwrap().iter().map(|layer| json!(path(layer))).collect();
    assert_eq!(docker[0]["Layers"], json!(layers));
    let config: Value = serde_json::from_slice(blob(&files, &manifest["config"])).unwrap();
    let of_layers: Vec<_> =
        manifest["layers"].as_array().unwrap().iter().map(|layer| layer["digest"].clone()).collect();
    assert_eq!(config["rootfs"]["diff_ids"], json!(of_layers));
}

#[test]
fn every_blob_has_the_digest_and_size_that_refer_to_it() {
    let files = files(&archive().0);
    let blobs: Vec<_> = files.keys().filter_map(|path| path.strip_prefix("blobs/sha256/")).collect();
    assert_eq!(blobs.len(), 4, "two layers, the configuration and the manifest");
    for digest in blobs {
        assert_eq!(hash(&files[&format!("blobs/sha256/{digest}")].1), digest);
    }
    assert_eq!(files.len(), 4 + 3);
}

#[test]
fn layers_hold_the_licence_and_the_binary_and_no_shell() {
    let files = files(&archive().0);
    let manifest: Value = serde_json::from_slice(blob(&files, &json(&files, "index.json")["manifests"][0])).unwrap();
    let layers = manifest["layers"].as_array().unwrap();
    let content: Files = layers.iter().flat_map(|layer| self::files(blob(&files, layer))).collect();
    let licence = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../LICENSE")).unwrap();
    let expected = [("LICENSE".to_owned(), (0o644, licence)), ("hustings".to_owned(), (0o755, static_binary()))];
    assert!(content == BTreeMap::from(expected), "{:?}", content.keys());
}

#[test]
fn container_runs_as_a_user_who_is_not_root() {
    let files = files(&archive().0);
    let config = json(&files, json(&files, "manifest.json")[0]["Config"].as_str().unwrap());
    assert_eq!(config["config"]["User"], json!("65532:65532"));
    assert_eq!(config["config"]["Entrypoint"], json!(["/hustings"]));
    assert_eq!((&config["os"], &config["architecture"]), (&json!("linux"), &json!("amd64")));
    assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], json!(env!("CARGO_PKG_VERSION")));
}

#[test]
fn name_is_the_one_that_the_chart_asks_for() {
    let files = files(&archive().0);
    let name = format!("hustings:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(json(&files, "manifest.json")[0]["RepoTags"], json!([name]));
    let annotations = &json(&files, "index.json")["manifests"][0]["annotations"];
    assert_eq!(annotations["io.containerd.image.name"], json!(format!("docker.io/library/{name}")));
    let chart = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/hustings/values.yaml")).unwrap();
    assert!(chart.contains("\n  registry: \"\"\n  repository: hustings\n"), "{chart}");
}

#[test]
fn same_binary_makes_the_same_archive() {
    let ((one, _), (other, _)) = (archive(), archive());
    assert!(one == other);
    for entry in tar::Archive::new(one.as_slice()).entries().unwrap() {
        let header = entry.unwrap().header().clone();
        assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0, 0, 0));
    }
}

#[test]
fn binary_that_would_not_start_in_the_image_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let text = |path: &Path| Binary::read(path).unwrap_err().to_string();
    assert_eq!(
        text(&script),
        format!("{} is not an ELF executable: pass a Linux binary of hustings", script.display())
    );
    assert!(text(&env::current_exe().unwrap()).contains("is linked to libraries, and the image has none: "));
    assert!(text(&folder.path().join("missing")).starts_with("cannot read the binary "));
}

/// An archive with a binary that does not run, and the digest of its manifest.
fn archive() -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hustings");
    fs::write(&path, static_binary()).unwrap();
    let image = Image { name: ImageName::default(), binary: Binary::read(&path).unwrap() };
    let mut archive = Vec::new();
    let digest = image.write(&mut archive).unwrap();
    (archive, digest)
}

/// The header of an executable for x86-64 that has no segments, and so no loader.
fn static_binary() -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    for half in [2_u16, 62] {
        header.extend(half.to_le_bytes());
    }
    header.extend(1_u32.to_le_bytes());
    header.resize(52, 0);
    for half in [64_u16, 56, 0, 64, 0, 0] {
        header.extend(half.to_le_bytes());
    }
    header
}

fn files(archive: &[u8]) -> Files {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mode = entry.header().mode().unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (path, (mode, content))
    });
    entries.collect()
}

fn json(files: &Files, path: &str) -> Value {
    serde_json::from_slice(&files[path].1).unwrap()
}

/// The path of a blob in the layout.
fn path(descriptor: &Value) -> String {
    format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"))
}

fn blob<'a>(files: &'a Files, descriptor: &Value) -> &'a [u8] {
    let content = &files[&path(descriptor)].1;
    assert_eq!(descriptor["size"], json!(content.len()));
    content
}

fn hash(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}
