//! Faults in memory, on a clock that stands: each action in each phase, inside transactions and
//! scripts, and what ends them. What they do to sockets is in tests/faults.rs.

use super::several::Room;
use crate::engine::Door;

fn room() -> Room {
    Room::new(&[("enable-test-commands", "yes")])
}

fn check(transcript: &str) {
    room().check(transcript);
}

const RESP3: &str = "B> HELLO 3";

#[test]
fn rules_are_written_listed_and_removed() {
    check(
        r#"
        A> KEYLATCH FAULT ADD ON after COMMAND set KEY lock:* CLIENT worker-* SKIP 1 TIMES 2 PROBABILITY 0.5 ERROR "ERR no luck"
        A: :1
        A> KEYLATCH FAULT ADD DROP COMMAND none TIMES 1
        A: :2
        A> KEYLATCH FAULT LIST
        A: *2 *22 $2 id :1 $2 on $5 after $7 command $3 set $3 key $6 lock:* $6 client $8 worker-* $4 skip :1 $5 times :2 $11 probability $3 0.5 $6 action *2 $5 ERROR $11 ERR no luck $7 matched :0 $6 struck :0 *22 $2 id :2 $2 on $6 before $7 command $4 none $3 key $-1 $6 client $-1 $4 skip :0 $5 times :1 $11 probability $1 1 $6 action *1 $4 DROP $7 matched :0 $6 struck :0
        A> KEYLATCH FAULT REMOVE 1
        A: :1
        A> KEYLATCH FAULT REMOVE 2
        A: :1
        A> KEYLATCH FAULT ADD PROBABILITY -0 DROP
        A: :3
        A> KEYLATCH FAULT LIST
        A: *1 *22 $2 id :3 $2 on $6 before $7 command $-1 $3 key $-1 $6 client $-1 $4 skip :0 $5 times $-1 $11 probability $1 0 $6 action *1 $4 DROP $7 matched :0 $6 struck :0
        A> KEYLATCH FAULT REMOVE 2
        A: :0
        A> KEYLATCH FAULT CLEAR
        A: :1
        A> KEYLATCH FAULT LIST
        A: *0
        A> KEYLATCH FAULT ADD HANG
        A: :4
        A> KEYLATCH RESET
        A: +OK
        A> KEYLATCH FAULT ADD HANG
        A: :1
        "#,
    );
}

#[test]
fn what_is_no_rule_is_refused() {
    for (words, error) in [
        ("ADD ON", "ERR syntax error"),
        ("ADD TIMES 1", "ERR syntax error"),
        ("ADD DROP HANG", "ERR syntax error"),
        ("ADD KEY a KEY b DROP", "ERR syntax error"),
        ("ADD ERROR", "ERR syntax error"),
        ("ADD EXPLODE", "ERR syntax error"),
        ("ADD ON during DROP", "ERR KEYLATCH FAULT ADD ON must be BEFORE or AFTER"),
        ("ADD SKIP x DROP", "ERR value is not an integer or out of range"),
        ("ADD SKIP -1 DROP", "ERR value is out of range, must be positive"),
        ("ADD DELAY -1", "ERR value is out of range, must be positive"),
        ("ADD PROBABILITY often DROP", "ERR value is not a valid float"),
        ("ADD PROBABILITY 1.5 DROP", "ERR A fault's probability must be a number from 0 to 1"),
        ("ADD ON before TRUNCATE 1", "ERR This fault can only strike after the command"),
        ("ADD ON after EXPIRE-FIRST", "ERR This fault can only strike before the command"),
        ("ADD SPLIT 0", "ERR A reply cannot be split into pieces of 0 bytes"),
        ("ADD ERROR ''", "ERR A fault's error needs a text"),
        ("REMOVE x", "ERR value is not an integer or out of range"),
        ("REMOVE", "ERR syntax error"),
        ("LIST all", "ERR syntax error"),
        ("BREAK", "ERR syntax error"),
    ] {
        check(&format!("A> KEYLATCH FAULT {words}\nA: -{error}\nA> KEYLATCH FAULT LIST\nA: *0"));
    }
    check("A> KEYLATCH FAULT\nA: -ERR wrong number of arguments for 'keylatch|fault' command");
}

#[test]
fn an_error_comes_instead_of_the_command_or_of_its_reply() {
    check(
        r#"
        A> KEYLATCH FAULT ADD COMMAND set TIMES 1 ERROR "LOADING not yet"
        A: :1
        A> SET k 1
        A: -LOADING not yet
        A> GET k
        A: $-1
        A> KEYLATCH FAULT ADD ON after COMMAND incr ERROR "ERR lost\r\nhere"
        A: :2
        A> SET k 1
        A: +OK
        A> INCR k
        A: -ERR lost  here
        A> GET k
        A: $1 2
        "#,
    );
}

