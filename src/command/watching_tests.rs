//! What one client sees of others: WATCH, pub/sub, notifications, tracking, MONITOR, pauses and
//! waits, in memory and on a clock that stands. The same on sockets is in tests/watching.rs.

use super::several::{Room, check};

#[test]
fn a_watch_breaks_by_any_change() {
    for change in [
        "SET k 2",
        "DEL k",
        "EXPIRE k 100",
        "APPEND k x",
        "RENAME k j",
        "RENAME other k",
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "MOVE k 1",
        "COPY other k REPLACE",
        "PEXPIRE k 0",
        "EVAL \"redis.call('set','k','2')\" 0",
    ] {
        check(&format!("{BEFORE}\nB> {change}\n{}", reply(change)));
        fn reply(change: &str) -> String {
            let answer = match change {
                "SET k 2" | "RENAME k j" | "RENAME other k" | "FLUSHALL" | "FLUSHDB" | "SWAPDB 0 1" => "+OK",
                "APPEND k x" => ":2",
                "EVAL \"redis.call('set','k','2')\" 0" => "$-1",
                _ => ":1",
            };
            format!("B: {answer}\nA> MULTI\nA: +OK\nA> PING\nA: +QUEUED\nA> EXEC\nA: *-1")
        }
    }
    const BEFORE: &str = "B> MSET k 1 other 1\nB: +OK\nA> WATCH k\nA: +OK";
}

#[test]
fn a_key_keeps_its_idle_time_where_it_goes() {
    check(
        r"
        A> SET a 1
        A: +OK
        @advance 10000
        A> RENAME a b
        A: +OK
        A> OBJECT IDLETIME b
        A: :10
        A> MOVE b 1
        A: :1
        A> SELECT 1
        A: +OK
        A> OBJECT IDLETIME b
        A: :10
        A> COPY b c
        A: :1
        A> OBJECT IDLETIME c
        A: :0
        ",
    );
}

#[test]
fn what_is_no_change_breaks_no_watch() {
    for harmless in [
        "B> SET other 1\nB: +OK",
        "B> GET k\nB: $1 1",
        "B> SELECT 1\nB: +OK\nB> SET k 2\nB: +OK",
        "A> UNWATCH\nA: +OK\nB> SET k 2\nB: +OK",
        "B> PERSIST k\nB: :0",
        "B> DEL nokey\nB: :0",
    ] {
        check(&format!(
            "B> SET k 1\nB: +OK\nA> WATCH k\nA: +OK\n{harmless}\nA> MULTI\nA: +OK\nA> PING\nA: +QUEUED\nA> EXEC\nA: *1 +PONG"
        ));
    }
    // A key that is not there is not changed by what empties the database.
    check("A> WATCH k\nA: +OK\nB> FLUSHALL\nB: +OK\nA> MULTI\nA: +OK\nA> EXEC\nA: *0");
}

#[test]
fn a_watch_and_time() {
    // Seen or not, passing its deadline breaks the watch.
    check(
        r"
        A> SET lock a PX 50
        A: +OK
        A> WATCH lock
        A: +OK
        @advance 50
        A> MULTI
        A: +OK
        A> SET lock b
        A: +QUEUED
        A> EXEC
        A: *-1
        A> GET lock
        A: $-1
        ",
    );
    // Between queueing and EXEC as well; the clock of a pause keeps it from being swept.
    check(
        r"
        B> CONFIG SET hz 10
        B: +OK
        A> SET lock a PX 50
        A: +OK
        B> CLIENT PAUSE 1000 WRITE
        B: +OK
        @advance 60
        A> WATCH lock
        A: +OK
        B> CLIENT UNPAUSE
        B: +OK
        @tick
        A> MULTI
        A: +OK
        A> EXISTS lock
        A: +QUEUED
        A> EXEC
        A: *1 :0
        ",
    );
}

