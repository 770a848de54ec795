//! Locks as they are seen, over real connections: client libraries that do it right under `exec
//! --deny-findings`, mistakes that are found, and the report in a browser. Not here: each mistake's
//! many faces, on a clock in memory (src/command/locks_tests.rs).

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Client, wait};
use keylatch::{Mistake, Server, What};

const DIR: &str = env!("CARGO_MANIFEST_DIR");

/// What a command did: its code, and what it said on both streams.
fn run(command: &mut Command) -> (i32, String) {
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

/// `keylatch exec` with `options` and then a command.
fn exec(options: &[&str], command: &[&str]) -> Command {
    let mut exec = Command::new(env!("CARGO_BIN_EXE_keylatch"));
    exec.arg("exec").args(options).arg("--").args(command);
    exec
}

/// The mistakes that `exec` printed.
fn printed(said: &str) -> Vec<&'static str> {
    let names = Mistake::ALL.iter().map(|mistake| mistake.name());
    names.filter(|name| said.lines().any(|line| line.contains(&format!(". {name}: ")))).collect()
}

#[test]
fn findings_decide_the_exit_code() {
    let right = "redis-cli -p $REDIS_PORT SET l one NX PX 9000 && redis-cli -p $REDIS_PORT DELIFEQ l one";
    let wrong = "redis-cli -p $REDIS_PORT SET l one NX PX 9000 && redis-cli -p $REDIS_PORT DEL l";
    let deny = &["--deny-findings"][..];
    let (code, said) = run(&mut exec(deny, &["sh", "-c", right]));
    assert_eq!((code, said.contains("mistake")), (0, false), "{said}");
    assert_eq!(run(&mut exec(&[], &["sh", "-c", wrong])).0, 0);
    let (code, said) = run(&mut exec(deny, &["sh", "-c", wrong]));
    assert_eq!((code, printed(&said)), (3, vec!["foreign-release"]), "{said}");
    assert!(said.contains("\n    SET l one NX PX 9000\n    DEL l\n    instead: "), "{said}");
    // The command's own failure goes first, and the mistakes are told all the same.
    let (code, said) = run(&mut exec(deny, &["sh", "-c", &format!("{wrong}; exit 7")]));
    assert_eq!((code, printed(&said)), (7, vec!["foreign-release"]));
    // A RESET between two tests keeps what the first has shown; what was asked for and forgotten is gone.
    let reset = format!("{wrong}; redis-cli -p $REDIS_PORT KEYLATCH RESET");
    assert_eq!(run(&mut exec(deny, &["sh", "-c", &reset])).0, 3);
    let forgotten = format!("{wrong}; redis-cli -p $REDIS_PORT KEYLATCH FINDINGS RESET");
    assert_eq!(run(&mut exec(deny, &["sh", "-c", &forgotten])).0, 0);
    // So it does where the report cannot be written as well.
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("locks.html").display().to_string();
    let spoiled = format!("{wrong}; rm {page}; mkdir {page}");
    let both = ["--deny-findings", "--lock-report", &page];
    let (code, said) = run(&mut exec(&both, &["sh", "-c", &spoiled]));
    assert_eq!((code, printed(&said)), (3, vec!["foreign-release"]), "{said}");
    assert!(said.contains("Could not write the lock report"), "{said}");
    // Without a history there is nothing to be sure of.
    let (code, said) = run(&mut exec(&["--deny-findings", "--lock-history-len", "0"], &["true"]));
    assert!(code == 3 && said.contains("lock-history-len"), "{code} {said}");
}

#[test]
fn a_daemon_keeps_a_history_when_asked() {
    let server = common::Server::start(&[]);
    let mut client = server.client();
    assert!(
        client.say("KEYLATCH LOCKS").starts_with("-ERR No history of locks is kept: set lock-history-len")
    );
    assert_eq!(client.say("CONFIG SET lock-history-len 100"), "+OK");
    assert_eq!(client.say("SET l one NX PX 90000"), "+OK");
    assert_eq!(client.say("DEL l"), ":1");
    assert!(client.say("KEYLATCH FINDINGS").contains("bare-delete"));
    assert_eq!(client.say("CONFIG SET lock-pattern other:*"), "+OK");
    assert!(client.say("KEYLATCH FINDINGS RESET").contains("bare-delete"));
    assert_eq!(client.say("SET l two NX PX 90000"), "+OK");
    assert_eq!(client.say("DEL l"), ":1");
}