#[test]
fn a_star_strikes_all_but_keylatch() {
    check(
        r#"
        A> KEYLATCH FAULT ADD COMMAND * ERROR "ERR all"
        A: :1
        A> PING
        A: -ERR all
        A> CLIENT SETNAME x
        A: -ERR all
        A> NOSUCH
        A: -ERR unknown command 'NOSUCH', with args beginning with:
        A> KEYLATCH CLOCK GET
        A: :1000000
        A> KEYLATCH FAULT CLEAR
        A: :1
        A> PING
        A: +PONG
        "#,
    );
}

#[test]
fn a_delay_ends_with_its_time() {
    check(
        r"
        A> KEYLATCH FAULT ADD COMMAND set DELAY 50
        A: :1
        A> KEYLATCH FAULT ADD ON after COMMAND get DELAY 20
        A: :2
        B> SET k 1
        @advance 49
        A> EXISTS k
        A: :0
        @advance 1
        B: +OK
        B> GET k
        A> EXISTS k
        A: :1
        @advance 19
        @advance 1
        B: $1 1
        B> SET k 2
        A> KEYLATCH FAULT CLEAR
        A: :2
        B: +OK
        ",
    );
}

#[test]
fn what_is_sent_to_a_client_comes_behind_the_reply_that_is_held() {
    check(&format!(
        r"
        {RESP3}
        B: %7 $6 server $5 redis $7 version $5 7.2.4 $5 proto :3 $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0
        A> KEYLATCH FAULT ADD ON after COMMAND subscribe DELAY 10
        A: :1
        B> SUBSCRIBE news
        A> PUBLISH news hello
        A: :1
        @advance 10
        B: >3 $9 subscribe $4 news :1 >3 $7 message $4 news $5 hello
        A> KEYLATCH FAULT ADD COMMAND ping HANG
        A: :2
        B> PING
        A> PUBLISH news again
        A: :1
        @advance 1000000
        A> KEYLATCH RESET
        A: +OK
        A> PUBLISH news once-more
        A: :1
        B: >3 $7 message $4 news $9 once-more
        B> PING
        B: +PONG
        "
    ));
}

#[test]
fn a_stall_stops_everybody_but_keylatch() {
    check(
        r"
        A> SET k 1 PX 60
        A: +OK
        A> KEYLATCH FAULT ADD COMMAND set STALL 100
        A: :1
        B> SET lock b NX
        C> SET lock c NX
        D> GET k
        E> NOSUCH
        @advance 99
        A> KEYLATCH CLOCK GET
        A: :1000099
        A> KEYLATCH FAULT REMOVE 1
        A: :1
        @advance 1
        B: +OK
        C: $-1
        D: $-1
        E: -ERR unknown command 'NOSUCH', with args beginning with:
        ",
    );
}

#[test]
fn a_stall_after_the_command_holds_its_reply() {
    check(
        r"
        A> KEYLATCH FAULT ADD ON after COMMAND incr TIMES 1 STALL 100
        A: :1
        B> INCR n
        C> INCR n
        @advance 100
        B: :1
        C: :2
        A> KEYLATCH FAULT ADD COMMAND incr STALL 9000000000
        A: :2
        B> INCR n
        A> KEYLATCH FAULT CLEAR
        A: :2
        B: :3
        ",
    );
}

#[test]
fn nothing_expires_in_a_stall() {
    check(
        r"
        L> CONFIG SET notify-keyspace-events Ex
        L: +OK
        L> SUBSCRIBE __keyevent@0__:expired
        L: *3 $9 subscribe $22 __keyevent@0__:expired :1
        A> SET k 1 PX 10
        A: +OK
        A> KEYLATCH FAULT ADD COMMAND ping STALL 50
        A: :1
        B> PING
        @advance 49
        @tick
        @advance 1
        B: +PONG
        L: *3 $7 message $22 __keyevent@0__:expired $1 k
        ",
    );
}

#[test]
fn deadlines_pass_first() {
    check(
        r"
        A> MSET a 1 data 1
        A: +OK
        A> SET lock:1 x PX 1000
        A: +OK
        A> SET other x PX 1000
        A: +OK
        A> KEYLATCH FAULT ADD KEY lock:* COMMAND mget EXPIRE-FIRST
        A: :1
        A> MGET a lock:1 other
        A: *3 $1 1 $-1 $1 x
        A> SET lock:1 y
        A: +OK
        A> MGET lock:1
        A: *1 $1 y
        ",
    );
}

#[test]
fn a_reply_comes_in_pieces() {
    check(
        r"
        A> SET k 0123456789
        A: +OK
        A> KEYLATCH FAULT ADD COMMAND get SPLIT 6
        A: :1
        B> GET k
        B: $10 0
        @advance 1
        B: 123456
        @advance 1
        B: 789
        B> GET k
        B: $10 0
        @advance 1000
        B: 123456789
        B> PING
        B: +PONG
        B> GET k
        B: $10 0
        A> KEYLATCH FAULT CLEAR
        A: :1
        B: 123456789
        ",
    );
}

