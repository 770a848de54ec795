//! Libraries of functions: FUNCTION and its subcommands, FCALL, `redis.register_function`. Not
//! here: how libraries travel (`payload`), the run itself (`host`), FUNCTION KILL (the engine).

use super::api::misuse;
use super::cache::ScriptFlags;
use super::convert;
use super::host::{Host, ScriptError, fill, load_chunk, note_command, push_list, slot};
use super::lua::{Answer, Mode, Raise, State, bytes, ffi, shared};
use super::{Redis, Running, payload, sandbox, shebang};
use crate::base::clock::Stopwatch;
use crate::base::error::CommandError;
use crate::base::glob;
use crate::resp::{Args, Reply};
use std::collections::HashMap;
use std::ffi::c_int;

/// How long a library may take to load.
pub(super) const LOAD_MICROS_MAX: u64 = 500_000;

/// A function's flags, a bit each, in Redis's order.
const FLAGS: &[&str] = &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

fn to_flags(bits: u8) -> ScriptFlags {
    ScriptFlags {
        given: true,
        no_writes: bits & 1 != 0,
        allow_oom: bits & 2 != 0,
        allow_cross_slot: bits & 16 != 0,
    }
}

/// One registered function.
struct Function {
    name: Vec<u8>,
    description: Option<Vec<u8>>,
    flags: u8,
    /// The callback's place in Lua's registry.
    reference: c_int,
}

/// What the library that is loading has registered so far.
#[derive(Default)]
pub(super) struct Loading(Vec<Function>);

/// A loaded library.
struct Library {
    name: Vec<u8>,
    code: Vec<u8>,
    functions: Vec<Function>,
}

/// All libraries.
#[derive(Default)]
pub(super) struct Libraries {
    libraries: Vec<Library>,
    /// Each function's reference and flags by its name in lower case: calls do not tell cases apart.
    index: HashMap<Vec<u8>, (c_int, u8)>,
}

impl Libraries {
    pub fn bytes(&self) -> usize {
        self.libraries.iter().map(|library| library.code.len() + library.functions.len() * 96 + 96).sum()
    }
    pub fn library_count(&self) -> usize {
        self.libraries.len()
    }
    pub fn function_count(&self) -> usize {
        self.index.len()
    }

    fn find(&self, name: &[u8]) -> Result<(c_int, u8), CommandError> {
        let found = self.index.get(&name.to_ascii_lowercase()).copied();
        found.ok_or(CommandError::fixed("ERR Function not found"))
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.libraries.iter().position(|library| library.name == name)
    }

    fn reindex(&mut self) {
        self.index.clear();
        for function in self.libraries.iter().flat_map(|library| &library.functions) {
            let entry = self.index.entry(function.name.to_ascii_lowercase());
            entry.or_insert((function.reference, function.flags));
        }
    }
}

/// Says what FUNCTION STATS says; `running`: the function under way and its milliseconds so far.
pub fn say_function_stats(
    running: Option<(&Running, i64)>,
    libraries: usize,
    functions: usize,
    reply: &mut dyn Reply,
) {
    reply.map(2);
    reply.text("running_script");
    match running {
        None => reply.null(),
        Some((running, millis)) => {
            reply.map(3);
            reply.text("name");
            reply.text(&running.name);
            reply.text("command");
            reply.array(running.command.len());
            running.command.iter().for_each(|part| reply.bulk(part));
            reply.text("duration_ms");
            reply.integer(millis);
        }
    }
    reply.text("engines");
    reply.map(1);
    reply.text("LUA");
    reply.map(2);
    reply.text("libraries_count");
    reply.integer(libraries as i64);
    reply.text("functions_count");
    reply.integer(functions as i64);
}

impl Host {
    /// `Err`: there is no function of that name.
    pub fn find_function(&self, name: &[u8]) -> Result<(), CommandError> {
        self.libraries.find(name).map(|_| ())
    }

