//! MULTI, EXEC, DISCARD. Not here: queueing (`engine::core`) and the run of the queue (`engine`).

use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
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
        flags: AT_ONCE.or(Flags::SKIP_SLOWLOG),
        handler: Handler::Server(exec),
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

fn exec(ctx: &mut Context<'_>, _args: &Args<'_>, _reply: &mut dyn Reply) -> Answer {
    let session = ctx.core.clients.get_mut(ctx.client);
    match &session.queue {
        None => Err(CommandError::fixed("ERR EXEC without MULTI")),
        Some(queue) if queue.failed => {
            session.queue = None;
            Err(CommandError::ExecAbort)
        }
        Some(_) => Ok(Outcome::Exec),
    }
}

fn discard(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if ctx.core.clients.get_mut(ctx.client).queue.take().is_none() {
        return Err(CommandError::fixed("ERR DISCARD without MULTI"));
    }
    reply.ok();
    Ok(Outcome::Done)
}