#[test]
fn what_a_rust_test_sees() {
    let server = Server::builder().frozen_at(5_000).start().expect("a server");
    let mut a = Client::connect(server.addr().port());
    let mut b = Client::connect(server.addr().port());
    server.guard("lock:*", "data:*");
    assert_eq!(a.say("SET lock:1 one NX PX 100"), "+OK");
    assert_eq!(b.say("SET lock:1 two NX PX 100"), "$-1");
    let locks = server.locks();
    assert_eq!((locks.len(), locks[0].refused, locks[0].deadline), (1, 1, Some(5_100)));
    assert_eq!(locks[0].holder.addr, a.stream.local_addr().expect("connected").to_string());
    server.clock().advance(100);
    assert!(server.locks().is_empty());
    let history = server.lock_history("lock:1");
    let what: Vec<(What, i64)> = history.iter().map(|event| (event.what, event.at)).collect();
    assert_eq!(what, [(What::Acquired, 5_000), (What::Refused, 5_000), (What::Expired, 5_100)]);
    assert!(server.findings().is_empty());
    assert_eq!(a.say("SET data:1 late"), "+OK");
    assert_eq!(server.findings()[0].mistake, Mistake::ExpiredOwnerWrite);
    // What a test arranges by itself is nobody's mistake.
    server.set("lock:1", "thief", Some(500));
    assert_eq!(b.say("SET lock:1 two NX PX 100"), "$-1");
    assert_eq!(server.findings().len(), 1);
    let silent = Server::builder().lock_history(0).start().expect("a server");
    assert!(silent.locks().is_empty() && silent.findings().is_empty());
}

fn python() -> Option<String> {
    let python = std::env::var("KEYLATCH_TEST_PYTHON").ok();
    if python.is_none() {
        eprintln!("!!! KEYLATCH_TEST_PYTHON is not set: redis-py and redlock-py are left out");
    }
    python
}

#[test]
fn python_libraries_raise_nothing() {
    let Some(python) = python() else { return };
    let (code, said) =
        run(&mut exec(&["--deny-findings"], &[&python, &format!("{DIR}/tests/findings.py"), "right"]));
    assert_eq!(code, 0, "{said}");
    eprint!("{said}");
}

#[test]
fn each_mistake_is_found() {
    let Some(python) = python() else { return };
    let (code, said) =
        run(&mut exec(&["--deny-findings"], &[&python, &format!("{DIR}/tests/findings.py"), "wrong"]));
    let all: Vec<&str> = Mistake::ALL.iter().map(|mistake| mistake.name()).collect();
    assert_eq!((code, printed(&said)), (3, all), "{said}");
}

#[test]
fn nodes_redlock_raises_nothing() {
    let modules = std::env::var("KEYLATCH_TEST_NODE_MODULES")
        .unwrap_or_else(|_| format!("{DIR}/target/test-node/node_modules"));
    if !Path::new(&modules).join("redlock").is_dir() {
        eprintln!("!!! {modules} has no redlock: node's redlock is left out");
        return;
    }
    let mut command = exec(&["--deny-findings"], &["node", &format!("{DIR}/tests/findings.cjs")]);
    let (code, said) = run(command.env("NODE_PATH", modules));
    assert_eq!(code, 0, "{said}");
}

/// The browser, if there is one.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("KEYLATCH_TEST_CHROMIUM").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = named.or_else(|| {
        std::env::split_paths(&paths).map(|dir| dir.join("chromium")).find(|path| path.is_file())
    });
    if found.is_none() {
        eprintln!("!!! there is no chromium: the page of the locks is not looked at in a browser");
    }
    found
}

/// The page as the browser has it once its script has run.
fn dump(chromium: &Path, page: &Path) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let dom = dir.path().join("dom");
    let mut child = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.path().display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&dom).expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("chromium starts");
    assert!(wait(&mut child).success());
    std::fs::read_to_string(&dom).expect("the page's elements")
}

/// The numbers that follow `name="`.
fn numbers(dom: &str, name: &str) -> Vec<usize> {
    let mark = format!(" {name}=\"");
    let values = dom.split(&mark).skip(1);
    values.filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
}

