//! What a script that is stuck, hungry or deep does to the server: others are answered, it can be
//! killed, its memory has a cap, and recursion ends in an error. Not here: hostile scripts by the
//! thousand (`hostile`).

use std::time::Duration;

use keylatch::base::clock::Stopwatch;

use crate::common::{Client, Server, is_keylatch, until};
use crate::{pair_with, shown};

/// Milliseconds after which a script counts as stuck here.
const SOON: &str = "20";

/// Both servers, soon busy.
fn soon_busy() -> [Server; 2] {
    let (ours, theirs) = pair_with(&["--busy-reply-threshold", SOON]);
    [ours, theirs]
}

/// Waits until `client` is told that the server is busy.
fn await_busy(client: &mut Client) -> String {
    until("the server to be busy", || Some(client.say("GET x")).filter(|reply| reply.starts_with("-BUSY")))
}

fn eval(client: &mut Client, script: &str) -> String {
    client.call(&["EVAL", script, "0"])
}

/// Asks both servers the same and compares; gives the reply.
fn both<T>(servers: &mut [T; 2], mut ask: impl FnMut(&mut T) -> String) -> String {
    let [ours, theirs] = servers;
    let (a, b) = (ask(ours), ask(theirs));
    assert_eq!(shown(a.as_bytes()), shown(b.as_bytes()));
    a
}

/// Two connections to each server: one that runs scripts, one that looks on.
fn connect(servers: &[Server; 2]) -> [(Client, Client); 2] {
    [0, 1].map(|i| (servers[i].client(), servers[i].client()))
}

#[test]
fn others_are_told_that_a_script_is_stuck_and_can_kill_it() {
    let servers = soon_busy();
    let mut clients = connect(&servers);
    for (runs, looks) in &mut clients {
        looks.say("SET k 1");
        runs.send(&["EVAL", "while true do end", "0"]);
        await_busy(looks);
    }
    for command in [
        "GET k",
        "PING",
        "SET k 2",
        "ECHO x",
        "INFO",
        "CLIENT LIST",
        "CLIENT KILL ID 1",
        "CLIENT ID",
        "CLIENT NO-EVICT on",
        "CONFIG GET maxmemory",
        "EVAL return 0",
        "SCRIPT EXISTS x",
        "SCRIPT FLUSH",
        "FUNCTION LIST",
        "FUNCTION STATS",
        "FUNCTION KILL",
        "MULTI",
        "GET k",
        "DISCARD",
        "WATCH k",
        "UNWATCH",
        "SUBSCRIBE c",
        "PUBLISH c x",
        "COMMAND COUNT",
        "DBSIZE",
        "FLUSHALL",
        "SHUTDOWN",
        "SHUTDOWN SAVE",
        "SHUTDOWN NOSUCH",
        "NOSUCH",
        "GET",
        "RESET",
        "HELLO 4",
        "AUTH x",
        "EXEC",
        "DEBUG SLEEP 0",
        "SCRIPT KILL NOW",
        "SCRIPT",
    ] {
        if command == "SHUTDOWN SAVE" && is_keylatch() {
            continue; // there is nothing to save to, and it says so
        }
        both(&mut clients, |(_, looks)| format!("{command}: {}", looks.say(command)));
    }
    assert_eq!(both(&mut clients, |(_, looks)| looks.say("SCRIPT KILL")), "+OK");
    let told =
        both(&mut clients, |(runs, _)| String::from_utf8(runs.frame().expect("a reply")).expect("text"));
    assert!(told.contains("Script killed by user with SCRIPT KILL"), "{told}");
    assert_eq!(
        both(&mut clients, |(_, looks)| looks.say("SCRIPT KILL")),
        "-NOTBUSY No scripts in execution right now."
    );
    assert_eq!(both(&mut clients, |(runs, _)| runs.say("GET k")), "$1\r\n1");
}

