//! MULTI, EXEC, DISCARD, WATCH, UNWATCH. Not here: queueing (`engine::core`) and the run of the queue (`engine`).

use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, KeySpec, Outcome, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const AT_ONCE: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::NOT_QUEUED);

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "multi",
        group: Group::Transactions,
        since: "1.2.0",
        summary: "Begins a transaction: what follows is queued.",
        arity: Arity::Exactly(1),
        flags: AT_ONCE.or(Flags::FAST).or(Flags::ALLOW_BUSY),
        handler: Handler::Server(multi),
        ..Spec::NONE
    },
    Spec {
        name: "exec",
        group: Group::Transactions,
        since: "1.2.0",
        complexity: "Depends on the commands in the transaction",
        summary: "Runs all that has been queued, as one moment.",
        arity: Arity::Exactly(1),
        flags: AT_ONCE.or(Flags::SKIP_SLOWLOG).or(Flags::RUNS_QUEUE),
        handler: Handler::Server(exec),
        ..Spec::NONE
    },
    Spec {
        name: "watch",
        group: Group::Transactions,
        since: "2.2.0",
        complexity: "O(1) for every key.",
        summary: "Has the next transaction run only if these keys do not change until then.",
        synopsis: "key [key ...]",
        arity: Arity::AtLeast(2),
        flags: AT_ONCE.or(Flags::FAST).or(Flags::ALLOW_BUSY),
        keys: &[KeySpec::range(1, -1, 1, &["RO"])],
        handler: Handler::Server(watch),
        ..Spec::NONE
    },
    Spec {
        name: "unwatch",
        group: Group::Transactions,
        since: "2.2.0",
        summary: "Has the next transaction depend on no key.",
        arity: Arity::Exactly(1),
        flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST).or(Flags::ALLOW_BUSY),
        handler: Handler::Server(unwatch),
        ..Spec::NONE
    },
    Spec {
        name: "discard",
        group: Group::Transactions,
        since: "2.0.0",
        complexity: "O(N), where N is the number of queued commands",
        summary: "Ends a transaction without running it.",
        arity: Arity::Exactly(1),
        flags: AT_ONCE.or(Flags::FAST).or(Flags::ALLOW_BUSY),
        handler: Handler::Server(discard),
        ..Spec::NONE
    },
];

fn multi(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if ctx.core.clients.get(ctx.client).queue.is_some() {
        return Err(CommandError::fixed("ERR MULTI calls can not be nested"));
    }
    ctx.core.begin_queue(ctx.client);
    reply.ok();
    Ok(Outcome::Done)
}

fn exec(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let core = &mut *ctx.core;
    let Some(queue) = &core.clients.get(ctx.client).queue else {
        return Err(CommandError::fixed("ERR EXEC without MULTI"));
    };
    let (failed, broken) = (queue.failed, core.watch_is_broken(ctx.client));
    core.unwatch(ctx.client);
    if !failed && !broken {
        return Ok(Outcome::Exec);
    }
    core.clients.get_mut(ctx.client).queue = None;
    if failed {
        return Err(CommandError::ExecAbort);
    }
    reply.null_array();
    Ok(Outcome::Done)
}

fn discard(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if ctx.core.clients.get_mut(ctx.client).queue.take().is_none() {
        return Err(CommandError::fixed("ERR DISCARD without MULTI"));
    }
    ctx.core.unwatch(ctx.client);
    reply.ok();
    Ok(Outcome::Done)
}

fn watch(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if ctx.core.clients.get(ctx.client).queue.is_some() {
        return Err(CommandError::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    args.rest(1).iter().for_each(|key| ctx.core.watch(ctx.client, key));
    reply.ok();
    Ok(Outcome::Done)
}

fn unwatch(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.unwatch(ctx.client);
    reply.ok();
    Ok(Outcome::Done)
}
