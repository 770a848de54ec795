//! Locks as they are seen, over real connections: client libraries that do it right under `exec
//! --deny-findings`, mistakes that are found, and the report in a browser. Not here: each mistake's
//! many faces, on a clock in memory (src/command/locks_tests.rs).

mod browser;
mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use browser::Page;
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

/// Browsers are large: one at a time.
static BROWSER: Mutex<()> = Mutex::new(());

/// The browser, if there is one, for as long as the second value is kept.
fn chromium() -> Option<(PathBuf, MutexGuard<'static, ()>)> {
    let named = std::env::var_os("KEYLATCH_TEST_CHROMIUM").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = named.or_else(|| {
        std::env::split_paths(&paths).map(|dir| dir.join("chromium")).find(|path| path.is_file())
    });
    if found.is_none() {
        eprintln!("!!! there is no chromium: the page of the locks is not looked at in a browser");
    }
    found.map(|path| (path, BROWSER.lock().unwrap_or_else(PoisonError::into_inner)))
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
    let Some((chromium, _alone)) = chromium() else { return };
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

/// The two ends of what the page says that it shows, seconds from the first event on.
fn shown_seconds(page: &mut Page) -> (f64, f64) {
    let text = page.text("document.getElementById('span').innerText");
    let seconds = |text: &str| {
        let words: Vec<&str> = text.trim_start_matches('+').split(' ').collect();
        let parts = words.chunks(2).map(|part| {
            let unit = [("ms", 0.001), ("s", 1.0), ("min", 60.0)].iter().find(|(unit, _)| *unit == part[1]);
            part[0].parse::<f64>().expect("a number") * unit.expect("a unit").1
        });
        parts.sum::<f64>()
    };
    let (from, to) = text.split_once(" … ").unwrap_or_else(|| panic!("two ends in {text}"));
    (seconds(from), seconds(to))
}

/// The words under the axis.
fn axis(page: &mut Page) -> Vec<String> {
    let labels = page.text("document.getElementById('axis').getAttribute('aria-label')");
    labels.split(", ").map(str::to_owned).collect()
}

/// What is under the mouse, line by line; nothing where the box is not shown.
fn tip(page: &mut Page) -> Vec<String> {
    let script = "(box => getComputedStyle(box).display === 'none' ? '' : \
                  [...box.children].map(line => line.innerText.trim()).join('\\n'))(document.getElementById('tip'))";
    page.text(script).lines().map(str::to_owned).collect()
}

/// Hovering tells what is under the mouse; dragging, the keys and the buttons change the time that is shown.
#[test]
fn the_report_answers_mouse_and_keys() {
    let Some((chromium, _alone)) = chromium() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("locks.html");
    let server = Server::builder().frozen_at(1_700_000_000_000).lock_report(&path).start().expect("a server");
    let [mut a, mut b] = [(); 2].map(|()| Client::connect(server.addr().port()));
    a.say("CLIENT SETNAME checkout-1");
    b.say("CLIENT SETNAME checkout-2");
    let at = |client: &mut Client, second: i64, line: &str| {
        server.clock().set(1_700_000_000_000 + second * 1000);
        client.say(line)
    };
    assert_eq!(at(&mut a, 0, "SET lock:a token-1 NX PX 60000"), "+OK");
    assert_eq!(at(&mut b, 20, "SET lock:a token-2 NX PX 60000"), "$-1");
    assert_eq!(at(&mut a, 40, "SET lock:a token-1 IFEQ token-1 PX 60000"), "+OK");
    assert_eq!(at(&mut a, 70, "DELIFEQ lock:a token-1"), ":1");
    assert_eq!(at(&mut b, 80, "SET lock:a token-3 NX PX 60000"), "+OK");
    assert_eq!(at(&mut b, 100, "DEL lock:a"), ":1");
    drop(server);

    let mut page = Page::open(&chromium, &path);
    let lane = page.run("(({x, y, width, height}) => [x, y, width, height])(document.querySelector('.lane').getBoundingClientRect())");
    let [x, y, width, height] = [0, 1, 2, 3].map(|i| lane[i].as_f64().expect("a number"));
    // A fiftieth of the time is left free on either side.
    let place = |second: f64| (x + (second + 2.0) / 104.0 * width, y + height / 2.0);
    let drawn = |page: &mut Page| page.text("document.querySelector('.lane canvas').toDataURL()");
    assert!(tip(&mut page).is_empty());
    page.hover(place(10.0));
    let said = tip(&mut page);
    assert!(said[0].starts_with("lock:a +") && said[0].ends_with(" s"), "{said:?}");
    assert!(
        said[1].starts_with("held by client ") && said[1].contains("(checkout-1), 127.0.0.1:"),
        "{said:?}"
    );
    assert_eq!(said[2..4], ["token token-1", "from +0 ms for 1 min 10 s, then released"]);
    assert_eq!(said[4], "2023-11-14 22:13:20.000");
    assert_eq!(
        said[5..],
        ["deadline +1 min 40 s", "1 renewals, 1 refused meanwhile", "SET lock:a token-1 NX PX 60000",]
    );
    page.hover(place(20.0));
    let said = tip(&mut page).join("\n");
    assert!(said.contains("\nrefused +20 s by client ") && said.ends_with(", token token-2"), "{said}");
    page.hover(place(40.0));
    assert!(tip(&mut page).join("\n").contains("\nrenewed +40 s by client "));
    page.hover(place(75.0));
    assert_eq!(tip(&mut page).len(), 1, "nobody held it then");
    page.hover(place(100.0));
    let said = tip(&mut page).join("\n");
    assert!(said.contains("token token-3\n") && said.contains("\n⚑ bare-delete client "), "{said}");
    page.hover((x + 10.0, y + 10.0 * height));
    assert!(tip(&mut page).is_empty());

    let (from, to) = shown_seconds(&mut page);
    assert_eq!((from, to.round()), (0.0, 102.0));
    let (all, all_drawn) = (axis(&mut page), drawn(&mut page));
    assert_eq!((all[0].as_str(), all.contains(&"1 min 40 s".to_owned())), ("0", true), "{all:?}");
    page.drag(place(20.0), place(60.0));
    let (from, to) = shown_seconds(&mut page);
    assert!((from - 20.0).abs() < 0.5 && (to - 60.0).abs() < 0.5, "{from} to {to}");
    let part = axis(&mut page);
    assert!(part.contains(&"30 s".to_owned()) && !part.contains(&"0".to_owned()), "{part:?}");
    assert_ne!(drawn(&mut page), all_drawn);
    // The same place of the window is another time now.
    page.hover((x + width / 2.0, y + height / 2.0));
    assert!(tip(&mut page).join("\n").contains("\nrenewed +40 s by client "));
    page.press("+");
    let (from, to) = shown_seconds(&mut page);
    assert!((to - from - 24.0).abs() < 0.5 && (from - 28.0).abs() < 0.5, "{from} to {to}");
    page.press("-");
    page.press("-");
    assert!(shown_seconds(&mut page).1 > 60.5);
    page.press("0");
    assert_eq!((axis(&mut page), drawn(&mut page)), (all, all_drawn));
    let button =
        page.run("(({x, y}) => [x + 4, y + 4])(document.getElementById('in').getBoundingClientRect())");
    let button = (button[0].as_f64().expect("a number"), button[1].as_f64().expect("a number"));
    page.drag(button, button);
    let (from, to) = shown_seconds(&mut page);
    assert!((from - 24.0).abs() < 0.5 && (to - 76.0).abs() < 0.5, "{from} to {to}");
}

/// Time begins with the first event, and where there is none there is no time.
#[test]
fn the_report_of_next_to_nothing() {
    let Some((chromium, _alone)) = chromium() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let [none, one] = ["none.html", "one.html"].map(|name| dir.path().join(name));
    for (path, line) in [(&none, "PING"), (&one, "SET lock:a token NX PX 1000")] {
        let server =
            Server::builder().frozen_at(1_700_000_000_000).lock_report(path).start().expect("a server");
        Client::connect(server.addr().port()).say(line);
    }
    let visible = |page: &mut Page, id: &str| {
        page.run(&format!("document.getElementById('{id}').getClientRects().length > 0")) == true
    };
    let mut page = Page::open(&chromium, &none);
    assert!(page.text("document.body.innerText").contains("No lock was taken."));
    for id in ["axis", "overview", "tools", "legend"] {
        assert!(!visible(&mut page, id), "{id}");
    }
    let mut page = Page::open(&chromium, &one);
    assert!(visible(&mut page, "axis") && !visible(&mut page, "empty"));
    let labels = axis(&mut page);
    assert!(labels[0] == "0" && labels.iter().all(|label| !label.contains('-')), "{labels:?}");
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
