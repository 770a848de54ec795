//! Assembly: sockets, engine, cron and signals become one running server. Not here: the command
//! line and the process (`main`, `daemon`), or what any of the parts does.

use crate::base::chance::Chance;
use crate::base::clock::Clock;
use crate::command::table::table;
use crate::config::Config;
use crate::engine::core::Core;
use crate::engine::{Door, Engine};
use crate::net::listen::{Listener, accept_loop};
use crate::net::{Shared, busy};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::signal::unix::{SignalKind, signal};

/// A server that holds its sockets and is ready to run.
pub struct Bound {
    listeners: Vec<Listener>,
    /// The TCP port in use; 0 where there is none.
    pub port: u16,
}

impl Bound {
    /// The addresses in use, `ip:port` or a path.
    pub fn places(&self) -> Vec<String> {
        self.listeners.iter().map(Listener::place).collect()
    }
}

/// Why a server could not take its place.
#[derive(Debug)]
pub struct BindError {
    /// `ip:port` or a path.
    pub place: String,
    pub cause: io::Error,
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "could not listen on {}: {}", self.place, crate::base::process::os_reason(&self.cause))
    }
}

impl std::error::Error for BindError {}

/// Takes the addresses that `config` names. An address that begins with `-` may be missing from
/// the machine. Port 0 lets the system choose one port for all of them.
pub fn bind(config: &Config) -> Result<Bound, BindError> {
    let mut bound = Bound { listeners: Vec::new(), port: config.port };
    for name in &config.bind.0 {
        let (optional, name) = name.strip_prefix('-').map_or((false, name.as_str()), |name| (true, name));
        let port = bound.port;
        let fail = |cause| BindError { place: format!("{name}:{port}"), cause };
        let ip = match name {
            "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            name => name.parse().map_err(|_| fail(io::Error::other("not an IP address")))?,
        };
        match Listener::tcp(ip, port, config.tcp_backlog) {
            Ok(listener) => {
                bound.port = listener.port();
                bound.listeners.push(listener);
            }
            Err(error) if optional && is_missing(&error) => {}
            Err(error) => return Err(fail(error)),
        }
    }
    let path = config.unixsocket.to_string_lossy();
    if !path.is_empty() {
        let listener = Listener::unix(&path, config.unixsocketperm, config.tcp_backlog)
            .map_err(|cause| BindError { place: path.into_owned(), cause })?;
        bound.listeners.push(listener);
    }
    Ok(bound)
}

/// The machine has no such address or protocol.
fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || matches!(
            error.raw_os_error(),
            Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOPROTOOPT)
        )
}

/// The runtime of one server: one thread, one event loop.
pub fn runtime() -> io::Result<LocalRuntime> {
    // The driver is asked for new events when the run queue is empty; a long queue may hold it off
    // for a bounded number of polls.
    Builder::new_current_thread().enable_all().event_interval(256).build_local(LocalOptions::default())
}

/// Runs the server until SHUTDOWN, `until` or, with `signals`, SIGTERM or SIGINT. `ready` is
/// called once it accepts.
pub async fn serve(
    core: Core,
    bound: Bound,
    signals: bool,
    until: impl Future<Output = ()>,
    ready: impl FnOnce(&Rc<Shared>),
) -> io::Result<()> {
    let shared = Shared::new(Engine::new(core));
    shared.engine.borrow_mut().core().breather = Some(busy::breather(&shared));
    let mut accepting = Vec::new();
    for listener in bound.listeners {
        let listener = Rc::new(listener);
        shared.listeners.borrow_mut().push(listener.clone());
        accepting.push(tokio::task::spawn_local(accept_loop(listener, shared.clone())));
    }
    let cron = tokio::task::spawn_local(cron(shared.clone()));
    ready(&shared);
    let stopped = shared.stop.notified();
    if signals {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut hup = signal(SignalKind::hangup())?;
        tokio::pin!(stopped, until);
        loop {
            tokio::select! {
                _ = term.recv() => { tracing::info!("Received SIGTERM scheduling shutdown..."); break }
                _ = int.recv() => { tracing::info!("Received SIGINT scheduling shutdown..."); break }
                _ = hup.recv() => {}
                () = &mut stopped => break,
                () = &mut until => break,
            }
        }
    } else {
        tokio::select! {
            () = stopped => {}
            () = until => {}
        }
    }
    shared.stopping.set(true);
    for task in accepting {
        task.abort();
    }
    cron.abort();
    drain(&shared).await;
    tracing::info!("keylatch is now ready to exit, bye bye...");
    Ok(())
}

/// Gives the clients what they are owed, for a bounded time.
async fn drain(shared: &Rc<Shared>) {
    for listener in shared.listeners.borrow_mut().drain(..) {
        if !listener.path.is_empty() {
            let _ = std::fs::remove_file(&listener.path);
        }
    }
    for _ in 0..100 {
        let owing = {
            let mut engine = shared.engine.borrow_mut();
            engine.core().clients.iter().any(|(_, session)| !session.pending().is_empty())
        };
        if !owing {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The tasks hold the shared state and the state holds the connections: part them.
    shared.conns.borrow_mut().clear();
    shared.engine.borrow_mut().core().breather = None;
}

/// Calls the engine's tick `hz` times a second while there is anything to do, and sleeps without.
async fn cron(shared: Rc<Shared>) {
    loop {
        let pause = {
            let mut engine = shared.engine.borrow_mut();
            let core = engine.core();
            core.next_tick()
        };
        match pause {
            None => {
                shared.cron_sleeps.set(true);
                shared.cron.notified().await;
            }
            Some(pause) => tokio::time::sleep(pause).await,
        }
        loop {
            let more = {
                let mut engine = shared.engine.borrow_mut();
                let more = engine.core().tick();
                shared.after_turn(&mut *engine);
                more
            };
            if !more {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A core as the daemon starts it: the system's clock and chance.
pub fn core(config: Config) -> Core {
    Core::new(config, table(), Clock::System, Chance::from_system())
}
