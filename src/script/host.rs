//! `Host`: the VM, the cache of compiled scripts, and a script's run over a lent core with its
//! time and memory limits. Not here: libraries of functions (`functions`), what scripts see
//! (`sandbox`), how values are turned (`convert`).

use super::cache::{Cache, ScriptFlags, Sha};
use super::convert::{self, ErrorLine};
use super::functions::Libraries;
use super::lua::{self, Answer, Mode, Raise, Shared, State, bytes, ffi, push, shared};
use super::random::Rand48;
use super::{Redis, Verdict, api, plan, plan_text, sandbox, shebang};
use crate::base::clock::Stopwatch;
use crate::base::error::CommandError;
use crate::resp::{Args, Reply};
use std::ffi::{c_char, c_int};

/// A failed script: what the client is told, and whether the statistics know it already (the
/// failing command inside was counted).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    pub error: CommandError,
    pub counted: bool,
}

impl From<CommandError> for ScriptError {
    fn from(error: CommandError) -> Self {
        ScriptError { error, counted: false }
    }
}

impl From<ErrorLine> for ScriptError {
    fn from(error: ErrorLine) -> Self {
        ScriptError { error: CommandError::Bytes(error.line), counted: error.counted }
    }
}

/// What INFO tells of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostInfo {
    /// Bytes that Lua holds.
    pub vm_bytes: usize,
    /// Bytes of cached scripts and their entries.
    pub script_bytes: usize,
    /// Bytes of library codes and their entries.
    pub function_bytes: usize,
    pub scripts: usize,
    pub evicted_scripts: u64,
    pub libraries: usize,
    pub functions: usize,
}

/// Instructions between two looks at the time.
const HOOK_EVERY: c_int = 1000;
/// If that took longer, microseconds, the next look is at the next instruction: some of them move
/// hundreds of megabytes.
const SLOW_MICROS: u64 = 2000;
/// Garbage that may pile up over short scripts before a full collection (about 0.1 ms of CPU).
const GARBAGE_BYTES_MAX: usize = 1 << 20;
/// A scratch buffer that is larger after a script is given back.
pub(super) const SCRATCH_BYTES_MAX: usize = 1 << 16;

/// Positions on the main stack that are taken for good.
pub(super) mod slot {
    use std::ffi::c_int;
    pub const HANDLER: c_int = 1;
    pub const EVAL_CONTENT: c_int = 2;
    pub const EVAL_FRONT: c_int = 3;
    pub const FUNCTION_CONTENT: c_int = 4;
    pub const FUNCTION_FRONT: c_int = 5;
    pub const KEYS: c_int = 6;
    pub const ARGV: c_int = 7;
    /// The thread on which results are turned into replies.
    pub const SAYER: c_int = 8;
    pub const LAST: c_int = SAYER;
}

/// The script host: one Lua VM and everything that lives in it.
pub struct Host {
    pub(super) l: State,
    pub(super) shared: Box<Shared>,
    /// A stack of its own for results, so that one may nest as deep as Lua lets a C function go.
    sayer: State,
    cache: Cache,
    pub(super) libraries: Libraries,
    /// What Lua held after the last full collection.
    live_bytes: usize,
    version: String,
    /// For the runs of plans.
    room: plan::Room,
    /// Scripts that have a plan run by it. Tests compare both ways.
    pub(super) by_plan: bool,
}

// SAFETY: the VM is reached through `&mut Host` alone, so by one thread at a time; nothing in it
// is bound to the thread that made it.
unsafe impl Send for Host {}