#[test]
fn nothing_a_script_catches_keeps_it_alive() {
    let server = Server::start(&["--busy-reply-threshold", SOON]);
    let (mut runs, mut looks) = (server.client(), server.client());
    for script in [
        "while true do pcall(function() while true do end end) end",
        "local function again() return xpcall(function() while true do end end, again) end again() while true do end",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "while true do pcall(string.gsub, string.rep('a', 1000), '.', function() while true do end end) end",
        "setmetatable({}, {__index = function() while true do end end}).x = 1 local x = setmetatable({}, {__index = \
         function() while true do end end}).x",
        "table.sort({1, 2, 3, 4, 5}, function() while true do end end)",
        "load(function() while true do end end)",
        "repeat local t = {} until false",
        "while true do redis.pcall('nosuch') end",
        "local t t = setmetatable({}, {__call = function(...) return t(...) end}) return t()",
        "while true do redis.call('GET', 'x') end",
        "return string.match(string.rep('a', 300000), '.-.-.-b')",
        "return string.gsub(string.rep('(', 300000), '%b()', '')",
        "local t = {} for _ = 1, 40 do t = {t, t} end while true do pcall(cmsgpack.pack, t) end",
    ] {
        runs.send(&["EVAL", script, "0"]);
        await_busy(&mut looks);
        assert_eq!(looks.say("SCRIPT KILL"), "+OK", "{script}");
        let told = String::from_utf8(runs.frame().expect("a reply")).expect("text");
        assert!(told.contains("Script killed by user with SCRIPT KILL"), "{script}: {told}");
        assert_eq!(looks.say("PING"), "+PONG");
    }
}

#[test]
fn a_script_that_has_written_is_ended_by_shutdown_alone() {
    let mut servers = soon_busy();
    let mut clients = connect(&servers);
    for (runs, looks) in &mut clients {
        runs.send(&["EVAL", "redis.call('SET', 'k', 1) while true do end", "0"]);
        await_busy(looks);
    }
    let refused = both(&mut clients, |(_, looks)| looks.say("SCRIPT KILL"));
    assert!(refused.starts_with("-UNKILLABLE "), "{refused}");
    for ((_, looks), server) in clients.iter_mut().zip(&mut servers) {
        looks.send(&["SHUTDOWN", "NOSAVE"]);
        assert!(server.wait().success());
    }
}

#[test]
fn a_read_only_run_can_be_killed_though_it_tried_to_write() {
    let servers = soon_busy();
    let mut clients = connect(&servers);
    for (runs, looks) in &mut clients {
        runs.send(&["EVAL_RO", "redis.pcall('SET', 'k', 1) while true do end", "0"]);
        await_busy(looks);
    }
    assert_eq!(both(&mut clients, |(_, looks)| looks.say("SCRIPT KILL")), "+OK");
}

#[test]
fn a_stuck_function_is_killed_by_function_kill() {
    let servers = soon_busy();
    let mut clients = connect(&servers);
    let code = "#!lua name=lib\nredis.register_function('spin', function() while true do end end)\n\
                redis.register_function('write', function(k) redis.call('SET', k[1], 1) while true do end end)";
    both(&mut clients, |(runs, _)| runs.call(&["FUNCTION", "LOAD", code]));
    for (runs, looks) in &mut clients {
        runs.send(&["FCALL", "spin", "1", "key", "argument"]);
        let busy = await_busy(looks);
        assert!(busy.contains("FUNCTION KILL"), "{busy}");
    }
    both(&mut clients, |(_, looks)| looks.say("SCRIPT KILL"));
    let stats = both(&mut clients, |(_, looks)| {
        let stats = looks.say("FUNCTION STATS");
        let (before, after) = stats.split_once("duration_ms\r\n:").expect("a function runs");
        format!("{before}{}", after.split_once("\r\n").expect("more follows").1)
    });
    assert!(stats.contains("spin") && stats.contains("argument"), "{stats}");
    assert_eq!(both(&mut clients, |(_, looks)| looks.say("FUNCTION KILL")), "+OK");
    both(&mut clients, |(runs, _)| String::from_utf8(runs.frame().expect("a reply")).expect("text"));
    both(&mut clients, |(_, looks)| looks.say("FUNCTION KILL"));
    both(&mut clients, |(_, looks)| looks.say("FUNCTION STATS"));
    for (runs, looks) in &mut clients {
        runs.send(&["FCALL", "write", "1", "key"]);
        await_busy(looks);
    }
    let refused = both(&mut clients, |(_, looks)| looks.say("FUNCTION KILL"));
    assert!(refused.starts_with("-UNKILLABLE "), "{refused}");
}

