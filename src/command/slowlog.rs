//! SLOWLOG. Not here: what enters the slow log (`engine::slowlog`).

use super::help;
use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

/// Entries that SLOWLOG GET shows unasked.
const SHOWN: i64 = 10;

const SUB: Spec = Spec {
    group: Group::Server,
    since: "2.2.12",
    flags: Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE),
    ..Spec::NONE
};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "slowlog",
    group: Group::Server,
    since: "2.2.12",
    complexity: "Depends on subcommand.",
    summary: "Holds the commands about slow commands.",
    arity: Arity::AtLeast(2),
    subcommands: &[
        Spec {
            name: "get",
            complexity: "O(N) where N is the number of entries returned",
            summary: "Shows the last slow commands, the newest first; -1: all.",
            synopsis: "[count]",
            arity: Arity::AtLeast(2),
            tips: &["request_policy:all_nodes", "nondeterministic_output"],
            history: &[("4.0.0", "Shows the client's address and name.")],
            handler: Handler::Server(get),
            ..SUB
        },
        Spec {
            name: "len",
            summary: "Counts the slow commands that are kept.",
            arity: Arity::Exactly(2),
            tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
            handler: Handler::Server(|ctx, _, reply| {
                reply.integer(ctx.core.slowlog.entries().len() as i64);
                Ok(Outcome::Done)
            }),
            ..SUB
        },
        Spec {
            name: "reset",
            complexity: "O(N) where N is the number of entries in the slowlog",
            summary: "Forgets them.",
            arity: Arity::Exactly(2),
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            handler: Handler::Server(|ctx, _, reply| {
                ctx.core.slowlog.clear();
                reply.ok();
                Ok(Outcome::Done)
            }),
            ..SUB
        },
        help::entry(Group::Server, "6.2.0"),
    ],
    ..Spec::NONE
}];

fn get(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let count = match args.rest(2) {
        [] => SHOWN,
        [count] => number::parse_i64(count)
            .filter(|&count| count >= -1)
            .ok_or(CommandError::fixed("ERR count should be greater than or equal to -1"))?,
        _ => return Err(help::wrong(args)),
    };
    let entries = ctx.core.slowlog.entries();
    let shown = usize::try_from(count).map_or(entries.len(), |count| count.min(entries.len()));
    reply.array(shown);
    for entry in entries.take(shown) {
        reply.array(6);
        reply.integer(entry.id.cast_signed());
        reply.integer(entry.at_seconds);
        reply.integer(entry.micros.cast_signed());
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.text(&entry.addr);
        reply.bulk(&entry.name);
    }
    Ok(Outcome::Done)
}
