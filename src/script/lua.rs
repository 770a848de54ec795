//! The thin layer over Lua 5.1's C interface: the allocator with its cap, how Rust functions are
//! entered and how they raise, small helpers for the stack. Not here: what scripts see
//! (`sandbox`, `api`, the libraries), the runs (`host`).
//!
//! Why the C interface and not mlua's safe one: Redis's error texts depend on which frames are C
//! functions (positions, tail calls), its errors are strings and plain tables where mlua's are
//! userdata, and a safe callback costs about 0.2 µs each under a memory limit, which three calls
//! a script cannot afford (`benches/lua.rs` measures both).
//!
//! The rules that make it sound:
//! - Lua raises by `longjmp`. A frame that calls something that may raise owns nothing that needs
//!   dropping; what outlives a raise sits in `Shared` or on the Lua stack.
//! - Allocation fails (and so raises) only while `Memory::limit` is set, that is while script code
//!   runs. Host code and a command called by a script run without it, so nothing ever jumps
//!   through the server's frames.
//! - A Rust panic stops in `enter`: it is kept, the script is ended, the host goes on with it.

use super::random::Rand48;
use super::{Redis, Running};
pub(super) use mlua::ffi;
use std::alloc::Layout;
use std::any::Any;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

pub(super) type State = *mut ffi::lua_State;

/// A raised error: its value is on top of the stack.
pub(super) struct Raise;

/// What a Lua function written here gives: how many results it has pushed.
pub(super) type Answer = Result<c_int, Raise>;

/// What kind of run is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// None: the host itself is at work.
    #[default]
    Idle,
    Eval,
    Function,
    /// A library is being loaded.
    Load,
}

/// The allocator's account, bytes.
pub(super) struct Memory {
    pub used: usize,
    /// Past this an allocation fails. `usize::MAX` unless script code runs.
    pub limit: usize,
    /// Past this the collector is let loose (it rests during short scripts).
    pub collect_at: usize,
    /// A large block was asked for while a script runs: the hook comes at the next instruction.
    pub hurried: bool,
    main: State,
}

/// What every function of this room finds behind its `lua_State`: one for a VM.
pub(super) struct Shared {
    pub memory: Memory,
    /// The lent core: there only while a run lasts.
    core: Option<NonNull<dyn Redis>>,
    pub mode: Mode,
    /// The run must end: every instruction says so from now on.
    pub killed: bool,
    /// When the hook has last looked at the time.
    pub looked: Option<crate::base::clock::Stopwatch>,
    /// A panic that was caught on its way into Lua.
    pub panic: Option<Box<dyn Any + Send>>,
    /// The limit of the script that runs; what `memory.limit` goes back to after a command.
    pub script_limit: usize,
    pub random: Rand48,
    /// For building strings. Kept, so that a raise in between loses nothing.
    pub scratch: Vec<u8>,
    pub scratch2: Vec<u8>,
    /// `LuaReply`'s open aggregates.
    pub frames: Vec<super::convert::Frame>,
    /// Open arrays and objects of the value that cjson reads or writes.
    pub json: Vec<super::json::Frame>,
    /// The same of cmsgpack.
    pub msgpack: Vec<super::msgpack::Frame>,
    /// Open choices of the pattern that is matched.
    pub choices: Vec<super::matcher::Choice>,
    /// What scripts and functions have set in cjson.
    pub eval_json: super::json::Config,
    pub function_json: super::json::Config,
    /// What the library that is being loaded has registered.
    pub loading: Option<super::functions::Loading>,
    /// Since when a library has been loading.
    pub load_stopwatch: Option<crate::base::clock::Stopwatch>,
}

impl Shared {
    pub fn new(random: Rand48) -> Box<Shared> {
        Box::new(Shared {
            memory: Memory {
                used: 0,
                limit: usize::MAX,
                collect_at: usize::MAX,
                hurried: false,
                main: std::ptr::null_mut(),
            },
            core: None,
            mode: Mode::Idle,
            killed: false,
            looked: None,
            panic: None,
            script_limit: usize::MAX,
            random,
            scratch: Vec::new(),
            scratch2: Vec::new(),
            frames: Vec::new(),
            json: Vec::new(),
            msgpack: Vec::new(),
            choices: Vec::new(),
            eval_json: super::json::Config::START,
            function_json: super::json::Config::START,
            loading: None,
            load_stopwatch: None,
        })
    }

