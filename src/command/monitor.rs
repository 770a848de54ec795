//! MONITOR. Not here: what is shown (`engine::monitor`).

use crate::base::error::CommandError;
use crate::engine::core::Origin;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "monitor",
    group: Group::Server,
    since: "1.0.0",
    complexity: "",
    summary: "Shows every command as the server runs it.",
    arity: Arity::Exactly(1),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    handler: Handler::Server(monitor),
    ..Spec::NONE
}];

fn monitor(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Result<Outcome, CommandError> {
    if ctx.origin == Origin::Transaction {
        return Err(CommandError::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    // One that is shown everything already is not answered, as in Redis.
    if !ctx.core.clients.get(ctx.client).monitor {
        ctx.core.add_monitor(ctx.client);
        reply.ok();
    }
    Ok(Outcome::Done)
}
