//! EVAL and its kin: lock scripts, conversions both ways, errors. Not here: the whole Lua
//! environment, which has a corpus of its own.

use crate::check::Check;
use crate::grammar::{Bytes, Grammar};
use crate::keys::{Made, exact};

/// Scripts whose reply is the same at any time.
const SCRIPTS: &[&str] = &[
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], 500000) else return 0 end",
    "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', '500000')",
    "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 500000, 'GET')",
    "return redis.call('INCR', KEYS[1])",
    "return redis.pcall('INCR', KEYS[1])",
    "return redis.call('INCRBYFLOAT', KEYS[1], 0.1)",
    "return {redis.call('EXISTS', KEYS[1]), redis.call('STRLEN', KEYS[1]), redis.call('TYPE', KEYS[1])}",
    "return redis.call('MGET', KEYS[1], KEYS[1], 'nosuch')",
    "return KEYS",
    "return ARGV",
    "return #KEYS + #ARGV",
    "return 1",
    "return 3.99",
    "return -3.99",
    "return 'text'",
    "return nil",
    "return true",
    "return false",
    "return {1, 2, {3, 'four', {5}}, nil, 6}",
    "return {ok='FINE'}",
    "return {err='MY failure'}",
    "return redis.error_reply('OOPS it broke')",
    "return redis.error_reply('oops')",
    "return redis.status_reply('GOOD')",
    "return redis.sha1hex(ARGV[1] or '')",
    "return redis.sha1hex()",
    "return {double=3.5}",
    "return {map={a=1}}",
    "return {1, true, false, 'x', 2.7}",
    "return {}",
    "return",
    "return 1e15",
    "return tostring(redis.call('GET', 'nosuch'))",
    "return type(redis.call('SET', KEYS[1], 'x'))",
    "return redis.call('NOSUCH')",
    "return redis.pcall('NOSUCH')",
    "return redis.call('SET', KEYS[1])",
    "return redis.pcall('SET', KEYS[1])",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call('SET', KEYS[1], {})",
    "return redis.call('GET', KEYS[1]).ok",
    "local r = redis.pcall('INCR', 'nosuchnumber', 'x') return r.err",
    "error('raised')",
    "error({err='CODE raised'})",
    "error()",
    "return nosuchglobal",
    "newglobal = 1",
    "this is no lua",
    "return (",
    "",
    "return redis.call('AUTH', 'x')",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('SELECT', 1)",
    "redis.call('SELECT', 2) return redis.call('SET', KEYS[1], 'in 2')",
    "redis.log(redis.LOG_DEBUG, 'x') return redis.LOG_WARNING",
    "return redis.log('x')",
    "return redis.call('PING')",
    "return redis.call('ECHO', ARGV[1] or 'nothing')",
    "return redis.call('DBSIZE')",
    "return redis.call('EXPIRE', KEYS[1], 'abc')",
    "return redis.call('SETEX', KEYS[1], 0, 'x')",
    "return redis.call('PERSIST', KEYS[1])",
    "redis.call('SET', KEYS[1], 'a') redis.call('APPEND', KEYS[1], 'b') return redis.call('GET', KEYS[1])",
    "redis.call('DEL', KEYS[1]) return redis.call('SETNX', KEYS[1], 'z')",
    "local t = {} for i = 1, 50 do t[i] = i * 2 end return t",
    "return string.format('%d %s', 5, 'x')",
    "return tonumber('0x10')",
    "return redis.call('SET', KEYS[1], 10) and redis.call('GET', KEYS[1]) + 1",
    "return redis.call('INCRBY', KEYS[1], 2.5)",
    "return redis.call('SET', KEYS[1], 1.5) and redis.call('GET', KEYS[1])",
    "redis.setresp(3) return redis.call('GET', 'nosuch')",
    "return redis.setresp(4)",
    "local t = redis.call('TIME') return {#t, type(t[1]), #t[1]}",
    "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 'x')",
    "#!lua flags=foo\nreturn 1",
    "#!foo\nreturn 1",
    "return redis.call('CONFIG', 'GET', 'hz')",
    "return redis.call('CLIENT', 'ID')",
    "return redis.call('get', KEYS[1], ARGV[1])",
    "return {1, 2, nil, 4}",
    "return {[1]=1, [3]=3}",
    "return pcall(redis.call, 'INCR', 'nosuchnumber', 'x')",
    "local ok, e = pcall(redis.call, 'NOSUCH') return {ok, type(e), e.err or e}",
    "return cjson.encode({1, 'a', true})",
    "return tostring(1e100)",
];

/// Scripts whose reply counts time.
const TIMED: &[(&str, Check)] = &[
    ("return redis.call('TTL', KEYS[1])", Check::Seconds),
    ("return redis.call('PTTL', KEYS[1])", Check::Millis),
    ("return {redis.call('EXISTS', KEYS[1]), redis.call('PTTL', KEYS[1])}", Check::Millis),
    ("return redis.call('TIME')", Check::Kind),
];

pub fn any(g: &mut Grammar) -> Made {
    match g.draw.below(20) {
        0..12 => {
            let name = g.draw.pick(&["EVAL", "EVAL", "EVAL", "EVAL_RO"]);
            let script = (g.draw.pick(SCRIPTS)).into();
            (with_keys(g, name, script), Check::Exact, false)
        }
        12..14 => {
            let (script, check) = g.draw.pick(TIMED);
            (vec![g.word("EVAL"), script.into(), b"1".to_vec(), g.key()], check, false)
        }
        14..16 => {
            let script = g.draw.pick(SCRIPTS);
            let digest = sha1_hex(script.as_bytes());
            let name = g.draw.pick(&["EVALSHA", "EVALSHA", "EVALSHA_RO"]);
            let digest = if g.draw.chance(20) { digest.to_uppercase() } else { digest };
            (with_keys(g, name, digest.into()), Check::Exact, false)
        }
        16 => exact(vec![g.word("SCRIPT"), g.word("LOAD"), (g.draw.pick(SCRIPTS)).into()]),
        17 => {
            let mut args = vec![g.word("SCRIPT"), g.word("EXISTS")];
            args.extend(g.several(3, |g| sha1_hex(g.draw.pick(SCRIPTS).as_bytes()).into()));
            exact(args)
        }
        18 => {
            let mut args = vec![g.word("SCRIPT"), g.word("FLUSH")];
            if g.draw.chance(60) {
                let mode = g.draw.pick(&["SYNC", "ASYNC", "FOO"]);
                args.push(g.word(mode));
            }
            exact(args)
        }
        _ => {
            // Key counts that are wrong, and digests that are none.
            let count =
                g.draw.pick(&[&b"-1"[..], b"abc", b"", b"9", b"1.5", b"9223372036854775808"]).to_vec();
            let name = g.draw.pick(&["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"]);
            (vec![g.word(name), b"return 1".to_vec(), count, g.key()], Check::Exact, false)
        }
    }
}

fn with_keys(g: &mut Grammar, name: &str, body: Bytes) -> Vec<Bytes> {
    let mut args = vec![g.word(name), body];
    // Mostly one key and one argument, as the lock scripts take them.
    let keys = [1, 1, 1, 1, 1, 0, 2][g.draw.below(7)];
    args.push(keys.to_string().into());
    for _ in 0..keys {
        args.push(g.key());
    }
    for _ in 0..[1, 1, 1, 0, 2][g.draw.below(5)] {
        args.push(g.value());
    }
    args
}

fn sha1_hex(text: &[u8]) -> String {
    use sha1::Digest;
    sha1::Sha1::digest(text).iter().map(|b| format!("{b:02x}")).collect()
}