impl Host {
    /// A host whose scripts see `version` as the server's.
    pub fn new(version: &str) -> Host {
        let mut shared = Shared::new(Rand48::START);
        // SAFETY: a new VM; memory is not capped, so nothing raises outside a protected call.
        let (l, sayer) = unsafe {
            let l = lua::open(&mut shared);
            ffi::lua_gc(l, ffi::LUA_GCSTOP, 0);
            sandbox::open_libraries(l);
            sandbox::push_error_handler(l);
            sandbox::push_globals(l, version, false);
            sandbox::push_globals(l, version, true);
            push(l, b"KEYS");
            push(l, b"ARGV");
            let sayer = ffi::lua_newthread(l);
            debug_assert_eq!(ffi::lua_gettop(l), slot::LAST);
            ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, HOOK_EVERY);
            ffi::lua_gc(l, ffi::LUA_GCCOLLECT, 0);
            (l, sayer)
        };
        let live_bytes = shared.memory.used;
        let libraries = Libraries::default();
        let version = version.to_owned();
        Host {
            l,
            shared,
            sayer,
            cache: Cache::new(),
            libraries,
            live_bytes,
            version,
            room: plan::Room::default(),
            by_plan: true,
        }
    }

    /// EVAL, EVALSHA and their `_RO` forms: `args` is the whole command, of which `keys` keys
    /// stand from number 3 on. An `Err` has not been said to `reply`.
    pub fn eval(
        &mut self,
        core: &mut (dyn Redis + 'static),
        args: &Args<'_>,
        by_sha: bool,
        read_only: bool,
        keys: usize,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError> {
        let at = if by_sha {
            let sha = sha_of(args.get(1)).ok_or(CommandError::NoScript)?;
            self.cache.find(&sha).ok_or(CommandError::NoScript)?
        } else {
            let sha = api::hex(args.get(1));
            match self.cache.find(&sha) {
                Some(at) => at,
                None => self.compile(sha, args.get(1), false)?,
            }
        };
        let script = self.cache.get(at);
        let (flags, reference) = (script.flags, script.reference);
        let running = core.running();
        running.name.clear();
        running.name.push_str(std::str::from_utf8(&script.sha).unwrap_or_default());
        running.is_function = false;
        running.read_only = flags.no_writes;
        fill(running, flags);
        core.start()?;
        if flags.given {
            refuse_writer(flags, read_only)?;
        }
        core.running().read_only |= read_only;
        let rest = args.rest(3);
        let (keys, argv) = rest.split_at(keys.min(rest.len()));
        if let Some(plan) = &self.cache.get(at).plan {
            return plan.run(core, &mut self.room, keys, argv, reply).map_err(|(mut error, line)| {
                let mut digits = itoa::Buffer::new();
                let line = digits.format(line).as_bytes();
                add_place(&mut error.line, &core.running().name, b"@user_script", line);
                error.into()
            });
        }
        note_command(core.running(), args);
        // SAFETY: no cap is set and no script runs, so nothing raises; the stack is balanced by
        // `finish`.
        unsafe {
            let l = self.l;
            self.use_globals(slot::EVAL_FRONT);
            ffi::lua_rawgeti_(l, ffi::LUA_REGISTRYINDEX, reference);
            ffi::lua_pushvalue(l, slot::KEYS);
            push_list(l, keys);
            ffi::lua_rawset(l, slot::EVAL_CONTENT);
            ffi::lua_pushvalue(l, slot::ARGV);
            push_list(l, argv);
            ffi::lua_rawset(l, slot::EVAL_CONTENT);
            let status = self.run(core, Mode::Eval, 0);
            self.finish(core, status, reply)
        }
    }

    /// Makes the set of globals at `front` those of the next chunk and run.
    ///
    /// SAFETY: `front` is one of the main stack's fixed positions.
    pub(super) unsafe fn use_globals(&mut self, front: c_int) {
        unsafe {
            ffi::lua_pushvalue(self.l, front);
            ffi::lua_replace(self.l, ffi::LUA_GLOBALSINDEX);
        }
    }

    /// Calls the function below `argc` arguments on the stack, over `core`. Leaves its one result
    /// or its error.
    ///
    /// SAFETY: function and arguments are on the main stack.
    pub(super) unsafe fn run(&mut self, core: &mut (dyn Redis + 'static), mode: Mode, argc: c_int) -> c_int {
        let l = self.l;
        let limit = match core.memory_limit() {
            0 => usize::MAX,
            bytes => self.shared.memory.used.saturating_add(bytes),
        };
        unsafe {
            ffi::lua_gc(l, ffi::LUA_GCSTOP, 0);
            let shared: *mut Shared = &mut *self.shared;
            (*shared).lend(core);
            (*shared).mode = mode;
            (*shared).memory.collect_at = (*shared).memory.used.saturating_add(GARBAGE_BYTES_MAX);
            (*shared).script_limit = limit;
            (*shared).memory.limit = limit;
            let status = ffi::lua_pcall(l, argc, 1, slot::HANDLER);
            (*shared).memory.limit = usize::MAX;
            (*shared).script_limit = usize::MAX;
            (*shared).mode = Mode::Idle;
            (*shared).take_back();
            (*shared).killed = false;
            (*shared).looked = None;
            (*shared).memory.hurried = false;
            if ffi::lua_gethookcount(l) != HOOK_EVERY {
                ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, HOOK_EVERY);
            }
            status
        }
    }

    /// Says a run's result, or gives its error; then cleans up.
    ///
    /// SAFETY: the run's result or error is on top of the main stack.
    pub(super) unsafe fn finish(
        &mut self,
        core: &mut (dyn Redis + 'static),
        status: c_int,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError> {
        let l = self.l;
        let result = unsafe {
            if status == 0 {
                let resp3 = core.running().resp3;
                let mut saying = convert::Saying { reply, resp3, errors: Vec::new() };
                ffi::lua_pushnil(self.sayer); // as many values below the result as Redis has there
                ffi::lua_xmove(l, self.sayer, 1);
                let said = convert::say_result(self.sayer, &mut saying).map_err(ScriptError::from);
                ffi::lua_settop(self.sayer, 0);
                saying.errors.iter().for_each(|line| core.error_said(line));
                said
            } else {
                Err(script_error(l, &core.running().name))
            }
        };
        unsafe { ffi::lua_settop(l, slot::LAST) };
        self.tidy();
        if let Some(panic) = self.shared.panic.take() {
            std::panic::resume_unwind(panic);
        }
        result
    }

    /// Collects garbage when there is enough of it, and undoes what a script told the collector.
    pub(super) fn tidy(&mut self) {
        let l = self.l;
        // SAFETY: no cap is set, so a collection cannot raise.
        unsafe {
            ffi::lua_gc(l, ffi::LUA_GCSETPAUSE, 200);
            ffi::lua_gc(l, ffi::LUA_GCSETSTEPMUL, 200);
        }
        if self.shared.memory.used > self.live_bytes + GARBAGE_BYTES_MAX {
            self.collect();
        }
        for scratch in [&mut self.shared.scratch, &mut self.shared.scratch2] {
            if scratch.capacity() > SCRATCH_BYTES_MAX {
                *scratch = Vec::new();
            }
        }
        if self.shared.choices.capacity() > 1 << 10 {
            self.shared.choices = Vec::new();
        }
    }

    pub(super) fn collect(&mut self) {
        // SAFETY: as above.
        unsafe {
            // Lua halves the buffer in which it joins strings once a collection: one may not do.
            let mut before = usize::MAX;
            while self.shared.memory.used.saturating_add(GARBAGE_BYTES_MAX / 16) < before {
                before = self.shared.memory.used;
                ffi::lua_gc(self.l, ffi::LUA_GCCOLLECT, 0);
            }
            ffi::lua_gc(self.l, ffi::LUA_GCSTOP, 0);
        }
        self.live_bytes = self.shared.memory.used;
    }

    /// Compiles `body` and caches it.
    fn compile(&mut self, sha: Sha, body: &[u8], kept: bool) -> Result<u32, CommandError> {
        let (flags, shebang_len) = shebang::script(body)?;
        let l = self.l;
        // SAFETY: no cap is set; `luaL_loadbuffer` does not raise.
        let reference = unsafe {
            self.use_globals(slot::EVAL_FRONT);
            if load_chunk(l, &body[shebang_len..], c"@user_script".as_ptr()) != 0 {
                let mut line = b"ERR Error compiling script (new function): ".to_vec();
                line.extend_from_slice(bytes(l, -1).unwrap_or_default());
                ffi::lua_settop(l, slot::LAST);
                self.tidy();
                return Err(CommandError::Bytes(line));
            }
            ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX)
        };
        let plan = if self.by_plan { plan_text::read(&body[shebang_len..]) } else { None };
        let (at, dropped) = self.cache.add(sha, body, flags, reference, plan, kept);
        if let Some(dropped) = dropped {
            // SAFETY: the reference was luaL_ref's and nobody has it any more.
            unsafe { ffi::luaL_unref(l, ffi::LUA_REGISTRYINDEX, dropped) };
        }
        Ok(at)
    }

    /// SCRIPT LOAD: caches `args[2]` for good; says its SHA1.
    pub fn load(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
        let body = args.get(2);
        let sha = api::hex(body);
        match self.cache.find(&sha) {
            Some(at) => self.cache.keep(at),
            None => {
                self.compile(sha, body, true)?;
            }
        }
        reply.bulk(&sha);
        Ok(())
    }

    /// SCRIPT EXISTS: 1 or 0 for each of `args[2..]`.
    pub fn exists(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
        reply.array(args.rest(2).len());
        for sha in args.rest(2) {
            let there = sha_of(sha).is_some_and(|sha| self.cache.has(&sha));
            reply.integer(i64::from(there));
        }
        Ok(())
    }

    /// SCRIPT FLUSH [ASYNC | SYNC].
    pub fn flush(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
        if args.len() > 3 || (args.len() == 3 && !args.is(2, "async") && !args.is(2, "sync")) {
            return Err(CommandError::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
        }
        for reference in self.cache.clear() {
            // SAFETY: the references were luaL_ref's and nobody has them any more.
            unsafe { ffi::luaL_unref(self.l, ffi::LUA_REGISTRYINDEX, reference) };
        }
        self.shared.eval_json = super::json::Config::START;
        self.collect();
        reply.ok();
        Ok(())
    }

    /// SCRIPT SHOW: the body of `args[2]`.
    pub fn show(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
        let sha = sha_of(args.get(2)).ok_or(CommandError::NoScript)?;
        let at = self.cache.find(&sha).ok_or(CommandError::NoScript)?;
        reply.bulk(&self.cache.get(at).body);
        Ok(())
    }

    /// What INFO tells.
    pub fn info(&self) -> HostInfo {
        HostInfo {
            vm_bytes: self.shared.memory.used,
            script_bytes: self.cache.bytes(),
            function_bytes: self.libraries.bytes(),
            scripts: self.cache.len(),
            evicted_scripts: self.cache.evicted,
            libraries: self.libraries.library_count(),
            functions: self.libraries.function_count(),
        }
    }

    /// What the server reports as its version.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the VM is closed once, before `shared`, which its allocator uses, goes.
        unsafe { ffi::lua_close(self.l) };
    }
}

/// What an `_RO` command says to a script or function that may write.
pub(super) fn refuse_writer(flags: ScriptFlags, read_only: bool) -> Result<(), CommandError> {
    if read_only && !flags.no_writes {
        return Err(CommandError::fixed("ERR Can not execute a script with write flag using *_ro command."));
    }
    Ok(())
}

/// Notes in `running` what is run and what it may do.
pub(super) fn fill(running: &mut super::Running, flags: ScriptFlags) {
    running.has_flags = flags.given;
    running.allow_oom = flags.allow_oom;
    running.allow_cross_slot = flags.allow_cross_slot;
    running.resp3 = false;
    running.wrote = false;
    running.timed_out = false;
    running.kill = false;
}

/// Notes the whole command in `running`, for those who ask what runs so long.
pub(super) fn note_command(running: &mut super::Running, args: &Args<'_>) {
    running.command.truncate(args.len());
    running.command.resize_with(args.len(), Vec::new);
    for (kept, arg) in running.command.iter_mut().zip(args.all()) {
        kept.clear();
        kept.extend_from_slice(arg);
    }
}

/// The cache's key for what a client gave as a SHA1.
fn sha_of(given: &[u8]) -> Option<Sha> {
    let mut sha: Sha = given.try_into().ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

/// Compiles text, never bytecode: what begins like it gets a blank in front, so that Lua's own parser
/// refuses it as text, in its own words. 0: the chunk is on top; else the error.
///
/// SAFETY: `l` is a VM's state.
pub(super) unsafe fn load_chunk(l: State, text: &[u8], name: *const c_char) -> c_int {
    unsafe {
        if text.first() == Some(&0x1b) {
            let blank = [b" ", text].concat();
            return ffi::luaL_loadbuffer(l, blank.as_ptr().cast(), blank.len(), name);
        }
        let text = super::source::without_nesting(text);
        ffi::luaL_loadbuffer(l, text.as_ptr().cast(), text.len(), name)
    }
}

/// Pushes a list of strings.
///
/// SAFETY: memory is not capped.
pub(super) unsafe fn push_list(l: State, items: &[&[u8]]) {
    unsafe {
        ffi::lua_createtable(l, c_int::try_from(items.len()).unwrap_or(c_int::MAX), 0);
        for (i, item) in items.iter().enumerate() {
            push(l, item);
            ffi::lua_rawseti_(l, -2, i as c_int + 1);
        }
    }
}

/// The error on top, as the client is told.
///
/// SAFETY: as `push_list`.
unsafe fn script_error(l: State, name: &str) -> ScriptError {
    unsafe {
        if ffi::lua_type(l, -1) != ffi::LUA_TTABLE {
            let text = bytes(l, -1).unwrap_or(b"execution failure");
            let mut line = format!("ERR Error running script {name}, ").into_bytes();
            line.extend_from_slice(&text[..text.len().min(100)]);
            return ScriptError { error: CommandError::Bytes(line), counted: false };
        }
        let mut error = convert::error_line(l);
        ffi::lua_getfield_(l, -1, c"source".as_ptr());
        ffi::lua_getfield_(l, -2, c"line".as_ptr());
        if let (Some(source), Some(line)) = (bytes(l, -2), bytes(l, -1)) {
            add_place(&mut error.line, name, source, line);
        }
        error.into()
    }
}

/// Adds which script failed, and where.
fn add_place(error: &mut Vec<u8>, name: &str, source: &[u8], line: &[u8]) {
    let tail: [&[u8]; 7] = [b" script: ", name.as_bytes(), b", on ", source, b":", line, b"."];
    tail.iter().for_each(|part| error.extend_from_slice(part));
}

/// Called every `HOOK_EVERY` instructions, more often while they take long; after a kill at each.
unsafe extern "C-unwind" fn hook(l: State, _: *mut ffi::lua_Debug) {
    // SAFETY: Lua calls with its own state. `look_around` owns nothing when the error is raised.
    unsafe {
        let before = shared(l);
        before.memory.hurried = false;
        let slow = before.looked.is_some_and(|watch| watch.micros() > SLOW_MICROS);
        if let Err(Raise) = look_around(l) {
            ffi::lua_error(l);
        }
        let every = ffi::lua_gethookcount(l);
        let next = if slow { 1 } else { every.saturating_mul(4).min(HOOK_EVERY) };
        if next != every {
            ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, next);
        }
        shared(l).looked = Some(Stopwatch::start());
    }
}

/// Has the hook called at the next instruction of `l`.
///
/// SAFETY: `l` is a VM's state; only fields of it are set.
pub(super) unsafe fn look_soon(l: State) {
    unsafe { ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, 1) };
}

/// Serves others if the script is over its time; an error if the run is to end.
///
/// SAFETY: `l` is a VM's state; nothing of `Shared` is borrowed.
pub(super) unsafe fn look_around(l: State) -> Answer {
    unsafe {
        let shared = shared(l);
        if shared.killed {
            // A coroutine that was made before the kill has the slow hook still.
            return end_run(l);
        }
        match shared.mode {
            Mode::Idle => {}
            Mode::Load => {
                if shared
                    .load_stopwatch
                    .is_some_and(|watch| watch.micros() > super::functions::LOAD_MICROS_MAX)
                {
                    shared.killed = true;
                    return api::misuse(l, "FUNCTION LOAD timeout");
                }
            }
            Mode::Eval | Mode::Function => {
                shared.memory.limit = usize::MAX;
                let core = shared.core().expect("a core is lent while a script runs");
                let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| core.breathe()));
                shared.memory.limit = shared.script_limit;
                match verdict {
                    Ok(Verdict::Continue) => {}
                    Ok(Verdict::Kill) => shared.killed = true,
                    Err(panic) => {
                        shared.killed = true;
                        shared.panic = Some(panic);
                    }
                }
                if shared.killed {
                    return end_run(l);
                }
            }
        }
    }
    Ok(0)
}

/// Raises what a killed script is told, now and at each instruction to come.
unsafe fn end_run(l: State) -> Answer {
    unsafe {
        ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, 1);
        // A function of a library may have filled its stack; it needs nothing of that any more.
        if ffi::lua_checkstack(l, 4) == 0 {
            ffi::lua_settop(l, 0);
        }
        api::misuse(l, "Script killed by user with SCRIPT KILL...")
    }
}
