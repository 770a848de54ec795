//! The host against a small server of its own: a map of keys, enough commands to try scripts on.
//! The same scripts against redis-server are in `tests/scripting.rs`.

use super::{Host, LogLevel, Redis, Running, ScriptError, Verdict};
use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::resp::{Args, Protocol, Reply, RespWriter};
use std::collections::HashMap;

/// A map that understands a few commands.
#[derive(Default)]
pub(super) struct Mock {
    pub keys: HashMap<Vec<u8>, Vec<u8>>,
    running: Running,
    /// Breaths until the script is killed; `None`: never.
    pub kill_after: Option<u32>,
    pub breaths: u32,
    pub memory_limit: usize,
    pub logged: Vec<u8>,
    pub resp3: bool,
}

impl Redis for Mock {
    fn call(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
        let name = args.get(0).to_ascii_lowercase();
        match (name.as_slice(), args.len()) {
            (b"get", 2) => reply.bulk_or_null(self.keys.get(args.get(1)).map(Vec::as_slice)),
            (b"set", 3) => {
                if self.running.read_only {
                    return Err(CommandError::fixed(
                        "ERR Write commands are not allowed from read-only scripts.",
                    ));
                }
                self.running.wrote = true;
                self.keys.insert(args.get(1).to_vec(), args.get(2).to_vec());
                reply.ok();
            }
            (b"del", 2) => reply.integer(i64::from(self.keys.remove(args.get(1)).is_some())),
            (b"many", 2) => {
                let n = args.int(1)? as usize;
                reply.map(n);
                for i in 0..n {
                    reply.integer(i as i64);
                    reply.array(2);
                    reply.null();
                    reply.double(0.5);
                }
            }
            (b"set3", 1) => {
                reply.set(2);
                reply.text("a");
                reply.text("b");
            }
            (b"truth", 1) => reply.boolean(true),
            (b"verb", 1) => reply.verbatim(b"txt", b"words"),
            (b"big", 1) => reply.big_number(b"123456789012345678901234567890"),
            (b"panic", 1) => panic!("as ordered"),
            (b"get" | b"set" | b"del", _) => {
                return Err(CommandError::fixed(
                    "ERR Wrong number of args calling Redis command from script",
                ));
            }
            _ => return Err(CommandError::fixed("ERR Unknown Redis command called from script")),
        }
        Ok(())
    }
    fn breathe(&mut self) -> Verdict {
        self.breaths += 1;
        match self.kill_after {
            Some(n) if self.breaths >= n => Verdict::Kill,
            _ => Verdict::Continue,
        }
    }
    fn running(&mut self) -> &mut Running {
        &mut self.running
    }
    fn now(&self) -> UnixMs {
        UnixMs(0)
    }
    fn log(&mut self, _: LogLevel, text: &[u8]) {
        self.logged = text.to_vec();
    }
    fn acl_check(&mut self, args: &Args<'_>) -> Result<bool, CommandError> {
        if args.is(0, "nosuch") { Err(CommandError::Syntax) } else { Ok(true) }
    }
    fn version(&self) -> &str {
        "7.2.4"
    }
    fn memory_limit(&self) -> usize {
        self.memory_limit
    }
    fn caller_resp3(&self) -> bool {
        self.resp3
    }
}

