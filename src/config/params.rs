//! The table of parameters: one entry each, from which follow the field that the server reads,
//! the file, the command line, CONFIG and `docs/configuration.md`. Not here: how values are read
//! (`value.rs`, `special.rs`), and what takes a change into effect (the server, by `Hooks`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::special::{Bind, Directory, NoSave, NotifyClasses, OutputLimits, Percentiles, Version};
use super::value::{Allow, Kind, LogFormat, LogLevel, MemoryPolicy, Refusal, Value};

/// Which kind of change a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// CONFIG SET may change it.
    Mutable,
    /// Only the file and the command line set it.
    Fixed,
    /// CONFIG SET may change it where enable-protected-configs allows.
    Protected,
}

/// What the server must do after a change. A set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hooks(pub u32);

impl Hooks {
    /// The field is read where it matters; nothing to do.
    pub const NONE: Hooks = Hooks(0);
    /// Listen elsewhere. May fail.
    pub const LISTEN: Hooks = Hooks(1);
    /// Make room for more descriptors. May fail.
    pub const MAX_CLIENTS: Hooks = Hooks(1 << 1);
    /// Run the cron at another pace.
    pub const HZ: Hooks = Hooks(1 << 2);
    /// Log more or less.
    pub const LOG_LEVEL: Hooks = Hooks(1 << 3);
    /// Listen for other effects (`Effects::classes`).
    pub const NOTIFY: Hooks = Hooks(1 << 4);
    /// Cut the slow log, and take the thresholds of what is slow into effect.
    pub const SLOWLOG: Hooks = Hooks(1 << 5);
    /// Forget tracked keys past the bound.
    pub const TRACKING: Hooks = Hooks(1 << 6);
    /// Change the working directory. May fail.
    pub const DIR: Hooks = Hooks(1 << 7);
    /// Keep more or less of the locks' history.
    pub const LOCKS: Hooks = Hooks(1 << 8);
    /// New connections must authenticate, or need no more.
    pub const PASSWORD: Hooks = Hooks(1 << 9);
    /// Drop the latency histograms when they are turned off.
    pub const LATENCY: Hooks = Hooks(1 << 10);

    /// Whether any of `other` is in.
    pub const fn has(self, other: Hooks) -> bool {
        self.0 & other.0 != 0
    }
    /// Those that are not in `other`.
    pub const fn without(self, other: Hooks) -> Hooks {
        Hooks(self.0 & !other.0)
    }
    /// Both.
    pub const fn or(self, other: Hooks) -> Hooks {
        Hooks(self.0 | other.0)
    }
}

/// Reads words into a parameter's field.
type Reader = fn(&mut Config, &Kind, &[&[u8]]) -> Result<(), Refusal>;

/// How a parameter's value is reached.
#[derive(Clone, Copy)]
pub enum Store {
    /// A field of `Config`.
    Field { read: Reader, print: fn(&Config, &Kind) -> Vec<u8> },
    /// None: the value is checked, kept and printed, and has no effect, as `doc` says.
    Idle,
}

/// One parameter.
#[derive(Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    /// A second name; empty: none.
    pub alias: &'static str,
    pub kind: Kind,
    /// As a file would have it.
    pub default: &'static str,
    pub change: Change,
    pub hooks: Hooks,
    /// One line for the documentation.
    pub doc: &'static str,
    pub store: Store,
}

/// Declares `Config` and its part of the table together.
macro_rules! fields {
    ($($doc:literal $field:ident: $type:ty = $name:literal $(| $alias:literal)?,
       $kind:expr, $default:literal, $change:ident, $hooks:ident;)*) => {
        /// Every parameter's value, typed, for the server to read.
        #[derive(Clone, Debug)]
        pub struct Config {
            $(#[doc = $doc] pub $field: $type,)*
            /// Values of parameters without effect, where they differ from the default.
            pub(super) idle: BTreeMap<&'static str, Vec<u8>>,
            /// The file that it was read from, absolute; CONFIG REWRITE writes there.
            pub file: Option<PathBuf>,
        }

        impl Default for Config {
            fn default() -> Self {
                Config {
                    $($field: <$type as Initial>::initial(&$kind, $default),)*
                    idle: BTreeMap::new(),
                    file: None,
                }
            }
        }

        /// The parameters that have a field.
        pub(super) const FIELDS: &[Param] = &[$(Param {
            name: $name,
            alias: concat!($($alias)?),
            kind: $kind,
            default: $default,
            change: Change::$change,
            hooks: Hooks::$hooks,
            doc: $doc,
            store: Store::Field {
                read: |config, kind, words| {
                    config.$field = <$type as Value>::read(kind, words, &config.$field)?;
                    Ok(())
                },
                print: |config, kind| config.$field.print(kind),
            },
        }),*];
    };
}

/// Like Redis, each single blank parts two words, and an empty text has none.
fn value_words<'a>(kind: &Kind, value: &'a [u8]) -> Vec<&'a [u8]> {
    match kind.takes_words() {
        true if value.is_empty() => Vec::new(),
        true => value.split(|byte| *byte == b' ').collect(),
        false => vec![value],
    }
}

