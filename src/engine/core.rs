//! `Core`: the server's state, and one command's run on it. No sockets, no Lua: scripts and
//! transactions are run by `Engine` (`mod`), which is the only one to call `run`.

use super::admit::{self, Admission, Busy, Facts, Rare};
use super::blocking::{self, Pause, Wait};
use super::clients::Clients;
use super::figures::LuaFigures;
use super::latency::LatencyEvents;
use super::locks::book::Book;
use super::locks::observe::Watcher;
use super::pubsub::PubSub;
use super::reconfigure::Outside;
use super::reset::Start;
use super::session::{Closing, Queue, Queued, ReplyMode};
use super::slowlog::SlowLog;
use super::spec::{Context, Flags, Handler, Outcome};
use super::stats::Stats;
use super::striking::Trouble;
use super::table::{Command, Table};
use super::tracking::Tracking;
use super::watch::Watches;
use crate::base::chance::Chance;
use crate::base::clock::{Clock, Turn, UnixMs};
use crate::base::error::CommandError;
use crate::config::Config;
use crate::keyspace::access::Limits;
use crate::keyspace::expire::Progress;
use crate::keyspace::{Access, Db, Effects, Keyspace};
use crate::resp::{Args, Protocol, Reply, RespWriter};
use crate::script::{HostInfo, Running};
use std::collections::VecDeque;
use std::sync::Arc;

/// A smaller database is in the cache anyway.
const WARM_KEYS: usize = 4096;

/// Through which door a command came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Client,
    Script,
    Transaction,
}

/// What is the same from start to end.
#[derive(Debug, Default)]
pub struct Identity {
    /// 40 hex digits, another at each start.
    pub run_id: String,
    pub started_at: UnixMs,
    pub port: u16,
    pub executable: String,
    pub config_file: String,
    /// The addresses of all servers of this process that a test asked for, in their order.
    pub nodes: Arc<[String]>,
    /// 40 hex digits: what a replica would know the data by.
    pub replication_id: String,
}

/// What SHUTDOWN asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Do not wait for anything.
    pub now: bool,
}

/// A script that is running.
pub struct ScriptRun {
    pub running: Running,
    /// Who called it.
    pub client: usize,
    /// The turn in which it runs; its time since the last lap is the script's.
    pub turn: Turn,
    /// Up to where its time has been counted for its commands, microseconds of the turn.
    pub mark: u64,
    /// In a cluster: the slot of its keys so far.
    pub slot: Option<u16>,
    /// Its result has an error in it.
    pub said_error: bool,
}