#[test]
fn transactions_refuse_as_redis_does() {
    check(
        r"
        A> EXEC
        A: -ERR EXEC without MULTI
        A> DISCARD
        A: -ERR DISCARD without MULTI
        A> MULTI
        A: +OK
        A> MULTI
        A: -ERR MULTI calls can not be nested
        A> WATCH k
        A: -ERR WATCH inside MULTI is not allowed
        A> UNWATCH
        A: +QUEUED
        A> EXEC
        A: *1 +OK
        A> MULTI
        A: +OK
        A> GET
        A: -ERR wrong number of arguments for 'get' command
        A> EXEC
        A: -EXECABORT Transaction discarded because of previous errors.
        A> WATCH k
        A: +OK
        A> MULTI
        A: +OK
        A> DISCARD
        A: +OK
        B> SET k 1
        B: +OK
        A> MULTI
        A: +OK
        A> EXEC
        A: *0
        A> WATCH k
        A: +OK
        A> MULTI
        A: +OK
        A> RESET
        A: +RESET
        A> EXEC
        A: -ERR EXEC without MULTI
        ",
    );
    let mut room = Room::new(&[]);
    room.check("A> WATCH a b\nA: +OK\nB> WATCH a\nB: +OK\n@leave A\n@leave B");
    assert!(room.core().watches.is_empty() && !room.core().effects.listening);
}

#[test]
fn channels_patterns_and_shards() {
    check(
        r"
        A> SUBSCRIBE a b a
        A: *3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *3 $9 subscribe $1 a :2
        A> PSUBSCRIBE a*
        A: *3 $10 psubscribe $2 a* :3
        B> HELLO 3 SETNAME b
        B: %7 $6 server $5 redis $7 version $5 7.2.4 $5 proto :3 $2 id :2 $4 mode $10 standalone $4 role $6 master $7 modules *0
        B> SSUBSCRIBE a
        B: >3 $10 ssubscribe $1 a :1
        C> PUBLISH a one
        A: *3 $7 message $1 a $3 one *4 $8 pmessage $2 a* $1 a $3 one
        C: :2
        C> SPUBLISH a two
        B: >3 $8 smessage $1 a $3 two
        C: :1
        B> SUBSCRIBE a
        B: >3 $9 subscribe $1 a :1
        B> PUBLISH a me
        A: *3 $7 message $1 a $2 me *4 $8 pmessage $2 a* $1 a $2 me
        B: :3 >3 $7 message $1 a $2 me
        C> MULTI
        C: +OK
        C> PUBLISH a t
        C: +QUEUED
        C> PUBLISH none t
        C: +QUEUED
        C> EXEC
        A: *3 $7 message $1 a $1 t *4 $8 pmessage $2 a* $1 a $1 t
        B: >3 $7 message $1 a $1 t
        C: *2 :3 :0
        C> PUBSUB CHANNELS b*
        C: *1 $1 b
        C> PUBSUB NUMSUB a b c
        C: *6 $1 a :2 $1 b :1 $1 c :0
        C> PUBSUB NUMPAT
        C: :1
        C> PUBSUB SHARDNUMSUB a
        C: *2 $1 a :1
        A> GET k
        A: -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        A> PING
        A: *2 $4 pong $0
        B> GET k
        B: _
        A> UNSUBSCRIBE
        A: *3 $11 unsubscribe $1 b :2 *3 $11 unsubscribe $1 a :1
        A> UNSUBSCRIBE
        A: *3 $11 unsubscribe $-1 :1
        A> PUNSUBSCRIBE
        A: *3 $12 punsubscribe $2 a* :0
        A> GET k
        A: $-1
        A> SUNSUBSCRIBE
        A: *3 $12 sunsubscribe $-1 :0
        @leave B
        C> PUBLISH a gone
        C: :0
        C> PUBSUB SHARDCHANNELS
        C: *0
        ",
    );
}

#[test]
fn confirmations_are_not_held_back() {
    check(
        r"
        A> CLIENT REPLY OFF
        A> SUBSCRIBE a
        A: *3 $9 subscribe $1 a :1
        B> PUBLISH a x
        A: *3 $7 message $1 a $1 x
        B: :1
        A> PING
        ",
    );
}

