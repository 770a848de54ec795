//! KEYLATCH LOCKS, HISTORY, FINDINGS, GUARD and REPORT: the entries and the replies. Not here: what
//! is known and how (`engine::locks`), the container (`keylatch`).

use super::keylatch::SUB;
use crate::base::error::CommandError;
use crate::base::process::os_reason;
use crate::engine::locks::guard::Guard;
use crate::engine::locks::report::page;
use crate::engine::locks::view::{Finding, HeldLock, LockEvent, Who};
use crate::engine::spec::{Arity, Context, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

type Answer = Result<Outcome, CommandError>;

/// KEYLATCH LOCKS.
pub const LOCKS: Spec = Spec {
    name: "locks",
    summary: "Lists the locks that are held: holder, token, since when, until when, renewals, refusals.",
    complexity: "O(N log N) in the number of locks",
    synopsis: "[MATCH pattern]",
    arity: Arity::AtLeast(2),
    handler: Handler::Server(locks),
    ..SUB
};

/// KEYLATCH HISTORY.
pub const HISTORY: Spec = Spec {
    name: "history",
    summary: "Tells what happened to a lock, the oldest first; with COUNT the latest so many.",
    complexity: "O(N) in the number of events that are kept",
    synopsis: "key [COUNT count]",
    arity: Arity::AtLeast(3),
    handler: Handler::Server(history),
    ..SUB
};

/// KEYLATCH FINDINGS.
pub const FINDINGS: Spec = Spec {
    name: "findings",
    summary: "Lists the mistakes that were seen, with what shows them and what to do instead; RESET forgets them.",
    complexity: "O(N) in the number of findings",
    synopsis: "[RESET]",
    arity: Arity::AtLeast(2),
    handler: Handler::Server(findings),
    ..SUB
};

/// KEYLATCH GUARD.
pub const GUARD: Spec = Spec {
    name: "guard",
    summary: "Says which keys are written under which locks, for the finding expired-owner-write.",
    synopsis: "lock-pattern data-pattern",
    arity: Arity::Exactly(4),
    handler: Handler::Server(guard),
    ..SUB
};

/// KEYLATCH REPORT.
pub const REPORT: Spec = Spec {
    name: "report",
    summary: "Gives locks, events and findings as JSON, or writes them to a file on the server's machine (.html: as a page).",
    complexity: "O(N) in the number of events that are kept",
    synopsis: "[FILE path]",
    arity: Arity::AtLeast(2),
    handler: Handler::Server(report),
    ..SUB
};

fn locks(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let pattern: &[u8] = match args.len() {
        2 => b"*",
        4 if args.is(2, "match") => args.get(3),
        _ => return Err(CommandError::Syntax),
    };
    let held = ctx.core.open_book()?.held(pattern);
    reply.array(held.len());
    held.iter().for_each(|lock| say_lock(lock, reply));
    Ok(Outcome::Done)
}

fn history(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let count = match args.len() {
        3 => usize::MAX,
        5 if args.is(3, "count") => match usize::try_from(args.int(4)?) {
            Ok(count) if count > 0 => count,
            _ => return Err(CommandError::OutOfRange),
        },
        _ => return Err(CommandError::Syntax),
    };
    let db = ctx.core.clients.get(ctx.client).db;
    let events = ctx.core.open_book()?.events(Some((db, args.get(2))));
    let latest = &events[events.len().saturating_sub(count)..];
    reply.array(latest.len());
    latest.iter().for_each(|event| say_event(event, reply));
    Ok(Outcome::Done)
}

fn findings(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let forget = match args.len() {
        2 => false,
        3 if args.is(2, "reset") => true,
        _ => return Err(CommandError::Syntax),
    };
    let found = ctx.core.findings(false)?;
    reply.array(found.len());
    found.iter().for_each(|finding| say_finding(finding, reply));
    if forget {
        ctx.core.open_book()?.drop_findings();
    }
    Ok(Outcome::Done)
}

fn guard(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let book = ctx.core.open_book()?;
    if !book.add_guard(Guard { lock: args.get(2).to_vec(), data: args.get(3).to_vec() }) {
        return Err(CommandError::fixed("ERR There are too many guards; KEYLATCH RESET drops them"));
    }
    reply.ok();
    Ok(Outcome::Done)
}

fn report(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let path = match args.len() {
        2 => None,
        4 if args.is(2, "file") => Some(Path::new(OsStr::from_bytes(args.get(3)))),
        _ => return Err(CommandError::Syntax),
    };
    let report = ctx.core.lock_report(false)?;
    let Some(path) = path else {
        reply.text(&report.to_string());
        return Ok(Outcome::Done);
    };
    let is_page = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
    let text = if is_page { page(&report) } else { format!("{report:#}\n") };
    std::fs::write(path, text).map_err(|error| {
        CommandError::Bytes(
            format!("ERR The report could not be written: {}", os_reason(&error)).into_bytes(),
        )
    })?;
    reply.ok();
    Ok(Outcome::Done)
}

fn say_who(who: &Who, reply: &mut dyn Reply) {
    reply.text("client-id");
    reply.integer(who.id.cast_signed());
    reply.text("client-name");
    reply.bulk(&who.name);
    reply.text("client-addr");
    reply.text(&who.addr);
}

fn say_deadline(deadline: Option<i64>, reply: &mut dyn Reply) {
    reply.text("deadline");
    match deadline {
        Some(at) => reply.integer(at),
        None => reply.null(),
    }
}

fn say_lock(lock: &HeldLock, reply: &mut dyn Reply) {
    reply.map(10);
    reply.text("key");
    reply.bulk(&lock.key);
    reply.text("db");
    reply.integer(lock.db as i64);
    reply.text("token");
    reply.bulk(&lock.token);
    say_who(&lock.holder, reply);
    reply.text("since");
    reply.integer(lock.since);
    say_deadline(lock.deadline, reply);
    reply.text("renewals");
    reply.integer(lock.renewals.cast_signed());
    reply.text("refused");
    reply.integer(lock.refused.cast_signed());
}

fn say_event(event: &LockEvent, reply: &mut dyn Reply) {
    reply.map(8);
    reply.text("event");
    reply.text(event.what.name());
    reply.text("at");
    reply.integer(event.at);
    say_who(&event.client, reply);
    reply.text("token");
    reply.bulk(&event.token);
    say_deadline(event.deadline, reply);
    reply.text("command");
    reply.text(&event.command);
}

fn say_finding(finding: &Finding, reply: &mut dyn Reply) {
    reply.map(11);
    reply.text("finding");
    reply.text(finding.mistake.name());
    reply.text("key");
    reply.bulk(&finding.key);
    reply.text("db");
    reply.integer(finding.db as i64);
    say_who(&finding.client, reply);
    reply.text("at");
    reply.integer(finding.at);
    reply.text("times");
    reply.integer(finding.times.cast_signed());
    reply.text("detail");
    reply.text(&finding.detail);
    reply.text("commands");
    reply.array(finding.commands.len());
    finding.commands.iter().for_each(|command| reply.text(command));
    reply.text("instead");
    reply.text(finding.mistake.instead());
}
