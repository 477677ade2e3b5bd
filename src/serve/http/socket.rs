//! A Unix socket to listen on, for clients of the same machine.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::Context as _;
use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};

use crate::base::hint::Hinted;

/// How long to wait until a process that may listen on a socket accepts a connection.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// The permissions to remove from a new socket: only its owner and its group may connect.
const UMASK: Mode = Mode::from_raw_mode(0o117);

/// The file of a listening socket. Dropping this value removes it.
pub struct Socket {
    path: PathBuf,
    file: FileId,
}

/// The device and the inode number of a file, and when its status changed. A later file may get the same number.
type FileId = (u64, u64, i64, i64);

impl Socket {
    /// Starts to listen on `path`, and replaces a socket that an ended process has left there. `flag` names the flag in
    /// the hint of an error.
    ///
    /// # Errors
    /// Fails if another process listens on `path`, if `path` is another kind of file, or if its directory is missing or
    /// not writable.
    pub async fn listen(path: &Path, flag: &str) -> anyhow::Result<(UnixListener, Self)> {
        let failed = || Hinted::new(format!("cannot listen on {}", path.display()), format!("choose another --{flag}"));
        remove_stale(path).await.and_then(|()| bind(path)).with_context(failed)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A later process may have put its own socket there.
        if file_id(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind(path: &Path) -> io::Result<(UnixListener, Socket)> {
    // The mask applies to the whole process. Another file that is created in the meantime only gets fewer permissions.
    let former = rustix::process::umask(UMASK);
    let bound = UnixListener::bind(path);
    rustix::process::umask(former);
    Ok((bound?, Socket { path: path.to_owned(), file: file_id(path)? }))
}

fn file_id(path: &Path) -> io::Result<FileId> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
}

/// Removes `path` if it is a socket on which no process listens.
async fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this file exists and is not a socket"));
        }
        Ok(_) => {}
    }
    match tokio::time::timeout(PROBE_LIMIT, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        // Any other result, such as a full queue or a timeout, means that a process listens.
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on this socket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (listener, socket) = Socket::listen(&path, "socket").await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);

        let error = format!("{:?}", Socket::listen(&path, "socket").await.err().unwrap());
        assert!(error.contains("another process listens on this socket"), "{error}");
        // A process that no longer listens, and has not removed its socket.
        drop(listener);
        // A process that another test is starting holds a copy of each descriptor until it runs its program.
        let again = async || Socket::listen(&path, "socket").await;
        let (_listener, next) = hustings_controlplane::eventually(again).await.unwrap();
        drop(socket);
        assert!(path.exists(), "it belongs to the next process");
        drop(next);
        assert!(!path.exists());

        fs::write(&path, "precious").unwrap();
        let error = format!("{:?}", Socket::listen(&path, "socket").await.err().unwrap());
        assert!(error.contains("this file exists and is not a socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");

        let missing = folder.path().join("missing/socket");
        let error = format!("{:?}", Socket::listen(&missing, "socket").await.err().unwrap());
        assert!(error.contains("No such file or directory"), "{error}");
    }
}
