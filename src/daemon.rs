//! The process around the server: going to the background, the pid file, the port file, systemd's
//! readiness, the exit code. Not here: the server (`server`), the command line (`config`).

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tokio::signal::unix::{SignalKind, signal};

use crate::base::chance::Chance;
use crate::base::clock::Clock;
use crate::base::process;
use crate::config::{Config, Hooks, LogLevel, Startup};
use crate::embed::StartError;
use crate::engine::Door;
use crate::engine::locks::report;
use crate::engine::reconfigure::Outside;
use crate::logging::{self, LogHandle};
use crate::net::Shared;
use crate::nodes::Nodes;
use crate::server::{self, Report};

/// Does what the command line asks for; returns the exit code.
pub fn run(argv: &[OsString]) -> u8 {
    let config = match Config::from_args(argv) {
        Ok(Startup::Run(config)) => *config,
        Ok(Startup::Print(text)) => {
            say(text.trim_end());
            return 0;
        }
        Ok(Startup::Usage(text)) => {
            eprint!("{text}");
            return 1;
        }
        Err(error) => {
            eprintln!("{error}");
            return 1;
        }
    };
    match start(config, argv) {
        Ok(code) => code,
        Err(line) => {
            eprintln!("keylatch: {line}");
            1
        }
    }
}

/// Runs a server as `config` has it, until it is told to stop. `Err`: one line that says why it
/// could not start.
fn start(mut config: Config, argv: &[OsString]) -> Result<u8, String> {
    let executable =
        std::env::current_exe().unwrap_or_else(|_| argv.first().map_or_else(PathBuf::new, PathBuf::from));
    let directory = config.dir.0.clone();
    if !directory.as_os_str().is_empty() {
        std::env::set_current_dir(&directory)
            .map_err(|error| format!("dir {}: {error}", directory.display()))?;
    }
    logging::check_file(&config).map_err(|error| format!("logfile {}: {error}", config.logfile.display()))?;
    report::check(&config.lock_report)?;
    let mut launcher = Launcher::default();
    if config.daemonize {
        match fork().map_err(|error| format!("could not go to the background: {error}"))? {
            Side::Daemon(way_back) => launcher = way_back,
            Side::Parent(code) => return Ok(code),
        }
    }
    ignore_hangup();
    let log = logging::start(&config).map_err(|error| format!("log: {error}"))?;
    tracing::info!(
        "keylatch {} (answers as Redis {}), pid={}, just started",
        env!("CARGO_PKG_VERSION"),
        config.compat_version.text,
        std::process::id()
    );
    let room = process::make_room_for_clients(config.maxclients);
    if room < config.maxclients {
        tracing::warn!(
            "The system allows fewer open files than maxclients {} needs: it is {room} now",
            config.maxclients
        );
        config.maxclients = room;
    }
    let log_is_in_a_file = !config.logfile.as_os_str().is_empty();
    let told = |error: &dyn std::fmt::Display| {
        if log_is_in_a_file {
            tracing::warn!("{error}");
        }
        error.to_string()
    };
    if config.nodes > 1 {
        return start_nodes(&config, &mut launcher).map_err(|error| told(&error));
    }
    let bound = server::bind(&config).map_err(|error| told(&error))?;
    let _pid_file = pid_file(&config);
    let runtime = server::runtime().map_err(|error| format!("could not start the event loop: {error}"))?;
    let announce = Announcement::of(&config, &bound.places(), vec![bound.port]);
    let reached_at = bound.reached_at().map(|addr| addr.to_string());
    let mut core = server::core(config);
    core.identity.port = bound.port;
    core.identity.nodes = reached_at.into_iter().collect();
    core.identity.executable = executable.display().to_string();
    core.identity.config_file =
        core.config.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    crate::base::memory::purge_in_background();
    let serve = server::serve(
        core,
        bound,
        true,
        |_| std::future::pending(),
        |shared| {
            shared.engine.borrow_mut().core().outside = Some(outside(shared, log));
            announce.say(&mut launcher);
        },
    );
    let ended = runtime.block_on(serve);
    ended.map(code).map_err(|error| error.to_string())
}