#[test]
fn a_library_is_loaded_in_time_and_within_its_memory() {
    let (ours, theirs) = pair_with(&[]);
    let mut clients = [ours.client(), theirs.client()];
    let load = |client: &mut Client, code: &str| {
        client.call(&["FUNCTION", "LOAD", &format!("#!lua name=x\n{code}")])
    };
    for code in [
        "while true do end",
        "local function f() return f() end return f()",
        "local function f() f() end f()",
        "while true do pcall(function() while true do end end) end",
        "redis.register_function('f', function() while true do end end) while true do end",
    ] {
        both(&mut clients, |client| load(client, code));
    }
    assert_eq!(clients[0].say("FCALL f 0"), "-ERR Function not found");
    clients[0].say("CONFIG SET lua-memory-limit 8mb");
    for code in ["local t = {} for i = 1, 1e9 do t[i] = {} end", "local s = 'x' while true do s = s .. s end"]
    {
        let reply = load(&mut clients[0], code);
        assert!(reply.contains("not enough memory"), "{reply}");
    }
    let code = "redis.register_function('f', function() return 'still' end)";
    assert_eq!(load(&mut clients[0], code), "$1\r\nx");
    assert_eq!(clients[0].say("FCALL f 0"), "$5\r\nstill");
}

#[test]
fn clients_come_and_go_while_a_script_is_stuck() {
    let server = Server::start(&["--busy-reply-threshold", SOON]);
    let mut looks = server.client();
    let mut runs = server.client();
    runs.send(&["EVAL", "while true do end", "0"]);
    await_busy(&mut looks);
    // Some come, are told, and go; one goes in the middle of a request.
    for _ in 0..50 {
        let mut passing = server.client();
        assert!(passing.say("GET x").starts_with("-BUSY"));
        passing.raw(b"*2\r\n$3\r\nGET\r\n$1");
    }
    // What was begun before and ends now is answered too.
    let mut slow = server.client();
    slow.raw(b"*1\r\n$4\r\nPI");
    assert!(looks.say("GET x").starts_with("-BUSY"));
    slow.raw(b"NG\r\n");
    assert!(String::from_utf8_lossy(&slow.frame().expect("a reply")).starts_with("-BUSY"));
    // The one whose script it is hangs up: nobody waits for ever.
    drop(runs);
    until("the script's end", || {
        let killed = looks.say("SCRIPT KILL");
        (killed == "+OK" || killed.starts_with("-NOTBUSY")).then_some(())
    });
    until("an answer", || Some(looks.say("PING")).filter(|reply| reply == "+PONG"));
    let clients = looks.say("CLIENT LIST").matches("id=").count();
    assert_eq!(clients, 2, "those that hung up are gone");
}

/// Some instructions move a hundred megabytes. However many there are, the server answers meanwhile.
#[test]
fn instructions_that_take_long_do_not_keep_others_waiting() {
    let server = Server::start(&["--busy-reply-threshold", SOON]);
    let (mut runs, mut looks) = (server.client(), server.client());
    for script in [
        "local s = string.rep('x', 2^27) while true do local t = s .. 'y' end",
        "local s = string.rep('x', 2^26) while true do string.rep(s, 2) end",
        "local s = string.rep('x', 2^26) while true do redis.sha1hex(s) end",
        "local t = {} for i = 1, 500000 do t[i] = {} end while true do collectgarbage() end",
        "local t = {} for i = 1, 1000000 do t[i] = 'abcdefgh' end while true do table.concat(t) end",
    ] {
        runs.send(&["EVAL", script, "0"]);
        await_busy(&mut looks);
        // Each answer is a look of the script's: a thousand instructions in between would be half a minute.
        let watch = Stopwatch::start();
        for _ in 0..3 {
            assert!(looks.say("GET x").starts_with("-BUSY"), "{script}");
        }
        assert_eq!(looks.say("SCRIPT KILL"), "+OK");
        assert!(
            String::from_utf8_lossy(&runs.frame().expect("a reply")).contains("Script killed"),
            "{script}"
        );
        assert!(watch.elapsed() < Duration::from_secs(10), "{script}: {:?}", watch.elapsed());
    }
}