    /// FCALL and FCALL_RO: `args` is the whole command, of which `keys` keys stand from number 3
    /// on. An `Err` has not been said to `reply`.
    pub fn fcall(
        &mut self,
        core: &mut (dyn Redis + 'static),
        args: &Args<'_>,
        read_only: bool,
        keys: usize,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError> {
        let (reference, flags) = self.libraries.find(args.get(1))?;
        let flags = to_flags(flags);
        let running = core.running();
        running.name.clear();
        running.name.push_str(&String::from_utf8_lossy(args.get(1)));
        running.is_function = true;
        running.read_only = flags.no_writes;
        running.libraries = self.libraries.library_count();
        running.functions = self.libraries.function_count();
        fill(running, flags);
        note_command(running, args);
        core.start()?;
        super::host::refuse_writer(flags, read_only)?;
        let rest = args.rest(3);
        let (keys, argv) = rest.split_at(keys.min(rest.len()));
        // SAFETY: no cap is set and no script runs, so nothing raises; `finish` balances the stack.
        unsafe {
            self.use_globals(slot::FUNCTION_FRONT);
            ffi::lua_rawgeti_(self.l, ffi::LUA_REGISTRYINDEX, reference);
            push_list(self.l, keys);
            push_list(self.l, argv);
            let status = self.run(core, Mode::Function, 2);
            self.finish(core, status, reply)
        }
    }

    /// FUNCTION's subcommand `sub` (in lower case), but KILL and HELP.
    pub fn function(
        &mut self,
        core: &mut (dyn Redis + 'static),
        sub: &str,
        args: &Args<'_>,
        reply: &mut dyn Reply,
    ) -> Result<(), CommandError> {
        match sub {
            "load" => self.function_load(core, args, reply),
            "list" => self.function_list(args, reply),
            "delete" => {
                let at = self
                    .libraries
                    .position(args.get(2))
                    .ok_or(CommandError::fixed("ERR Library not found"))?;
                let library = self.libraries.libraries.remove(at);
                self.release(library.functions);
                reply.ok();
                Ok(())
            }
            "flush" => {
                if args.len() > 3 {
                    return Err(usage(args.get(1)));
                }
                if args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async") {
                    return Err(CommandError::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
                }
                self.function_flush();
                reply.ok();
                Ok(())
            }
            "stats" => {
                let (libraries, functions) =
                    (self.libraries.library_count(), self.libraries.function_count());
                say_function_stats(None, libraries, functions, reply);
                Ok(())
            }
            "dump" => {
                let codes: Vec<&[u8]> = self.libraries.libraries.iter().map(|l| l.code.as_slice()).collect();
                reply.bulk(&payload::dump(&codes));
                Ok(())
            }
            "restore" => self.function_restore(core, args, reply),
            _ => Err(usage(args.get(1))),
        }
    }

    fn function_flush(&mut self) {
        let libraries = std::mem::take(&mut self.libraries.libraries);
        self.release(libraries.into_iter().flat_map(|library| library.functions).collect());
    }

    /// Drops functions that are in no library any more, and what they held.
    fn release(&mut self, functions: Vec<Function>) {
        for function in functions {
            // SAFETY: the reference was luaL_ref's and nobody has it any more.
            unsafe { ffi::luaL_unref(self.l, ffi::LUA_REGISTRYINDEX, function.reference) };
        }
        self.libraries.reindex();
        self.collect();
    }

    fn function_load(
        &mut self,
        core: &mut (dyn Redis + 'static),
        args: &Args<'_>,
        reply: &mut dyn Reply,
    ) -> Result<(), CommandError> {
        let mut replace = false;
        for i in 2..args.len() - 1 {
            if !args.is(i, "replace") {
                return Err(said("ERR Unknown option given: ", args.get(i), ""));
            }
            replace = true;
        }
        let code = args.get(args.len() - 1);
        let (name, _) = shebang::library(code)?;
        let old = self.libraries.position(&name);
        if old.is_some() && !replace {
            return Err(said("ERR Library '", &name, "' already exists"));
        }
        let library = self.build(core, code)?;
        let old_name = old.map(|at| self.libraries.libraries[at].name.clone());
        if let Some(taken) = self.taken(&library, |other| Some(&other.name) == old_name.as_ref()) {
            self.release(library.functions);
            return Err(said("ERR Function ", &taken, " already exists"));
        }
        if let Some(at) = old {
            let old = self.libraries.libraries.remove(at);
            self.release(old.functions);
        }
        self.libraries.libraries.push(library);
        self.libraries.reindex();
        reply.bulk(&name);
        Ok(())
    }

    /// The name of a function of `library` which another library has, those that `ignored` says
    /// left out.
    fn taken(&self, library: &Library, ignored: impl Fn(&Library) -> bool) -> Option<Vec<u8>> {
        let others = self.libraries.libraries.iter().filter(|other| !ignored(other));
        let theirs: Vec<&[u8]> =
            others.flat_map(|other| &other.functions).map(|function| function.name.as_slice()).collect();
        let mut ours = library.functions.iter().map(|function| &function.name);
        ours.find(|name| theirs.iter().any(|theirs| theirs.eq_ignore_ascii_case(name))).cloned()
    }

    /// Loads a library's code and gives what it registered. It is in no list yet.
    fn build(&mut self, core: &mut (dyn Redis + 'static), code: &[u8]) -> Result<Library, CommandError> {
        let (name, shebang_len) = shebang::library(code)?;
        let l = self.l;
        self.shared.loading = Some(Loading::default());
        // SAFETY: no cap is set outside `run`; the stack is cut back before every way out.
        let outcome = unsafe {
            sandbox::push_library_globals(l, self.version());
            let content = ffi::lua_gettop(l) - 1; // content, front
            ffi::lua_pushvalue(l, -1);
            ffi::lua_replace(l, ffi::LUA_GLOBALSINDEX);
            if load_chunk(l, &code[shebang_len..], c"@user_function".as_ptr()) != 0 {
                Err(said("ERR Error compiling function: ", bytes(l, -1).unwrap_or_default(), ""))
            } else {
                self.shared.load_stopwatch = Some(Stopwatch::start());
                let status = self.run(core, Mode::Load, 0);
                self.shared.load_stopwatch = None;
                let outcome = if status == 0 {
                    Ok(())
                } else {
                    let line = match ffi::lua_type(l, -1) {
                        ffi::LUA_TTABLE => convert::error_line(l).line,
                        _ => bytes(l, -1).unwrap_or_default().to_vec(),
                    };
                    Err(said("ERR Error registering functions: ", &line, ""))
                };
                sandbox::finish_library_globals(l, content, slot::FUNCTION_CONTENT);
                outcome
            }
        };
        // SAFETY: as above.
        unsafe { ffi::lua_settop(l, slot::LAST) };
        let functions = self.shared.loading.take().unwrap_or_default().0;
        let outcome = match outcome {
            Ok(()) if functions.is_empty() => Err(CommandError::fixed("ERR No functions registered")),
            other => other,
        };
        if let Err(error) = outcome {
            self.release(functions);
            return Err(error);
        }
        self.tidy();
        Ok(Library { name, code: code.to_vec(), functions })
    }

    fn function_list(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
        let (mut pattern, mut with_code) = (None, false);
        let mut i = 2;
        while i < args.len() {
            if args.is(i, "withcode") && !with_code {
                with_code = true;
            } else if args.is(i, "libraryname") && pattern.is_none() {
                i += 1;
                pattern = Some(
                    args.try_get(i).ok_or(CommandError::fixed("ERR library name argument was not given"))?,
                );
            } else {
                return Err(said("ERR Unknown argument ", args.get(i), ""));
            }
            i += 1;
        }
        let fits = |library: &&Library| pattern.is_none_or(|pattern| matches(pattern, &library.name));
        let chosen: Vec<&Library> = self.libraries.libraries.iter().filter(fits).collect();
        reply.array(chosen.len());
        for library in chosen {
            reply.map(if with_code { 4 } else { 3 });
            reply.text("library_name");
            reply.bulk(&library.name);
            reply.text("engine");
            reply.text("LUA");
            reply.text("functions");
            reply.array(library.functions.len());
            for function in &library.functions {
                reply.map(3);
                reply.text("name");
                reply.bulk(&function.name);
                reply.text("description");
                reply.bulk_or_null(function.description.as_deref());
                reply.text("flags");
                reply.set(function.flags.count_ones() as usize);
                for (bit, flag) in FLAGS.iter().enumerate() {
                    if function.flags & (1 << bit) != 0 {
                        reply.simple(flag.as_bytes());
                    }
                }
            }
            if with_code {
                reply.text("library_code");
                reply.bulk(&library.code);
            }
        }
        Ok(())
    }

    fn function_restore(
        &mut self,
        core: &mut (dyn Redis + 'static),
        args: &Args<'_>,
        reply: &mut dyn Reply,
    ) -> Result<(), CommandError> {
        if args.len() > 4 {
            return Err(usage(args.get(1)));
        }
        let (mut flush, mut replace) = (false, false);
        if args.len() == 4 {
            flush = args.is(3, "flush");
            replace = args.is(3, "replace");
            if !flush && !replace && !args.is(3, "append") {
                return Err(CommandError::fixed(
                    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
                ));
            }
        }
        let mut new: Vec<Library> = Vec::new();
        let mut failure = None;
        for code in payload::parse(args.get(2))? {
            match self.build(core, &code) {
                Ok(library) => {
                    let double = new.iter().any(|other| other.name == library.name);
                    let name = library.name.clone();
                    new.push(library);
                    if double {
                        failure = Some(said("ERR Library '", &name, "' already exists"));
                    }
                }
                Err(error) => failure = Some(error),
            }
            if failure.is_some() {
                break;
            }
        }
        if failure.is_none() && !flush {
            failure = self.collision(&new, replace);
        }
        if let Some(error) = failure {
            self.release(new.into_iter().flat_map(|library| library.functions).collect());
            return Err(error);
        }
        let gone = self
            .libraries
            .libraries
            .extract_if(.., |old| flush || new.iter().any(|library| library.name == old.name));
        let gone: Vec<Function> = gone.flat_map(|library| library.functions).collect();
        self.libraries.libraries.append(&mut new);
        self.release(gone);
        reply.ok();
        Ok(())
    }

    /// Why the libraries `new` cannot stand beside the present ones.
    fn collision(&self, new: &[Library], replace: bool) -> Option<CommandError> {
        for library in new {
            if !replace && self.libraries.position(&library.name).is_some() {
                return Some(said("ERR Library ", &library.name, " already exists"));
            }
        }
        let replaced = |other: &Library| new.iter().any(|library| library.name == other.name);
        new.iter()
            .find_map(|library| self.taken(library, replaced))
            .map(|name| said("ERR Function ", &name, " already exists"))
    }
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    glob::matches(pattern, name, true)
}

fn said(before: &str, bytes: &[u8], after: &str) -> CommandError {
    CommandError::Bytes([before.as_bytes(), bytes, after.as_bytes()].concat())
}

/// `sub` as the client wrote it.
fn usage(sub: &[u8]) -> CommandError {
    said("ERR unknown subcommand or wrong number of arguments for '", sub, "'. Try FUNCTION HELP.")
}

/// What a call of `redis.register_function` gave, as positions on the stack (0: not given).
#[derive(Default)]
struct Given {
    name: c_int,
    callback: c_int,
    description: c_int,
    flags: u8,
}

/// `redis.register_function(name, callback)` or `{function_name = , callback = , …}`.
pub(super) unsafe fn register_function(l: State) -> Answer {
    unsafe {
        if shared(l).mode != super::lua::Mode::Load {
            return misuse(l, "redis.register_function can only be called on FUNCTION LOAD command");
        }
        let given = match ffi::lua_gettop(l) {
            1 => named(l)?,
            2 => positional(l)?,
            _ => return misuse(l, "wrong number of arguments to redis.register_function"),
        };
        let name = bytes(l, given.name).unwrap_or_default();
        if !shebang::is_name(name) {
            return misuse(
                l,
                "Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                 character long",
            );
        }
        let loading = shared(l).loading.get_or_insert_default();
        if loading.0.iter().any(|function| function.name == name) {
            return misuse(l, "Function already exists in the library");
        }
        ffi::lua_pushvalue(l, given.callback);
        let reference = ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX);
        // Nothing raises from here on.
        let description = if given.description == 0 { None } else { bytes(l, given.description) };
        loading.0.push(Function {
            name: name.to_vec(),
            description: description.map(<[u8]>::to_vec),
            flags: given.flags,
            reference,
        });
        Ok(0)
    }
}

unsafe fn positional(l: State) -> Result<Given, Raise> {
    unsafe {
        if bytes(l, 1).is_none() {
            misuse(l, "first argument to redis.register_function must be a string")?;
        }
        if ffi::lua_type(l, 2) != ffi::LUA_TFUNCTION {
            misuse(l, "second argument to redis.register_function must be a function")?;
        }
    }
    Ok(Given { name: 1, callback: 2, ..Given::default() })
}

unsafe fn named(l: State) -> Result<Given, Raise> {
    let mut given = Given::default();
    unsafe {
        if ffi::lua_type(l, 1) != ffi::LUA_TTABLE {
            misuse(
                l,
                "calling redis.register_function with a single argument is only applicable to Lua table \
                 (representing named arguments).",
            )?;
        }
        ffi::lua_settop(l, 4); // 2: name, 3: callback, 4: description
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, 1) != 0 {
            // 5: key, 6: value
            if ffi::lua_isstring(l, 5) == 0 {
                misuse(l, "named argument key given to redis.register_function is not a string")?;
            }
            let key = if ffi::lua_type(l, 5) == ffi::LUA_TSTRING { bytes(l, 5) } else { None };
            let key = key.unwrap_or_default();
            if key.eq_ignore_ascii_case(b"function_name") {
                if bytes(l, 6).is_none() {
                    misuse(l, "function_name argument given to redis.register_function must be a string")?;
                }
                ffi::lua_replace(l, 2);
                given.name = 2;
            } else if key.eq_ignore_ascii_case(b"description") {
                if bytes(l, 6).is_none() {
                    misuse(l, "description argument given to redis.register_function must be a string")?;
                }
                ffi::lua_replace(l, 4);
                given.description = 4;
            } else if key.eq_ignore_ascii_case(b"callback") {
                if ffi::lua_type(l, 6) != ffi::LUA_TFUNCTION {
                    misuse(l, "callback argument given to redis.register_function must be a function")?;
                }
                ffi::lua_replace(l, 3);
                given.callback = 3;
            } else if key.eq_ignore_ascii_case(b"flags") {
                if ffi::lua_type(l, 6) != ffi::LUA_TTABLE {
                    misuse(
                        l,
                        "flags argument to redis.register_function must be a table representing function flags",
                    )?;
                }
                given.flags = flag_bits(l)?;
                ffi::lua_settop(l, 5);
            } else {
                misuse(l, "unknown argument given to redis.register_function")?;
            }
        }
        if given.name == 0 {
            misuse(l, "redis.register_function must get a function name argument")?;
        }
        if given.callback == 0 {
            misuse(l, "redis.register_function must get a callback argument")?;
        }
    }
    Ok(given)
}

/// The flags in the list on top.
unsafe fn flag_bits(l: State) -> Result<u8, Raise> {
    let mut bits = 0;
    for i in 1.. {
        unsafe {
            ffi::lua_rawgeti_(l, -1, i);
            if ffi::lua_type(l, -1) == ffi::LUA_TNIL {
                ffi::lua_settop(l, -2);
                break;
            }
            let name = bytes(l, -1).unwrap_or_default();
            match FLAGS.iter().position(|flag| flag.as_bytes() == name) {
                Some(bit) => bits |= 1 << bit,
                None => {
                    misuse(l, "unknown flag given")?;
                }
            }
            ffi::lua_settop(l, -2);
        }
    }
    Ok(bits)
}
