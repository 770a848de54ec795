//! The process from outside: how it starts, refuses to start, says that it is ready, goes to the
//! background and ends; and CONFIG and DEBUG where they reach beyond the core. Not here: the
//! protocol, the commands on keys.

mod common;

use common::{Server, command, is_keylatch, kill, until, wait};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the binary to its end; gives exit code, standard output, standard error.
fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let child = command(&common::binary(), dir, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = child.and_then(|child| child.wait_with_output()).expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn a_bad_configuration_stops_the_start_with_one_line() {
    if !is_keylatch() {
        return;
    }
    let dir = directory();
    std::fs::write(dir.path().join("a.conf"), "port 0\n# fine\nhz fast\n").expect("written");
    let (code, out, err) = run(dir.path(), &["a.conf"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(
        err.contains("a.conf, line 3, directive 'hz fast': argument couldn't be parsed into an integer"),
        "{err}"
    );
    for (args, part) in [
        (vec!["--port", "0", "--nonsense", "1"], "directive '--nonsense 1': Bad directive"),
        (vec!["--port", "0", "--appendonly", "yes"], "memory only"),
        (vec!["--port", "0", "--save", "900", "1"], "memory only"),
        (vec!["--port", "0", "--maxmemory-policy", "allkeys-lru"], "evicts nothing"),
        (vec!["/nonexistent/a.conf"], "can't open config file: No such file or directory"),
        (vec!["--port", "0", "--logfile", "none/log"], "logfile none/log"),
    ] {
        let (code, _, err) = run(dir.path(), &args);
        assert_eq!(code, 1, "{args:?}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn a_port_in_use_is_one_clear_line() {
    if !is_keylatch() {
        return;
    }
    let dir = directory();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    for more in [vec![], vec!["--daemonize", "yes", "--pidfile", "pid"]] {
        let mut args = vec!["--bind", "127.0.0.1", "--port", &port];
        args.extend(more);
        let (code, _, err) = run(dir.path(), &args);
        assert_eq!(
            (code, err),
            (1, format!("keylatch: could not listen on 127.0.0.1:{port}: Address already in use\n"))
        );
    }
    assert!(!dir.path().join("pid").exists());
}

#[test]
fn it_tells_its_version_and_its_usage() {
    if !is_keylatch() {
        return;
    }
    let dir = directory();
    let (code, out, _) = run(dir.path(), &["--version"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    assert!(out.contains("v=7.2.4"), "{out}");
    let (code, _, err) = run(dir.path(), &["-h"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("Usage: "), "{err}");
}

#[test]
fn it_says_where_it_listens_and_ends_by_a_signal() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut server = Server::start(&["--bind", "127.0.0.1"]);
        let mut client = server.client();
        server.signal(libc::SIGHUP);
        assert_eq!(client.say("PING"), "+PONG");
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        let log = std::fs::read_to_string(server.path("log")).expect("the standard output is kept");
        assert!(log.contains("Ready to accept connections"), "{log}");
        if is_keylatch() {
            assert!(
                log.contains(&format!("Ready to accept connections on 127.0.0.1:{}\n", server.port)),
                "{log}"
            );
        }
        assert!(!log.contains("panicked"), "{log}");
    }
}

#[test]
fn the_log_goes_to_its_file_at_its_level_as_json() {
    if !is_keylatch() {
        return;
    }
    let args = ["--logfile", "own.log", "--log-format", "json", "--enable-debug-command", "yes"];
    let server = Server::start(&args);
    let mut client = server.client();
    assert_eq!(client.say("DEBUG LOG first"), "+OK");
    assert_eq!(client.say("CONFIG SET loglevel warning"), "+OK");
    // Whoever rotates the log moves it away.
    let own = server.path("own.log");
    std::fs::rename(&own, server.path("old.log")).expect("it is there");
    assert_eq!(client.call(&["DEBUG", "LOG", "a \"b\""]), "+OK");
    let text = std::fs::read_to_string(&own).expect("it is there again");
    assert!(text.ends_with(",\"level\":\"warning\",\"message\":\"DEBUG LOG: a \\\"b\\\"\"}\n"), "{text}");
    let old = std::fs::read_to_string(server.path("old.log")).expect("it is there");
    assert!(old.contains("DEBUG LOG: first") && old.contains("\"level\":\"notice\""), "{old}");
    let out = std::fs::read_to_string(server.path("log")).expect("the standard output is kept");
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(out.starts_with("Ready to accept connections on "), "{out}");
}

#[test]
fn a_daemon_is_ready_when_its_parent_ends() {
    if !is_keylatch() {
        return;
    }
    let dir = directory();
    let notify = UnixDatagram::bind(dir.path().join("notify")).expect("it can be bound");
    let args = [
        "--bind",
        "127.0.0.1",
        "--port",
        "0",
        "--daemonize",
        "yes",
        "--pidfile",
        "pid",
        "--port-file",
        "port",
        "--logfile",
        "own.log",
    ];
    let mut parent = command(&common::binary(), dir.path(), &args)
        .env("NOTIFY_SOCKET", dir.path().join("notify"))
        .spawn()
        .expect("the binary runs");
    assert_eq!(wait(&mut parent).code(), Some(0));
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("it has been written");
    let pid: u32 = read("pid").trim().parse().expect("a process id");
    let port: u16 = read("port").trim().parse().expect("a port");
    assert_ne!(pid, parent.id());
    let mut bytes = [0; 64];
    let n = notify.recv(&mut bytes).expect("systemd is told");
    assert_eq!(&bytes[..n], b"READY=1");
    assert_eq!(common::Client::connect(port).say("PING"), "+PONG");
    kill(pid, libc::SIGTERM);
    until("the pid file to go", || (!dir.path().join("pid").exists()).then_some(()));
}

#[test]
fn config_rewrite_writes_what_was_set() {
    let dir = directory();
    let file = dir.path().join("a.conf");
    std::fs::write(&file, "# mine\nhz 15\n\ntimeout 5\n").expect("written");
    let server = Server::start(&[]);
    assert_eq!(server.client().say("CONFIG REWRITE"), "-ERR The server is running without a config file");
    if !is_keylatch() {
        return;
    }
    let path = file.to_str().expect("a plain path");
    // The file comes first on the command line, so the port is in it.
    std::fs::write(&file, "# mine\nport 0\nport-file port\nbind 127.0.0.1\nhz 15\n\ntimeout 5\n")
        .expect("written");
    let mut child = command(&common::binary(), dir.path(), &[path]).spawn().expect("the binary runs");
    let port =
        until("the port file", || std::fs::read_to_string(dir.path().join("port")).ok()?.trim().parse().ok());
    let mut client = common::Client::connect(port);
    assert_eq!(client.say("CONFIG SET timeout 0 maxmemory 1mb"), "+OK");
    assert_eq!(client.say("CONFIG REWRITE"), "+OK");
    assert_eq!(
        std::fs::read_to_string(&file).expect("it is there"),
        "# mine\nport 0\nport-file \"port\"\nbind 127.0.0.1\nhz 15\n\ntimeout 0\n\n\
         # Generated by CONFIG REWRITE\nmaxmemory 1mb\n"
    );
    assert!(client.say("INFO server").contains(&format!("config_file:{path}\r\n")));
    client.send(&["SHUTDOWN"]);
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn several_nodes_in_one_process() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = ["--port", "0", "--nodes", "3", "--port-file", "ports", "--pidfile", "pid"];
    let mut child = command(&common::binary(), dir.path(), &args).spawn().expect("the binary runs");
    let ports: Vec<u16> = until("the port file", || {
        let text = std::fs::read_to_string(dir.path().join("ports")).ok()?;
        Some(text.lines().map(|line| line.parse().expect("a port")).collect())
    });
    let mut clients: Vec<_> = ports.iter().map(|&port| common::Client::connect(port)).collect();
    assert_eq!(clients.len(), 3);
    assert_eq!(clients[1].say("SET k here"), "+OK");
    let addresses: String = ports.iter().map(|port| format!("\r\n$15\r\n127.0.0.1:{port}")).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.say("EXISTS k"), format!(":{}", u8::from(i == 1)));
        let told = client.say("KEYLATCH NODES");
        assert_eq!(told, format!("*3{addresses}"));
        assert!(client.say("INFO server").contains(&format!("tcp_port:{}\r\n", ports[i])));
    }
    // One goes down for good, the others stay.
    clients[0].send(&["SHUTDOWN"]);
    until("its end", || std::net::TcpStream::connect(("127.0.0.1", ports[0])).is_err().then_some(()));
    assert_eq!(clients[2].say("PING"), "+PONG");
    common::kill(child.id(), libc::SIGTERM);
    assert_eq!(wait(&mut child).code(), Some(0));
    assert!(!dir.path().join("pid").exists());
}

#[test]
fn config_set_listens_elsewhere_and_keeps_connections() {
    let server = Server::start(&["--bind", "127.0.0.1"]);
    let mut client = server.client();
    let open = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
    let port = common::free_port();
    assert_eq!(client.say(&format!("CONFIG SET port {port}")), "+OK");
    assert!(open(port) && !open(server.port));
    assert!(client.say("INFO server").contains(&format!("tcp_port:{port}\r\n")));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let busy = taken.local_addr().expect("it is bound").port();
    assert_eq!(
        client.say(&format!("CONFIG SET port {busy}")),
        "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. \
         Check server logs."
    );
    assert_eq!(
        client.say("CONFIG GET port"),
        format!("*2\r\n$4\r\nport\r\n${}\r\n{port}", port.to_string().len())
    );
    assert!(open(port));
    for bind in ["*", "127.0.0.1"] {
        assert_eq!(client.say(&format!("CONFIG SET bind {bind}")), "+OK");
        assert!(open(port), "{bind}");
    }
    assert_eq!(
        client.say("CONFIG SET bind 192.0.2.1"),
        "-ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses."
    );
    assert!(open(port));
    assert_eq!(client.say("PING"), "+PONG");
}

#[test]
fn debug_is_guarded() {
    let server = Server::start(&["--bind", "127.0.0.1"]);
    assert!(
        server
            .client()
            .say("DEBUG SLEEP 0")
            .starts_with("-ERR DEBUG command not allowed. If the enable-debug-command")
    );
    let server = Server::start(&["--bind", "127.0.0.1", "--enable-debug-command", "local"]);
    let mut client = server.client();
    for (words, answer) in [
        ("DEBUG SLEEP 0", "+OK"),
        ("DEBUG SET-ACTIVE-EXPIRE 1", "+OK"),
        ("DEBUG ERROR foo", "-foo"),
        ("DEBUG OBJECT none", "-ERR no such key"),
        ("DEBUG FOO", "-ERR unknown subcommand or wrong number of arguments for 'FOO'. Try DEBUG HELP."),
        ("DEBUG SLEEP", "-ERR unknown subcommand or wrong number of arguments for 'SLEEP'. Try DEBUG HELP."),
        ("DEBUG POPULATE x", "-ERR value is out of range, must be positive"),
        ("DEBUG POPULATE 5 pre 20", "+OK"),
        ("DEBUG DIGEST-VALUE none", "*1\r\n+0000000000000000000000000000000000000000"),
        ("DEBUG PROTOCOL bignum", "$37\r\n1234567999999999999999999999999999999"),
        ("DEBUG PROTOCOL push", "-ERR RESP2 is not supported by this command"),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
        ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error"),
        (
            "CONFIG SET dbfilename x",
            "-ERR CONFIG SET failed (possibly related to argument 'dbfilename') - can't set protected config",
        ),
    ] {
        assert_eq!(client.say(words), answer, "{words}");
    }
    assert_eq!(
        client.say("DEBUG DIGEST"),
        "+8a37536ba3e94c1bdbdf46927f2f1a3e0650c1d5",
        "five keys of twenty bytes"
    );
}

/// The names of INFO's fields with their sections, in order.
fn info_fields(server: &Server) -> Vec<String> {
    let text = server.client().say("INFO everything");
    let names = text.split("\r\n").skip(1).filter(|line| !line.is_empty());
    // What follows from the commands that were called differs in its numbers.
    names.map(|line| line.split(':').next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn info_has_redis_s_sections_and_fields_in_redis_s_order() {
    let ours = info_fields(&Server::start(&["--bind", "127.0.0.1"]));
    assert_eq!(ours, info_fields(&Server::redis(&[])));
}

#[test]
fn every_parameter_of_redis_that_is_known_has_redis_s_default() {
    let ask = |server: &Server| {
        let pairs = server.client().value(&["CONFIG", "GET", "*"]);
        let items =
            pairs.items().expect("an array").iter().map(common::resp::Value::text).collect::<Vec<_>>();
        items
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    // Each has its own port and directory; the tests' own flags are not defaults.
    let own = ["bind", "port", "port-file", "dir"];
    let stock = ask(&Server::redis(&[]));
    for (name, value) in ask(&Server::start(&["--bind", "127.0.0.1"])) {
        if let Some(redis) = stock.get(&name)
            && !own.contains(&name.as_str())
        {
            assert_eq!(&value, redis, "{name}");
        }
    }
}

#[test]
fn memory_answers_as_redis_s_does() {
    let shape = |server: &Server| {
        let mut client = server.client();
        assert_eq!(client.say("DEBUG POPULATE 1"), "+OK");
        let stats = client.value(&["MEMORY", "STATS"]);
        let names =
            stats.pairs().expect("pairs").into_iter().map(|(name, _)| name.text()).collect::<Vec<_>>();
        let lines = [
            "MEMORY USAGE nokey",
            "MEMORY USAGE nokey SAMPLES -1",
            "MEMORY USAGE nokey SAMPLES",
            "MEMORY USAGE nokey SAMPLES x",
            "MEMORY USAGE nokey SAMPLES 5",
            "MEMORY USAGE nokey foo",
            "MEMORY STATS x",
            "MEMORY PURGE",
            "MEMORY FOO",
            "MEMORY",
        ];
        (names, lines.map(|line| client.say(line)))
    };
    let debug = ["--enable-debug-command", "yes"];
    assert_eq!(shape(&Server::start(&debug)), shape(&Server::redis(&debug)));
}

#[test]
fn exec_passes_signals_on() {
    if !is_keylatch() {
        return;
    }
    let names =
        [("TERM", libc::SIGTERM), ("INT", libc::SIGINT), ("HUP", libc::SIGHUP), ("QUIT", libc::SIGQUIT)];
    let own = [("USR1", libc::SIGUSR1), ("USR2", libc::SIGUSR2), ("ALRM", libc::SIGALRM)];
    for (name, signal) in names.into_iter().chain(own) {
        // Blocked and waited for: there is no moment at which it could come too early, as there is
        // between a shell's look for traps and its next wait.
        let script = format!(
            "import signal as s; w = {{s.SIG{name}}}; s.pthread_sigmask(s.SIG_BLOCK, w); \
             print('ready', flush=True); s.sigwait(w); raise SystemExit(21)"
        );
        let mut child = Command::new(env!("CARGO_BIN_EXE_keylatch"))
            .args(["exec", "--", "python3", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = [0; 6];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut said).expect("the command is ready");
        kill(child.id(), signal);
        assert_eq!(wait(&mut child).code(), Some(21), "{name}");
    }
}