/// A host and its server, and what a client would read.
pub(super) struct Bench {
    pub host: Host,
    pub core: Mock,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { host: Host::new("7.2.4"), core: Mock { memory_limit: 64 << 20, ..Mock::default() } }
    }

    /// The bytes that answer a command.
    pub fn run(&mut self, parts: &[&[u8]]) -> Vec<u8> {
        let args = Args::new(parts);
        let protocol = if self.core.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let mut out = Vec::new();
        let result = {
            let mut writer = RespWriter::new(&mut out, protocol);
            let keys = |at: usize| std::str::from_utf8(parts[at]).unwrap().parse().unwrap();
            let (host, core) = (&mut self.host, &mut self.core);
            match parts[0] {
                b"eval" => host.eval(core, &args, false, false, keys(2), &mut writer),
                b"eval_ro" => host.eval(core, &args, false, true, keys(2), &mut writer),
                b"evalsha" => host.eval(core, &args, true, false, keys(2), &mut writer),
                b"fcall" => host.fcall(core, &args, false, keys(2), &mut writer),
                b"fcall_ro" => host.fcall(core, &args, true, keys(2), &mut writer),
                b"function" => {
                    let sub = String::from_utf8_lossy(parts[1]).to_lowercase();
                    host.function(core, &sub, &args, &mut writer).map_err(ScriptError::from)
                }
                b"script" => match parts[1] {
                    b"load" => host.load(&args, &mut writer),
                    b"exists" => host.exists(&args, &mut writer),
                    b"flush" => host.flush(&args, &mut writer),
                    b"show" => host.show(&args, &mut writer),
                    _ => Err(CommandError::Syntax),
                }
                .map_err(ScriptError::from),
                _ => Err(CommandError::Syntax.into()),
            }
        };
        if let Err(error) = result {
            assert!(out.is_empty(), "said something before an error");
            RespWriter::new(&mut out, protocol).error(&error.error);
        }
        out
    }

    /// What EVAL of `script` without keys answers.
    pub fn eval(&mut self, script: &str) -> String {
        let out = self.run(&[b"eval", script.as_bytes(), b"0"]);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The same, without the `script: SHA` tail.
    pub fn error(&mut self, script: &str) -> String {
        let out = self.eval(script);
        out.split(" script: ").next().unwrap_or_default().trim_end().to_owned()
    }
}

#[test]
fn scripts_run_with_keys_and_arguments() {
    let mut bench = Bench::new();
    let script =
        b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    bench.core.keys.insert(b"lock".to_vec(), b"token".to_vec());
    assert_eq!(bench.run(&[b"eval", script, b"1", b"lock", b"other"]), b":0\r\n");
    assert_eq!(bench.run(&[b"eval", script, b"1", b"lock", b"token"]), b":1\r\n");
    let sha = super::api::hex(script);
    assert_eq!(bench.run(&[b"evalsha", &sha, b"1", b"lock", b"token"]), b":0\r\n");
    assert_eq!(
        bench.run(&[b"evalsha", &[b'0'; 40], b"0"]),
        b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
    );
}

