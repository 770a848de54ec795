//! Every reason to refuse a command before it runs, in Redis's order, as one pure function.
//! Not here: what a handler refuses, and how a refusal is said (`mod`).

use super::blocking::{self, Pause};
use super::spec::{Arity, Flags};
use super::table::Command;
use crate::base::error::CommandError;

/// Who is running past its time, and so what the others are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    No,
    Script,
    Function,
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub authenticated: bool,
    /// Inside MULTI.
    pub queueing: bool,
    /// The flags of all that would be run along: what MULTI has queued, for EXEC.
    pub queued: Flags,
    /// A RESP2 client with subscriptions.
    pub subscriber: bool,
    pub busy: Busy,
    /// Memory is above `maxmemory`.
    pub out_of_memory: bool,
    /// What few servers have; `None`: none of it.
    pub rare: Option<Rare>,
    /// Whether enable-debug-command, or enable-test-commands, lets this client.
    pub guarded_allowed: bool,
}

/// Facts that matter only where something out of the ordinary is in force.
#[derive(Clone, Copy, Debug)]
pub struct Rare {
    /// In a cluster, the keys belong to several slots.
    pub crosses_slots: bool,
    /// Shown every command, and so taken for a kind of replica.
    pub monitor: bool,
    /// CLIENT PAUSE is in force.
    pub pause: Option<Pause>,
}

/// What becomes of a command that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It runs.
    Run,
    /// It waits for EXEC.
    Queue,
    /// It is taken up again after the pause.
    Postpone,
}

/// Refuses or admits `command`, whose arity fits. Order: `processCommand` of Redis 7.0.15.
#[inline]
pub fn admit(facts: &Facts, command: &Command) -> Result<Admission, CommandError> {
    let flags = command.spec.flags;
    if flags.has(Flags::PROTECTED) && !facts.guarded_allowed {
        return Err(guarded("DEBUG", "enable-debug-command"));
    }
    if flags.has(Flags::MODULES) && !facts.guarded_allowed {
        return Err(guarded("MODULE", "enable-module-command"));
    }
    if flags.has(Flags::TEST) && !facts.guarded_allowed {
        return Err(guarded("KEYLATCH", "enable-test-commands"));
    }
    if !facts.authenticated && !flags.has(Flags::NO_AUTH) {
        return Err(CommandError::NoAuth);
    }
    if facts.rare.is_some_and(|rare| rare.crosses_slots) {
        return Err(CommandError::CrossSlot);
    }
    let all = flags | facts.queued;
    if facts.out_of_memory && all.has(Flags::DENYOOM) {
        return Err(CommandError::OutOfMemory);
    }
    if facts.subscriber && !flags.has(Flags::IN_SUBSCRIBE) {
        return Err(CommandError::Line(
            format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                command.full_name
            )
            .into(),
        ));
    }
    if facts.busy != Busy::No && !flags.has(Flags::ALLOW_BUSY) {
        return Err(match facts.busy {
            Busy::Function => CommandError::BusyFunction,
            _ => CommandError::Busy,
        });
    }
    if let Some(rare) = &facts.rare {
        if rare.monitor && (all.has(Flags::READONLY) || blocking::may_write(all)) {
            return Err(CommandError::fixed("ERR Replica can't interact with the keyspace"));
        }
        if rare.pause.is_some_and(|pause| pause.holds(all)) {
            return Ok(Admission::Postpone);
        }
    }
    if facts.queueing && !flags.has(Flags::NOT_QUEUED) {
        if flags.has(Flags::NO_MULTI) {
            return Err(CommandError::fixed("ERR Command not allowed inside a transaction"));
        }
        return Ok(Admission::Queue);
    }
    Ok(Admission::Run)
}

#[cold]
fn guarded(name: &str, parameter: &str) -> CommandError {
    CommandError::Line(
        format!(
            "ERR {name} command not allowed. If the {parameter} option is set to \"local\", you can run it from \
             a local connection, otherwise you need to set this option in the configuration file, and then \
             restart the server."
        )
        .into(),
    )
}

/// A command that a script asks for: the texts differ from a client's.
pub fn admit_from_script(
    command: &Command,
    args: usize,
    read_only: bool,
    out_of_memory: bool,
) -> Result<(), CommandError> {
    let fits = match command.spec.arity {
        Arity::Exactly(n) => args == n,
        Arity::AtLeast(n) => args >= n,
    };
    let bare = args == 1 && !command.children.is_empty() && !command.has(Flags::FAST);
    if !fits || (bare && matches!(command.spec.handler, super::spec::Handler::Container)) {
        return Err(CommandError::fixed("ERR Wrong number of args calling Redis command from script"));
    }
    if command.has(Flags::NOSCRIPT) {
        return Err(CommandError::fixed("ERR This Redis command is not allowed from script"));
    }
    if read_only && (command.has(Flags::WRITE) || command.has(Flags::MAY_REPLICATE)) {
        return Err(CommandError::fixed("ERR Write commands are not allowed from read-only scripts."));
    }
    if out_of_memory && command.has(Flags::DENYOOM) {
        return Err(CommandError::OutOfMemory);
    }
    Ok(())
}
