//! Runs the corpus. A file is a list of steps for a server that was just emptied; a line is a script,
//! run by EVAL with KEYS `key` and ARGV `arg`, `10`, or, after `! `, a command as redis-cli takes it. In
//! a script `¶` is a line's end; `# ` begins a comment.

use crate::common::{Client, Server, resp};
use crate::{pair, shown};

/// What a step is: its line, and the request.
pub struct Step {
    pub line: String,
    pub args: Vec<Vec<u8>>,
}

/// The corpus by file name.
pub fn files() -> Vec<(String, Vec<Step>)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripting/corpus");
    let mut files: Vec<(String, Vec<Step>)> = std::fs::read_dir(dir)
        .expect("the corpus is there")
        .map(|entry| {
            let path = entry.expect("a directory can be read").path();
            let text = std::fs::read_to_string(&path).expect("a corpus file is text");
            let name = path.file_name().expect("it has one").to_string_lossy().into_owned();
            (name, text.lines().filter_map(step).collect())
        })
        .collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

fn step(line: &str) -> Option<Step> {
    if line.is_empty() || line.starts_with("# ") {
        return None;
    }
    let args = match line.strip_prefix("! ") {
        Some(command) => words(command),
        None => {
            ["EVAL", &line.replace('¶', "\n"), "1", "key", "arg", "10"].map(|s| s.as_bytes().to_vec()).into()
        }
    };
    Some(Step { line: line.to_owned(), args })
}

/// A line cut at blanks; `"…"` holds blanks and escapes.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.bytes().peekable();
    while let Some(first) = rest.next() {
        let mut word = Vec::new();
        match first {
            b' ' => continue,
            b'"' => {
                while let Some(byte) = rest.next().filter(|&byte| byte != b'"') {
                    word.push(match byte {
                        b'\\' => match rest.next() {
                            Some(b'n') => b'\n',
                            Some(b'r') => b'\r',
                            Some(other) => other,
                            None => b'\\',
                        },
                        other => other,
                    });
                }
            }
            other => {
                word.push(other);
                while let Some(byte) = rest.next_if(|&byte| byte != b' ') {
                    word.push(byte);
                }
            }
        }
        words.push(word);
    }
    words
}

/// A connection to a server that was emptied.
pub fn fresh(server: &Server, protocol: &str) -> Client {
    let mut client = server.client();
    for command in ["FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH", "CONFIG RESETSTAT", "SLOWLOG RESET"] {
        client.say(command);
    }
    client.call(&["HELLO", protocol]);
    client
}

/// A reply as far as it must be the same: commandstats without times, in any order.
fn comparable(step: &Step, reply: Vec<u8>) -> Vec<u8> {
    if !step.line.contains("INFO commandstats") {
        return reply;
    }
    let text = String::from_utf8_lossy(&reply);
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("cmdstat_"))
        .map(|line| line.split(',').filter(|part| !part.starts_with("usec")).collect::<Vec<_>>().join(","))
        .collect();
    lines.sort();
    lines.join("\n").into_bytes()
}

#[test]
fn the_corpus_answers_as_redis_server_does() {
    let (ours, theirs) = pair();
    let files = files();
    let scripts: usize = files.iter().map(|(_, steps)| steps.len()).sum();
    assert!(scripts >= 1500, "the corpus has shrunk to {scripts}");
    let mut differences = 0;
    for protocol in ["2", "3"] {
        for (name, steps) in &files {
            let (mut a, mut b) = (fresh(&ours, protocol), fresh(&theirs, protocol));
            for step in steps {
                let request = resp::request(&step.args);
                a.raw(&request);
                b.raw(&request);
                let said = |client: &mut Client| {
                    comparable(step, client.frame().unwrap_or_else(|| b"(no reply)".to_vec()))
                };
                let (a, b) = (said(&mut a), said(&mut b));
                if a != b {
                    differences += 1;
                    eprintln!("{name}, RESP{protocol}: {}", step.line);
                    eprintln!("  keylatch: {}\n  redis:    {}", shown(&a), shown(&b));
                }
            }
        }
    }
    assert_eq!(differences, 0, "replies that differ, shown above");
}

/// Libraries dumped by one server are restored by the other.
#[test]
fn functions_travel_between_the_servers() {
    let (ours, theirs) = pair();
    for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
        let (mut from, mut to) = (fresh(from, "2"), fresh(to, "2"));
        for name in ["one", "two"] {
            let code = format!(
                "#!lua name={name}\n-- {}\nredis.register_function('{name}', function(k, a) return '{name}' .. a[1] end)",
                "padding ".repeat(40)
            );
            assert_eq!(from.call(&["FUNCTION", "LOAD", &code]), format!("$3\r\n{name}"));
        }
        let resp::Value::Bulk(dump) = from.value(&["FUNCTION", "DUMP"]) else { panic!("a dump is a string") };
        let restore =
            |policy: &'static [u8]| [b"FUNCTION" as &[u8], b"RESTORE", &dump, policy].map(<[u8]>::to_vec);
        assert_eq!(to.call(&restore(b"APPEND")), "+OK");
        assert_eq!(to.call(&["FCALL", "two", "0", "!"]), "$4\r\ntwo!");
        assert!(to.call(&restore(b"APPEND")).starts_with("-ERR Library "));
        assert_eq!(to.call(&restore(b"REPLACE")), "+OK");
        assert_eq!(to.call(&restore(b"FLUSH")), "+OK");
        let mut broken = dump.clone();
        broken[10] ^= 1;
        let broken = [b"FUNCTION" as &[u8], b"RESTORE", &broken].map(<[u8]>::to_vec);
        assert_eq!(to.call(&broken), "-ERR DUMP payload version or checksum are wrong");
        assert_eq!(to.call(&["FCALL", "one", "0", "?"]), "$4\r\none?");
    }
}