/// A field's default, read from the table like any other value.
trait Initial: Value {
    /// The value before anything was read, for types that are given piece by piece.
    fn blank() -> Self;
    fn initial(kind: &Kind, default: &str) -> Self {
        Self::read(kind, &value_words(kind, default.as_bytes()), &Self::blank())
            .expect("the table's own defaults are sound: a test reads each")
    }
}

macro_rules! blanks {
    ($($type:ty = $blank:expr;)*) => { $(impl Initial for $type { fn blank() -> Self { $blank } })* };
}
blanks! {
    bool = false; u16 = 0; u32 = 0; u64 = 0; usize = 0; i64 = 0;
    Vec<u8> = Vec::new(); PathBuf = PathBuf::new();
    Allow = Allow::No; LogLevel = LogLevel::Notice; LogFormat = LogFormat::Human;
    MemoryPolicy = MemoryPolicy::NoEviction; Bind = Bind(Vec::new()); Directory = Directory(PathBuf::new()); NoSave = NoSave;
    NotifyClasses = NotifyClasses(0); OutputLimits = OutputLimits::NONE;
    Percentiles = Percentiles(Vec::new());
    Version = Version { text: String::new(), parts: (0, 0, 0) };
}

const INT_MAX: i64 = i32::MAX as i64;
const ALLOW: Kind = Kind::Choice(Allow::WORDS);

