//! Room `engine`: who may do what, and what follows. It is given the table of commands; it names
//! none of them. `Engine` is the core and the script host; `execute` is the only way in.

pub mod admit;
pub mod blocking;
pub mod clients;
pub mod cluster;
pub mod core;
pub mod faults;
pub mod figures;
pub mod keys;
pub mod latency;
pub mod locks;
pub mod monitor;
pub mod outbox;
pub mod pubsub;
pub mod reconfigure;
pub mod reset;
pub mod scripting;
pub mod session;
pub mod settle;
pub mod slowlog;
pub mod spec;
pub mod stats;
pub mod striking;
pub mod synopsis;
pub mod table;
pub mod tick;
pub mod time;
pub mod tracking;
pub mod watch;

use self::core::{Core, Origin, Taken};
use self::session::{Closing, ReplyMode};
use self::spec::Outcome;
use self::striking::Inside;
use self::table::Command;
use crate::base::error::CommandError;
use crate::resp::{Args, Reply};
use crate::script::ScriptError;
use smallvec::SmallVec;

/// What the connection does after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Next request.
    Next,
    /// The client waits: no further request until it is woken.
    Wait,
    /// The same, and this request is to be made again then: it has not run.
    Retry,
    /// What is owed is written, then the connection ends.
    Close,
}

/// Takes requests. The engine itself, or the core alone while a script holds it.
pub trait Door {
    /// The core, to look at clients.
    fn core(&mut self) -> &mut Core;
    /// Runs one request of `client`'s; its reply goes to the end of `out`.
    fn execute(&mut self, client: usize, args: &Args<'_>, out: &mut Vec<u8>) -> Flow;
}

/// The core and the script host.
pub struct Engine {
    core: Box<Core>,
    host: scripting::ScriptHost,
}

impl Engine {
    /// An engine around `core`.
    pub fn new(core: Core) -> Self {
        Engine { core: Box::new(core), host: scripting::ScriptHost::default() }
    }

    /// Runs one admitted command, whatever its kind, and settles what it did.
    fn run(
        &mut self,
        client: usize,
        command: &'static Command,
        args: &Args<'_>,
        origin: Origin,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let core = self.core();
        // Inside a transaction the moment stands still: its length is the EXEC's.
        let began = if origin == Origin::Client { 0 } else { core.turn.since_lap() };
        core.feed_first(client, command, args, origin);
        let mut writer = core.writer(client, out);
        let asked = core.handle(client, command, args, origin, &mut writer);
        let answered: Result<Outcome, ScriptError> = match asked {
            Ok(Outcome::Script(request)) => {
                self.host.run(&mut self.core, client, request, args, &mut writer).map(|()| Outcome::Done)
            }
            Ok(Outcome::Exec) => {
                self.run_queue(client, out);
                Ok(Outcome::Done)
            }
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(error.into()),
        };
        let core = self.core();
        // KEYLATCH CLOCK and RESET begin a new turn in the midst of a transaction.
        let micros = match origin {
            Origin::Client => core.turn.lap(),
            _ => core.turn.since_lap().saturating_sub(began),
        };
        match answered {
            Ok(outcome) => {
                core.finish(client, command, args, origin, None, micros);
                outcome
            }
            Err(ScriptError { error, counted }) => {
                core.writer(client, out).error(&error);
                core.finish(client, command, args, origin, Some((&error, counted)), micros);
                Outcome::Done
            }
        }
    }

