//! The book of locks as a client sees it, in memory and on a clock that is moved. Not here: client
//! libraries and sockets (tests/findings.rs), what takes a lock from its holder (`lock_loss_tests`).

use super::several::Room;
use crate::engine::locks::findings::Mistake;
use crate::engine::locks::view::{Finding, shown};

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const RENEW: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

/// A room with a book, and what is said in it.
pub(super) struct Story {
    room: Room,
}

impl Story {
    pub(super) fn new() -> Story {
        Story::with(&[("lock-history-len", "1000")])
    }

    pub(super) fn with(params: &[(&str, &str)]) -> Story {
        Story { room: Room::new(params) }
    }

    /// Runs steps (`A> …`, `@advance …`) whatever is answered.
    pub(super) fn tell(&mut self, steps: &str) -> &mut Story {
        for line in steps.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let line = line
                .replace("$RELEASE", &format!("\"{RELEASE}\""))
                .replace("$RENEW", &format!("\"{RENEW}\""));
            for said in self.room.step(&line) {
                assert!(!said.contains(": -"), "{line}: {said}");
            }
        }
        self
    }

    pub(super) fn all(&mut self) -> Vec<Finding> {
        self.room.core().findings(false).expect("a book is kept")
    }

    /// The findings as `kind key`, in order.
    pub(super) fn found(&mut self) -> Vec<String> {
        self.all().iter().map(|f| format!("{} {}", f.mistake.name(), shown(&f.key))).collect()
    }

    /// The history of `key` as `at event token`.
    pub(super) fn history(&mut self, key: &str) -> Vec<String> {
        let book = self.room.core().open_book().expect("a book is kept");
        let events = book.events(Some((0, key.as_bytes())));
        events
            .iter()
            .map(|e| format!("{} {} {} {}", e.at - 1_000_000, e.what.name(), e.client.id, shown(&e.token)))
            .collect()
    }
}

/// These steps give these findings.
pub(super) fn finds(steps: &str, findings: &[&str]) {
    let mut story = Story::new();
    story.tell(steps);
    assert_eq!(story.found(), findings, "{steps}");
}

/// These steps are as they should be.
pub(super) fn is_right(steps: &str) {
    finds(steps, &[]);
}

#[test]
fn without_a_book_the_parameter_is_named() {
    let mut room = Room::new(&[("enable-test-commands", "yes")]);
    for ask in ["LOCKS", "HISTORY k", "FINDINGS", "GUARD a b"] {
        let said = room.step(&format!("A> KEYLATCH {ask}"));
        assert!(said[0].starts_with("A: -ERR No history of locks is kept: set lock-history-len"), "{said:?}");
    }
    assert!(room.core().book.is_none());
}

#[test]
fn holders_and_what_happened() {
    let mut story = Story::new();
    story.tell(
        "A> CLIENT SETNAME worker
        A> SET lock one NX PX 1000
        B> SET lock two NX PX 1000
        @advance 400
        B> SET lock two NX PX 1000
        A> EVAL $RENEW 1 lock one 1000
        @advance 100",
    );
    let held = story.room.core().open_book().expect("a book").held(b"*");
    assert_eq!(held.len(), 1);
    let lock = &held[0];
    assert_eq!((&lock.key[..], &lock.token[..], lock.db), (&b"lock"[..], &b"one"[..], 0));
    assert_eq!((lock.holder.id, &lock.holder.name[..]), (1, &b"worker"[..]));
    assert_eq!((lock.since, lock.deadline), (1_000_000, Some(1_001_400)));
    assert_eq!((lock.renewals, lock.refused), (1, 2));
    story.tell(
        "@advance 5000
        B> SET lock two NX PX 1000
        B> EVAL $RELEASE 1 lock two
        A> SET lock three NX PX 1000
        A> SET lock four PX 1000
        A> DELIFEQ lock four",
    );
    assert_eq!(
        story.history("lock"),
        [
            "0 acquired 1 one",
            "0 refused 2 two",
            "400 refused 2 two",
            "400 renewed 1 one",
            "1400 expired 1 one",
            "5500 acquired 2 two",
            "5500 released 2 two",
            "5500 acquired 1 three",
            "5500 overwritten 1 four",
            "5500 released 1 four",
        ]
    );
    assert!(story.room.core().open_book().expect("a book").held(b"*").is_empty());
    assert_eq!(story.found(), [""; 0]);
}

