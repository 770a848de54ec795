//! The process around the server: going to the background, the pid file, the port file, systemd's
//! readiness, the exit code. Not here: the server (`server`), the command line (`config`).

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

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

/// Writes `port` to the file at `path` in one step: who finds the file finds the whole number.
pub fn write_port(path: &Path, port: u16) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    fs::write(temporary, format!("{port}\n")).and_then(|()| fs::rename(temporary, path)).inspect_err(|_| {
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
        write_port(&port, 6379).expect("written");
        assert_eq!(fs::read_to_string(&port).expect("it is there"), "6379\n");
        let path = dir.path().join("pid");
        let file = PidFile::create(&path).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 1);
        assert!(write_port(&dir.path().join("none/port"), 1).is_err());
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
