//! The lock lesson as a person types it: each block of `lesson.txt` through stock redis-cli, on an
//! empty database, to the letter. A TTL may read one less where a second has passed.

mod common;

use common::{Server, redis_cli};

/// A block: what is typed, and what is printed for it.
struct Block<'a> {
    name: &'a str,
    steps: Vec<(&'a str, Vec<&'a str>)>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            blocks.push(Block { name, steps: Vec::new() });
        } else if let Some(typed) = line.strip_prefix("> ") {
            blocks.last_mut().expect("a block is open").steps.push((typed, Vec::new()));
        } else if !line.is_empty() {
            blocks.last_mut().and_then(|b| b.steps.last_mut()).expect("a command is typed").1.push(line);
        }
    }
    blocks
}

/// Whether the printed lines are the right ones for what was typed.
fn right(typed: &str, wanted: &[&str], printed: &[&str]) -> bool {
    if typed.starts_with("SCAN ") {
        // The order of a walk is the server's own. Only names differ in place.
        let names = |lines: &[&str]| {
            let mut names: Vec<String> =
                lines.iter().filter_map(|l| l.split(") ").last().map(str::to_owned)).collect();
            names.sort();
            names
        };
        return names(wanted) == names(printed);
    }
    if typed.starts_with("TTL ") {
        let seconds = |lines: &[&str]| lines.concat().strip_prefix("(integer) ")?.parse::<i64>().ok();
        return match (seconds(wanted), seconds(printed)) {
            (Some(w), Some(p)) if w > 0 => p == w || p == w - 1,
            (w, p) => w.is_some() && w == p,
        };
    }
    wanted == printed
}

#[test]
fn the_lesson_comes_out_to_the_letter() {
    let server = Server::start(&[]);
    let text = include_str!("lesson.txt");
    let mut wrong = Vec::new();
    for block in blocks(text) {
        assert_eq!(server.client().say("FLUSHALL"), "+OK");
        // An ECHO after each command marks where its answer ends.
        let mut input = String::new();
        for (typed, _) in &block.steps {
            input.push_str(&format!("{typed}\nECHO end-of-answer\n"));
        }
        let output = redis_cli(server.port, &input);
        let mut answers = output.split("\"end-of-answer\"\n");
        for (typed, wanted) in &block.steps {
            let printed: Vec<&str> = answers.next().unwrap_or("").lines().collect();
            if !right(typed, wanted, &printed) {
                wrong.push(format!("{}: {typed}\n  wanted {wanted:?}\n  saw    {printed:?}", block.name));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A holder whose connection drops keeps the lock until its deadline, and no longer.
#[test]
fn a_crashed_holder_keeps_the_lock_until_its_deadline() {
    let server = Server::start(&[]);
    let mut holder = server.client();
    assert_eq!(holder.say("SET lock:c holder NX PX 400"), "+OK");
    drop(holder);
    let mut other = server.client();
    assert_eq!(other.say("SET lock:c other NX PX 1000"), "$-1");
    assert_eq!(other.say("GET lock:c"), "$6\r\nholder");
    common::until("the deadline", || (other.say("SET lock:c other NX PX 100000") == "+OK").then_some(()));
}

/// No client ever sees a lock without its deadline.
#[test]
fn key_and_deadline_appear_in_one_step() {
    let server = Server::start(&[]);
    let port = server.port;
    let watcher = std::thread::spawn(move || {
        let mut client = common::Client::connect(port);
        for _ in 0..5000 {
            let left = client.value(&["PTTL", "lock:s"]).int().expect("PTTL is an integer");
            assert_ne!(left, -1, "the lock stood without a deadline");
        }
    });
    let mut client = server.client();
    while !watcher.is_finished() {
        assert_eq!(client.say("SET lock:s t NX PX 30000"), "+OK");
        assert_eq!(client.say("DEL lock:s"), ":1");
    }
    watcher.join().expect("the watcher saw the deadline each time");
}