#[test]
fn replies_are_maps() {
    let mut room = Room::new(&[("lock-history-len", "10"), ("enable-test-commands", "yes")]);
    room.check(
        r"
        A> SET lock:a one NX PX 1000
        A: +OK
        A> KEYLATCH LOCKS MATCH none*
        A: *0
        A> KEYLATCH LOCKS MATCH lock:*
        A: *1 *20 $3 key $6 lock:a $2 db :0 $5 token $3 one $9 client-id :1 $11 client-name $0  $11 client-addr $11 10.0.0.1:65 $5 since :1000000 $8 deadline :1001000 $8 renewals :0 $7 refused :0
        A> KEYLATCH HISTORY lock:a COUNT 1
        A: *1 *16 $5 event $8 acquired $2 at :1000000 $9 client-id :1 $11 client-name $0  $11 client-addr $11 10.0.0.1:65 $5 token $3 one $8 deadline :1001000 $7 command $25 SET lock:a one NX PX 1000
        A> KEYLATCH HISTORY none
        A: *0
        A> KEYLATCH HISTORY lock:a COUNT 0
        A: -ERR value is out of range
        A> KEYLATCH HISTORY lock:a 5
        A: -ERR syntax error
        A> KEYLATCH FINDINGS
        A: *0
        A> KEYLATCH GUARD lock:* data:*
        A: +OK
        A> KEYLATCH RESET
        A: +OK
        A> KEYLATCH LOCKS
        A: *0
        A> KEYLATCH HISTORY lock:a
        A: *0
        A> CONFIG SET lock-history-len 0
        A: +OK
        A> KEYLATCH FINDINGS
        A: -ERR No history of locks is kept: set lock-history-len to how many events are to be kept (CONFIG SET lock-history-len 10000)
        ",
    );
}

#[test]
fn memory_is_bounded() {
    let mut story = Story::with(&[("lock-history-len", "20")]);
    for i in 0..500 {
        story.tell(&format!("A> SET lock:{i} t{i} NX PX 100000"));
    }
    let book = story.room.core().open_book().expect("a book");
    assert_eq!(book.events(None).len(), 20);
    assert!(book.held(b"*").len() <= 20, "{}", book.held(b"*").len());
    for i in 0..2000 {
        story.tell(&format!("A> KEYS {i}*"));
    }
    assert_eq!(story.all().len(), 1000);
    assert_eq!(story.room.core().open_book().expect("a book").lost_findings, 1000);
}

#[test]
fn what_is_a_lock() {
    // Written without a condition, counted, or cached by a script without a deadline: none.
    is_right("A> SET k v\nA> DEL k\nA> INCR n\nA> DEL n\nA> EXPIRE k 0\nA> EXPIRE none 10");
    // Made by SETNX, then counted: a counter.
    is_right("A> SETNX n 0\nA> INCR n\nA> EXPIRE n 10\nA> DEL n\n@leave A");
    // By its name.
    let mut story = Story::with(&[("lock-history-len", "100"), ("lock-pattern", "lock:*")]);
    story.tell(
        "A> SET lock:a t PX 1000\nA> DEL lock:a\nA> SET other t NX PX 1000\nA> DEL other\nA> INCR lock:fence",
    );
    assert_eq!(story.found(), ["bare-delete lock:a"]);
    // In other databases, and where databases change places.
    let mut story = Story::new();
    story.tell("A> SELECT 3\nA> SET lock t NX PX 1000\nA> SWAPDB 3 4\nA> SELECT 4\nA> DEL lock");
    assert_eq!(story.found(), ["bare-delete lock"]);
    assert_eq!(story.all()[0].db, 4);
}

