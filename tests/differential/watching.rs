//! What one connection is told of another's doings: three connections to each server, commands
//! interleaved, replies and pushes compared. Not here: one connection's replies (`run.rs`).
//!
//! A step is one command on one connection. After it, every connection that is not inside MULTI is
//! sent a PING of its own: what comes before the answer is what the step made the server send there.
//! Pushes are compared apart from replies: 7.0.15 sends those to oneself before the reply, keylatch
//! behind it, as 7.2. Messages by several patterns are put in the order of the patterns.
//!
//! A fourth connection monitors; times and addresses are taken out of what it is shown. While CLIENT
//! PAUSE holds a connection's request back, it is left alone until the pause is over: that both
//! servers hold the same ones is compared too. `COUNTERS` is no command: it compares what was counted.

use std::fmt::Write;

use crate::check::Check;
use crate::common::draw::Draw;
use crate::common::resp::Value;
use crate::common::{Client, Server, is_keylatch};
use crate::grammar::{Bytes, Step};

/// The connection that listens; the others write, watch and track.
const LISTENER: usize = 1;
const MONITOR: usize = 3;
const CONNECTIONS: usize = 4;

const KEYS: &[&str] = &["a", "b", "ab", "lock:1", "lock:2"];
const CHANNELS: &[&str] =
    &["news", "lock:1", "__keyevent@0__:expired", "__keyevent@0__:set", "__keyspace@0__:a"];
const PATTERNS: &[&str] = &["*", "__key*", "n?ws", "lock:*", "__keyevent@1__:*"];

/// Short ones of everything, or long ones of writes: both in force would hold all, UNPAUSE too.
const PAUSES: [&[&str]; 2] = [
    &["CLIENT PAUSE 20", "CLIENT PAUSE 20 ALL", "CLIENT PAUSE -1"],
    &["CLIENT PAUSE 100000 WRITE", "CLIENT PAUSE 100000 write", "CLIENT PAUSE 1 NEVER"],
];

const START: &[&str] = &["--enable-debug-command", "yes"];

/// The two servers.
pub struct Pair {
    ours: Server,
    theirs: Server,
}

fn words(text: &str) -> Vec<Bytes> {
    text.split(' ').map(Into::into).collect()
}

/// One command of the listener's.
fn listening(draw: &mut Draw) -> (Vec<Bytes>, Check) {
    let text = match draw.below(16) {
        0..3 => format!("SUBSCRIBE {} {}", draw.pick(CHANNELS), draw.pick(CHANNELS)),
        3..5 => format!("PSUBSCRIBE {}", draw.pick(PATTERNS)),
        5 => format!("SSUBSCRIBE {}", draw.pick(CHANNELS)),
        6..8 => format!("UNSUBSCRIBE {}", draw.pick(CHANNELS)),
        8 => format!("PUNSUBSCRIBE {}", draw.pick(PATTERNS)),
        9 => draw.pick(&["PUNSUBSCRIBE", "SUNSUBSCRIBE nosuch", "SUBSCRIBE", "GET a", "MULTI x"]).to_owned(),
        10 => format!("SUNSUBSCRIBE {}", draw.pick(CHANNELS)),
        11 => "PING hello".to_owned(),
        12 => format!("PUBLISH {} self", draw.pick(CHANNELS)),
        _ => format!("GET {}", draw.pick(KEYS)),
    };
    (words(&text), Check::Exact)
}

