//! A connection's own commands: PING, ECHO, SELECT, HELLO, AUTH, QUIT, RESET. Not here: CLIENT
//! (`client`).

use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Protocol, Reply};

type Answer = Result<Outcome, CommandError>;

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "ping",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Says PONG, or the message it was given.",
        synopsis: "[message]",
        arity: Arity::AtLeast(1),
        flags: Flags::FAST.or(Flags::IN_SUBSCRIBE),
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        handler: Handler::Server(ping),
        ..Spec::NONE
    },
    Spec {
        name: "echo",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Says back the message it was given.",
        synopsis: "message",
        arity: Arity::Exactly(2),
        flags: Flags::FAST,
        handler: Handler::Keys(|_, args, reply| {
            reply.bulk(args.get(1));
            Ok(())
        }),
        ..Spec::NONE
    },
    Spec {
        name: "select",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Chooses the database that the connection works on.",
        synopsis: "index",
        arity: Arity::Exactly(2),
        flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
        handler: Handler::Server(select),
        ..Spec::NONE
    },
];

fn ping(_ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if args.len() > 2 {
        return Err(CommandError::WrongArity("ping".into()));
    }
    match args.try_get(1) {
        Some(message) => reply.bulk(message),
        None => reply.simple(b"PONG"),
    }
    Ok(Outcome::Done)
}

fn select(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let index = number::parse_i64(args.get(1)).ok_or(CommandError::InvalidDbIndex)?;
    let index = usize::try_from(index).ok().filter(|&index| index < ctx.core.keyspace.count());
    ctx.core.clients.get_mut(ctx.client).db = index.ok_or(CommandError::DbIndexOutOfRange)?;
    reply.ok();
    let _ = Protocol::Resp2;
    Ok(Outcome::Done)
}
