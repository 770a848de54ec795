//! The server inside the caller's process: a thread of its own, a port of its own, and a handle by
//! which a test looks at it and arranges it. Not here: what the wire's `KEYLATCH` does
//! (`command::keylatch`), which works on the same core.

pub mod faults;

use crate::base::chance::Chance;
use crate::base::clock::{Clock, UnixMs};
use crate::command::table::table;
use crate::config::Config;
use crate::engine::core::Core;
use crate::engine::locks;
use crate::engine::locks::view::Finding;
use crate::engine::{Door, Engine};
use crate::keyspace::access::Limits;
use crate::keyspace::{Access, Encoding, Event, Ttl};
use crate::net::Shared;
use crate::server::{self, BindError, Bound, Report};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::{fmt, io};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Work that another thread has done on the server's own.
type Job = Box<dyn FnOnce(&mut Engine) + Send>;

/// Why an embedded server did not start.
#[derive(Debug)]
pub enum StartError {
    /// A parameter was refused, with the text that CONFIG SET gives.
    Config(String),
    /// Its address could not be had.
    Bind(BindError),
    /// The system gave no thread or no event loop.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(reason) => f.write_str(reason),
            StartError::Bind(error) => error.fmt(f),
            StartError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// What an embedded server starts with.
#[derive(Debug, Default)]
pub struct Builder {
    params: Vec<(String, String)>,
    frozen_at: Option<UnixMs>,
    seed: Option<u64>,
}

impl Builder {
    /// Sets a parameter by its name in the file; refused at `start` as CONFIG SET would.
    #[must_use]
    pub fn param(mut self, name: &str, value: impl ToString) -> Self {
        self.params.push((name.to_owned(), value.to_string()));
        self
    }

    /// `port`; without it the system chooses.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.param("port", port)
    }

    /// `requirepass`.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.param("requirepass", password)
    }

    /// `databases`.
    #[must_use]
    pub fn databases(self, count: usize) -> Self {
        self.param("databases", count)
    }

    /// `maxmemory`, bytes.
    #[must_use]
    pub fn max_memory(self, bytes: u64) -> Self {
        self.param("maxmemory", bytes)
    }

    /// `lock-history-len`: how many events of locks are remembered; without it 10,000, and 0: none.
    #[must_use]
    pub fn lock_history(self, events: u64) -> Self {
        self.param("lock-history-len", events)
    }

    /// Starts with a clock that stands at `ms` of Unix time until it is moved.
    #[must_use]
    pub fn frozen_at(mut self, ms: i64) -> Self {
        self.frozen_at = Some(UnixMs(ms));
        self
    }

    /// All that is random follows from `seed`.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the server on a thread of its own. It accepts when this returns.
    pub fn start(self) -> Result<Server, StartError> {
        let (config, clock, seed) = self.into_parts()?;
        if config.nodes > 1 {
            return Err(StartError::Config(
                "nodes: several servers are started by Builder::nodes".to_owned(),
            ));
        }
        let chance = seed.map_or_else(Chance::from_system, Chance::from_seed);
        let launch = Launch::prepare(config, clock, chance)?;
        let alone = Arc::new([launch.addr().to_string()]);
        launch.go(alone)
    }

    /// The parameters, the clock and the seed.
    pub(crate) fn into_parts(self) -> Result<(Config, Clock, Option<u64>), StartError> {
        let mut config = Config::default();
        let history = locks::DEFAULT_LEN.to_string();
        let ours = [("bind", "127.0.0.1"), ("port", "0"), ("lock-history-len", &history)];
        let asked = self.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in ours.into_iter().chain(asked) {
            config.preset(name, value).map_err(StartError::Config)?;
        }
        let clock = match self.frozen_at {
            Some(at) => Clock::Manual(at.0.saturating_mul(1000)),
            None => Clock::System,
        };
        Ok((config, clock, self.seed))
    }
}

/// A server that holds its address and does not run yet.
pub(crate) struct Launch {
    config: Config,
    clock: Clock,
    chance: Chance,
    bound: Bound,
    addr: SocketAddr,
}