#[test]
fn errors_are_redis_words() {
    let mut bench = Bench::new();
    for (script, answer) in [
        ("error(nil)", "-ERR nil"),
        ("error(true)", "-ERR true"),
        ("error('x')", "-ERR user_script:1: x"),
        ("error('x',0)", "-ERR x"),
        ("error({err='abc'})", "-abc"),
        ("return redis.call('get')", "-ERR Wrong number of args calling Redis command from script"),
        ("return redis.call()", "-ERR Please specify at least one argument for this redis lib call"),
        ("return redis.call({})", "-ERR Lua redis lib command arguments must be strings or integers"),
        ("return redis.pcall({})", "-ERR Lua redis lib command arguments must be strings or integers"),
        ("syntax err", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'err'"),
        ("local function f() return f()+1 end return f()", "-ERR user_script:1: stack overflow"),
        ("x=1", "-ERR user_script:1: Attempt to modify a readonly table"),
        ("string.sub=1", "-ERR user_script:1: Attempt to modify a readonly table"),
        ("redis.call=nil", "-ERR user_script:1: Attempt to modify a readonly table"),
        ("KEYS={}", "-ERR user_script:1: Attempt to modify a readonly table"),
        ("return x", "-ERR user_script:1: Script attempted to access nonexistent global variable 'x'"),
        ("rawset(_G,'a',1)", "-ERR Attempt to modify a readonly table"),
        ("setmetatable(_G,{})", "-ERR Attempt to modify a readonly table"),
        ("table.insert(string,1)", "-ERR Attempt to modify a readonly table"),
        ("getmetatable('').__index=1", "-ERR user_script:1: Attempt to modify a readonly table"),
        ("getmetatable(_G).__index=nil", "-ERR user_script:1: Attempt to modify a readonly table"),
        ("return redis.sha1hex()", "-ERR wrong number of arguments"),
        ("coroutine.yield(1)", "-ERR attempt to yield across metamethod/C-call boundary"),
        ("return ('x'):bad()", "-ERR user_script:1: attempt to call method 'bad' (a nil value)"),
    ] {
        assert_eq!(bench.error(script), answer, "{script}");
    }
    assert_eq!(
        bench.eval("error('x')"),
        "-ERR user_script:1: x script: 9851144f39f03a0d597a980c5aa79c80cb696891, on @user_script:1.\r\n"
    );
}

#[test]
fn the_sandbox_hides_what_redis_hides_and_shows_the_rest() {
    let mut bench = Bench::new();
    for name in [
        "io", "os", "print", "dofile", "loadfile", "require", "package", "newproxy", "setfenv", "getfenv",
        "debug", "module",
    ] {
        assert!(
            bench.eval(&format!("return {name}")).starts_with("-ERR user_script:1: Script attempted"),
            "{name}"
        );
    }
    assert_eq!(bench.eval("return next(string) ~= nil"), ":1\r\n");
    assert_eq!(bench.eval("local n=0 for k,v in pairs(string) do n=n+1 end return n"), ":15\r\n");
    assert_eq!(bench.eval("local n=0 for k,v in pairs(table) do n=n+1 end return n"), ":9\r\n");
    assert_eq!(bench.eval("return rawget(string,'sub') ~= nil"), ":1\r\n");
    assert_eq!(bench.eval("return getmetatable(string)"), "$-1\r\n");
    assert_eq!(bench.eval("return _G._G == _G and server == redis"), ":1\r\n");
    assert_eq!(bench.eval("return type(getmetatable('').__index.sub)"), "$8\r\nfunction\r\n");
    assert_eq!(
        bench.eval("local a,b = loadstring('\\27Lua') return b"),
        "$52\r\n[string \"\u{1b}Lua\"]:1: unexpected symbol near 'char(27)'\r\n"
    );
    assert_eq!(bench.eval("return loadstring(string.dump(function() end))"), "$-1\r\n");
}

#[test]
fn a_kill_outlives_pcall_and_coroutines() {
    let mut bench = Bench::new();
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do end end) while true do pcall(f) end",
        "while true do local c = coroutine.create(function() while true do end end) coroutine.resume(c) end",
    ] {
        bench.core.kill_after = Some(bench.core.breaths + 5);
        assert_eq!(bench.error(script), "-ERR Script killed by user with SCRIPT KILL...", "{script}");
        bench.core.kill_after = None;
        assert_eq!(bench.eval("local n = 0 for i=1,100000 do n = n + 1 end return n"), ":100000\r\n");
    }
}

#[test]
fn memory_is_capped_and_comes_back() {
    let mut bench = Bench::new();
    let before = bench.host.info().vm_bytes;
    for script in [
        "local t = {} while true do t[#t+1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2^30)",
        "local t = {} for i = 1, 100 do pcall(function() t[i] = string.rep('x', 2^20) .. i end) end error(#t < 70)",
    ] {
        assert!(bench.error(script).starts_with("-ERR"), "{script}: {}", bench.error(script));
        assert_eq!(bench.eval("return 1"), ":1\r\n");
        let after = bench.host.info().vm_bytes;
        assert!(after < before + (2 << 20), "{script}: {before} {after}");
    }
    assert_eq!(bench.eval("return #string.rep('x', 2^20)"), ":1048576\r\n");
    assert_eq!(
        bench.eval("local ok, e = pcall(string.rep, 'x', 2^30) return e"),
        "$17\r\nnot enough memory\r\n"
    );
    // Garbage is collected while the script runs.
    assert_eq!(bench.eval("for i = 1, 1000 do local s = string.rep('x', 2^20) .. i end return 1"), ":1\r\n");
}

#[test]
fn a_panic_in_a_command_reaches_the_caller_and_the_host_lives() {
    let mut bench = Bench::new();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        bench.eval("return pcall(redis.call, 'panic')")
    }));
    assert!(caught.is_err());
    assert_eq!(bench.eval("return 1"), ":1\r\n");
}

