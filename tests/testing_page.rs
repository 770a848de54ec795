//! docs/testing.md, run: its examples pass under `exec --deny-findings` as a reader copies them, its
//! recipes are rules. Not here: its blocks in Rust, which are doc tests.

mod common;

use common::{Client, is_keylatch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DIR: &str = env!("CARGO_MANIFEST_DIR");
const PAGE: &str = include_str!("../docs/testing.md");

/// The page's one code block in `language`.
fn block(language: &str) -> &'static str {
    let blocks: Vec<&str> = PAGE.split(&format!("```{language}\n")).skip(1).collect();
    assert_eq!(blocks.len(), 1, "blocks in {language}");
    blocks[0].split("```").next().unwrap_or_default()
}

/// What `exec --deny-findings -- command` in `dir` ended with, and said.
fn exec(dir: &Path, command: &mut Command) -> (i32, String) {
    let mut exec = Command::new(env!("CARGO_BIN_EXE_keylatch"));
    exec.args(["exec", "--deny-findings", "--"]).arg(command.get_program()).args(command.get_args());
    exec.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = exec.current_dir(dir).stdin(Stdio::null()).output().expect("the binary runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_example_for_pytest() {
    let python = std::env::var_os("KEYLATCH_TEST_PYTHON");
    let has_pytest = |python: &PathBuf| {
        let asked = Command::new(python).args(["-c", "import pytest, redis"]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let Some(python) = python.map(PathBuf::from).filter(has_pytest) else {
        eprintln!("!!! KEYLATCH_TEST_PYTHON has no pytest: the example for it is left out");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let run = |text: &str| {
        fs::write(dir.path().join("test_lock.py"), text).expect("a file");
        let mut pytest = Command::new(&python);
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).env("PYTHONDONTWRITEBYTECODE", "1");
        exec(dir.path(), &mut pytest)
    };
    let (code, said) = run(block("python"));
    assert!(code == 0 && said.contains("2 passed"), "{code} {said}");
    // What the example says of its last line is so.
    let kept: Vec<&str> = block("python").lines().filter(|line| !line.contains("FINDINGS")).collect();
    let (code, said) = run(&kept.join("\n"));
    assert!(
        code == 3 && said.contains("2 passed") && said.contains("1. overrun: lock:order:1: "),
        "{code} {said}"
    );
}

#[test]
fn the_example_for_jest() {
    let modules = std::env::var("KEYLATCH_TEST_NODE_MODULES")
        .map_or_else(|_| Path::new(DIR).join("target/test-node/node_modules"), PathBuf::from);
    let jest = modules.join("jest/bin/jest.js");
    if !jest.is_file() || !modules.join("ioredis").is_dir() {
        eprintln!("!!! {} has no jest: the example for it is left out", modules.display());
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("package.json"), "{}").expect("a file");
    std::os::unix::fs::symlink(&modules, dir.path().join("node_modules")).expect("a link");
    let run = |text: &str| {
        fs::write(dir.path().join("lock.test.js"), text).expect("a file");
        exec(dir.path(), Command::new("node").arg(&jest).args(["--runInBand", "--no-cache"]))
    };
    let (code, said) = run(block("js"));
    assert!(code == 0 && said.contains("1 passed, 1 total"), "{code} {said}");
    // It is the moved clock that it passes by.
    let (code, said) = run(&block("js").replace("\"ADVANCE\", 30000", "\"ADVANCE\", 29999"));
    assert!(code == 1 && said.contains("1 failed, 1 total"), "{code} {said}");
}

/// The recipes, by what they are for.
fn recipes() -> Vec<(&'static str, &'static str)> {
    let table = PAGE.split("| to see what your code does when | add |").nth(1).expect("the table is there");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (what, rule) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        (what, rule.split('`').nth(1).unwrap_or_default())
    })
    .collect()
}

/// The recipe for what begins with `what`.
fn recipe(what: &str) -> &'static str {
    let found = recipes().into_iter().find(|(is, _)| is.starts_with(what));
    found.unwrap_or_else(|| panic!("no recipe for {what}")).1
}

/// Adds the rule of a recipe, typed as it stands on the page.
fn add(client: &mut Client, rule: &str) -> String {
    client.raw(format!("KEYLATCH FAULT ADD {rule}\r\n").as_bytes());
    String::from_utf8_lossy(&client.frame().expect("an answer")).trim_end().to_owned()
}

#[test]
fn each_recipe_is_a_rule() {
    if !is_keylatch() {
        return;
    }
    let server = common::Server::start(&[]);
    let mut client = server.client();
    assert!(recipes().len() > 10);
    for (what, rule) in recipes() {
        let said = add(&mut client, rule);
        assert!(said.starts_with(':'), "{what}: {rule}: {said}");
    }
}

const RENEW: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 30000) else return 0 end";

#[test]
fn a_renewal_is_lost_as_the_recipes_say() {
    let renewals: [(&str, &[&str]); 2] = [
        ("a renewal by a script is lost", &["EVAL", RENEW, "1", "lock:a", "one"]),
        ("a renewal by a plain PEXPIRE is lost", &["PEXPIRE", "lock:a", "30000"]),
    ];
    for (what, renewal) in renewals {
        let server = keylatch::Server::builder().frozen_at(1_000_000).start().expect("a server");
        let mut client = Client::connect(server.addr().port());
        assert_eq!(add(&mut client, recipe(what)), ":1");
        assert_eq!(client.say("SET lock:a one NX PX 30000"), "+OK");
        for _ in 0..2 {
            server.clock().advance(1_000);
            assert_eq!(client.call(renewal), ":1", "{what}");
        }
        server.clock().advance(1_000);
        assert_eq!(client.call(renewal), "(connection closed)", "{what}");
        assert_eq!(server.pttl("lock:a"), Some(29_000), "{what}");
        client = Client::connect(server.addr().port());
        assert_eq!(client.call(renewal), ":1", "{what}");
        assert_eq!(server.pttl("lock:a"), Some(30_000), "{what}");
    }
    let server = keylatch::Server::builder().frozen_at(1_000_000).start().expect("a server");
    let mut client = Client::connect(server.addr().port());
    let rule = recipe("a script's renewal fails on the server");
    assert_eq!(add(&mut client, rule), ":1");
    assert_eq!(client.say("SET lock:a one NX PX 30000"), "+OK");
    server.clock().advance(1_000);
    let said = client.call(&["EVAL", RENEW, "1", "lock:a", "one"]);
    assert!(said.starts_with("-ERR out of luck"), "{said}");
    assert_eq!(server.pttl("lock:a"), Some(29_000));
    assert_eq!(client.call(&["EVAL", RENEW, "1", "lock:a", "one"]), ":1");
}