impl Launch {
    pub(crate) fn prepare(config: Config, clock: Clock, chance: Chance) -> Result<Launch, StartError> {
        locks::report::check(&config.lock_report).map_err(StartError::Config)?;
        let bound = server::bind(&config).map_err(StartError::Bind)?;
        let addr = bound.reached_at().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Ok(Launch { config, clock, chance, bound, addr })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Lets it run; `nodes`: the addresses of all that run together with it, its own among them.
    pub(crate) fn go(self, nodes: Arc<[String]>) -> Result<Server, StartError> {
        let Launch { config, clock, chance, bound, addr } = self;
        let url = url(addr, &config.requirepass);
        let (jobs, inbox) = unbounded_channel();
        let (ready, started) = sync_channel(1);
        let failed = ready.clone();
        let thread = std::thread::Builder::new()
            .name(format!("keylatch {}", addr.port()))
            .spawn(move || {
                let ended = server::runtime().and_then(|runtime| {
                    let mut core = Core::new(config, table(), clock, chance);
                    core.identity.port = bound.port;
                    core.identity.nodes = nodes;
                    runtime.block_on(async {
                        let mut kept = None;
                        let until = |shared: Rc<Shared>| {
                            kept = Some(Rc::clone(&shared));
                            work(shared, inbox)
                        };
                        let served = server::serve(core, bound, false, until, |_| drop(ready.send(Ok(()))));
                        let report = served.await?;
                        Ok(End { findings: kept.and_then(|shared| last_findings(&shared)), report })
                    })
                });
                ended.unwrap_or_else(|error| {
                    // Nobody listens any more where the start had been reported already.
                    let _ = failed.send(Err(error));
                    End { findings: None, report: Report::Settled }
                })
            })
            .map_err(StartError::System)?;
        let server = Server { addr, url, jobs: Some(jobs), thread: Some(thread) };
        match started.recv() {
            Ok(Ok(())) => Ok(server),
            Ok(Err(error)) => Err(StartError::System(error)),
            Err(_) => Err(StartError::System(io::Error::other("the server's thread ended at once"))),
        }
    }
}

/// The address as client libraries read it: all of the password but letters and digits in `%XX`.
fn url(addr: SocketAddr, password: &[u8]) -> String {
    let mut url = "redis://".to_owned();
    if !password.is_empty() {
        url.push(':');
        for &byte in password {
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => url.push(char::from(byte)),
                _ => url.push_str(&format!("%{byte:02X}")),
            }
        }
        url.push('@');
    }
    url + &addr.to_string()
}

/// All that was found since the start; none where no book is kept.
fn last_findings(shared: &Shared) -> Option<Vec<Finding>> {
    let mut engine = shared.engine.borrow_mut();
    engine.core().begin_turn();
    engine.core().findings(true).ok()
}

/// Does what other threads ask for, until the handle is dropped.
async fn work(shared: Rc<Shared>, mut inbox: UnboundedReceiver<Job>) {
    while let Some(job) = inbox.recv().await {
        let mut engine = shared.engine.borrow_mut();
        engine.core().begin_turn();
        job(&mut engine);
        shared.after_turn(&mut *engine);
    }
}

/// What a server leaves when it has stopped.
#[derive(Debug)]
pub(crate) struct End {
    /// All findings of its life; none where no book was kept.
    pub findings: Option<Vec<Finding>>,
    pub report: Report,
}

/// A server inside this process. Dropping it stops it and waits for its thread.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    url: String,
    jobs: Option<UnboundedSender<Job>>,
    thread: Option<JoinHandle<End>>,
}

impl Server {
    /// What a server starts with.
    ///
    /// ```
    /// let server = keylatch::Server::builder().frozen_at(1_700_000_000_000).start()?;
    /// server.set("lock:order:1", "token", Some(30_000));
    /// assert_eq!(server.pttl("lock:order:1"), Some(30_000));
    /// server.clock().advance(30_000);
    /// assert_eq!(server.get("lock:order:1"), None);
    /// # Ok::<(), keylatch::StartError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A server with defaults on a free port.
    pub fn start() -> Result<Server, StartError> {
        Builder::default().start()
    }

    /// Where clients of this machine reach it: a server that is bound to every address, by the loopback
    /// interface. Port 0: it has no TCP address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `redis://ip:port`, for client libraries; with the password that it started with.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Stops it, if no client has done so. An error where its thread has panicked.
    pub(crate) fn end(mut self) -> std::thread::Result<End> {
        self.jobs = None;
        let nothing = End { findings: None, report: Report::Settled };
        self.thread.take().map_or(Ok(nothing), JoinHandle::join)
    }

    /// Waits until it has stopped of its own accord: a client sent SHUTDOWN.
    pub(crate) async fn stopped(&self) {
        if let Some(jobs) = &self.jobs {
            jobs.closed().await;
        }
    }