/// One command of a writer's; `resp3`: it can be told of changed keys.
fn writing(draw: &mut Draw, resp3: bool, long_pauses: bool) -> (Vec<Bytes>, Check) {
    let key = draw.pick(KEYS);
    let other = draw.pick(KEYS);
    let mut check = Check::Exact;
    let text = match draw.below(72) {
        64..66 => "COUNTERS".to_owned(),
        66 => {
            check = Check::Timed;
            draw.pick(&["SLOWLOG GET 3", "SLOWLOG GET", "SLOWLOG GET 0", "SLOWLOG LEN", "SLOWLOG RESET"]).to_owned()
        }
        67 => {
            check = Check::Timed;
            draw.pick(&["LATENCY HISTOGRAM set get del", "LATENCY HISTOGRAM nosuch", "LATENCY LATEST", "LATENCY RESET", "LATENCY RESET a b"])
                .to_owned()
        }
        68 => draw
            .pick(PAUSES[usize::from(long_pauses)])
            .to_owned(),
        69..71 => "CLIENT UNPAUSE".to_owned(),
        71 => draw
            .pick(&[
                "AUTH default secret",
                "AUTH nobody secret",
                "CONFIG SET nosuch 1",
                "MSET 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36",
                "APPEND a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "PFADD h a b c",
                "PFMERGE h h2",
                "COPY a b DB 1 REPLACE",
            ])
            .to_owned(),
        0..6 => format!("SET {key} {}", draw.below(10)),
        6 => format!("SET {key} v PX 1000000"),
        // Past already: it goes when somebody meets it, with an event.
        7..9 => format!("SET {key} v PXAT {}", 1 + draw.below(5)),
        9..11 => format!("DEL {key} {other}"),
        11 => format!("INCR {key}"),
        12 => format!("APPEND {key} x"),
        13 => format!("EXPIRE {key} {}", draw.pick(&["1000", "-1", "0"])),
        14 => format!("PERSIST {key}"),
        15 => format!("RENAME {key} {other}"),
        16 => format!("COPY {key} {other} REPLACE"),
        17 => format!("MOVE {key} 1"),
        18 => format!("GETEX {key} {}", draw.pick(&["PERSIST", "EX 1000", "PXAT 1"])),
        19 => format!("GETDEL {key}"),
        20..24 => format!("GET {key}"),
        24..26 => format!("MGET {key} {other}"),
        26 => format!("EXISTS {key}"),
        27 => format!("SETRANGE {key} 1 z"),
        28 => format!("MSET {key} 1 {other} 2"),
        29 => draw.pick(&["FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "SWAPDB 0 2", "DBSIZE"]).to_owned(),
        30 => format!("SELECT {}", draw.pick(&["0", "0", "1"])),
        31..33 => {
            return (
                vec![
                    b"EVAL".to_vec(),
                    b"return redis.call('set',KEYS[1],'s')".to_vec(),
                    b"1".to_vec(),
                    key.into(),
                ],
                check,
            );
        }
        33..37 => format!("WATCH {key} {other}"),
        37 => "UNWATCH".to_owned(),
        38..42 => "MULTI".to_owned(),
        42..47 => "EXEC".to_owned(),
        47 => "DISCARD".to_owned(),
        48..51 => format!("PUBLISH {} m{}", draw.pick(CHANNELS), draw.below(100)),
        51 => format!("SPUBLISH {} s", draw.pick(CHANNELS)),
        52 => format!(
            "CONFIG SET notify-keyspace-events {}",
            draw.pick(&["KEA", "Ex", "KEg$x", "KEAm", "AK", "m", "KEAn", "KEAmn", "En"])
        ),
        53 => {
            check = Check::Unordered;
            draw.pick(&["PUBSUB CHANNELS n*", "PUBSUB CHANNELS __keyspace*", "PUBSUB SHARDCHANNELS x*"])
                .to_owned()
        }
        54 => format!(
            "PUBSUB {}",
            draw.pick(&["NUMPAT", "NUMSUB news lock:1", "SHARDNUMSUB news", "NUMSUB", "FOO", "NUMPAT x"])
        ),
        55 => draw
            .pick(&["WAIT 0 0", "ROLE", "REPLICAOF NO ONE", "CLUSTER INFO", "READONLY", "CLIENT UNPAUSE"])
            .to_owned(),
        56 => draw
            .pick(&[
                "WATCH",
                "EXEC x",
                "SLOWLOG GET x",
                "LATENCY HISTORY nosuch",
                "LATENCY GRAPH nosuch",
                "CLIENT PAUSE x",
            ])
            .to_owned(),
        57 => format!("TTL {key}"),
        _ if !resp3 => format!("GET {key}"),
        58 => "CLIENT TRACKINGINFO".to_owned(),
        59 => format!("CLIENT CACHING {}", draw.pick(&["YES", "NO"])),
        60 => "CLIENT TRACKING OFF".to_owned(),
        _ => format!(
            "CLIENT TRACKING ON{}",
            draw.pick(&[
                "",
                "",
                " NOLOOP",
                " OPTIN",
                " OPTOUT",
                " BCAST",
                " BCAST PREFIX a PREFIX lock:",
                " BCAST NOLOOP",
                " OPTIN BCAST"
            ])
        ),
    };
    if text.starts_with("TTL") {
        check = Check::Seconds;
    }
    (words(&text), check)
}

/// The stream that `seed` determines.
pub fn stream(seed: u64, count: usize) -> Vec<Step> {
    let mut draw = Draw::new(seed);
    let one = |_| {
        let connection = draw.below(CONNECTIONS);
        let (args, check) = match connection {
            LISTENER => listening(&mut draw),
            MONITOR => (words(draw.pick(&["PING", "MONITOR", "MONITOR", "RESET", "GET a"])), Check::Exact),
            _ => writing(&mut draw, speaks_resp3(seed, connection), seed & 8 == 0),
        };
        Step { connection, args, check }
    };
    (0..count).map(one).collect()
}

fn speaks_resp3(seed: u64, connection: usize) -> bool {
    connection != MONITOR && (seed >> connection) & 1 == 1
}

/// What a step made one server say on one connection.
#[derive(Default)]
struct Said {
    replies: Vec<Bytes>,
    pushes: Vec<Bytes>,
}

struct Side {
    clients: Vec<Client>,
    in_multi: Vec<bool>,
    /// Whose request CLIENT PAUSE holds back.
    held: Vec<bool>,
    /// Whether a pause may be in force.
    paused: bool,
    /// Who has queued a script. 7.0.15 crashes where a stale key is written during a pause, which EXEC
    /// of a script, or of CLIENT PAUSE and a write, lets happen: those are left out.
    script_queued: Vec<bool>,
    /// Asks how things stand; no step is made on it.
    admin: Client,
    ids: Vec<String>,
    /// `rdb_changes_since_last_save` at the beginning.
    changes: i64,
    syncs: usize,
}

impl Side {
    fn new(server: &Server, seed: u64) -> Side {
        let mut admin = server.client();
        let begin = [
            "CLIENT UNPAUSE",
            "FLUSHALL",
            "DEBUG SET-ACTIVE-EXPIRE 0",
            "CONFIG SET notify-keyspace-events KEAn slowlog-log-slower-than 0",
            "LATENCY RESET",
            "SLOWLOG RESET",
            "CONFIG RESETSTAT",
        ];
        for command in begin {
            let said = admin.say(command);
            assert!(!said.starts_with('-'), "{command}: {said}");
        }
        let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
        let ids = clients.iter_mut().map(|client| client.say("CLIENT ID")[1..].to_owned()).collect();
        for (connection, client) in clients.iter_mut().enumerate() {
            if speaks_resp3(seed, connection) {
                client.say("HELLO 3");
            }
        }
        let changes = figure(&mut admin, "rdb_changes_since_last_save");
        let none = vec![false; CONNECTIONS];
        let (in_multi, held, script_queued) = (none.clone(), none.clone(), none);
        Side { clients, in_multi, held, paused: false, script_queued, admin, ids, changes, syncs: 0 }
    }

    /// Runs one step; what came on each connection.
    fn step(&mut self, step: &Step) -> Vec<Said> {
        let mut said: Vec<Said> = (0..CONNECTIONS).map(|_| Said::default()).collect();
        let own = step.connection;
        if self.held[own] {
            return said;
        }
        if step.args == [b"COUNTERS"] {
            said[own].replies.push(self.counters());
            return said;
        }
        let name = step.args[0].to_ascii_uppercase();
        let pauses = &name[..] == b"CLIENT" && step.args[1] == b"PAUSE";
        let queues_script = self.in_multi[own] && &name[..] == b"EVAL";
        let queues_pause = pauses && self.in_multi[own];
        if queues_pause || pauses && self.script_queued.contains(&true) || queues_script && self.paused {
            return said;
        }
        // While something may be held back this very test asks with CLIENT LIST, by another connection: which
        // of the two comes first, and so stands in the slow log, is up to the server's turn.
        if self.paused && &name[..] == b"SLOWLOG" {
            return said;
        }
        self.paused |= pauses;
        self.script_queued[own] |= queues_script;
        self.clients[own].send(&step.args);
        self.find_held();
        if self.in_multi[own] || matches!(&name[..], b"MULTI" | b"EXEC" | b"DISCARD") {
            // One reply, whatever it is, and whenever.
            while !self.held[own] && said[own].replies.is_empty() {
                let Some(frame) = self.clients[own].frame() else { return said };
                sort_in(frame, &mut said[own]);
            }
            let good = said[own].replies.first().is_some_and(|reply| !reply.starts_with(b"-"));
            match &name[..] {
                b"MULTI" if good => self.in_multi[own] = true,
                b"EXEC" | b"DISCARD" if step.args.len() == 1 => {
                    (self.in_multi[own], self.script_queued[own]) = (false, false);
                }
                _ => {}
            }
        }
        // Twice: what is sent at the end of the server's turn may come behind the first answer.
        for _ in 0..2 {
            for (connection, said) in said.iter_mut().enumerate() {
                if !self.in_multi[connection] && !self.held[connection] {
                    self.sync(connection, said);
                }
            }
        }
        let ends = &name[..] == b"CLIENT" && step.args[1].eq_ignore_ascii_case(b"UNPAUSE");
        if ends
            && said[own].replies.first().is_some_and(|reply| reply == b"+OK\r\n")
            && !self.held.contains(&true)
        {
            self.paused = false;
        }
        for (said, held) in said.iter_mut().zip(&self.held) {
            if *held {
                said.replies.push(b"(held)".to_vec());
            }
        }
        said
    }

    /// Whose request is held back. Asked twice: the step's bytes and the first question may have
    /// reached the server in one turn.
    fn find_held(&mut self) {
        if !self.paused {
            return;
        }
        for _ in 0..2 {
            let list = self.admin.value(&["CLIENT", "LIST"]).text();
            for (held, id) in self.held.iter_mut().zip(&self.ids) {
                let line = list.lines().find(|line| line.starts_with(&format!("id={id} ")));
                let flags = line.and_then(|line| line.split_once(" flags=")?.1.split(' ').next());
                *held = flags.is_some_and(|flags| flags.contains('b'));
            }
        }
    }

    /// What the server has counted since the stream began.
    fn counters(&mut self) -> Bytes {
        let changes = figure(&mut self.admin, "rdb_changes_since_last_save") - self.changes;
        let mut text = format!("changes={changes}");
        for name in ["expired_keys", "keyspace_hits", "keyspace_misses", "total_error_replies"] {
            write!(text, " {name}={}", figure(&mut self.admin, name)).expect("a String takes all");
        }
        for section in ["commandstats", "errorstats"] {
            let all = self.admin.value(&["INFO", section]).text();
            let mut lines: Vec<String> = all
                .lines()
                .filter(|line| line.starts_with("cmdstat_") || line.starts_with("errorstat_"))
                .map(|line| {
                    // Times are each server's own.
                    let parts = line.split(',').filter(|part| !part.starts_with("usec"));
                    parts.collect::<Vec<_>>().join(",")
                })
                .collect();
            lines.sort();
            write!(text, " {}", lines.join(" ")).expect("a String takes all");
        }
        text.into_bytes()
    }

    fn sync(&mut self, connection: usize, said: &mut Said) {
        self.syncs += 1;
        let word = format!("sync-{}", self.syncs);
        self.clients[connection].send(&["PING", &word]);
        while let Some(frame) = self.clients[connection].frame() {
            match (shown_by_monitor(&frame), frame.windows(word.len()).any(|part| part == word.as_bytes())) {
                (Some(shown), _) if shown.contains("\"sync-") => {}
                (Some(shown), _) => said.replies.push(self.without_addresses(&shown).into_bytes()),
                (None, true) => return,
                (None, false) => sort_in(frame, said),
            }
        }
        said.replies.push(b"(connection closed)".to_vec());
    }

    /// A monitor's line with each connection's number in place of its address.
    fn without_addresses(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (number, client) in self.clients.iter().chain([&self.admin]).enumerate() {
            if let Ok(address) = client.stream.local_addr() {
                line = line.replace(&format!(" {address}]"), &format!(" {number}]"));
            }
        }
        line
    }
}

/// A line of INFO.
fn figure(client: &mut Client, name: &str) -> i64 {
    let text = client.value(&["INFO", "everything"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
}

/// What a monitor is shown, without the time; `None`: the frame is something else.
fn shown_by_monitor(frame: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(frame.strip_prefix(b"+")?).ok()?.trim_end();
    let (time, rest) = line.split_once(' ')?;
    let (seconds, micros) = time.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (digits(seconds) && micros.len() == 6 && digits(micros)).then(|| rest.to_owned())
}

/// The words of a push; `None`: it is a reply.
fn push_words(frame: &[u8]) -> Option<Vec<Value>> {
    let (value, _) = Value::parse(frame)?;
    let words = value.items()?.to_vec();
    let pushed: [&[u8]; 4] = [b"message", b"pmessage", b"smessage", b"invalidate"];
    let is_push = frame.starts_with(b">")
        || words.first().and_then(Value::bytes).is_some_and(|word| pushed.contains(&word));
    is_push.then_some(words)
}

fn sort_in(frame: Bytes, said: &mut Said) {
    if push_words(&frame).is_some() { said.pushes.push(frame) } else { said.replies.push(frame) }
}

/// Messages by patterns in the order of the patterns, all else as it came.
fn in_order(pushes: &[Bytes]) -> Vec<&Bytes> {
    let pattern = |frame: &Bytes| match push_words(frame).as_deref() {
        Some([Value::Bulk(kind), Value::Bulk(pattern), ..]) if kind == b"pmessage" => pattern.clone(),
        _ => Vec::new(),
    };
    let mut ordered: Vec<&Bytes> = pushes.iter().collect();
    ordered.sort_by_key(|frame| pattern(frame));
    ordered
}

fn same(step: &Step, own: bool, ours: &Said, theirs: &Said) -> bool {
    let replies = ours.replies.len() == theirs.replies.len()
        && ours.replies.iter().zip(&theirs.replies).all(|(a, b)| {
            let check = if own { step.check } else { Check::Exact };
            // Inside MULTI a check of one command would be held against a whole EXEC.
            a == b || check.same(a, b) || Check::Seconds.same(a, b) || Check::Timed.same(a, b)
        });
    replies && in_order(&ours.pushes) == in_order(&theirs.pushes)
}

impl Pair {
    pub fn start() -> Pair {
        let mut ours = START.to_vec();
        if is_keylatch() {
            ours.extend(["--compat-version", "7.0.15"]);
        }
        Pair { ours: Server::start(&ours), theirs: Server::redis(START) }
    }

    /// The first step that the servers answer differently, and what they said on which connection.
    fn difference(&self, seed: u64, steps: &[Step]) -> Option<(usize, String)> {
        let mut ours = Side::new(&self.ours, seed);
        let mut theirs = Side::new(&self.theirs, seed);
        for (at, step) in steps.iter().enumerate() {
            let (a, b) = (ours.step(step), theirs.step(step));
            if let Some(who) = [(&mut ours, "keylatch"), (&mut theirs, "redis-server")]
                .into_iter()
                .find_map(|(side, who)| (side.admin.say("PING") != "+PONG").then_some(who))
            {
                return Some((at, format!("  {who} is gone")));
            }
            for (connection, (a, b)) in a.iter().zip(&b).enumerate() {
                if !same(step, connection == step.connection, a, b) {
                    let shown = |said: &Said| {
                        let all = said.replies.iter().chain(in_order(&said.pushes));
                        all.map(|frame| frame.escape_ascii().to_string()).collect::<Vec<_>>().join(" | ")
                    };
                    let told = format!(
                        "  on connection {connection}\n  keylatch:     {}\n  redis-server: {}",
                        shown(a),
                        shown(b)
                    );
                    return Some((at, told));
                }
            }
        }
        None
    }

    /// The shortest list of `stream`'s steps found that still shows a difference, as text.
    pub fn find(&self, seed: u64, stream: &[Step]) -> Option<String> {
        let (at, mut told) = self.difference(seed, stream)?;
        let mut kept = stream[..=at].to_vec();
        let mut chunk = kept.len().div_ceil(2);
        loop {
            let mut start = 0;
            while start + 1 < kept.len() {
                let end = (start + chunk).min(kept.len() - 1);
                let fewer = [&kept[..start], &kept[end..]].concat();
                match self.difference(seed, &fewer) {
                    Some((at, text)) if at + 1 == fewer.len() => (kept, told) = (fewer, text),
                    _ => start = end,
                }
            }
            if chunk == 1 {
                break;
            }
            chunk = chunk.div_ceil(2);
        }
        let mut text = format!("== seed {seed}, {} steps\n", kept.len());
        for step in &kept {
            let args: Vec<String> = step.args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
            writeln!(text, "{}> {}", step.connection, args.join(" "))
                .expect("a String takes all that is written to it");
        }
        Some(text + &told)
    }
}
