//! CLIENT PAUSE, UNPAUSE and UNBLOCK. Not here: who waits how long (`engine::blocking`), the entries
//! (`client`).

use super::{help, options};
use crate::base::error::CommandError;
use crate::engine::blocking::Release;
use crate::engine::spec::{Context, Outcome};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

pub(super) fn pause(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let all = match args.rest(3) {
        [] => true,
        [mode] if mode.eq_ignore_ascii_case(b"write") => false,
        [mode] if mode.eq_ignore_ascii_case(b"all") => true,
        [_] => return Err(CommandError::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(help::wrong(args)),
    };
    let until = options::timeout_ms(args, 2, ctx.now)?;
    ctx.core.pause(until, all);
    reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn unpause(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.unpause();
    reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn unblock(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let how = match args.rest(3) {
        [] => Release::Timeout,
        [how] if how.eq_ignore_ascii_case(b"timeout") => Release::Timeout,
        [how] if how.eq_ignore_ascii_case(b"error") => Release::Error,
        [_] => return Err(CommandError::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(help::wrong(args)),
    };
    let id = args.int(2)?;
    let client = u64::try_from(id).ok().and_then(|id| ctx.core.clients.find(id));
    let released = client.is_some_and(|client| ctx.core.release(client, how));
    reply.integer(i64::from(released));
    Ok(Outcome::Done)
}
