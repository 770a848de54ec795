//! Ten thousand hostile scripts: the corpus's, broken and joined at random, and loops that want time,
//! memory and depth. The server must answer after each and give its memory back at the end.

use crate::common::draw::Draw;
use crate::common::{Client, Server, until};
use crate::{corpus, number, shown};

/// Milliseconds after which a script is killed by the watcher, and what it may hold.
const ARGS: &[&str] = &["--busy-reply-threshold", "3", "--lua-memory-limit", "8mb", "--loglevel", "warning"];

const BAD: &[&str] = &[
    "while true do end",
    "repeat until false",
    "for i = 1, math.huge do end",
    "local t = {} while true do t[#t + 1] = t end",
    "local s = 'x' while true do s = s .. s end",
    "return string.rep('x', 1e9)",
    "local function f() return f() end return f()",
    "local function f() f() end f()",
    "while true do pcall(error) end",
    "while true do pcall(function() while true do end end) end",
    "while true do redis.pcall('SET', 'k', 'v') end",
    "while true do redis.pcall('GET', 'k') end",
    "error(error)",
    "error({{}})",
    "return setmetatable({}, {__index = _G})",
    "for k, v in pairs(_G) do pcall(rawset, v, 'x', 1) end",
    "return cjson.decode(string.rep('[', 1e6))",
    "return cmsgpack.unpack(string.rep('\\145', 1e6))",
    "return struct.unpack(string.rep('b', 9000), string.rep('x', 9000))",
    "return loadstring(string.rep('(', 1e5))()",
    "return string.find(string.rep('a', 1e5), string.rep('a?', 1e5))",
    "return string.match(string.rep('a', 1e5), '.-.-.-b')",
    "return unpack({}, 1, 1e7)",
    "return select(-1)",
    "return ('x'):rep(1e6):gsub('.', '%0%0%0')",
    "collectgarbage('stop')",
    "collectgarbage() return collectgarbage('count')",
    "local co co = coroutine.wrap(function() co() end) co()",
    "for i = 1, 1e4 do coroutine.wrap(coroutine.yield)() end",
    "return string.format('%99.99f', 1e308)",
    "local t = {} for i = 1, 1e5 do t[i] = {i} end return t",
    "local t = {} t[1] = t return t",
    "local t = {} t.map = t return t",
    "return redis.call(unpack({}, 1, 5000))",
    "return redis.sha1hex(string.rep('x', 1e6))",
    "KEYS[1] = KEYS return KEYS",
    "table.sort({3, 1, 2, 5, 4}, function() return true end)",
    "return tostring(setmetatable({}, {__tostring = error}))",
    "redis.setresp(3) return {double = 0/0}",
    "return {err = string.rep('E', 1e5)}",
    "return {ok = string.rep('+', 1e5)}",
    "return string.dump(function() while true do end end)",
    "xpcall(error, error)",
    "return xpcall(function() error() end, xpcall)",
];

/// What a script can be strewn with.
const PIECES: &[&str] = &[
    "nil",
    "{}",
    "''",
    "0/0",
    "1e308",
    "-1",
    "2^31",
    "2^63",
    "(",
    ")",
    "end",
    "do",
    "while true do ",
    "function() ",
    "..",
    "setmetatable({}, {__index = error})",
    "string.rep('x', 1e7)",
    "KEYS",
    "_G",
    "redis.call",
    "cjson.null",
    "\\0",
    "'",
    "\"",
    "[[",
    "--",
    " return ",
    "error",
    "coroutine.yield()",
    "#",
    "...",
    "=",
    "\n",
    "\r",
    "\x00",
    "\x1b",
    "\u{ff}",
    "9",
    "%",
    "goto",
];

