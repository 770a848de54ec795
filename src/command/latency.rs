//! LATENCY. Not here: what is noted (`engine::latency`, `engine::stats`).

use super::{help, latency_text};
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::engine::table::Command;
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

const SUB: Spec = Spec {
    group: Group::Server,
    since: "2.8.13",
    arity: Arity::Exactly(2),
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    tips: TIPS,
    ..Spec::NONE
};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "latency",
    group: Group::Server,
    since: "2.8.13",
    complexity: "Depends on subcommand.",
    summary: "Holds the commands about what took long.",
    arity: Arity::AtLeast(2),
    subcommands: &[
        Spec {
            name: "doctor",
            summary: "Tells in words what took long.",
            handler: Handler::Server(|ctx, _, reply| {
                reply.verbatim(b"txt", latency_text::report(ctx.core).as_bytes());
                Ok(Outcome::Done)
            }),
            ..SUB
        },
        Spec {
            name: "graph",
            summary: "Draws how long an event took, over time.",
            synopsis: "event",
            arity: Arity::Exactly(3),
            handler: Handler::Server(graph),
            ..SUB
        },
        Spec {
            name: "histogram",
            since: "7.0.0",
            complexity: "O(N) where N is the number of commands with latency information being retrieved.",
            summary: "Tells how many calls of commands took up to how many microseconds.",
            synopsis: "[command [command ...]]",
            arity: Arity::AtLeast(2),
            handler: Handler::Server(histogram),
            ..SUB
        },
        Spec {
            name: "history",
            summary: "Tells when an event took how many milliseconds.",
            synopsis: "event",
            arity: Arity::Exactly(3),
            handler: Handler::Server(history),
            ..SUB
        },
        Spec {
            name: "latest",
            summary: "Tells of each event when it last took long, how long, and the worst so far.",
            handler: Handler::Server(latest),
            ..SUB
        },
        Spec {
            name: "reset",
            summary: "Forgets events, or all.",
            synopsis: "[event [event ...]]",
            arity: Arity::AtLeast(2),
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            handler: Handler::Server(reset),
            ..SUB
        },
        help::entry(Group::Server, "2.8.13"),
    ],
    ..Spec::NONE
}];

fn graph(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let Some((name, event)) = ctx.core.latency.find(args.get(2)) else {
        let line = [&b"ERR No samples available for event '"[..], args.get(2), b"'"].concat();
        return Err(CommandError::Bytes(line));
    };
    reply.verbatim(b"txt", latency_text::graph(name, event, ctx.now).as_bytes());
    Ok(Outcome::Done)
}

fn history(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let Some((_, event)) = ctx.core.latency.find(args.get(2)) else {
        reply.array(0);
        return Ok(Outcome::Done);
    };
    reply.array(event.samples.len());
    for sample in &event.samples {
        reply.array(2);
        reply.integer(sample.at);
        reply.integer(sample.ms.cast_signed());
    }
    Ok(Outcome::Done)
}

fn latest(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let events = ctx.core.latency.iter();
    reply.array(events.len());
    for (name, event) in events {
        let (at, ms) = event.samples.back().map_or((0, 0), |last| (last.at, last.ms));
        reply.array(4);
        reply.text(name);
        reply.integer(at);
        reply.integer(ms.cast_signed());
        reply.integer(event.worst_ms.cast_signed());
    }
    Ok(Outcome::Done)
}

fn reset(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let events = &mut ctx.core.latency;
    let forgotten = match args.rest(2) {
        [] => events.clear(),
        names => names.iter().filter(|name| events.remove(name)).count(),
    };
    reply.integer(forgotten as i64);
    Ok(Outcome::Done)
}

fn histogram(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let core = &*ctx.core;
    // A container stands for its subcommands.
    let with_subs = |command: &'static Command| {
        let subs = command.children.iter().map(|&id| core.table.get(id));
        std::iter::once(command).chain(subs)
    };
    let table = core.table;
    let mut shown: Vec<&Command> = match args.rest(2) {
        [] => table.all().iter().collect(),
        names => names.iter().filter_map(|name| table.find_full(name)).flat_map(with_subs).collect(),
    };
    shown.retain(|command| !core.stats.times[command.id].is_empty());
    reply.map(shown.len());
    for command in shown {
        let times = &core.stats.times[command.id];
        let powers = times.cumulative_powers_of_two();
        reply.text(&command.full_name);
        reply.map(2);
        reply.text("calls");
        reply.integer(times.count().cast_signed());
        reply.text("histogram_usec");
        reply.map(powers.len());
        for (micros, calls) in powers {
            reply.integer(micros.cast_signed());
            reply.integer(calls.cast_signed());
        }
    }
    Ok(Outcome::Done)
}