#[test]
fn replies_become_values_and_values_replies() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.eval("return redis.call('many', 2)"),
        "*4\r\n:0\r\n*2\r\n$-1\r\n$3\r\n0.5\r\n:1\r\n*2\r\n$-1\r\n$3\r\n0.5\r\n"
    );
    bench.core.resp3 = true;
    assert_eq!(bench.eval("redis.setresp(3) return redis.call('many', 1)"), "%1\r\n:0\r\n*0\r\n");
    assert_eq!(bench.eval("redis.setresp(3) return redis.call('set3')"), "~2\r\n$1\r\na\r\n$1\r\nb\r\n");
    assert_eq!(bench.eval("redis.setresp(3) return redis.call('truth')"), "#t\r\n");
    assert_eq!(bench.eval("return redis.call('truth')"), ":1\r\n");
    assert_eq!(bench.eval("redis.setresp(3) return redis.call('verb')"), "=9\r\ntxt:words\r\n");
    assert_eq!(
        bench.eval("redis.setresp(3) return redis.call('big').big_number"),
        "$30\r\n123456789012345678901234567890\r\n"
    );
    assert_eq!(
        bench.eval("return {1,2,3.9,-3.9,'a',true,false,nil,4}"),
        "*7\r\n:1\r\n:2\r\n:3\r\n:-3\r\n$1\r\na\r\n:1\r\n_\r\n"
    );
    assert_eq!(
        bench.eval("return {1e300,-1e300,0/0,1/0}"),
        "*4\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n"
    );
    assert_eq!(bench.eval("return {double=3.5}"), ",3.5\r\n");
}

#[test]
fn read_only_scripts_and_flags() {
    let mut bench = Bench::new();
    let refused = b"-ERR Write commands are not allowed from read-only scripts.";
    assert!(bench.run(&[b"eval_ro", b"return redis.call('set','a','b')", b"0"]).starts_with(refused));
    assert!(
        bench
            .run(&[b"eval", b"#!lua flags=no-writes\nreturn redis.call('set','a','b')", b"0"])
            .starts_with(refused)
    );
    assert_eq!(
        bench.run(&[b"eval", b"#!lua flags=bad\nreturn 1", b"0"]),
        b"-ERR Unexpected flag in script shebang: bad\r\n"
    );
    assert_eq!(
        bench.run(&[b"eval_ro", b"#!lua\nreturn 1", b"0"]),
        b"-ERR Can not execute a script with write flag using *_ro command.\r\n"
    );
    assert!(
        bench.run(&[b"eval", b"#!lua\n\nerror('x')", b"0"]).starts_with(b"-ERR user_script:3: x script: ")
    );
}

#[test]
fn the_cache_answers_for_itself() {
    let mut bench = Bench::new();
    let sha = bench.run(&[b"script", b"load", b"return 7"]);
    let sha = &sha[5..45];
    assert_eq!(bench.run(&[b"evalsha", sha, b"0"]), b":7\r\n");
    assert_eq!(bench.run(&[b"evalsha", &sha.to_ascii_uppercase(), b"0"]), b":7\r\n");
    assert_eq!(bench.run(&[b"script", b"exists", sha, b"x"]), b"*2\r\n:1\r\n:0\r\n");
    assert_eq!(bench.run(&[b"script", b"show", sha]), b"$8\r\nreturn 7\r\n");
    for n in 0..600 {
        bench.eval(&format!("return {n}"));
    }
    assert_eq!(bench.host.info().scripts, 501);
    assert_eq!(bench.run(&[b"evalsha", sha, b"0"]), b":7\r\n");
    assert_eq!(bench.run(&[b"script", b"flush"]), b"+OK\r\n");
    assert!(bench.run(&[b"evalsha", sha, b"0"]).starts_with(b"-NOSCRIPT"));
}

#[test]
fn os_has_a_clock_from_7_4_on() {
    let mut bench = Bench::new();
    assert!(bench.error("return os.clock()").contains("nonexistent global variable 'os'"));
    bench.host = Host::new("7.4.0");
    let names = "local t = {} for k in pairs(os) do t[#t + 1] = k end return t";
    assert_eq!(bench.eval(names), "*1\r\n$5\r\nclock\r\n");
    assert_eq!(bench.eval("local a = os.clock() return type(a) == 'number' and os.clock() >= a"), ":1\r\n");
    assert!(bench.error("os.clock = nil").contains("Attempt to modify a readonly table"));
}