#[test]
fn right_patterns_raise_nothing() {
    for release in ["EVAL $RELEASE 1 lock one", "DELEX lock IFEQ one", "DELIFEQ lock one"] {
        for renew in [
            "EVAL $RENEW 1 lock one 2000",
            "SET lock one IFEQ one PX 2000",
            "PEXPIRE lock 2000 IFEQ one",
            "EXPIRE lock 2 IFEQ one",
        ] {
            is_right(&format!(
                "A> SET lock one NX PX 1000
                A> INCR fence:lock
                B> SET lock two NX PX 1000
                @advance 500
                A> {renew}
                @advance 700
                A> SET data 1
                A> {release}
                B> SET lock two NX PX 1000
                B> EVAL $RELEASE 1 lock two
                A> SET lock three NX EX 1
                @advance 2000
                B> SET lock four NX PXAT 2000000
                B> DELEX lock IFEQ four
                @leave A
                @leave B"
            ));
        }
    }
    // WATCH, compare, MULTI.
    is_right(
        "A> SET lock one NX PX 1000\nA> WATCH lock\nA> GET lock\nA> MULTI\nA> PEXPIRE lock 3000\nA> EXEC
        A> WATCH lock\nA> GET lock\nA> MULTI\nA> DEL lock\nA> EXEC",
    );
    // A function.
    is_right(
        r##"A> FUNCTION LOAD "#!lua name=l\nredis.register_function('release', function(keys, args) if redis.call('GET', keys[1]) == args[1] then return redis.call('DEL', keys[1]) end return 0 end)"
        A> SET lock one NX PX 1000
        A> FCALL release 1 lock two
        A> FCALL release 1 lock one"##,
    );
    // As node's redlock takes, extends and releases several.
    is_right(
        r#"A> EVAL "for _, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS" 2 a b one 1000
        A> EVAL "for _, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return 0 end end for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS" 2 a b one 5000
        A> EVAL "local n = 0 for _, key in ipairs(KEYS) do if redis.call('get', key) == ARGV[1] then redis.call('del', key) n = n + 1 end end return n" 2 a b one"#,
    );
    let mut story = Story::new();
    let take = r#"A> EVAL "if redis.call('exists', KEYS[1]) == 1 then return 0 end return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])" 1 lock one 1000"#;
    story.tell(&format!("{take}\n{}", take.replace("A>", "B>").replace("one", "two")));
    assert_eq!(story.history("lock"), ["0 acquired 1 one", "0 refused 2 "]);
    // In one script nothing can come between two steps.
    is_right(
        r#"A> EVAL "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then redis.call('pexpire', KEYS[1], 100) end" 1 lock one"#,
    );
    // An acquisition whose reply was lost, tried again by a new connection until it has expired.
    is_right(
        "A> SET lock one NX PX 100\n@leave A\nB> SET lock one NX PX 100\n@advance 100\nB> SET lock one NX PX 100\nB> DELIFEQ lock one",
    );
    // Released twice: the second time there was nothing to be late for.
    is_right(
        "A> SET lock one NX PX 100\nA> EVAL $RELEASE 1 lock one\nA> EVAL $RELEASE 1 lock one\nA> DELIFEQ lock one",
    );
}

#[test]
fn two_step_acquire() {
    finds("A> SETNX lock one\nA> EXPIRE lock 10\nA> DELIFEQ lock one", &["two-step-acquire lock"]);
    finds("A> SET lock one NX\nA> PEXPIRE lock 10 IFEQ one\nA> DELIFEQ lock one", &["two-step-acquire lock"]);
    let mut story = Story::new();
    story.tell("A> SETNX lock one\n@advance 7\nA> EXPIRE lock 10");
    let found = &story.all()[0];
    assert_eq!(found.commands, ["SETNX lock one", "EXPIRE lock 10"]);
    assert!(found.detail.contains("7 ms later"), "{}", found.detail);
    assert_eq!((found.client.id, found.at), (1, 1_000_007));
    is_right("A> SET lock one NX PX 100\nA> PEXPIRE lock 500\nA> DELIFEQ lock one");
}

#[test]
fn no_deadline() {
    finds("A> SET lock one NX\n@leave A", &["no-deadline lock"]);
    finds("A> SETNX lock one", &["no-deadline lock"]);
    finds("A> SETNX lock one\nA> FLUSHALL", &["no-deadline lock"]);
    finds("A> SET lock one NX PX 100\nA> PERSIST lock\n@leave A", &["no-deadline lock"]);
    finds("A> SET lock one NX PX 100\nA> SET lock one IFEQ one\n@leave A", &["no-deadline lock"]);
    is_right("A> SET lock one NX\nA> DELIFEQ lock one\n@leave A");
    is_right("A> SET lock one NX PX 100\n@leave A");
    // Asked twice, told once.
    let mut story = Story::new();
    story.tell("A> SETNX lock one");
    assert_eq!((story.found().len(), story.all()[0].times), (1, 1));
}

