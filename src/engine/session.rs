//! `Session`: one client's state. Not here: its socket (`net`), and who else is connected
//! (`clients`).

use super::blocking::Wait;
use super::outbox::Outbox;
use super::spec::Flags;
use super::striking::Mark;
use super::tracking::Tracker;
use super::watch::Watched;
use crate::base::clock::UnixMs;
use crate::resp::Protocol;

/// When a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Closing {
    /// It goes on.
    #[default]
    No,
    /// Once what is owed has been written.
    AfterReply,
    /// At once.
    Now,
}

/// What CLIENT REPLY asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReplyMode {
    #[default]
    On,
    Off,
    /// The next command's reply is left out…
    SkipNext,
    /// …which is this one's.
    Skip,
}

/// A transaction that is being put together.
#[derive(Debug, Default)]
pub struct Queue {
    pub commands: Vec<Queued>,
    /// Something was refused while queueing: EXEC aborts.
    pub failed: bool,
    /// What the arguments take, bytes.
    pub bytes: usize,
    /// All flags of all commands.
    pub flags: Flags,
}

/// One command of a transaction.
#[derive(Debug)]
pub struct Queued {
    /// Its number in the table.
    pub command: usize,
    pub args: Vec<Box<[u8]>>,
}

/// One client.
#[derive(Debug)]
pub struct Session {
    /// As CLIENT ID tells; never used twice.
    pub id: u64,
    /// The peer, `ip:port` or a socket's path with `:0`.
    pub addr: String,
    /// Our end.
    pub laddr: String,
    /// Whether it came over a unix socket or from a loopback address (guards `local` commands).
    pub local: bool,
    pub unix: bool,
    pub fd: i32,
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_ver: Vec<u8>,
    pub db: usize,
    pub protocol: Protocol,
    pub authenticated: bool,
    pub connected_at: UnixMs,
    pub active_at: UnixMs,
    /// The last command's number in the table.
    pub last_command: Option<usize>,
    pub no_evict: bool,
    pub no_touch: bool,
    pub reply_mode: ReplyMode,
    pub closing: Closing,
    /// Between MULTI and EXEC: what is to be run.
    pub queue: Option<Queue>,
    /// What the next EXEC depends on, and whether any of it has changed.
    pub watched: Vec<Watched>,
    pub watch_broken: bool,
    /// Channels, patterns and shard channels that it listens to, together.
    pub subscriptions: usize,
    /// CLIENT TRACKING, while it is on.
    pub tracker: Option<Box<Tracker>>,
    /// It is shown every command.
    pub monitor: bool,
    /// READONLY, which makes no difference where all slots are our own.
    pub read_only: bool,
    /// What it waits for.
    pub wait: Option<Wait>,
    /// What faults have made of its request.
    pub mark: Option<Box<Mark>>,
    /// `net` will look at it.
    pub woken: bool,
    /// Bytes for this client that did not come out of its own command: pushes, and what the
    /// socket did not take yet.
    pub outbox: Outbox,
    /// Bytes received and not yet parsed (for CLIENT LIST).
    pub input_len: usize,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub commands: u64,
    /// Since when `outbox` is above its soft limit.
    pub soft_limit_since: Option<UnixMs>,
}

impl Session {
    /// A client that has just connected.
    pub fn new(id: u64, addr: String, laddr: String, now: UnixMs) -> Self {
        Session {
            id,
            addr,
            laddr,
            local: false,
            unix: false,
            fd: -1,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_ver: Vec::new(),
            db: 0,
            protocol: Protocol::Resp2,
            authenticated: true,
            connected_at: now,
            active_at: now,
            last_command: None,
            no_evict: false,
            no_touch: false,
            reply_mode: ReplyMode::On,
            closing: Closing::No,
            queue: None,
            watched: Vec::new(),
            watch_broken: false,
            subscriptions: 0,
            tracker: None,
            monitor: false,
            read_only: false,
            wait: None,
            mark: None,
            woken: false,
            outbox: Outbox::default(),
            input_len: 0,
            bytes_in: 0,
            bytes_out: 0,
            commands: 0,
            soft_limit_since: None,
        }
    }

    /// Whether the client is blocked or paused: its requests wait.
    pub fn waits(&self) -> bool {
        self.wait.is_some()
    }
}