fields! {
    "The addresses to listen on; a leading `-` says that one may be missing. Empty: none by TCP."
    bind: Bind = "bind", Kind::Words("addresses, up to 16"), "* -::*", Mutable, LISTEN;
    "The TCP port; 0 lets the system choose one."
    port: u16 = "port", Kind::Int(0, 65535), "6379", Mutable, LISTEN;
    "Ours: a file into which the port is written, in one step, once the server accepts."
    port_file: PathBuf = "port-file", Kind::Text, "", Fixed, NONE;
    "A Unix socket to listen on as well."
    unixsocket: PathBuf = "unixsocket", Kind::Text, "", Fixed, NONE;
    "The Unix socket's permissions; 0 leaves them to the umask."
    unixsocketperm: u32 = "unixsocketperm", Kind::Octal(0o777), "0", Fixed, NONE;
    "How many connections may wait to be accepted."
    tcp_backlog: u32 = "tcp-backlog", Kind::Int(0, INT_MAX), "511", Fixed, NONE;
    "Seconds of silence after which a connection is probed; 0 never does."
    tcp_keepalive: u32 = "tcp-keepalive", Kind::Int(0, INT_MAX), "300", Mutable, NONE;
    "Seconds of idleness after which a client is cut off; 0 never does."
    timeout: u64 = "timeout", Kind::Int(0, INT_MAX), "0", Mutable, NONE;
    "The most clients at a time."
    maxclients: u32 = "maxclients", Kind::Int(1, u32::MAX as i64), "10000", Mutable, MAX_CLIENTS;
    "Refuse other machines while there is no password and no address was chosen."
    protected_mode: bool = "protected-mode", Kind::YesNo, "yes", Mutable, NONE;
    "The password of the default user; empty: none is asked."
    requirepass: Vec<u8> = "requirepass", Kind::Text, "", Mutable, PASSWORD;
    "Who may use DEBUG."
    enable_debug_command: Allow = "enable-debug-command", ALLOW, "no", Fixed, NONE;
    "Who may use MODULE LOAD and its like, which find nothing to load."
    enable_module_command: Allow = "enable-module-command", ALLOW, "no", Fixed, NONE;
    "Who may change the protected parameters."
    enable_protected_configs: Allow = "enable-protected-configs", ALLOW, "no", Fixed, NONE;
    "Ours: who may use KEYLATCH, the test double's command."
    enable_test_commands: Allow = "enable-test-commands", ALLOW, "local", Fixed, NONE;
    "Go to the background."
    daemonize: bool = "daemonize", Kind::YesNo, "no", Fixed, NONE;
    "A file that holds the process id while the server runs."
    pidfile: PathBuf = "pidfile", Kind::Text, "", Fixed, NONE;
    "The working directory, from which other paths are read."
    dir: Directory = "dir", Kind::Text, "", Protected, DIR;
    "How much is logged."
    loglevel: LogLevel = "loglevel", Kind::Choice(LogLevel::WORDS), "notice", Mutable, LOG_LEVEL;
    "Where it is logged; empty: to the standard output."
    logfile: PathBuf = "logfile", Kind::Text, "", Fixed, NONE;
    "Ours: lines for people, or one JSON object each."
    log_format: LogFormat = "log-format", Kind::Choice(LogFormat::WORDS), "human", Fixed, NONE;
    "How many databases there are."
    databases: usize = "databases", Kind::Int(1, INT_MAX), "16", Fixed, NONE;
    "How often a second the background work runs while there is some; at most 500."
    hz: u32 = "hz", Kind::Int(0, INT_MAX), "10", Mutable, HZ;
    "How much of the CPU active expiry may take, and how many stale keys it tolerates."
    active_expire_effort: u32 = "active-expire-effort", Kind::Int(1, 10), "1", Mutable, NONE;
    "Memory past which commands that need more are refused; 0: no limit."
    maxmemory: u64 = "maxmemory", Kind::Memory(0, u64::MAX), "0", Mutable, NONE;
    "What happens at maxmemory: nothing is evicted, since a lock must not vanish."
    maxmemory_policy: MemoryPolicy =
        "maxmemory-policy", Kind::Choice(&["noeviction"]), "noeviction", Mutable, NONE;
    "The longest bulk string, in a request and as a value."
    proto_max_bulk_len: u64 =
        "proto-max-bulk-len", Kind::Memory(1 << 20, i64::MAX as u64), "512mb", Mutable, NONE;
    "The most of a request that is kept in memory until it is complete."
    client_query_buffer_limit: u64 =
        "client-query-buffer-limit", Kind::Memory(1 << 20, i64::MAX as u64), "1gb", Mutable, NONE;
    "How much unread output a client may leave before it is cut off: hard, soft, for how long."
    client_output_buffer_limit: OutputLimits = "client-output-buffer-limit",
        Kind::Words("(normal, replica or pubsub, hard bytes, soft bytes, soft seconds), repeated"),
        "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60", Mutable, NONE;
    "Milliseconds after which a script makes the server answer BUSY; 0 never does."
    busy_reply_threshold: u64 =
        "busy-reply-threshold" | "lua-time-limit", Kind::Int(0, i64::MAX), "5000", Mutable, NONE;
    "Ours: the most memory that the scripts' Lua may hold; past it a script fails. 0: no limit."
    lua_memory_limit: u64 = "lua-memory-limit", Kind::Memory(0, i64::MAX as u64), "1gb", Mutable, NONE;
    "Which changes of keys are published: letters of `KEg$lshzxetdmnA`."
    notify_keyspace_events: NotifyClasses =
        "notify-keyspace-events", Kind::Text, "", Mutable, NOTIFY;
    "Microseconds past which a command enters the slow log; negative: none does."
    slowlog_log_slower_than: i64 =
        "slowlog-log-slower-than", Kind::Int(-1, i64::MAX), "10000", Mutable, SLOWLOG;
    "How many entries the slow log keeps."
    slowlog_max_len: u64 = "slowlog-max-len", Kind::Int(0, i64::MAX), "128", Mutable, SLOWLOG;
    "Milliseconds past which an event is kept for LATENCY; 0: none is."
    latency_monitor_threshold: u64 =
        "latency-monitor-threshold", Kind::Int(0, i64::MAX), "0", Mutable, SLOWLOG;
    "Keep a histogram of each command's time."
    latency_tracking: bool = "latency-tracking", Kind::YesNo, "yes", Mutable, LATENCY;
    "Which percentiles INFO latencystats prints."
    latency_tracking_info_percentiles: Percentiles = "latency-tracking-info-percentiles",
        Kind::Words("numbers, 0 to 100"), "50 99 99.9", Mutable, NONE;
    "How many keys CLIENT TRACKING remembers; 0: no limit."
    tracking_table_max_keys: u64 =
        "tracking-table-max-keys", Kind::Int(0, i64::MAX), "1000000", Mutable, TRACKING;
    "Be a cluster of one node that owns all slots."
    cluster_enabled: bool = "cluster-enabled", Kind::YesNo, "no", Fixed, NONE;
    "The address that a cluster's node tells; empty: loopback to who is there, none to others."
    cluster_announce_ip: Vec<u8> = "cluster-announce-ip", Kind::Text, "", Mutable, NONE;
    "The port that a cluster's node tells; 0: the one that it listens on."
    cluster_announce_port: u16 = "cluster-announce-port", Kind::Int(0, 65535), "0", Mutable, NONE;
    "Bytes up to which PFADD keeps the sparse form."
    hll_sparse_max_bytes: u64 =
        "hll-sparse-max-bytes", Kind::Memory(0, i64::MAX as u64), "3000", Mutable, NONE;
    "Ours: the version of Redis that is reported to clients; every command is there whatever it says."
    compat_version: Version = "compat-version", Kind::Text, "7.2.4", Fixed, NONE;
    "Ours: how many events of locks are remembered for KEYLATCH HISTORY; 0: none, at no cost."
    lock_history_len: u64 = "lock-history-len", Kind::Int(0, INT_MAX), "0", Mutable, LOCKS;
    "Ours: which keys are locks, a glob; empty: those that a conditional write has taken."
    lock_pattern: Vec<u8> = "lock-pattern", Kind::Text, "", Mutable, LOCKS;
    "Ours: an HTML file into which the locks' timeline and the findings are written at the end; 10000 events are kept for it unless lock-history-len says how many."
    lock_report: PathBuf = "lock-report", Kind::Text, "", Fixed, NONE;
    "Ours: how many independent servers this process runs, each with a port of its own: with a port given, that one and those behind it."
    nodes: u16 = "nodes", Kind::Int(1, 1000), "1", Fixed, NONE;
    "When to save to disk: never, data lives in memory only."
    save: NoSave = "save", Kind::Words("the empty word"), "", Mutable, NONE;
    "Log every write to disk: never."
    appendonly: bool = "appendonly",
        Kind::OnlyNo("keylatch keeps its data in memory only: nothing but appendonly no can be had"),
        "no", Mutable, NONE;
}

