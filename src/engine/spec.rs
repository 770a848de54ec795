//! `Spec`: one command's entry in the table, and what its handler is given. Not here: the entries
//! (`command::*`), the refusals read off them (`admit`), the run (`mod`).

use super::core::{Core, Origin};
use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::keyspace::Access;
use crate::resp::{Args, Reply};

/// The groups of Redis's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Generic,
    String,
    Bitmap,
    HyperLogLog,
    Connection,
    Server,
    Scripting,
    Transactions,
    PubSub,
    Cluster,
    Sorting,
}

/// How many arguments a command takes, its name included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    Exactly(usize),
    AtLeast(usize),
}

/// A command's flags, as COMMAND INFO names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $id:ident = $bit:literal $name:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $id: Flags = Flags(1 << $bit);)*
            /// Each flag with its name, in the order in which COMMAND INFO lists them.
            pub const NAMES: &'static [(Flags, &'static str)] = &[$((Flags::$id, $name)),*];
        }
    };
}

flags! {
    WRITE = 0 "write";
    READONLY = 1 "readonly";
    DENYOOM = 2 "denyoom";
    MODULE = 3 "module";
    ADMIN = 4 "admin";
    PUBSUB = 5 "pubsub";
    NOSCRIPT = 6 "noscript";
    BLOCKING = 7 "blocking";
    LOADING = 8 "loading";
    STALE = 9 "stale";
    SKIP_MONITOR = 10 "skip_monitor";
    SKIP_SLOWLOG = 11 "skip_slowlog";
    ASKING = 12 "asking";
    FAST = 13 "fast";
    NO_AUTH = 14 "no_auth";
    /// Not listed by COMMAND INFO, as in Redis: replicas would get it, so a pause of writes holds it.
    MAY_REPLICATE = 15 "";
    NO_MANDATORY_KEYS = 16 "no_mandatory_keys";
    /// Not listed by COMMAND INFO, like the next two: Redis keeps them to itself.
    PROTECTED = 17 "";
    SENTINEL = 18 "";
    ONLY_SENTINEL = 19 "";
    NO_ASYNC_LOADING = 20 "no_async_loading";
    NO_MULTI = 21 "no_multi";
    MOVABLE_KEYS = 22 "movablekeys";
    ALLOW_BUSY = 23 "allow_busy";
    /// Ours: not listed by COMMAND INFO. A subscriber in RESP2 may send it.
    IN_SUBSCRIBE = 24 "";
    /// Ours: runs at once inside MULTI instead of being queued.
    NOT_QUEUED = 25 "";
    /// Ours: adds no ACL category `dangerous` though it is `admin`, and the like, are listed in
    /// the entry's `acl`.
    EXTENSION = 26 "";
    /// Ours: needs enable-test-commands.
    TEST = 27 "";
    /// Ours: COMMAND DOCS calls it a system command, not meant for applications.
    SYSTEM = 28 "";
    /// Ours: runs what MULTI has queued.
    RUNS_QUEUE = 29 "";
    /// Ours: CLIENT CACHING stays given for the command after it.
    KEEPS_CACHING = 30 "";
    /// Ours: needs enable-module-command.
    MODULES = 31 "";
}

impl Flags {
    /// Both.
    pub const fn or(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// Whether all of `other` are in.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        self.or(other)
    }
}

/// Where a command's keys begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(usize),
    /// After this word, looked for from the argument (negative: from the end, backwards).
    Keyword(&'static str, i32),
    /// Nobody can say.
    Unknown,
}

/// Which arguments from there on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// As COMMAND INFO's `range`: last key relative to the first (negative: from the end), step,
    /// limit.
    Range(i32, usize, usize),
    /// As its `keynum`: where the count stands, the first key, the step; relative to the begin.
    KeyNum(usize, usize, usize),
    /// Nobody can say.
    Unknown,
}

/// One key specification of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    pub begin: Begin,
    pub find: Find,
    /// The flags in the order in which COMMAND INFO lists them, e.g. `&["RW", "ACCESS", "UPDATE"]`.
    pub flags: &'static [&'static str],
    /// A note, where Redis has one.
    pub notes: &'static str,
}

impl KeySpec {
    /// One key at argument `at`.
    pub const fn one(at: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec::range(at, 0, 1, flags)
    }
    /// Keys from argument `at` to `last` (relative to it, or negative: from the end).
    pub const fn range(at: usize, last: i32, step: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Index(at), find: Find::Range(last, step, 0), flags, notes: "" }
    }
    /// A count at argument `at`, and that many keys behind it.
    pub const fn counted(at: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Index(at), find: Find::KeyNum(0, 1, 1), flags, notes: "" }
    }
}

