//! Tar archives with the same bytes for the same files, and the blobs of an OCI layout.
//!
//! Times, owners and the order of files must not depend on the machine or the moment.

use std::io::{self, Write};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// The time of everything in the image, as RFC 3339 has it.
pub(crate) const EPOCH: &str = "1970-01-01T00:00:00Z";

/// A file of an archive, owned by root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
}

/// Writes files in the order of their paths, dated [`EPOCH`].
pub(crate) fn write(mut files: Vec<File>, out: impl Write) -> io::Result<()> {
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mut tar = Builder::new(out);
    for File { path, mode, content } in &files {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(*mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content.as_slice())?;
    }
    tar.into_inner()?.flush()
}

/// A blob of an OCI layout, which is known by the digest of its content.
pub(crate) struct Blob(Vec<u8>);

impl Blob {
    /// A JSON document. `serde_json` sorts its fields.
    pub(crate) fn json(document: &Value) -> Self {
        Self(document.to_string().into_bytes())
    }

    /// A layer that adds one file.
    pub(crate) fn layer(path: &str, mode: u32, content: &[u8]) -> io::Result<Self> {
        let mut layer = Vec::new();
        write(vec![File { path: path.to_owned(), mode, content: content.to_owned() }], &mut layer)?;
        Ok(Self(layer))
    }

    pub(crate) fn digest(&self) -> String {
        format!("sha256:{}", self.hash())
    }

    /// Its path in the layout.
    pub(crate) fn path(&self) -> String {
        format!("blobs/sha256/{}", self.hash())
    }

    /// The descriptor that refers to the blob.
    pub(crate) fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest(), "size": self.0.len()})
    }

    /// The blob as a file of the archive.
    pub(crate) fn file(self) -> File {
        let path = self.path();
        self.named(&path)
    }

    /// The content under a path of its own.
    pub(crate) fn named(self, path: &str) -> File {
        File { path: path.to_owned(), mode: 0o644, content: self.0 }
    }

    fn hash(&self) -> String {
        hex::encode(Sha256::digest(&self.0))
    }
}
