//! redis-py against the real binary: each file of tests/python on a server of its own. Not here: what
//! they test (the files say it), the `redis` crate (`clients`).

mod common;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use common::{Server, is_keylatch};

/// The Python that has redis-py: what `KEYLATCH_TEST_PYTHON` names, or what tests/run has made.
/// Without one the tests fail: left out in silence they would prove nothing.
fn python() -> OsString {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-venv/bin/python");
    match std::env::var_os("KEYLATCH_TEST_PYTHON") {
        Some(named) => named,
        None if made.exists() => made.into(),
        None => {
            panic!("no redis-py: run tests/run once, or let KEYLATCH_TEST_PYTHON name a Python that has it")
        }
    }
}

/// Runs one file against a server with `args`; fails with all that it printed.
fn run(file: &str, args: &[&str]) {
    let server = Server::start(args);
    if !is_keylatch() && args.contains(&"--cluster-enabled") {
        // A node of redis-server's begins without slots.
        assert_eq!(server.client().say("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
        common::until("the cluster", || {
            server.client().say("CLUSTER INFO").contains("cluster_state:ok").then_some(())
        });
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(file);
    let output = Command::new(python())
        .args(["-W", "ignore"]) // redis-py warns of methods that are new
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(script)
        .arg(server.port.to_string())
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(" ok\n"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn admin() {
    run("admin.py", &[]);
}

#[test]
fn asynchronous() {
    run("asynchronous.py", &[]);
}

#[test]
fn caching() {
    // redis-py caches for servers from 7.4 on.
    let version: &[&str] = if is_keylatch() { &["--compat-version", "7.4.0"] } else { &[] };
    run("caching.py", version);
}

#[test]
fn cluster() {
    run("cluster.py", &["--cluster-enabled", "yes"]);
}

#[test]
fn handover() {
    run("handover.py", &[]);
}

#[test]
fn locks() {
    run("locks.py", &[]);
}

#[test]
fn pubsub() {
    run("pubsub.py", &[]);
}

#[test]
fn scripts() {
    run("scripts.py", &[]);
}

#[test]
fn watch() {
    run("watch.py", &[]);
}

/// No file of tests/python is forgotten here.
#[test]
fn every_file_is_run() {
    let here = include_str!("python.rs");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    for entry in std::fs::read_dir(dir).expect("tests/python is there") {
        let name = entry.expect("a name").file_name().into_string().expect("UTF-8");
        let known = name == "kit.py" || here.contains(&format!("run(\"{name}\""));
        assert!(known || !name.ends_with(".py"), "{name} is not run");
    }
}