/// Every parameter; those without effect last.
pub fn all() -> impl Iterator<Item = &'static Param> {
    FIELDS.iter().chain(super::idle::IDLE)
}

/// Whether the value of the parameter called `name` is not to be shown to others.
pub fn is_secret(name: &[u8]) -> bool {
    ["requirepass", "masterauth", "masteruser"]
        .iter()
        .any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

/// The parameter called `name`, in any case, by its first or second name.
pub fn find(name: &[u8]) -> Option<&'static Param> {
    all().find(|param| param.names().any(|own| name.eq_ignore_ascii_case(own.as_bytes())))
}

impl Param {
    /// Its one or two names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.alias].into_iter().filter(|name| !name.is_empty())
    }

    /// Reads its value from `words` into `config`.
    pub fn read(&self, config: &mut Config, words: &[&[u8]]) -> Result<(), Refusal> {
        match self.store {
            Store::Field { read, .. } => read(config, &self.kind, words)?,
            Store::Idle => {
                self.kind.check(words)?;
                let value = match self.kind {
                    Kind::Memory(..) => u64::read(&self.kind, words, &0)?.print(&self.kind),
                    Kind::YesNo | Kind::OnlyNo(_) | Kind::Choice(_) => words[0].to_ascii_lowercase(),
                    _ => words.join(&b' '),
                };
                config.idle.insert(self.name, value);
            }
        }
        config.hz = config.hz.clamp(1, 500);
        Ok(())
    }

    /// Reads its value from one text: where it takes several words, they are parted by blanks.
    pub fn read_value(&self, config: &mut Config, value: &[u8]) -> Result<(), Refusal> {
        self.read(config, &value_words(&self.kind, value))
    }

    /// Its value as CONFIG GET prints it.
    pub fn print(&self, config: &Config) -> Vec<u8> {
        match self.store {
            Store::Field { print, .. } => print(config, &self.kind),
            Store::Idle => match config.idle.get(self.name) {
                Some(value) => value.clone(),
                None => self.default.as_bytes().to_vec(),
            },
        }
    }
}
