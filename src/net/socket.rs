//! One non-blocking stream socket, TCP or unix, read and written directly. Not here: readiness
//! (tokio's `AsyncFd`) and what the bytes mean.

use socket2::{Domain, SockAddr, Socket};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A connected socket.
pub struct Stream(Socket);

impl Stream {
    /// Takes an accepted socket.
    pub fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Stream(socket))
    }

    /// Reads what is there; `WouldBlock` when nothing is.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        retry(|| (&self.0).read(into))
    }

    /// Writes what the kernel takes.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| (&self.0).write(bytes))
    }

    /// Writes what the kernel takes of `runs`, one behind the other.
    pub fn write_runs(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        retry(|| (&self.0).write_vectored(runs))
    }

    /// Says that nothing more will be written, then throws away what has come already: closing
    /// over unread input would reset the connection and could lose the last replies.
    pub fn finish(&self) {
        if self.0.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        let mut sink = [0; 4096];
        for _ in 0..256 {
            if !matches!(self.read(&mut sink), Ok(n) if n > 0) {
                return;
            }
        }
    }

    /// The socket itself, to set its options.
    pub fn inner(&self) -> &Socket {
        &self.0
    }

    /// Whether it is a unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.0.domain(), Ok(Domain::UNIX))
    }

    /// The peer's address and ours, as CLIENT LIST shows them.
    pub fn names(&self, unix_path: &str) -> (String, String) {
        if self.is_unix() {
            return (format!("{unix_path}:0"), format!("{unix_path}:0"));
        }
        let name = |addr: io::Result<SockAddr>| {
            addr.ok()
                .and_then(|addr| addr.as_socket())
                .map_or_else(|| "?:0".to_owned(), |addr| addr.to_string())
        };
        (name(self.0.peer_addr()), name(self.0.local_addr()))
    }

    /// Whether the peer is on this machine.
    pub fn is_local(&self) -> bool {
        let peer = self.0.peer_addr().ok().and_then(|addr| addr.as_socket());
        peer.map_or(self.is_unix(), |addr| addr.ip().to_canonical().is_loopback())
    }
}

/// Has the runtime tell of `socket`'s readiness.
pub fn watch<S: Socketlike>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    // SAFETY: a `Socketlike` owns one open socket from its making to its drop and gives that one
    // descriptor each time; neither type hands the socket out or replaces it.
    unsafe { AsyncFd::register_with_interest(socket, interest) }.map_err(Into::into)
}

/// What owns exactly one socket for life. Implemented here and in `listen` only.
pub trait Socketlike: AsRawFd {}

impl Socketlike for Stream {}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
