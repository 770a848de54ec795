//! CLIENT: a connection's name, number and library, and whether it is answered. Not here: the list of
//! clients and who is killed (`client_list`), HELLO and RESET (`connection`).

use super::{client_list, client_wait, connection, help, tracking};
use crate::base::error::CommandError;
use crate::engine::session::ReplyMode;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const USUAL: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::KEEPS_CACHING);

const SUB: Spec = Spec { group: Group::Connection, flags: USUAL, arity: Arity::Exactly(2), ..Spec::NONE };

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "client",
    group: Group::Connection,
    since: "2.4.0",
    complexity: "Depends on subcommand.",
    summary: "Holds the commands about connections.",
    arity: Arity::AtLeast(2),
    subcommands: &[
        Spec {
            name: "caching",
            since: "6.0.0",
            summary: "Says whether what the next command reads is tracked.",
            synopsis: "<YES | NO>",
            arity: Arity::Exactly(3),
            handler: Handler::Server(tracking::caching),
            ..SUB
        },
        Spec {
            name: "getname",
            since: "2.6.9",
            summary: "Tells this connection's name.",
            handler: Handler::Server(getname),
            ..SUB
        },
        Spec {
            name: "getredir",
            since: "6.0.0",
            summary: "Tells which client hears of changed keys in this one's place; 0: none, -1: it tracks none.",
            handler: Handler::Server(tracking::getredir),
            ..SUB
        },
        Spec {
            name: "id",
            since: "5.0.0",
            summary: "Tells this connection's number.",
            handler: Handler::Server(id),
            ..SUB
        },
        Spec {
            name: "info",
            since: "6.2.0",
            summary: "Tells all about this connection.",
            tips: &["nondeterministic_output"],
            handler: Handler::Server(client_list::info),
            ..SUB
        },
        Spec {
            name: "kill",
            since: "2.4.0",
            complexity: "O(N) where N is the number of client connections",
            summary: "Ends connections.",
            synopsis: "<ip:port | <[ID client-id] | [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] | \
                       [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | \
                       [MAXAGE seconds]> ...>",
            arity: Arity::AtLeast(3),
            flags: USUAL.or(Flags::ADMIN),
            handler: Handler::Server(client_list::kill),
            ..SUB
        },
        Spec {
            name: "list",
            since: "2.4.0",
            complexity: "O(N) where N is the number of client connections",
            summary: "Lists the connections.",
            synopsis: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
            arity: Arity::AtLeast(2),
            flags: USUAL.or(Flags::ADMIN),
            tips: &["nondeterministic_output"],
            handler: Handler::Server(client_list::list),
            ..SUB
        },
        Spec {
            name: "no-evict",
            since: "7.0.0",
            summary: "Spares this connection where connections are evicted.",
            synopsis: "<ON | OFF>",
            arity: Arity::Exactly(3),
            flags: USUAL.or(Flags::ADMIN),
            handler: Handler::Server(no_evict),
            ..SUB
        },
        Spec {
            name: "no-touch",
            since: "7.2.0",
            summary: "Says whether this connection's reads leave keys' access times alone.",
            synopsis: "<ON | OFF>",
            arity: Arity::Exactly(3),
            handler: Handler::Server(no_touch),
            ..SUB
        },
        Spec {
            name: "pause",
            since: "2.9.50",
            summary: "Has all clients wait for so many milliseconds, or those that write.",
            synopsis: "timeout [WRITE | ALL]",
            arity: Arity::AtLeast(3),
            flags: USUAL.or(Flags::ADMIN),
            history: &[("6.2.0", "`WRITE` and `ALL`.")],
            handler: Handler::Server(client_wait::pause),
            ..SUB
        },
        Spec {
            name: "reply",
            since: "3.2.0",
            summary: "Says whether this connection's commands are answered.",
            synopsis: "<ON | OFF | SKIP>",
            arity: Arity::Exactly(3),
            handler: Handler::Server(reply_mode),
            ..SUB
        },
        Spec {
            name: "setinfo",
            since: "7.2.0",
            summary: "Notes the name or the version of the client's library.",
            synopsis: "<LIB-NAME libname | LIB-VER libver>",
            arity: Arity::Exactly(4),
            handler: Handler::Server(setinfo),
            ..SUB
        },
        Spec {
            name: "setname",
            since: "2.6.9",
            summary: "Names this connection.",
            synopsis: "connection-name",
            arity: Arity::Exactly(3),
            handler: Handler::Server(setname),
            ..SUB
        },
        Spec {
            name: "tracking",
            since: "6.0.0",
            complexity: "O(1). Some options may introduce additional complexity.",
            summary: "Has this connection told of changes to the keys that it has read.",
            synopsis: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] \
                       [NOLOOP]",
            arity: Arity::AtLeast(3),
            handler: Handler::Server(tracking::tracking),
            ..SUB
        },
        Spec {
            name: "trackinginfo",
            since: "6.2.0",
            summary: "Tells how this connection tracks keys.",
            handler: Handler::Server(tracking::trackinginfo),
            ..SUB
        },
        Spec {
            name: "unblock",
            since: "5.0.0",
            complexity: "O(log N) where N is the number of client connections",
            summary: "Ends a client's wait, as if its time were over or with an error.",
            synopsis: "client-id [TIMEOUT | ERROR]",
            arity: Arity::AtLeast(3),
            flags: USUAL.or(Flags::ADMIN),
            handler: Handler::Server(client_wait::unblock),
            ..SUB
        },
        Spec {
            name: "unpause",
            since: "6.2.0",
            complexity: "O(N) Where N is the number of paused clients",
            summary: "Ends CLIENT PAUSE.",
            flags: USUAL.or(Flags::ADMIN),
            handler: Handler::Server(client_wait::unpause),
            ..SUB
        },
        help::entry(Group::Connection, "5.0.0"),
    ],
    ..Spec::NONE
}];

