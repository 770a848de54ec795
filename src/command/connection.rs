//! A connection's own commands: PING, ECHO, SELECT, HELLO, AUTH, QUIT, RESET. Not here: CLIENT
//! (`client`).

use super::options;
use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::session::ReplyMode;
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
        flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
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
    Spec {
        name: "hello",
        group: Group::Connection,
        since: "6.0.0",
        summary: "Tells about the server; chooses the protocol, and may log in and name the connection.",
        synopsis: "[protover [AUTH username password] [SETNAME clientname]]",
        arity: Arity::AtLeast(1),
        flags: GREETING,
        history: &[("6.2.0", "`protover` may be left out: the protocol stays as it is.")],
        secret: Some(is_hello_secret),
        handler: Handler::Server(hello),
        ..Spec::NONE
    },
    Spec {
        name: "auth",
        group: Group::Connection,
        since: "1.0.0",
        complexity: "O(N) where N is the number of passwords defined for the user",
        summary: "Logs the connection in.",
        synopsis: "[username] password",
        arity: Arity::AtLeast(2),
        flags: GREETING,
        history: &[("6.0.0", "Takes a user's name as well.")],
        secret: Some(|_, i| i > 0),
        handler: Handler::Server(auth),
        ..Spec::NONE
    },
    Spec {
        name: "quit",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Ends the connection once its replies are written.",
        arity: Arity::AtLeast(1),
        flags: GREETING.or(Flags::IN_SUBSCRIBE).or(Flags::NOT_QUEUED),
        deprecated: ("7.2.0", "closing the connection"),
        handler: Handler::Server(|_, _, reply| {
            reply.ok();
            Ok(Outcome::Close)
        }),
        ..Spec::NONE
    },
    Spec {
        name: "reset",
        group: Group::Connection,
        since: "6.2.0",
        summary: "Puts the connection back to how it was when it had just been made.",
        arity: Arity::Exactly(1),
        flags: GREETING.or(Flags::IN_SUBSCRIBE).or(Flags::NOT_QUEUED),
        handler: Handler::Server(reset),
        ..Spec::NONE
    },
];

const GREETING: Flags = Flags::NOSCRIPT
    .or(Flags::LOADING)
    .or(Flags::STALE)
    .or(Flags::FAST)
    .or(Flags::NO_AUTH)
    .or(Flags::ALLOW_BUSY);

fn ping(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if args.len() > 2 {
        return Err(CommandError::WrongArity("ping".into()));
    }
    let session = ctx.core.clients.get(ctx.client);
    if session.subscriptions > 0 && session.protocol == Protocol::Resp2 {
        // A RESP2 subscriber must be able to tell this from a message.
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(args.try_get(1).unwrap_or_default());
        return Ok(Outcome::Done);
    }
    match args.try_get(1) {
        Some(message) => reply.bulk(message),
        None => reply.simple(b"PONG"),
    }
    Ok(Outcome::Done)
}

fn select(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if ctx.core.config.cluster_enabled && options::int32(args, 1, None)? != 0 {
        return Err(CommandError::fixed("ERR SELECT is not allowed in cluster mode"));
    }
    let db = options::database(args, 1, ctx.core.keyspace.count())?;
    ctx.core.clients.get_mut(ctx.client).db = db;
    reply.ok();
    Ok(Outcome::Done)
}

/// Refuses a name that would break CLIENT LIST's lines.
pub(super) fn check_name(name: &[u8]) -> Result<(), CommandError> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(CommandError::fixed("ERR Client names cannot contain spaces, newlines or special characters."))
}

/// There is one user, `default`; without a password set, any will do.
fn log_in(ctx: &mut Context<'_>, user: &[u8], password: &[u8]) -> Result<(), CommandError> {
    let wanted: &[u8] = &ctx.core.config.requirepass;
    if user != b"default" || (!wanted.is_empty() && !same(wanted, password)) {
        return Err(CommandError::WrongPass);
    }
    ctx.core.clients.get_mut(ctx.client).authenticated = true;
    Ok(())
}

/// Compares without telling by its duration how much of the password was right.
fn same(wanted: &[u8], given: &[u8]) -> bool {
    let differ = wanted.iter().zip(given).fold(0, |differ, (a, b)| differ | (a ^ b));
    wanted.len() == given.len() && differ == 0
}

fn auth(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    match args.rest(1) {
        [_] if ctx.core.config.requirepass.is_empty() => return Err(CommandError::NoPasswordSet),
        [password] => log_in(ctx, b"default", password)?,
        [user, password] => log_in(ctx, user, password)?,
        _ => return Err(CommandError::Syntax),
    }
    reply.ok();
    Ok(Outcome::Done)
}

/// User and password behind HELLO's AUTH, as far as its options can be read.
fn is_hello_secret(args: &Args<'_>, i: usize) -> bool {
    let mut at = 2;
    while at < i {
        if args.is(at, "auth") && at + 2 < args.len() {
            if i <= at + 2 {
                return true;
            }
            at += 3;
        } else if args.is(at, "setname") {
            at += 2;
        } else {
            return false;
        }
    }
    false
}

fn hello(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let protocol = match args.try_get(1).map(number::parse_i64) {
        None => None,
        Some(Some(2)) => Some(Protocol::Resp2),
        Some(Some(3)) => Some(Protocol::Resp3),
        Some(Some(_)) => return Err(CommandError::fixed("NOPROTO unsupported protocol version")),
        Some(None) => {
            return Err(CommandError::fixed("ERR Protocol version is not an integer or out of range"));
        }
    };
    // Options take effect one by one, as in Redis: a failure leaves what came before it.
    let mut options = args.rest(2);
    while let [option, rest @ ..] = options {
        options = match rest {
            [user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                log_in(ctx, user, password)?;
                rest
            }
            [name, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                check_name(name)?;
                ctx.core.clients.get_mut(ctx.client).name = name.to_vec();
                rest
            }
            _ => {
                let line = [&b"ERR Syntax error in HELLO option '"[..], option, b"'"].concat();
                return Err(CommandError::Bytes(line));
            }
        };
    }
    let version = ctx.core.config.compat_version.text.clone();
    let cluster = ctx.core.config.cluster_enabled;
    let session = ctx.core.clients.get_mut(ctx.client);
    if !session.authenticated {
        return Err(CommandError::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol \
             version at the same time",
        ));
    }
    if let Some(protocol) = protocol {
        session.protocol = protocol;
        reply.speak(protocol);
    }
    reply.map(7);
    reply.text("server");
    reply.text("redis");
    reply.text("version");
    reply.text(&version);
    reply.text("proto");
    reply.integer(if session.protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.text("id");
    reply.integer(session.id as i64);
    reply.text("mode");
    reply.text(if cluster { "cluster" } else { "standalone" });
    reply.text("role");
    reply.text("master");
    reply.text("modules");
    reply.array(0);
    Ok(Outcome::Done)
}

fn reset(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let open = ctx.core.config.requirepass.is_empty();
    ctx.core.unwatch(ctx.client);
    ctx.core.untrack(ctx.client);
    ctx.core.unsubscribe_from_all(ctx.client);
    ctx.core.remove_monitor(ctx.client);
    let session = ctx.core.clients.get_mut(ctx.client);
    session.queue = None;
    session.db = 0;
    session.protocol = Protocol::Resp2;
    session.authenticated = open;
    session.name.clear();
    session.reply_mode = ReplyMode::On;
    session.no_evict = false;
    session.no_touch = false;
    session.read_only = false;
    reply.speak(Protocol::Resp2);
    reply.simple(b"RESET");
    Ok(Outcome::Done)
}
