//! Listening sockets: bind, accept, and the limits on who is let in. Not here: what a connection
//! does (`connection`).

use super::Shared;
use super::connection::{Conn, Task};
use super::socket::{Socketlike, Stream, watch};
use crate::engine::Door;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::task::AbortHandle;

/// One listening socket.
pub struct Listener {
    socket: Socket,
    /// The path of a unix socket; empty for TCP.
    pub path: String,
    /// The task that accepts, to end it.
    task: RefCell<Option<AbortHandle>>,
}

/// A share in a listener: it stays open as long as anyone holds it.
struct Handle(Rc<Listener>);

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.socket.as_raw_fd()
    }
}

impl Socketlike for Handle {}

impl Listener {
    /// Listens on `ip:port`; port 0 lets the system choose.
    pub fn tcp(ip: IpAddr, port: u16, backlog: u32) -> io::Result<Self> {
        let addr = SocketAddr::new(ip, port);
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
        if ip.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&addr.into())?;
        socket.listen(backlog.min(i32::MAX as u32) as i32)?;
        socket.set_nonblocking(true)?;
        Ok(Listener { socket, path: String::new(), task: RefCell::default() })
    }

    /// Listens on a unix socket at `path`, over what a former process left there.
    pub fn unix(path: &str, mode: u32, backlog: u32) -> io::Result<Self> {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        let stale = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if stale {
            std::fs::remove_file(path)?;
        }
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        if mode != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        socket.listen(backlog.min(i32::MAX as u32) as i32)?;
        socket.set_nonblocking(true)?;
        Ok(Listener { socket, path: path.to_owned(), task: RefCell::default() })
    }

    /// The port that it has.
    pub fn port(&self) -> u16 {
        self.address().map_or(0, |addr| addr.port())
    }

    /// The TCP address that it has.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok().and_then(|addr| addr.as_socket())
    }

    /// Begins to take clients in.
    pub fn open(self, shared: &Rc<Shared>) {
        let listener = Rc::new(self);
        let task = tokio::task::spawn_local(accept_loop(listener.clone(), shared.clone()));
        *listener.task.borrow_mut() = Some(task.abort_handle());
        shared.listeners.borrow_mut().push(listener);
    }

    /// Takes in nobody any more; the address is free at once, even if someone holds a share.
    pub fn close(&self) {
        if let Some(task) = self.task.borrow_mut().take() {
            task.abort();
        }
        if self.path.is_empty() {
            // It may have no peer to tell, which is what listening sockets are like.
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
        } else {
            // Another may have taken the path's place already.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Where it listens: `ip:port` or a path.
    pub fn place(&self) -> String {
        match self.address() {
            Some(addr) => addr.to_string(),
            None => self.path.clone(),
        }
    }

    /// Takes in everyone who waits, up to a bounded number; tells whether more may wait.
    pub fn accept(&self, shared: &Rc<Shared>, door: &mut dyn Door) -> bool {
        for _ in 0..256 {
            match self.socket.accept() {
                Ok((socket, _)) => {
                    if let Err(error) = admit(socket, &self.path, shared, door) {
                        tracing::debug!(%error, "a connection could not be set up");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Most likely out of descriptors: those who wait are taken in later.
                    tracing::warn!(%error, "Accepting client connection failed");
                    return false;
                }
            }
        }
        true
    }
}

/// Accepts until the server stops.
async fn accept_loop(listener: Rc<Listener>, shared: Rc<Shared>) -> io::Result<()> {
    let fd = watch(Handle(listener.clone()), Interest::READABLE)?;
    loop {
        let mut guard = fd.readable().await?;
        {
            let mut engine = shared.engine.borrow_mut();
            engine.core().begin_turn();
            if !listener.accept(&shared, &mut *engine) {
                guard.clear_ready();
            }
        }
        tokio::task::yield_now().await;
    }
}

const DENIED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface. \
To connect from elsewhere, set a password, or bind to chosen addresses, or start the server with \
'--protected-mode no'.\r\n";

fn admit(socket: Socket, path: &str, shared: &Rc<Shared>, door: &mut dyn Door) -> io::Result<()> {
    let core = door.core();
    let stream = Stream::new(socket)?;
    core.stats.connections_received += 1;
    if core.clients.len() >= core.config.maxclients as usize {
        core.stats.connections_rejected += 1;
        let _ = stream.write(b"-ERR max number of clients reached\r\n");
        return Ok(());
    }
    let local = stream.is_local();
    if core.config.protected_mode && core.config.requirepass.is_empty() && !local {
        core.stats.connections_rejected += 1;
        let _ = stream.write(DENIED);
        return Ok(());
    }
    let (addr, laddr) = stream.names(path);
    let unix = stream.is_unix();
    if !unix {
        stream.tune(core.config.tcp_keepalive)?;
    }
    let fd = watch(stream, Interest::READABLE | Interest::WRITABLE)?;
    let now = core.now();
    let place = core.clients.add(addr, laddr, now);
    let authenticated = core.config.requirepass.is_empty();
    let session = core.clients.get_mut(place);
    (session.local, session.unix, session.fd) = (local, unix, fd.as_raw_fd());
    session.authenticated = authenticated;
    let conn = Rc::new(Conn::new(place, fd));
    let mut conns = shared.conns.borrow_mut();
    if conns.len() <= place {
        conns.resize(place + 1, None);
    }
    conns[place] = Some(conn.clone());
    tokio::task::spawn_local(Task { conn, shared: shared.clone() });
    Ok(())
}

impl Stream {
    /// No delay for small replies, and probes to find dead peers (`keepalive` in seconds, 0: none).
    fn tune(&self, keepalive: u32) -> io::Result<()> {
        let socket = self.inner();
        socket.set_tcp_nodelay(true)?;
        if keepalive > 0 {
            let probes = TcpKeepalive::new()
                .with_time(Duration::from_secs(keepalive.into()))
                .with_interval(Duration::from_secs((keepalive / 3).max(1).into()))
                .with_retries(3);
            socket.set_tcp_keepalive(&probes)?;
        }
        Ok(())
    }
}