/// What became of a request before its run.
pub enum Taken {
    /// It is to be run.
    Run(&'static Command),
    /// It has been refused or queued, and answered.
    Answered,
    /// It is to be made again after a pause.
    Postponed,
    /// It will not be answered.
    Waits,
}

/// Serves other connections while a script overruns; given by `net`.
pub type Breather = Box<dyn FnMut(&mut Core)>;

/// The server's state.
pub struct Core {
    pub clock: Clock,
    pub turn: Turn,
    pub chance: Chance,
    pub config: Config,
    /// What KEYLATCH RESET goes back to.
    pub start: Start,
    pub table: &'static Table,
    pub keyspace: Keyspace,
    pub effects: Effects,
    pub clients: Clients,
    pub watches: Watches,
    pub pubsub: PubSub,
    pub tracking: Tracking,
    /// Clients that are shown every command.
    pub monitors: Vec<usize>,
    pub slowlog: SlowLog,
    pub latency: LatencyEvents,
    /// The book of locks, where one is kept (lock-history-len).
    pub book: Option<Box<Book>>,
    /// What it sees of the request that runs.
    pub(super) lock_watcher: Watcher,
    pub pause: Option<Pause>,
    /// Clients that wait for a time.
    pub waiting: Vec<usize>,
    /// Clients whose requests a pause holds back, in the order in which they came.
    pub postponed: Vec<usize>,
    /// Something is to happen earlier than the cron knows of.
    pub cron_is_late: bool,
    /// Faults.
    pub trouble: Trouble,
    /// Something out of the ordinary is in force (a pause, a tracking client, a monitor, a cluster, the
    /// book of locks, a fault): the one look that a server without pays for.
    special: bool,
    /// Commands that take as long are looked at for the slow log and LATENCY.
    slow_micros: u64,
    pub stats: Stats,
    /// What the script host last noted about itself.
    pub lua: LuaFigures,
    /// The most memory that was seen in use, bytes.
    pub peak_memory: u64,
    /// What was in use before there was any data, bytes.
    pub memory_at_start: u64,
    pub identity: Identity,
    pub script: Option<ScriptRun>,
    /// What the script host held after its last work.
    pub scripts: HostInfo,
    pub breather: Option<Breather>,
    /// Takes changed parameters into effect outside of the core; given by `server`.
    pub outside: Option<Outside>,
    pub shutdown: Option<Shutdown>,
    /// Databases that were emptied and are dropped bit by bit.
    pub reaper: VecDeque<Box<Db>>,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: bool,
    /// DEBUG PAUSE-CRON.
    pub cron_paused: bool,
    /// Where the active expire cycle goes on.
    pub expire_progress: Progress,
}

impl Core {
    /// A server that has just been started and has no client.
    pub fn new(config: Config, table: &'static Table, clock: Clock, mut chance: Chance) -> Self {
        let start = Start { config: config.clone(), clock, chance: chance.clone() };
        let hash_seed = chance.bits();
        let effects = Effects { classes: config.notify_keyspace_events.0, ..Effects::default() };
        let identity = Identity {
            run_id: chance.hex(40),
            replication_id: chance.hex(40),
            started_at: clock.now(),
            ..Identity::default()
        };
        let mut core = Core {
            turn: Turn::begin(&clock),
            keyspace: Keyspace::new(config.databases, hash_seed),
            stats: Stats::new(table.all().len()),
            lua: LuaFigures::default(),
            peak_memory: 0,
            memory_at_start: crate::base::memory::allocated(),
            clock,
            chance,
            book: super::locks::of(&config),
            lock_watcher: Watcher::default(),
            config,
            start,
            table,
            effects,
            clients: Clients::default(),
            watches: Watches::default(),
            pubsub: PubSub::default(),
            tracking: Tracking::default(),
            monitors: Vec::new(),
            slowlog: SlowLog::default(),
            latency: LatencyEvents::default(),
            pause: None,
            waiting: Vec::new(),
            cron_is_late: false,
            trouble: Trouble::default(),
            postponed: Vec::new(),
            special: false,
            slow_micros: 0,
            identity,
            script: None,
            scripts: HostInfo::default(),
            breather: None,
            outside: None,
            shutdown: None,
            reaper: VecDeque::new(),
            active_expire: true,
            cron_paused: false,
            expire_progress: Progress::default(),
        };
        core.note_special();
        core.note_thresholds();
        core
    }

    /// Reads the clock; what runs until the next call happens from here on.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.turn.next(&self.clock);
        self.stats.sample(self.now().0);
    }