    /// Runs `job` on the server's thread, between two requests, and gives back its result. Panics
    /// if the server has stopped (a client sent SHUTDOWN).
    pub fn with<T: Send + 'static>(&self, job: impl FnOnce(&mut Engine) -> T + Send + 'static) -> T {
        let (answer, result) = sync_channel(1);
        let job: Job = Box::new(move |engine| drop(answer.send(job(engine))));
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        assert!(sent, "the embedded server has stopped");
        result.recv().expect("the server answers every job before it stops")
    }

    fn access<T: Send + 'static>(&self, look: impl FnOnce(&mut Access<'_>) -> T + Send + 'static) -> T {
        self.with(move |engine| {
            let core = engine.core();
            let now = core.now();
            let limits = Limits { max_bulk_len: core.config.proto_max_bulk_len, ..Limits::NONE };
            let (keyspace, chance) = (&mut core.keyspace, &mut core.chance);
            let result = look(&mut Access::new(keyspace, 0, now, chance, &mut core.effects, limits));
            core.settle();
            result
        })
    }

    /// The value of `key` in database 0.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let key = key.as_ref().to_vec();
        self.access(move |keys| {
            let slot = keys.find(&key);
            slot.is_some().then(|| keys.value(slot).to_vec())
        })
    }

    /// Stores `value` under `key` in database 0, with a deadline in `ttl_ms` milliseconds or none.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl_ms: Option<i64>) {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.access(move |keys| {
            let ttl = ttl_ms.map_or(Ttl::Clear, |ms| Ttl::At(UnixMs(keys.now().0.saturating_add(ms))));
            let slot = keys.find(&key);
            keys.put(slot, &key, &value, Encoding::Auto, ttl, Event::SET);
            if ttl != Ttl::Clear {
                keys.also(&key, Event::EXPIRE);
            }
        });
    }

    /// Milliseconds that `key` of database 0 has left; -1: it has no deadline. `None`: no such key.
    pub fn pttl(&self, key: impl AsRef<[u8]>) -> Option<i64> {
        let key = key.as_ref().to_vec();
        self.access(move |keys| {
            let slot = keys.find(&key);
            slot.is_some().then(|| keys.deadline(slot).map_or(-1, |deadline| deadline.since(keys.now())))
        })
    }

    /// The keys of database 0, in no particular order.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.access(|keys| {
            let (db, now) = (keys.db(), keys.now());
            let mut names = Vec::new();
            let mut cursor = 0;
            loop {
                cursor = db.scan(cursor, 1000, |slot| {
                    if db.deadline(slot).is_none_or(|deadline| deadline > now) {
                        names.push(db.key(slot).to_vec());
                    }
                });
                if cursor == 0 {
                    return names;
                }
            }
        })
    }

    /// The server's clock.
    pub fn clock(&self) -> ClockHandle<'_> {
        ClockHandle(self)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic on the server's thread has been printed there.
            let _ = thread.join();
        }
    }
}

/// Moves an embedded server's time.
#[derive(Clone, Copy, Debug)]
pub struct ClockHandle<'s>(&'s Server);

impl ClockHandle<'_> {
    /// The server's time, absolute milliseconds.
    pub fn now(&self) -> i64 {
        self.0.with(|engine| engine.core().now().0)
    }

    /// Makes the clock stand.
    pub fn freeze(&self) {
        self.0.with(|engine| engine.core().clock.freeze());
    }

    /// Lets it run on from where it stands.
    pub fn resume(&self) {
        self.0.with(|engine| engine.core().clock.resume());
    }

    /// Moves it by `ms`. What falls due on the way has happened when this returns: keys are gone,
    /// and their `expired` events sent in the order of their deadlines.
    pub fn advance(&self, ms: i64) {
        self.0.with(move |engine| engine.core().advance(ms));
    }

    /// Moves it to the absolute time `ms`; back as well, as a wall clock may jump.
    pub fn set(&self, ms: i64) {
        self.0.with(move |engine| engine.core().move_clock(UnixMs(ms)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_servers_start_and_stop_and_leave_nothing() {
        for _ in 0..20 {
            let servers: Vec<Server> = (0..10).map(|_| Server::start().expect("a server")).collect();
            servers[3].set("k", "v", None);
            assert_eq!(servers[3].get("k").as_deref(), Some(&b"v"[..]));
            assert_eq!(servers[4].get("k"), None);
            assert_eq!(servers[3].keys(), [b"k"]);
        }
    }

    #[test]
    fn time_moves_when_it_is_moved() {
        let server = Server::builder().frozen_at(1_000).start().expect("a server");
        server.set("a", "1", Some(50));
        assert_eq!(server.pttl("a"), Some(50));
        server.clock().advance(49);
        assert_eq!(server.pttl("a"), Some(1));
        server.clock().advance(1);
        assert_eq!((server.get("a"), server.clock().now()), (None, 1_050));
        server.clock().set(500);
        assert_eq!(server.clock().now(), 500);
    }
}
