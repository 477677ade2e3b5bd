//! The gate at which a command waits for its start.
//!
//! The rule that must hold: the guardian knows the command before the command's first instruction. So the [`wrapped`]
//! process, which becomes the command, first connects to a socket of the wrapper. It waits there until the wrapper has
//! informed the guardian and lets it go. If the wrapper dies before that, the connection ends and no command starts. If
//! the wrapper freezes, the guardian kills the waiting process when the term is over.
//!
//! The socket is abstract and lives for one start. Its random name proves nothing, since `/proc/net/unix` shows it, so the
//! wrapper lets only its own child go.
//!
//! [`wrapped`]: super::wrapped

use std::io::{self, Read as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};

use rustix::process::Pid;
use tokio::net::{UnixListener, UnixStream};

/// The byte that lets the command go.
const GO: &[u8] = b"\n";

/// The wrapper's end of the gate for one start.
pub(super) struct StartGate {
    name: String,
    listener: UnixListener,
}

/// A process that waits at the gate. Dropping this value ends it.
pub(super) struct WaitingCommand(UnixStream);

impl StartGate {
    /// Creates the gate.
    ///
    /// # Errors
    /// Fails if the socket cannot be created.
    pub(super) fn new() -> io::Result<Self> {
        let name = format!("hustings-start/{:032x}", rand::random::<u128>());
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { name, listener: UnixListener::from_std(listener)? })
    }

    /// The name by which the child finds the gate.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the process `child` waits at the gate. This function is cancel safe.
    ///
    /// # Errors
    /// Fails if no connection can be accepted.
    pub(super) async fn arrived(&self, child: Pid) -> io::Result<WaitingCommand> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred()?.pid() == Some(child.as_raw_nonzero().get()) {
                return Ok(WaitingCommand(stream));
            }
        }
    }
}

impl WaitingCommand {
    /// Lets the process become the command.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub(super) fn let_go(self) -> io::Result<()> {
        // This does not block: a new connection has room for a byte.
        self.0.try_write(GO).map(drop)
    }
}

/// Waits at the gate of this name. Returns false if this process must not become the command.
pub(super) fn wait_for_go(gate: &str) -> io::Result<bool> {
    let mut stream = StdStream::connect_addr(&SocketAddr::from_abstract_name(gate)?)?;
    let mut byte = [0];
    Ok(stream.read(&mut byte)? > 0)
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[tokio::test]
    async fn only_the_own_child_is_let_go_and_it_ends_if_the_wrapper_does_not_let_it() {
        for is_let_go in [true, false] {
            let gate = StartGate::new().unwrap();
            let name = gate.name().to_owned();
            let mut waiting = tokio::task::spawn_blocking(move || wait_for_go(&name));
            tokio::select! {
                _ = gate.arrived(Pid::INIT) => panic!("this process is no child of process 1's"),
                is_let_go = &mut waiting => assert!(!is_let_go.unwrap().unwrap(), "a stranger is turned away"),
            }
            let name = gate.name().to_owned();
            let waiting = tokio::task::spawn_blocking(move || wait_for_go(&name));
            let arrived = gate.arrived(getpid()).await.unwrap();
            if is_let_go {
                arrived.let_go().unwrap();
            } else {
                drop(arrived);
            }
            assert_eq!(waiting.await.unwrap().unwrap(), is_let_go);
            let name = gate.name().to_owned();
            drop(gate);
            assert!(wait_for_go(&name).is_err(), "the gate lives for one start");
        }
    }
}