    /// Runs what `client` has queued, as one moment.
    fn run_queue(&mut self, client: usize, out: &mut Vec<u8>) {
        let core = self.core();
        let Some(queue) = core.clients.get_mut(client).queue.take() else { return };
        core.writer(client, out).array(queue.commands.len());
        for queued in &queue.commands {
            let command = self.core().table.get(queued.command);
            let parts: SmallVec<[&[u8]; 8]> = queued.args.iter().map(|arg| &arg[..]).collect();
            let args = Args::new(&parts);
            let at = out.len();
            let core = self.core();
            let fault =
                if core.is_special() { core.strike_inside(client, command, &args) } else { Inside::Unharmed };
            if let Inside::Instead(error) = fault {
                core.writer(client, out).error(&error);
                continue;
            }
            if let Outcome::Close = self.run(client, command, &args, Origin::Transaction, out) {
                self.core().clients.get_mut(client).closing = Closing::AfterReply;
            }
            if let Inside::Afterwards(error) = fault {
                out.truncate(at);
                self.core().writer(client, out).error(&error);
            }
        }
    }
}

impl Door for Engine {
    #[inline]
    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn execute(&mut self, client: usize, args: &Args<'_>, out: &mut Vec<u8>) -> Flow {
        let start = out.len();
        let core = self.core();
        let before = begin_request(core, client);
        let command = match core.take_request(client, args, out) {
            Taken::Run(command) => command,
            Taken::Answered => return end(core, client, before, out, start),
            Taken::Postponed => return postpone(core, before, out),
            Taken::Waits => return wait(core, before, out),
        };
        match self.run(client, command, args, Origin::Client, out) {
            Outcome::Block => {
                let core = self.core();
                core.leave_unharmed(client);
                wait(core, before, out)
            }
            outcome => {
                let core = self.core();
                if outcome == Outcome::Close {
                    core.close_after_reply(client);
                }
                end(core, client, before, out, start)
            }
        }
    }
}

/// While a script holds the engine, the core admits what the table allows then.
impl Door for Core {
    fn core(&mut self) -> &mut Core {
        self
    }

    fn execute(&mut self, client: usize, args: &Args<'_>, out: &mut Vec<u8>) -> Flow {
        let start = out.len();
        let before = begin_request(self, client);
        let command = match self.take_request(client, args, out) {
            Taken::Run(command) => command,
            Taken::Answered => return end(self, client, before, out, start),
            Taken::Postponed => return postpone(self, before, out),
            Taken::Waits => return wait(self, before, out),
        };
        let mut writer = self.writer(client, out);
        let answered = match self.handle(client, command, args, Origin::Client, &mut writer) {
            // Nothing that the table allows while busy asks for a script or a transaction.
            Ok(Outcome::Script(_) | Outcome::Exec | Outcome::Block) => Err(CommandError::Busy),
            other => other,
        };
        if let Err(error) = &answered {
            self.writer(client, out).error(error);
        }
        let failed = answered.as_ref().err().map(|error| (error, false));
        self.finish(client, command, args, Origin::Client, failed, 0);
        if answered == Ok(Outcome::Close) {
            self.close_after_reply(client);
        }
        end(self, client, before, out, start)
    }
}

#[inline]
fn begin_request(core: &mut Core, client: usize) -> Option<usize> {
    let now = core.now();
    let session = core.clients.get_mut(client);
    session.active_at = now;
    session.commands += 1;
    if session.reply_mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::Skip;
    }
    core.clients.begin(client)
}

/// The request waits for the end of a pause.
#[cold]
fn postpone(core: &mut Core, before: Option<usize>, out: &mut Vec<u8>) -> Flow {
    core.clients.end(before, out);
    Flow::Retry
}

/// The reply comes later, or never.
#[cold]
fn wait(core: &mut Core, before: Option<usize>, out: &mut Vec<u8>) -> Flow {
    core.clients.end(before, out);
    Flow::Wait
}

#[inline]
fn end(core: &mut Core, client: usize, before: Option<usize>, out: &mut Vec<u8>, start: usize) -> Flow {
    core.end_request(client, before, out, start);
    if core.is_special() && core.strike_after(client, out, start) {
        return Flow::Wait;
    }
    match core.clients.get(client).closing {
        Closing::No => Flow::Next,
        Closing::AfterReply | Closing::Now => Flow::Close,
    }
}
