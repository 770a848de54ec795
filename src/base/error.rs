//! `CommandError`: what a client is told and may go on after, with Redis's own texts in one
//! `match`. Not here: what ends a connection (`resp::request::ProtocolError`) and what ends a
//! start (`config::ConfigError`).

use std::borrow::Cow;

/// A command's error. `line()` is the text after the `-`, code first, as Redis 7.0.15 words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    Syntax,
    NotAnInteger,
    NotAFloat,
    OutOfRange,
    MustBePositive,
    WrongType,
    NoSuchKey,
    /// The command's full name, `set` or `config|get`.
    WrongArity(String),
    /// The name as typed, and the arguments as far as Redis repeats them.
    UnknownCommand {
        name: Vec<u8>,
        args: Vec<Vec<u8>>,
    },
    /// The subcommand as typed, and its container's name in lower case.
    UnknownSubcommand {
        sub: Vec<u8>,
        container: &'static str,
    },
    /// The command that was given it.
    InvalidExpire(&'static str),
    IncrOverflow,
    DecrOverflow,
    NanOrInfinity,
    StringTooLong,
    OffsetOutOfRange,
    InvalidCursor,
    DbIndexOutOfRange,
    InvalidDbIndex,
    InvalidFirstDbIndex,
    InvalidSecondDbIndex,
    SameObject,
    NoAuth,
    WrongPass,
    NoPasswordSet,
    NoScript,
    NegativeKeys,
    TooManyKeys,
    Busy,
    BusyFunction,
    OutOfMemory,
    ExecAbort,
    CrossSlot,
    /// Anything said with its own code: the whole line, code first.
    Line(Cow<'static, str>),
    /// The same, where it holds bytes that a client sent.
    Bytes(Vec<u8>),
}

impl CommandError {
    /// An `ERR` with a fixed text. For texts that one command alone uses.
    pub const fn fixed(line: &'static str) -> Self {
        CommandError::Line(Cow::Borrowed(line))
    }

    /// The line after the `-`, without CR LF.
    pub fn line(&self) -> Cow<'_, [u8]> {
        use CommandError as E;
        let text: &'static str = match self {
            E::Syntax => "ERR syntax error",
            E::NotAnInteger => "ERR value is not an integer or out of range",
            E::NotAFloat => "ERR value is not a valid float",
            E::OutOfRange => "ERR value is out of range",
            E::MustBePositive => "ERR value is out of range, must be positive",
            E::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            E::NoSuchKey => "ERR no such key",
            E::IncrOverflow => "ERR increment or decrement would overflow",
            E::DecrOverflow => "ERR decrement would overflow",
            E::NanOrInfinity => "ERR increment would produce NaN or Infinity",
            E::StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            E::OffsetOutOfRange => "ERR offset is out of range",
            E::InvalidCursor => "ERR invalid cursor",
            E::DbIndexOutOfRange => "ERR DB index is out of range",
            E::InvalidDbIndex => "ERR invalid DB index",
            E::InvalidFirstDbIndex => "ERR invalid first DB index",
            E::InvalidSecondDbIndex => "ERR invalid second DB index",
            E::SameObject => "ERR source and destination objects are the same",
            E::NoAuth => "NOAUTH Authentication required.",
            E::WrongPass => "WRONGPASS invalid username-password pair or user is disabled.",
            E::NoPasswordSet => {
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?"
            }
            E::NoScript => "NOSCRIPT No matching script. Please use EVAL.",
            E::NegativeKeys => "ERR Number of keys can't be negative",
            E::TooManyKeys => "ERR Number of keys can't be greater than number of args",
            E::Busy => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
            E::BusyFunction => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
            E::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            E::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot",
            E::ExecAbort => "EXECABORT Transaction discarded because of previous errors.",
            E::WrongArity(name) => {
                return format!("ERR wrong number of arguments for '{name}' command").into_bytes().into();
            }
            E::InvalidExpire(name) => {
                return format!("ERR invalid expire time in '{name}' command").into_bytes().into();
            }
            E::UnknownCommand { name, args } => return unknown_command(name, args).into(),
            E::UnknownSubcommand { sub, container } => {
                let mut line = b"ERR unknown subcommand '".to_vec();
                line.extend_from_slice(as_c_text(sub, 128));
                line.extend_from_slice(format!("'. Try {} HELP.", container.to_ascii_uppercase()).as_bytes());
                return line.into();
            }
            E::Line(line) => return line.as_bytes().into(),
            E::Bytes(line) => return line.as_slice().into(),
        };
        text.as_bytes().into()
    }

    /// The code, the line's first word (`ERR`, `WRONGTYPE`), as INFO errorstats counts it.
    pub fn code(&self) -> String {
        code_of(&self.line())
    }
}

/// The code of an error line. Scripts make lines without one, or with a long one: they count as `ERR`,
/// as in Redis.
pub fn code_of(line: &[u8]) -> String {
    const LONGEST: usize = 31; // Redis looks at 32 bytes, the `-` among them
    let looked_at = &line[..line.len().min(LONGEST)];
    match looked_at.iter().position(|b| matches!(b, b' ' | b'\r' | b'\n')) {
        Some(end) => String::from_utf8_lossy(&line[..end]).into_owned(),
        None => "ERR".to_owned(),
    }
}

/// Redis's `rejectCommandFormat`: name and arguments are cut at 128 bytes in all.
fn unknown_command(name: &[u8], args: &[Vec<u8>]) -> Vec<u8> {
    let mut line = b"ERR unknown command '".to_vec();
    line.extend_from_slice(as_c_text(name, 128));
    line.extend_from_slice(b"', with args beginning with: ");
    let mut said = 0;
    for arg in args {
        if said >= 128 {
            break;
        }
        let cut = as_c_text(arg, 128 - said);
        line.push(b'\'');
        line.extend_from_slice(cut);
        line.extend_from_slice(b"' ");
        said += cut.len() + 3;
    }
    line
}

/// What C's `%.*s` prints of it: up to `max` bytes, and not past a NUL.
fn as_c_text(bytes: &[u8], max: usize) -> &[u8] {
    let cut = &bytes[..bytes.len().min(max)];
    &cut[..memchr::memchr(0, cut).unwrap_or(cut.len())]
}