/// One hostile script.
fn hostile(draw: &mut Draw, scripts: &[String]) -> Vec<u8> {
    let any = |draw: &mut Draw| -> String {
        if draw.chance(8) { draw.pick(BAD).to_owned() } else { scripts[draw.below(scripts.len())].clone() }
    };
    let mut script = any(draw);
    match draw.below(24) {
        0..3 => {}
        3..6 => script = format!("{script}\n{}", any(draw)),
        6 => script = format!("pcall(function() {script} end) {}", any(draw)),
        7 => script = format!("while true do pcall(loadstring, [==[{script}]==]) end"),
        8 => script = format!("local f = loadstring([==[{script}]==]) for i = 1, 1e9 do pcall(f) end"),
        _ => {
            let mut bytes = script.into_bytes();
            for _ in 0..1 + draw.below(4) {
                let at = draw.below(bytes.len() + 1);
                match draw.below(5) {
                    0 => drop(bytes.splice(at..at, draw.pick(PIECES).bytes())),
                    1 => bytes.truncate(at),
                    2 if at < bytes.len() => bytes[at] = draw.below(256) as u8,
                    3 if at < bytes.len() => drop(bytes.remove(at)),
                    _ => {
                        let to = (at + draw.below(12)).min(bytes.len());
                        let copied = bytes[at..to].to_vec();
                        drop(bytes.splice(at..at, copied));
                    }
                }
            }
            return bytes;
        }
    }
    script.into_bytes()
}

/// The reply to what `runs` has sent; meanwhile `looks` ends a script that is stuck.
fn answer(runs: &mut Client, looks: &mut Client, server: &mut Server) -> Vec<u8> {
    until("a reply", || {
        if runs.has_frame() {
            return runs.frame();
        }
        if looks.say("GET x").starts_with("-BUSY") {
            let killed = looks.say("SCRIPT KILL");
            if killed.starts_with("-UNKILLABLE") {
                // As one does then: the server goes, and another takes its place.
                looks.send(&["SHUTDOWN", "NOSAVE"]);
                assert!(server.wait().success());
                *server = Server::start(ARGS);
                (*runs, *looks) = (server.client(), server.client());
                return Some(b"-UNKILLABLE\r\n".to_vec());
            }
        }
        None
    })
}

fn used_memory(client: &mut Client) -> u64 {
    let info = client.say("INFO memory");
    let figure = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    figure.and_then(|figure| figure.trim().parse().ok()).expect("INFO tells the memory")
}

#[test]
fn the_server_outlives_ten_thousand_hostile_scripts() {
    let scripts: Vec<String> = corpus::files()
        .into_iter()
        .flat_map(|(_, steps)| steps)
        .filter(|step| !step.line.starts_with("! "))
        .map(|step| step.line.replace('¶', "\n"))
        .collect();
    let mut server = Server::start(ARGS);
    let (mut runs, mut looks) = (server.client(), server.client());
    runs.call(&["EVAL", "return cjson.encode({1})", "0"]);
    let before = used_memory(&mut looks);
    let seed = number("KEYLATCH_SCRIPT_SEED", 20_261_203);
    let mut draw = Draw::new(seed);
    let (mut errors, mut values) = (0, 0);
    for n in 0..number("KEYLATCH_HOSTILE_SCRIPTS", 10_000) {
        let script = hostile(&mut draw, &scripts);
        if std::env::var_os("KEYLATCH_HOSTILE_SHOW").is_some() {
            eprintln!("{n}: {}", shown(&script));
        }
        runs.send(&[b"EVAL", &script[..], b"1", b"key", b"arg", b"10"]);
        let reply = answer(&mut runs, &mut looks, &mut server);
        if reply.starts_with(b"-") {
            errors += 1
        } else {
            values += 1
        }
        // A script may have changed what the server is; and its bodies are not what is measured.
        if n % 200 == 0 {
            runs.say("SCRIPT FLUSH");
            runs.say("FLUSHALL");
        }
        assert_eq!(looks.say("PING"), "+PONG", "seed {seed}, script {n}: {}", shown(&script));
    }
    for command in ["SCRIPT FLUSH", "FLUSHALL", "FUNCTION FLUSH"] {
        assert_eq!(runs.say(command), "+OK");
    }
    assert_eq!(runs.call(&["EVAL", "return cjson.encode({1, cjson.decode('{}')})", "0"]), "$6\r\n[1,{}]");
    let after = used_memory(&mut looks);
    assert!(after < before + (4 << 20), "seed {seed}: {after} bytes are left, {before} before");
    assert!(errors > 1000 && values > 1000, "{errors} errors and {values} values are no mixture");
}