#[test]
fn a_key_expires_once_and_is_told_once() {
    check(
        r"
        A> CONFIG SET notify-keyspace-events KEx
        A: +OK
        S> PSUBSCRIBE __key*
        S: *3 $10 psubscribe $6 __key* :1
        A> SET lock token PX 50
        A: +OK
        @advance 49
        @advance 1
        S: *4 $8 pmessage $6 __key* $19 __keyspace@0__:lock $7 expired *4 $8 pmessage $6 __key* $22 __keyevent@0__:expired $4 lock
        A> GET lock
        A: $-1
        @tick
        A> CONFIG SET notify-keyspace-events Eg$mn
        A: +OK
        A> SET lock token PX 50
        A: +OK
        S: *4 $8 pmessage $6 __key* $18 __keyevent@0__:new $4 lock *4 $8 pmessage $6 __key* $18 __keyevent@0__:set $4 lock *4 $8 pmessage $6 __key* $21 __keyevent@0__:expire $4 lock
        A> GET none
        A: $-1
        S: *4 $8 pmessage $6 __key* $22 __keyevent@0__:keymiss $4 none
        ",
    );
    let mut room = Room::new(&[("notify-keyspace-events", "KEA")]);
    room.check("A> SET k v\nA: +OK");
    assert!(!room.core().effects.listening, "nobody listens, nothing is copied");
}

#[test]
fn tracking_tells_what_was_read() {
    check(
        r"
        A> HELLO 3
        A: %7 $6 server $5 redis $7 version $5 7.2.4 $5 proto :3 $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0
        A> CLIENT TRACKING ON
        A: +OK
        A> MGET a b
        A: *2 _ _
        B> SET a 1 PX 100
        A: >2 $10 invalidate *1 $1 a
        B: +OK
        B> SET a 2 PX 100
        B: +OK
        A> GET a
        A: $1 2
        @advance 100
        A: >2 $10 invalidate *1 $1 a
        A> SET b 1
        A: +OK >2 $10 invalidate *1 $1 b
        A> GET b
        A: $1 1
        B> FLUSHALL
        A: >2 $10 invalidate _
        B: +OK
        A> CLIENT TRACKING OFF
        A: +OK
        A> CLIENT TRACKING ON BCAST PREFIX x NOLOOP
        A: +OK
        A> SET xa 1
        A: +OK
        B> MSET xb 1 y 1 xa 2
        A: >2 $10 invalidate *2 $2 xa $2 xb
        B: +OK
        ",
    );
    let mut room = Room::new(&[("tracking-table-max-keys", "3")]);
    room.check("A> CLIENT TRACKING ON\nA: +OK\nA> MGET a b c d e f\nA: *6 $-1 $-1 $-1 $-1 $-1 $-1\nA> PING\nA: +PONG");
    assert_eq!(room.core().tracking.counts(), (3, 3, 0));
    room.check("@leave A");
    assert_eq!(room.core().tracking.client_count(), 0);
}

#[test]
fn monitors_see_commands_and_no_secrets() {
    let mut room = Room::new(&[]);
    room.check(
        r#"
        M> MONITOR
        M: +OK
        A> SET k "a\n"
        A: +OK
        M: +1000.000000 [0 10.0.0.1:65] "SET" "k" "a\n"
        "#,
    );
    room.check(
        r#"
        A> AUTH default secret
        A: +OK
        M: +1000.000000 [0 10.0.0.1:65] "AUTH" "(redacted)" "(redacted)"
        A> EVAL "return redis.call('exists','k')" 0
        A: :1
        M: +1000.000000 [0 10.0.0.1:65] "EVAL" "return redis.call('exists','k')" "0" +1000.000000 [0 lua] "exists" "k"
        A> CONFIG GET port
        A: *2 $4 port $4 6379
        A> NOSUCH
        A: -ERR unknown command 'NOSUCH', with args beginning with:
        M> GET k
        M: -ERR Replica can't interact with the keyspace
        M> MONITOR
        M> RESET
        M: +RESET
        A> PING
        A: +PONG
        "#,
    );
}