/// Runs several servers, each on a thread of its own, until a signal comes or all have been shut
/// down.
fn start_nodes(config: &Config, launcher: &mut Launcher) -> Result<u8, StartError> {
    let nodes = Nodes::start(config, |_| (Clock::System, Chance::from_system()))?;
    let _pid_file = pid_file(config);
    crate::base::memory::purge_in_background();
    let places: Vec<String> = nodes.iter().map(|node| node.addr().to_string()).collect();
    let ports = nodes.iter().map(|node| node.addr().port()).collect();
    let runtime = server::runtime().map_err(StartError::System)?;
    let ended = runtime.block_on(async {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Announcement::of(config, &places, ports).say(launcher);
        let all_stopped = async {
            for node in nodes.iter() {
                node.stopped().await;
            }
        };
        tokio::select! {
            _ = term.recv() => tracing::info!("Received SIGTERM scheduling shutdown..."),
            _ = int.recv() => tracing::info!("Received SIGINT scheduling shutdown..."),
            () = all_stopped => {}
        }
        Ok(())
    });
    ended.map_err(StartError::System)?;
    // Every one of them is ended, whatever has become of those before it.
    let reports =
        nodes.into_servers().into_iter().map(|node| node.end().map_or(Report::Lost, |end| end.report));
    Ok(reports.map(code).max().unwrap_or(0))
}

/// What the process exits with: a report that was asked for and is not there is a failure.
fn code(report: Report) -> u8 {
    u8::from(report == Report::Lost)
}

/// The pid file that `config` names; a daemon has one in any case. Without it the server runs all
/// the same, as Redis does.
fn pid_file(config: &Config) -> Option<PidFile> {
    let path = match config.pidfile.as_os_str().is_empty() {
        true if config.daemonize => Path::new("/var/run/keylatch.pid"),
        true => return None,
        false => &config.pidfile,
    };
    PidFile::create(path)
        .inspect_err(|error| tracing::warn!("Could not write the pid file {}: {error}", path.display()))
        .ok()
}

/// Takes changed parameters into effect outside of the core.
fn outside(shared: &Rc<Shared>, log: LogHandle) -> Outside {
    // The core holds this, and `shared` holds the core.
    let shared = Rc::downgrade(shared);
    Box::new(move |core, hook| {
        if hook.has(Hooks::LOG_LEVEL) {
            log.set_level(core.config.loglevel);
        }
        if hook.has(Hooks::DIR) {
            std::env::set_current_dir(&core.config.dir.0).map_err(|error| process::os_reason(&error))?;
        }
        if hook.has(Hooks::LISTEN)
            && let Some(shared) = shared.upgrade()
        {
            core.identity.port =
                server::relisten(&shared, &core.config, core.identity.port).map_err(|error| {
                    tracing::warn!("{error}");
                    "Unable to listen on this port. Check server logs.".to_owned()
                })?;
        }
        Ok(())
    })
}

/// What is told to whom once the server accepts.
struct Announcement {
    /// The addresses in use.
    places: String,
    ports: Vec<u16>,
    port_file: PathBuf,
    /// The log does not reach the standard output, or leaves notices out.
    log_is_elsewhere: bool,
}

impl Announcement {
    fn of(config: &Config, places: &[String], ports: Vec<u16>) -> Announcement {
        Announcement {
            places: places.join(", "),
            ports,
            port_file: config.port_file.clone(),
            log_is_elsewhere: !config.logfile.as_os_str().is_empty() || config.loglevel == LogLevel::Warning,
        }
    }

    fn say(&self, launcher: &mut Launcher) {
        let line = format!("Ready to accept connections on {}", self.places);
        tracing::info!("{line}");
        if self.log_is_elsewhere {
            say(&line);
        }
        if !self.port_file.as_os_str().is_empty()
            && let Err(error) = write_ports(&self.port_file, &self.ports)
        {
            tracing::warn!("Could not write the port file {}: {error}", self.port_file.display());
        }
        if let Err(error) = notify_systemd("READY=1") {
            tracing::warn!("Could not tell systemd that the server is ready: {error}");
        }
        if let Err(error) = launcher.ready() {
            tracing::warn!("Could not let go of the terminal: {error}");
        }
    }
}