#[test]
fn overrun() {
    let lost = "A> SET lock one NX PX 100\n@advance 150\n";
    for late in [
        "EVAL $RELEASE 1 lock one",
        "DELIFEQ lock one",
        "DELEX lock IFEQ one",
        "DEL lock",
        "DELEX lock",
        "EVAL $RENEW 1 lock one 100",
        "SET lock one IFEQ one PX 100",
        "SET lock one XX PX 100",
    ] {
        finds(&format!("{lost}A> {late}"), &["overrun lock"]);
    }
    let taken = format!("{lost}B> SET lock two NX PX 100\n");
    for late in ["EVAL $RELEASE 1 lock one", "DELIFEQ lock one", "EVAL $RENEW 1 lock one 100"] {
        finds(&format!("{taken}A> {late}\nB> DELIFEQ lock two"), &["overrun lock"]);
        // Known by the token, whichever connection of a pool it comes by.
        finds(&format!("{taken}C> {late}"), &["overrun lock"]);
    }
    finds(&format!("{taken}A> PEXPIRE lock 100"), &["overrun lock"]);
    finds(&format!("{taken}A> DEL lock"), &["foreign-release lock", "overrun lock"]);
    finds(&format!("{lost}A> PEXPIRE lock 100"), &["missed-renewal lock"]);
    let mut story = Story::new();
    story.tell(&format!("{lost}A> DELIFEQ lock one"));
    assert!(story.all()[0].detail.contains("expired 50 ms before"), "{}", story.all()[0].detail);
    assert_eq!(story.all()[0].commands, ["SET lock one NX PX 100", "DELIFEQ lock one"]);
    // Overwritten by another.
    finds(
        "A> SET lock one NX PX 100\nB> SET lock thief PX 100\nA> EVAL $RELEASE 1 lock one",
        &["foreign-release lock", "overrun lock"],
    );
    // Expired and taken anew by the same client: it holds it.
    is_right(&format!("{lost}A> SET lock two NX PX 100\nA> DELIFEQ lock two"));
    is_right(&format!("{lost}A> SET lock new XX PX 100\nA> MSETEX 1 lock new XX PX 100"));
    is_right(&format!("{lost}A> GET lock\nB> SET lock two NX PX 100\nB> DELIFEQ lock two"));
}

#[test]
fn missed_renewal() {
    finds("A> SET lock one NX PX 100\nA> DELIFEQ lock one\nA> EXPIRE lock 10", &["missed-renewal lock"]);
    finds("A> SET lock one NX PX 100\nB> PEXPIRE lock 10 IFEQ two", &["missed-renewal lock"]);
    // Late and answered 0 is one mistake, told by what was answered; it says what it was late for.
    let lost = "A> SET lock one NX PX 100\n@advance 150\n";
    for late in ["PEXPIRE lock 100", "EXPIREAT lock 5000", "PEXPIRE lock 100 IFEQ one"] {
        let mut story = Story::new();
        story.tell(&format!("{lost}A> {late}"));
        assert_eq!(story.found(), ["missed-renewal lock"], "{late}");
        let found = &story.all()[0];
        assert!(found.detail.ends_with("0: its lock had expired 50 ms before, and was nobody's by then"));
        assert_eq!(found.commands, ["SET lock one NX PX 100", late]);
    }
    let mut story = Story::new();
    story.tell(&format!("{lost}B> SET lock two NX PX 100\nA> PEXPIRE lock 100 IFEQ one"));
    assert_eq!(story.found(), ["missed-renewal lock"]);
    assert!(story.all()[0].detail.ends_with("50 ms before, and was client 2's by then"));
    is_right("A> SET lock one NX PX 100\nA> PEXPIRE lock 50 GT\nA> PEXPIRE lock 50 NX\nA> EXPIRE none 10");
    is_right("A> SET lock one NX PX 100\nA> PEXPIRE lock 100");
}

#[test]
fn renewal_that_deletes() {
    for renew in [
        "EXPIRE lock 0",
        "PEXPIRE lock -5",
        "EXPIREAT lock 1",
        "PEXPIRE lock 0 IFEQ one",
        "EVAL $RENEW 1 lock one 0",
        "GETEX lock PXAT 1",
        "GETEX lock EXAT 1",
        "SET lock one XX PXAT 1",
        "SET lock one IFEQ one PXAT 1",
    ] {
        finds(&format!("A> SET lock one NX PX 100\nA> {renew}"), &["renewal-that-deletes lock"]);
    }
    is_right("A> SET lock one NX PX 100\nA> EXPIRE lock 1");
    is_right("A> SET lock one NX PX 100\nA> GETEX lock PX 100");
}

