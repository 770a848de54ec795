//! What takes a lock from its holder: deleted, overwritten, changed in part or moved away, and what does
//! not. Not here: the other mistakes (`locks_tests`).

use super::locks_tests::{Story, finds, is_right};

#[test]
fn bare_delete_and_foreign_release() {
    for delete in [
        "DEL lock",
        "UNLINK lock",
        "DEL other lock",
        "GETDEL lock",
        "DELEX lock",
        "EVAL \"redis.call('del', KEYS[1])\" 1 lock",
    ] {
        finds(&format!("A> SET lock one NX PX 100\nA> {delete}"), &["bare-delete lock"]);
        finds(&format!("A> SET lock one NX PX 100\nB> {delete}"), &["foreign-release lock"]);
        is_right(&format!("A> SET lock one NX PX 100\nA> DELIFEQ lock one\nA> {delete}"));
    }
    // Compared by the client, between two requests: that is the race.
    finds("A> SET lock one NX PX 100\nA> GET lock\nA> DEL lock", &["bare-delete lock"]);
    finds("A> SET lock one NX PX 100\nA> GET lock\nA> MULTI\nA> DEL lock\nA> EXEC", &["bare-delete lock"]);
    finds("A> SET lock one NX PX 100\nA> WATCH lock\nA> MULTI\nA> DEL lock\nA> EXEC", &["bare-delete lock"]);
    // Two connections of one name are one user of the lock.
    finds(
        "A> CLIENT SETNAME w\nB> CLIENT SETNAME w\nA> SET lock one NX PX 100\nB> DEL lock",
        &["bare-delete lock"],
    );
    // Verified, whoever sends it.
    is_right("A> SET lock one NX PX 100\nB> EVAL $RELEASE 1 lock one");
}

#[test]
fn taken_over_is_a_foreign_release() {
    let taken = "A> SET lock one NX PX 100\nC> SET other x\n";
    for (take, what) in [
        ("SET lock two", "overwrote"),
        ("SET lock two XX KEEPTTL", "overwrote"),
        ("SET lock two PX 100 GET", "overwrote"),
        ("SET lock two IFNE two", "overwrote"),
        ("GETSET lock two", "overwrote"),
        ("SETEX lock 10 two", "overwrote"),
        ("PSETEX lock 10 two", "overwrote"),
        ("MSET a 1 lock two", "overwrote"),
        ("MSETEX 2 a 1 lock two PX 100", "overwrote"),
        ("APPEND lock two", "overwrote"),
        ("SETRANGE lock 1 wo", "overwrote"),
        ("SETBIT lock 1 0", "overwrote"),
        ("BITFIELD lock SET u8 0 1", "overwrote"),
        ("BITOP NOT lock other", "overwrote"),
        ("COPY other lock REPLACE", "overwrote"),
        ("RENAME other lock", "overwrote"),
        ("RENAME lock elsewhere", "moved away"),
        ("RENAMENX lock elsewhere", "moved away"),
        ("MOVE lock 1", "moved away"),
        ("BITOP NOT lock none", "deleted"),
        ("EVAL \"redis.call('set', KEYS[1], 'two', 'px', 100)\" 1 lock", "overwrote"),
        ("EVAL \"redis.call('exists', KEYS[1]) redis.call('append', KEYS[1], 'two')\" 1 lock", "overwrote"),
    ] {
        let mut story = Story::new();
        story.tell(&format!("{taken}B> {take}"));
        assert_eq!(story.found(), ["foreign-release lock"], "{take}");
        let found = &story.all()[0];
        assert!(found.detail.contains(&format!("client 3 {what} the lock that client 1 held")), "{found:?}");
        assert_eq!((found.client.id, &found.commands[0][..]), (3, "SET lock one NX PX 100"));
        // Its holder comes too late then.
        story.tell("A> EVAL $RELEASE 1 lock one");
        assert_eq!(story.found(), ["foreign-release lock", "overrun lock"], "{take}");
        // What its holder writes is its own affair, but for a deadline that it drops; and a lock that
        // is free is nobody's.
        let without_undated = |steps: &str| {
            let mut story = Story::new();
            story.tell(steps);
            let found = story.found();
            found.into_iter().filter(|found| !found.starts_with("no-deadline")).collect::<Vec<_>>()
        };
        let own = if what == "overwrote" { &[][..] } else { &["bare-delete lock"] };
        assert_eq!(without_undated(&format!("{taken}A> {take}")), own, "{take}");
        if !take.starts_with("RENAME") {
            assert_eq!(without_undated(&format!("{taken}A> DELIFEQ lock one\nB> {take}")), [""; 0], "{take}");
        }
    }
    // Overwritten by who had lost it: its renewal without a comparison takes the lock from another.
    finds(
        "A> SET lock one NX PX 100\n@advance 150\nB> SET lock two NX PX 100\nA> SET lock one XX PX 100",
        &["foreign-release lock", "overrun lock"],
    );
    // A serialized value over it.
    let mut story = Story::new();
    story.tell(&format!(
        "{taken}B> EVAL \"redis.call('restore', KEYS[1], 0, redis.call('dump', 'other'), 'REPLACE')\" 1 lock"
    ));
    assert_eq!(story.found(), ["foreign-release lock"]);
}