/// The way back to whoever started a daemon: told once that the server is ready. Without it, the
/// process runs in the foreground.
#[derive(Debug, Default)]
pub struct Launcher(Option<io::PipeWriter>);

/// Which side of the fork this is.
#[derive(Debug)]
pub enum Side {
    /// The server's.
    Daemon(Launcher),
    /// The one that was started; it exits with this code, once the server is ready or has failed.
    Parent(u8),
}

/// Forks, before there is any thread. The parent waits until the server is ready, so that its exit
/// code tells; Redis's does not.
pub fn fork() -> io::Result<Side> {
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: the process has one thread yet, so the child may go on as usual.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: setsid has no precondition; it cannot fail in a fresh child.
            unsafe { libc::setsid() };
            drop(reader);
            Ok(Side::Daemon(Launcher(Some(writer))))
        }
        _ => {
            drop(writer);
            // The child writes a byte when it is ready; it ends without where it fails.
            let ready = reader.read(&mut [0])? == 1;
            Ok(Side::Parent(u8::from(!ready)))
        }
    }
}

impl Launcher {
    /// Tells that the server is ready, and lets go of the terminal.
    pub fn ready(&mut self) -> io::Result<()> {
        let Some(mut pipe) = self.0.take() else { return Ok(()) };
        let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        for standard in 0..=2 {
            // SAFETY: both descriptors are open; dup2 replaces the standard one in one step.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
        pipe.write_all(b"1")
    }
}

/// SIGHUP must not end a server whose terminal is closed.
pub fn ignore_hangup() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Lends the standard output to one line, whatever the log does.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    // Nobody may be listening any more; the server runs all the same.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A file that is there while the server runs.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes this process's id.
    pub fn create(path: &Path) -> io::Result<PidFile> {
        fs::write(path, format!("{}\n", std::process::id()))?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // It may have been taken away; that is as good.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes `ports`, one a line, to the file at `path` in one step: who finds the file finds all of it.
pub fn write_ports(path: &Path, ports: &[u16]) -> io::Result<()> {
    let text: String = ports.iter().map(|port| format!("{port}\n")).collect();
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    fs::write(temporary, text).and_then(|()| fs::rename(temporary, path)).inspect_err(|_| {
        // Nothing useful can be said if even this fails.
        let _ = fs::remove_file(temporary);
    })
}

/// Tells systemd, if it wants to know: `READY=1`, `STOPPING=1`.
pub fn notify_systemd(state: &str) -> io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
        return Ok(());
    };
    send_datagram(socket.as_encoded_bytes(), state.as_bytes())
}

fn send_datagram(socket: &[u8], bytes: &[u8]) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::SocketAddr;
    // An `@` stands for the NUL of an abstract name.
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(bytes, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_file_is_whole_and_the_pid_file_goes() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let port = dir.path().join("port");
        write_ports(&port, &[6379, 6380]).expect("written");
        assert_eq!(fs::read_to_string(&port).expect("it is there"), "6379\n6380\n");
        let path = dir.path().join("pid");
        let file = PidFile::create(&path).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 1);
        assert!(write_ports(&dir.path().join("none/port"), &[1]).is_err());
    }

    #[test]
    fn systemd_is_told_by_path_and_by_abstract_name() {
        use std::os::linux::net::SocketAddrExt;
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("notify");
        let name = format!("keylatch-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a short name");
        for (socket, listener) in [
            (path.as_os_str().as_encoded_bytes().to_vec(), UnixDatagram::bind(&path)),
            (format!("@{name}").into_bytes(), UnixDatagram::bind_addr(&address)),
        ] {
            let listener = listener.expect("it can be bound");
            send_datagram(&socket, b"READY=1").expect("sent");
            let mut bytes = [0; 16];
            let n = listener.recv(&mut bytes).expect("received");
            assert_eq!(&bytes[..n], b"READY=1");
        }
    }
}
