//! SUBSCRIBE and its kin, PUBLISH, SPUBLISH, PUBSUB. Not here: who listens to what and how messages
//! travel (`engine::pubsub`).

use super::help;
use crate::base::error::CommandError;
use crate::base::glob;
use crate::engine::pubsub::Kind;
use crate::engine::session::ReplyMode;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, KeySpec, Outcome, Spec};
use crate::resp::{Args, Reply, RespWriter};
use std::rc::Rc;

type Answer = Result<Outcome, CommandError>;

const LISTEN: Flags =
    Flags::PUBSUB.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE).or(Flags::IN_SUBSCRIBE);
const SPEAK: Flags =
    Flags::PUBSUB.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST).or(Flags::MAY_REPLICATE);
const ASK: Flags = Flags::PUBSUB.or(Flags::LOADING).or(Flags::STALE);

const SUB: Spec = Spec { group: Group::PubSub, flags: ASK, ..Spec::NONE };

/// Shard channels are told like keys, so that a cluster client finds their node.
const SHARDS: &[KeySpec] = &[KeySpec::range(1, -1, 1, &["not_key"])];

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "subscribe",
        since: "2.0.0",
        complexity: "O(N) where N is the number of channels to subscribe to.",
        summary: "Listens to channels.",
        synopsis: "channel [channel ...]",
        arity: Arity::AtLeast(2),
        flags: LISTEN,
        handler: Handler::Server(|ctx, args, reply| subscribe(ctx, args, reply, Kind::Channel)),
        ..SUB
    },
    Spec {
        name: "unsubscribe",
        since: "2.0.0",
        complexity: "O(N) where N is the number of clients already subscribed to a channel.",
        summary: "Listens to these channels no more, or to none.",
        synopsis: "[channel [channel ...]]",
        arity: Arity::AtLeast(1),
        flags: LISTEN,
        handler: Handler::Server(|ctx, args, reply| unsubscribe(ctx, args, reply, Kind::Channel)),
        ..SUB
    },
    Spec {
        name: "psubscribe",
        since: "2.0.0",
        complexity: "O(N) where N is the number of patterns to subscribe to.",
        summary: "Listens to all channels that match patterns.",
        synopsis: "pattern [pattern ...]",
        arity: Arity::AtLeast(2),
        flags: LISTEN,
        handler: Handler::Server(|ctx, args, reply| subscribe(ctx, args, reply, Kind::Pattern)),
        ..SUB
    },
    Spec {
        name: "punsubscribe",
        since: "2.0.0",
        complexity: "O(N) where N is the number of patterns to unsubscribe.",
        summary: "Listens to these patterns no more, or to none.",
        synopsis: "[pattern [pattern ...]]",
        arity: Arity::AtLeast(1),
        flags: LISTEN,
        handler: Handler::Server(|ctx, args, reply| unsubscribe(ctx, args, reply, Kind::Pattern)),
        ..SUB
    },
    Spec {
        name: "ssubscribe",
        since: "7.0.0",
        complexity: "O(N) where N is the number of shard channels to subscribe to.",
        summary: "Listens to shard channels.",
        synopsis: "shardchannel [shardchannel ...]",
        arity: Arity::AtLeast(2),
        flags: LISTEN,
        keys: SHARDS,
        handler: Handler::Server(|ctx, args, reply| subscribe(ctx, args, reply, Kind::Shard)),
        ..SUB
    },
    Spec {
        name: "sunsubscribe",
        since: "7.0.0",
        complexity: "O(N) where N is the number of clients already subscribed to a shard channel.",
        summary: "Listens to these shard channels no more, or to none.",
        synopsis: "[shardchannel [shardchannel ...]]",
        arity: Arity::AtLeast(1),
        flags: LISTEN,
        keys: SHARDS,
        handler: Handler::Server(|ctx, args, reply| unsubscribe(ctx, args, reply, Kind::Shard)),
        ..SUB
    },
    Spec {
        name: "publish",
        since: "2.0.0",
        complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the \
                     total number of subscribed patterns (by any client).",
        summary: "Sends a message to all who listen to a channel.",
        synopsis: "channel message",
        arity: Arity::Exactly(3),
        flags: SPEAK,
        handler: Handler::Server(publish),
        ..SUB
    },
    Spec {
        name: "spublish",
        since: "7.0.0",
        complexity: "O(N) where N is the number of clients subscribed to the receiving shard channel.",
        summary: "Sends a message to all who listen to a shard channel.",
        synopsis: "shardchannel message",
        arity: Arity::Exactly(3),
        flags: SPEAK,
        keys: &[KeySpec::one(1, &["not_key"])],
        handler: Handler::Server(spublish),
        ..SUB
    },
    Spec {
        name: "pubsub",
        since: "2.8.0",
        complexity: "Depends on subcommand.",
        summary: "Holds the commands about who listens to what.",
        arity: Arity::AtLeast(2),
        flags: Flags(0),
        subcommands: &[
            Spec {
                name: "channels",
                since: "2.8.0",
                complexity: "O(N) where N is the number of active channels, and assuming constant time pattern \
                             matching (relatively short channels and patterns)",
                summary: "Lists the channels that somebody listens to.",
                synopsis: "[pattern]",
                arity: Arity::AtLeast(2),
                handler: Handler::Server(|ctx, args, reply| channels(ctx, args, reply, Kind::Channel)),
                ..SUB
            },
            Spec {
                name: "numpat",
                since: "2.8.0",
                summary: "Counts the patterns that somebody listens to.",
                arity: Arity::Exactly(2),
                handler: Handler::Server(numpat),
                ..SUB
            },
            Spec {
                name: "numsub",
                since: "2.8.0",
                complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
                summary: "Counts who listens to each channel, patterns left aside.",
                synopsis: "[channel [channel ...]]",
                arity: Arity::AtLeast(2),
                handler: Handler::Server(|ctx, args, reply| numsub(ctx, args, reply, Kind::Channel)),
                ..SUB
            },
            Spec {
                name: "shardchannels",
                since: "7.0.0",
                complexity: "O(N) where N is the number of active shard channels, and assuming constant time \
                             pattern matching (relatively short shard channels).",
                summary: "Lists the shard channels that somebody listens to.",
                synopsis: "[pattern]",
                arity: Arity::AtLeast(2),
                handler: Handler::Server(|ctx, args, reply| channels(ctx, args, reply, Kind::Shard)),
                ..SUB
            },
            Spec {
                name: "shardnumsub",
                since: "7.0.0",
                complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard \
                             channels",
                summary: "Counts who listens to each shard channel.",
                synopsis: "[shardchannel [shardchannel ...]]",
                arity: Arity::AtLeast(2),
                handler: Handler::Server(|ctx, args, reply| numsub(ctx, args, reply, Kind::Shard)),
                ..SUB
            },
            help::entry(Group::PubSub, "6.2.0"),
        ],
        ..SUB
    },
];