#[test]
fn a_transaction_and_a_timeout_of_zero() {
    let server = Server::start(&["--busy-reply-threshold", SOON]);
    let (mut runs, mut looks) = (server.client(), server.client());
    runs.say("MULTI");
    runs.say("SET k 1");
    runs.call(&["EVAL", "while true do end", "0"]);
    runs.say("SET k 2");
    runs.send(&["EXEC"]);
    await_busy(&mut looks);
    assert_eq!(looks.say("SCRIPT KILL"), "+OK");
    let told = String::from_utf8(runs.frame().expect("a reply")).expect("text");
    assert!(told.starts_with("*3\r\n+OK\r\n-ERR") && told.ends_with("+OK\r\n"), "{told}");
    assert_eq!(looks.say("GET k"), "$1\r\n2");
    // 0: never busy, so nobody is told anything until the script ends.
    looks.say("CONFIG SET busy-reply-threshold 0");
    // What has been sent over loopback is there: the script is first, and the answer shows it.
    runs.send(&["EVAL", "for i = 1, 2e7 do end redis.call('set', 'k', '3') return 'done'", "0"]);
    assert_eq!(looks.say("GET k"), "$1\r\n3");
    assert_eq!(runs.frame().as_deref(), Some(&b"$4\r\ndone\r\n"[..]));
}

/// A figure of INFO's.
fn info(client: &mut Client, name: &str) -> u64 {
    let info = client.say("INFO memory");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|figure| figure.trim().parse().ok()).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn memory_has_a_cap_and_comes_back() {
    let server = Server::start(&["--lua-memory-limit", "32mb"]);
    let mut client = server.client();
    eval(&mut client, "return 1");
    let (vm, all) = (info(&mut client, "used_memory_vm_eval"), info(&mut client, "used_memory"));
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2^30)",
        "return string.rep(string.rep('x', 2^20), 2^20)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t['key' .. i] = i end",
        "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
        "local t = {} while true do t[#t + 1] = function() return t end end",
        "local t = {} while true do t[#t + 1] = redis.call('ECHO', string.rep('x', 10000)) .. #t end",
        "local t = {} for i = 1, 2^20 do t[i] = 'abcdefgh' end while true do t[#t + 1] = table.concat(t) end",
        "local s = string.rep('a', 2^20) while true do s = s:gsub('a', 'aa') end",
        "local s = string.rep('a', 2^20) return string.format(string.rep('%s', 100), s, s, s, s, s, s, s, s, s, s, s, s, \
         s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s)",
        "local t = {} for _ = 1, 40 do t = {t, t} end return cjson.encode(t)",
        "local t = {} for _ = 1, 15 do t = {t, t, t, t} end return cmsgpack.pack(t)",
        "cjson.encode_sparse_array(false, 0) return cjson.encode({[2^31 - 1] = 1})",
        "return cjson.decode('[' .. string.rep('[],', 2^22) .. '1]')",
        "return cmsgpack.unpack('\\221\\0\\255\\255\\255' .. string.rep('\\145\\1', 2^22))",
        "return struct.pack(string.rep('!1073741824c0i', 2^20), 1)",
        "local s = string.rep('x', 2^20) local t = {} for i = 1, 40 do t[i] = s .. i end return struct.pack('c0', table.concat(t))",
        "return loadstring('return {' .. string.rep('{},', 2^21) .. '}')()",
        "return {unpack({}, 1, 7000)}, string.rep('x', 2^26)",
        "local co = coroutine.wrap(function() local s = 'x' while true do s = s .. s end end) co()",
        "local t = setmetatable({}, {__index = function(t, k) t[k] = string.rep('x', k) return t[k] end}) for i = 1, 1e6 \
         do local _ = t[i] end",
        "local s = '' for i = 1, 1e9 do s = s .. string.rep('x', 1000) end",
        "return pcall(string.rep, 'x', 2^30) and 1 or error('caught, and raised')",
        "local function f(n) local t = {f, n, n, n} return f(n + 1) .. tostring(t) end return f(1)",
        "local t = {} for i = 1, 1e9 do t[i] = math.random() end",
        "return bit.tohex(1) .. string.rep(bit.tohex(1), 2^25)",
    ] {
        let reply = eval(&mut client, script);
        assert!(reply.starts_with("-ERR"), "{script}: {}", shown(reply.as_bytes()));
        assert_eq!(client.say("PING"), "+PONG");
        assert_eq!(eval(&mut client, "return #string.rep('x', 1000)"), ":1000", "{script}");
        let now = info(&mut client, "used_memory_vm_eval");
        assert!(now < vm + (2 << 20), "{script}: {now} bytes are left, {vm} before");
    }
    eval(&mut client, "return 1");
    client.say("SCRIPT FLUSH");
    let now = info(&mut client, "used_memory");
    assert!(now < all + (3 << 20), "{now} bytes are left, {all} before");
    // The limit counts at once, and 0 is none.
    client.say("CONFIG SET lua-memory-limit 4mb");
    assert!(eval(&mut client, "return #string.rep('x', 2^23)").contains("not enough memory"));
    client.say("CONFIG SET lua-memory-limit 0");
    assert_eq!(eval(&mut client, "return #string.rep('x', 2^26)"), ":67108864");
}