/// The flag of a specification whose other flags hold only for some requests: then a `KeyReader` is
/// asked instead.
pub const VARIABLE: &str = "variable_flags";

/// A key of a request: its place, and what the command does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub at: usize,
    pub flags: &'static [&'static str],
}

/// Finds the keys of a request of which the specifications cannot tell all.
pub type KeyReader = fn(&Args<'_>) -> Vec<Key>;

/// A command's entry. Everything that speaks about commands reads it.
pub struct Spec {
    /// In lower case; a subcommand's own name only (`get`, not `config|get`).
    pub name: &'static str,
    pub group: Group,
    /// The release of Redis that brought it.
    pub since: &'static str,
    pub complexity: &'static str,
    /// In our own words.
    pub summary: &'static str,
    /// The arguments after the name as Redis's command reference writes them:
    /// `key value [NX | XX] [GET] [EX seconds | PX milliseconds]`. COMMAND DOCS is made from it.
    pub synopsis: &'static str,
    pub arity: Arity,
    pub flags: Flags,
    pub keys: &'static [KeySpec],
    pub key_reader: Option<KeyReader>,
    pub tips: &'static [&'static str],
    /// ACL categories beyond those that follow from flags and group.
    pub acl: &'static [&'static str],
    /// Releases that changed it: version, what (in our own words).
    pub history: &'static [(&'static str, &'static str)],
    /// Since when it is deprecated, and what replaces it; empty: it is not.
    pub deprecated: (&'static str, &'static str),
    /// Which arguments are passwords and the like: MONITOR and SLOWLOG do not show them.
    pub secret: Option<fn(&Args<'_>, usize) -> bool>,
    pub subcommands: &'static [Spec],
    /// What it may be to a lock.
    pub lock: LockPart,
    pub handler: Handler,
}

/// What a command may be to a lock: the book of locks (`engine::locks`) reads the rest from the
/// arguments and from what became of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPart {
    /// Nothing that the key itself does not tell.
    None,
    /// Stores a whole value; with `NX` it takes, with `IFEQ` it renews or hands over.
    Store,
    /// The same where the key is not there yet, and only then.
    StoreNew,
    /// Removes keys, whatever they hold.
    Remove,
    /// Removes a key if it holds what the arguments say; without, whatever it holds.
    RemoveIf,
    /// Sets a deadline; 0 says that there was nothing to set it on.
    Renew,
    /// Counts: a value that it takes is a number, and no lock.
    Count,
    /// Looks at every key there is.
    Walk,
}

impl Spec {
    /// What an entry leaves out.
    pub const NONE: Spec = Spec {
        name: "",
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "",
        synopsis: "",
        arity: Arity::Exactly(1),
        flags: Flags(0),
        keys: &[],
        key_reader: None,
        tips: &[],
        acl: &[],
        history: &[],
        deprecated: ("", ""),
        secret: None,
        subcommands: &[],
        lock: LockPart::None,
        handler: Handler::Container,
    };
}

/// What a command is run by.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Sees one command's view of the keys and nothing else.
    Keys(fn(&mut Access<'_>, &Args<'_>, &mut dyn Reply) -> Result<(), CommandError>),
    /// Sees the server.
    Server(fn(&mut Context<'_>, &Args<'_>, &mut dyn Reply) -> Result<Outcome, CommandError>),
    /// Has none of its own: one of its subcommands runs. `HELP` is made from them.
    Container,
}

/// The larger room: the whole core, and who asks.
pub struct Context<'a> {
    pub core: &'a mut Core,
    /// The asking client's place in `core.clients`.
    pub client: usize,
    pub origin: Origin,
    pub now: UnixMs,
}

/// What a `Handler::Server` answers with, beside what it said: done, or what is to be run for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply has been said.
    Done,
    /// The script host is to do this, and to reply.
    Script(ScriptRequest),
    /// The client's queue is to be run, and replied.
    Exec,
    /// The client waits; the reply comes later.
    Block,
    /// The reply has been said; the connection ends after it.
    Close,
}

/// What commands ask of the script host. The host reads the rest from the same arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRequest {
    /// EVAL, EVALSHA and their `_RO` forms; keys are `args[3..3 + keys]`.
    Eval { by_sha: bool, read_only: bool, keys: usize },
    /// SCRIPT LOAD.
    Load,
    /// SCRIPT EXISTS.
    Exists,
    /// SCRIPT FLUSH.
    Flush,
    /// Everything is forgotten, as at the start (KEYLATCH RESET).
    Reset,
    /// SCRIPT SHOW.
    Show,
    /// FCALL, FCALL_RO. The function is looked for before the number of keys is read.
    Fcall { read_only: bool },
    /// FUNCTION and its subcommand, as the entry names it.
    Function(&'static str),
}
