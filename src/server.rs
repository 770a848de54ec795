//! Assembly: sockets, engine, cron and signals become one running server. Not here: the command
//! line and the process (`main`, `daemon`), or what any of the parts does.

use crate::base::chance::Chance;
use crate::base::clock::Clock;
use crate::command::table::table;
use crate::config::Config;
use crate::engine::core::Core;
use crate::engine::{Door, Engine};
use crate::net::listen::Listener;
use crate::net::{Shared, busy};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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
    /// Where a client of this machine reaches it; `None`: there is no TCP address. A socket that
    /// listens at every address is reached by the loopback interface.
    pub fn reached_at(&self) -> Option<SocketAddr> {
        let first = self.listeners.iter().find_map(Listener::address)?;
        let ip = match first.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Some(SocketAddr::new(ip, first.port()))
    }

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
    let mut bound = bind_tcp(config, config.port, &[])?;
    let path = config.unixsocket.to_string_lossy();
    if !path.is_empty() {
        let listener = Listener::unix(&path, config.unixsocketperm, config.tcp_backlog)
            .map_err(|cause| BindError { place: path.into_owned(), cause })?;
        bound.listeners.push(listener);
    }
    Ok(bound)
}

/// The TCP part of that, without those `held` already.
fn bind_tcp(config: &Config, port: u16, held: &[SocketAddr]) -> Result<Bound, BindError> {
    let mut bound = Bound { listeners: Vec::new(), port };
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
        if held.contains(&SocketAddr::new(ip, port)) {
            continue;
        }
        match Listener::tcp(ip, port, config.tcp_backlog) {
            Ok(listener) => {
                bound.port = listener.port();
                bound.listeners.push(listener);
            }
            Err(error) if optional && is_missing(&error) => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(bound)
}

/// Listens where the parameters of now say, instead of where it did; connections stay. Where that
/// fails, it goes on listening where it did. Returns the port in use.
pub fn relisten(shared: &Rc<Shared>, config: &Config, current_port: u16) -> Result<u16, BindError> {
    let old: Vec<Rc<Listener>> =
        shared.listeners.borrow().iter().filter(|listener| listener.path.is_empty()).cloned().collect();
    let addresses =
        |listeners: &[Rc<Listener>]| listeners.iter().filter_map(|l| l.address()).collect::<Vec<_>>();
    // Let the system choose: it has.
    let port = if config.port == 0 { current_port } else { config.port };
    // Those that stay are those at an address that is wanted again.
    let wanted = |address: &SocketAddr| {
        address.port() == port
            && config.bind.0.iter().any(|name| match name.trim_start_matches('-') {
                "*" => address.ip() == Ipv4Addr::UNSPECIFIED,
                "::*" => address.ip() == Ipv6Addr::UNSPECIFIED,
                "localhost" => address.ip() == Ipv4Addr::LOCALHOST,
                name => name.parse() == Ok(address.ip()),
            })
    };
    let (stay, go): (Vec<_>, Vec<_>) = old.into_iter().partition(|l| l.address().is_some_and(|a| wanted(&a)));
    let bound = match bind_tcp(config, port, &addresses(&stay)) {
        Err(error) if error.cause.kind() == io::ErrorKind::AddrInUse && !go.is_empty() => {
            // One of ours may be in the way: `*` keeps `127.0.0.1` from its port.
            let places = addresses(&go);
            go.iter().for_each(|listener| listener.close());
            bind_tcp(config, port, &addresses(&stay)).inspect_err(|_| {
                for place in places {
                    match Listener::tcp(place.ip(), place.port(), config.tcp_backlog) {
                        Ok(listener) => listener.open(shared),
                        Err(error) => tracing::warn!("{place} is lost: {error}"),
                    }
                }
                shared.listeners.borrow_mut().retain(|kept| !go.iter().any(|gone| Rc::ptr_eq(kept, gone)));
            })
        }
        bound => bound,
    }?;
    go.iter().for_each(|listener| listener.close());
    shared.listeners.borrow_mut().retain(|kept| !go.iter().any(|gone| Rc::ptr_eq(kept, gone)));
    let port = bound.port;
    for listener in bound.listeners {
        listener.open(shared);
    }
    Ok(port)
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
    Builder::new_current_thread().enable_all().event_interval(64).build_local(LocalOptions::default())
}

/// What became of the lock report at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It was written, or none was asked for.
    Settled,
    /// It could not be written, and that has been said.
    Lost,
}

/// Runs the server until SHUTDOWN, `until` or, with `signals`, SIGTERM or SIGINT. `ready` is
/// called once it accepts.
pub async fn serve<F: Future<Output = ()>>(
    core: Core,
    bound: Bound,
    signals: bool,
    until: impl FnOnce(Rc<Shared>) -> F,
    ready: impl FnOnce(&Rc<Shared>),
) -> io::Result<Report> {
    let shared = Shared::new(Engine::new(core));
    shared.engine.borrow_mut().core().breather = Some(busy::breather(&shared));
    for listener in bound.listeners {
        listener.open(&shared);
    }
    let cron = tokio::task::spawn_local(cron(shared.clone()));
    let until = until(shared.clone());
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
    for listener in shared.listeners.borrow_mut().drain(..) {
        listener.close();
    }
    cron.abort();
    drain(&shared).await;
    let report = write_lock_report(&shared);
    tracing::info!("keylatch is now ready to exit, bye bye...");
    Ok(report)
}

/// lock-report: the page of the locks, at the end.
fn write_lock_report(shared: &Rc<Shared>) -> Report {
    let mut engine = shared.engine.borrow_mut();
    let core = engine.core();
    let path = core.config.lock_report.clone();
    if path.as_os_str().is_empty() {
        return Report::Settled;
    }
    core.begin_turn();
    let Err(error) = core.write_lock_page(&path) else { return Report::Settled };
    let reason = format!("Could not write the lock report {}: {error}", path.display());
    tracing::warn!("{reason}");
    // An embedded server has no log.
    eprintln!("keylatch: {reason}");
    Report::Lost
}

/// Gives the clients what they are owed, for a bounded time.
async fn drain(shared: &Rc<Shared>) {
    for _ in 0..100 {
        let owing = {
            let mut engine = shared.engine.borrow_mut();
            engine.core().clients.iter().any(|(_, session)| !session.outbox.is_empty())
        };
        if !owing {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The tasks hold the shared state and the state holds the connections: part them.
    shared.conns.borrow_mut().clear();
    shared.engine.borrow_mut().core().breather = None;
    shared.engine.borrow_mut().core().outside = None;
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
            Some(pause) => tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shared.cron.notified() => {}
            },
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