/// The words by which a change is confirmed.
fn verbs(kind: Kind) -> (&'static [u8], &'static [u8]) {
    match kind {
        Kind::Channel => (b"subscribe", b"unsubscribe"),
        Kind::Pattern => (b"psubscribe", b"punsubscribe"),
        Kind::Shard => (b"ssubscribe", b"sunsubscribe"),
    }
}

/// Says one confirmation. They are pushes: CLIENT REPLY does not hold them back.
fn confirm(ctx: &mut Context<'_>, reply: &mut dyn Reply, verb: &[u8], name: Option<&[u8]>, count: usize) {
    let say = |reply: &mut dyn Reply| {
        reply.push(3);
        reply.bulk(verb);
        reply.bulk_or_null(name);
        reply.integer(count as i64);
    };
    let session = ctx.core.clients.get(ctx.client);
    if session.reply_mode == ReplyMode::On {
        return say(reply);
    }
    let mut bytes = Vec::new();
    say(&mut RespWriter::new(&mut bytes, session.protocol));
    ctx.core.push(ctx.client, &bytes);
}

fn subscribe(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply, kind: Kind) -> Answer {
    for name in args.rest(1) {
        let count = ctx.core.subscribe(ctx.client, kind, name);
        confirm(ctx, reply, verbs(kind).0, Some(name), count);
    }
    Ok(Outcome::Done)
}

fn unsubscribe(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply, kind: Kind) -> Answer {
    let verb = verbs(kind).1;
    if args.len() > 1 {
        for name in args.rest(1) {
            let count = ctx.core.unsubscribe(ctx.client, kind, name);
            confirm(ctx, reply, verb, Some(name), count);
        }
        return Ok(Outcome::Done);
    }
    let mut names: Vec<Rc<[u8]>> = ctx.core.pubsub.names(ctx.client, kind).to_vec();
    if names.is_empty() {
        let count = ctx.core.confirmed_count(ctx.client, kind);
        confirm(ctx, reply, verb, None, count);
    }
    if kind != Kind::Pattern {
        // The last first, which is cheap; only patterns have an order in Redis.
        names.reverse();
    }
    for name in names {
        let count = ctx.core.unsubscribe(ctx.client, kind, &name);
        confirm(ctx, reply, verb, Some(&name), count);
    }
    Ok(Outcome::Done)
}

fn publish(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let reached = ctx.core.publish(args.get(1), args.get(2));
    reply.integer(reached as i64);
    Ok(Outcome::Done)
}

fn spublish(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let reached = ctx.core.publish_to_shard(args.get(1), args.get(2));
    reply.integer(reached as i64);
    Ok(Outcome::Done)
}

fn channels(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply, kind: Kind) -> Answer {
    if args.len() > 3 {
        return Err(help::wrong(args));
    }
    let mut names = ctx.core.pubsub.active(kind);
    if let Some(pattern) = args.try_get(2) {
        names.retain(|name| glob::matches(pattern, name, false));
    }
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(Outcome::Done)
}

fn numsub(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply, kind: Kind) -> Answer {
    let names = args.rest(2);
    reply.array(names.len() * 2);
    for name in names {
        reply.bulk(name);
        reply.integer(ctx.core.pubsub.listener_count(kind, name) as i64);
    }
    Ok(Outcome::Done)
}

fn numpat(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    reply.integer(ctx.core.pubsub.active_count(Kind::Pattern) as i64);
    Ok(Outcome::Done)
}
