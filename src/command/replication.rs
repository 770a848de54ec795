//! What clients ask of a lone master: WAIT, WAITAOF, ROLE, REPLICAOF. There are no replicas and no
//! append-only file, so nothing is ever acknowledged. Not here: how a client waits
//! (`engine::blocking`).

use super::options;
use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::core::Origin;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const CHANGE_ROLE: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE).or(Flags::NO_ASYNC_LOADING);

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "wait",
        group: Group::Generic,
        since: "3.0.0",
        summary: "Waits until so many replicas have all writes so far, or for so long; tells how many have.",
        synopsis: "numreplicas timeout",
        arity: Arity::Exactly(3),
        flags: Flags::NOSCRIPT,
        acl: &["connection"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        handler: Handler::Server(wait),
        ..Spec::NONE
    },
    Spec {
        name: "waitaof",
        group: Group::Generic,
        since: "7.2.0",
        summary: "The same for writes that are on disk, here and with so many replicas.",
        synopsis: "numlocal numreplicas timeout",
        arity: Arity::Exactly(4),
        flags: Flags::NOSCRIPT,
        acl: &["connection"],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        handler: Handler::Server(waitaof),
        ..Spec::NONE
    },
    Spec {
        name: "role",
        group: Group::Server,
        since: "2.8.12",
        summary: "Tells that this server is a master without replicas.",
        arity: Arity::Exactly(1),
        flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST),
        acl: &["admin", "dangerous"],
        handler: Handler::Server(|_, _, reply| {
            reply.array(3);
            reply.text("master");
            reply.integer(0);
            reply.array(0);
            Ok(Outcome::Done)
        }),
        ..Spec::NONE
    },
    Spec {
        name: "replicaof",
        group: Group::Server,
        since: "5.0.0",
        summary: "REPLICAOF NO ONE makes a master of the server, which it is.",
        synopsis: "<host port | NO ONE>",
        arity: Arity::Exactly(3),
        flags: CHANGE_ROLE,
        handler: Handler::Server(replicaof),
        ..Spec::NONE
    },
    Spec {
        name: "slaveof",
        group: Group::Server,
        since: "1.0.0",
        summary: "The older name of REPLICAOF.",
        synopsis: "<host port | NO ONE>",
        arity: Arity::Exactly(3),
        flags: CHANGE_ROLE,
        deprecated: ("5.0.0", "`REPLICAOF`"),
        handler: Handler::Server(replicaof),
        ..Spec::NONE
    },
    Spec {
        name: "failover",
        group: Group::Server,
        since: "6.2.0",
        summary: "Would hand over to a replica, of which there is none.",
        synopsis: "[TO <host> <port> [FORCE]] [ABORT] [TIMEOUT milliseconds]",
        arity: Arity::AtLeast(1),
        flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
        handler: Handler::Server(failover),
        ..Spec::NONE
    },
];

/// Waits for replicas, where any are wanted, for as long as was said; 0: for ever.
fn block(ctx: &mut Context<'_>, args: &Args<'_>, timeout_at: usize, zeros: usize) -> Answer {
    let until = options::timeout_ms(args, timeout_at, ctx.now)?;
    ctx.core.wait_for_replicas(ctx.client, (until > ctx.now).then_some(until), zeros);
    Ok(Outcome::Block)
}

fn wait(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let wanted = args.int(1)?;
    options::timeout_ms(args, 2, ctx.now)?;
    if wanted <= 0 || ctx.origin != Origin::Client {
        reply.integer(0);
        return Ok(Outcome::Done);
    }
    block(ctx, args, 2, 1)
}

fn waitaof(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let local = number::parse_i64(args.get(1)).ok_or(CommandError::NotAnInteger)?;
    if !(0..=1).contains(&local) {
        return Err(CommandError::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let wanted = number::parse_i64(args.get(2)).filter(|&wanted| wanted >= 0);
    let wanted = wanted.ok_or(CommandError::MustBePositive)?;
    options::timeout_ms(args, 3, ctx.now)?;
    if local > 0 {
        return Err(CommandError::fixed(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    if wanted == 0 || ctx.origin != Origin::Client {
        reply.array(2);
        reply.integer(0);
        reply.integer(0);
        return Ok(Outcome::Done);
    }
    block(ctx, args, 3, 2)
}

fn replicaof(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if ctx.core.config.cluster_enabled {
        return Err(CommandError::fixed("ERR REPLICAOF not allowed in cluster mode."));
    }
    if args.is(1, "no") && args.is(2, "one") {
        reply.ok();
        return Ok(Outcome::Done);
    }
    let port = number::parse_i64(args.get(2)).filter(|port| (0..=65535).contains(port));
    port.ok_or(CommandError::fixed("ERR Invalid master port"))?;
    Err(CommandError::fixed("ERR keylatch does not replicate: nothing but REPLICAOF NO ONE can be had"))
}

fn failover(ctx: &mut Context<'_>, args: &Args<'_>, _: &mut dyn Reply) -> Answer {
    if ctx.core.config.cluster_enabled {
        return Err(CommandError::fixed("ERR FAILOVER not allowed in cluster mode."));
    }
    if args.len() == 2 && args.is(1, "abort") {
        return Err(CommandError::fixed("ERR No failover in progress."));
    }
    Err(CommandError::fixed("ERR FAILOVER requires connected replicas."))
}