    /// Lends `core` for a run.
    pub fn lend(&mut self, core: &mut (dyn Redis + 'static)) {
        self.core = Some(NonNull::from(core));
    }

    /// The run is over: nobody reaches the core any more.
    pub fn take_back(&mut self) {
        self.core = None;
    }

    /// The lent core.
    pub fn core(&mut self) -> Option<&mut (dyn Redis + 'static)> {
        // SAFETY: `lend` got it from a `&mut` that outlives the run, and `take_back` ends the
        // loan before that borrow ends. The host does not use the reference in between, and the
        // core never calls back into Lua, so this is the only way to it.
        self.core.map(|mut core| unsafe { core.as_mut() })
    }

    pub fn running(&mut self) -> Option<&mut Running> {
        self.core().map(|core| core.running())
    }
}

/// The VM's `Shared`.
///
/// SAFETY: `l` is a state of a VM that `open` made. The reference is not to be held across a call
/// that may run another function of this room.
pub(super) unsafe fn shared<'a>(l: State) -> &'a mut Shared {
    let mut data: *mut c_void = std::ptr::null_mut();
    unsafe {
        ffi::lua_getallocf(l, &mut data);
        &mut *data.cast::<Shared>()
    }
}

/// A block of so many bytes is large.
const LARGE: usize = 1 << 20;
const ALIGN: usize = 8; // Lua's own maximum (L_Umaxalign: double, pointer, long)

unsafe extern "C" fn allocate(
    data: *mut c_void,
    old: *mut c_void,
    old_size: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: `data` is the `Shared` given to `lua_newstate`; Lua tells the true old size. Only
    // the account is touched, through a raw field access, so no reference is made twice.
    unsafe {
        let memory = &mut *std::ptr::addr_of_mut!((*data.cast::<Shared>()).memory);
        let old_size = if old.is_null() { 0 } else { old_size };
        if size == 0 {
            if !old.is_null() {
                memory.used -= old_size;
                std::alloc::dealloc(old.cast(), Layout::from_size_align_unchecked(old_size, ALIGN));
            }
            return std::ptr::null_mut();
        }
        let used = memory.used - old_size + size;
        if used > memory.limit && size > old_size {
            return std::ptr::null_mut();
        }
        if size >= LARGE && !memory.hurried && (*data.cast::<Shared>()).mode != Mode::Idle {
            // Only sets fields of the state. Instructions that move so much take long.
            memory.hurried = true;
            super::host::look_soon(memory.main);
        }
        if used > memory.collect_at {
            // Only moves the collector's threshold; nothing is collected in here.
            memory.collect_at = usize::MAX;
            ffi::lua_gc(memory.main, ffi::LUA_GCRESTART, 0);
        }
        let new = if old.is_null() {
            std::alloc::alloc(Layout::from_size_align_unchecked(size, ALIGN))
        } else {
            std::alloc::realloc(old.cast(), Layout::from_size_align_unchecked(old_size, ALIGN), size)
        };
        if new.is_null() {
            return if size <= old_size { old } else { std::ptr::null_mut() };
        }
        memory.used = used;
        new.cast()
    }
}

/// Opens a VM over `shared`, which must outlive it and stay where it is.
pub(super) unsafe fn open(shared: &mut Box<Shared>) -> State {
    let data: *mut Shared = &mut **shared;
    // SAFETY: `allocate` keeps Lua's contract; the box does not move its content.
    unsafe {
        let l = ffi::lua_newstate(allocate, data.cast());
        assert!(!l.is_null(), "no memory for a Lua state");
        (*data).memory.main = l;
        l
    }
}

/// Runs the Rust side of a Lua function: its `Err` is raised, its panic is kept and raised.
pub(super) unsafe fn enter(l: State, run: unsafe fn(State) -> Answer) -> c_int {
    // SAFETY: nothing in this frame needs dropping when `run` raises by itself.
    match std::panic::catch_unwind(|| unsafe { run(l) }) {
        Ok(Ok(results)) => results,
        Ok(Err(Raise)) => unsafe { ffi::lua_error(l) },
        Err(panic) => unsafe {
            let shared = shared(l);
            shared.killed = true;
            shared.memory.limit = shared.script_limit;
            shared.panic = Some(panic);
            ffi::lua_settop(l, 0);
            push_str(l, "internal error");
            ffi::lua_error(l)
        },
    }
}

/// The C entry of a Rust function `unsafe fn(State) -> Answer`.
macro_rules! entry {
    ($run:path) => {{
        unsafe extern "C-unwind" fn entry(l: $crate::script::lua::State) -> std::ffi::c_int {
            // SAFETY: Lua calls with its own state.
            unsafe { $crate::script::lua::enter(l, $run) }
        }
        entry as mlua::ffi::lua_CFunction
    }};
}
pub(super) use entry;

/// Pushes bytes as a string. Raises when memory is short.
pub(super) unsafe fn push(l: State, bytes: &[u8]) {
    unsafe { ffi::lua_pushlstring_(l, bytes.as_ptr().cast(), bytes.len()) }
}

pub(super) unsafe fn push_str(l: State, text: &str) {
    unsafe { push(l, text.as_bytes()) }
}

/// The string (or number, which becomes one in place) at `index`.
///
/// SAFETY: the slice lives as long as the value stays where it is.
pub(super) unsafe fn bytes<'a>(l: State, index: c_int) -> Option<&'a [u8]> {
    let mut len = 0;
    unsafe {
        let text = ffi::lua_tolstring(l, index, &mut len);
        (!text.is_null()).then(|| std::slice::from_raw_parts(text.cast::<u8>(), len))
    }
}

/// The same up to its first zero byte, where Redis takes it for a C string.
pub(super) unsafe fn c_text<'a>(l: State, index: c_int) -> Option<&'a [u8]> {
    let text = unsafe { bytes(l, index) }?;
    Some(&text[..memchr::memchr(0, text).unwrap_or(text.len())])
}

/// Argument `index` as a string, or Lua's own complaint.
pub(super) unsafe fn check_bytes<'a>(l: State, index: c_int) -> &'a [u8] {
    let mut len = 0;
    unsafe {
        let text = ffi::luaL_checklstring(l, index, &mut len);
        std::slice::from_raw_parts(text.cast::<u8>(), len)
    }
}

/// The error `text` with the position of the calling Lua code in front, as `luaL_error` gives.
pub(super) unsafe fn fail(l: State, text: impl AsRef<[u8]>) -> Answer {
    unsafe {
        ffi::luaL_where(l, 1);
        push(l, text.as_ref());
        ffi::lua_concat(l, 2);
    }
    Err(Raise)
}

/// As `fail`, for a text that is put together: on this frame, since raising may jump over it. What is
/// longer than any of our texts is cut.
pub(super) unsafe fn fail_with(l: State, text: std::fmt::Arguments<'_>) -> Raise {
    let mut room = [0u8; 200];
    let mut rest = &mut room[..];
    let _ = std::io::Write::write_fmt(&mut rest, text);
    let left = rest.len();
    let _ = unsafe { fail(l, &room[..room.len() - left]) };
    Raise
}

/// `bad argument #index to 'f' (text)`.
pub(super) unsafe fn bad_arg(l: State, index: c_int, text: &CStr) -> Answer {
    unsafe { ffi::luaL_argerror(l, index, text.as_ptr()) };
    Err(Raise)
}

/// Sets `table[name] = function`, the table on top.
pub(super) unsafe fn set_fn(l: State, name: &CStr, function: ffi::lua_CFunction) {
    unsafe {
        ffi::lua_pushcclosure(l, function, 0);
        ffi::lua_setfield(l, -2, name.as_ptr());
    }
}

/// Sets `table[name] = text`, the table on top.
pub(super) unsafe fn set_str(l: State, name: &CStr, text: &str) {
    unsafe {
        push_str(l, text);
        ffi::lua_setfield(l, -2, name.as_ptr());
    }
}

/// Sets `table[name] = number`, the table on top.
pub(super) unsafe fn set_num(l: State, name: &CStr, number: f64) {
    unsafe {
        ffi::lua_pushnumber(l, number);
        ffi::lua_setfield(l, -2, name.as_ptr());
    }
}

/// Past it a double is no `i64` any more.
const TWO_TO_63: f64 = (1u64 << 63) as f64;

/// A double as C's `(long long)` makes it on x86-64: cut towards zero, `i64::MIN` out of range.
pub(super) fn to_i64(x: f64) -> i64 {
    if (-TWO_TO_63..TWO_TO_63).contains(&x) { x as i64 } else { i64::MIN }
}

/// Room for one more number by `printf`.
pub(super) struct Digits {
    buffer: [u8; 64],
    len: usize,
}

impl Digits {
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// `x` as `printf("%.{precision}g")` prints it.
pub(super) fn general(x: f64, precision: c_int) -> Digits {
    let mut buffer = [0u8; 64];
    // SAFETY: the format takes an int and a double; the buffer's size is given.
    let len =
        unsafe { libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), c"%.*g".as_ptr(), precision, x) };
    Digits { buffer, len: usize::try_from(len).unwrap_or(0).min(63) }
}

/// A number as redis.call passes it on: integers as such, the rest by `%.17g`.
pub(super) fn argument(x: f64) -> Digits {
    if x.fract() == 0.0 && x.abs() < 1e15 && (x != 0.0 || x.is_sign_positive()) {
        let mut digits = itoa::Buffer::new();
        let text = digits.format(x as i64).as_bytes();
        let mut buffer = [0u8; 64];
        buffer[..text.len()].copy_from_slice(text);
        return Digits { buffer, len: text.len() };
    }
    general(x, 17)
}
