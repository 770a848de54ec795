//! A page in headless Chromium with a mouse and a keyboard, spoken to by its own protocol over two
//! pipes. Not here: what a page should show (the tests that look at one).

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than any answer takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser that shows one page.
pub struct Page {
    child: Child,
    requests: File,
    answers: Receiver<Value>,
    session: String,
    last_id: u64,
    /// Holds the profile and the pipes until the browser has ended.
    _dir: tempfile::TempDir,
}

impl Page {
    /// Shows the file `path` in a window of 1200 by 800, once its script has run.
    pub fn open(chromium: &Path, path: &Path) -> Page {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = |name| dir.path().join(name);
        let made = Command::new("mkfifo").args([pipe("in"), pipe("out")]).status();
        assert!(made.expect("mkfifo runs").success());
        // Chromium wants its pipes at the descriptors 3 and 4.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<in 4>out"])
            .arg(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "--user-data-dir=profile", "about:blank"].map(OsStr::new))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let requests = OpenOptions::new().write(true).open(pipe("in")).expect("the pipe is read");
        let answered = File::open(pipe("out")).expect("the pipe is written to");
        let (teller, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answered).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("it speaks JSON");
                if teller.send(message).is_err() {
                    break;
                }
            }
        });
        let mut page = Page { child, requests, answers, session: String::new(), last_id: 0, _dir: dir };
        let target = page.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = page.ask("Target.attachToTarget", target);
        page.session = attached["sessionId"].as_str().expect("a session").to_owned();
        let window = json!({ "width": 1200, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        page.ask("Emulation.setDeviceMetricsOverride", window);
        page.ask("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        page.run(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))",
        );
        page.settle();
        page
    }

    /// Sends a request of the browser's protocol and waits for its answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut request = json!({ "id": self.last_id, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        let bytes = [request.to_string().as_bytes(), b"\0"].concat();
        self.requests.write_all(&bytes).expect("the browser reads");
        loop {
            let message = self.answers.recv_timeout(PATIENCE).expect("the browser answers");
            if message["id"] == json!(self.last_id) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// What `script` comes to in the page.
    pub fn run(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let result = self.ask("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    /// The same as text.
    pub fn text(&mut self, script: &str) -> String {
        self.run(script).as_str().unwrap_or_else(|| panic!("{script} gives no text")).to_owned()
    }

    /// Waits until what was asked for is drawn.
    fn settle(&mut self) {
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), more: Value) {
        let mut params = json!({ "type": kind, "x": x, "y": y });
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        self.ask("Input.dispatchMouseEvent", params);
    }

    /// Moves the mouse there.
    pub fn hover(&mut self, place: (f64, f64)) {
        self.mouse("mouseMoved", place, json!({}));
        self.settle();
    }

    /// Drags from one place to another; the same twice is a click.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let button = json!({ "button": "left", "buttons": 1, "clickCount": 1 });
        self.mouse("mouseMoved", from, json!({}));
        self.mouse("mousePressed", from, button.clone());
        self.mouse("mouseMoved", to, json!({ "button": "left", "buttons": 1 }));
        self.mouse("mouseReleased", to, button);
        self.settle();
    }

    /// Types one character.
    pub fn press(&mut self, key: &str) {
        self.ask("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key, "text": key }));
        self.ask("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
        self.settle();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It ends by this or, where it does not listen any more, by the signal.
        let close = [json!({ "id": 0, "method": "Browser.close" }).to_string().as_bytes(), b"\0"].concat();
        let asked = self.requests.write_all(&close).is_ok();
        while asked && self.answers.recv_timeout(PATIENCE).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