#[test]
fn pauses_hold_requests_back() {
    check(
        r"
        A> CLIENT PAUSE 100 WRITE
        A: +OK
        B> GET k
        B: $-1
        B> SET k 1
        C> EVAL 'return 1' 0
        D> PUBLISH a b
        A> CLIENT UNBLOCK 2
        A: :0
        @advance 99
        @advance 1
        B: +OK
        C: :1
        D: :0
        A> CLIENT PAUSE 100
        A: +OK
        B> PING
        @advance 100
        B: +PONG
        A> CLIENT PAUSE 100 WRITE
        A: +OK
        B> SET k 2
        A> CLIENT UNPAUSE
        A: +OK
        B: +OK
        A> SET e 1 PX 10
        A: +OK
        A> CLIENT PAUSE 100 WRITE
        A: +OK
        @advance 50
        A> EXISTS e
        A: :0
        A> DBSIZE
        A: :2
        @advance 50
        @tick
        A> DBSIZE
        A: :1
        A> CLIENT PAUSE 10 NEVER
        A: -ERR CLIENT PAUSE mode must be WRITE or ALL
        ",
    );
}

#[test]
fn a_transaction_that_will_not_run_is_not_held() {
    check(
        r"
        A> WATCH k
        A: +OK
        B> SET k 1
        B: +OK
        A> MULTI
        A: +OK
        A> SET k 2
        A: +QUEUED
        B> CLIENT PAUSE 1000 WRITE
        B: +OK
        A> EXEC
        A: *-1
        ",
    );
}

#[test]
fn waits_end_by_time_or_by_hand() {
    check(
        r"
        A> WAIT 0 0
        A: :0
        A> WAIT 1 50
        @advance 49
        @advance 1
        A: :0
        A> WAITAOF 0 1 10
        @advance 10
        A: *2 :0 :0
        A> WAITAOF 1 0 0
        A: -ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.
        A> WAIT 3 0
        B> CLIENT UNBLOCK 1
        A: :0
        B: :1
        A> WAIT 3 0
        B> CLIENT UNBLOCK 1 ERROR
        A: -UNBLOCKED client unblocked via CLIENT UNBLOCK
        B: :1
        B> CLIENT UNBLOCK 1
        B: :0
        A> MULTI
        A: +OK
        A> WAIT 1 0
        A: +QUEUED
        A> EXEC
        A: *1 :0
        ",
    );
}

#[test]
fn a_cluster_of_one_keeps_to_slots() {
    let mut room = Room::new(&[("cluster-enabled", "yes")]);
    room.check(
        r##"
        A> MSET a 1 b 2
        A: -CROSSSLOT Keys in request don't hash to the same slot
        A> MSET {x}a 1 {x}b 2
        A: +OK
        A> MULTI
        A: +OK
        A> SET a 1
        A: +QUEUED
        A> SET b 1
        A: +QUEUED
        A> EXEC
        A: -CROSSSLOT Keys in request don't hash to the same slot
        A> EXEC
        A: -ERR EXEC without MULTI
        A> CLUSTER KEYSLOT {x}a
        A: :16287
        A> CLUSTER COUNTKEYSINSLOT 16287
        A: :2
        A> EVAL "#!lua\nreturn redis.pcall('get','b').err" 1 a
        A: $69 ERR Script attempted to access keys that do not hash to the same slot
        A> EVAL "return redis.call('get','b')" 1 a
        A: $-1
        A> EVAL "return redis.pcall('mget','a','b').err" 0
        A: $64 ERR Script attempted to access a non local key in a cluster node
        A> SSUBSCRIBE a b
        A: -CROSSSLOT Keys in request don't hash to the same slot
        A> SELECT 1
        A: -ERR SELECT is not allowed in cluster mode
        A> SWAPDB 0 1
        A: -ERR SWAPDB is not allowed in cluster mode
        "##,
    );
    check("A> CLUSTER INFO\nA: -ERR This instance has cluster support disabled");
}