#[test]
fn inside_a_transaction() {
    check(
        r#"
        A> KEYLATCH FAULT ADD COMMAND set TIMES 1 ERROR "ERR inside"
        A: :1
        A> KEYLATCH FAULT ADD COMMAND incr ON after ERROR "ERR lost"
        A: :2
        A> KEYLATCH FAULT ADD COMMAND set DROP
        A: :3
        B> MULTI
        B: +OK
        B> SET k 1
        B: +QUEUED
        B> INCR n
        B: +QUEUED
        B> SET k 2
        B: +QUEUED
        B> EXEC
        B: *3 -ERR inside -ERR lost +OK
        A> MGET k n
        A: *2 $1 2 $1 1
        "#,
    );
    // EXEC's keys are those of all that it runs; refused, it ends the transaction.
    check(
        r#"
        A> KEYLATCH FAULT ADD KEY lock:* COMMAND exec TIMES 1 ERROR "ERR no exec"
        A: :1
        B> MULTI
        B: +OK
        B> SET lock:1 x
        B: +QUEUED
        B> EXEC
        B: -ERR no exec
        B> EXEC
        B: -ERR EXEC without MULTI
        "#,
    );
    // Time stands still inside: a stall comes behind the last command.
    check(
        r"
        A> KEYLATCH FAULT ADD COMMAND incr STALL 10
        A: :1
        B> MULTI
        B: +OK
        B> INCR n
        B: +QUEUED
        B> INCR n
        B: +QUEUED
        B> EXEC
        A> KEYLATCH FAULT CLEAR
        A: :1
        B: *2 :1 :2
        ",
    );
}

#[test]
fn inside_a_script() {
    check(
        r#"
        A> SET lock x PX 500
        A: +OK
        A> KEYLATCH FAULT ADD COMMAND set TIMES 1 ERROR "ERR inside"
        A: :1
        A> KEYLATCH FAULT ADD COMMAND incr ON after TIMES 1 ERROR "ERR lost"
        A: :2
        A> KEYLATCH FAULT ADD COMMAND get TIMES 1 EXPIRE-FIRST
        A: :3
        A> KEYLATCH FAULT ADD COMMAND get TIMES 1 STALL 5
        A: :4
        B> EVAL "local a = redis.pcall('set', 'k', '1') local b = redis.pcall('incr', 'n') return {a.err, b.err, redis.call('get', 'lock'), redis.call('get', 'n')}" 0
        @advance 4
        @advance 1
        B: *4 $10 ERR inside $8 ERR lost $-1 $1 1
        A> KEYLATCH FAULT ADD COMMAND set ERROR "ERR again"
        A: :5
        B> EVAL "redis.call('set', 'k', '1')" 0
        B: -ERR again script: eb507d9b785d54dd83c532bd30b41f26e4b2e4a5, on @user_script:1.
        "#,
    );
}

#[test]
fn who_leaves_leaves_nothing() {
    let mut room = room();
    room.check(
        r"
        A> KEYLATCH FAULT ADD COMMAND set DELAY 50
        A: :1
        A> KEYLATCH FAULT ADD COMMAND get ON after DELAY 50
        A: :2
        B> SET k 1
        C> GET k
        @leave B
        @leave C
        @advance 50
        A> EXISTS k
        A: :0
        A> KEYLATCH FAULT CLEAR
        A: :2
        ",
    );
    assert!(room.engine.core().trouble.is_none());
    assert!(room.engine.core().waiting.is_empty());
}

#[test]
fn a_probability_follows_the_seed() {
    let run = |seed: u64| {
        let mut room = room();
        room.check(&format!(
            "A> KEYLATCH SEED {seed}\nA: +OK\nA> KEYLATCH FAULT ADD COMMAND get PROBABILITY 0.5 HANG\nA: :1"
        ));
        let mut asked = |client| {
            let place = room.place(client);
            let mut out = Vec::new();
            room.engine.execute(place, &crate::resp::Args::new(&[b"GET", b"k"]), &mut out);
            out.is_empty()
        };
        ('a'..='z').map(&mut asked).collect::<Vec<bool>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!(run(1).contains(&true) && run(1).contains(&false));
}

#[test]
fn time_moves_and_all_is_put_back_inside_a_transaction() {
    check(
        r#"
        A> KEYLATCH CLOCK FREEZE 1000
        A: :1000
        B> MULTI
        B: +OK
        B> SET x 1 PX 100
        B: +QUEUED
        B> KEYLATCH CLOCK ADVANCE 100
        B: +QUEUED
        B> GET x
        B: +QUEUED
        B> SET y 1
        B: +QUEUED
        B> KEYLATCH RESET
        B: +QUEUED
        B> KEYLATCH CLOCK FREEZE 7
        B: +QUEUED
        B> GET y
        B: +QUEUED
        B> EXEC
        B: *7 +OK :1100 $-1 +OK +OK :7 $-1
        "#,
    );
}
