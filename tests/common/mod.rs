//! What the outside tests share: real servers on loopback that cannot outlive a test, and a client
//! that sees exact bytes. Not here: anything that knows the inside of the server.
#![allow(dead_code)] // each test target uses its own part

pub mod draw;
pub mod resp;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use keylatch::base::clock::Stopwatch;
use tempfile::TempDir;

/// How long a test waits for something that ought to happen at once. Only a failing test waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The binary under test: keylatch, or what `KEYLATCH_TEST_BINARY` names (redis-server, to see
/// that the tests ask for what Redis does).
pub fn binary() -> String {
    std::env::var("KEYLATCH_TEST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_keylatch").to_owned())
}

/// Whether the binary under test is keylatch itself: some tests ask for what is ours alone.
pub fn is_keylatch() -> bool {
    std::env::var_os("KEYLATCH_TEST_BINARY").is_none()
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback has a free port").port()
}

/// `program` with `args` in a directory of its own, dying with the test that started it.
pub fn command(program: &str, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    let log = std::fs::File::create(dir.join("log")).expect("a log can be written");
    let errors = log.try_clone().expect("a log can be shared");
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(log).stderr(errors);
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe and touches no
    // memory. It is needed for a test that is killed: its servers must not stay behind.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command
}

/// A server process that accepts connections; killed when dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    pub dir: TempDir,
}

impl Server {
    /// The binary under test with `args`, ready.
    pub fn start(args: &[&str]) -> Server {
        if is_keylatch() { Server::keylatch(&binary(), args) } else { Server::stock(&binary(), args) }
    }

    /// redis-server with `args`, ready.
    pub fn redis(args: &[&str]) -> Server {
        Server::stock("redis-server", args)
    }

    fn keylatch(program: &str, args: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a directory for the server");
        let port_file = dir.path().join("port");
        let mut all = vec!["--port", "0", "--port-file", "port"];
        all.extend(args);
        let child = command(program, dir.path(), &all).spawn().expect("the server starts");
        let mut server = Server { child, port: 0, dir };
        let port = until("the port file", || {
            server.assert_alive();
            std::fs::read_to_string(&port_file).ok()?.trim().parse().ok()
        });
        server.port = port;
        server.await_accept();
        server
    }

    /// `program`, which takes redis-server's arguments, with `args`, ready.
    pub fn stock(program: &str, args: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a directory for the server");
        let port = free_port();
        let port_text = port.to_string();
        let mut all = vec!["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        all.extend(args);
        let child = command(program, dir.path(), &all).spawn().expect("redis-server is installed");
        let mut server = Server { child, port, dir };
        server.await_accept();
        server
    }

    fn assert_alive(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("the server ended at once: {status}");
        }
    }

    fn await_accept(&mut self) {
        until("the server to accept", || {
            self.assert_alive();
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.port)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        kill(self.pid(), signal);
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// A path in its working directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends `signal` to the process.
pub fn kill(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("a process id fits");
    // SAFETY: kill takes two integers and touches no memory of ours.
    unsafe { libc::kill(pid, signal) };
}

/// Waits for a process to end; kills it and fails when it does not.
pub fn wait(child: &mut Child) -> ExitStatus {
    let watch = Stopwatch::start();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status;
        }
        if watch.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the process did not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asks again and again until there is an answer; fails when there is none in time.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(watch.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A connection that keeps every byte it is sent.
pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
    taken: usize,
}

impl Client {
    pub fn connect(port: u16) -> Client {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = until("a connection", || TcpStream::connect(address).ok());
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a TCP socket");
        Client { stream, input: Vec::new(), taken: 0 }
    }

    /// Sends bytes as they are. A server that has hung up already is no failure here: what it said
    /// before is what counts.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends one request.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.raw(&resp::request(args));
    }

    /// The next frame, byte for byte; `None` at the end of the connection.
    pub fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(n) = resp::frame_len(&self.input[self.taken..]) {
                let frame = self.input[self.taken..self.taken + n].to_vec();
                self.taken += n;
                if self.taken == self.input.len() {
                    self.input.clear();
                    self.taken = 0;
                }
                return Some(frame);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Whether a whole frame has come; waits a few milliseconds for one.
    pub fn has_frame(&mut self) -> bool {
        if resp::frame_len(&self.input[self.taken..]).is_some() {
            return true;
        }
        self.stream.set_read_timeout(Some(Duration::from_millis(3))).expect("a TCP socket");
        self.fill();
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
        resp::frame_len(&self.input[self.taken..]).is_some()
    }

    /// Reads once; false at the end of the connection or when nothing came in time.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 65536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(n) => {
                    self.input.extend_from_slice(&chunk[..n]);
                    return true;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// One request, one reply, as text with its type byte and without the last CR LF.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> String {
        self.send(args);
        match self.frame() {
            Some(frame) => {
                String::from_utf8_lossy(frame.strip_suffix(b"\r\n").unwrap_or(&frame)).into_owned()
            }
            None => "(connection closed)".to_owned(),
        }
    }

    /// One request typed as words.
    pub fn say(&mut self, words: &str) -> String {
        self.call(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// One request, the reply as a value.
    pub fn value<A: AsRef<[u8]>>(&mut self, args: &[A]) -> resp::Value {
        self.send(args);
        let frame = self.frame().expect("the server answers");
        resp::Value::parse(&frame).expect("a whole frame").0
    }

    /// Everything up to the end of the connection, and whether the end came (rather than silence).
    pub fn rest(&mut self, silence: Duration) -> (Vec<u8>, bool) {
        self.stream.set_read_timeout(Some(silence)).expect("a TCP socket");
        let mut all = self.input.split_off(self.taken);
        self.input.clear();
        self.taken = 0;
        let mut chunk = [0; 65536];
        let closed = loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => break true,
                Ok(n) => all.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
        (all, closed)
    }

    /// Whether the server closes within `silence`, whatever it says before.
    pub fn until_closed_or(&mut self, silence: Duration) -> bool {
        self.rest(silence).1
    }

    /// All that comes before the server closes; fails when it does not close.
    pub fn until_closed(&mut self) -> Vec<u8> {
        let (bytes, closed) = self.rest(PATIENCE);
        assert!(closed, "the connection was not closed; it said {:?}", String::from_utf8_lossy(&bytes));
        bytes
    }
}

/// What stock `redis-cli --no-raw` prints for the lines on its standard input.
pub fn redis_cli(port: u16, lines: &str) -> String {
    let mut child = Command::new("redis-cli")
        .args(["-p", &port.to_string(), "--no-raw"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("redis-cli is installed");
    let mut input = child.stdin.take().expect("a pipe was asked for");
    input.write_all(lines.as_bytes()).expect("redis-cli reads");
    drop(input);
    let output = child.wait_with_output().expect("redis-cli ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