    /// The moment of what is running now. Inside a script or a transaction it stands still.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.turn.now()
    }

    /// Brings into the cache what `requests` of `client` will look up.
    pub fn warm<'a>(&self, client: usize, requests: impl Iterator<Item = Args<'a>>) {
        let db = self.keyspace.db(self.clients.get(client).db);
        if db.len() < WARM_KEYS {
            return;
        }
        let keys = requests.filter_map(|args| {
            let at = self.table.find(args.get(0))?.first_key?;
            args.try_get(at)
        });
        db.warm(keys);
    }

    /// Decides what becomes of a client's request.
    pub fn take_request(&mut self, client: usize, args: &Args<'_>, out: &mut Vec<u8>) -> Taken {
        if self.special && self.tracking_is_over() {
            self.limit_tracking();
        }
        let table = self.table;
        let resolved = table.resolve(args);
        // Also where it is refused or queued, and none where nothing has that name.
        self.clients.get_mut(client).last_command = resolved.as_ref().ok().map(|command| command.id);
        if self.special && self.postpone_in_stall(client, resolved.as_ref().ok().copied()) {
            return Taken::Postponed;
        }
        let decided = resolved.and_then(|command| {
            command.check_arity(args.len())?;
            let facts = self.facts(client, command, args);
            Ok((command, admit::admit(&facts, command)?))
        });
        match decided {
            Ok((command, Admission::Run)) if self.special => self.strike_before(client, command, args, out),
            Ok((command, Admission::Run)) => Taken::Run(command),
            Ok((command, Admission::Queue)) => {
                self.enqueue(client, command, args);
                self.writer(client, out).simple(b"QUEUED");
                Taken::Answered
            }
            Ok((_, Admission::Postpone)) => {
                self.clients.get_mut(client).wait = Some(Wait::Pause);
                self.postponed.push(client);
                Taken::Postponed
            }
            Err(_) if speaks_http(args) => {
                // A web page that has a browser talk to us: as in Redis, it gets no answer at all.
                tracing::warn!(
                    "Possible SECURITY ATTACK detected: POST or Host: from a client. Connection closed."
                );
                out.clear();
                self.clients.get_mut(client).closing = Closing::Now;
                Taken::Answered
            }
            Err(refusal) => {
                self.refuse(client, args, refusal, out);
                Taken::Answered
            }
        }
    }

    #[inline]
    fn facts(&mut self, client: usize, command: &Command, args: &Args<'_>) -> Facts {
        let rare = if self.special { Some(self.rare_facts(client, command, args)) } else { None };
        let session = self.clients.get(client);
        let queued = match &session.queue {
            Some(queue) if command.has(Flags::RUNS_QUEUE) => queue.flags,
            _ => Flags::default(),
        };
        Facts {
            queued,
            rare,
            authenticated: session.authenticated,
            queueing: session.queue.is_some(),
            subscriber: session.subscriptions > 0 && session.protocol == Protocol::Resp2,
            busy: match &self.script {
                Some(run) if run.running.timed_out && run.running.is_function => Busy::Function,
                Some(run) if run.running.timed_out => Busy::Script,
                _ => Busy::No,
            },
            out_of_memory: (command.spec.flags | queued).has(Flags::DENYOOM) && self.out_of_memory(),
            guarded_allowed: if command.has(Flags::TEST) {
                self.config.enable_test_commands.allows(session.local)
            } else if command.has(Flags::MODULES) {
                self.config.enable_module_command.allows(session.local)
            } else {
                self.config.enable_debug_command.allows(session.local)
            },
        }
    }

    #[cold]
    fn rare_facts(&mut self, client: usize, command: &Command, args: &Args<'_>) -> Rare {
        Rare {
            pause: self.pause_in_force(),
            monitor: self.clients.get(client).monitor,
            crosses_slots: self.config.cluster_enabled && self.crosses_slots(client, command, args),
        }
    }

    /// To be called when any of what `special` stands for has changed.
    pub fn note_special(&mut self) {
        self.special = self.config.cluster_enabled
            || self.pause.is_some()
            || self.tracking.is_used()
            || !self.monitors.is_empty()
            || self.book.is_some()
            || !self.trouble.is_none();
    }

    /// Whether any of it is in force.
    #[inline]
    pub(super) fn is_special(&self) -> bool {
        self.special
    }

    /// What follows from a command that has run, for those who track or monitor.
    #[cold]
    fn finish_special(
        &mut self,
        client: usize,
        command: &'static Command,
        args: &Args<'_>,
        origin: Origin,
        failed: bool,
    ) {
        if self.book.is_some() {
            self.note_in_book(client, command, args, origin, failed);
        }
        if self.clients.get(client).tracker.is_some() {
            self.remember_read(client, command, args);
        }
        if !command.has(Flags::SKIP_MONITOR) {
            self.feed_monitors(client, command, args, origin);
        }
    }

    /// A command that took long: for the slow log and LATENCY.
    #[cold]
    fn finish_slow(
        &mut self,
        client: usize,
        command: &Command,
        args: &Args<'_>,
        origin: Origin,
        micros: u64,
    ) {
        self.log_if_slow(client, command, args, origin, micros);
        let event = if command.has(Flags::FAST) { "fast-command" } else { "command" };
        self.note_latency(event, micros);
    }

    /// To be called when either threshold has changed.
    pub fn note_thresholds(&mut self) {
        let slow = u64::try_from(self.config.slowlog_log_slower_than).unwrap_or(u64::MAX);
        let latency = match self.config.latency_monitor_threshold {
            0 => u64::MAX,
            ms => ms.saturating_mul(1000),
        };
        self.slow_micros = slow.min(latency);
    }

    /// Whether memory is above `maxmemory`.
    #[inline]
    pub fn out_of_memory(&self) -> bool {
        self.config.maxmemory > 0 && crate::base::memory::allocated() > self.config.maxmemory
    }

    #[cold]
    fn refuse(&mut self, client: usize, args: &Args<'_>, refusal: CommandError, out: &mut Vec<u8>) {
        if let Ok(command) = self.table.resolve(args) {
            self.stats.commands[command.id].rejected += 1;
        }
        let exec = self.table.find(args.get(0)).is_some_and(|command| command.has(Flags::RUNS_QUEUE));
        let code = refusal.code();
        // A refused EXEC is counted as what its client reads.
        let told_whole = !exec || refusal == CommandError::CrossSlot;
        self.stats.error(if told_whole { &code } else { "EXECABORT" });
        let session = self.clients.get_mut(client);
        if exec {
            // A refused EXEC ends its transaction and says why.
            session.queue = None;
            self.unwatch(client);
            if refusal == CommandError::CrossSlot {
                return self.writer(client, out).error(&refusal);
            }
            // Monitors have seen the MULTI: they are to see where it ends.
            if let Ok(command) = self.table.resolve(args) {
                self.feed_monitors(client, command, args, Origin::Client);
            }
            let mut line = b"EXECABORT Transaction discarded because of: ".to_vec();
            let reason = refusal.line();
            line.extend_from_slice(reason.strip_prefix(b"ERR ").unwrap_or(&reason));
            return self.writer(client, out).error_line(&line);
        }
        if let Some(queue) = &mut session.queue {
            queue.failed = true;
        }
        self.writer(client, out).error(&refusal);
    }

    /// Keeps a command for EXEC, unless that will run nothing: then not even what it would have done
    /// counts (a pause does not hold such an EXEC back).
    fn enqueue(&mut self, client: usize, command: &Command, args: &Args<'_>) {
        let session = self.clients.get_mut(client);
        let broken = session.watch_broken;
        if let Some(queue) = session.queue.as_mut().filter(|queue| !queue.failed && !broken) {
            let args: Vec<Box<[u8]>> = args.all().iter().map(|&arg| arg.into()).collect();
            queue.bytes += args.iter().map(|arg| arg.len()).sum::<usize>();
            queue.flags = queue.flags | command.spec.flags;
            queue.commands.push(Queued { command: command.id, args });
        }
    }

    /// Begins a transaction for `client`.
    pub fn begin_queue(&mut self, client: usize) {
        self.clients.get_mut(client).queue = Some(Queue::default());
    }

    /// A writer to `out` in what `client` speaks.
    pub fn writer<'o>(&self, client: usize, out: &'o mut Vec<u8>) -> RespWriter<'o> {
        RespWriter::new(out, self.clients.get(client).protocol)
    }

    /// The keys as a command of `client`'s sees them.
    #[inline]
    pub fn access(&mut self, client: usize) -> Access<'_> {
        self.access_with(client, true)
    }

    /// The same; `lazy_expire`: a key past its deadline is removed, not only nobody's.
    #[inline]
    fn access_with(&mut self, client: usize, lazy_expire: bool) -> Access<'_> {
        let session = self.clients.get(client);
        let limits = Limits {
            max_bulk_len: self.config.proto_max_bulk_len,
            hll_sparse_max: self.config.hll_sparse_max_bytes,
            no_touch: session.no_touch,
            lazy_expire,
            one_db: self.config.cluster_enabled,
        };
        let now = self.turn.now();
        Access::new(&mut self.keyspace, session.db, now, &mut self.chance, &mut self.effects, limits)
    }

    /// Runs `command`'s handler.
    #[inline]
    pub fn handle(
        &mut self,
        client: usize,
        command: &'static Command,
        args: &Args<'_>,
        origin: Origin,
        reply: &mut dyn Reply,
    ) -> Result<Outcome, CommandError> {
        let now = self.now();
        if self.special && self.book.is_some() {
            self.look_at_locks(client, command, args, origin);
        }
        match command.spec.handler {
            Handler::Keys(run) => {
                // A pause keeps the data as it is; what reads must not even sweep.
                let lazy_expire =
                    !self.special || self.pause.is_none() || blocking::may_write(command.spec.flags);
                run(&mut self.access_with(client, lazy_expire), args, reply).map(|()| Outcome::Done)
            }
            Handler::Server(run) => run(&mut Context { core: self, client, origin, now }, args, reply),
            Handler::Container => Err(CommandError::WrongArity(command.full_name.clone())),
        }
    }

    /// What follows from a command that has run: statistics, then its effects. `failed`: its error, and
    /// whether that was counted already, as the error of a command inside a script.
    #[inline]
    pub fn finish(
        &mut self,
        client: usize,
        command: &'static Command,
        args: &Args<'_>,
        origin: Origin,
        failed: Option<(&CommandError, bool)>,
        micros: u64,
    ) {
        self.stats.commands_processed += 1;
        let stats = &mut self.stats.commands[command.id];
        stats.calls += 1;
        stats.micros += micros;
        if self.config.latency_tracking {
            self.stats.times[command.id].record(micros);
        }
        let stats = &mut self.stats.commands[command.id];
        if let Some((error, counted)) = failed {
            stats.failed += 1;
            if !counted {
                self.stats.error(&error.code());
            }
        }
        if micros >= self.slow_micros {
            self.finish_slow(client, command, args, origin, micros);
        }
        if !self.effects.changes.is_empty() {
            self.settle();
        }
        if self.special {
            self.finish_special(client, command, args, origin, failed.is_some());
        }
    }

    /// The end of a client's request: CLIENT REPLY's modes, and pushes to itself behind the reply.
    #[inline]
    pub fn end_request(&mut self, client: usize, before: Option<usize>, out: &mut Vec<u8>, start: usize) {
        let session = self.clients.get_mut(client);
        if self.special
            && session.queue.is_none()
            && let Some(tracker) = &mut session.tracker
        {
            let last = session.last_command.map(|id| self.table.get(id));
            tracker.caching &= last.is_some_and(|command| command.has(Flags::KEEPS_CACHING));
        }
        if session.reply_mode != ReplyMode::On {
            match session.reply_mode {
                ReplyMode::Skip => {
                    out.truncate(start);
                    session.reply_mode = ReplyMode::On;
                }
                ReplyMode::Off => out.truncate(start),
                ReplyMode::SkipNext => session.reply_mode = ReplyMode::Skip,
                ReplyMode::On => {}
            }
        }
        self.clients.end(before, out);
    }

    /// The client's connection has ended; so has what it held.
    pub fn disconnect(&mut self, client: usize) {
        self.note_departure(client);
        self.unwatch(client);
        self.unsubscribe_from_all(client);
        self.untrack(client);
        self.monitors.retain(|&monitor| monitor != client);
        self.waiting.retain(|&waiting| waiting != client);
        self.forget_trouble(client);
        self.postponed.retain(|&postponed| postponed != client);
        self.note_special();
        self.clients.remove(client);
    }

    /// Ends `client`'s connection once it has its reply.
    pub fn close_after_reply(&mut self, client: usize) {
        self.clients.get_mut(client).closing = Closing::AfterReply;
    }
}

/// Whether the request is a line of HTTP's (`securityWarningCommand` in Redis).
#[cold]
fn speaks_http(args: &Args<'_>) -> bool {
    args.is(0, "post") || args.is(0, "host:")
}