fn getname(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let name = &ctx.core.clients.get(ctx.client).name;
    reply.bulk_or_null((!name.is_empty()).then_some(&name[..]));
    Ok(Outcome::Done)
}

fn setname(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    connection::check_name(args.get(2))?;
    ctx.core.clients.get_mut(ctx.client).name = args.get(2).to_vec();
    reply.ok();
    Ok(Outcome::Done)
}

fn no_evict(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.clients.get_mut(ctx.client).no_evict = client_list::on_or_off(args)?;
    reply.ok();
    Ok(Outcome::Done)
}

fn no_touch(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.clients.get_mut(ctx.client).no_touch = client_list::on_or_off(args)?;
    reply.ok();
    Ok(Outcome::Done)
}

fn id(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    reply.integer(ctx.core.clients.get(ctx.client).id as i64);
    Ok(Outcome::Done)
}

fn setinfo(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let (option, value) = (args.get(2), args.get(3));
    let is_name = option.eq_ignore_ascii_case(b"lib-name");
    if !is_name && !option.eq_ignore_ascii_case(b"lib-ver") {
        let line = [&b"ERR Unrecognized option '"[..], option, b"'"].concat();
        return Err(CommandError::Bytes(line));
    }
    if !value.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        let line =
            [&b"ERR "[..], option, b" cannot contain spaces, newlines or special characters."].concat();
        return Err(CommandError::Bytes(line));
    }
    let session = ctx.core.clients.get_mut(ctx.client);
    *(if is_name { &mut session.lib_name } else { &mut session.lib_ver }) = value.to_vec();
    reply.ok();
    Ok(Outcome::Done)
}

fn reply_mode(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let session = ctx.core.clients.get_mut(ctx.client);
    if args.is(2, "on") {
        session.reply_mode = ReplyMode::On;
        reply.ok();
    } else if args.is(2, "off") {
        session.reply_mode = ReplyMode::Off;
    } else if args.is(2, "skip") {
        // Where nothing is answered, there is nothing to skip.
        if session.reply_mode != ReplyMode::Off {
            session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(Outcome::Done)
}
