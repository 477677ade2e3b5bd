//! The binary of the image: a static ELF executable for Linux.
//!
//! The image holds nothing else. A binary that needs a library would fail only on the node, with a misleading message of
//! the kernel: "no such file or directory".

use std::path::{Path, PathBuf};
use std::{fs, io};

use elf::ElfBytes;
use elf::abi::{EM_AARCH64, EM_X86_64, PT_INTERP};
use elf::endian::AnyEndian;

use crate::Build;

/// A static executable and the architecture for which it was built.
#[derive(Clone, Debug)]
pub struct Binary {
    content: Vec<u8>,
    architecture: &'static str,
}

/// A file that cannot be the binary of the image.
#[derive(Debug, thiserror::Error)]
pub enum NotForTheImage {
    /// The file cannot be read.
    #[error("cannot read the binary {0}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is something else, such as a script or a binary of another system.
    #[error("{0} is not an ELF executable: pass a Linux binary of hustings")]
    NoElf(PathBuf, #[source] elf::ParseError),
    /// The binary needs a loader and libraries.
    #[error("{0} is linked to libraries, and the image has none: build it with RUSTFLAGS=\"{flags}\"",
        flags = Build::RUSTFLAGS)]
    Dynamic(PathBuf),
    /// The binary is for a machine that this program has no name for.
    #[error("{0} is for ELF machine {1}: pass a binary for x86-64 (62) or AArch64 (183)")]
    UnknownMachine(PathBuf, u16),
}

impl Binary {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Fails if the file is not a static executable for Linux on a known architecture.
    pub fn read(path: &Path) -> Result<Self, NotForTheImage> {
        let content = fs::read(path).map_err(|error| NotForTheImage::Unreadable(path.to_owned(), error))?;
        let no_elf = |error| NotForTheImage::NoElf(path.to_owned(), error);
        let file = ElfBytes::<AnyEndian>::minimal_parse(&content).map_err(no_elf)?;
        if file.segments().is_some_and(|all| all.iter().any(|segment| segment.p_type == PT_INTERP)) {
            return Err(NotForTheImage::Dynamic(path.to_owned()));
        }
        let architecture = match file.ehdr.e_machine {
            EM_X86_64 => "amd64",
            EM_AARCH64 => "arm64",
            other => return Err(NotForTheImage::UnknownMachine(path.to_owned(), other)),
        };
        Ok(Self { content, architecture })
    }

    /// The architecture in the words of OCI, such as `amd64`.
    pub fn architecture(&self) -> &'static str {
        self.architecture
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }
}