#[test]
fn shared_token() {
    finds(
        "A> SET lock 1 NX PX 100\nA> DELIFEQ lock 1\nB> SET lock 1 NX PX 100\nB> DELIFEQ lock 1",
        &["shared-token lock"],
    );
    finds(
        "A> SET lock me NX PX 100\nA> DELIFEQ lock me\nA> SET lock me NX PX 100\nA> DELIFEQ lock me",
        &["shared-token lock"],
    );
    finds("A> SET a me NX PX 100\nB> SET b me NX PX 100", &["shared-token b"]);
    // A Redlock that did not win the majority gives up here and tries again, with its random token;
    // one that works in between has one token for all that it does.
    let (token, used) = ("f81d4fae7dec11d0a76500a0c91e6bf6", "A> SET data 1\n");
    let twice = |between: &str| {
        let once = format!("A> SET lock {token} NX PX 100\n{between}A> EVAL $RELEASE 1 lock {token}\n");
        format!("{once}{once}")
    };
    is_right(&twice(""));
    finds(&twice(used), &["shared-token lock"]);
    // One owner's several locks; another test after a clean-up.
    is_right("A> SET a me NX PX 100\nA> SET b me NX PX 100");
    is_right("A> SET a me NX PX 100\nA> FLUSHALL\nB> SET a me NX PX 100\nB> FLUSHDB\nB> SET b me NX PX 100");
    is_right("A> SET a one NX PX 100\nB> SET b two NX PX 100");
}

#[test]
fn lockstep_retry() {
    let again = |ms: &[i64]| {
        let tries = ms.iter().map(|ms| format!("@advance {ms}\nB> SET lock two NX PX 100\n"));
        format!("A> SET lock one NX PX 60000\n{}", tries.collect::<String>())
    };
    finds(&again(&[100; 5]), &["lockstep-retry lock"]);
    is_right(&again(&[100; 4]));
    is_right(&again(&[100, 117, 93, 140, 101, 88, 130]));
    is_right(&again(&[0; 9]));
    let mut story = Story::new();
    story.tell(&again(&[100; 9]));
    let found = &story.all()[0];
    assert_eq!((found.times, found.client.id), (5, 2));
    assert!(found.detail.contains("every 100 ms"), "{}", found.detail);
}

#[test]
fn keys_walk() {
    finds("A> KEYS lock:*", &["keys-walk lock:*"]);
    finds("A> EVAL \"return redis.call('keys', '*')\" 0", &["keys-walk *"]);
    is_right("A> SCAN 0 MATCH lock:* COUNT 100");
}

#[test]
fn expired_owner_write() {
    let guarded = "A> KEYLATCH GUARD lock:* order:*\nA> SET lock:7 one NX PX 100\nA> SET order:7 a\n";
    let story = |steps: &str| {
        let mut story = Story::with(&[("lock-history-len", "100"), ("enable-test-commands", "yes")]);
        story.tell(&format!("{guarded}{steps}"));
        story.found()
    };
    assert_eq!(story("@advance 150\nA> SET order:7 b"), ["expired-owner-write order:7"]);
    assert_eq!(
        story("@advance 150\nB> SET lock:7 two NX PX 100\nA> APPEND order:7 b"),
        ["expired-owner-write order:7"]
    );
    let right = [
        "A> SET order:7 b",
        "A> DELIFEQ lock:7 one\nA> SET order:7 b",
        "@advance 150\nA> SET order:8 b",
        "@advance 150\nA> GET order:7",
        "@advance 150\nB> SET order:7 b",
        "@advance 150\nA> SET lock:7 two NX PX 100\nA> SET order:7 b",
        // The resource refuses an older fencing token: nothing is written.
        "@advance 150\nA> EVAL \"if tonumber(ARGV[1]) < 2 then return 0 end redis.call('set', KEYS[1], ARGV[2])\" 1 order:7 1 b",
    ];
    for steps in right {
        assert_eq!(story(steps), [""; 0], "{steps}");
    }
}

#[test]
fn findings_are_forgotten_when_asked() {
    let mut story = Story::with(&[("lock-history-len", "100"), ("enable-test-commands", "yes")]);
    story.tell("A> SET lock one NX PX 100\nA> DEL lock\nA> KEYLATCH FINDINGS RESET");
    assert!(story.found().is_empty());
    story.tell("A> SET lock one NX PX 100\nA> DEL lock\nA> KEYLATCH RESET");
    assert!(story.found().is_empty());
    // What a test before has shown is there for the end of the whole run.
    let all = story.room.core().findings(true).expect("a book");
    let kinds: Vec<Mistake> = all.iter().map(|finding| finding.mistake).collect();
    assert_eq!(kinds, [Mistake::SharedToken, Mistake::BareDelete]);
}

#[test]
fn every_mistake_is_documented() {
    let page = include_str!("../../docs/findings.md");
    for mistake in Mistake::ALL {
        assert!(page.contains(&format!("| `{}` |", mistake.name())), "{}", mistake.name());
    }
}
