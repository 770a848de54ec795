//! Room `script`: knows Lua, not the engine. What a script may ask of the server is `Redis`,
//! which the engine implements.

mod api;
mod bits;
mod cache;
mod convert;
mod functions;
mod host;
mod json;
mod json_decode;
mod json_encode;
#[cfg(test)]
mod json_tests;
mod loading;
mod lua;
mod matcher;
mod msgpack;
mod out;
mod packing;
#[cfg(test)]
mod packing_tests;
mod patterns;
mod payload;
mod plan;
#[cfg(test)]
mod plan_tests;
mod plan_text;
mod random;
mod sandbox;
mod shebang;
mod sorting;
mod source;
#[cfg(test)]
mod tests;

pub use functions::say_function_stats;
pub use host::{Host, HostInfo, ScriptError};

use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::resp::{Args, Reply};

/// What the hook shall do after the server has had a breath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The script goes on.
    Continue,
    /// The script must end, whatever it catches.
    Kill,
}

/// At which level `redis.log` speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// 0.
    Debug,
    /// 1.
    Verbose,
    /// 2.
    Notice,
    /// 3.
    Warning,
}

/// What a running script is and may do. The host fills it in at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The script's SHA1 in hex, or the function's name.
    pub name: String,
    /// Whether it is a function (FCALL): BUSY's text and the KILL that ends it differ.
    pub is_function: bool,
    /// The whole command line that started it, for FUNCTION STATS and the log.
    pub command: Vec<Vec<u8>>,
    /// A write is refused (EVAL_RO, FCALL_RO, `no-writes`).
    pub read_only: bool,
    /// A shebang was given: the flags below count (a script without one may do as 6.2's did).
    pub has_flags: bool,
    /// `allow-oom`: DENYOOM commands run though memory is short.
    pub allow_oom: bool,
    /// `allow-cross-slot-keys`.
    pub allow_cross_slot: bool,
    /// It speaks RESP3 with commands (`redis.setresp(3)`); false at the start.
    pub resp3: bool,
    /// It has written: SCRIPT KILL answers UNKILLABLE.
    pub wrote: bool,
    /// Past busy-reply-threshold: others get BUSY.
    pub timed_out: bool,
    /// How many libraries and functions there are, for FUNCTION STATS while a function runs.
    pub libraries: usize,
    pub functions: usize,
    /// SCRIPT KILL, FUNCTION KILL or the client's end asked for its end.
    pub kill: bool,
}

/// What a script may ask of the server. Implemented by the engine's core, which is lent to the VM
/// for the length of a run.
pub trait Redis: 'static {
    /// The run that `running` describes is about to begin: a reason to refuse it (memory is short
    /// and `allow-oom` is not set, and the like).
    fn start(&mut self) -> Result<(), CommandError> {
        Ok(())
    }
    /// Runs one command for the running script. An `Err` has not been said to `reply`.
    fn call(&mut self, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError>;
    /// Called by the instruction hook every so often: serves others when the script is over its
    /// time, and says whether it must end.
    fn breathe(&mut self) -> Verdict;
    /// The result has this error line in it, which is not counted yet.
    fn error_said(&mut self, _line: &[u8]) {}
    /// The state of the run, to read and to change (`resp3`).
    fn running(&mut self) -> &mut Running;
    /// The moment at which the script began (stands still).
    fn now(&self) -> UnixMs;
    /// Writes to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);
    /// `redis.acl_check_cmd`: whether the caller's user may run this; `Err`: no such command.
    fn acl_check(&mut self, args: &Args<'_>) -> Result<bool, CommandError>;
    /// The version that the server reports, e.g. `7.2.4`.
    fn version(&self) -> &str;
    /// The most memory a script may hold, bytes; 0: no limit.
    fn memory_limit(&self) -> usize;
    /// Whether the client that called speaks RESP3 (for the conversion of the result).
    fn caller_resp3(&self) -> bool;
}