#[test]
fn what_takes_no_lock_from_anybody() {
    let taken = "A> SET lock one NX PX 100\nB> SET other x\n";
    for right in [
        // Compared, in one step with the write.
        "B> SET lock two IFEQ one PX 100",
        "B> EVAL \"if redis.call('get', KEYS[1]) == 'one' then redis.call('set', KEYS[1], 'two', 'px', 100) end\" 1 lock",
        "B> WATCH lock\nB> GET lock\nB> MULTI\nB> SET lock two PX 100\nB> EXEC",
        // The same token: a pool's other connection renews.
        "B> SET lock one PX 200",
        "B> SET lock one XX PX 200",
        // Read, refused, or another database.
        "B> COPY lock elsewhere",
        "B> COPY other lock",
        "B> RENAMENX other lock",
        "B> SET lock two NX GET",
        "B> SET lock two IFEQ three",
        "B> COPY other lock DB 1 REPLACE",
        "B> GETRANGE lock 0 1\nB> APPEND elsewhere x\nB> RENAME other elsewhere",
        // It is over.
        "@advance 100\nB> SET lock two PX 100\nB> APPEND lock more",
        "A> DELIFEQ lock one\nB> SET lock two PX 100\nB> APPEND lock three\nB> PEXPIRE lock 100",
    ] {
        is_right(&format!("{taken}{right}"));
    }
    // One user of two connections.
    is_right(
        "A> CLIENT SETNAME w\nB> CLIENT SETNAME w\nA> SET lock one NX PX 100\nB> SET lock two XX PX 100",
    );
    // A limit on how often, and a counter: whoever counts.
    is_right("A> SET rate 0 NX EX 60\nB> INCR rate\nC> INCRBYFLOAT rate 0.5\nB> DEL rate");
    is_right("A> SETNX n 0\nB> INCREX n\nC> SET n 5");
}

#[test]
fn a_change_is_kept_in_the_history() {
    let mut story = Story::new();
    story.tell("A> SET lock one NX PX 100\nA> APPEND lock 1\nB> SETRANGE lock 0 x\nB> RENAME lock k");
    assert_eq!(
        story.history("lock"),
        ["0 acquired 1 one", "0 overwritten 1 one1", "0 overwritten 2 xne1", "0 released 2 xne1"]
    );
    story.tell("A> SET other x\nA> SET lock two NX PX 100\nB> RENAME other lock");
    assert_eq!(story.history("lock")[4..], ["0 acquired 1 two", "0 overwritten 2 x"]);
    // By its name it stays a lock, counted or not.
    let mut story = Story::with(&[("lock-history-len", "100"), ("lock-pattern", "lock:*")]);
    story.tell("A> SET lock:a 1 NX PX 100\nB> APPEND lock:a 2");
    assert_eq!(story.found(), ["foreign-release lock:a"]);
}