/// Each ends in an error, the same on both servers.
const DEEP: &[&str] = &[
    "local function f() return f() + 1 end return f()",
    "local function f(n) if n > 0 then return 1 + f(n - 1) end return 0 end return f(10000)",
    "local function f() return (string.gsub('a', 'a', f)) end return f()",
    "local function f() return pcall(f) end return f()",
    "local function f() local ok, e = pcall(f) return e end return type(f())",
    "local function f() return coroutine.wrap(f)() end return f()",
    "local t = {} setmetatable(t, {__index = t}) return t.x",
    "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
    "local t = setmetatable({}, {__newindex = function(t, k, v) t[k] = v end}) t.x = 1",
    "local t t = setmetatable({}, {__tostring = function() return tostring(t) end}) return tostring(t)",
    "local t t = setmetatable({}, {__add = function(a, b) return a + b end}) return t + 1",
    "local t t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. 'x'",
    "local t t = setmetatable({}, {__lt = function(a, b) return a < b end}) return t < setmetatable({}, getmetatable(t))",
    "local function f() table.sort({1, 2, 3}, function() f() end) end f()",
    "return loadstring(string.rep('(', 300) .. '1' .. string.rep(')', 300))",
    "return {loadstring('return ' .. string.rep('(', 300) .. '1' .. string.rep(')', 300))}",
    "return {loadstring('return ' .. string.rep('{', 300) .. string.rep('}', 300))}",
    "return {loadstring(string.rep('do ', 300) .. string.rep('end ', 300))}",
    "return {loadstring('return ' .. string.rep('-', 1) .. string.rep('not ', 300) .. '1')}",
    "return {loadstring('local a = ' .. string.rep('a.', 10000) .. 'a')} == nil",
    "return {loadstring(string.rep('local a ', 300))}",
    "return {loadstring('return ' .. string.rep('a(', 300) .. string.rep(')', 300))}",
    "return {loadstring('local a = {} return ' .. string.rep('a..', 300) .. '1')}",
    "local t = {} for i = 1, 300 do t[i] = 'a' .. i end return {loadstring('local ' .. table.concat(t, ','))}",
    "local f f = function() return xpcall(f, f) end return type(f())",
    "return select('#', unpack({}, 1, 7000))",
    "return unpack({}, 1, 8000)",
    "return string.char(unpack({}, 1, 8000))",
    "local t = {} for i = 1, 8000 do t[i] = 'x' end return redis.call('DEL', unpack(t))",
    "local t = {} for i = 1, 7000 do t[i] = 'x' end return redis.call('DEL', unpack(t))",
    "local t = {} for i = 1, 10000 do t = {t} end return #cjson.encode(t)",
    "local t = {} for i = 1, 10000 do t = {t} end return #cmsgpack.pack(t)",
    "local co co = coroutine.create(function() return coroutine.resume(co) end) return {coroutine.resume(co)}",
    "local function deep(n) if n == 0 then error('E') end deep(n - 1) return 1 end deep(150)",
    "local function deep(n) if n == 0 then return redis.call('nosuch') end return (deep(n - 1)) end return deep(150)",
];

#[test]
fn recursion_ends_in_an_error() {
    let servers = {
        let (ours, theirs) = pair_with(&[]);
        [ours, theirs]
    };
    let mut clients = servers.each_ref().map(Server::client);
    let mut differences = 0;
    for script in DEEP {
        let [a, b] = clients.each_mut().map(|client| eval(client, script));
        if a != b {
            differences += 1;
            eprintln!("{script}\n  keylatch: {}\n  redis:    {}", shown(a.as_bytes()), shown(b.as_bytes()));
        }
        assert_eq!(clients[0].say("PING"), "+PONG", "{script}");
    }
    assert_eq!(differences, 0, "replies that differ, shown above");
}