/// Runs `rounds` of acquire and release over `keys` keys; returns the report's page and its path.
fn report(dir: &Path, keys: usize, rounds: usize) -> PathBuf {
    let path = dir.join(format!("{keys}.html"));
    let server = Server::builder().frozen_at(1_700_000_000_000).lock_report(&path).start().expect("a server");
    let mut client = Client::connect(server.addr().port());
    for round in 0..rounds {
        let mut requests = Vec::new();
        for key in 0..keys {
            let (key, token) = (format!("lock:{key}"), format!("token-{key}-{round}"));
            requests.extend(common::resp::request(&["SET", &key, &token, "NX", "PX", "1000"]));
            requests.extend(common::resp::request(&["DELIFEQ", &key, &token]));
        }
        client.stream.write_all(&requests).expect("the server reads");
        for _ in 0..2 * keys {
            client.frame().expect("the server answers");
        }
        server.clock().advance(7);
    }
    drop(server);
    path
}

#[test]
fn the_report_in_a_browser() {
    let dir = tempfile::tempdir().expect("a directory");
    let pages = [(5, 1), (50, 100)].map(|(keys, rounds)| (keys, rounds, report(dir.path(), keys, rounds)));
    let hostile = dir.path().join("hostile.html");
    let server = Server::builder().lock_report(&hostile).start().expect("a server");
    let mut client = Client::connect(server.addr().port());
    let key = b"</script><img src=x onerror=\"document.title='taken'\">\xff\0";
    assert_eq!(client.call(&[b"SET", &key[..], b"<i>\xfe</i>", b"NX"]), "+OK");
    drop(client);
    drop(server);
    for path in pages.iter().map(|(_, _, path)| path).chain([&hostile]) {
        let page = std::fs::read_to_string(path).expect("it was written");
        // Whole in itself: nothing is loaded from anywhere.
        for outside in ["http://", "https://", "src=\"", "@import", "url("] {
            assert!(!page.contains(outside), "{outside} in {}", path.display());
        }
        assert_eq!(page.matches("</script>").count(), 2, "{}", path.display());
    }
    let Some(chromium) = chromium() else { return };
    for (keys, rounds, path) in pages {
        let dom = dump(&chromium, &path);
        let bars = numbers(&dom, "data-bars");
        assert_eq!((bars.len(), bars.iter().sum::<usize>()), (keys, keys * rounds));
        assert_eq!(dom.matches("class=\"row\"").count(), keys);
        assert!(dom.contains("No mistake was seen."), "{}", path.display());
    }
    let dom = dump(&chromium, &hostile);
    assert!(dom.contains("<title>Locks</title>"), "the page's title was changed");
    assert!(dom.contains("&lt;/script&gt;&lt;img src=x onerror="));
    assert_eq!((numbers(&dom, "data-bars"), numbers(&dom, "data-marks")), (vec![1], vec![1]));
    assert_eq!(dom.matches("class=\"finding\"").count(), 1);
    assert!(dom.contains("no-deadline") && dom.contains("\\xff\\x00"));
}

#[test]
fn the_daemon_writes_the_report_when_it_ends() {
    let mut server = common::Server::start(&["--lock-report", "locks.html"]);
    let mut client = server.client();
    assert_eq!(client.say("SET lock:a one NX PX 90000"), "+OK");
    server.signal(libc::SIGTERM);
    assert!(server.wait().success());
    let page = std::fs::read_to_string(server.path("locks.html")).expect("it was written");
    assert!(page.contains("\"lock:a\""), "{page}");
    // What cannot be written at the end is no success.
    let mut server = common::Server::start(&["--lock-report", "locks.html"]);
    std::fs::remove_file(server.path("locks.html")).expect("it was opened at the start");
    std::fs::create_dir(server.path("locks.html")).expect("a directory in its way");
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().code(), Some(1));
    let mut refused = Command::new(env!("CARGO_BIN_EXE_keylatch"));
    let (code, said) = run(refused.args(["--port", "0", "--lock-report", "/nonexistent/locks.html"]));
    assert!(code == 1 && said.contains("lock-report /nonexistent/locks.html"), "{code} {said}");
}
